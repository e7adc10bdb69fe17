//! The part of `split-reductions` for scatters of many windows, which may meet in any order: they are sorted by where they go, so
//! that those of one place are neighbours, and each place can be left to somebody else. What a window has at several places goes
//! there by itself.
//!
//! Sorting keeps the order of what goes to the same place, so whatever the computation is, results are those of windows taken
//! one after another. Where many windows go to each of few places, by one associative operation, parts of them go to copies of
//! these places instead, which are combined in the end.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::sort::SortAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::shape::{ArrayShape, Shape};
use indexing::ceil_div;

use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_operation, total_order};
use crate::split_reductions::{identity, wide_type};

/// Windows from which on sorting takes less time than one after another.
const LEAST_WINDOWS: i64 = 256;

/// Elements of a window from which on these alone keep the machine busy.
const LARGE_WINDOW: i64 = 1 << 14;

/// The operation of a scatter that memory can do by itself, on numbers of so many bits, in any order.
pub fn atomic_operation(scatter: &Instruction) -> Option<OpKind> {
    let ([combination], 3) = (&scatter.computations[..], scatter.operands.len()) else { return None };
    let element_type = scatter.shape.as_array()?.element_type;
    let is_word = matches!(element_type.class(), ElementClass::Signed | ElementClass::Unsigned)
        && matches!(element_type.bit_width(), 32 | 64);
    binary_operation(combination).filter(|kind| is_word && ATOMIC_OPERATIONS.contains(kind))
}

const ATOMIC_OPERATIONS: [OpKind; 6] =
    [OpKind::Add, OpKind::And, OpKind::Maximum, OpKind::Minimum, OpKind::Or, OpKind::Xor];

// scatter(x, i, y) => scatter(x, sort(i), gather(y, order))
pub(super) fn split(builder: &mut GraphBuilder, scatter: &Instruction) -> Option<InstructionId> {
    let count = scatter.operands.len() / 2;
    let (inputs, rest) = scatter.operands.split_at(count);
    let (&indices, updates) = rest.split_first()?;
    let attributes: ScatterAttributes<'_> = scatter.attributes().ok()?;
    let is_dynamic = scatter.operands.iter().any(|&id| builder.array(id).is_dynamic());
    let is_known = attributes.unique_indices || attributes.indices_are_sorted || atomic_operation(scatter).is_some();
    if is_dynamic || is_known || attributes.scatter_dims_to_operand_dims.is_empty() {
        return None;
    }
    let [input, update] = [*inputs.first()?, *updates.first()?].map(|id| builder.array(id));
    let places = Places::of(&attributes, &input.dimensions, &update.dimensions);
    let of_window: i64 = places.window.iter().product();
    // What batches, and elements of windows which go to themselves, have to do side by side.
    let is_busy = places.batches.saturating_mul(of_window) >= LARGE_WINDOW;
    if places.count() / places.batches.max(1) < LEAST_WINDOWS
        || is_busy
        || input.element_count() * update.element_count() == 0
    {
        return None;
    }
    i32::try_from(places.count()).ok()?;
    // What does not fit goes behind all places.
    let key_type = key_type(places.targets.iter().product());
    let key = places.keys(builder, indices, &attributes);
    let key = builder.convert(key, key_type);
    let updates: Vec<InstructionId> = updates.iter().map(|&update| places.updates(builder, update)).collect();
    let attributes = ScatterAttributes {
        update_window_dims: &(1..=places.window.len() as i64).collect::<Vec<_>>(),
        inserted_window_dims: &places.inserted,
        scatter_dims_to_operand_dims: &places.target_dims,
        input_batching_dims: &[],
        scatter_indices_batching_dims: &[],
        index_vector_dim: 1,
        ..attributes
    };
    if let ([input], [updates], [combination]) = (inputs, &updates[..], &scatter.computations[..])
        && let Some(kind) = binary_operation(combination)
        && let Some(scattered) = places.in_copies(builder, (key, *input, *updates), (kind, combination), attributes)
    {
        return Some(scattered);
    }
    let order = builder.iota(ElementType::S32, &[places.count()], 0);
    let comparator = total_order(&scatter.name, key_type, false);
    let shapes = [key_type, ElementType::S32].map(|own| ArrayShape::new(own, [places.count()]).into());
    let sort = SortAttributes { dimensions: Dimension(0), is_stable: true };
    let sorted = builder.add_with(OpKind::Sort, Shape::Tuple(shapes.to_vec()), &[key, order], sort, vec![comparator]);
    let [key, order] = [0, 1].map(|number| builder.element(sorted, number));
    let vectors = vectors_of(builder, key, &places.targets);
    let updates: Vec<InstructionId> = updates.iter().map(|&update| builder.take_rows(update, order)).collect();
    let attributes = ScatterAttributes { indices_are_sorted: true, ..attributes };
    let operands = [inputs, &[vectors], &updates].concat();
    Some(builder.push(Instruction { operands, attributes: attributes.into(), ..scatter.clone() }))
}

