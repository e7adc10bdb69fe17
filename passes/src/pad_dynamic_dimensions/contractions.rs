//! Operations that multiply and add: what does not exist of a contracted dimension is zero.

use hlo::element_type::ElementType;
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::gather::GatherAttributes;
use hlo::ops::ragged_dot::{RaggedDotAttributes, RaggedMode, ragged_mode};
use hlo::shape::ArrayShape;

use super::Site;
use super::sizes::{Arithmetic, ArraySizes, indices, zeroed};
use crate::graph_builder::{ConstantNumber, GraphBuilder};

impl Site<'_> {
    pub(super) fn dot(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let numbers = self.attributes::<DotAttributes>()?.dimensions();
        self.mask_contracted(&numbers.lhs_contracting, &numbers.rhs_contracting);
        let (lhs, rhs) = (self.sizes_of(0), self.sizes_of(1));
        let batch = numbers.lhs_batch.iter().zip(&numbers.rhs_batch).map(|(&l, &r)| lhs[l].or(rhs[r]));
        let lhs_free = numbers.lhs_free(lhs.len()).into_iter().map(|d| lhs[d]);
        let rhs_free = numbers.rhs_free(rhs.len()).into_iter().map(|d| rhs[d]);
        let result = batch.chain(lhs_free).chain(rhs_free).collect();
        Some((self.unchanged(), result))
    }

    /// Zeros, in both operands, where a contracted dimension ends.
    fn mask_contracted(&mut self, lhs: &[usize], rhs: &[usize]) {
        let sizes = [self.sizes_of(0), self.sizes_of(1)];
        let mut ends = sizes.clone().map(|sizes| vec![None; sizes.len()]);
        for (&l, &r) in lhs.iter().zip(rhs) {
            let size = sizes[0][l].or(sizes[1][r]);
            (ends[0][l], ends[1][r]) = (size, size);
        }
        for (operand, ends) in ends.iter().enumerate() {
            self.operands[operand] = zeroed(self.builder, self.operands[operand], ends);
        }
    }

    /// Spatial and feature dimensions end with zeros; the kernel must have its full size in space.
    pub(super) fn convolution(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let attributes: ConvolutionAttributes = self.attributes()?;
        let numbers = attributes.dim_labels.clone();
        let (input, kernel) = (self.sizes_of(0), self.sizes_of(1));
        if numbers.kernel_spatial.iter().any(|&d| kernel[d as usize].is_some()) {
            return None;
        }
        let (feature_groups, batch_groups) = (attributes.feature_group_count, attributes.batch_group_count);
        let [batch, feature] = [numbers.input_batch, numbers.input_feature].map(|d| d as usize);
        let [kernel_input, kernel_output] =
            [numbers.kernel_input_feature, numbers.kernel_output_feature].map(|d| d as usize);
        let spatial = numbers.input_spatial.iter().map(|&d| d as usize);
        let ends = self.only(0, spatial);
        self.operands[0] = zeroed(self.builder, self.operands[0], &ends);
        const REASON: &str = "the sizes of batch or features do not fit the groups";
        match feature_groups {
            1 => self.mask_contracted(&[feature], &[kernel_input]),
            _ => {
                let kernel_size = kernel[kernel_input].map(|size| Arithmetic(self.builder).times(size, feature_groups));
                if let (Some(input), Some(kernel)) = (input[feature], kernel_size) {
                    Arithmetic(self.builder).require(input, ComparisonDirection::Eq, kernel, REASON);
                }
                self.spread_groups(0, feature, feature_groups, input[feature].or(kernel_size));
                let group_size = input[feature].map(|size| Arithmetic(self.builder).divided(size, feature_groups));
                let mut ends = vec![None; kernel.len()];
                ends[kernel_input] = kernel[kernel_input].or(group_size);
                self.operands[1] = zeroed(self.builder, self.operands[1], &ends);
            }
        }
        for (size, groups) in [
            (input[batch], batch_groups),
            (input[feature], feature_groups),
            (kernel[kernel_output], feature_groups.max(batch_groups)),
        ] {
            if let Some(size) = size.filter(|_| groups > 1) {
                Arithmetic(self.builder).require_multiple(size, groups, REASON);
            }
        }
        if batch_groups > 1 {
            self.spread_groups(0, batch, batch_groups, input[batch]);
        }
        let groups = feature_groups.max(batch_groups);
        if groups > 1 {
            self.spread_groups(1, kernel_output, groups, kernel[kernel_output]);
        }

        let mut sizes = vec![None; input.len()];
        sizes[numbers.output_batch as usize] =
            input[batch].map(|size| Arithmetic(self.builder).divided(size, batch_groups));
        let window = attributes.window.to_vec();
        for ((&from, &to), w) in numbers.input_spatial.iter().zip(&numbers.output_spatial).zip(&window) {
            sizes[to as usize] = self.windows(input[from as usize], w);
        }
        let mut result = self.unchanged();
        if let Some(size) = kernel[kernel_output] {
            let output = numbers.output_feature as usize;
            sizes[output] = Some(size);
            if groups > 1 {
                result = closed_up(self.builder, result, output, groups, size);
            }
        }
        Some((result, sizes))
    }

    /// Sizes of an operand, of some dimensions only.
    fn only(&self, operand: usize, dimensions: impl Iterator<Item = usize>) -> ArraySizes {
        let sizes = self.sizes_of(operand);
        let mut only = vec![None; sizes.len()];
        dimensions.for_each(|d| only[d] = sizes[d]);
        only
    }

    /// Moves the groups that a dimension of a run-time size consists of to where those of the bound are; zeros
    /// behind each.
    fn spread_groups(&mut self, operand: usize, dimension: usize, groups: i64, size: Option<InstructionId>) {
        let Some(size) = size else { return };
        let bounds = self.dimensions_of(operand);
        let room = bounds[dimension] / groups;
        if room == 0 {
            return;
        }
        let builder = &mut *self.builder;
        let length = Arithmetic(builder).divided(size, groups);
        let shape = ArrayShape::new(ElementType::S32, [bounds[dimension]]);
        let position = builder.iota(ElementType::S32, &shape.dimensions, 0);
        let room = builder.filled(&shape, ConstantNumber::Integer(room));
        let length = builder.broadcast(length, &shape.dimensions, &[]);
        let group = builder.binary(OpKind::Divide, position, room);
        let inside = builder.binary(OpKind::Remainder, position, room);
        let start = builder.binary(OpKind::Multiply, group, length);
        let place = builder.binary(OpKind::Add, start, inside);
        let exists = builder.compare(ComparisonDirection::Lt, inside, length);
        let moved = slices_at(builder, self.operands[operand], dimension, place);
        let exists = builder.broadcast(exists, &bounds, &[dimension as i64]);
        let zero = builder.filled(&builder.array(moved), ConstantNumber::Integer(0));
        self.operands[operand] = builder.select(exists, moved, zero);
    }

    /// Groups of run-time sizes: of the ragged dimension, and of how many groups there are.
    pub(super) fn ragged_dot(&mut self) -> Option<(InstructionId, ArraySizes)> {
        let attributes: RaggedDotAttributes = self.attributes()?;
        let ragged = attributes.lhs_ragged_dims.index();
        let group_dims = indices(attributes.rhs_group_dims);
        let DotDimensions { lhs_batch, lhs_contracting, rhs_batch, rhs_contracting } = attributes.dot().dimensions();
        self.mask_contracted(&lhs_contracting, &rhs_contracting);
        let [lhs, rhs, groups] = [0, 1, 2].map(|operand| self.sizes_of(operand));
        self.operands[2] = zeroed(self.builder, self.operands[2], &groups);
        let mut sizes: ArraySizes = Vec::new();
        if ragged_mode(&lhs_batch, &lhs_contracting, ragged) == RaggedMode::Contracting {
            sizes.push(*groups.last()?);
        }
        sizes.extend(lhs_batch.iter().zip(&rhs_batch).map(|(&l, &r)| lhs[l].or(rhs[r])));
        let is_free = |d: &usize| !lhs_batch.contains(d) && !lhs_contracting.contains(d);
        sizes.extend((0..lhs.len()).filter(is_free).map(|d| lhs[d]));
        let is_free = |d: &usize| !rhs_batch.contains(d) && !rhs_contracting.contains(d) && !group_dims.contains(d);
        sizes.extend((0..rhs.len()).filter(is_free).map(|d| rhs[d]));
        Some((self.unchanged(), sizes))
    }
}

