//! Attributes of instructions in the terms of the crate `indexing`.

use indexing::maps::{Convolution, Dot, Gather, Scatter, WindowDimension};

use crate::attributes::{self, Attributes, ConvolutionDimensions};

pub(super) fn window(dimensions: &[attributes::WindowDimension]) -> Vec<WindowDimension> {
    dimensions
        .iter()
        .map(|w| WindowDimension {
            size: w.size,
            stride: w.stride,
            padding_low: w.padding_low,
            padding_high: w.padding_high,
            window_dilation: w.window_dilation,
            base_dilation: w.base_dilation,
            reversal: w.reversal,
        })
        .collect()
}

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

/// A convolution's window; one without spatial dimensions may be left out.
pub(super) fn convolution_window(attributes: &Attributes, dimensions: &ConvolutionDimensions) -> Vec<WindowDimension> {
    let mut window = window(attributes.window());
    window.truncate(dimensions.input_spatial.len());
    window
}

pub(super) fn convolution<'a>(
    attributes: &Attributes,
    dimensions: &'a ConvolutionDimensions,
    window: &'a [WindowDimension],
) -> Convolution<'a> {
    Convolution {
        window,
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
