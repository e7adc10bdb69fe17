//! `canonicalize-convolutions`: brings convolutions into the forms that have fast code.
//!
//! Where the base is dilated, most products are with zeros: the positions of the result that see the same elements of the
//! kernel, a *phase*, are a convolution without dilation, and these are interleaved. Phases that see the same elements of the input
//! are features of one convolution. Other dilation, and padding, become a `pad` (which fuses with what makes the input), except
//! where each feature is convolved by itself: that kernel leaves out what is outside of the input, and a `pad` with zeros
//! becomes padding of its window. A reversed window becomes a `reverse` of the kernel. A window of one element is a product of
//! matrices, and large ones of 3 × 3 are several (`winograd`). A result with few features (or batches) in its last dimension is
//! computed with the other of the two there: vectors run along the last dimension.

use hlo::attributes::{ConvolutionDimensions, PaddingDimension, SliceDimension, WindowDimension};
use hlo::dialect;
use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::ops::dot::DotAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::shape::{ArrayShape, Shape};
use indexing::ceil_div;
use melior::ir::{OperationRef, ValueLike};
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};
use crate::winograd;

/// Options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition {
        name: "features-last",
        description: "whether features move behind the dimensions of space where these are short: vectors run along them",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "winograd",
        description: "whether large convolutions of 3x3 elements go by Winograd's algorithm, which rounds otherwise, where that is faster",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

/// What the pass does beside what is always better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvolutionOptions {
    /// Whether vectors run along features, wherever rows of space are short.
    pub(crate) features_last: bool,
    /// Whether Winograd's algorithm may be taken.
    pub(crate) winograd: bool,
}

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub(crate) fn run(
    root: OperationRef<'_, '_>,
    options: ConvolutionOptions,
    statistics: &mut PassStatistics,
) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    for block in blocks_with(&rewriter, |_, kind| kind == OpKind::Convolution) {
        let is_number = |operation: OperationRef<'_, '_>| {
            let shape = operation.result(0).ok().and_then(|result| dialect::shape_of(result.r#type()).ok());
            shape.as_ref().and_then(Shape::as_array).is_some_and(|array| array.rank() == 0)
        };
        let body = Body::read(&rewriter, block, |operation, kind| match kind {
            OpKind::Constant => is_number(operation),
            kind => matches!(kind, OpKind::Convolution | OpKind::Pad),
        })?;
        body.rewrite(|builder, _, convolution| Site::of(builder, convolution, options, statistics)?.canonical())?;
    }
    Ok(())
}

/// Sizes of the last dimension that are too small for vectors along it.
const FEW: i64 = 8;

/// Rows of space that are long enough for vectors along them, and sums that are worth moving features behind shorter ones.
const LONG_ROW: i64 = 64;
const MANY_TERMS: i64 = 128;

/// Features of the input from which on the products of one place are a long sum by themselves, and products for each element that is moved to
/// make sums longer.
const LONG_SUM: i64 = 64;
const PRODUCTS_OF_MOVED: i64 = 32;
const PRODUCTS_OF_MOVED_SPACE: i64 = 4;

/// Positions in space from which on that is worth it: where a window covers all of it, the kernel is what takes the time, and is read in
/// order as it is.
const FEWEST_POSITIONS: i64 = 2;

/// Convolutions that one is divided into at most.
const MOST_PARTS: usize = 16;

/// Phases next to each other that see as many elements of the kernel each, and the same ones of the input: one convolution
/// with each phase's features.
struct Run {
    /// How many phases.
    phases: i64,
    /// The first element of the kernel that the first phase sees; each further phase begins one before.
    first: i64,
    /// The element of the input that it meets there.
    shift: i64,
    /// Elements of the kernel that each phase sees.
    size: i64,
}

/// The phases of a dilated dimension.
fn runs(w: &WindowDimension) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for phase in 0..w.base_dilation {
        // Every so many elements of the kernel, from here on, meet elements of the input.
        let first = (w.padding_low - phase).rem_euclid(w.base_dilation);
        let shift = (phase + first - w.padding_low) / w.base_dilation;
        let size = ceil_div((w.size - first).max(0), w.base_dilation);
        match runs.last_mut() {
            Some(run) if (run.shift, run.size) == (shift, size) => run.phases += 1,
            _ => runs.push(Run { phases: 1, first, shift, size }),
        }
    }
    runs
}

