//! Attributes of instructions in the terms of [`super::maps`].

use super::maps::{Convolution, Dot, Gather, Scatter};
use crate::attributes::{Attributes, ConvolutionDimensions};

/// Starts and strides.
pub(super) fn slice(attributes: &Attributes) -> (Vec<i64>, Vec<i64>) {
    attributes.slice().iter().map(|dimension| (dimension.start, dimension.stride)).unzip()
}

/// Low and interior padding.
pub(super) fn padding(attributes: &Attributes) -> (Vec<i64>, Vec<i64>) {
    attributes.padding().iter().map(|dimension| (dimension.low, dimension.interior)).unzip()
}

pub(super) fn gather(attributes: &Attributes) -> Gather<'_> {
    Gather {
        offset_dims: attributes.ints("offset_dims"),
        collapsed_slice_dims: attributes.ints("collapsed_slice_dims"),
        operand_batching_dims: attributes.ints("operand_batching_dims"),
        start_indices_batching_dims: attributes.ints("start_indices_batching_dims"),
        start_index_map: attributes.ints("start_index_map"),
        index_vector_dim: attributes.int("index_vector_dim").unwrap_or(0),
        slice_sizes: attributes.ints("slice_sizes"),
    }
}

pub(super) fn scatter(attributes: &Attributes) -> Scatter<'_> {
    Scatter {
        update_window_dims: attributes.ints("update_window_dims"),
        inserted_window_dims: attributes.ints("inserted_window_dims"),
        input_batching_dims: attributes.ints("input_batching_dims"),
        scatter_indices_batching_dims: attributes.ints("scatter_indices_batching_dims"),
        scatter_dims_to_operand_dims: attributes.ints("scatter_dims_to_operand_dims"),
        index_vector_dim: attributes.int("index_vector_dim").unwrap_or(0),
    }
}

pub(super) fn dot(attributes: &Attributes) -> Dot<'_> {
    Dot {
        lhs_batch: attributes.ints("lhs_batch_dims"),
        rhs_batch: attributes.ints("rhs_batch_dims"),
        lhs_contracting: attributes.ints("lhs_contracting_dims"),
        rhs_contracting: attributes.ints("rhs_contracting_dims"),
    }
}

pub(super) fn convolution<'a>(attributes: &'a Attributes, dimensions: &'a ConvolutionDimensions) -> Convolution<'a> {
    // The window of one without spatial dimensions may be left out.
    let window = attributes.window();
    Convolution {
        window: &window[..window.len().min(dimensions.input_spatial.len())],
        input_batch: dimensions.input_batch,
        input_feature: dimensions.input_feature,
        input_spatial: &dimensions.input_spatial,
        kernel_input_feature: dimensions.kernel_input_feature,
        kernel_output_feature: dimensions.kernel_output_feature,
        kernel_spatial: &dimensions.kernel_spatial,
        output_batch: dimensions.output_batch,
        output_feature: dimensions.output_feature,
        output_spatial: &dimensions.output_spatial,
        feature_group_count: attributes.int("feature_group_count").unwrap_or(1),
        batch_group_count: attributes.int("batch_group_count").unwrap_or(1),
    }
}
