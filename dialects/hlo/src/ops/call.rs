//! `call`: a function applied to the operands.
//!
//! Source: operation semantics, "Call".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `call`. The callee counts as its computation.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Call, Arity::AtLeast(0), OpClass::Control, infer_shape)
    .with_attributes(&[AttributeSpec::optional("is_composite", AttributeForm::Bool)])
    .with_computations(&["to_apply"]);

/// - C1: the operands are the function's arguments.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.arguments(Some("C1"), 0, view.operands)?;
    Ok(view.computation(0)?.result.clone())
}
