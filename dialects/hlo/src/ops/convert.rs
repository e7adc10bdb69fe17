//! `convert` and `stochastic-convert`: elementwise change of type by value.
//!
//! Source: operation semantics, "ConvertElementType"; the result type is the declared one.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `convert`.
pub static CONVERT: OpDefinition = OpDefinition::new(
    OpKind::Convert,
    Arity::Exactly(1),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_convert,
);

/// Definition of `stochastic-convert(operand, random)`: rounds up with the probability of the part cut off.
pub static STOCHASTIC_CONVERT: OpDefinition = OpDefinition::new(
    OpKind::StochasticConvert,
    Arity::Exactly(2),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Division),
    infer_stochastic,
);

/// - C1: a complex operand has a complex result: XLA defines no conversion to a real type.
fn infer_convert(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let element_type = view.declared_array()?.element_type;
    if operand.element_type.is_complex() && !element_type.is_complex() {
        let message = format!("of type {} converts to a complex type only, got {element_type}", operand.element_type);
        return Err(view.operand_error(Some("C1"), 0, message));
    }
    Ok(operand.with_element_type(element_type).into())
}

/// - C2: the operand is floating-point and the random bits are unsigned integers.
/// - C3: the random bits are as wide as the operand's elements.
/// - C4: the random bits have the operand's dimensions.
/// - C5: the result is an integer or floating-point type.
fn infer_stochastic(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, random) = (view.array(0)?, view.array(1)?);
    let element_type = view.declared_array()?.element_type;
    if !operand.element_type.is_float() {
        let message = format!("must have a floating-point element type, got {}", operand.element_type);
        return Err(view.operand_error(Some("C2"), 0, message));
    }
    if !random.element_type.is_unsigned_integer() {
        let message = format!("must have an unsigned integer element type, got {}", random.element_type);
        return Err(view.operand_error(Some("C2"), 1, message));
    }
    let (expected, found) = (operand.element_type.bit_width(), random.element_type.bit_width());
    if expected != found {
        return Err(view.operand_error(Some("C3"), 1, format!("must have elements of {expected} bits, got {found}")));
    }
    let merged = view.merged_dimensions(Some("C4"), &[0, 1])?;
    if !element_type.is_integer() && !element_type.is_float() {
        let message = format!("the result must have an integer or floating-point element type, got {element_type}");
        return Err(view.error(Some("C5"), message));
    }
    Ok(merged.with_element_type(element_type).into())
}
