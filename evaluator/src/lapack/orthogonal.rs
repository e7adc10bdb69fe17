//! QR factors as Householder reflections: H = 1 - τ v vᴴ, where v begins with a 1 that is not stored.

use num_complex::Complex64;

use super::super::EvalFailure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::matrix_size;
use super::flag;
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

const ONE: Complex64 = Complex64::new(1.0, 0.0);
const ZERO: Complex64 = Complex64::new(0.0, 0.0);

/// A matrix stored by rows.
pub(super) struct Matrix<'a> {
    pub(super) data: &'a mut [Complex64],
    pub(super) rows: usize,
    pub(super) columns: usize,
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

    fn exchange_columns(&mut self, one: usize, other: usize) {
        for row in self.data.chunks_mut(self.columns) {
            row.swap(one, other);
        }
    }

    fn below(&mut self, row: usize, column: usize) -> Vec<Complex64> {
        (row + 1..self.rows).map(|row| *self.at(row, column)).collect()
    }
}

/// (β, τ, v without its first element) of the reflection that turns (α, below) into (β, 0).
pub(super) fn reflection(alpha: Complex64, below: &[Complex64]) -> (f64, Complex64, Vec<Complex64>) {
    let largest = below.iter().map(|value| value.l1_norm()).fold(alpha.l1_norm(), f64::max);
    if largest.is_finite() && largest > 0.0 && !(1e-100..1e100).contains(&largest) {
        // Squares would be zero or infinite.
        let scaled: Vec<Complex64> = below.iter().map(|value| value / largest).collect();
        let (beta, tau, v) = reflection(alpha / largest, &scaled);
        return (beta * largest, tau, v);
    }
    let length = below.iter().map(Complex64::norm_sqr).sum::<f64>().sqrt();
    if length == 0.0 && alpha.im == 0.0 {
        return (alpha.re, ZERO, below.to_vec());
    }
    let beta = -alpha.norm().hypot(length).copysign(alpha.re);
    let tau = Complex64::new((beta - alpha.re) / beta, -alpha.im / beta);
    (beta, tau, below.iter().map(|v| v / (alpha - beta)).collect())
}

/// Clears a column below the diagonal by a reflection, which is left there; returns its τ.
fn eliminate(matrix: &mut Matrix, step: usize) -> Complex64 {
    let (beta, tau, v) = reflection(*matrix.at(step, step), &matrix.below(step, step));
    for (row, &v) in (step + 1..).zip(&v) {
        *matrix.at(row, step) = v;
    }
    *matrix.at(step, step) = Complex64::new(beta, 0.0);
    matrix.reflect(step, step + 1, &v, tau.conj());
    tau
}

/// `geqrf`: (r above the diagonal and the reflections below, τ).
pub(super) fn householder(
    a: &ArrayLiteral,
    result: &ArrayShape,
    tau: &ArrayShape,
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let mut data = load_all::<Complex64>(a);
    let mut taus = Vec::new();
    for data in data.chunks_mut((rows * columns).max(1)) {
        let mut matrix = Matrix { data, rows, columns };
        taus.extend((0..rows.min(columns)).map(|step| eliminate(&mut matrix, step)));
    }
    Ok(vec![store_all(&data, result)?, store_all(&taus, tau)?])
}

