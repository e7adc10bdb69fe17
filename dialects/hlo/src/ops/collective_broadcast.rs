//! `collective-broadcast`: each group's first replica sends its operand to the others.
//!
//! Source: operation semantics, "CollectiveBroadcast"; XLA's verifier.

use super::enumerations::CollectiveMode;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `collective-broadcast`.
    pub struct CollectiveBroadcastAttributes<'a> {
        /// The channel that the collective is known by; without one, it is among the replicas of one partition.
        optional channel_id: Option<i64> = None,
        /// The groups of replicas, or of devices; all in one where absent.
        optional replica_groups: Option<&'a ReplicaGroups> = None,
        /// What the groups number.
        optional mode ["C1"]: Option<CollectiveMode> = None,
    }
}

/// Definition of `collective-broadcast`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::CollectiveBroadcast,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(CollectiveBroadcastAttributes::TABLE);

/// - C1: replica groups have no negative or repeated numbers; `mode` is one of XLA's.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let attributes: CollectiveBroadcastAttributes = view.attributes()?;
    view.group_size(Some("C1"), attributes.replica_groups, false)?;
    let operands = view.array_operands()?;
    Ok(view.collective_result(operands.into_iter().map(|operand| operand.clone().into()).collect()))
}
