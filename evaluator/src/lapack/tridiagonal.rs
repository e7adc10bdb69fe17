//! Tridiagonal systems.

use num_complex::Complex64;

use super::super::EvalFailure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::matrix_size;
use super::integers;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

const ZERO: Complex64 = Complex64::new(0.0, 0.0);

/// The n × n matrix with these diagonals; the first element of the one below and the last of the one above are not in it.
fn whole_matrix([below, diagonal, above]: [&[Complex64]; 3]) -> Vec<Complex64> {
    let n = diagonal.len();
    let mut matrix = vec![ZERO; n * n];
    for row in 0..n {
        matrix[row * n + row] = diagonal[row];
        if row > 0 {
            matrix[row * n + row - 1] = below[row];
        }
        if row + 1 < n {
            matrix[row * n + row + 1] = above[row];
        }
    }
    matrix
}

/// `gtsv`: (the three diagonals as they are, solutions, info), by elimination in the whole matrix.
pub(super) fn solve(
    [below, diagonal, above, b]: [&ArrayLiteral; 4],
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let [below_shape, diagonal_shape, above_shape, x, info] = results else {
        return Err(EvalFailure::malformed("gtsv has five results"));
    };
    let (n, columns) = matrix_size(b.shape())?;
    let [lower, middle, upper] = [below, diagonal, above].map(load_all::<Complex64>);
    let mut right = load_all::<Complex64>(b);
    let mut infos = Vec::new();
    if [&lower, &middle, &upper].iter().any(|band| band.len() * columns != right.len()) {
        return Err(EvalFailure::malformed("the diagonals do not fit the right-hand sides"));
    }
    for (number, b) in right.chunks_mut((n * columns).max(1)).enumerate() {
        let mut matrix = whole_matrix([&lower, &middle, &upper].map(|band| &band[number * n..][..n]));
        infos.push(eliminate(&mut matrix, b, n, columns));
    }
    Ok(vec![
        store_all(&lower, below_shape)?,
        store_all(&middle, diagonal_shape)?,
        store_all(&upper, above_shape)?,
        store_all(&right, x)?,
        integers(infos, info)?,
    ])
}

/// Gaussian elimination with row exchanges; the place of a zero pivot counted from 1, or 0.
fn eliminate(matrix: &mut [Complex64], b: &mut [Complex64], n: usize, columns: usize) -> i64 {
    for step in 0..n {
        let size = |row: usize| matrix[row * n + step].l1_norm();
        let pivot = (step..n).fold(step, |best, row| if size(row) > size(best) { row } else { best });
        (0..n).for_each(|column| matrix.swap(step * n + column, pivot * n + column));
        (0..columns).for_each(|column| b.swap(step * columns + column, pivot * columns + column));
        let divisor = matrix[step * n + step];
        if divisor == ZERO {
            return step as i64 + 1;
        }
        for row in step + 1..n {
            let factor = matrix[row * n + step] / divisor;
            for column in step..n {
                let product = factor * matrix[step * n + column];
                matrix[row * n + column] -= product;
            }
            for column in 0..columns {
                let product = factor * b[step * columns + column];
                b[row * columns + column] -= product;
            }
        }
    }
    for column in 0..columns {
        for row in (0..n).rev() {
            let known: Complex64 = (row + 1..n).map(|k| matrix[row * n + k] * b[k * columns + column]).sum();
            b[row * columns + column] = (b[row * columns + column] - known) / matrix[row * n + row];
        }
    }
    0
}

/// `tridiagonal_solve_perturbed_ffi`: solutions, of singular systems too. Pivots that are too small to divide by are increased
/// (LAPACK `lagtf`, `lagts`).
pub(super) fn solve_perturbed(
    [below, diagonal, above, b]: [&ArrayLiteral; 4],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let (n, columns) = matrix_size(b.shape())?;
    let bands = [below, diagonal, above].map(load_all::<Complex64>);
    let mut right = load_all::<Complex64>(b);
    if bands.iter().any(|band| band.len() * columns != right.len()) {
        return Err(EvalFailure::malformed("the diagonals do not fit the right-hand sides"));
    }
    // Relative precision and least positive number of the type.
    let (epsilon, least) = match b.element_type() {
        ElementType::F32 | ElementType::C64 => (f32::EPSILON.into(), f32::MIN_POSITIVE.into()),
        _ => (f64::EPSILON, f64::MIN_POSITIVE),
    };
    for (number, b) in right.chunks_mut((n * columns).max(1)).enumerate() {
        let mut matrix = whole_matrix(bands.each_ref().map(|band| &band[number * n..][..n]));
        eliminate_by_share(&mut matrix, b, n, columns);
        let perturbation = epsilon * matrix.iter().map(|value| value.norm()).fold(0.0, f64::max);
        for row in (0..n).rev() {
            for column in 0..columns {
                let known: Complex64 = (row + 1..n).map(|k| matrix[row * n + k] * b[k * columns + column]).sum();
                b[row * columns + column] -= known;
            }
            let dividends = &mut b[row * columns..][..columns];
            let divisor = perturbed_pivot(matrix[row * n + row], perturbation, least, dividends);
            // The divisor's square may underflow.
            let size = divisor.l1_norm();
            dividends.iter_mut().for_each(|value| *value = *value / size / (divisor / size));
        }
    }
    store_all(&right, result)
}

/// Makes the matrix upper triangular; of two rows the pivot is the one whose first element is the larger share of it.
fn eliminate_by_share(matrix: &mut [Complex64], b: &mut [Complex64], n: usize, columns: usize) {
    let length = |row: &[Complex64]| row.iter().map(|value| value.norm()).sum::<f64>();
    let mut lengths: Vec<f64> = matrix.chunks(n.max(1)).map(length).collect();
    for step in 0..n.saturating_sub(1) {
        let next = step + 1;
        let first = |matrix: &[Complex64], row: usize| matrix[row * n + step];
        let share =
            |row: usize| if first(matrix, row) == ZERO { 0.0 } else { first(matrix, row).norm() / lengths[row] };
        let exchanged = share(next) > share(step);
        if exchanged {
            (0..n).for_each(|column| matrix.swap(step * n + column, next * n + column));
            (0..columns).for_each(|column| b.swap(step * columns + column, next * columns + column));
        }
        if first(matrix, next) != ZERO {
            let factor = first(matrix, next) / first(matrix, step);
            for column in step..n {
                let product = factor * matrix[step * n + column];
                matrix[next * n + column] -= product;
            }
            matrix[next * n + step] = ZERO;
            for column in 0..columns {
                let product = factor * b[step * columns + column];
                b[next * columns + column] -= product;
            }
        }
        if exchanged {
            lengths[next] = length(&matrix[next * n..][..n]);
        }
    }
}

/// The pivot, increased by doubling steps until the dividends can be divided by it; or if only its reciprocal is too large,
/// multiplied together with them.
fn perturbed_pivot(mut pivot: Complex64, perturbation: f64, least: f64, dividends: &mut [Complex64]) -> Complex64 {
    let largest = dividends.iter().map(|value| value.norm()).fold(0.0, f64::max);
    let mut step = perturbation.max(least).copysign(pivot.re);
    while pivot.norm() < 1.0 {
        let size = pivot.norm();
        if size < least && size > 0.0 && largest * least <= size {
            dividends.iter_mut().for_each(|value| *value /= least);
            return pivot / least;
        }
        if size >= least && largest <= size / least {
            break;
        }
        pivot += step;
        step *= 2.0;
    }
    pivot
}
