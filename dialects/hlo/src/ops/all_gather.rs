//! `all-gather`: the operands of all replicas of a group, concatenated; `-start` and `-done` run as one.
//!
//! Source: operation semantics, "AllGather". Without groups, and where these number replicas with all of their
//! partitions, the declared shape says how many take part.

use super::enumerations::CollectiveMode;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `all-gather` and `all-gather-start`.
    pub struct AllGatherAttributes<'a> {
        /// The channel that the collective is known by; without one, it is among the replicas of one partition.
        optional channel_id: Option<i64> = None,
        /// The groups of replicas, or of devices; all in one where absent.
        optional replica_groups: Option<&'a ReplicaGroups> = None,
        /// The layouts must stay as they are.
        optional constrain_layout: bool = false,
        /// The dimension along which the operands are joined.
        required dimensions ["C2"]: Dimension,
        /// The groups number devices, not replicas.
        optional use_global_device_ids: bool = false,
        /// What the groups number.
        optional mode ["C1"]: Option<CollectiveMode> = None,
    }
}

/// Definition of `all-gather`.
pub static ALL_GATHER: OpDefinition = OpDefinition::new(
    OpKind::AllGather,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_whole,
)
.with_attributes(AllGatherAttributes::TABLE);

/// Definition of `all-gather-start` -> (operands, results).
pub static ALL_GATHER_START: OpDefinition = OpDefinition::new(
    OpKind::AllGatherStart,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_start,
)
.with_attributes(AllGatherAttributes::TABLE);

/// Definition of `all-gather-done` -> results.
pub static ALL_GATHER_DONE: OpDefinition = OpDefinition::new(
    OpKind::AllGatherDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_done,
);

fn infer_whole(view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(view.collective_result(gathered(view, view.result.and_then(leading_array))?))
}

fn infer_start(view: &OpView<'_>) -> Result<Shape, OpError> {
    let declared = view.result.and_then(Shape::as_tuple).and_then(|elements| elements.get(1));
    let results = gathered(view, declared.and_then(leading_array))?;
    let operands: Vec<Shape> = view.operands.iter().map(|&operand| operand.clone()).collect();
    Ok(Shape::Tuple(vec![super::signatures::bare_or_tuple(operands), super::signatures::bare_or_tuple(results)]))
}

/// - C4: the operand of a -done is the tuple (operands, results) of its start.
fn infer_done(view: &OpView<'_>) -> Result<Shape, OpError> {
    match view.tuple(Some("C4"), 0, 2)? {
        [_, results, ..] => Ok(results.clone()),
        _ => Err(view.operand_error(Some("C4"), 0, "must be a tuple of operands and results".to_string())),
    }
}

/// - C1: replica groups have no negative or repeated numbers, and the same size; `use_global_device_ids` needs a
///   `channel_id`; `mode` is one of XLA's.
/// - C2: `dimensions` names one dimension of the operands.
/// - C3: the gathered size does not overflow.
fn gathered(view: &OpView<'_>, declared: Option<&ArrayShape>) -> Result<Vec<Shape>, OpError> {
    let attributes: AllGatherAttributes = view.attributes()?;
    let AllGatherAttributes { channel_id, replica_groups, use_global_device_ids, mode, .. } = attributes;
    let group = view.uniform_group_size(Some("C1"), replica_groups, channel_id, use_global_device_ids, mode)?;
    view.device_ids(Some("C1"), attributes.use_global_device_ids, attributes.channel_id)?;
    let operands = view.array_operands()?;
    let mut results = Vec::with_capacity(operands.len());
    let mut shards = group;
    for (index, operand) in operands.into_iter().enumerate() {
        let dimension = view.dimension_index(Some("C2"), "dimensions", attributes.dimensions.0, operand.rank())?;
        let size = operand.dimensions[dimension];
        let shards = *shards.get_or_insert_with(|| size_ratio(dimension_size(declared, dimension), Some(size)));
        let mut result = operand.clone();
        result.dimensions[dimension] = size.checked_mul(shards).ok_or_else(|| {
            view.operand_error(Some("C3"), index, format!("overflows in dimension {dimension} times {shards}"))
        })?;
        results.push(result.into());
    }
    Ok(results)
}

/// Size of a dimension of an array, if there is one.
pub(super) fn dimension_size(array: Option<&ArrayShape>, dimension: usize) -> Option<i64> {
    array.and_then(|array| array.dimensions.get(dimension).copied())
}

/// Number of replicas that the sizes of the whole and of a part show; 1 when they show none.
pub(super) fn size_ratio(whole: Option<i64>, part: Option<i64>) -> i64 {
    match (whole, part) {
        (Some(whole), Some(part)) if part > 0 => (whole / part).max(1),
        _ => 1,
    }
}

/// The array, or the first element of the tuple.
pub(super) fn leading_array(shape: &Shape) -> Option<&ArrayShape> {
    match shape {
        Shape::Array(array) => Some(array),
        Shape::Tuple(elements) => elements.first().and_then(Shape::as_array),
        Shape::Token | Shape::Opaque => None,
    }
}
