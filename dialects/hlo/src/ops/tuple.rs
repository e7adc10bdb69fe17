//! `tuple`: the operands as one value.
//!
//! Source: operation semantics, "Tuple".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `tuple`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Tuple, Arity::AtLeast(0), OpClass::Structural, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(Shape::Tuple(view.operands.iter().map(|&operand| operand.clone()).collect()))
}
