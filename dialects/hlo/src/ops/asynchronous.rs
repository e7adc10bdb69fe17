//! `asynchronous`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `AsyncStart`.
pub static ASYNC_START: OpDefinition =
    OpDefinition::new(OpKind::AsyncStart, Arity::AtLeast(0), OpClass::Control, infer_shape)
        .with_attributes(&[AttributeSpec::optional("async_execution_thread", AttributeForm::String)])
        .with_computations(&["calls"])
        .with_side_effect();

/// Definition of `AsyncUpdate`.
pub static ASYNC_UPDATE: OpDefinition =
    OpDefinition::new(OpKind::AsyncUpdate, Arity::Exactly(1), OpClass::Control, infer_shape)
        .with_attributes(&[AttributeSpec::optional("async_execution_thread", AttributeForm::String)])
        .with_computations(&["calls?"])
        .with_side_effect();

/// Definition of `AsyncDone`.
pub static ASYNC_DONE: OpDefinition =
    OpDefinition::new(OpKind::AsyncDone, Arity::Exactly(1), OpClass::Control, infer_shape)
        .with_attributes(&[AttributeSpec::optional("async_execution_thread", AttributeForm::String)])
        .with_computations(&["calls?"])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
