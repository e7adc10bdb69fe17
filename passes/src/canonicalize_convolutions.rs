//! `canonicalize-convolutions`: brings convolutions into the forms that have fast code.
//!
//! Where the base is dilated, most products are with zeros: the positions of the result that see the same elements of the
//! kernel are a convolution without dilation, and these are interleaved. Other dilation, and padding, become a `pad` (which
//! fuses with what makes the input), a reversed window a `reverse` of the kernel. A window of one element is a product of matrices. A result with few features (or batches) in
//! its last dimension is computed with the other of the two there: vectors run along the last dimension.

use hlo::attributes::{ConvolutionDimensions, PaddingDimension, SliceDimension, WindowDimension};
use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::ops::dot::DotAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::shape::ArrayShape;
use indexing::ceil_div;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    for block in blocks_with(&rewriter, |_, kind| kind == OpKind::Convolution) {
        let body = Body::read(&rewriter, block, |_, kind| kind == OpKind::Convolution)?;
        body.rewrite(|builder, _, convolution| Site::of(builder, convolution, statistics)?.canonical())?;
    }
    Ok(())
}

/// Sizes of the last dimension that are too small for vectors along it.
const FEW: i64 = 8;

/// Convolutions that one is divided into at most.
const MOST_PHASES: i64 = 16;

/// Multiplications from which on that is worth their number.
const LEAST_DIVIDED: i64 = 1 << 14;

/// A convolution to rewrite.
struct Site<'s> {
    builder: &'s mut GraphBuilder,
    attributes: ConvolutionAttributes<'s>,
    statistics: &'s mut PassStatistics,
    dimensions: ConvolutionDimensions,
    window: Vec<WindowDimension>,
    result: ArrayShape,
    input: InstructionId,
    kernel: InstructionId,
}

impl<'s> Site<'s> {
    fn of(
        builder: &'s mut GraphBuilder,
        convolution: &'s Instruction,
        statistics: &'s mut PassStatistics,
    ) -> Option<Self> {
        let (&[input, kernel], result) = (&convolution.operands[..], convolution.shape.as_array()?) else {
            return None;
        };
        let is_empty = |shape: &ArrayShape| shape.dimensions.contains(&0);
        if result.is_dynamic()
            || is_empty(result)
            || is_empty(&builder.array(input))
            || is_empty(&builder.array(kernel))
        {
            return None;
        }
        let attributes: ConvolutionAttributes = convolution.attributes().ok()?;
        Some(Site {
            builder,
            dimensions: attributes.dim_labels.clone(),
            window: attributes.window.to_vec(),
            attributes,
            result: ArrayShape { layout: None, ..result.clone() },
            statistics,
            input,
            kernel,
        })
    }

    /// The convolution in its new form; `None` where that is the one that it has.
    fn canonical(mut self) -> Option<InstructionId> {
        if let Some(number) = self.divided_dimension() {
            return Some(self.into_phases(number));
        }
        self.pad_input();
        self.reverse_kernel();
        let attributes = self.attributes;
        let is_grouped = attributes.feature_group_count != 1 || attributes.batch_group_count != 1;
        if !is_grouped && self.window.iter().all(|dimension| dimension.size == 1) {
            return Some(self.into_dot());
        }
        let exchanged = if is_grouped { None } else { self.exchange_last() };
        if self.window == attributes.window && exchanged.is_none() {
            return None;
        }
        let attributes = ConvolutionAttributes { window: &self.window, dim_labels: &self.dimensions, ..attributes };
        let value = self.builder.add(OpKind::Convolution, self.result, &[self.input, self.kernel], attributes);
        Some(exchanged.map_or(value, |permutation| self.builder.transpose(value, &permutation)))
    }

    /// The number of a spatial dimension whose base is dilated, where dividing the result pays.
    fn divided_dimension(&self) -> Option<usize> {
        let phases = self.window.iter().fold(1, |phases: i64, w| phases.saturating_mul(w.base_dilation.max(1)));
        let features = self.builder.dimensions(self.kernel)[self.dimensions.kernel_input_feature as usize];
        let product = self.window.iter().fold(features, |product, w| product.saturating_mul(w.size));
        let product = product.saturating_mul(self.result.element_count());
        // What is divided already has fewer phases, and fewer products.
        let is_part = self.window != self.attributes.window;
        if phases > MOST_PHASES || !is_part && product < LEAST_DIVIDED || !self.result.element_type.has_zero() {
            return None;
        }
        self.window.iter().position(|w| w.base_dilation > 1 && w.stride.max(1) == 1 && w.window_dilation.max(1) == 1)
    }