/// The type of the numbers of so many places, and of one more: of few bits, of which a sort has less to do.
fn key_type(places: i64) -> ElementType {
    let fits = |own: &ElementType| places < 1 << (own.bit_width() - u32::from(own.is_signed_integer()));
    [ElementType::U8, ElementType::U16, ElementType::S32].into_iter().find(fits).unwrap_or(ElementType::S64)
}

/// Parts of the windows that have a copy of what they go to, each, at most.
const MOST_COPIES: i64 = 1 << 12;

/// The same at least.
const LEAST_COPIES: i64 = 1 << 8;

/// Windows of the same place, on the average, from which on parts of them are added side by side.
const MANY_WINDOWS_OF_PLACE: i64 = 1 << 8;

/// Elements of all copies for each element of the updates, at most.
const MOST_ELEMENTS_OF_COPIES: i64 = 4;

/// A scatter as one of rows to single places: what a window has at several places are as many rows, one behind the other, and
/// batches are places too. So windows may overlap.
struct Places {
    /// Index vectors.
    windows: i64,
    batches: i64,
    /// Sizes of the operand's dimensions that places are counted in, and which these are: those of batches first.
    targets: Vec<i64>,
    target_dims: Vec<i64>,
    /// The sizes of a window in these dimensions.
    of_targets: Vec<i64>,
    /// The other sizes of a window.
    window: Vec<i64>,
    /// Dimensions of the updates: those of index vectors, of a window along places, and the others.
    permutation: Vec<i64>,
    /// Dimensions of the operand that a row has none of.
    inserted: Vec<i64>,
}

impl Places {
    fn of(attributes: &ScatterAttributes<'_>, input: &[i64], update: &[i64]) -> Self {
        let batching = attributes.input_batching_dims;
        let target_dims = [batching, attributes.scatter_dims_to_operand_dims].concat();
        let size = |sizes: &[i64], dimension: i64| sizes.get(dimension as usize).copied().unwrap_or(1);
        let is_window = |d: &i64| attributes.update_window_dims.contains(d);
        let scatter_dims: Vec<i64> = (0..update.len() as i64).filter(|d| !is_window(d)).collect();
        let has_window = |d: &i64| !attributes.inserted_window_dims.contains(d) && !batching.contains(d);
        let kept: Vec<i64> = (0..input.len() as i64).filter(has_window).collect();
        // The dimension of the updates along a window's dimension of the operand.
        let along = |dimension: &i64| {
            let place = kept.iter().position(|own| own == dimension)?;
            attributes.update_window_dims.get(place).copied()
        };
        let of_targets = target_dims.iter().map(|d| along(d).map_or(1, |d| size(update, d))).collect();
        let of_places = target_dims.iter().filter_map(along);
        let of_rows: Vec<i64> = kept.iter().filter(|d| !target_dims.contains(d)).filter_map(along).collect();
        let is_in_row = |d: &i64| kept.contains(d) && !target_dims.contains(d);
        Places {
            windows: scatter_dims.iter().map(|&d| size(update, d)).product(),
            batches: batching.iter().map(|&d| size(input, d)).product(),
            targets: target_dims.iter().map(|&d| size(input, d)).collect(),
            of_targets,
            window: of_rows.iter().map(|&d| size(update, d)).collect(),
            permutation: scatter_dims.iter().copied().chain(of_places).chain(of_rows.iter().copied()).collect(),
            inserted: (0..input.len() as i64).filter(|d| !is_in_row(d)).collect(),
            target_dims,
        }
    }

