//! `after-all`: a token that comes after the operand tokens.
//!
//! Source: operation semantics, "AfterAll".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `after-all`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::AfterAll,
    Arity::AtLeast(0),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
);

/// - C1: the operands are tokens.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    for index in 0..view.operands.len() {
        view.token(index, Some("C1"))?;
    }
    Ok(Shape::Token)
}
