//! `collective-broadcast`: each group's first replica sends its operand to the others.
//!
//! Source: operation semantics, "CollectiveBroadcast"; XLA's verifier.

use super::collective_groups::{CHANNEL_ID, REPLICA_GROUPS};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `collective-broadcast`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::CollectiveBroadcast, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[CHANNEL_ID, REPLICA_GROUPS])
        .with_side_effect();

/// - C1: replica groups have no negative or repeated numbers.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.group_size(Some("C1"), false)?;
    let operands = view.array_operands()?;
    Ok(view.collective_result(operands.into_iter().map(|operand| operand.clone().into()).collect()))
}
