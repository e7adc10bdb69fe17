//! Operations that change the shape and no value: broadcast, transpose, reshape, bitcast, layouts.

use super::{dims, place};
use crate::expr::Expr;
use crate::map::IndexingMap;
use crate::queries::row_major_strides;
use crate::simplify::PointVariables;

/// broadcast: operand dimension `i` becomes result dimension `dimensions[i]`.
pub fn broadcast(output_sizes: &[i64], dimensions: &[i64]) -> IndexingMap {
    let results = dimensions.iter().filter_map(|&d| place(d, output_sizes.len())).map(Expr::dim).collect();
    IndexingMap::from_sizes(output_sizes, &[], results)
}

/// transpose: result dimension `i` is operand dimension `permutation[i]`. For the other direction pass the
/// result's sizes and the inverse permutation.
pub fn transpose(input_sizes: &[i64], permutation: &[i64]) -> IndexingMap {
    let rank = input_sizes.len();
    let mut results = vec![Expr::constant(0); rank];
    let mut output_sizes = vec![1; permutation.len()];
    for (i, &p) in permutation.iter().enumerate() {
        if let Some(p) = place(p, rank) {
            results[p] = Expr::dim(i);
            output_sizes[i] = input_sizes[p];
        }
    }
    IndexingMap::from_sizes(&output_sizes, &[], results)
}

/// reshape, from an array of `output_sizes` to one of `input_sizes` with as many elements; swap them for the
/// other direction. Simplified; variables of size-1 dimensions stay.
pub fn reshape(input_sizes: &[i64], output_sizes: &[i64]) -> IndexingMap {
    let mut map = IndexingMap::from_sizes(output_sizes, &[], reshape_indices(input_sizes, output_sizes));
    map.simplify_with(PointVariables::Preserve);
    map
}

/// The index into `input_sizes` for the index `d_0, d_1, …` into `output_sizes`.
///
/// Groups of neighbouring dimensions with equal numbers of elements on both sides are mapped on their own,
/// which keeps divisions out where no dimension is split.
fn reshape_indices(input_sizes: &[i64], output_sizes: &[i64]) -> Vec<Expr> {
    let elements: i64 = input_sizes.iter().fold(1, |n, &size| n.saturating_mul(size));
    if elements == 0 {
        return vec![Expr::constant(0); input_sizes.len()];
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
            results.push(Expr::dim(output_start));
            continue;
        }
        let strides = row_major_strides(&output_sizes[output_start..o]);
        let linear = strides
            .iter()
            .enumerate()
            .fold(Expr::constant(0), |sum, (k, &stride)| sum + Expr::dim(output_start + k) * stride);
        results.extend(delinearize(linear, group));
    }
    results
}

/// The index into `sizes` of the element at a row-major offset that is in bounds.
fn delinearize(offset: Expr, sizes: &[i64]) -> Vec<Expr> {
    let strides = row_major_strides(sizes);
    let mut rest = offset;
    strides
        .into_iter()
        .map(|stride| {
            let index = rest.clone().floordiv(stride);
            rest = rest.clone().modulo(stride);
            index
        })
        .collect()
}

/// bitcast between arrays with as many elements of one width: the elements stay where they are in memory.
/// Layouts list dimensions from the fastest to the slowest. Swap the arguments for the other direction.
pub fn bitcast(input_sizes: &[i64], input_layout: &[i64], output_sizes: &[i64], output_layout: &[i64]) -> IndexingMap {
    let to_physical = logical_to_physical(output_sizes, output_layout);
    let physical = reshape(&physical_sizes(input_sizes, input_layout), &physical_sizes(output_sizes, output_layout));
    let to_logical = physical_to_logical(input_sizes, input_layout);
    let composed = to_physical.compose(&physical).and_then(|map| map.compose(&to_logical));
    let mut map = composed.unwrap_or_else(|_| IndexingMap::from_sizes(output_sizes, &[], Vec::new()));
    map.simplify_with(PointVariables::Preserve);
    map
}

/// bitcast-convert. Between element types of different width the array of narrower elements has one more
/// dimension, the last, over the parts of a wider element.
pub fn bitcast_convert(input_sizes: &[i64], output_sizes: &[i64]) -> IndexingMap {
    let rank = output_sizes.len();
    if input_sizes.len() > rank {
        let mut results = dims(rank);
        results.push(Expr::range(0));
        return IndexingMap::from_sizes(output_sizes, &input_sizes[rank..], results);
    }
    IndexingMap::from_sizes(output_sizes, &[], dims(input_sizes.len()))
}

/// The sizes from the slowest dimension of a layout to the fastest.
pub fn physical_sizes(sizes: &[i64], minor_to_major: &[i64]) -> Vec<i64> {
    minor_to_major.iter().rev().filter_map(|&d| place(d, sizes.len())).map(|d| sizes[d]).collect()
}

/// From the index of an element to its place in memory, the slowest dimension of the layout first.
pub fn logical_to_physical(sizes: &[i64], minor_to_major: &[i64]) -> IndexingMap {
    let results = minor_to_major.iter().rev().filter_map(|&d| place(d, sizes.len())).map(Expr::dim).collect();
    IndexingMap::from_sizes(sizes, &[], results)
}

/// From a place in memory, the slowest dimension of the layout first, to the index of the element.
pub fn physical_to_logical(sizes: &[i64], minor_to_major: &[i64]) -> IndexingMap {
    let mut results = vec![Expr::constant(0); sizes.len()];
    for (i, &d) in minor_to_major.iter().rev().enumerate() {
        if let Some(d) = place(d, sizes.len()) {
            results[d] = Expr::dim(i);
        }
    }
    IndexingMap::from_sizes(&physical_sizes(sizes, minor_to_major), &[], results)
}
