//! Operations that move elements: those that exist come first in the result.

use hlo::attributes::Attributes;
use hlo::element_type::ElementType;
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::dynamic_slice::DynamicSliceAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::gather::GatherAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::shape::{ArrayShape, Shape};

use super::sizes::{Arithmetic, ArraySizes, Sizes, existing, indices, masked};
use super::{Site, Value};
use crate::expand::start_indices;
use crate::graph_builder::ConstantNumber;
use crate::scatter_places::ScatterPlaces;

type Moved = Option<(InstructionId, ArraySizes)>;

impl Site<'_> {
    pub(super) fn broadcast(&mut self) -> Moved {
        let mut sizes = vec![None; self.result_dimensions().len()];
        let BroadcastAttributes { dimensions } = self.attributes()?;
        for (target, size) in indices(dimensions).into_iter().zip(self.sizes_of(0)) {
            *sizes.get_mut(target)? = size;
        }
        Some((self.unchanged(), sizes))
    }

    pub(super) fn transpose(&mut self) -> Moved {
        let operand = self.sizes_of(0);
        let TransposeAttributes { dimensions } = self.attributes()?;
        let sizes = indices(dimensions).into_iter().map(|d| operand.get(d).copied().flatten()).collect();
        Some((self.unchanged(), sizes))
    }

    /// The whole is reversed, then what did not exist is cut off the front.
    pub(super) fn reverse(&mut self) -> Moved {
        let sizes = self.sizes_of(0);
        let mut value = self.unchanged();
        for dimension in indices(self.attributes::<ReverseAttributes>()?.dimensions) {
            let Some(size) = *sizes.get(dimension)? else { continue };
            value = self.without_first(value, dimension, size);
        }
        Some((value, sizes))
    }

    /// The last `size` elements of a dimension, at its front.
    fn without_first(&mut self, value: InstructionId, dimension: usize, size: InstructionId) -> InstructionId {
        let dimensions = self.builder.dimensions(value);
        let bound = dimensions[dimension];
        let zero = self.builder.scalar(self.builder.element_type(value), ConstantNumber::Integer(0));
        let longer = self.builder.pad_high(value, zero, dimension, bound);
        let mut arithmetic = Arithmetic(self.builder);
        let bound = arithmetic.constant(bound);
        let start = arithmetic.difference(bound, size);
        self.dynamic_slice_along(longer, dimension, start, &dimensions)
    }

    fn starts_along(&mut self, rank: usize, dimension: usize, start: InstructionId) -> Vec<InstructionId> {
        let zero = Arithmetic(self.builder).constant(0);
        (0..rank).map(|d| if d == dimension { start } else { zero }).collect()
    }

    fn dynamic_slice_along(
        &mut self,
        value: InstructionId,
        dimension: usize,
        start: InstructionId,
        slice_sizes: &[i64],
    ) -> InstructionId {
        let mut operands = vec![value];
        operands.extend(self.starts_along(slice_sizes.len(), dimension, start));
        let attributes = DynamicSliceAttributes { dynamic_slice_sizes: slice_sizes };
        let shape = ArrayShape::new(self.builder.element_type(value), slice_sizes);
        self.builder.add(OpKind::DynamicSlice, shape, &operands, attributes)
    }

    pub(super) fn slice(&mut self) -> Moved {
        let slices = self.attributes::<SliceAttributes>()?.slice.to_vec();
        let sizes = self
            .sizes_of(0)
            .into_iter()
            .zip(slices)
            .map(|(size, slice)| {
                let mut arithmetic = Arithmetic(self.builder);
                let limit = arithmetic.at_most(size?, slice.limit);
                let length = arithmetic.plus(limit, -slice.start);
                let length = arithmetic.at_least(length, 0);
                let rounded = arithmetic.plus(length, slice.stride.max(1) - 1);
                Some(arithmetic.divided(rounded, slice.stride.max(1)))
            })
            .collect();
        Some((self.unchanged(), sizes))
    }

    /// Start indices so that a window of the given sizes lies in the valid part of operand 0.
    fn clamp_starts(&mut self, first: usize, window: &[Option<InstructionId>], window_bounds: &[i64]) {
        let bounds = self.dimensions_of(0);
        for (dimension, size) in self.sizes_of(0).into_iter().enumerate() {
            let Some(&start) = self.operands.get(first + dimension) else { continue };
            if size.or(window[dimension]).is_none() {
                continue;
            }
            let mut arithmetic = Arithmetic(self.builder);
            let size = arithmetic.size(size, bounds[dimension]);
            let window = arithmetic.size(window[dimension], window_bounds[dimension]);
            let last = arithmetic.difference(size, window);
            let last = arithmetic.at_least(last, 0);
            let last = self.builder.convert(last, self.builder.element_type(start));
            self.operands[first + dimension] = self.builder.binary(OpKind::Minimum, start, last);
        }
    }

    /// Start indices of one array become scalars.
    fn separate_starts(&mut self, first: usize) {
        if let Some(operands) = start_indices::as_scalars(self.builder, &self.operands, first) {
            self.operands = operands;
        }
    }

    pub(super) fn dynamic_slice(&mut self) -> Moved {
        self.separate_starts(1);
        let window = self.result_dimensions();
        self.clamp_starts(1, &vec![None; window.len()], &window);
        Some((self.unchanged(), vec![None; window.len()]))
    }

    /// Elements of the update that do not exist leave the operand's as they are.
    pub(super) fn dynamic_update_slice(&mut self) -> Moved {
        self.separate_starts(2);
        let (bounds, update_sizes) = (self.dimensions_of(1), self.sizes_of(1));
        self.clamp_starts(2, &update_sizes, &bounds);
        if let Some(exists) = existing(self.builder, &bounds, &update_sizes) {
            let (operand, update) = (self.operands[0], self.operands[1]);
            // A window at the end may reach beyond the bound: it is written into a longer array.
            let zero = self.builder.scalar(self.builder.element_type(operand), ConstantNumber::Integer(0));
            let mut longer = operand;
            for (dimension, &bound) in bounds.iter().enumerate() {
                if update_sizes[dimension].is_some() {
                    longer = self.builder.pad_high(longer, zero, dimension, bound);
                }
            }
            let mut window = vec![longer];
            window.extend(&self.operands[2..]);
            let attributes = DynamicSliceAttributes { dynamic_slice_sizes: &bounds };
            let shape = ArrayShape::new(self.builder.element_type(operand), bounds.clone());
            let old = self.builder.add(OpKind::DynamicSlice, shape, &window, attributes);
            let update = self.builder.select(exists, update, old);
            let mut operands = vec![longer, update];
            operands.extend(&self.operands[2..]);
            let shape = self.builder.array(longer);
            let mut result = self.builder.add(OpKind::DynamicUpdateSlice, shape, &operands, Attributes::new());
            for (dimension, &size) in self.result_dimensions().iter().enumerate() {
                if update_sizes[dimension].is_some() {
                    result = self.builder.slice(result, dimension, 0, size);
                }
            }
            return Some((result, self.sizes_of(0)));
        }
        Some((self.unchanged(), self.sizes_of(0)))
    }

    /// What does not exist is padding, too.
    pub(super) fn pad(&mut self) -> Moved {
        let operand_sizes = self.sizes_of(0);
        let padding = self.attributes::<PadAttributes>()?.padding.to_vec();
        self.operands[0] = masked(self.builder, self.operands[0], &operand_sizes, self.operands[1]);
        let sizes = operand_sizes
            .into_iter()
            .zip(padding)
            .map(|(size, padding)| {
                let size = size?;
                let mut arithmetic = Arithmetic(self.builder);
                let gaps = arithmetic.plus(size, -1);
                let gaps = arithmetic.at_least(gaps, 0);
                let gaps = arithmetic.times(gaps, padding.interior);
                let total = arithmetic.sum(size, gaps);
                let total = arithmetic.plus(total, padding.low + padding.high);
                Some(arithmetic.at_least(total, 0))
            })
            .collect();
        Some((self.unchanged(), sizes))
    }

    /// Along a dynamic dimension each operand is written over what did not exist of the one before it.
    pub(super) fn concatenate(&mut self) -> Moved {
        let along = self.attributes::<ConcatenateAttributes>()?.dimensions.index();
        let mut sizes: ArraySizes = vec![None; self.result_dimensions().len()];
        for operand in 0..self.operands.len() {
            for (own, size) in sizes.iter_mut().zip(self.sizes_of(operand)) {
                *own = own.or(size);
            }
        }
        let lengths: ArraySizes =
            (0..self.operands.len()).map(|operand| self.sizes_of(operand).get(along).copied().flatten()).collect();
        if lengths.iter().all(Option::is_none) {
            return Some((self.unchanged(), sizes));
        }
        let shape = ArrayShape::new(self.instruction.shape.as_array()?.element_type, self.result_dimensions());
        let mut result = self.builder.filled(&shape, ConstantNumber::Integer(0));
        let mut end = Arithmetic(self.builder).constant(0);
        for (operand, length) in lengths.into_iter().enumerate() {
            let bound = self.dimensions_of(operand)[along];
            let mut operands = vec![result, self.operands[operand]];
            operands.extend(self.starts_along(shape.rank(), along, end));
            result = self.builder.add(OpKind::DynamicUpdateSlice, shape.clone(), &operands, Attributes::new());
            let mut arithmetic = Arithmetic(self.builder);
            let length = arithmetic.size(length, bound);
            end = arithmetic.sum(end, length);
        }
        sizes[along] = Some(end);
        Some((result, sizes))
    }

    pub(super) fn reshape(&mut self) -> Moved {
        let (bounds, operand_sizes) = (self.dimensions_of(0), self.sizes_of(0));
        let result = self.instruction.shape.as_array()?.clone();
        let mut sizes: ArraySizes = vec![None; result.rank()];
        let mut keeps_places = true;
        // A static dimension of one element says nothing about what belongs together.
        let kept = |sizes: &[i64], is_dynamic: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..sizes.len()).filter(|&d| sizes[d] != 1 || is_dynamic(d)).collect()
        };
        let from = kept(&bounds, &|d| operand_sizes[d].is_some());
        let to = kept(&result.dimensions, &|d| result.is_dynamic_dimension(d));
        let size_of = |list: &[usize], sizes: &[i64]| list.iter().map(|&d| sizes[d]).collect::<Vec<i64>>();
        for (froms, tos) in matching_groups(&size_of(&from, &bounds), &size_of(&to, &result.dimensions)) {
            let (from, to) = (&from[froms], &to[tos]);
            if from.iter().all(|&d| operand_sizes[d].is_none()) {
                continue;
            }
            let mut dynamic = to.iter().copied().filter(|&d| result.is_dynamic_dimension(d));
            let (chosen, None) = (dynamic.next().or(to.first().copied())?, dynamic.next()) else { return None };
            let mut arithmetic = Arithmetic(self.builder);
            let mut count = arithmetic.constant(1);
            for &d in from {
                count = match operand_sizes[d] {
                    Some(size) => arithmetic.product(count, size),
                    None => arithmetic.times(count, bounds[d]),
                };
            }
            let others: i64 = to.iter().filter(|&&d| d != chosen).map(|&d| result.dimensions[d]).product();
            if others == 0 {
                return None;
            }
            sizes[chosen] = Some(arithmetic.divided(count, others));
            // Where only the first dimension varies, the valid elements are a prefix of the group on both sides.
            let first = |group: &[usize], sizes: &[i64]| group.iter().copied().find(|&d| sizes[d] != 1);
            let first_from = first(from, &bounds);
            let varies_first = from.iter().all(|&d| operand_sizes[d].is_none() || first_from == Some(d));
            let is_first = first(to, &result.dimensions).is_none_or(|d| d == chosen);
            keeps_places &= varies_first && is_first;
        }
        if keeps_places {
            return Some((self.unchanged(), sizes));
        }
        Some((self.rearranged(&sizes), sizes))
    }

    pub(super) fn dynamic_reshape(&mut self) -> Moved {
        let dimensions = self.result_dimensions();
        let declared = self.instruction.shape.as_array()?.clone();
        let sizes: ArraySizes = (0..dimensions.len())
            .map(|d| {
                // Compared in 64 bits, since a size of 2³² + 2 is not 2.
                let given = self.builder.convert(self.operands[d + 1], ElementType::S64);
                let [zero, bound] = [0, dimensions[d]]
                    .map(|number| self.builder.scalar(ElementType::S64, ConstantNumber::Integer(number)));
                let (direction, reason) = match declared.is_dynamic_dimension(d) {
                    true => (ComparisonDirection::Le, "a run-time size does not fit its bound"),
                    false => (ComparisonDirection::Eq, "a run-time size does not fit the declared one"),
                };
                let mut arithmetic = Arithmetic(self.builder);
                let negative = "the array cannot be reshaped to a negative size";
                arithmetic.require(given, ComparisonDirection::Ge, zero, negative);
                arithmetic.require(given, direction, bound, reason);
                let size = self.builder.convert(given, ElementType::S32);
                declared.is_dynamic_dimension(d).then_some(size)
            })
            .collect();
        let (operand_bounds, operand_sizes) = (self.dimensions_of(0), self.sizes_of(0));
        let before = self.element_count(&operand_bounds, &operand_sizes);
        let after = self.element_count(&dimensions, &sizes);
        let reason = "the array cannot be reshaped to another number of elements";
        Arithmetic(self.builder).require(before, ComparisonDirection::Eq, after, reason);
        Some((self.rearranged(&sizes), sizes))
    }

    /// Number of the elements that exist, as `s32`.
    fn element_count(&mut self, bounds: &[i64], sizes: &[Option<InstructionId>]) -> InstructionId {
        let mut count = Arithmetic(self.builder).constant(1);
        for (&bound, &size) in bounds.iter().zip(sizes) {
            let size = Arithmetic(self.builder).size(size, bound);
            count = Arithmetic(self.builder).product(count, size);
        }
        count
    }

    /// Operand 0's existing elements, in order, under the result's dimensions and run-time sizes.
    fn rearranged(&mut self, sizes: &[Option<InstructionId>]) -> InstructionId {
        let (bounds, operand_sizes) = (self.dimensions_of(0), self.sizes_of(0));
        let dimensions = self.result_dimensions();
        let element_type = self.builder.element_type(self.operands[0]);
        let count: i64 = bounds.iter().product();
        if count == 0 {
            let zero = self.builder.scalar(element_type, ConstantNumber::Integer(0));
            return self.builder.broadcast(zero, &dimensions, &[]);
        }
        let spread = |site: &mut Self, size: Option<InstructionId>, bound: i64| {
            let size = Arithmetic(site.builder).size(size, bound);
            // A size of zero leaves nothing to find, but is no divisor.
            let size = Arithmetic(site.builder).at_least(size, 1);
            site.builder.broadcast(size, &dimensions, &[])
        };
        // Number of the element among those that exist, from its index in the result.
        let shape = ArrayShape::new(ElementType::S32, dimensions.clone());
        let mut rest = self.builder.filled(&shape, ConstantNumber::Integer(0));
        for (d, &size) in sizes.iter().enumerate() {
            let size = spread(self, size, dimensions[d]);
            let index = self.builder.iota(ElementType::S32, &dimensions, d);
            let scaled = self.builder.binary(OpKind::Multiply, rest, size);
            rest = self.builder.binary(OpKind::Add, scaled, index);
        }
        // Its place in the operand's data.
        let mut place = self.builder.filled(&shape, ConstantNumber::Integer(0));
        let mut stride = 1;
        for d in (0..bounds.len()).rev() {
            let size = spread(self, operand_sizes[d], bounds[d]);
            let index = self.builder.binary(OpKind::Remainder, rest, size);
            rest = self.builder.binary(OpKind::Divide, rest, size);
            let step = self.builder.filled(&shape, ConstantNumber::Integer(stride));
            let offset = self.builder.binary(OpKind::Multiply, index, step);
            place = self.builder.binary(OpKind::Add, place, offset);
            stride *= bounds[d];
        }
        let flat = self.builder.reshape(self.operands[0], &[count]);
        self.builder.take(flat, place)
    }

    pub(super) fn gather(&mut self) -> Moved {
        let attributes: GatherAttributes = self.attributes()?;
        let (operand_bounds, operand_sizes) = (self.dimensions_of(0), self.sizes_of(0));
        let index_sizes = self.sizes_of(1);
        let slice_sizes = attributes.slice_sizes;
        let rank = self.dimensions_of(1).len();
        let vector_dim = attributes.index_vector_dim as usize;
        let whole = |d: usize| slice_sizes[d] == operand_bounds[d];
        for (component, d) in indices(attributes.start_index_map).into_iter().enumerate() {
            let (Some(size), false) = (operand_sizes[d], whole(d)) else { continue };
            let mut arithmetic = Arithmetic(self.builder);
            let last = arithmetic.plus(size, -slice_sizes[d]);
            let last = arithmetic.at_least(last, 0);
            let limited = |indices, last| (OpKind::Minimum, indices, last);
            self.operands[1] = self.with_component(self.operands[1], vector_dim, component, last, limited);
        }
        let (offset_dims, collapsed) = (indices(attributes.offset_dims), indices(attributes.collapsed_slice_dims));
        let batching = indices(attributes.operand_batching_dims);
        let mut batch = (0..rank).filter(|&d| d != vector_dim).map(|d| index_sizes[d]);
        let mut offsets = (0..slice_sizes.len())
            .filter(|d| !collapsed.contains(d) && !batching.contains(d))
            .map(|d| if whole(d) { operand_sizes[d] } else { None });
        let sizes = (0..self.result_dimensions().len())
            .map(|d| if offset_dims.contains(&d) { offsets.next() } else { batch.next() }.flatten())
            .collect();
        Some((self.unchanged(), sizes))
    }

    /// Indices of which one component of each index vector is combined with a scalar.
    fn with_component(
        &mut self,
        indices: InstructionId,
        vector_dim: usize,
        component: usize,
        scalar: InstructionId,
        combined: impl Fn(InstructionId, InstructionId) -> (OpKind, InstructionId, InstructionId),
    ) -> InstructionId {
        let shape = self.builder.array(indices);
        let scalar = self.builder.convert(scalar, shape.element_type);
        let scalar = self.builder.broadcast(scalar, &shape.dimensions, &[]);
        let (kind, lhs, rhs) = combined(indices, scalar);
        let changed = self.builder.binary(kind, lhs, rhs);
        if vector_dim >= shape.rank() {
            return changed;
        }
        let number = self.builder.iota(ElementType::S32, &shape.dimensions, vector_dim);
        let wanted = self.builder.filled(&self.builder.array(number), ConstantNumber::Integer(component as i64));
        let is_component = self.builder.compare(ComparisonDirection::Eq, number, wanted);
        self.builder.select(is_component, changed, indices)
    }

    /// Element by element: padding, and updates whose window leaves the valid part of the operand, go nowhere.
    pub(super) fn scatter(&mut self) -> Option<Value> {
        let count = self.operands.len() / 2;
        let [indices, update] = [count, count + 1];
        let shared = |site: &Self, operands: std::ops::Range<usize>| {
            let mut sizes = site.sizes_of(operands.start);
            for operand in operands {
                sizes.iter_mut().zip(site.sizes_of(operand)).for_each(|(own, size)| *own = own.or(size));
            }
            sizes
        };
        let input_sizes = shared(self, 0..count);
        let mut update_sizes = shared(self, update..self.operands.len());
        let attributes: ScatterAttributes = self.attributes()?;
        let window_dims = super::sizes::indices(attributes.update_window_dims);
        let index_sizes = self.sizes_of(indices);
        let vector_dim = attributes.index_vector_dim;
        let of_vectors = (0..index_sizes.len()).filter(|&d| d as i64 != vector_dim).map(|d| index_sizes[d]);
        let scatter_dims = (0..update_sizes.len()).filter(|d| !window_dims.contains(d));
        for (d, size) in scatter_dims.collect::<Vec<_>>().into_iter().zip(of_vectors) {
            update_sizes[d] = update_sizes[d].or(size);
        }
        let operands = [self.operands[0], self.operands[indices], self.operands[update]];
        let ScatterPlaces { place, mut fits } =
            ScatterPlaces::new(self.builder, &attributes, operands, &input_sizes, &update_sizes)?;
        if let Some(exists) = existing(self.builder, &self.builder.dimensions(operands[2]), &update_sizes) {
            fits = self.builder.binary(OpKind::And, fits, exists);
        }
        let nowhere = self.builder.filled(&self.builder.array(place), ConstantNumber::Integer(-1));
        let place = self.builder.select(fits, place, nowhere);
        let updates: i64 = self.builder.array(place).element_count();
        let place = self.builder.reshape(place, &[updates, 1]);

        let flat = |site: &mut Self, operands: std::ops::Range<usize>| -> Vec<InstructionId> {
            let flat = |&operand: &InstructionId| {
                let count = site.builder.array(operand).element_count();
                site.builder.reshape(operand, &[count])
            };
            site.operands[operands].iter().map(flat).collect()
        };
        let inputs = flat(self, 0..count);
        let updates = flat(self, update..self.operands.len());
        let attributes = ScatterAttributes::new(&[], &[0], &[0], 1);
        let shapes: Vec<Shape> = inputs.iter().map(|&input| self.builder.array(input).into()).collect();
        let shape = match (&self.instruction.shape, &shapes[..]) {
            (Shape::Array(_), [single]) => single.clone(),
            _ => Shape::Tuple(shapes),
        };
        let operands = [&inputs[..], &[place], &updates].concat();
        let computations = self.instruction.computations.clone();
        let scattered = self.builder.add_with(OpKind::Scatter, shape, &operands, attributes, computations);
        let bounds = self.dimensions_of(0);
        if self.instruction.shape.as_array().is_some() {
            return Some((self.builder.reshape(scattered, &bounds), Sizes::Array(input_sizes)));
        }
        let results: Vec<InstructionId> = (0..count)
            .map(|number| {
                let result = self.builder.element(scattered, number);
                self.builder.reshape(result, &bounds)
            })
            .collect();
        Some((self.builder.tuple(&results), Sizes::Tuple(vec![Sizes::Array(input_sizes); count])))
    }
}

/// Ranges of dimensions with equal products, as short as possible; what is left of `from` belongs to the last.
fn matching_groups(from: &[i64], to: &[i64]) -> Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut groups: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (first_i, first_j) = (i, j);
        let (mut left, mut right) = (from[i], to[j]);
        (i, j) = (i + 1, j + 1);
        while left != right && (i < from.len() || j < to.len()) {
            if i < from.len() && (left < right || j == to.len()) {
                left = left.saturating_mul(from[i]);
                i += 1;
            } else {
                right = right.saturating_mul(to[j]);
                j += 1;
            }
        }
        groups.push((first_i..i, first_j..j));
    }
    match groups.last_mut() {
        Some((last, _)) => last.end = from.len(),
        None => groups.push((0..from.len(), 0..to.len())),
    }
    groups
}
