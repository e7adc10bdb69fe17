//! Operations whose indices are values of the program: dynamic-slice, dynamic-update-slice, gather, scatter.
//!
//! HLO clamps start indices so that the slice stays inside the operand; the bounds of the run-time variables
//! are those of the clamped index, and whoever computes the variable's value clamps.

use indexing::{Constraint, Expr, IndexingMap, Interval, Variable, variables_of_sizes};
use melior::Context;

use super::place;
use crate::ops::gather::GatherAttributes;
use crate::ops::scatter::ScatterAttributes;

/// A start index along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// A scalar computed by the program, by the number the caller gave it.
    Value(u64),
    /// An element of an array of start indices, by the array's number and the element's place.
    Element(u64, i64),
    /// A constant.
    Constant(i64),
}

/// The run-time variables of a map, after `ranges` range variables.
struct RuntimeVariables<'c> {
    context: &'c Context,
    ranges: usize,
    variables: Vec<Variable<'c>>,
}

impl<'c> RuntimeVariables<'c> {
    fn after(context: &'c Context, ranges: usize) -> Self {
        RuntimeVariables { context, ranges, variables: Vec::new() }
    }

    /// The offset as an expression: a constant, clamped to `bounds`, or a new run-time variable.
    fn offset(&mut self, offset: Offset, bounds: Interval, index: Vec<Expr<'c>>) -> Expr<'c> {
        match offset {
            Offset::Constant(value) => {
                Expr::constant(self.context, value.clamp(bounds.lower, bounds.upper.max(bounds.lower)))
            }
            Offset::Element(value, place) => {
                self.offset(Offset::Value(value), bounds, vec![Expr::constant(self.context, place)])
            }
            Offset::Value(value) => {
                self.variables.push(Variable::runtime(bounds, value, index));
                Expr::symbol(self.context, self.ranges + self.variables.len() - 1)
            }
        }
    }
}

/// dynamic-slice, to the sliced operand. The map to each start index is [`super::scalar`].
pub fn dynamic_slice<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    slice_sizes: &[i64],
    offsets: &[Offset],
) -> IndexingMap<'c> {
    let mut runtimes = RuntimeVariables::after(context, 0);
    let results = input_sizes
        .iter()
        .zip(slice_sizes)
        .zip(offsets)
        .enumerate()
        .map(|(i, ((&size, &slice), &start))| {
            Expr::dim(context, i) + runtimes.offset(start, Interval::new(0, size.saturating_sub(slice)), Vec::new())
        })
        .collect();
    IndexingMap::new(context, variables_of_sizes(slice_sizes), Vec::new(), runtimes.variables, results, Vec::new())
}

/// dynamic-slice, from the sliced operand: the elements that are taken.
pub fn dynamic_slice_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    slice_sizes: &[i64],
    offsets: &[Offset],
) -> IndexingMap<'c> {
    dynamic_update_slice_window(context, input_sizes, slice_sizes, offsets)
}

/// dynamic-update-slice, to the update. As in the document, the domain is the whole result; see
/// [`dynamic_update_slice_window`] for the part that the update covers. The map to the operand is
/// [`super::identity`], to each start index [`super::scalar`].
pub fn dynamic_update_slice<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    update_sizes: &[i64],
    offsets: &[Offset],
) -> IndexingMap<'c> {
    let mut runtimes = RuntimeVariables::after(context, 0);
    let results = output_sizes
        .iter()
        .zip(update_sizes)
        .zip(offsets)
        .enumerate()
        .map(|(i, ((&size, &update), &start))| {
            Expr::dim(context, i) - runtimes.offset(start, Interval::new(0, size.saturating_sub(update)), Vec::new())
        })
        .collect();
    IndexingMap::new(context, variables_of_sizes(output_sizes), Vec::new(), runtimes.variables, results, Vec::new())
}

