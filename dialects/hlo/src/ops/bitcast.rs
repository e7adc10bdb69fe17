//! `bitcast`: the same bytes under another shape and layout. No data moves.
//!
//! Source: XLA's verifier. The result is the declared shape; layouts take part in what it means.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

/// Definition of `bitcast`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Bitcast,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Free),
    infer_shape,
);

/// - C1: operand and result have the same number of bits.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, result) = (view.array(0)?, view.declared_array()?);
    let (expected, found) = (bits(operand), bits(result));
    if expected != found {
        let message = format!("the result must have the {expected} bits of {operand}, got {result} of {found}");
        return Err(view.error(Some("C1"), message));
    }
    Ok(result.clone().into())
}

/// Bits of an array's elements; saturates where readers have already refused the shape.
fn bits(shape: &ArrayShape) -> i64 {
    shape.element_count().saturating_mul(i64::from(shape.element_type.bit_width()))
}
