//! The part of `split-reductions` for scatters of many windows, which may meet in any order: they are sorted by where they go, so
//! that those of one place are neighbours, and each place can be left to somebody else.
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
    let ScatterAttributes { update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, .. } = attributes;
    let [input, update] = [*inputs.first()?, *updates.first()?].map(|id| builder.array(id));
    let is_dynamic = scatter.operands.iter().any(|&id| builder.array(id).is_dynamic());
    let are_whole = scatter_dims_to_operand_dims.iter().all(|target| inserted_window_dims.contains(target));
    let is_known = attributes.unique_indices || attributes.indices_are_sorted || atomic_operation(scatter).is_some();
    if is_dynamic
        || is_known
        || !are_whole
        || scatter_dims_to_operand_dims.is_empty()
        || !attributes.input_batching_dims.is_empty()
    {
        return None;
    }
    let is_window = |d: &i64| update_window_dims.contains(d);
    let (window_dims, scatter_dims): (Vec<i64>, Vec<i64>) = (0..update.rank() as i64).partition(is_window);
    let sizes_of = |dims: &[i64]| -> Vec<i64> { dims.iter().map(|&d| update.dimensions[d as usize]).collect() };
    let window = sizes_of(&window_dims);
    let windows: i64 = sizes_of(&scatter_dims).iter().product();
    let of_window: i64 = window.iter().product();
    if windows < LEAST_WINDOWS || of_window >= LARGE_WINDOW || input.element_count() * of_window == 0 {
        return None;
    }
    i32::try_from(windows).ok()?;
    let targets: Vec<i64> = scatter_dims_to_operand_dims.iter().map(|&d| input.dimensions[d as usize]).collect();
    let places: i64 = targets.iter().product();
    // What does not fit goes behind all places.
    let key_type = if i32::try_from(places).is_ok() { ElementType::S32 } else { ElementType::S64 };
    let key = key_of(builder, indices, attributes.index_vector_dim as usize, &targets, windows)?;
    let key = builder.convert(key, key_type);
    let permutation = [&scatter_dims[..], &window_dims].concat();
    let copies = Copies { windows, targets: &targets, permutation: &permutation, window: &window };
    if let ([input], [updates], [combination]) = (inputs, updates, &scatter.computations[..])
        && let Some(kind) = binary_operation(combination)
        && let Some(scattered) = copies.emit(builder, (key, *input, *updates), (kind, combination), attributes)
    {
        return Some(scattered);
    }
    let order = builder.iota(ElementType::S32, &[windows], 0);
    let comparator = total_order(&scatter.name, key_type, false);
    let shapes = [key_type, ElementType::S32].map(|own| ArrayShape::new(own, [windows]).into());
    let sort = SortAttributes { dimensions: Dimension(0), is_stable: true };
    let sorted = builder.add_with(OpKind::Sort, Shape::Tuple(shapes.to_vec()), &[key, order], sort, vec![comparator]);
    let [key, order] = [0, 1].map(|number| builder.element(sorted, number));
    let vectors = vectors_of(builder, key, &targets);
    let updates = updates.iter().map(|&update| {
        let update = builder.transpose(update, &permutation);
        let update = builder.reshape(update, &[&[windows], &window[..]].concat());
        builder.take_rows(update, order)
    });
    let updates: Vec<InstructionId> = updates.collect();
    let update_window_dims: Vec<i64> = (1..=window.len() as i64).collect();
    let attributes = ScatterAttributes {
        update_window_dims: &update_window_dims,
        index_vector_dim: 1,
        indices_are_sorted: true,
        ..attributes
    };
    let operands = [inputs, &[vectors], &updates].concat();
    Some(builder.push(Instruction { operands, attributes: attributes.into(), ..scatter.clone() }))
}

/// Parts of the windows that have a copy of what they go to, each, at most.
const MOST_COPIES: i64 = 1 << 12;

/// The same at least.
const LEAST_COPIES: i64 = 1 << 8;

/// Windows of the same place, on the average, from which on parts of them are added side by side.
const MANY_WINDOWS_OF_PLACE: i64 = 1 << 8;

/// Elements of all copies for each element of the updates, at most.
const MOST_ELEMENTS_OF_COPIES: i64 = 4;

/// A scatter of so many windows, whose updates have their dimensions first in an order, to few places.
struct Copies<'s> {
    windows: i64,
    targets: &'s [i64],
    permutation: &'s [i64],
    window: &'s [i64],
}

impl Copies<'_> {
    // scatter(x, i, y) => f(x, reduce(scatter(broadcast(nothing), i, y)))
    fn emit(
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
        if is_rounded || self.windows / places < MANY_WINDOWS_OF_PLACE || copies < LEAST_COPIES {
            return None;
        }
        let own = ceil_div(self.windows, copies);
        let rest = copies * own - self.windows;
        let none = builder.scalar(builder.element_type(key), ConstantNumber::Integer(places));
        let key = builder.pad_high(key, none, 0, rest);
        let vectors = vectors_of(builder, key, self.targets);
        let vectors = builder.reshape(vectors, &[copies, own, self.targets.len() as i64]);
        let updates = builder.transpose(updates, self.permutation);
        let updates = builder.reshape(updates, &[&[self.windows], self.window].concat());
        let nothing_scalar = builder.scalar(shape.element_type, nothing);
        let updates = builder.pad_high(updates, nothing_scalar, 0, rest);
        let updates = builder.reshape(updates, &[&[copies, own], self.window].concat());
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

/// The place that each index vector is of, counted row by row, or their number where it is of none.
fn key_of(
    builder: &mut GraphBuilder,
    indices: InstructionId,
    vector_dim: usize,
    targets: &[i64],
    windows: i64,
) -> Option<InstructionId> {
    let rank = builder.array(indices).rank();
    let shape = ArrayShape::new(ElementType::S64, [windows]);
    let number = |builder: &mut GraphBuilder, number| builder.filled(&shape, ConstantNumber::Integer(number));
    let mut key = number(builder, 0);
    let mut fits = builder.filled(&shape.with_element_type(ElementType::Pred), ConstantNumber::Integer(1));
    let zero = key;
    for (&target, component) in targets.iter().zip(0..) {
        let component = match vector_dim < rank {
            true => builder.slice(indices, vector_dim, component, component + 1),
            false => indices,
        };
        let component = builder.reshape(component, &[windows]);
        let component = builder.convert(component, ElementType::S64);
        let size = number(builder, target);
        for (direction, bound) in [(ComparisonDirection::Ge, zero), (ComparisonDirection::Lt, size)] {
            let holds = builder.compare(direction, component, bound);
            fits = builder.binary(OpKind::And, fits, holds);
        }
        key = builder.binary(OpKind::Multiply, key, size);
        key = builder.binary(OpKind::Add, key, component);
    }
    let none = number(builder, targets.iter().product());
    Some(builder.select(fits, key, none))
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
