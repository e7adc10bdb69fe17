//! `reduce-scatter`: combines the operands of all replicas of a group and splits the result among them.
//!
//! Source: operation semantics, "ReduceScatter". Without groups, and where these number replicas with all of their
//! partitions, the declared shape says how many take part.

use super::ComputationKey::One;
use super::all_gather::{dimension_size, leading_array, size_ratio};
use super::enumerations::CollectiveMode;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `reduce-scatter`.
    pub struct ReduceScatterAttributes<'a> {
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
        /// The dimension that is split among the replicas.
        required dimensions ["C4"]: Dimension,
    }
}

/// Definition of `reduce-scatter`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::ReduceScatter,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(ReduceScatterAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: replica groups have no negative or repeated numbers, and the same size.
/// - C2: `mode` is one of XLA's; `use_global_device_ids` needs a `channel_id`.
/// - C3: the computation is a reducer of each operand's element type.
/// - C4: `dimensions` names one dimension of the operands.
/// - C5: the size of that dimension is a multiple of the group size.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let attributes: ReduceScatterAttributes = view.attributes()?;
    let ReduceScatterAttributes { channel_id, replica_groups, use_global_device_ids, mode, .. } = attributes;
    let mut shards = view.uniform_group_size(Some("C1"), replica_groups, channel_id, use_global_device_ids, mode)?;
    view.device_ids(Some("C2"), attributes.use_global_device_ids, attributes.channel_id)?;
    let mut results = Vec::with_capacity(view.operands.len());
    for (index, operand) in view.array_operands()?.into_iter().enumerate() {
        view.reducer(Some("C3"), 0, &[operand.element_type])?;
        let dimension = view.dimension_index(Some("C4"), "dimensions", attributes.dimensions.0, operand.rank())?;
        let size = operand.dimensions[dimension];
        let part = dimension_size(view.result.and_then(leading_array), dimension);
        let shards = *shards.get_or_insert_with(|| size_ratio(Some(size), part));
        if size % shards != 0 {
            let message =
                format!("must have a multiple of {shards} in dimension {dimension}, the group size, got {operand}");
            return Err(view.operand_error(Some("C5"), index, message));
        }
        let mut result = operand.clone();
        result.dimensions[dimension] = size / shards;
        results.push(result.into());
    }
    Ok(view.collective_result(results))
}
