//! `add-dependency(value, token)`: the value, available after the token.
//!
//! Source: XLA's shape inference.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `add-dependency`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::AddDependency,
    Arity::Exactly(2),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
);

/// - C1: the second operand is a token.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.token(1, Some("C1"))?;
    view.operand(0).cloned()
}
