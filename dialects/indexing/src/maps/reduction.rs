//! Operations that need whole dimensions of an operand: reduce, sort, transforms along dimensions.

use super::dims;
use crate::expr::Expr;
use crate::map::{IndexingMap, variables_of_sizes};

/// reduce (also variadic), to an input: the reduced dimensions are range variables.
pub fn reduce(input_sizes: &[i64], dimensions: &[i64]) -> IndexingMap {
    let (mut kept, mut reduced) = (Vec::new(), Vec::new());
    let mut results = Vec::with_capacity(input_sizes.len());
    for (i, &size) in input_sizes.iter().enumerate() {
        if dimensions.contains(&(i as i64)) {
            results.push(Expr::range(reduced.len()));
            reduced.push(size);
        } else {
            results.push(Expr::dim(kept.len()));
            kept.push(size);
        }
    }
    IndexingMap::from_sizes(&kept, &reduced, results)
}

/// From `(d0, …)` of an array that kept only `kept` of the dimensions of one with `input_sizes` to that array,
/// all of the other dimensions: statistics of batch normalisation, `(d0)[s0, s1] -> (s0, s1, d0)`.
pub fn reduced_keeping(input_sizes: &[i64], kept: &[i64]) -> IndexingMap {
    let others: Vec<i64> = (0..input_sizes.len() as i64).filter(|d| !kept.contains(d)).collect();
    reduce(input_sizes, &others)
}

/// Operations that mix all elements along some dimensions of an array of unchanged shape (sort, fft,
/// cholesky, the normalised result of batch normalisation): `(d0, d1)[s0] -> (d0, s0)`.
pub fn whole_along(sizes: &[i64], dimensions: &[i64]) -> IndexingMap {
    let mut results = dims(sizes.len());
    let mut mixed = Vec::new();
    for (i, &size) in sizes.iter().enumerate() {
        if dimensions.contains(&(i as i64)) {
            results[i] = Expr::range(mixed.len());
            mixed.push(size);
        }
    }
    IndexingMap::new(variables_of_sizes(sizes), variables_of_sizes(&mixed), Vec::new(), results, Vec::new())
}

/// sort along `dimension`, to any operand.
pub fn sort(sizes: &[i64], dimension: i64) -> IndexingMap {
    whole_along(sizes, &[dimension])
}
