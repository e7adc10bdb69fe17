//! Triangular systems that are solved for one unknown after another: small ones, and those of few right-hand sides.

use faer::{
    MatMut, MatRef,
    prelude::ReborrowMut,
    traits::math_utils::{add, conj, mul, sub, zero},
};

use crate::{
    Element, TriangularSystem, in_vectors,
    panel::{combine_halves, subtract_multiple},
};

/// Right-hand sides up to which each is solved for by itself.
const FEW_COLUMNS: usize = 4;

/// Unknowns up to which it is so with any number of them.
const FEW_UNKNOWNS: usize = 8;

/// Products that are summed side by side.
const LANES: usize = 8;

/// Whether a system is solved sooner so than by products of blocks.
pub(crate) fn suits(unknowns: usize, columns: usize) -> bool {
    columns <= FEW_COLUMNS || unknowns <= FEW_UNKNOWNS
}

/// Replaces the right-hand sides `b` by the solutions of a system whose matrix stands on the left and is not transposed.
pub(crate) fn substitute<T: Element>(a: MatRef<'_, T>, b: MatMut<'_, T>, system: TriangularSystem) {
    in_vectors!(substitute_in_vectors(a, b, system));
}

#[inline(always)]
fn substitute_in_vectors<T: Element>(a: MatRef<'_, T>, mut b: MatMut<'_, T>, system: TriangularSystem) {
    let size = a.nrows();
    let coefficient = |value: &T| if system.conjugated { conj(value) } else { *value };
    let mut x = vec![zero::<T>(); size];
    for column in 0..b.ncols() {
        let mut column = b.rb_mut().col_mut(column);
        x.iter_mut().zip(column.rb_mut().iter_mut()).for_each(|(x, b)| *x = *b);
        for step in 0..size {
            let place = if system.lower { step } else { size - 1 - step };
            let (known, open) = if system.lower { (0..place, place + 1..size) } else { (place + 1..size, 0..place) };
            let row = a.row(place).try_as_row_major().map(|row| row.as_slice());
            if let Some(row) = row {
                x[place] = sub(&x[place], &sum_of_products(&row[known.clone()], &x[known], coefficient));
            }
            if !system.unit_diagonal {
                let quotient = x[place] / coefficient(&a[(place, place)]);
                x[place] = quotient;
            }
            if row.is_none() {
                let found = x[place];
                match a.col(place).try_as_col_major().map(|column| column.as_slice()) {
                    Some(column) if !system.conjugated => {
                        subtract_multiple(&mut x[open.clone()], found, &column[open]);
                    }
                    _ => open.for_each(|row| x[row] = sub(&x[row], &mul(&coefficient(&a[(row, place)]), &found))),
                }
            }
        }
        column.iter_mut().zip(&x).for_each(|(b, x)| *b = *x);
    }
}

/// The sum of the products of coefficients and numbers. [`inner_product`](crate::panel::inner_product) sums short vectors in as many
/// lanes as long ones, which takes 1.5 times as long where there are few.
#[inline(always)]
fn sum_of_products<T: Element>(coefficients: &[T], x: &[T], coefficient: impl Fn(&T) -> T) -> T {
    let (chunks, rest) = coefficients.as_chunks::<LANES>();
    let (x_chunks, x_rest) = x.as_chunks::<LANES>();
    let product = |sum: T, (a, x): (&T, &T)| add(&sum, &mul(&coefficient(a), x));
    let rest = rest.iter().zip(x_rest).fold(zero(), product);
    if chunks.is_empty() {
        return rest;
    }
    let mut sums = [zero::<T>(); LANES];
    for (chunk, x) in chunks.iter().zip(x_chunks) {
        sums.iter_mut().zip(chunk.iter().zip(x)).for_each(|(sum, pair)| *sum = product(*sum, pair));
    }
    add(&rest, &combine_halves(sums, |sum, other| add(&sum, &other)))
}
