//! `reduce-precision`: rounds to a float format of fewer bits and back.
//!
//! Source: operation semantics, "ReducePrecision".

use super::element_classes::FLOAT;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `reduce-precision`.
    pub struct ReducePrecisionAttributes {
        /// Bits of the exponent.
        required exponent_bits: i64,
        /// Bits of the mantissa, without the leading one.
        required mantissa_bits: i64,
    }
}

/// Definition of `reduce-precision`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::ReducePrecision,
    Arity::Exactly(1),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Simple),
    infer_shape,
)
.with_attributes(ReducePrecisionAttributes::TABLE);

/// - C1: the operand is floating-point.
/// - C2: the format has at least one exponent bit.
/// - C3: the number of mantissa bits is not negative.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.element_class(Some("C1"), 0, &FLOAT)?;
    let ReducePrecisionAttributes { exponent_bits: exponent, mantissa_bits: mantissa } = view.attributes()?;
    if exponent < 1 {
        return Err(view.attribute_error(Some("C2"), "exponent_bits", format!("must be at least 1, got {exponent}")));
    }
    if mantissa < 0 {
        return Err(view.attribute_error(Some("C3"), "mantissa_bits", format!("must be at least 0, got {mantissa}")));
    }
    Ok(view.array(0)?.clone().into())
}
