//! Operations that change the shape and no value: broadcast, transpose, reshape, bitcast, layouts.

use indexing::queries::row_major_strides;
use indexing::{Expr, IndexingMap};
use melior::Context;

use super::{dims, place};

/// broadcast: operand dimension `i` becomes result dimension `dimensions[i]`.
pub fn broadcast<'c>(context: &'c Context, output_sizes: &[i64], dimensions: &[i64]) -> IndexingMap<'c> {
    let results =
        dimensions.iter().filter_map(|&d| place(d, output_sizes.len())).map(|d| Expr::dim(context, d)).collect();
    IndexingMap::from_sizes(context, output_sizes, &[], results)
}

/// transpose: result dimension `i` is operand dimension `permutation[i]`. For the other direction pass the
/// result's sizes and the inverse permutation.
pub fn transpose<'c>(context: &'c Context, input_sizes: &[i64], permutation: &[i64]) -> IndexingMap<'c> {
    let rank = input_sizes.len();
    let mut results = vec![Expr::constant(context, 0); rank];
    let mut output_sizes = vec![1; permutation.len()];
    for (i, &p) in permutation.iter().enumerate() {
        if let Some(p) = place(p, rank) {
            results[p] = Expr::dim(context, i);
            output_sizes[i] = input_sizes[p];
        }
    }
    IndexingMap::from_sizes(context, &output_sizes, &[], results)
}

/// reshape, from an array of `output_sizes` to one of `input_sizes` with as many elements; swap them for the
/// other direction. Simplified; variables of size-1 dimensions stay.
pub fn reshape<'c>(context: &'c Context, input_sizes: &[i64], output_sizes: &[i64]) -> IndexingMap<'c> {
    IndexingMap::from_sizes(context, output_sizes, &[], reshape_indices(context, input_sizes, output_sizes))
        .simplified_in_all_variables()
}

/// The index into `input_sizes` for the index `d_0, d_1, …` into `output_sizes`.
///
/// Groups of neighbouring dimensions with equal numbers of elements on both sides are mapped on their own,
/// which keeps divisions out where no dimension is split.
fn reshape_indices<'c>(context: &'c Context, input_sizes: &[i64], output_sizes: &[i64]) -> Vec<Expr<'c>> {
    let elements: i64 = input_sizes.iter().fold(1, |n, &size| n.saturating_mul(size));
    if elements == 0 {
        return vec![Expr::constant(context, 0); input_sizes.len()];
    }
    let mut results = Vec::with_capacity(input_sizes.len());
    let (mut i, mut o) = (0, 0);
    while i < input_sizes.len() || o < output_sizes.len() {
        let (input_start, output_start) = (i, o);
        let (mut input_count, mut output_count) = (1i64, 1i64);
        loop {
            let need_input = i == input_start || input_count < output_count;
            let need_output = o == output_start || output_count < input_count;
            if i < input_sizes.len() && need_input {
                input_count = input_count.saturating_mul(input_sizes[i]);
                i += 1;
            } else if o < output_sizes.len() && need_output {
                output_count = output_count.saturating_mul(output_sizes[o]);
                o += 1;
            } else {
                break;
            }
        }
        let group = &input_sizes[input_start..i];
        if group.len() == 1 && o - output_start == 1 {
            results.push(Expr::dim(context, output_start));
            continue;
        }
        let strides = row_major_strides(&output_sizes[output_start..o]);
        let linear = strides
            .iter()
            .enumerate()
            .fold(Expr::constant(context, 0), |sum, (k, &stride)| sum + Expr::dim(context, output_start + k) * stride);
        results.extend(delinearize(linear, group));
    }
    results
}

/// The index into `sizes` of the element at a row-major offset that is in bounds.
fn delinearize<'c>(offset: Expr<'c>, sizes: &[i64]) -> Vec<Expr<'c>> {
    let strides = row_major_strides(sizes);
    let mut rest = offset;
    strides
        .into_iter()
        .map(|stride| {
            let index = rest.floordiv(stride);
            rest = rest.modulo(stride);
            index
        })
        .collect()
}

/// bitcast between arrays with as many elements of one width: the elements stay where they are in memory.
/// Layouts list dimensions from the fastest to the slowest. Swap the arguments for the other direction.
pub fn bitcast<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    input_layout: &[i64],
    output_sizes: &[i64],
    output_layout: &[i64],
) -> IndexingMap<'c> {
    let to_physical = logical_to_physical(context, output_sizes, output_layout);
    let physical =
        reshape(context, &physical_sizes(input_sizes, input_layout), &physical_sizes(output_sizes, output_layout));
    let to_logical = physical_to_logical(context, input_sizes, input_layout);
    let composed = to_physical.compose(&physical).and_then(|map| map.compose(&to_logical));
    composed
        .unwrap_or_else(|_| IndexingMap::from_sizes(context, output_sizes, &[], Vec::new()))
        .simplified_in_all_variables()
}

/// bitcast-convert. Between element types of different width the array of narrower elements has one more
/// dimension, the last, over the parts of a wider element.
pub fn bitcast_convert<'c>(context: &'c Context, input_sizes: &[i64], output_sizes: &[i64]) -> IndexingMap<'c> {
    let rank = output_sizes.len();
    if input_sizes.len() > rank {
        let mut results = dims(context, rank);
        results.push(Expr::symbol(context, 0));
        return IndexingMap::from_sizes(context, output_sizes, &input_sizes[rank..], results);
    }
    IndexingMap::from_sizes(context, output_sizes, &[], dims(context, input_sizes.len()))
}

/// The sizes from the slowest dimension of a layout to the fastest.
pub fn physical_sizes(sizes: &[i64], minor_to_major: &[i64]) -> Vec<i64> {
    minor_to_major.iter().rev().filter_map(|&d| place(d, sizes.len())).map(|d| sizes[d]).collect()
}

/// From the index of an element to its place in memory, the slowest dimension of the layout first.
pub fn logical_to_physical<'c>(context: &'c Context, sizes: &[i64], minor_to_major: &[i64]) -> IndexingMap<'c> {
    let results =
        minor_to_major.iter().rev().filter_map(|&d| place(d, sizes.len())).map(|d| Expr::dim(context, d)).collect();
    IndexingMap::from_sizes(context, sizes, &[], results)
}

/// From a place in memory, the slowest dimension of the layout first, to the index of the element.
pub fn physical_to_logical<'c>(context: &'c Context, sizes: &[i64], minor_to_major: &[i64]) -> IndexingMap<'c> {
    let mut results = vec![Expr::constant(context, 0); sizes.len()];
    for (i, &d) in minor_to_major.iter().rev().enumerate() {
        if let Some(d) = place(d, sizes.len()) {
            results[d] = Expr::dim(context, i);
        }
    }
    IndexingMap::from_sizes(context, &physical_sizes(sizes, minor_to_major), &[], results)
}