/// The permutation that moves a dimension to the place behind `before`, which is counted without it.
fn moved(rank: usize, from: usize, before: usize) -> Vec<i64> {
    let mut order: Vec<i64> = (0..rank as i64).filter(|&d| d != from as i64).collect();
    order.insert(before + 1, from as i64);
    order
}

/// Multiplications from which on that is worth their number.
const LEAST_DIVIDED: i64 = 1 << 14;

/// A convolution to rewrite.
struct Site<'s> {
    builder: &'s mut GraphBuilder,
    attributes: ConvolutionAttributes<'s>,
    statistics: &'s mut PassStatistics,
    options: ConvolutionOptions,
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
        options: ConvolutionOptions,
        statistics: &'s mut PassStatistics,
    ) -> Option<Self> {
        if convolution.kind != OpKind::Convolution {
            return None;
        }
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
            options,
            input,
            kernel,
        })
    }

    /// The convolution in its new form; `None` where that is the one that it has.
    fn canonical(mut self) -> Option<InstructionId> {
        if let Some(number) = self.divided_dimension() {
            return Some(self.into_phases(number));
        }
        if let Some(value) = self.by_winograd() {
            return Some(value);
        }
        match self.leaves_padding_out() {
            true => self.take_padding(),
            false => self.pad_input(),
        }
        self.reverse_kernel();
        let attributes = self.attributes;
        let is_grouped = self.is_grouped();
        if !is_grouped && self.window.iter().all(|dimension| dimension.size == 1) {
            return Some(self.into_dot());
        }
        let together = if is_grouped { None } else { self.bring_terms_together() };
        let are_together = together.is_some();
        let exchanged = match is_grouped {
            true => None,
            false => together.or_else(|| self.bring_features_last()).or_else(|| self.exchange_last()),
        };
        if self.window == attributes.window && exchanged.is_none() {
            return None;
        }
        let (window, result) = (self.window.clone(), self.result.clone());
        let value = match window.last() {
            Some(w) if are_together && w.window_dilation > 1 && w.stride <= 1 => self.into_positions(),
            _ => self.convolve(self.input, &window, &result),
        };
        Some(exchanged.map_or(value, |permutation| self.builder.transpose(value, &permutation)))
    }

    /// The convolution of an input of the same dimensions, with a window and result of other sizes.
    fn convolve(&mut self, input: InstructionId, window: &[WindowDimension], result: &ArrayShape) -> InstructionId {
        let attributes = ConvolutionAttributes { window, dim_labels: &self.dimensions, ..self.attributes };
        self.builder.add(OpKind::Convolution, result.clone(), &[input, self.kernel], attributes)
    }

    // convolution(x, k), rhs_dilate=n => interleave(convolution(slice(x, 0::n), k), …)  along the last dimension of space
    fn into_positions(&mut self) -> InstructionId {
        let number = self.window.len() - 1;
        let w = self.window[number];
        let [input, output] =
            [&self.dimensions.input_spatial, &self.dimensions.output_spatial].map(|spatial| spatial[number] as usize);
        let (size, step) = (self.result.dimensions[output], w.window_dilation);
        let count = ceil_div(size, step);
        let mut window = self.window.clone();
        window[number].window_dilation = 1;
        let mut parts = Vec::new();
        for first in 0..step.min(size) {
            let own = ceil_div(size - first, step);
            let limit = first + (own + w.size - 2) * step + 1;
            let part = SliceDimension { start: first, limit, stride: step };
            let part = self.builder.slice_along(self.input, &[(input, part)]);
            let mut shape = self.result.clone();
            shape.dimensions[output] = own;
            let value = self.convolve(part, &window, &shape);
            let value = if own == count {
                value
            } else {
                let zero = self.builder.scalar(shape.element_type, ConstantNumber::Integer(0));
                self.builder.pad_high(value, zero, output, count - own)
            };
            shape.dimensions[output] = count;
            shape.dimensions.insert(output + 1, 1);
            parts.push(self.builder.reshape(value, &shape.dimensions));
        }
        let whole = self.builder.concatenate(&parts, output + 1);
        let mut sizes = self.result.dimensions.clone();
        sizes[output] = count * parts.len() as i64;
        let whole = self.builder.reshape(whole, &sizes);
        self.builder.slice(whole, output, 0, size)
    }

    fn is_grouped(&self) -> bool {
        self.attributes.feature_group_count != 1 || self.attributes.batch_group_count != 1
    }

    /// The number of a spatial dimension whose base is dilated, where dividing the result pays.
    fn divided_dimension(&self) -> Option<usize> {
        let divided = |w: &WindowDimension| if w.base_dilation > 1 { runs(w).len() } else { 1 };
        let parts = self.window.iter().fold(1, |parts: usize, w| parts.saturating_mul(divided(w)));
        let features = self.builder.dimensions(self.kernel)[self.dimensions.kernel_input_feature as usize];
        let product = self.window.iter().fold(features, |product, w| product.saturating_mul(w.size));
        let product = product.saturating_mul(self.result.element_count());
        // What is divided already has fewer phases, and fewer products.
        let is_part = self.window != self.attributes.window;
        let has_zeros = self.result.element_type.has_zero() && self.builder.element_type(self.kernel).has_zero();
        if parts > MOST_PARTS || !is_part && product < LEAST_DIVIDED || !has_zeros {
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
        let size = self.result.dimensions[output];
        let length = self.builder.dimensions(self.input)[input];
        // All phases are as long as the first.
        let count = ceil_div(size, w.base_dilation);
        let mut shape = self.result.clone();
        shape.dimensions[output] = count;
        let mut parts = Vec::new();
        for run in runs(&w) {
            let part = if run.size == 0 {
                let mut beside = shape.dimensions.clone();
                beside.insert(output + 1, run.phases);
                self.builder.filled(&ArrayShape::new(shape.element_type, beside), ConstantNumber::Integer(0))
            } else {
                let window = WindowDimension {
                    size: run.size,
                    padding_low: -run.shift,
                    padding_high: count - 1 + run.size - length + run.shift,
                    base_dilation: 1,
                    ..w
                };
                let kernel = self.kernel_of(number, &run);
                self.run(number, window, kernel, run.phases, &shape)
            };
            parts.push(part);
        }
        let whole = self.builder.concatenate(&parts, output + 1);
        shape.dimensions[output] = count * w.base_dilation;
        let whole = self.builder.reshape(whole, &shape.dimensions);
        if shape.dimensions[output] == size { whole } else { self.builder.slice(whole, output, 0, size) }
    }

    /// The kernel of a run of phases: its elements for each phase, which are features of their own.
    fn kernel_of(&mut self, number: usize, run: &Run) -> InstructionId {
        let dimension = self.dimensions.kernel_spatial[number] as usize;
        let w = self.window[number];
        let last = run.first - (run.phases - 1);
        if run.phases == 1 {
            let part = SliceDimension { start: last, limit: w.size, stride: w.base_dilation };
            return self.builder.slice_along(self.kernel, &[(dimension, part)]);
        }
        // A row for each element of the window; the last one may lack elements that no phase of the run has.
        let row = w.base_dilation;
        let kernel = self.builder.slice(self.kernel, dimension, last, w.size.min(last + row * run.size));
        let lacking = row * run.size - self.builder.dimensions(kernel)[dimension];
        let kernel = if lacking == 0 {
            kernel
        } else {
            let zero = self.builder.scalar(self.builder.element_type(kernel), ConstantNumber::Integer(0));
            self.builder.pad_high(kernel, zero, dimension, lacking)
        };
        let mut sizes = self.builder.dimensions(kernel);
        sizes[dimension] = run.size;
        sizes.insert(dimension + 1, row);
        let rows = self.builder.reshape(kernel, &sizes);
        let rows = self.builder.slice(rows, dimension + 1, 0, run.phases);
        let rows = self.builder.reverse(rows, &[dimension as i64 + 1]);
        let feature = self.dimensions.kernel_output_feature as usize;
        let rows = self.builder.transpose(rows, &moved(sizes.len(), dimension + 1, feature));
        sizes.remove(dimension + 1);
        sizes[feature] *= run.phases;
        self.builder.reshape(rows, &sizes)
    }

    /// A run's convolution, its phases in a dimension behind the spatial one.
    fn run(
        &mut self,
        number: usize,
        window: WindowDimension,
        kernel: InstructionId,
        phases: i64,
        shape: &ArrayShape,
    ) -> InstructionId {
        let (output, feature) =
            (self.dimensions.output_spatial[number] as usize, self.dimensions.output_feature as usize);
        let mut windows = self.window.clone();
        windows[number] = window;
        let mut result = shape.clone();
        result.dimensions[feature] *= phases;
        let (dimensions, input, attributes) = (self.dimensions.clone(), self.input, self.attributes);
        let part = Site {
            builder: self.builder,
            attributes,
            statistics: self.statistics,
            // Each phase would be moved for itself.
            options: ConvolutionOptions { features_last: false, ..self.options },
            dimensions: dimensions.clone(),
            window: windows.clone(),
            result: result.clone(),
            input,
            kernel,
        };
        let value = part.canonical().unwrap_or_else(|| {
            let attributes = ConvolutionAttributes { window: &windows, dim_labels: &dimensions, ..attributes };
            self.builder.add(OpKind::Convolution, result, &[input, kernel], attributes)
        });
        let mut split = shape.dimensions.clone();
        split.insert(feature + 1, phases);
        let value = self.builder.reshape(value, &split);
        if phases == 1 {
            let mut beside = shape.dimensions.clone();
            beside.insert(output + 1, 1);
            return self.builder.reshape(value, &beside);
        }
        self.builder.transpose(value, &moved(split.len(), feature + 1, output))
    }

    // convolution(x, k), size=3x3 => what `winograd` says, where it is faster and the program asks for no more than the usual precision
    fn by_winograd(&mut self) -> Option<InstructionId> {
        let attributes = self.attributes;
        let is_plain = |w: &WindowDimension| {
            let WindowDimension { size, stride, base_dilation, window_dilation, .. } = *w;
            size == winograd::WINDOW && [stride, base_dilation, window_dilation].iter().all(|&step| step <= 1)
        };
        let types = [self.input, self.kernel].map(|operand| self.builder.element_type(operand));
        let is_f32 = self.result.element_type == ElementType::F32 && types == [ElementType::F32; 2];
        let &[rows, columns] = &self.dimensions.output_spatial[..] else { return None };
        if !self.options.winograd
            || !attributes.operand_precision.are_default()
            || self.is_grouped()
            || !is_f32
            || !self.window.iter().all(is_plain)
        {
            return None;
        }
        let of_result = |d: i64| self.result.dimensions[d as usize];
        let sizes = winograd::Sizes {
            batch: of_result(self.dimensions.output_batch),
            space: [rows, columns].map(of_result),
            input_features: self.builder.dimensions(self.kernel)[self.dimensions.kernel_input_feature as usize],
            output_features: of_result(self.dimensions.output_feature),
        };
        if !sizes.is_worth_it() {
            return None;
        }
        let has_features_last = |d: &ConvolutionDimensions| {
            let input = (d.input_batch, &d.input_spatial[..], d.input_feature);
            let output = (d.output_batch, &d.output_spatial[..], d.output_feature);
            [input, output].iter().all(|&own| own == (0, &[1, 2], 3))
        };
        let moved = match has_features_last(&self.dimensions) {
            true => None,
            false => Some(self.bring_features_last()?),
        };
        self.statistics.add("winograd", 1);
        self.reverse_kernel();
        let d = self.dimensions.clone();
        for (w, size) in self.window.iter_mut().zip(sizes.space) {
            w.padding_high += size % winograd::RESULT_TILE;
        }
        self.pad_input();
        let order = [&d.kernel_spatial[..], &[d.kernel_input_feature, d.kernel_output_feature]].concat();
        let kernel = self.builder.transpose(self.kernel, &order);
        let whole = winograd::convolution(self.builder, self.input, kernel, sizes);
        let [rows, columns] = sizes.space;
        let value = self.builder.slice(whole, 1, 0, rows);
        let value = self.builder.slice(value, 2, 0, columns);
        Some(moved.map_or(value, |permutation| self.builder.transpose(value, &permutation)))
    }

    // convolution(x, k) with features before space => transpose(convolution(transpose(x), k)) with features last
    fn bring_features_last(&mut self) -> Option<Vec<i64>> {
        let last = self.result.rank() as i64 - 1;
        let d = &self.dimensions;
        let features = self.result.dimensions[d.output_feature as usize];
        let terms = self.builder.dimensions(self.kernel)[d.kernel_input_feature as usize];
        let terms = self.window.iter().fold(terms, |terms, w| terms.saturating_mul(w.size));
        let is_long = self.result.dimensions[last as usize] > LONG_ROW;
        let positions =
            d.output_spatial.iter().fold(1i64, |all, &d| all.saturating_mul(self.result.dimensions[d as usize]));
        if !self.options.features_last
            || positions < FEWEST_POSITIONS
            || !d.output_spatial.contains(&last)
            || is_long
            || features < 2 * FEW
            || terms < MANY_TERMS
        {
            return None;
        }
        self.statistics.add("features-last", 1);
        let order = |batch: i64, spatial: &[i64], feature: i64| -> Vec<i64> {
            std::iter::once(batch).chain(spatial.iter().copied()).chain([feature]).collect()
        };
        let of_input = order(d.input_batch, &d.input_spatial, d.input_feature);
        let of_output = order(d.output_batch, &d.output_spatial, d.output_feature);
        self.input = self.builder.transpose(self.input, &of_input);
        self.result.dimensions = of_output.iter().map(|&d| self.result.dimensions[d as usize]).collect();
        let spatial: Vec<i64> = (1..last).collect();
        self.dimensions = ConvolutionDimensions {
            input_batch: 0,
            input_spatial: spatial.clone(),
            input_feature: last,
            output_batch: 0,
            output_spatial: spatial,
            output_feature: last,
            ..self.dimensions.clone()
        };
        let place = |d: i64| of_output.iter().position(|&own| own == d).map_or(d, |place| place as i64);
        Some((0..=last).map(place).collect())
    }

    // convolution(x, k) with a window of most of x => transpose(convolution(transpose(x), transpose(k))) with space first: neighbours in the
    // window and their features are then one sum
    fn bring_terms_together(&mut self) -> Option<Vec<i64>> {
        let d = &self.dimensions;
        let count = |dimensions: &[i64]| dimensions.iter().fold(1i64, |count, &size| count.saturating_mul(size));
        let of_result = |d: i64| self.result.dimensions[d as usize];
        let [input, kernel] = [self.input, self.kernel].map(|operand| self.builder.dimensions(operand));
        let terms = kernel[d.kernel_input_feature as usize];
        let window = self.window.iter().fold(1i64, |window, w| window.saturating_mul(w.size));
        let positions = d.output_spatial.iter().fold(1i64, |all, &d| all.saturating_mul(of_result(d)));
        let [batch, features] = [d.output_batch, d.output_feature].map(of_result);
        let products = self.result.element_count().saturating_mul(window).saturating_mul(terms);
        let moved = count(&input).saturating_add(count(&kernel)).saturating_add(self.result.element_count());
        let is_space_last = d.output_spatial.contains(&(self.result.rank() as i64 - 1));
        let least = if is_space_last { PRODUCTS_OF_MOVED_SPACE } else { PRODUCTS_OF_MOVED };
        if !self.options.features_last
            || positions < 2
            || window <= positions
            || terms >= LONG_SUM
            || batch.max(features) < 2 * FEW
            || products < least.saturating_mul(moved)
        {
            return None;
        }
        let order = |spatial: &[i64], last: [i64; 2]| [spatial, &last].concat();
        let of_input = order(&d.input_spatial, [d.input_feature, d.input_batch]);
        let of_kernel = order(&d.kernel_spatial, [d.kernel_input_feature, d.kernel_output_feature]);
        let last =
            if features < 2 * FEW { [d.output_feature, d.output_batch] } else { [d.output_batch, d.output_feature] };
        let of_output = order(&d.output_spatial, last);
        if [&of_input, &of_kernel, &of_output].into_iter().all(|order| order.is_sorted()) {
            return None;
        }
        self.statistics.add("terms-together", 1);
        self.input = self.builder.transpose(self.input, &of_input);
        self.kernel = self.builder.transpose(self.kernel, &of_kernel);
        self.result.dimensions = of_output.iter().map(|&d| self.result.dimensions[d as usize]).collect();
        let place = |d: i64| of_output.iter().position(|&own| own == d).map_or(d, |place| place as i64);
        let spatial: Vec<i64> = (0..self.window.len() as i64).collect();
        let behind = spatial.len() as i64;
        self.dimensions = ConvolutionDimensions {
            input_spatial: spatial.clone(),
            input_feature: behind,
            input_batch: behind + 1,
            kernel_spatial: spatial.clone(),
            kernel_input_feature: behind,
            kernel_output_feature: behind + 1,
            output_batch: place(d.output_batch),
            output_feature: place(d.output_feature),
            output_spatial: spatial,
        };
        Some((0..of_output.len() as i64).map(place).collect())
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

    /// Whether each feature of the result sums products of one feature of the input: these are few, next to each other in
    /// vectors of features, and one test leaves out what is padding.
    fn leaves_padding_out(&self) -> bool {
        let features = self.builder.dimensions(self.kernel)[self.dimensions.kernel_input_feature as usize];
        let is_dense = self.window.iter().all(|w| w.base_dilation <= 1);
        self.attributes.feature_group_count > 1 && features == 1 && is_dense
    }

    // convolution(pad(x, 0), k) => convolution(x, k), pad
    fn take_padding(&mut self) {
        let pad = self.builder.get(self.input);
        let &[input, value] = &pad.operands[..] else { return };
        let Ok(PadAttributes { padding }) = pad.attributes() else { return };
        let is_zero = || {
            let literal = self.builder.get(value).literal().and_then(Literal::as_array);
            literal.is_some_and(|zero| zero.bytes().iter().all(|&byte| byte == 0))
        };
        let is_spatial = |d: usize| self.dimensions.input_spatial.contains(&(d as i64));
        let is_taken = |(d, p): (usize, &PaddingDimension)| {
            p.low >= 0 && p.high >= 0 && p.interior == 0 && (is_spatial(d) || (p.low, p.high) == (0, 0))
        };
        if pad.kind != OpKind::Pad || !padding.iter().enumerate().all(is_taken) || !is_zero() {
            return;
        }
        for (&d, w) in self.dimensions.input_spatial.iter().zip(&mut self.window) {
            w.padding_low += padding[d as usize].low;
            w.padding_high += padding[d as usize].high;
        }
        self.statistics.add("take-padding", 1);
        self.input = input;
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
        let spatial = self.dimensions.input_spatial.iter().zip(&self.dimensions.output_spatial).zip(&self.window);
        let part = |((&from, &to), w): ((&i64, &i64), &WindowDimension)| {
            let (size, stride) = (self.result.dimensions[to as usize], w.stride.max(1));
            (from as usize, SliceDimension { start: 0, limit: (size - 1) * stride + 1, stride })
        };
        let parts: Vec<(usize, SliceDimension)> = spatial.map(part).collect();
        self.input = self.builder.slice_along(self.input, &parts);
        let sliced = self.builder.array(self.input);
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
