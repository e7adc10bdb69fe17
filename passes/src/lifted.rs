//! Computations of scalars, on arrays: element by element.

use hlo::attributes::Attributes;
use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::{OpClass, definition};
use hlo::shape::ArrayShape;

use crate::graph_builder::GraphBuilder;

/// The types that arrays of a computation have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// Those of its scalars.
    Own,
    /// For floats and complex numbers, the widest.
    Widest,
}

impl Precision {
    /// What a type becomes.
    pub(crate) fn of(self, element_type: ElementType) -> ElementType {
        match (self, element_type.class()) {
            (Precision::Widest, ElementClass::Float) => ElementType::F64,
            (Precision::Widest, ElementClass::Complex) => ElementType::C128,
            _ => element_type,
        }
    }
}

/// Appends what a computation of scalars gives for each element of arrays of some sizes: its results, one after the other. `None` if it does
/// anything but arithmetic.
pub(crate) fn lift(
    builder: &mut GraphBuilder,
    computation: &Computation,
    arguments: &[InstructionId],
    (sizes, precision): (&[i64], Precision),
) -> Option<Vec<InstructionId>> {
    let mut values: Vec<Vec<InstructionId>> = Vec::with_capacity(computation.instructions.len());
    for instruction in &computation.instructions {
        let operands: Vec<InstructionId> =
            instruction.operands.iter().flat_map(|operand| values[operand.index()].clone()).collect();
        let value = match instruction.kind {
            OpKind::Parameter => vec![*arguments.get(instruction.parameter_number()?)?],
            OpKind::Constant => {
                let ConstantAttributes { value } = instruction.attributes().ok()?;
                let constant = builder.literal(value.clone());
                let wide = builder.convert(constant, precision.of(builder.element_type(constant)));
                vec![builder.broadcast(wide, sizes, &[])]
            }
            OpKind::Tuple => operands,
            OpKind::GetTupleElement => {
                let GetTupleElementAttributes { index } = instruction.attributes().ok()?;
                vec![*operands.get(usize::try_from(index).ok()?)?]
            }
            _ => vec![lift_one(builder, instruction, &operands, (sizes, precision))?],
        };
        values.push(value);
    }
    values.into_iter().nth(computation.root.index())
}

/// One operation of scalars, on arrays.
fn lift_one(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    (sizes, precision): (&[i64], Precision),
) -> Option<InstructionId> {
    let scalar = instruction.shape.as_array().filter(|shape| shape.rank() == 0)?;
    let is_bits = matches!(instruction.kind, OpKind::BitcastConvert | OpKind::ReducePrecision);
    let is_elementwise =
        definition(instruction.kind).class == OpClass::Elementwise && instruction.computations.is_empty();
    if !is_elementwise || is_bits && precision == Precision::Widest {
        return None;
    }
    let element_type = precision.of(scalar.element_type);
    if instruction.kind == OpKind::Convert {
        return Some(builder.convert(*operands.first()?, element_type));
    }
    let attributes: Attributes = instruction.attributes.clone();
    Some(builder.add(instruction.kind, ArrayShape::new(element_type, sizes), operands, attributes))
}
