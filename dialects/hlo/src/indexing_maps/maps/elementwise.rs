//! Maps that copy indices: elementwise operations, scalars, single dimensions.

use indexing::{Expr, IndexingMap};
use melior::Context;

use super::{dims, place};

/// Elementwise operations, both ways: `(d0, d1) -> (d0, d1)`.
pub fn identity<'c>(context: &'c Context, sizes: &[i64]) -> IndexingMap<'c> {
    IndexingMap::from_sizes(context, sizes, &[], dims(context, sizes.len()))
}

/// From an array to a scalar operand: `(d0, d1) -> ()`.
pub fn scalar<'c>(context: &'c Context, sizes: &[i64]) -> IndexingMap<'c> {
    IndexingMap::from_sizes(context, sizes, &[], Vec::new())
}

/// From an array to an operand indexed by one of its dimensions (scale and offset of batch normalisation):
/// `(d0, d1, d2) -> (d2)`.
pub fn one_dimension<'c>(context: &'c Context, sizes: &[i64], dimension: i64) -> IndexingMap<'c> {
    let results = place(dimension, sizes.len()).map(|d| Expr::dim(context, d)).into_iter().collect();
    IndexingMap::from_sizes(context, sizes, &[], results)
}

/// From each element of an array to every element of one of `target_sizes`: `(d0)[s0, s1] -> (s0, s1)`.
pub fn all_of<'c>(context: &'c Context, sizes: &[i64], target_sizes: &[i64]) -> IndexingMap<'c> {
    let results = (0..target_sizes.len()).map(|i| Expr::symbol(context, i)).collect();
    IndexingMap::from_sizes(context, sizes, target_sizes, results)
}

/// From a scalar to every element of an array: `()[s0, s1] -> (s0, s1)`.
pub fn whole<'c>(context: &'c Context, target_sizes: &[i64]) -> IndexingMap<'c> {
    all_of(context, &[], target_sizes)
}
