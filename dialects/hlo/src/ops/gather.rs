//! `gather(operand, start_indices)`: slices of the operand at run-time indices, moved to lie inside, put together.
//!
//! Source: operation semantics, "Gather".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `gather`.
    pub struct GatherAttributes<'a> {
        /// Dimensions of the result that the slices have.
        required offset_dims: &'a [i64],
        /// Operand dimensions of slice size 1 that the result does not have.
        required collapsed_slice_dims: &'a [i64],
        /// The operand dimension of each component of an index vector.
        required start_index_map: &'a [i64],
        /// Operand dimensions that are paired with dimensions of the indices.
        optional operand_batching_dims: &'a [i64] = &[],
        /// Dimensions of the indices that `operand_batching_dims` are paired with.
        optional start_indices_batching_dims: &'a [i64] = &[],
        /// The dimension of the indices whose elements are an index vector; their rank for vectors of one.
        required index_vector_dim: i64,
        /// Sizes of a slice, by operand dimension.
        required slice_sizes: &'a [i64],
        /// The index vectors are in increasing order.
        optional indices_are_sorted: bool = false,
    }
}

/// Definition of `gather`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Gather,
    Arity::Exactly(2),
    Facets::new(OpClass::Indexed, FusionRole::Lookup, Lowering::Loops, Effects::None, ElementCost::Lookup),
    infer_shape,
)
.with_attributes(GatherAttributes::TABLE);

/// - C1: the start indices are integers.
/// - C2: `index_vector_dim` is a dimension of the start indices, or their rank.
/// - C3: `offset_dims` are different dimensions of the result in increasing order.
/// - C4: `start_index_map` maps each component of an index vector to a different operand dimension.
/// - C5: `collapsed_slice_dims` are different operand dimensions in increasing order.
/// - C6: `operand_batching_dims` are different operand dimensions in increasing order, none collapsed or indexed.
/// - C7: `start_indices_batching_dims` are different dimensions of the start indices, not `index_vector_dim`.
/// - C8: the two batching lists pair dimensions of the same size.
/// - C9: `slice_sizes` has one entry for each operand dimension, each in 0..=size.
/// - C10: collapsed and batching dimensions have a slice size of 1, or of 0 where the result has no elements.
/// - C11: each operand dimension is an offset, a collapsed or a batching dimension.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, indices) = (view.array(0)?, view.array(1)?);
    if !indices.element_type.is_integer() {
        return Err(view.operand_error(Some("C1"), 1, format!("must have integer elements, got {indices}")));
    }
    let attributes: GatherAttributes = view.attributes()?;
    let batch = index_batch(view, indices, Some("C2"), attributes.index_vector_dim)?;
    let offset_dims = attributes.offset_dims;
    let result_rank = batch.sizes.len() + offset_dims.len();
    let offsets = view.dimension_indices(Some("C3"), "offset_dims", offset_dims, result_rank)?;
    view.distinct(Some("C3"), "offset_dims", offset_dims, true)?;
    let map = attributes.start_index_map;
    check_index_map(view, Some("C4"), "start_index_map", map, batch.vector_size, operand.rank())?;
    let collapsed = attributes.collapsed_slice_dims;
    view.dimension_indices(Some("C5"), "collapsed_slice_dims", collapsed, operand.rank())?;
    view.distinct(Some("C5"), "collapsed_slice_dims", collapsed, true)?;
    let batching = BatchingDimensions {
        operand: attributes.operand_batching_dims,
        operand_key: "operand_batching_dims",
        indices: attributes.start_indices_batching_dims,
        indices_key: "start_indices_batching_dims",
        index_vector: attributes.index_vector_dim,
        others: [collapsed, map],
    };
    batching.check(view, operand, indices, [Some("C6"), Some("C7"), Some("C8")])?;

    let slice_sizes = attributes.slice_sizes;
    if slice_sizes.len() != operand.rank() {
        let message =
            format!("must have length {}, one for each operand dimension, got {}", operand.rank(), slice_sizes.len());
        return Err(view.attribute_error(Some("C9"), "slice_sizes", message));
    }
    let missing_dimension = |dimension: usize, slice: i64| {
        let message = format!("must be 1 in dimension {dimension}, which the result does not have, got {slice}");
        view.attribute_error(Some("C10"), "slice_sizes", message)
    };
    let mut window = Vec::new();
    for (dimension, (&slice, &size)) in slice_sizes.iter().zip(&operand.dimensions).enumerate() {
        if slice < 0 || slice > size {
            let message = format!("must be in 0..={size} in dimension {dimension}, got {slice}");
            return Err(view.attribute_error(Some("C9"), "slice_sizes", message));
        }
        let number = dimension as i64;
        if !collapsed.contains(&number) && !batching.operand.contains(&number) {
            window.push((slice, slice == size && operand.is_dynamic_dimension(dimension)));
        } else if slice > 1 {
            return Err(missing_dimension(dimension, slice));
        }
    }
    if window.len() != offsets.len() {
        let message = format!(
            "must have length {}, one for each dimension of a slice that is kept, got {}",
            window.len(),
            offsets.len()
        );
        return Err(view.attribute_error(Some("C11"), "offset_dims", message));
    }

    let mut batch_sizes = batch.sizes.into_iter();
    let mut window_sizes = window.into_iter();
    let mut result = ArrayShape::new(operand.element_type, vec![0; result_rank]);
    for dimension in 0..result_rank {
        let source = if offsets.contains(&dimension) { window_sizes.next() } else { batch_sizes.next() };
        let (size, dynamic) = source.unwrap_or((0, false));
        result.dimensions[dimension] = size;
        if dynamic {
            result.set_dynamic_dimension(dimension, true);
        }
    }
    match slice_sizes.iter().position(|&slice| slice == 0) {
        Some(dimension) if !result.dimensions.contains(&0) => Err(missing_dimension(dimension, 0)),
        _ => Ok(result.into()),
    }
}