    /// Rows of all windows.
    fn count(&self) -> i64 {
        self.of_targets.iter().fold(self.windows, |count, &size| count.saturating_mul(size))
    }

    /// The rows.
    fn updates(&self, builder: &mut GraphBuilder, update: InstructionId) -> InstructionId {
        let update = builder.transpose(update, &self.permutation);
        builder.reshape(update, &[&[self.count()], &self.window[..]].concat())
    }

    /// The place of each row, counted row by row, or their number where its window does not fit.
    fn keys(
        &self,
        builder: &mut GraphBuilder,
        indices: InstructionId,
        attributes: &ScatterAttributes<'_>,
    ) -> InstructionId {
        let vector_dim = attributes.index_vector_dim as usize;
        let mut sizes = builder.dimensions(indices);
        let has_vectors = vector_dim < sizes.len();
        if has_vectors {
            sizes.remove(vector_dim);
        }
        let batching = attributes.scatter_indices_batching_dims;
        let shape = ArrayShape::new(ElementType::S64, [self.windows]);
        let number = |builder: &mut GraphBuilder, number| builder.filled(&shape, ConstantNumber::Integer(number));
        let mut key = number(builder, 0);
        let mut fits = builder.filled(&shape.with_element_type(ElementType::Pred), ConstantNumber::Integer(1));
        let zero = key;
        for (number_of_target, (&target, &of_window)) in self.targets.iter().zip(&self.of_targets).enumerate() {
            let component = if let Some(&dimension) = batching.get(number_of_target) {
                let dimension = dimension as usize;
                let behind = usize::from(has_vectors && dimension > vector_dim);
                let own = builder.iota(ElementType::S64, &sizes, dimension - behind);
                builder.reshape(own, &[self.windows])
            } else {
                let own = (number_of_target - batching.len()) as i64;
                let component = match has_vectors {
                    true => builder.slice(indices, vector_dim, own, own + 1),
                    false => indices,
                };
                let component = builder.reshape(component, &[self.windows]);
                let component = builder.convert(component, ElementType::S64);
                let behind = number(builder, target - of_window + 1);
                for (direction, bound) in [(ComparisonDirection::Ge, zero), (ComparisonDirection::Lt, behind)] {
                    let holds = builder.compare(direction, component, bound);
                    fits = builder.binary(OpKind::And, fits, holds);
                }
                component
            };
            let size = number(builder, target);
            key = builder.binary(OpKind::Multiply, key, size);
            key = builder.binary(OpKind::Add, key, component);
        }
        let none = ConstantNumber::Integer(self.targets.iter().product());
        if self.count() == self.windows {
            let none = builder.filled(&shape, none);
            return builder.select(fits, key, none);
        }
        let sizes = [&[self.windows], &self.of_targets[..]].concat();
        let [mut key, fits] = [key, fits].map(|own| builder.broadcast(own, &sizes, &[0]));
        let shape = ArrayShape::new(ElementType::S64, sizes.clone());
        let mut behind = 1;
        for (dimension, &target) in self.targets.iter().enumerate().rev() {
            if self.of_targets[dimension] > 1 {
                let position = builder.iota(ElementType::S64, &sizes, dimension + 1);
                let distance = builder.filled(&shape, ConstantNumber::Integer(behind));
                let distance = builder.binary(OpKind::Multiply, position, distance);
                key = builder.binary(OpKind::Add, key, distance);
            }
            behind *= target;
        }
        let none = builder.filled(&shape, none);
        let key = builder.select(fits, key, none);
        builder.reshape(key, &[self.count()])
    }

