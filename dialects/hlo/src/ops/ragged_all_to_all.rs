//! `ragged-all-to-all(input, output, input offsets, send sizes, output offsets, receive sizes)`: rows of the input
//! sent to places of the replicas' outputs.
//!
//! Source: XLA's verifier.

use super::enumerations::CollectiveMode;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `ragged-all-to-all`.
    pub struct RaggedAllToAllAttributes<'a> {
        /// The channel that the collective is known by; without one, it is among the replicas of one partition.
        optional channel_id: Option<i64> = None,
        /// The groups of replicas, or of devices; all in one where absent.
        optional replica_groups: Option<&'a ReplicaGroups> = None,
        /// The dimension of the rows.
        optional dimensions: &'a [i64] = &[],
        /// What the groups number.
        optional mode ["C1"]: Option<CollectiveMode> = None,
    }
}

/// Definition of `ragged-all-to-all`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::RaggedAllToAll,
    Arity::Exactly(6),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(RaggedAllToAllAttributes::TABLE);

/// - C1: replica groups have no negative or repeated numbers, and the same size; `mode` is one of XLA's.
/// - C2: input and output have the same element type and rank, and the same sizes but for the first dimension.
/// - C3: offsets and sizes are integer arrays of the same dimensions.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let attributes: RaggedAllToAllAttributes = view.attributes()?;
    view.group_size(Some("C1"), attributes.replica_groups, true)?;
    let (input, output) = (view.array(0)?, view.array(1)?);
    view.same_element_type(Some("C2"), 0, 1)?;
    let rows_match = matches!(
        (input.dimensions.split_first(), output.dimensions.split_first()),
        (Some((_, left)), Some((_, right))) if left == right
    );
    if !rows_match {
        let message = format!("must have the dimensions of operand 0, {input}, but for the first, got {output}");
        return Err(view.operand_error(Some("C2"), 1, message));
    }
    for index in 2..6 {
        let shape = view.array(index)?;
        if !shape.element_type.is_integer() {
            return Err(view.operand_error(Some("C3"), index, format!("must have integer elements, got {shape}")));
        }
    }
    view.merged_dimensions(Some("C3"), &[2, 3, 4, 5])?;
    Ok(output.clone().into())
}