/// As [`dynamic_update_slice`], with the constraints that the element lies in the update.
pub fn dynamic_update_slice_window<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    update_sizes: &[i64],
    offsets: &[Offset],
) -> IndexingMap<'c> {
    let mut map = dynamic_update_slice(context, output_sizes, update_sizes, offsets);
    for (result, &size) in map.results().to_vec().into_iter().zip(update_sizes) {
        map.add_constraint(result, Interval::of_size(size));
    }
    map
}

/// gather, to the operand and to the indices; `indices` is the caller's number for the latter.
pub fn gather<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    indices_sizes: &[i64],
    output_sizes: &[i64],
    attributes: &GatherAttributes<'_>,
    indices: u64,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let rank = output_sizes.len();
    // The other dimensions of the result run over the index vectors, in order.
    let batch: Vec<Expr<'c>> =
        (0..rank).filter(|&d| !attributes.offset_dims.contains(&(d as i64))).map(|d| Expr::dim(context, d)).collect();
    let vector = IndexVectors { context, sizes: indices_sizes, dimension: attributes.index_vector_dim };

    let mut runtimes = RuntimeVariables::after(context, 0);
    let mut offset_dims = attributes.offset_dims.iter();
    let mut results = Vec::with_capacity(operand_sizes.len());
    for (i, (&size, &slice)) in operand_sizes.iter().zip(attributes.slice_sizes).enumerate() {
        let dimension = i as i64;
        let mut expr = Expr::constant(context, 0);
        let batching = attributes.operand_batching_dims.iter().position(|&d| d == dimension);
        if let Some(k) = batching {
            if let Some(&d) = attributes.start_indices_batching_dims.get(k) {
                expr = vector.batch_index(d, &batch);
            }
        } else if !attributes.collapsed_slice_dims.contains(&dimension)
            && let Some(d) = offset_dims.next().and_then(|&d| place(d, rank))
        {
            expr = Expr::dim(context, d);
        }
        if let Some(component) = attributes.start_index_map.iter().position(|&d| d == dimension) {
            let bounds = Interval::new(0, size.saturating_sub(slice));
            let index = vector.element(&batch, Expr::constant(context, component as i64));
            expr = expr + runtimes.offset(Offset::Value(indices), bounds, index);
        }
        results.push(expr);
    }
    let operand = IndexingMap::new(
        context,
        variables_of_sizes(output_sizes),
        Vec::new(),
        runtimes.variables,
        results,
        Vec::new(),
    );
    let components: Vec<i64> = vector.components().into_iter().collect();
    let indices =
        IndexingMap::from_sizes(context, output_sizes, &components, vector.element(&batch, Expr::symbol(context, 0)));
    (operand, indices)
}

