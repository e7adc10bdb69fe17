//! `cholesky` and `triangular-solve` on batches of matrices, in double precision.

use num_complex::Complex64;

use super::EvalFailure;
use super::complex;
use super::dot::{load_all, store_all};
use hlo::literal::ArrayLiteral;
use hlo::ops::enumerations::TransposeKind;
use hlo::ops::triangular_solve::TriangularSolveAttributes;
use hlo::shape::ArrayShape;

const ZERO: Complex64 = Complex64::new(0.0, 0.0);

/// Rows and columns of the matrices in the two last dimensions.
pub(super) fn matrix_size(shape: &ArrayShape) -> Result<(usize, usize), EvalFailure> {
    match shape.dimensions[..] {
        [.., rows, columns] => Ok((rows.max(0) as usize, columns.max(0) as usize)),
        _ => Err(EvalFailure::malformed(format!("{shape} is not a batch of matrices"))),
    }
}

/// Factor l (or u) with a = l lᴴ (uᴴ u), read from and written to one triangle, zeros in the other ("Cholesky").
/// A matrix that is not positive definite gives NaN everywhere, as in XLA.
pub(super) fn cholesky(operand: &ArrayLiteral, lower: bool, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let (n, columns) = matrix_size(operand.shape())?;
    if n != columns {
        return Err(EvalFailure::malformed("the matrices are not square"));
    }
    let mut data = load_all::<Complex64>(operand);
    for matrix in data.chunks_mut((n * n).max(1)) {
        if !factor(matrix, n, lower) {
            matrix.fill(Complex64::new(f64::NAN, f64::NAN));
        }
    }
    store_all(&data, result)
}

/// Cholesky factor in place; false if the matrix is not positive definite.
pub(super) fn factor(matrix: &mut [Complex64], n: usize, lower: bool) -> bool {
    // The upper factor is the conjugate transpose of the lower one of the same matrix.
    if !lower {
        conjugate_transpose(matrix, n);
    }
    for column in 0..n {
        let squares: f64 = (0..column).map(|k| matrix[column * n + k].norm_sqr()).sum();
        let pivot = matrix[column * n + column].re - squares;
        // NaN must fail too.
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        let pivot = pivot.sqrt();
        matrix[column * n + column] = Complex64::new(pivot, 0.0);
        for row in column + 1..n {
            let products: Complex64 = (0..column).map(|k| matrix[row * n + k] * matrix[column * n + k].conj()).sum();
            matrix[row * n + column] = (matrix[row * n + column] - products) / pivot;
        }
    }
    for row in 0..n {
        matrix[row * n + row + 1..(row + 1) * n].fill(ZERO);
    }
    if !lower {
        conjugate_transpose(matrix, n);
    }
    true
}

fn conjugate_transpose(matrix: &mut [Complex64], n: usize) {
    for row in 0..n {
        for column in 0..=row {
            let (a, b) = (matrix[row * n + column].conj(), matrix[column * n + row].conj());
            matrix[row * n + column] = b;
            matrix[column * n + row] = a;
        }
    }
}

/// A triangular system: op(a) x = b, or x op(a) = b.
#[derive(Clone, Copy, Debug)]
pub(super) struct TriangularSystem {
    pub(super) left_side: bool,
    pub(super) lower: bool,
    pub(super) unit_diagonal: bool,
    pub(super) transposition: TransposeKind,
}

impl TriangularSystem {
    /// Solves by substitution, in place of b (`rows` × `columns`).
    pub(super) fn solve(self, a: &[Complex64], b: &mut [Complex64], rows: usize, columns: usize) {
        let m = if self.left_side { rows } else { columns };
        let count = if self.left_side { columns } else { rows };
        let coefficient = |i: usize, j: usize| match self.transposition {
            TransposeKind::NoTranspose => a[i * m + j],
            TransposeKind::Transpose => a[j * m + i],
            TransposeKind::Adjoint => a[j * m + i].conj(),
        };
        let op_is_lower = self.lower == (self.transposition == TransposeKind::NoTranspose);
        // x op(a) = b is op(a)ᵀ xᵀ = bᵀ, whose matrix is lower when op(a) is upper.
        let forward = op_is_lower == self.left_side;
        let matrix = |i: usize, j: usize| if self.left_side { coefficient(i, j) } else { coefficient(j, i) };
        for vector in 0..count {
            let place = |i: usize| if self.left_side { i * columns + vector } else { vector * columns + i };
            for step in 0..m {
                let i = if forward { step } else { m - 1 - step };
                let known = if forward { 0..i } else { i + 1..m };
                let sum: Complex64 = known.map(|j| complex::multiply(matrix(i, j), b[place(j)])).sum();
                let rest = b[place(i)] - sum;
                b[place(i)] = if self.unit_diagonal { rest } else { divide(rest, matrix(i, i)) };
            }
        }
    }
}

/// Quotient; of real numbers the real one, so that x / 0 is infinite and not NaN.
fn divide(a: Complex64, b: Complex64) -> Complex64 {
    if a.im == 0.0 && b.im == 0.0 { Complex64::new(a.re / b.re, 0.0) } else { complex::divide(a, b) }
}

/// Solves batches of triangular systems ("TriangularSolve").
pub(super) fn triangular_solve(
    attributes: TriangularSolveAttributes,
    a: &ArrayLiteral,
    b: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let TriangularSolveAttributes { left_side, lower, unit_diagonal, transpose_a } = attributes;
    let system = TriangularSystem { left_side, lower, unit_diagonal, transposition: transpose_a };
    solve_batches(system, a, b, result)
}

/// Solves a system for each matrix of a batch.
pub(super) fn solve_batches(
    system: TriangularSystem,
    a: &ArrayLiteral,
    b: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let ((m, m2), (rows, columns)) = (matrix_size(a.shape())?, matrix_size(b.shape())?);
    if m != m2 || m != if system.left_side { rows } else { columns } {
        return Err(EvalFailure::malformed("the coefficient matrix does not fit the right-hand side"));
    }
    let coefficients = load_all::<Complex64>(a);
    let mut data = load_all::<Complex64>(b);
    if m * m * columns * rows == 0 {
        return store_all(&data, result);
    }
    for (a, b) in coefficients.chunks(m * m).zip(data.chunks_mut(rows * columns)) {
        system.solve(a, b, rows, columns);
    }
    store_all(&data, result)
}
