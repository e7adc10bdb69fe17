//! `all-reduce`: combines the operands of all replicas of a group; `-start` and `-done` run as one.
//!
//! Source: operation semantics, "AllReduce", "CrossReplicaSum".

use super::collective_groups::{CHANNEL_ID, CONSTRAIN_LAYOUT, MODE, REPLICA_GROUPS, USE_GLOBAL_DEVICE_IDS};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::AttributeSpec;
use crate::op_kind::OpKind;
use crate::shape::Shape;

const ATTRIBUTES: &[AttributeSpec] = &[CHANNEL_ID, REPLICA_GROUPS, CONSTRAIN_LAYOUT, USE_GLOBAL_DEVICE_IDS, MODE];

/// Definition of `all-reduce`.
pub static ALL_REDUCE: OpDefinition =
    OpDefinition::new(OpKind::AllReduce, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(ATTRIBUTES)
        .with_computations(&["to_apply"])
        .with_side_effect();

/// Definition of `all-reduce-start`, whose result is that of the whole.
pub static ALL_REDUCE_START: OpDefinition =
    OpDefinition::new(OpKind::AllReduceStart, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(ATTRIBUTES)
        .with_computations(&["to_apply"])
        .with_side_effect();

/// Definition of `all-reduce-done`: its operand.
pub static ALL_REDUCE_DONE: OpDefinition =
    OpDefinition::new(OpKind::AllReduceDone, Arity::Exactly(1), OpClass::Collective, |view| view.operand(0).cloned())
        .with_side_effect();

/// - C1: replica groups have no negative or repeated numbers.
/// - C2: `mode` is one of XLA's; `use_global_device_ids` needs a `channel_id`.
/// - C3: the computation is a reducer of each operand's element type.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.group_size(Some("C1"), false)?;
    view.collective_mode(Some("C2"))?;
    let operands = view.array_operands()?;
    for operand in &operands {
        view.reducer(Some("C3"), 0, &[operand.element_type])?;
    }
    Ok(view.collective_result(operands.into_iter().map(|operand| operand.clone().into()).collect()))
}