    // scatter(x, i, y) => f(x, reduce(scatter(broadcast(nothing), i, y)))
    fn in_copies(
        &self,
        builder: &mut GraphBuilder,
        (key, input, updates): (InstructionId, InstructionId, InstructionId),
        (kind, combination): (OpKind, &Computation),
        attributes: ScatterAttributes<'_>,
    ) -> Option<InstructionId> {
        let shape = builder.array(input);
        let nothing = identity(kind, shape.element_type)?;
        let places: i64 = self.targets.iter().product();
        let elements = shape.element_count();
        let of_updates = builder.array(updates).element_count();
        let copies = MOST_COPIES.min(of_updates.saturating_mul(MOST_ELEMENTS_OF_COPIES) / elements);
        let is_rounded = wide_type(kind, shape.element_type) != shape.element_type;
        if is_rounded || self.count() / places < MANY_WINDOWS_OF_PLACE || copies < LEAST_COPIES {
            return None;
        }
        let own = ceil_div(self.count(), copies);
        let rest = copies * own - self.count();
        let none = builder.scalar(builder.element_type(key), ConstantNumber::Integer(places));
        let key = builder.pad_high(key, none, 0, rest);
        let vectors = vectors_of(builder, key, &self.targets);
        let vectors = builder.reshape(vectors, &[copies, own, self.targets.len() as i64]);
        let nothing_scalar = builder.scalar(shape.element_type, nothing);
        let updates = builder.pad_high(updates, nothing_scalar, 0, rest);
        let updates = builder.reshape(updates, &[&[copies, own], &self.window[..]].concat());
        let sizes = [&[copies], &shape.dimensions[..]].concat();
        let empty = builder.filled(&ArrayShape::new(shape.element_type, sizes), nothing);
        let behind = |dimensions: &[i64], by: i64| -> Vec<i64> { dimensions.iter().map(|d| d + by).collect() };
        let window: Vec<i64> = (0..self.window.len() as i64).collect();
        let attributes = ScatterAttributes {
            update_window_dims: &behind(&window, 2),
            inserted_window_dims: &behind(attributes.inserted_window_dims, 1),
            scatter_dims_to_operand_dims: &behind(attributes.scatter_dims_to_operand_dims, 1),
            input_batching_dims: &[0],
            scatter_indices_batching_dims: &[0],
            index_vector_dim: 2,
            ..attributes
        };
        let shape = builder.array(empty);
        let operands = [empty, vectors, updates];
        let parts = builder.add_with(OpKind::Scatter, shape, &operands, attributes, vec![combination.clone()]);
        let total = builder.reduce(parts, nothing, &[0], kind);
        Some(builder.binary(kind, input, total))
    }
}

/// The index vectors of places, which lie outside for those behind all others.
fn vectors_of(builder: &mut GraphBuilder, key: InstructionId, targets: &[i64]) -> InstructionId {
    let shape = builder.array(key);
    let mut components = Vec::with_capacity(targets.len());
    for (number, &target) in targets.iter().enumerate() {
        let behind: i64 = targets[number + 1..].iter().product();
        let of_all = |builder: &mut GraphBuilder, own| builder.filled(&shape, ConstantNumber::Integer(own));
        let mut component = key;
        if behind > 1 {
            let behind = of_all(builder, behind);
            component = builder.binary(OpKind::Divide, component, behind);
        }
        if number > 0 {
            let size = of_all(builder, target);
            component = builder.binary(OpKind::Remainder, component, size);
        }
        components.push(builder.reshape(component, &[shape.element_count(), 1]));
    }
    match components[..] {
        [only] => only,
        _ => builder.concatenate(&components, 1),
    }
}