    // convolution(x, k), lhs_dilate=n => reshape(concatenate(convolution(x, slice(k, 0::n)), …))
    fn into_phases(mut self, number: usize) -> InstructionId {
        self.statistics.add("divide-dilated", 1);
        self.reverse_kernel();
        let w = self.window[number];
        let [input, output] =
            [&self.dimensions.input_spatial, &self.dimensions.output_spatial].map(|spatial| spatial[number] as usize);
        let (phases, size) = (w.base_dilation, self.result.dimensions[output]);
        let length = self.builder.dimensions(self.input)[input];
        // All phases are as long as the first.
        let count = ceil_div(size, phases);
        let mut shape = self.result.clone();
        shape.dimensions[output] = count;
        let mut beside = shape.dimensions.clone();
        beside.insert(output + 1, 1);
        let mut parts = Vec::new();
        for phase in 0..phases {
            // Every `phases`th element of the kernel from here on meets elements of the input, the first time this one.
            let first = (w.padding_low - phase).rem_euclid(phases);
            let shift = (phase + first - w.padding_low) / phases;
            let window_size = ceil_div((w.size - first).max(0), phases);
            let part = if window_size == 0 {
                self.builder.filled(&shape, ConstantNumber::Integer(0))
            } else {
                let window = WindowDimension {
                    size: window_size,
                    padding_low: -shift,
                    padding_high: count - 1 + window_size - length + shift,
                    base_dilation: 1,
                    ..w
                };
                self.phase(number, window, SliceDimension { start: first, limit: w.size, stride: phases }, &shape)
            };
            parts.push(self.builder.reshape(part, &beside));
        }
        let whole = self.builder.concatenate(&parts, output + 1);
        shape.dimensions[output] = count * phases;
        let whole = self.builder.reshape(whole, &shape.dimensions);
        if count * phases == size { whole } else { self.builder.slice(whole, output, 0, size) }
    }

    /// The convolution with elements of the kernel along one spatial dimension.
    fn phase(
        &mut self,
        number: usize,
        window: WindowDimension,
        elements: SliceDimension,
        result: &ArrayShape,
    ) -> InstructionId {
        let mut kernel_shape = self.builder.array(self.kernel);
        let dimension = self.dimensions.kernel_spatial[number] as usize;
        let mut slices: Vec<SliceDimension> =
            kernel_shape.dimensions.iter().map(|&limit| SliceDimension { start: 0, limit, stride: 1 }).collect();
        slices[dimension] = elements;
        kernel_shape.dimensions[dimension] = window.size;
        let kernel = self.builder.add(OpKind::Slice, kernel_shape, &[self.kernel], SliceAttributes { slice: &slices });
        let mut windows = self.window.clone();
        windows[number] = window;
        let (dimensions, input) = (self.dimensions.clone(), self.input);
        let attributes = self.attributes;
        let part = Site {
            builder: self.builder,
            attributes,
            statistics: self.statistics,
            dimensions: dimensions.clone(),
            window: windows.clone(),
            result: result.clone(),
            input,
            kernel,
        };
        if let Some(value) = part.canonical() {
            return value;
        }
        let attributes = ConvolutionAttributes { window: &windows, dim_labels: &dimensions, ..attributes };
        self.builder.add(OpKind::Convolution, result.clone(), &[input, kernel], attributes)
    }

    // convolution(x, k) with few features last => transpose(convolution(x, k) with batches last), and the reverse
    fn exchange_last(&mut self) -> Option<Vec<i64>> {
        let last = self.result.rank() as i64 - 1;
        let (batch, feature) = (self.dimensions.output_batch, self.dimensions.output_feature);
        let other = match last {
            _ if last == feature => batch,
            _ if last == batch => feature,
            _ => return None,
        };
        let [size, other_size] = [last, other].map(|d| self.result.dimensions[d as usize]);
        if size >= FEW || other_size < 2 * FEW {
            return None;
        }
        self.statistics.add("exchange-last", 1);
        (self.dimensions.output_batch, self.dimensions.output_feature) = (feature, batch);
        self.result.dimensions.swap(last as usize, other as usize);
        let mut permutation: Vec<i64> = (0..=last).collect();
        permutation.swap(last as usize, other as usize);
        Some(permutation)
    }

