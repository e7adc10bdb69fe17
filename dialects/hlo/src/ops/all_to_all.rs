//! `all-to-all`: each replica of a group sends a part to each other. With `dimensions`, parts of one array;
//! without, one operand for each replica.
//!
//! Source: operation semantics, "AllToAll".

use super::enumerations::CollectiveMode;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `all-to-all`.
    pub struct AllToAllAttributes<'a> {
        /// The channel that the collective is known by; without one, it is among the replicas of one partition.
        optional channel_id: Option<i64> = None,
        /// The groups of replicas, or of devices; all in one where absent.
        optional replica_groups: Option<&'a ReplicaGroups> = None,
        /// The layouts must stay as they are.
        optional constrain_layout: bool = false,
        /// The dimension whose parts are exchanged; without one, each operand is a part.
        optional dimensions ["C2"]: Option<Dimension> = None,
        /// What the groups number.
        optional mode ["C1"]: Option<CollectiveMode> = None,
    }
}

/// Definition of `all-to-all`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::AllToAll,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(AllToAllAttributes::TABLE);

/// - C1: replica groups have no negative or repeated numbers, and the same size; `mode` is one of XLA's.
/// - C2: with `dimensions`, there is one operand, and they name one of its dimensions.
/// - C3: the size of that dimension is a multiple of the group size.
/// - C4: without `dimensions`, there is one operand for each replica of a group, all of the same shape.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let attributes: AllToAllAttributes = view.attributes()?;
    let group = view.group_size(Some("C1"), attributes.replica_groups, true)?;
    let operands = view.array_operands()?;
    if let Some(dimension) = attributes.dimensions {
        let [operand] = operands.as_slice() else {
            let message = format!("takes 1 operand with dimensions, got {}", operands.len());
            return Err(view.error(Some("C2"), message));
        };
        let dimension = view.dimension_index(Some("C2"), "dimensions", dimension.0, operand.rank())?;
        if let Some(group) = group.filter(|group| operand.dimensions[dimension] % group != 0) {
            let message =
                format!("must have a multiple of {group} in dimension {dimension}, the group size, got {operand}");
            return Err(view.operand_error(Some("C3"), 0, message));
        }
        return Ok(view.collective_result(vec![view.operand(0)?.clone()]));
    }
    if let Some(group) = group.filter(|&group| group != operands.len() as i64) {
        let message = format!("takes one operand for each of {group} replicas of a group, got {}", operands.len());
        return Err(view.error(Some("C4"), message));
    }
    for index in 1..operands.len() {
        view.same_element_type(Some("C4"), 0, index)?;
    }
    view.merged_dimensions(Some("C4"), &(0..operands.len()).collect::<Vec<_>>())?;
    Ok(view.collective_result(operands.into_iter().map(|operand| operand.clone().into()).collect()))
}
