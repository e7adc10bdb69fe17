//! Comparison of registers.

use hlo::attributes::Attributes;
use hlo::element_type::{ElementClass, ElementType};
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::{ComparisonDirection, ComparisonType};
use hlo::ops::typed_attributes::OperationAttributes;
use melior::ir::Type;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::complex::{self, Complex};
use super::{RegisterValue, table};

/// What a comparison asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The relation.
    pub direction: ComparisonDirection,
    /// Whether floats are compared in their total order, -NaN < -inf < … < -0 < 0 < … < inf < NaN.
    pub total_order: bool,
}

impl Comparison {
    /// The comparison of an instruction's attributes `direction` and `type`.
    pub fn from_attributes(attributes: &Attributes) -> Option<Self> {
        let compare = CompareAttributes::read(OpKind::Compare, attributes).ok()?;
        Some(Comparison {
            direction: compare.direction,
            total_order: compare.r#type == Some(ComparisonType::TotalOrder),
        })
    }
}

/// Compares elements of one type; the result is `pred`. Complex numbers are only equal or not.
pub fn compare<'c>(
    builder: &OpBuilder<'c>,
    comparison: Comparison,
    a: &RegisterValue<'c>,
    b: &RegisterValue<'c>,
) -> Option<RegisterValue<'c>> {
    if a.element_type != b.element_type {
        return None;
    }
    let result = match a.element_type.class() {
        ElementClass::Predicate | ElementClass::Unsigned => {
            builder.cmpi(unsigned_predicate(comparison.direction), a.value, b.value)
        }
        ElementClass::Signed => builder.cmpi(signed_predicate(comparison.direction), a.value, b.value),
        ElementClass::Float if comparison.total_order => {
            let predicate = signed_predicate(comparison.direction);
            builder.cmpi(predicate, total_order_key(builder, a.value), total_order_key(builder, b.value))
        }
        ElementClass::Float => builder.cmpf(float_predicate(comparison.direction), a.value, b.value),
        ElementClass::Complex => {
            let operands: Vec<Complex> = table::complex_operands(&[*a, *b])?;
            complex::compare(builder, signed_predicate(comparison.direction), operands[0], operands[1])?
        }
    };
    Some(RegisterValue::real(builder, ElementType::Pred, result))
}

/// Signed integers in the total order of the floats: the bits, all but the sign inverted for negative ones.
pub(super) fn total_order_key<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    let width = if builder.element_type_of(value.r#type()) == Type::float64(builder.context()) { 64 } else { 32 };
    ordered_bits(builder, builder.bitcast(value, builder.integer_type(width)), width)
}

/// As [`total_order_key`], of what a float of so many bits is in memory.
pub(crate) fn ordered_bits<'c>(builder: &OpBuilder<'c>, bits: Value<'c>, width: u32) -> Value<'c> {
    let sign = builder.shrsi(bits, builder.integer_like(bits, i64::from(width) - 1));
    let flip = builder.shrui(sign, builder.integer_like(bits, 1));
    builder.xori(bits, flip)
}

fn signed_predicate(direction: ComparisonDirection) -> CmpiPredicate {
    match direction {
        ComparisonDirection::Eq => CmpiPredicate::Eq,
        ComparisonDirection::Ne => CmpiPredicate::Ne,
        ComparisonDirection::Ge => CmpiPredicate::Sge,
        ComparisonDirection::Gt => CmpiPredicate::Sgt,
        ComparisonDirection::Le => CmpiPredicate::Sle,
        ComparisonDirection::Lt => CmpiPredicate::Slt,
    }
}

fn unsigned_predicate(direction: ComparisonDirection) -> CmpiPredicate {
    match direction {
        ComparisonDirection::Eq => CmpiPredicate::Eq,
        ComparisonDirection::Ne => CmpiPredicate::Ne,
        ComparisonDirection::Ge => CmpiPredicate::Uge,
        ComparisonDirection::Gt => CmpiPredicate::Ugt,
        ComparisonDirection::Le => CmpiPredicate::Ule,
        ComparisonDirection::Lt => CmpiPredicate::Ult,
    }
}

/// NaN is unequal to everything and in no other relation.
fn float_predicate(direction: ComparisonDirection) -> CmpfPredicate {
    match direction {
        ComparisonDirection::Eq => CmpfPredicate::Oeq,
        ComparisonDirection::Ne => CmpfPredicate::Une,
        ComparisonDirection::Ge => CmpfPredicate::Oge,
        ComparisonDirection::Gt => CmpfPredicate::Ogt,
        ComparisonDirection::Le => CmpfPredicate::Ole,
        ComparisonDirection::Lt => CmpfPredicate::Olt,
    }
}