    // convolution(x, k), pad, lhs_dilate => convolution(pad(x, 0), k)
    fn pad_input(&mut self) {
        let mut shape = self.builder.array(self.input);
        let mut padding = vec![PaddingDimension { low: 0, high: 0, interior: 0 }; shape.rank()];
        for (&d, w) in self.dimensions.input_spatial.iter().zip(&mut self.window) {
            let (d, interior) = (d as usize, w.base_dilation.max(1) - 1);
            // Elements behind the last window are not read: they need not be there.
            padding[d] = PaddingDimension { low: w.padding_low, high: w.padding_high, interior };
            let size = shape.dimensions[d];
            shape.dimensions[d] = size + (size - 1) * interior + w.padding_low + w.padding_high;
            (w.padding_low, w.padding_high, w.base_dilation) = (0, 0, 1);
        }
        if padding.iter().all(|p| (p.low, p.high, p.interior) == (0, 0, 0)) {
            return;
        }
        self.statistics.add("pad-input", 1);
        if !shape.element_type.has_zero() {
            self.input = self.builder.convert(self.input, ElementType::F32);
            shape = shape.with_element_type(ElementType::F32);
        }
        let zero = self.builder.scalar(shape.element_type, ConstantNumber::Integer(0));
        let attributes = PadAttributes { padding: &padding };
        self.input = self.builder.add(OpKind::Pad, shape, &[self.input, zero], attributes);
    }

    // convolution(x, k), rhs_reversal => convolution(x, reverse(k))
    fn reverse_kernel(&mut self) {
        let reversed: Vec<i64> = self
            .dimensions
            .kernel_spatial
            .iter()
            .zip(&self.window)
            .filter(|(_, w)| w.reversal && w.size > 1)
            .map(|(&d, _)| d)
            .collect();
        for w in &mut self.window {
            w.reversal = false;
        }
        if reversed.is_empty() {
            return;
        }
        self.statistics.add("reverse-kernel", 1);
        let shape = self.builder.array(self.kernel);
        let attributes = ReverseAttributes { dimensions: &reversed };
        self.kernel = self.builder.add(OpKind::Reverse, shape, &[self.kernel], attributes);
    }

    // convolution(x, k), size=1x… => transpose(dot(slice(x), reshape(k)))
    fn into_dot(mut self) -> InstructionId {
        self.statistics.add("convolution-to-dot", 1);
        let mut sliced = self.builder.array(self.input);
        let mut slices: Vec<SliceDimension> =
            sliced.dimensions.iter().map(|&limit| SliceDimension { start: 0, limit, stride: 1 }).collect();
        for ((&from, &to), w) in
            self.dimensions.input_spatial.iter().zip(&self.dimensions.output_spatial).zip(&self.window)
        {
            let (size, stride) = (self.result.dimensions[to as usize], w.stride.max(1));
            slices[from as usize] = SliceDimension { start: 0, limit: (size - 1) * stride + 1, stride };
            sliced.dimensions[from as usize] = size;
        }
        if sliced.dimensions != self.builder.dimensions(self.input) {
            let attributes = SliceAttributes { slice: &slices };
            self.input = self.builder.add(OpKind::Slice, sliced.clone(), &[self.input], attributes);
        }
        let (input_place, output_place) = (self.dimensions.kernel_input_feature, self.dimensions.kernel_output_feature);
        let kernel = self.builder.dimensions(self.kernel);
        let mut sizes = [kernel[input_place as usize], kernel[output_place as usize]];
        let contracted = i64::from(input_place > output_place);
        if contracted == 1 {
            sizes.reverse();
        }
        let kernel = self.builder.reshape(self.kernel, &sizes);
        // The dot's dimensions: those of the input but its feature, then the output's feature.
        let feature = self.dimensions.input_feature;
        let free: Vec<i64> = (0..sliced.rank() as i64).filter(|&d| d != feature).collect();
        let place_in_output = |d: i64| match self.dimensions.input_spatial.iter().position(|&spatial| spatial == d) {
            Some(number) => self.dimensions.output_spatial[number],
            None => self.dimensions.output_batch,
        };
        let places: Vec<i64> =
            free.iter().map(|&d| place_in_output(d)).chain([self.dimensions.output_feature]).collect();
        let shape = ArrayShape::new(
            self.result.element_type,
            places.iter().map(|&place| self.result.dimensions[place as usize]).collect::<Vec<_>>(),
        );
        let attributes = DotAttributes {
            lhs_contracting_dims: &[feature],
            rhs_contracting_dims: &[contracted],
            operand_precision: self.attributes.operand_precision,
            ..DotAttributes::new()
        };
        let dot = self.builder.add(OpKind::Dot, shape, &[self.input, kernel], attributes);
        let permutation: Vec<i64> = (0..places.len() as i64)
            .filter_map(|place| places.iter().position(|&own| own == place).map(|number| number as i64))
            .collect();
        self.builder.transpose(dot, &permutation)
    }
}
