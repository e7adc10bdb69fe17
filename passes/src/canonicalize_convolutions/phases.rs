//! Convolutions of a dilated base, of which the positions of the result that see the same elements of the kernel are convolutions without
//! dilation.

use hlo::attributes::{SliceDimension, WindowDimension};
use hlo::graph::InstructionId;
use hlo::shape::ArrayShape;
use indexing::ceil_div;

use super::{ConvolutionOptions, Site};
use crate::graph_builder::ConstantNumber;

/// Convolutions that one is divided into at most.
const MOST_PARTS: usize = 16;

/// Multiplications from which on that is worth their number.
const LEAST_DIVIDED: i64 = 1 << 14;

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

impl Site<'_> {
    /// The number of a spatial dimension whose base is dilated, where dividing the result pays.
    pub(super) fn divided_dimension(&self) -> Option<usize> {
        let divided = |w: &WindowDimension| if w.base_dilation > 1 { runs(w).len() } else { 1 };
        let parts = self.window.iter().fold(1, |parts: usize, w| parts.saturating_mul(divided(w)));
        let terms = self.window_size().saturating_mul(self.terms_of_place());
        let product = terms.saturating_mul(self.result.element_count());
        // What is divided already has fewer phases, and fewer products.
        let is_part = self.window != self.attributes.window;
        let has_zeros = self.result.element_type.has_zero() && self.builder.element_type(self.kernel).has_zero();
        if parts > MOST_PARTS || !is_part && product < LEAST_DIVIDED || !has_zeros {
            return None;
        }
        self.window.iter().position(|w| w.base_dilation > 1 && w.stride.max(1) == 1 && w.window_dilation.max(1) == 1)
    }

    // convolution(x, k), lhs_dilate=n => reshape(concatenate(convolution(x, slice(k, 0::n)), …))
    pub(super) fn by_phases(&mut self, number: usize) -> InstructionId {
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
        self.interleave(&parts, output)
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
        let input = self.input;
        let part = Site {
            builder: self.builder,
            attributes: self.attributes,
            statistics: self.statistics,
            // Each phase would be moved for itself.
            options: ConvolutionOptions { features_last: false, ..self.options },
            dimensions: self.dimensions.clone(),
            window: windows.clone(),
            result: result.clone(),
            input,
            kernel,
        };
        let value = part.canonical().unwrap_or_else(|| self.convolve([input, kernel], &windows, &result));
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
}
