//! Cholesky and LU factors, and triangular systems.

use num_complex::Complex64;

use super::super::EvalFailure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::{TriangularSystem, factor, matrix_size, solve_batches};
use super::{integers, letter};
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::ops::enumerations::TransposeKind;
use hlo::shape::ArrayShape;

/// (factor, info): the other triangle keeps what it held; info is the order of the first minor that is not positive.
pub(super) fn cholesky(
    instruction: &Instruction,
    a: &ArrayLiteral,
    result: &ArrayShape,
    info: &ArrayShape,
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (n, columns) = matrix_size(a.shape())?;
    if n != columns {
        return Err(EvalFailure::malformed("the matrices are not square"));
    }
    let lower = letter(instruction, "uplo")? == b'L';
    let mut data = load_all::<Complex64>(a);
    let mut infos = Vec::new();
    for matrix in data.chunks_mut((n * n).max(1)) {
        let original = matrix.to_vec();
        let failed = if factor(matrix, n, lower) {
            0
        } else {
            // The order of the first leading minor that cannot be factored.
            (1..=n).find(|&order| !factor(&mut minor(&original, n, order), order, lower)).unwrap_or(n) as i64
        };
        infos.push(failed);
        for row in 0..n {
            for column in 0..n {
                if if lower { column > row } else { column < row } {
                    matrix[row * n + column] = original[row * n + column];
                }
            }
        }
    }
    Ok(vec![store_all(&data, result)?, integers(infos, info)?])
}

fn minor(matrix: &[Complex64], n: usize, order: usize) -> Vec<Complex64> {
    (0..order * order).map(|p| matrix[p / order * n + p % order]).collect()
}

/// `trsm`.
pub(super) fn solve(
    instruction: &Instruction,
    a: &ArrayLiteral,
    b: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let system = TriangularSystem {
        left_side: letter(instruction, "side")? == b'L',
        lower: letter(instruction, "uplo")? == b'L',
        unit_diagonal: letter(instruction, "diag")? == b'U',
        transposition: match letter(instruction, "trans_x")? {
            b'N' => TransposeKind::NoTranspose,
            b'C' => TransposeKind::Adjoint,
            _ => TransposeKind::Transpose,
        },
    };
    solve_batches(system, a, b, result)
}

/// (l and u in one matrix, pivot rows from 1, info): partial pivoting, l with a unit diagonal.
pub(super) fn lu(
    a: &ArrayLiteral,
    result: &ArrayShape,
    pivots: &ArrayShape,
    info: &ArrayShape,
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (rows, columns) = matrix_size(a.shape())?;
    let mut data = load_all::<Complex64>(a);
    let (mut chosen, mut infos) = (Vec::new(), Vec::new());
    for matrix in data.chunks_mut((rows * columns).max(1)) {
        let mut singular = 0i64;
        for step in 0..rows.min(columns) {
            // LAPACK measures a complex number by |re| + |im|.
            let size = |row: usize| matrix[row * columns + step].l1_norm();
            let pivot = (step..rows).fold(step, |best, row| if size(row) > size(best) { row } else { best });
            chosen.push(pivot as i64 + 1);
            for column in 0..columns {
                matrix.swap(step * columns + column, pivot * columns + column);
            }
            let divisor = matrix[step * columns + step];
            if divisor == Complex64::new(0.0, 0.0) {
                singular = if singular == 0 { step as i64 + 1 } else { singular };
                continue;
            }
            for row in step + 1..rows {
                let factor = matrix[row * columns + step] / divisor;
                matrix[row * columns + step] = factor;
                for column in step + 1..columns {
                    let product = factor * matrix[step * columns + column];
                    matrix[row * columns + column] -= product;
                }
            }
        }
        infos.push(singular);
    }
    Ok(vec![store_all(&data, result)?, integers(chosen, pivots)?, integers(infos, info)?])
}