/// gather, from the operand and from the indices. From the operand, range variables are the index vectors.
pub fn gather_to_output<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    indices_sizes: &[i64],
    output_sizes: &[i64],
    attributes: &GatherAttributes<'_>,
    indices: u64,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let rank = output_sizes.len();
    let batch_dims: Vec<usize> = (0..rank).filter(|&d| !attributes.offset_dims.contains(&(d as i64))).collect();
    let batch_sizes: Vec<i64> = batch_dims.iter().map(|&d| output_sizes[d]).collect();
    let batch: Vec<Expr<'c>> = (0..batch_dims.len()).map(|i| Expr::symbol(context, i)).collect();
    let vector = IndexVectors { context, sizes: indices_sizes, dimension: attributes.index_vector_dim };

    let mut results = vec![Expr::constant(context, 0); rank];
    for (&d, expr) in batch_dims.iter().zip(&batch) {
        results[d] = *expr;
    }
    let mut runtimes = RuntimeVariables::after(context, batch.len());
    let mut guards = Vec::new();
    let mut offset_dims = attributes.offset_dims.iter();
    for (i, (&size, &slice)) in operand_sizes.iter().zip(attributes.slice_sizes).enumerate() {
        let dimension = i as i64;
        let mut place_in_slice = Expr::dim(context, i);
        if let Some(component) = attributes.start_index_map.iter().position(|&d| d == dimension) {
            let bounds = Interval::new(0, size.saturating_sub(slice));
            let index = vector.element(&batch, Expr::constant(context, component as i64));
            place_in_slice = place_in_slice - runtimes.offset(Offset::Value(indices), bounds, index);
        }
        if let Some(k) = attributes.operand_batching_dims.iter().position(|&d| d == dimension) {
            if let Some(&d) = attributes.start_indices_batching_dims.get(k) {
                place_in_slice = place_in_slice - vector.batch_index(d, &batch);
            }
        } else if !attributes.collapsed_slice_dims.contains(&dimension)
            && let Some(d) = offset_dims.next().and_then(|&d| place(d, rank))
        {
            results[d] = place_in_slice;
        }
        guards.push(Constraint::new(place_in_slice, Interval::of_size(slice)));
    }
    let operand = IndexingMap::new(
        context,
        variables_of_sizes(operand_sizes),
        variables_of_sizes(&batch_sizes),
        runtimes.variables,
        results,
        guards,
    );

    // An index vector selects a whole slice.
    let vector_dim = place(attributes.index_vector_dim, indices_sizes.len());
    let mut batch = (0..indices_sizes.len()).filter(|&d| Some(d) != vector_dim).map(|d| Expr::dim(context, d));
    let mut slices = Vec::new();
    let results = (0..rank)
        .map(|d| {
            if batch_dims.contains(&d) {
                return batch.next().unwrap_or(Expr::constant(context, 0));
            }
            slices.push(output_sizes[d]);
            Expr::symbol(context, slices.len() - 1)
        })
        .collect();
    (operand, IndexingMap::from_sizes(context, indices_sizes, &slices, results))
}

/// The index vectors inside an array of indices.
struct IndexVectors<'a, 'c> {
    context: &'c Context,
    sizes: &'a [i64],
    dimension: i64,
}

impl<'c> IndexVectors<'_, 'c> {
    /// The length of a vector, if vectors have a dimension of their own.
    fn components(&self) -> Option<i64> {
        place(self.dimension, self.sizes.len()).map(|d| self.sizes[d])
    }

    /// The index of a component of the vector at `batch`.
    fn element(&self, batch: &[Expr<'c>], component: Expr<'c>) -> Vec<Expr<'c>> {
        let mut index: Vec<Expr<'c>> = batch.to_vec();
        if let Some(d) = place(self.dimension, self.sizes.len()) {
            index.insert(d.min(index.len()), component);
        }
        index
    }

    /// The entry of `batch` that runs along dimension `d` of the indices.
    fn batch_index(&self, d: i64, batch: &[Expr<'c>]) -> Expr<'c> {
        let before = if self.dimension < d { d - 1 } else { d };
        place(before, batch.len()).map_or(Expr::constant(self.context, 0), |i| batch[i])
    }
}

/// scatter, from the result to the updates that may reach an element, and to the indices. The map to the
/// operand is [`super::identity`].
///
/// Range variables run over the index vectors; the run-time variables are the components of the vector they
/// select. Updates outside the operand are skipped: the run-time variables are bounded by the operand.
pub fn scatter<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    indices_sizes: &[i64],
    updates_sizes: &[i64],
    attributes: &ScatterAttributes<'_>,
    indices: u64,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let vector = IndexVectors { context, sizes: indices_sizes, dimension: attributes.index_vector_dim };
    let scatter_dims: Vec<usize> =
        (0..updates_sizes.len()).filter(|&d| !attributes.update_window_dims.contains(&(d as i64))).collect();
    let batch: Vec<Expr<'c>> = (0..scatter_dims.len()).map(|i| Expr::symbol(context, i)).collect();
    let batch_sizes: Vec<i64> = scatter_dims.iter().map(|&d| updates_sizes[d]).collect();

    let mut results = vec![Expr::constant(context, 0); updates_sizes.len()];
    for (i, &d) in scatter_dims.iter().enumerate() {
        results[d] = Expr::symbol(context, i);
    }
    let mut runtimes = RuntimeVariables::after(context, batch.len());
    let mut guards = Vec::new();
    let mut window_dims = attributes.update_window_dims.iter();
    for (i, &size) in operand_sizes.iter().enumerate() {
        let dimension = i as i64;
        let mut place_in_window = Expr::dim(context, i);
        if let Some(k) = attributes.input_batching_dims.iter().position(|&d| d == dimension) {
            if let Some(&d) = attributes.scatter_indices_batching_dims.get(k) {
                place_in_window = place_in_window - vector.batch_index(d, &batch);
            }
            guards.push(Constraint::new(place_in_window, Interval::point(0)));
            continue;
        }
        let window = match attributes.inserted_window_dims.contains(&dimension) {
            true => None,
            false => window_dims.next().and_then(|&d| place(d, updates_sizes.len())),
        };
        let window_size = window.map_or(1, |d| updates_sizes[d]);
        if let Some(component) = attributes.scatter_dims_to_operand_dims.iter().position(|&d| d == dimension) {
            let index = vector.element(&batch, Expr::constant(context, component as i64));
            let bounds = Interval::new(0, size.saturating_sub(window_size));
            place_in_window = place_in_window - runtimes.offset(Offset::Value(indices), bounds, index);
        }
        if let Some(d) = window {
            results[d] = place_in_window;
        }
        guards.push(Constraint::new(place_in_window, Interval::of_size(window_size)));
    }
    let updates = IndexingMap::new(
        context,
        variables_of_sizes(operand_sizes),
        variables_of_sizes(&batch_sizes),
        runtimes.variables,
        results,
        guards,
    );
    let mut index_sizes = batch_sizes.clone();
    index_sizes.extend(vector.components());
    let indices = IndexingMap::from_sizes(
        context,
        operand_sizes,
        &index_sizes,
        vector.element(&batch, Expr::symbol(context, batch_sizes.len())),
    );
    (updates, indices)
}

