//! Operations that take or place a strided part: slice, pad, concatenate, reverse.

use indexing::{Constraint, Expr, IndexingMap, Interval, variables_of_sizes};
use melior::Context;

use super::{dims, strided};

/// slice: result index `d` is operand index `start + d * stride`.
pub fn slice<'c>(context: &'c Context, output_sizes: &[i64], starts: &[i64], strides: &[i64]) -> IndexingMap<'c> {
    let results = dims(context, output_sizes.len())
        .into_iter()
        .zip(starts.iter().zip(strides))
        .map(|(d, (&start, &stride))| d * stride + start)
        .collect();
    IndexingMap::from_sizes(context, output_sizes, &[], results)
}

/// slice, from the elements of the operand that are taken.
pub fn slice_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    starts: &[i64],
    strides: &[i64],
) -> IndexingMap<'c> {
    let results = dims(context, input_sizes.len())
        .into_iter()
        .zip(starts.iter().zip(strides))
        .map(|(d, (&start, &stride))| (d - start).floordiv(stride))
        .collect();
    let taken = starts.iter().zip(strides).zip(output_sizes).enumerate();
    let constraints =
        taken.flat_map(|(i, ((&start, &stride), &size))| strided(Expr::dim(context, i), start, stride, size));
    restricted(context, input_sizes, results, constraints.collect())
}

/// pad, to the padded operand: `interior` elements lie between neighbours, `low` before the first; negative
/// numbers cut off.
pub fn pad<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    input_sizes: &[i64],
    low: &[i64],
    interior: &[i64],
) -> IndexingMap<'c> {
    let steps = || low.iter().zip(interior).map(|(&low, &interior)| (low, interior.saturating_add(1).max(1)));
    let results = dims(context, output_sizes.len())
        .into_iter()
        .zip(steps())
        .map(|(d, (low, step))| (d - low).floordiv(step))
        .collect();
    let elements = steps().zip(input_sizes).enumerate();
    let constraints = elements.flat_map(|(i, ((low, step), &size))| strided(Expr::dim(context, i), low, step, size));
    restricted(context, output_sizes, results, constraints.collect())
}

/// pad, from the operand.
pub fn pad_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    low: &[i64],
    interior: &[i64],
) -> IndexingMap<'c> {
    let results: Vec<Expr<'c>> = dims(context, input_sizes.len())
        .into_iter()
        .zip(low.iter().zip(interior))
        .map(|(d, (&low, &interior))| d * interior.saturating_add(1) + low)
        .collect();
    let mut map = IndexingMap::from_sizes(context, input_sizes, &[], results.clone());
    for (result, &size) in results.into_iter().zip(output_sizes) {
        // Only negative padding puts elements outside.
        if !Interval::of_size(size).contains_interval(map.range_of(result)) {
            map.add_constraint(result, Interval::of_size(size));
        }
    }
    map
}

/// concatenate along `dimension`, to the operand of the given size along it that starts at `offset` of the result. The
/// domain holds the part of the result that comes from this operand.
pub fn concatenate<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    dimension: i64,
    offset: i64,
    size: i64,
) -> IndexingMap<'c> {
    let mut results = dims(context, output_sizes.len());
    let axis = super::place(dimension, output_sizes.len());
    if let Some(axis) = axis {
        results[axis] = Expr::dim(context, axis) - offset;
    }
    let own = Interval::new(offset, offset.saturating_add(size) - 1);
    let constraints = axis.map(|axis| Constraint::new(Expr::dim(context, axis), own));
    restricted(context, output_sizes, results, constraints.into_iter().collect())
}

/// A map without range variables.
fn restricted<'c>(
    context: &'c Context,
    sizes: &[i64],
    results: Vec<Expr<'c>>,
    constraints: Vec<Constraint<'c>>,
) -> IndexingMap<'c> {
    IndexingMap::new(context, variables_of_sizes(sizes), Vec::new(), Vec::new(), results, constraints)
}

/// concatenate along `dimension`, from the operand that starts at `offset` of the result.
pub fn concatenate_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    dimension: i64,
    offset: i64,
) -> IndexingMap<'c> {
    let mut results = dims(context, input_sizes.len());
    if let Some(axis) = super::place(dimension, input_sizes.len()) {
        results[axis] = Expr::dim(context, axis) + offset;
    }
    IndexingMap::from_sizes(context, input_sizes, &[], results)
}

/// reverse, both ways.
pub fn reverse<'c>(context: &'c Context, sizes: &[i64], dimensions: &[i64]) -> IndexingMap<'c> {
    let results = sizes
        .iter()
        .enumerate()
        .map(|(i, &size)| match dimensions.contains(&(i as i64)) {
            true => -Expr::dim(context, i) + (size - 1),
            false => Expr::dim(context, i),
        })
        .collect();
    IndexingMap::from_sizes(context, sizes, &[], results)
}
