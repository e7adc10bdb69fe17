//! `after-all`: a token that comes after the operand tokens.
//!
//! Source: operation semantics, "AfterAll".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `after-all`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::AfterAll, Arity::AtLeast(0), OpClass::Structural, infer_shape);

/// - C1: the operands are tokens.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    for index in 0..view.operands.len() {
        view.token(index, Some("C1"))?;
    }
    Ok(Shape::Token)
}
