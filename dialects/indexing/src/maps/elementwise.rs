//! Maps that copy indices: elementwise operations, scalars, single dimensions.

use super::{dims, place};
use crate::expr::Expr;
use crate::map::IndexingMap;

/// Elementwise operations, both ways: `(d0, d1) -> (d0, d1)`.
pub fn identity(sizes: &[i64]) -> IndexingMap {
    IndexingMap::from_sizes(sizes, &[], dims(sizes.len()))
}

/// From an array to a scalar operand: `(d0, d1) -> ()`.
pub fn scalar(sizes: &[i64]) -> IndexingMap {
    IndexingMap::from_sizes(sizes, &[], Vec::new())
}

/// From an array to an operand indexed by one of its dimensions (scale and offset of batch normalisation):
/// `(d0, d1, d2) -> (d2)`.
pub fn one_dimension(sizes: &[i64], dimension: i64) -> IndexingMap {
    let results = place(dimension, sizes.len()).map(Expr::dim).into_iter().collect();
    IndexingMap::from_sizes(sizes, &[], results)
}

/// From each element of an array to every element of one of `target_sizes`: `(d0)[s0, s1] -> (s0, s1)`.
pub fn all_of(sizes: &[i64], target_sizes: &[i64]) -> IndexingMap {
    let results = (0..target_sizes.len()).map(Expr::range).collect();
    IndexingMap::from_sizes(sizes, target_sizes, results)
}

/// From a scalar to every element of an array: `()[s0, s1] -> (s0, s1)`.
pub fn whole(target_sizes: &[i64]) -> IndexingMap {
    all_of(&[], target_sizes)
}
