//! `send`, `recv` and their `-done`s: values between computations, ordered by tokens and paired by channel.
//!
//! Source: operation semantics, "Send", "Recv"; XLA's shape inference.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `send`, `recv` and their `-done`s.
    pub struct ChannelAttributes {
        /// The channel that pairs them.
        optional channel_id: Option<i64> = None,
        /// The other side is the host.
        optional is_host_transfer: bool = false,
    }
}

/// Definition of `send(value, token)` -> (value, context, token).
pub static SEND: OpDefinition = OpDefinition::new(
    OpKind::Send,
    Arity::Exactly(2),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_send,
)
.with_attributes(ChannelAttributes::TABLE);

/// Definition of `send-done(send)` -> token.
pub static SEND_DONE: OpDefinition = OpDefinition::new(
    OpKind::SendDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::None, Effects::Always, ElementCost::Whole),
    infer_send_done,
)
.with_attributes(ChannelAttributes::TABLE);

/// Definition of `recv(token)` -> (value, context, token); the value's shape is the declared one.
pub static RECV: OpDefinition = OpDefinition::new(
    OpKind::Recv,
    Arity::Exactly(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::None, Effects::Always, ElementCost::Whole),
    infer_recv,
)
.with_attributes(ChannelAttributes::TABLE);

/// Definition of `recv-done(recv)` -> (value, token).
pub static RECV_DONE: OpDefinition = OpDefinition::new(
    OpKind::RecvDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_recv_done,
)
.with_attributes(ChannelAttributes::TABLE);

fn in_flight(value: &Shape) -> Shape {
    Shape::Tuple(vec![value.clone(), Shape::scalar(ElementType::U32), Shape::Token])
}

/// - C1: the last operand is a token.
fn infer_send(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.token(1, Some("C1"))?;
    Ok(in_flight(view.operand(0)?))
}

fn infer_recv(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.token(0, Some("C1"))?;
    let declared = view.declared_tuple(Some("C2"), 1)?;
    declared.first().map(in_flight).ok_or_else(|| view.error(Some("C2"), "the result must be a tuple".to_string()))
}

/// - C2: the result of a recv is a tuple that starts with the value.
/// - C3: the operand of a -done is the tuple (value, context, token) of its start.
fn infer_send_done(view: &OpView<'_>) -> Result<Shape, OpError> {
    value_in_flight(view)?;
    Ok(Shape::Token)
}

fn infer_recv_done(view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(Shape::Tuple(vec![value_in_flight(view)?.clone(), Shape::Token]))
}

fn value_in_flight<'a>(view: &OpView<'a>) -> Result<&'a Shape, OpError> {
    match view.operand(0)?.as_tuple() {
        Some([value, _, Shape::Token]) => Ok(value),
        _ => {
            let message = format!("must be a tuple (value, context, token), got {}", view.operand(0)?);
            Err(view.operand_error(Some("C3"), 0, message))
        }
    }
}