/// scatter, from the updates to the elements of the result they go to. Updates outside the operand are skipped:
/// the run-time variables are bounded by the operand.
pub fn scatter_updates_to_output<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    indices_sizes: &[i64],
    updates_sizes: &[i64],
    attributes: &ScatterAttributes<'_>,
    indices: u64,
) -> IndexingMap<'c> {
    let vector = IndexVectors { context, sizes: indices_sizes, dimension: attributes.index_vector_dim };
    let batch: Vec<Expr<'c>> = (0..updates_sizes.len())
        .filter(|&d| !attributes.update_window_dims.contains(&(d as i64)))
        .map(|d| Expr::dim(context, d))
        .collect();
    let mut runtimes = RuntimeVariables::after(context, 0);
    let mut results = Vec::with_capacity(operand_sizes.len());
    let mut window_dims = attributes.update_window_dims.iter();
    for (i, &size) in operand_sizes.iter().enumerate() {
        let dimension = i as i64;
        if let Some(k) = attributes.input_batching_dims.iter().position(|&d| d == dimension) {
            let along = attributes.scatter_indices_batching_dims.get(k);
            results.push(along.map_or(Expr::constant(context, 0), |&d| vector.batch_index(d, &batch)));
            continue;
        }
        let window = match attributes.inserted_window_dims.contains(&dimension) {
            true => None,
            false => window_dims.next().and_then(|&d| place(d, updates_sizes.len())),
        };
        let mut expr = window.map_or(Expr::constant(context, 0), |d| Expr::dim(context, d));
        if let Some(component) = attributes.scatter_dims_to_operand_dims.iter().position(|&d| d == dimension) {
            let index = vector.element(&batch, Expr::constant(context, component as i64));
            let last = size.saturating_sub(window.map_or(1, |d| updates_sizes[d]));
            expr = expr + runtimes.offset(Offset::Value(indices), Interval::new(0, last), index);
        }
        results.push(expr);
    }
    IndexingMap::new(context, variables_of_sizes(updates_sizes), Vec::new(), runtimes.variables, results, Vec::new())
}
