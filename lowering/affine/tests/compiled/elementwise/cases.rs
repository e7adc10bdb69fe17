//! The cases of one element type: what hlo's verifier accepts.

use std::fmt;

use hlo::attributes::{AttributeValue, Attributes};
use hlo::element_type::ElementType;
use hlo::graph::Instruction;
use hlo::op_kind::OpKind;
use hlo::ops::{self, OpView};
use hlo::shape::Shape;

/// One operation on given element types.
#[derive(Clone, Debug)]
pub struct Case {
    pub kind: OpKind,
    pub attributes: Attributes,
    pub operands: Vec<ElementType>,
    pub result: ElementType,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands: Vec<&str> = self.operands.iter().map(|operand| operand.name()).collect();
        write!(f, "{} {}({})", self.result, self.kind, operands.join(", "))?;
        for (name, value) in self.attributes.iter() {
            write!(f, " {name}={value:?}")?;
        }
        Ok(())
    }
}

impl Case {
    /// The operation on arrays of `count` elements, without operands.
    pub fn instruction(&self, count: usize) -> Instruction {
        Instruction {
            name: "case".into(),
            kind: self.kind,
            shape: Shape::array(self.result, [count as i64]),
            operands: Vec::new(),
            attributes: self.attributes.clone(),
            computations: Vec::new(),
            callee: None,
            annotations: Vec::new(),
            position: None,
        }
    }

    fn is_valid(&self) -> bool {
        let shapes: Vec<Shape> = self.operands.iter().map(|&operand| Shape::array(operand, [8])).collect();
        let result = Shape::array(self.result, [8]);
        ops::verify(&OpView {
            kind: self.kind,
            operands: &shapes.iter().collect::<Vec<_>>(),
            attributes: &self.attributes,
            computations: &[],
            result: Some(&result),
        })
        .is_ok()
    }
}

const UNARY: &[OpKind] = &[
    OpKind::Abs,
    OpKind::Acos,
    OpKind::Acosh,
    OpKind::Asin,
    OpKind::Asinh,
    OpKind::Atanh,
    OpKind::Cbrt,
    OpKind::Ceil,
    OpKind::Copy,
    OpKind::Cosh,
    OpKind::Cosine,
    OpKind::CountLeadingZeros,
    OpKind::Erf,
    OpKind::Exponential,
    OpKind::ExponentialMinusOne,
    OpKind::Floor,
    OpKind::Imag,
    OpKind::IsFinite,
    OpKind::Log,
    OpKind::LogPlusOne,
    OpKind::Logistic,
    OpKind::Negate,
    OpKind::Not,
    OpKind::PopulationCount,
    OpKind::Real,
    OpKind::RoundNearestAfz,
    OpKind::RoundNearestEven,
    OpKind::Rsqrt,
    OpKind::Sign,
    OpKind::Sine,
    OpKind::Sinh,
    OpKind::Sqrt,
    OpKind::Tan,
    OpKind::Tanh,
];

const BINARY: &[OpKind] = &[
    OpKind::Add,
    OpKind::And,
    OpKind::Atan2,
    OpKind::Complex,
    OpKind::Divide,
    OpKind::Maximum,
    OpKind::Minimum,
    OpKind::Multiply,
    OpKind::Or,
    OpKind::Power,
    OpKind::Remainder,
    OpKind::ShiftLeft,
    OpKind::ShiftRightArithmetic,
    OpKind::ShiftRightLogical,
    OpKind::Subtract,
    OpKind::Xor,
];

/// Every valid case whose first operand has the element type (`select`: second).
pub fn cases(element_type: ElementType) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |kind, attributes: Attributes, operands: &[ElementType], result| {
        let case = Case { kind, attributes, operands: operands.to_vec(), result };
        if case.is_valid() {
            cases.push(case);
        }
    };
    let types = [
        element_type,
        element_type.real_part(),
        element_type.complex_of().unwrap_or(ElementType::Pred),
        ElementType::Pred,
    ];
    for (operands, kinds) in [(1, UNARY), (2, BINARY)] {
        for &kind in kinds {
            for (position, &result) in types.iter().enumerate() {
                if !types[..position].contains(&result) {
                    add(kind, Attributes::new(), &vec![element_type; operands], result);
                }
            }
        }
    }
    for direction in ["EQ", "NE", "GE", "GT", "LE", "LT"] {
        let attributes = Attributes::new().with("direction", AttributeValue::Word(direction.into()));
        add(OpKind::Compare, attributes.clone(), &[element_type; 2], ElementType::Pred);
        let attributes = attributes.with("type", AttributeValue::Word("TOTALORDER".into()));
        if element_type.is_float() {
            add(OpKind::Compare, attributes, &[element_type; 2], ElementType::Pred);
        }
    }
    add(OpKind::Select, Attributes::new(), &[ElementType::Pred, element_type, element_type], element_type);
    add(OpKind::Clamp, Attributes::new(), &[element_type; 3], element_type);
    for (exponent, mantissa) in [(5, 10), (8, 7), (4, 3), (8, 23), (11, 52), (5, 0), (1, 2), (6, 30), (9, 40)] {
        let attributes = Attributes::new()
            .with("exponent_bits", AttributeValue::Int(exponent))
            .with("mantissa_bits", AttributeValue::Int(mantissa));
        add(OpKind::ReducePrecision, attributes, &[element_type], element_type);
    }
    for to in ElementType::all() {
        add(OpKind::Convert, Attributes::new(), &[element_type], to);
        if to.bit_width() == element_type.bit_width() && to.is_complex() == element_type.is_complex() {
            add(OpKind::BitcastConvert, Attributes::new(), &[element_type], to);
        }
        for random in [ElementType::U16, ElementType::U32, ElementType::U64] {
            add(OpKind::StochasticConvert, Attributes::new(), &[element_type, random], to);
        }
    }
    cases
}
