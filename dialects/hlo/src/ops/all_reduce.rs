//! `all-reduce`: combines the operands of all replicas of a group; `-start` and `-done` run as one.
//!
//! Source: operation semantics, "AllReduce", "CrossReplicaSum".

use super::ComputationKey::One;
use super::enumerations::CollectiveMode;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `all-reduce` and `all-reduce-start`.
    pub struct AllReduceAttributes<'a> {
        /// The channel that the collective is known by; without one, it is among the replicas of one partition.
        optional channel_id: Option<i64> = None,
        /// The groups of replicas, or of devices; all in one where absent.
        optional replica_groups: Option<&'a ReplicaGroups> = None,
        /// The layouts must stay as they are.
        optional constrain_layout: bool = false,
        /// The groups number devices, not replicas.
        optional use_global_device_ids: bool = false,
        /// What the groups number.
        optional mode ["C2"]: Option<CollectiveMode> = None,
    }
}

/// Definition of `all-reduce`.
pub static ALL_REDUCE: OpDefinition = OpDefinition::new(
    OpKind::AllReduce,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(AllReduceAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// Definition of `all-reduce-start`, whose result is that of the whole.
pub static ALL_REDUCE_START: OpDefinition = OpDefinition::new(
    OpKind::AllReduceStart,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(AllReduceAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// Definition of `all-reduce-done`: its operand.
pub static ALL_REDUCE_DONE: OpDefinition = OpDefinition::new(
    OpKind::AllReduceDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    |view| view.operand(0).cloned(),
);

/// - C1: replica groups have no negative or repeated numbers.
/// - C2: `mode` is one of XLA's; `use_global_device_ids` needs a `channel_id`.
/// - C3: the computation is a reducer of each operand's element type.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let attributes: AllReduceAttributes = view.attributes()?;
    view.group_size(Some("C1"), attributes.replica_groups, false)?;
    view.device_ids(Some("C2"), attributes.use_global_device_ids, attributes.channel_id)?;
    let operands = view.array_operands()?;
    for operand in &operands {
        view.reducer(Some("C3"), 0, &[operand.element_type])?;
    }
    Ok(view.collective_result(operands.into_iter().map(|operand| operand.clone().into()).collect()))
}