/// The dimensions of the indices without `index_vector_dim`.
pub(super) struct IndexBatch {
    /// Size and dynamism of each.
    pub sizes: Vec<(i64, bool)>,
    /// Components of an index vector; 1 where `index_vector_dim` is the rank.
    pub vector_size: i64,
}

/// Splits the indices of gather or scatter at `index_vector_dim`.
pub(super) fn index_batch(
    view: &OpView<'_>,
    indices: &ArrayShape,
    label: super::view::Label,
    index_vector: i64,
) -> Result<IndexBatch, OpError> {
    let vector = view.dimension_index(label, "index_vector_dim", index_vector, indices.rank() + 1)?;
    let sizes = (0..indices.rank())
        .filter(|&dimension| dimension != vector)
        .map(|dimension| (indices.dimensions[dimension], indices.is_dynamic_dimension(dimension)))
        .collect();
    Ok(IndexBatch { sizes, vector_size: indices.dimensions.get(vector).map_or(1, |&size| size) })
}

/// The map from components of an index vector to operand dimensions.
pub(super) fn check_index_map(
    view: &OpView<'_>,
    label: super::view::Label,
    attribute: &'static str,
    map: &[i64],
    vector_size: i64,
    rank: usize,
) -> Result<(), OpError> {
    if map.len() as i64 != vector_size {
        let message =
            format!("must have length {vector_size}, one for each component of an index vector, got {}", map.len());
        return Err(view.attribute_error(label, attribute, message));
    }
    view.dimension_indices(label, attribute, map, rank)?;
    view.distinct(label, attribute, map, false)
}

/// The batching lists of gather or scatter.
pub(super) struct BatchingDimensions<'a> {
    /// Operand dimensions.
    pub operand: &'a [i64],
    /// Their attribute.
    pub operand_key: &'static str,
    /// Dimensions of the indices.
    pub indices: &'a [i64],
    /// Their attribute.
    pub indices_key: &'static str,
    /// `index_vector_dim`.
    pub index_vector: i64,
    /// Operand dimensions that must not be batching ones: the collapsed (inserted), the indexed.
    pub others: [&'a [i64]; 2],
}

impl BatchingDimensions<'_> {
    /// Checks both lists and their pairs; the labels are of the operand's list, the indices' list, the pairs.
    pub fn check(
        &self,
        view: &OpView<'_>,
        operand: &ArrayShape,
        indices: &ArrayShape,
        labels: [super::view::Label; 3],
    ) -> Result<(), OpError> {
        let operand_dimensions = view.dimension_indices(labels[0], self.operand_key, self.operand, operand.rank())?;
        view.distinct(labels[0], self.operand_key, self.operand, true)?;
        if let Some(shared) = self.operand.iter().find(|d| self.others.iter().any(|other| other.contains(d))) {
            let message = format!("must not name dimension {shared}, which is collapsed, inserted or indexed");
            return Err(view.attribute_error(labels[0], self.operand_key, message));
        }
        let index_dimensions = view.dimension_indices(labels[1], self.indices_key, self.indices, indices.rank())?;
        view.distinct(labels[1], self.indices_key, self.indices, false)?;
        if self.indices.contains(&self.index_vector) {
            let message = format!("must not name dimension {}, which is index_vector_dim", self.index_vector);
            return Err(view.attribute_error(labels[1], self.indices_key, message));
        }
        if operand_dimensions.len() != index_dimensions.len() {
            let message = format!(
                "must have length {}, as {}, got {}",
                operand_dimensions.len(),
                self.operand_key,
                index_dimensions.len()
            );
            return Err(view.attribute_error(labels[2], self.indices_key, message));
        }
        for (&left, &right) in operand_dimensions.iter().zip(&index_dimensions) {
            let (expected, found) = (operand.dimensions[left], indices.dimensions[right]);
            if expected != found {
                let message =
                    format!("pairs operand dimension {left} of size {expected} with dimension {right} of size {found}");
                return Err(view.attribute_error(labels[2], self.indices_key, message));
            }
        }
        Ok(())
    }
}
