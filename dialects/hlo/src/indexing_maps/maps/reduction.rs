//! Operations that need whole dimensions of an operand: reduce, sort, transforms along dimensions.

use indexing::{Expr, IndexingMap, variables_of_sizes};
use melior::Context;

use super::dims;

/// reduce (also variadic), to an input: the reduced dimensions are range variables.
pub fn reduce<'c>(context: &'c Context, input_sizes: &[i64], dimensions: &[i64]) -> IndexingMap<'c> {
    let (mut kept, mut reduced) = (Vec::new(), Vec::new());
    let mut results = Vec::with_capacity(input_sizes.len());
    for (i, &size) in input_sizes.iter().enumerate() {
        if dimensions.contains(&(i as i64)) {
            results.push(Expr::symbol(context, reduced.len()));
            reduced.push(size);
        } else {
            results.push(Expr::dim(context, kept.len()));
            kept.push(size);
        }
    }
    IndexingMap::from_sizes(context, &kept, &reduced, results)
}

/// From `(d0, …)` of an array that kept only `kept` of the dimensions of one with `input_sizes` to that array,
/// all of the other dimensions: statistics of batch normalisation, `(d0)[s0, s1] -> (s0, s1, d0)`.
pub fn reduced_keeping<'c>(context: &'c Context, input_sizes: &[i64], kept: &[i64]) -> IndexingMap<'c> {
    let others: Vec<i64> = (0..input_sizes.len() as i64).filter(|d| !kept.contains(d)).collect();
    reduce(context, input_sizes, &others)
}

/// Operations that mix all elements along some dimensions of an array of unchanged shape (sort, fft,
/// cholesky, the normalised result of batch normalisation): `(d0, d1)[s0] -> (d0, s0)`.
pub fn whole_along<'c>(context: &'c Context, sizes: &[i64], dimensions: &[i64]) -> IndexingMap<'c> {
    let mut results = dims(context, sizes.len());
    let mut mixed = Vec::new();
    for (i, &size) in sizes.iter().enumerate() {
        if dimensions.contains(&(i as i64)) {
            results[i] = Expr::symbol(context, mixed.len());
            mixed.push(size);
        }
    }
    IndexingMap::new(context, variables_of_sizes(sizes), variables_of_sizes(&mixed), Vec::new(), results, Vec::new())
}

/// sort along `dimension`, to any operand.
pub fn sort<'c>(context: &'c Context, sizes: &[i64], dimension: i64) -> IndexingMap<'c> {
    whole_along(context, sizes, &[dimension])
}
