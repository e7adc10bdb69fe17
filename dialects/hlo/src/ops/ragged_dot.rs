//! `ragged-dot(lhs, rhs, group sizes)`: a dot whose ragged dimension is split into groups of run-time sizes.
//!
//! Three modes, by the role of the left operand's ragged dimension: free (rhs has a group dimension), contracting
//! (the result gets a leading group dimension), batch (the groups only cut work off).
//! Source: XLA's shape inference (`InferRaggedDotOpShape`).

use super::dot::{DotAttributes, DotDimensions, push_dimension};
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, Precisions, attributes};
use super::view::counted;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `ragged-dot`.
    pub struct RaggedDotAttributes<'a> {
        /// Batch dimensions of the left operand.
        optional lhs_batch_dims: &'a [i64] = &[],
        /// Contracting dimensions of the left operand.
        optional lhs_contracting_dims: &'a [i64] = &[],
        /// Batch dimensions of the right operand, paired with the left's.
        optional rhs_batch_dims: &'a [i64] = &[],
        /// Contracting dimensions of the right operand, paired with the left's.
        optional rhs_contracting_dims: &'a [i64] = &[],
        /// The dimension of the left operand that is split into groups.
        required lhs_ragged_dims ["C5"]: Dimension,
        /// The dimension of the right operand that has an entry for each group.
        optional rhs_group_dims: &'a [i64] = &[],
        /// Precisions of the operands.
        optional operand_precision ["C11"]: Precisions<'a> = Precisions::DEFAULT,
    }
}

/// Definition of `ragged-dot`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::RaggedDot,
    Arity::Exactly(3),
    Facets::new(OpClass::Contraction, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(RaggedDotAttributes::TABLE);

/// Role of the ragged dimension of the left operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaggedMode {
    /// A free dimension: each group of rows is multiplied with its own right-hand matrix.
    NonContracting,
    /// A contracting dimension: one result for each group.
    Contracting,
    /// A batch dimension.
    Batch,
}

/// - C1: each side's batch, contracting, ragged and group dimensions are dimensions of its operand.
/// - C2: no dimension is named twice on a side (the ragged one apart).
/// - C3: both sides name as many contracting dimensions, and as many batch dimensions.
/// - C4: paired dimensions have the same size.
/// - C5: there is one ragged dimension.
/// - C6: there is one group dimension where the ragged dimension is free, and none otherwise.
/// - C7: the group sizes are integers.
/// - C8: the group sizes have shape `[groups]`, or the left batch (and, in order, other leading) dimensions before.
/// - C9: the group dimension has one entry for each group.
/// - C10: an integer result is not narrower than the operands; complex operands have a complex result.
/// - C11: `operand_precision` has words of XLA's: default, high, highest.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (lhs, rhs, sizes) = (view.array(0)?, view.array(1)?, view.array(2)?);
    let attributes: RaggedDotAttributes = view.attributes()?;
    let sides = DotDimensions::checked(view, &attributes.dot(), Some("C1"), Some("C2"))?;
    sides.check_pairs(view, [Some("C3"), Some("C4")], &[])?;
    let ragged = view.dimension_index(Some("C1"), "lhs_ragged_dims", attributes.lhs_ragged_dims.0, lhs.rank())?;
    let mode = ragged_mode(&sides.lhs_batch, &sides.lhs_contracting, ragged);
    let groups = view.dimension_indices(Some("C1"), "rhs_group_dims", attributes.rhs_group_dims, rhs.rank())?;
    let expected = usize::from(mode == RaggedMode::NonContracting);
    if groups.len() != expected {
        let message =
            format!("must name {} for this ragged dimension, got {}", counted(expected, "dimension"), groups.len());
        return Err(view.attribute_error(Some("C6"), "rhs_group_dims", message));
    }
    if let Some(group) = groups.iter().find(|d| sides.rhs_batch.contains(d) || sides.rhs_contracting.contains(d)) {
        let message = format!("must not name dimension {group}, a batch or contracting dimension");
        return Err(view.attribute_error(Some("C2"), "rhs_group_dims", message));
    }
    if !sizes.element_type.is_integer() {
        return Err(view.operand_error(Some("C7"), 2, format!("must have integer elements, got {sizes}")));
    }
    let prefix = group_sizes_prefix(&sides.lhs_batch, &sides.lhs_contracting, ragged);
    let expected_prefix: Vec<i64> = prefix.iter().map(|&dimension| lhs.dimensions[dimension]).collect();
    let Some((&group_count, leading)) = sizes.dimensions.split_last() else {
        return Err(view.operand_error(Some("C8"), 2, format!("must have at least one dimension, got {sizes}")));
    };
    if !leading.is_empty() && leading != expected_prefix {
        let message = format!("must have the dimensions {expected_prefix:?} before the groups, or none, got {sizes}");
        return Err(view.operand_error(Some("C8"), 2, message));
    }
    if let Some(&group) = groups.first() {
        let found = rhs.dimensions[group];
        if found != group_count {
            let message =
                format!("must have size {group_count}, the number of groups, in dimension {group}, got {found}");
            return Err(view.operand_error(Some("C9"), 1, message));
        }
    }

    let mut result = ArrayShape::new(view.contraction_element_type(Some("C10"))?, []);
    if mode == RaggedMode::Contracting {
        result.dimensions.push(group_count);
    }
    for &dimension in &sides.lhs_batch {
        push_dimension(&mut result, lhs, dimension);
    }
    for dimension in sides.lhs_free(lhs.rank()) {
        push_dimension(&mut result, lhs, dimension);
    }
    for dimension in sides.rhs_free(rhs.rank()) {
        if !groups.contains(&dimension) {
            push_dimension(&mut result, rhs, dimension);
        }
    }
    Ok(result.into())
}

impl<'a> RaggedDotAttributes<'a> {
    /// The dot that this is of each group.
    pub fn dot(&self) -> DotAttributes<'a> {
        DotAttributes {
            lhs_batch_dims: self.lhs_batch_dims,
            lhs_contracting_dims: self.lhs_contracting_dims,
            rhs_batch_dims: self.rhs_batch_dims,
            rhs_contracting_dims: self.rhs_contracting_dims,
            operand_precision: self.operand_precision,
            algorithm: None,
        }
    }
}

/// Role of left dimension `ragged`.
pub fn ragged_mode(lhs_batch: &[usize], lhs_contracting: &[usize], ragged: usize) -> RaggedMode {
    if lhs_batch.contains(&ragged) {
        RaggedMode::Batch
    } else if lhs_contracting.contains(&ragged) {
        RaggedMode::Contracting
    } else {
        RaggedMode::NonContracting
    }
}

/// Left dimensions that a full array of group sizes has before the groups: those the groups may depend on.
pub fn group_sizes_prefix(lhs_batch: &[usize], lhs_contracting: &[usize], ragged: usize) -> Vec<usize> {
    let before = |list: &[usize]| list.iter().copied().take_while(|&dimension| dimension != ragged).collect::<Vec<_>>();
    match ragged_mode(lhs_batch, lhs_contracting, ragged) {
        RaggedMode::Batch => before(lhs_batch),
        RaggedMode::Contracting => [lhs_batch, &before(lhs_contracting)].concat(),
        RaggedMode::NonContracting => {
            let free = (0..ragged).filter(|d| !lhs_batch.contains(d) && !lhs_contracting.contains(d));
            lhs_batch.iter().copied().chain(free).collect()
        }
    }
}