/// The inverse of [`Site::spread_groups`]: groups one after another.
fn closed_up(
    builder: &mut GraphBuilder,
    value: InstructionId,
    dimension: usize,
    groups: i64,
    size: InstructionId,
) -> InstructionId {
    let bound = builder.dimensions(value)[dimension];
    let shape = ArrayShape::new(ElementType::S32, [bound]);
    let position = builder.iota(ElementType::S32, &shape.dimensions, 0);
    let length = Arithmetic(builder).divided(size, groups);
    // A length of zero leaves nothing to find, but is no divisor.
    let length = Arithmetic(builder).at_least(length, 1);
    let length = builder.broadcast(length, &shape.dimensions, &[]);
    let room = builder.filled(&shape, ConstantNumber::Integer(bound / groups));
    let group = builder.binary(OpKind::Divide, position, length);
    let inside = builder.binary(OpKind::Remainder, position, length);
    let start = builder.binary(OpKind::Multiply, group, room);
    let place = builder.binary(OpKind::Add, start, inside);
    slices_at(builder, value, dimension, place)
}

/// The slices of one dimension at given places, in their order.
fn slices_at(
    builder: &mut GraphBuilder,
    value: InstructionId,
    dimension: usize,
    places: InstructionId,
) -> InstructionId {
    let shape = builder.array(value);
    let others: Vec<i64> = (0..shape.rank() as i64).filter(|&d| d != dimension as i64).collect();
    let mut slice_sizes = shape.dimensions.clone();
    slice_sizes[dimension] = 1;
    let along = [dimension as i64];
    let attributes = GatherAttributes::new(&others, &along, &along, 1, &slice_sizes);
    builder.add(OpKind::Gather, shape, &[value, places], attributes)
}
