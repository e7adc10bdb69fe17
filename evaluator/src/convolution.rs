//! `convolution` ("ConvWithGeneralPadding"): any dimension numbers, strides, padding, dilations, window reversal,
//! feature and batch groups.

use super::EvalFailure;
use super::data::{for_each_index, row_major_strides, sizes};
use super::dot::{Accumulator, load_all, store_all, with_accumulator};
use super::movement::transpose;
use super::window::Windows;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::shape::ArrayShape;

use num_complex::Complex64;

/// Channels of input and output that belong together, and where the group's batch begins.
struct Groups {
    count: usize,
    input_channels: usize,
    output_channels: usize,
    /// First input channel of group `g` is `g * channel_step`, its first batch index `g * batch_step`.
    channel_step: usize,
    batch_step: usize,
}

/// Operand with its dimensions in the given order.
fn in_order(operand: &ArrayLiteral, order: &[i64]) -> Result<ArrayLiteral, EvalFailure> {
    let shape = operand.shape();
    let mut dimensions = Vec::with_capacity(order.len());
    for &d in order {
        let size = usize::try_from(d).ok().and_then(|d| shape.dimensions.get(d));
        dimensions.push(*size.ok_or_else(|| EvalFailure::malformed(format!("the operand has no dimension {d}")))?);
    }
    transpose(operand, order, &ArrayShape::new(shape.element_type, dimensions))
}

/// Sum of products of each window of the input with each kernel.
pub(super) fn convolution(
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    attributes: &ConvolutionAttributes<'_>,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let numbers = attributes.dim_labels;
    let order = |first: i64, spatial: &[i64], last: i64| -> Vec<i64> {
        std::iter::once(first).chain(spatial.iter().copied()).chain([last]).collect()
    };
    // Input: batch, spatial, feature. Kernel: spatial, input feature, output feature. Output: batch, spatial, feature.
    let lhs = in_order(lhs, &order(numbers.input_batch, &numbers.input_spatial, numbers.input_feature))?;
    let kernel_order: Vec<i64> = numbers
        .kernel_spatial
        .iter()
        .copied()
        .chain([numbers.kernel_input_feature, numbers.kernel_output_feature])
        .collect();
    let rhs = in_order(rhs, &kernel_order)?;
    let output_order = order(numbers.output_batch, &numbers.output_spatial, numbers.output_feature);
    let mut output_sizes = Vec::new();
    for &d in &output_order {
        let size = usize::try_from(d).ok().and_then(|d| result.dimensions.get(d));
        output_sizes.push(*size.ok_or_else(|| EvalFailure::malformed(format!("the result has no dimension {d}")))?);
    }
    let ordered = ArrayShape::new(result.element_type, output_sizes);
    let types = [lhs.element_type(), rhs.element_type(), result.element_type];
    let output = with_accumulator!(types, A => convolve::<A>(&lhs, &rhs, attributes, &ordered))?;
    let mut inverse = vec![0i64; output_order.len()];
    for (position, &d) in output_order.iter().enumerate() {
        inverse[d as usize] = position as i64;
    }
    transpose(&output, &inverse, result)
}

fn convolve<A: Accumulator>(
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    attributes: &ConvolutionAttributes<'_>,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let (lhs_sizes, rhs_sizes) = (sizes(&lhs.shape().dimensions), sizes(&rhs.shape().dimensions));
    let output_sizes = sizes(&result.dimensions);
    let spatial = lhs_sizes.len().saturating_sub(2);
    if rhs_sizes.len() != spatial + 2 || output_sizes.len() != spatial + 2 {
        return Err(EvalFailure::malformed("the operands and the result differ in rank"));
    }
    let feature_groups = attributes.feature_group_count.max(1) as usize;
    let batch_groups = attributes.batch_group_count.max(1) as usize;
    let (input_channels, output_channels) = (rhs_sizes[spatial], rhs_sizes[spatial + 1]);
    let (batch, lhs_channels) = (output_sizes[0], lhs_sizes[spatial + 1]);
    let count = feature_groups.max(batch_groups);
    let groups = Groups {
        count,
        input_channels,
        output_channels: output_channels / count,
        channel_step: if feature_groups > 1 { input_channels } else { 0 },
        batch_step: if batch_groups > 1 { batch } else { 0 },
    };
    if (feature_groups > 1 && batch_groups > 1)
        || output_channels % count != 0
        || output_sizes[spatial + 1] != output_channels
        || lhs_channels != input_channels * feature_groups
        || lhs_sizes[0] != batch * batch_groups
    {
        return Err(EvalFailure::malformed("the sizes of batch or features do not fit the groups"));
    }
    let windows = Windows::new(attributes.window, lhs_sizes[1..=spatial].to_vec())?;
    if windows.window_sizes[..] != rhs_sizes[..spatial] {
        return Err(EvalFailure::malformed("the window does not have the kernel's size"));
    }
    let (a, b) = (load_all::<A>(lhs), load_all::<A>(rhs));
    let lhs_strides = row_major_strides(&lhs_sizes);
    let mut output = vec![A::default(); output_sizes.iter().product()];
    let mut row = 0;
    for_each_index(&output_sizes[..=spatial], |outside| {
        let sums = &mut output[row..][..output_channels];
        row += output_channels;
        let mut kernel = 0;
        for_each_index(&windows.window_sizes, |inside| {
            let base = (0..spatial).try_fold(outside[0] * lhs_strides[0], |sum, d| {
                Some(sum + windows.base_index(d, outside[d + 1], inside[d])? * lhs_strides[d + 1])
            });
            if let Some(base) = base {
                accumulate(&groups, &a[..], base, lhs_strides[0], &b[kernel..], output_channels, sums);
            }
            kernel += input_channels * output_channels;
            Ok(())
        })
    })?;
    store_all(&output, result)
}

/// Adds the products at one window position: `sums[o] += Σ input[i] * kernel[i, o]` within each group.
#[inline]
fn accumulate<A: Accumulator>(
    groups: &Groups,
    input: &[A],
    base: usize,
    batch_stride: usize,
    kernel: &[A],
    kernel_stride: usize,
    sums: &mut [A],
) {
    for group in 0..groups.count {
        let start = base + group * groups.batch_step * batch_stride + group * groups.channel_step;
        let outputs = group * groups.output_channels;
        let sums = &mut sums[outputs..][..groups.output_channels];
        for channel in 0..groups.input_channels {
            let value = input[start + channel];
            let weights = &kernel[channel * kernel_stride + outputs..][..groups.output_channels];
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum = sum.add_product(value, weight);
            }
        }
    }
}