/// `geqp3`: (r and the reflections, the columns in their new order, counted from 1, τ). Columns whose operand is not zero come
/// first; then at each step the one that is longest from the diagonal on.
pub(super) fn householder_with_exchanges(
    a: &ArrayLiteral,
    fixed: &ArrayLiteral,
    [result, order, tau]: [&ArrayShape; 3],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let mut data = load_all::<Complex64>(a);
    let fixed = load_all::<i64>(fixed);
    let (mut taus, mut orders) = (Vec::new(), Vec::new());
    if fixed.len() * rows != data.len() {
        return Err(EvalFailure::malformed("the permutation does not fit the matrices"));
    }
    for (data, fixed) in data.chunks_mut((rows * columns).max(1)).zip(fixed.chunks(columns.max(1))) {
        let mut matrix = Matrix { data, rows, columns };
        let mut chosen: Vec<i64> = (1..=columns as i64).collect();
        let mut exchange = |matrix: &mut Matrix, one: usize, other: usize| {
            matrix.exchange_columns(one, other);
            chosen.swap(one, other);
        };
        let first_ones: Vec<usize> = (0..columns).filter(|&column| fixed[column] != 0).collect();
        first_ones.iter().enumerate().for_each(|(place, &column)| exchange(&mut matrix, place, column));
        for step in 0..rows.min(columns) {
            if step >= first_ones.len() {
                let lengths: Vec<f64> = (0..columns)
                    .map(|column| (step..rows).map(|row| matrix.at(row, column).norm_sqr()).sum())
                    .collect();
                let longest = (step..columns)
                    .fold(step, |best, column| if lengths[column] > lengths[best] { column } else { best });
                exchange(&mut matrix, step, longest);
            }
            taus.push(eliminate(&mut matrix, step));
        }
        orders.extend(chosen);
    }
    Ok(vec![store_all(&data, result)?, store_all(&orders, order)?, store_all(&taus, tau)?])
}

/// `orgqr`: the first columns of the product of the reflections.
pub(super) fn product(a: &ArrayLiteral, tau: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let count = tau.shape().dimensions.last().map_or(0, |&count| count.max(0) as usize);
    if count > columns || columns > rows {
        return Err(EvalFailure::malformed("more reflections than columns, or more columns than rows"));
    }
    let mut data = load_all::<Complex64>(a);
    let taus = load_all::<Complex64>(tau);
    for (number, data) in data.chunks_mut((rows * columns).max(1)).enumerate() {
        multiply_out(&mut Matrix { data, rows, columns }, &taus[number * count..][..count]);
    }
    store_all(&data, result)
}

/// Replaces packed reflections by the first columns of their product.
pub(super) fn multiply_out(matrix: &mut Matrix, taus: &[Complex64]) {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let reflections: Vec<Vec<Complex64>> = (0..taus.len()).map(|step| matrix.below(step, step)).collect();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        *matrix.at(row, column) = if row == column { ONE } else { ZERO };
    }
    for (step, v) in reflections.iter().enumerate().rev() {
        matrix.reflect(step, step, v, taus[step]);
    }
}

/// `ormqr`, `unmqr`: c times the whole product q of the reflections, or its adjoint.
pub(super) fn apply(
    instruction: &Instruction,
    [a, tau, c]: [&ArrayLiteral; 3],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let (left, adjoint) = (flag(instruction, "left")?, flag(instruction, "transpose")?);
    let ((order, stored), (rows, columns)) = (matrix_size(a.shape())?, matrix_size(c.shape())?);
    let count = tau.shape().dimensions.last().map_or(0, |&count| count.max(0) as usize);
    if order != if left { rows } else { columns } || count > stored.min(order) {
        return Err(EvalFailure::malformed("the reflections do not fit the matrices"));
    }
    let (packed, taus) = (load_all::<Complex64>(a), load_all::<Complex64>(tau));
    let mut data = load_all::<Complex64>(c);
    for (number, c) in data.chunks_mut((rows * columns).max(1)).enumerate() {
        let mut q = vec![ZERO; order * order];
        for (row, column) in (0..order).flat_map(|row| (0..count).map(move |column| (row, column))) {
            q[row * order + column] = packed[(number * order + row) * stored + column];
        }
        multiply_out(&mut Matrix { data: &mut q, rows: order, columns: order }, &taus[number * count..][..count]);
        let element = |row: usize, column: usize| {
            if adjoint { q[column * order + row].conj() } else { q[row * order + column] }
        };
        let old = c.to_vec();
        for (place, value) in c.iter_mut().enumerate() {
            let (row, column) = (place / columns, place % columns);
            *value = if left {
                (0..order).map(|k| element(row, k) * old[k * columns + column]).sum()
            } else {
                (0..order).map(|k| old[row * columns + k] * element(k, column)).sum()
            };
        }
    }
    store_all(&data, result)
}
