//! `tuple`: the operands as one value.
//!
//! Source: operation semantics, "Tuple".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `tuple`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Tuple,
    Arity::AtLeast(0),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(Shape::Tuple(view.operands.iter().map(|&operand| operand.clone()).collect()))
}
