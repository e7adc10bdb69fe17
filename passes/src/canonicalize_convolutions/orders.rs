//! Orders of dimensions in which products of matrices have long sums and vectors are full.

use hlo::attributes::{ConvolutionDimensions, SliceDimension};
use hlo::graph::InstructionId;
use indexing::ceil_div;

use super::Site;
use crate::graph_builder::ConstantNumber;

/// Sizes of the last dimension that are too small for vectors along it.
const FEW: i64 = 8;

/// Terms of sums from which on it is worth moving features behind space: along one dimension, whose rows are read in order as they are, more.
const LEAST_TERMS: i64 = 9;
const LEAST_TERMS_ALONG_ROWS: i64 = 64;

/// Features of the input from which on the products of one place are a long sum by themselves; and products for each element that is moved to
/// make sums longer, fewer where rows of space are the alternative.
const LONG_SUM: i64 = 64;
const PRODUCTS_OF_MOVED: i64 = 32;
const PRODUCTS_OF_MOVED_SPACE: i64 = 4;

/// Positions in space from which on that is worth it: where a window covers all of it, the kernel is what takes the time, and is read in
/// order as it is.
const FEWEST_POSITIONS: i64 = 2;

/// Bytes of a kernel that convolutions read where it is, if its features of the result are neighbours; and rows of products from which on it
/// is worth moving a larger one, of which neighbours in the window are then one sum, if that is not long already.
const SMALL_KERNEL: usize = 1 << 16;
const MANY_FEATURES: i64 = 128;
const MANY_ROWS: i64 = 512;

/// Dilation of a window up to which its result is divided into as many convolutions.
const MOST_DILATION: i64 = 4;

/// Where an order has a dimension.
fn place(order: &[i64], dimension: i64) -> i64 {
    order.iter().position(|&own| own == dimension).map_or(dimension, |place| place as i64)
}

