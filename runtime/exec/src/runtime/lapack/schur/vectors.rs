//! Eigenvalues and eigenvectors of a matrix in Schur form (LAPACK `trevc`). A real matrix may have blocks of 2 by 2 on its
//! diagonal, in standard form.

use super::Precision;
use faer::{Mat, MatRef, c64};

const ZERO: c64 = c64::new(0.0, 0.0);
const ONE: c64 = c64::new(1.0, 0.0);

/// Vectors whose next element would be larger than this are scaled down.
const LARGE: f64 = 1e100;

/// Whether a block of 2 by 2 begins in this row.
fn is_block(t: MatRef<'_, c64>, row: usize) -> bool {
    row + 1 < t.nrows() && t[(row + 1, row)] != ZERO
}

/// The eigenvalues, of a block first the one with positive imaginary part.
pub(super) fn eigenvalues(t: MatRef<'_, c64>) -> Vec<c64> {
    let mut values: Vec<c64> = (0..t.nrows()).map(|row| t[(row, row)]).collect();
    for row in (0..t.nrows()).filter(|&row| is_block(t, row)) {
        let imaginary = t[(row, row + 1)].norm().sqrt() * t[(row + 1, row)].norm().sqrt();
        (values[row].im, values[row + 1].im) = (imaginary, -imaginary);
    }
    values
}

/// Which eigenvectors: a v = w v, or uᴴ a = w uᴴ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Right,
    Left,
}

/// Eigenvectors of a matrix with these `eigenvalues`, as columns of any length.
pub(super) fn eigenvectors(t: MatRef<'_, c64>, values: &[c64], side: Side, precision: Precision) -> Mat<c64> {
    let size = t.nrows();
    let mut vectors = Mat::zeros(size, size);
    // Left vectors are right ones of the adjoint, which is upper triangular when read backwards.
    let reversed = Mat::from_fn(size, size, |row, column| t[(size - 1 - column, size - 1 - row)].conj());
    let mut place = 0;
    while place < size {
        let value = values[place];
        let start = if is_block(t, place) {
            block_vector(t[(place, place + 1)].re, t[(place + 1, place)].re, value.im, side)
        } else {
            vec![ONE]
        };
        let count = start.len();
        let mut vector = vec![ZERO; size];
        match side {
            Side::Right => {
                vector[place..place + count].copy_from_slice(&start);
                substitute(t, &mut vector, place, value, precision);
            }
            Side::Left => {
                vector[place..place + count].copy_from_slice(&start);
                vector.reverse();
                substitute(reversed.as_ref(), &mut vector, size - place - count, value.conj(), precision);
                vector.reverse();
            }
        }
        for (row, &element) in vector.iter().enumerate() {
            vectors[(row, place)] = element;
            if count == 2 {
                vectors[(row, place + 1)] = element.conj();
            }
        }
        place += count;
    }
    vectors
}

/// The eigenvector of [[a, b], [c, a]] for a + i `imaginary`, with the phase that LAPACK gives it.
fn block_vector(b: f64, c: f64, imaginary: f64, side: Side) -> Vec<c64> {
    let above = b.abs() >= c.abs();
    match (side, above) {
        (Side::Right, true) => vec![ONE, c64::new(0.0, imaginary / b)],
        (Side::Right, false) => vec![c64::new(-imaginary / c, 0.0), c64::new(0.0, 1.0)],
        (Side::Left, true) => vec![c64::new(imaginary / b, 0.0), c64::new(0.0, 1.0)],
        (Side::Left, false) => vec![ONE, c64::new(0.0, -imaginary / c)],
    }
}

/// Finds the elements before `known` such that these rows of (t - value) vector are zero.
fn substitute(t: MatRef<'_, c64>, vector: &mut [c64], known: usize, value: c64, precision: Precision) {
    // Divisors that are zero but for rounding become the least that are not.
    let least = (precision.epsilon * value.l1_norm()).max(precision.min_positive / precision.epsilon);
    let mut row = known;
    while row > 0 {
        let rest = |row: usize, from: usize| -> c64 {
            (from..vector.len()).map(|column| t[(row, column)] * vector[column]).sum()
        };
        let (first, mut dividends, divisor) = if row > 1 && is_block(t, row - 2) {
            let (one, other) = (row - 2, row - 1);
            let (a, d) = (t[(one, one)] - value, t[(other, other)] - value);
            let (b, c) = (t[(one, other)], t[(other, one)]);
            let (x, y) = (-rest(one, row), -rest(other, row));
            (one, vec![x * d - b * y, a * y - c * x], at_least(a * d - b * c, least * least))
        } else {
            (row - 1, vec![-rest(row - 1, row)], at_least(t[(row - 1, row - 1)] - value, least))
        };
        let largest = dividends.iter().map(|element| element.l1_norm()).fold(0.0, f64::max);
        let limit = divisor.l1_norm() * LARGE;
        if largest > limit {
            let known = vector[row..].iter_mut();
            known.chain(&mut dividends).for_each(|element| *element *= limit / largest);
        }
        for (element, dividend) in vector[first..row].iter_mut().zip(dividends) {
            *element = divide(dividend, divisor);
        }
        row = first;
    }
}

/// The divisor, or another of this size if it is smaller.
fn at_least(divisor: c64, least: f64) -> c64 {
    if divisor.l1_norm() < least { c64::new(least, 0.0) } else { divisor }
}

/// A quotient by a number whose square may underflow.
fn divide(dividend: c64, divisor: c64) -> c64 {
    let scale = divisor.l1_norm();
    dividend / scale / (divisor / scale)
}

/// Gives every column length 1 and makes its largest element real. For complex numbers it becomes positive; a vector that
/// belongs to a real matrix keeps the sign of the real part, and if it is real it keeps its sign.
pub(super) fn normalise(vectors: &mut Mat<c64>, values: &[c64], of_real_matrix: bool) {
    for (column, value) in values.iter().enumerate() {
        let elements = || (0..vectors.nrows()).map(|row| vectors[(row, column)]);
        let largest_part = elements().map(|element| element.l1_norm()).fold(0.0, f64::max);
        if largest_part == 0.0 {
            continue;
        }
        let length = largest_part * elements().map(|element| (element / largest_part).norm_sqr()).sum::<f64>().sqrt();
        let mut phase = ONE;
        let mut real_row = None;
        if !of_real_matrix || value.im != 0.0 {
            // The first of the largest.
            let first_largest = (0..vectors.nrows()).rev().max_by(|&a, &b| {
                let size = |row: usize| (vectors[(row, column)] / length).norm_sqr();
                size(a).total_cmp(&size(b))
            });
            if let Some(row) = first_largest {
                let element = vectors[(row, column)];
                let sign = if of_real_matrix { 1f64.copysign(element.re) } else { 1.0 };
                phase = element.conj() / element.norm() * sign;
                real_row = Some(row);
            }
        }
        for row in 0..vectors.nrows() {
            vectors[(row, column)] = vectors[(row, column)] / length * phase;
        }
        if let Some(row) = real_row {
            vectors[(row, column)].im = 0.0;
        }
    }
}
