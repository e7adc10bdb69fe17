//! QR factors as Householder reflections: H = 1 - τ v vᴴ, where v begins with a 1 that is not stored.

use num_complex::Complex64;

use super::super::Failure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::matrix_size;
use crate::literal::ArrayLiteral;
use crate::shape::ArrayShape;

const ONE: Complex64 = Complex64::new(1.0, 0.0);
const ZERO: Complex64 = Complex64::new(0.0, 0.0);

/// A matrix stored by rows.
struct Matrix<'a> {
    data: &'a mut [Complex64],
    rows: usize,
    columns: usize,
}

impl Matrix<'_> {
    fn at(&mut self, row: usize, column: usize) -> &mut Complex64 {
        &mut self.data[row * self.columns + column]
    }

    /// Multiplies columns from `first` on by 1 - τ v vᴴ, v being 1 in row `top` and `v` below.
    fn reflect(&mut self, top: usize, first: usize, v: &[Complex64], tau: Complex64) {
        for column in first..self.columns {
            let mut product = *self.at(top, column);
            for (row, v) in (top + 1..).zip(v) {
                product += v.conj() * *self.at(row, column);
            }
            *self.at(top, column) -= tau * product;
            for (row, v) in (top + 1..).zip(v) {
                *self.at(row, column) -= tau * v * product;
            }
        }
    }

    fn below(&mut self, row: usize, column: usize) -> Vec<Complex64> {
        (row + 1..self.rows).map(|row| *self.at(row, column)).collect()
    }
}

/// (β, τ, v without its first element) of the reflection that turns (α, below) into (β, 0).
pub(super) fn reflection(alpha: Complex64, below: &[Complex64]) -> (f64, Complex64, Vec<Complex64>) {
    let length = below.iter().map(Complex64::norm_sqr).sum::<f64>().sqrt();
    if length == 0.0 && alpha.im == 0.0 {
        return (alpha.re, ZERO, below.to_vec());
    }
    let beta = -alpha.norm().hypot(length).copysign(alpha.re);
    let tau = Complex64::new((beta - alpha.re) / beta, -alpha.im / beta);
    (beta, tau, below.iter().map(|v| v / (alpha - beta)).collect())
}

/// `geqrf`: (r above the diagonal and the reflections below, τ).
pub(super) fn householder(
    a: &ArrayLiteral,
    result: &ArrayShape,
    tau: &ArrayShape,
) -> Result<Vec<ArrayLiteral>, Failure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let mut data = load_all::<Complex64>(a);
    let mut taus = Vec::new();
    for data in data.chunks_mut((rows * columns).max(1)) {
        let mut matrix = Matrix { data, rows, columns };
        for step in 0..rows.min(columns) {
            let (beta, factor, v) = reflection(*matrix.at(step, step), &matrix.below(step, step));
            for (row, &v) in (step + 1..).zip(&v) {
                *matrix.at(row, step) = v;
            }
            *matrix.at(step, step) = Complex64::new(beta, 0.0);
            matrix.reflect(step, step + 1, &v, factor.conj());
            taus.push(factor);
        }
    }
    Ok(vec![store_all(&data, result)?, store_all(&taus, tau)?])
}

/// `orgqr`: the first columns of the product of the reflections.
pub(super) fn product(a: &ArrayLiteral, tau: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, Failure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let count = tau.shape().dimensions.last().map_or(0, |&count| count.max(0) as usize);
    if count > columns || columns > rows {
        return Err(Failure::malformed("more reflections than columns, or more columns than rows"));
    }
    let mut data = load_all::<Complex64>(a);
    let taus = load_all::<Complex64>(tau);
    for (number, data) in data.chunks_mut((rows * columns).max(1)).enumerate() {
        let mut matrix = Matrix { data, rows, columns };
        let reflections: Vec<Vec<Complex64>> = (0..count).map(|step| matrix.below(step, step)).collect();
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            *matrix.at(row, column) = if row == column { ONE } else { ZERO };
        }
        for (step, v) in reflections.iter().enumerate().rev() {
            matrix.reflect(step, step, v, taus[number * count + step]);
        }
    }
    store_all(&data, result)
}