impl Site<'_> {
    /// Whether dimensions may be put in other orders.
    fn moves_dimensions(&self) -> bool {
        self.options.features_last && !self.is_grouped()
    }

    /// Positions in space of the result.
    fn positions(&self) -> i64 {
        let sizes = self.dimensions.output_spatial.iter().map(|&d| self.result.dimensions[d as usize]);
        sizes.fold(1, |positions, size| positions.saturating_mul(size))
    }

    /// Puts the dimensions of the input and the result in other orders.
    fn move_space(&mut self, of_input: &[i64], of_output: &[i64]) {
        self.input = self.builder.transpose(self.input, of_input);
        self.result.dimensions = of_output.iter().map(|&d| self.result.dimensions[d as usize]).collect();
        let d = &self.dimensions;
        let [input_spatial, output_spatial] = [(&d.input_spatial, of_input), (&d.output_spatial, of_output)]
            .map(|(spatial, order)| spatial.iter().map(|&d| place(order, d)).collect());
        self.dimensions = ConvolutionDimensions {
            input_batch: place(of_input, d.input_batch),
            input_spatial,
            input_feature: place(of_input, d.input_feature),
            output_batch: place(of_output, d.output_batch),
            output_spatial,
            output_feature: place(of_output, d.output_feature),
            ..d.clone()
        };
    }

    /// The order of the kernel's dimensions in which features of the result are neighbours, and before them those of the input.
    fn kernel_order(&self) -> Vec<i64> {
        let d = &self.dimensions;
        [&d.kernel_spatial[..], &[d.kernel_input_feature, d.kernel_output_feature]].concat()
    }

    /// Puts the dimensions of the kernel in that order.
    pub(super) fn move_kernel(&mut self) {
        let (d, order) = (&self.dimensions, self.kernel_order());
        self.kernel = self.builder.transpose(self.kernel, &order);
        self.dimensions = ConvolutionDimensions {
            kernel_spatial: d.kernel_spatial.iter().map(|&d| place(&order, d)).collect(),
            kernel_input_feature: place(&order, d.kernel_input_feature),
            kernel_output_feature: place(&order, d.kernel_output_feature),
            ..d.clone()
        };
    }

    // convolution(x, k) with features before space => transpose(convolution(transpose(x), k)) with features last
    pub(super) fn bring_features_last(&mut self) -> Option<Vec<i64>> {
        let d = &self.dimensions;
        let features = self.result.dimensions[d.output_feature as usize];
        let terms_of_place = self.terms_of_place();
        let terms = self.window_size().saturating_mul(terms_of_place);
        let least = if d.output_spatial.len() > 1 { LEAST_TERMS } else { LEAST_TERMS_ALONG_ROWS };
        if !self.moves_dimensions()
            || self.positions() < FEWEST_POSITIONS
            || !d.output_spatial.contains(&(self.result.rank() as i64 - 1))
            || features < 2 * FEW
            || terms < least
        {
            return None;
        }
        self.statistics.add("features-last", 1);
        let order = |batch: i64, spatial: &[i64], feature: i64| [&[batch], spatial, &[feature]].concat();
        let of_input = order(d.input_batch, &d.input_spatial, d.input_feature);
        let of_output = order(d.output_batch, &d.output_spatial, d.output_feature);
        let rows = self.result.element_count() / features;
        // Parts of a kernel are copied in any case.
        let is_divided = self.window.iter().any(|w| w.base_dilation > 1);
        let is_worth_it = terms_of_place < MANY_FEATURES && rows >= MANY_ROWS;
        if is_divided || self.builder.array(self.kernel).byte_size() <= SMALL_KERNEL || is_worth_it {
            self.move_kernel();
        }
        self.move_space(&of_input, &of_output);
        Some(of_output)
    }

    // convolution(x, k) with few features last => transpose(convolution(transpose(x), k)) with space last
    pub(super) fn bring_space_last(&mut self) -> Option<Vec<i64>> {
        let d = &self.dimensions;
        let &last = d.output_spatial.last()?;
        let [features, row] = [d.output_feature, last].map(|d| self.result.dimensions[d as usize]);
        let has_features_last = d.output_feature == self.result.rank() as i64 - 1;
        if !self.moves_dimensions() || !has_features_last || !(2..FEW).contains(&features) || row < FEW {
            return None;
        }
        self.statistics.add("space-last", 1);
        let order = |batch: i64, feature: i64, spatial: &[i64]| [&[batch, feature], spatial].concat();
        let of_input = order(d.input_batch, d.input_feature, &d.input_spatial);
        let of_output = order(d.output_batch, d.output_feature, &d.output_spatial);
        self.move_space(&of_input, &of_output);
        Some(of_output)
    }

    // convolution(x, k) with a window of most of x => transpose(convolution(transpose(x), transpose(k))) with space first: neighbours in the
    // window and their features are then one sum
    pub(super) fn with_terms_together(&mut self) -> Option<InstructionId> {
        let d = &self.dimensions;
        let of_result = |d: i64| self.result.dimensions[d as usize];
        let [input, kernel] = [self.input, self.kernel].map(|operand| self.builder.array(operand));
        let (terms, window, positions) = (self.terms_of_place(), self.window_size(), self.positions());
        let [batch, features] = [d.output_batch, d.output_feature].map(of_result);
        let products = self.result.element_count().saturating_mul(window).saturating_mul(terms);
        let arrays = [&input, &kernel, &self.result];
        let moved = arrays.iter().fold(0i64, |moved, array| moved.saturating_add(array.element_count()));
        let last = self.result.rank() as i64 - 1;
        let is_space_last = d.output_spatial.contains(&last);
        let least = if is_space_last { PRODUCTS_OF_MOVED_SPACE } else { PRODUCTS_OF_MOVED };
        if !self.moves_dimensions()
            || positions < FEWEST_POSITIONS
            || window <= positions
            || terms >= LONG_SUM
            || is_space_last && of_result(last) >= 2 * FEW
            || batch.max(features) < 2 * FEW
            || products < least.saturating_mul(moved)
        {
            return None;
        }
        let order = |spatial: &[i64], last: [i64; 2]| [spatial, &last].concat();
        let of_input = order(&d.input_spatial, [d.input_feature, d.input_batch]);
        let behind_space =
            if features < 2 * FEW { [d.output_feature, d.output_batch] } else { [d.output_batch, d.output_feature] };
        let of_output = order(&d.output_spatial, behind_space);
        if [&of_input, &self.kernel_order(), &of_output].into_iter().all(|order| order.is_sorted()) {
            return None;
        }
        self.statistics.add("terms-together", 1);
        self.move_space(&of_input, &of_output);
        self.move_kernel();
        let (window, result) = (self.window.clone(), self.result.clone());
        let value = match window.last() {
            Some(w) if (2..=MOST_DILATION).contains(&w.window_dilation) && w.stride <= 1 => self.by_positions(),
            _ => self.convolve([self.input, self.kernel], &window, &result),
        };
        Some(self.builder.transpose_back(value, &of_output))
    }

    // convolution(x, k) with few features last => transpose(convolution(x, k) with batches last), and the reverse
    pub(super) fn exchange_last(&mut self) -> Option<Vec<i64>> {
        let last = self.result.rank() as i64 - 1;
        let (batch, feature) = (self.dimensions.output_batch, self.dimensions.output_feature);
        let other = match last {
            _ if last == feature => batch,
            _ if last == batch => feature,
            _ => return None,
        };
        let [size, other_size] = [last, other].map(|d| self.result.dimensions[d as usize]);
        if self.is_grouped() || size >= FEW || other_size < 2 * FEW {
            return None;
        }
        self.statistics.add("exchange-last", 1);
        (self.dimensions.output_batch, self.dimensions.output_feature) = (feature, batch);
        self.result.dimensions.swap(last as usize, other as usize);
        let mut order: Vec<i64> = (0..=last).collect();
        order.swap(last as usize, other as usize);
        Some(order)
    }

    // convolution(x, k), rhs_dilate=n => interleave(convolution(slice(x, 0::n), k), …)  along the last dimension of space
    fn by_positions(&mut self) -> InstructionId {
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
            let value = self.convolve([part, self.kernel], &window, &shape);
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
        self.interleave(&parts, output)
    }
}
