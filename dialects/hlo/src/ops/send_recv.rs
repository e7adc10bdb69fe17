//! `send_recv`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Send`.
pub static SEND: OpDefinition = OpDefinition::new(OpKind::Send, Arity::Exactly(2), OpClass::Collective, infer_shape)
    .with_attributes(&[
        AttributeSpec::optional("channel_id", AttributeForm::Int),
        AttributeSpec::optional("is_host_transfer", AttributeForm::Bool),
    ])
    .with_side_effect();

/// Definition of `SendDone`.
pub static SEND_DONE: OpDefinition =
    OpDefinition::new(OpKind::SendDone, Arity::Exactly(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("is_host_transfer", AttributeForm::Bool),
        ])
        .with_side_effect();

/// Definition of `Recv`.
pub static RECV: OpDefinition = OpDefinition::new(OpKind::Recv, Arity::Exactly(1), OpClass::Collective, infer_shape)
    .with_attributes(&[
        AttributeSpec::optional("channel_id", AttributeForm::Int),
        AttributeSpec::optional("is_host_transfer", AttributeForm::Bool),
    ])
    .with_side_effect();

/// Definition of `RecvDone`.
pub static RECV_DONE: OpDefinition =
    OpDefinition::new(OpKind::RecvDone, Arity::Exactly(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("is_host_transfer", AttributeForm::Bool),
        ])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
