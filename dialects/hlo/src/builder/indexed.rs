//! Slices at run-time indices: dynamic slices, gather, scatter.

use super::reduction::element_types;
use super::{Draft, HloBuilder, Op};
use crate::op_kind::OpKind;
use crate::ops::dynamic_slice::DynamicSliceAttributes;
use crate::ops::gather::GatherAttributes;
use crate::ops::scatter::ScatterAttributes;
use crate::shape::Shape;

/// Dimension numbers of [`HloBuilder::gather`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatherDimensions {
    /// Result dimensions that index into a slice.
    pub offset_dims: Vec<i64>,
    /// Operand dimensions of slice size 1 that slices do not have.
    pub collapsed_slice_dims: Vec<i64>,
    /// The operand dimension of each component of an index vector.
    pub start_index_map: Vec<i64>,
    /// Operand dimensions that go along with dimensions of the indices.
    pub operand_batching_dims: Vec<i64>,
    /// Dimensions of the indices that go along with those.
    pub start_indices_batching_dims: Vec<i64>,
    /// Dimension of the indices that holds index vectors; their rank, for scalars.
    pub index_vector_dim: i64,
}

/// Dimension numbers of [`HloBuilder::scatter`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScatterDimensions {
    /// Dimensions of the updates that index into a window.
    pub update_window_dims: Vec<i64>,
    /// Operand dimensions of window size 1 that the updates do not have.
    pub inserted_window_dims: Vec<i64>,
    /// The operand dimension of each component of an index vector.
    pub scatter_dims_to_operand_dims: Vec<i64>,
    /// Operand dimensions that go along with dimensions of the indices.
    pub input_batching_dims: Vec<i64>,
    /// Dimensions of the indices that go along with those.
    pub scatter_indices_batching_dims: Vec<i64>,
    /// Dimension of the indices that holds index vectors; their rank, for scalars.
    pub index_vector_dim: i64,
    /// The indices are in order.
    pub indices_are_sorted: bool,
    /// No two indices are equal.
    pub unique_indices: bool,
}

impl HloBuilder {
    /// A box of the given sizes at run-time indices, moved to lie inside. The indices are a scalar for each dimension, or
    /// (2017) one array.
    #[track_caller]
    pub fn dynamic_slice<'b>(&'b self, operand: Op<'b>, start_indices: &[Op<'b>], sizes: &[i64]) -> Op<'b> {
        let operands = [&[operand], start_indices].concat();
        self.push(
            Draft::new(OpKind::DynamicSlice, &operands)
                .with_attributes(DynamicSliceAttributes { dynamic_slice_sizes: sizes }),
        )
    }

    /// The operand with a box at run-time indices overwritten by `update`; the box is moved to lie inside. The indices
    /// are a scalar for each dimension, or (2017) one array.
    #[track_caller]
    pub fn dynamic_update_slice<'b>(&'b self, operand: Op<'b>, update: Op<'b>, start_indices: &[Op<'b>]) -> Op<'b> {
        let operands = [&[operand, update], start_indices].concat();
        self.push(Draft::new(OpKind::DynamicUpdateSlice, &operands))
    }

    /// Slices of the operand at run-time indices, put together.
    #[track_caller]
    pub fn gather<'b>(
        &'b self,
        operand: Op<'b>,
        start_indices: Op<'b>,
        dimensions: &GatherDimensions,
        slice_sizes: &[i64],
        indices_are_sorted: bool,
    ) -> Op<'b> {
        let attributes = GatherAttributes {
            offset_dims: &dimensions.offset_dims,
            collapsed_slice_dims: &dimensions.collapsed_slice_dims,
            start_index_map: &dimensions.start_index_map,
            operand_batching_dims: &dimensions.operand_batching_dims,
            start_indices_batching_dims: &dimensions.start_indices_batching_dims,
            index_vector_dim: dimensions.index_vector_dim,
            slice_sizes,
            indices_are_sorted,
        };
        self.push(Draft::new(OpKind::Gather, &[operand, start_indices]).with_attributes(attributes))
    }

    /// The operand with slices at run-time indices combined with updates: `combine(old, update)`.
    #[track_caller]
    pub fn scatter<'b>(
        &'b self,
        operand: Op<'b>,
        indices: Op<'b>,
        updates: Op<'b>,
        dimensions: &ScatterDimensions,
        combine: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
    ) -> Op<'b> {
        self.scatter_variadic(&[operand], indices, &[updates], dimensions, |b, old, update| {
            combine(b, old[0], update[0])
        })
    }

    /// [`scatter`](Self::scatter) of several arrays at once; the computation returns a tuple, or a value if there is one.
    #[track_caller]
    pub fn scatter_variadic<'b>(
        &'b self,
        operands: &[Op<'b>],
        indices: Op<'b>,
        updates: &[Op<'b>],
        dimensions: &ScatterDimensions,
        combine: impl for<'s> FnOnce(&'s HloBuilder, &[Op<'s>], &[Op<'s>]) -> Op<'s>,
    ) -> Op<'b> {
        let Some(types) = element_types(self, "scatter", operands) else { return self.nothing() };
        let scalars: Vec<Shape> = types.iter().chain(&types).map(|&element_type| Shape::scalar(element_type)).collect();
        let count = operands.len();
        let combiner = self.nested("scatter", &scalars, |b, values| combine(b, &values[..count], &values[count..]));
        let attributes = ScatterAttributes {
            update_window_dims: &dimensions.update_window_dims,
            inserted_window_dims: &dimensions.inserted_window_dims,
            scatter_dims_to_operand_dims: &dimensions.scatter_dims_to_operand_dims,
            input_batching_dims: &dimensions.input_batching_dims,
            scatter_indices_batching_dims: &dimensions.scatter_indices_batching_dims,
            index_vector_dim: dimensions.index_vector_dim,
            indices_are_sorted: dimensions.indices_are_sorted,
            unique_indices: dimensions.unique_indices,
        };
        let draft = Draft::new(OpKind::Scatter, &[operands, &[indices], updates].concat());
        self.push(draft.with_attributes(attributes).computation(combiner))
    }
}
