//! Hessenberg and tridiagonal forms.

use num_complex::Complex64;

use super::super::EvalFailure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::matrix_size;
use super::orthogonal::reflection;
use super::{hermitian_element, integer, integers, letter};
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

const ZERO: Complex64 = Complex64::new(0.0, 0.0);
const ONE: Complex64 = Complex64::new(1.0, 0.0);

/// Replaces a square matrix by its Hessenberg form, with the reflections that make it below; returns their τ.
pub(super) fn reduce(matrix: &mut [Complex64], n: usize) -> Vec<Complex64> {
    let mut taus = Vec::new();
    for step in 0..n.saturating_sub(1) {
        let below: Vec<Complex64> = (step + 2..n).map(|row| matrix[row * n + step]).collect();
        let (beta, tau, tail) = reflection(matrix[(step + 1) * n + step], &below);
        taus.push(tau);
        // H = 1 - τ v vᴴ from the right, Hᴴ from the left.
        let v: Vec<Complex64> = (0..n)
            .map(|i| {
                if i <= step {
                    ZERO
                } else if i == step + 1 {
                    ONE
                } else {
                    tail[i - step - 2]
                }
            })
            .collect();
        for row in 0..n {
            let product: Complex64 = (0..n).map(|j| matrix[row * n + j] * v[j]).sum();
            (0..n).for_each(|j| matrix[row * n + j] -= tau * product * v[j].conj());
        }
        // The columns before hold reflections.
        for column in step..n {
            let product: Complex64 = (0..n).map(|i| v[i].conj() * matrix[i * n + column]).sum();
            (0..n).for_each(|i| matrix[i * n + column] -= tau.conj() * v[i] * product);
        }
        matrix[(step + 1) * n + step] = Complex64::new(beta, 0.0);
        (step + 2..n).for_each(|row| matrix[row * n + step] = tail[row - step - 2]);
    }
    taus
}

/// `gehrd`: (packed, τ, info).
pub(super) fn hessenberg(
    instruction: &Instruction,
    a: &ArrayLiteral,
    result: &ArrayShape,
    tau: &ArrayShape,
    info: &ArrayShape,
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (n, columns) = matrix_size(a.shape())?;
    if n != columns {
        return Err(EvalFailure::malformed("the matrices are not square"));
    }
    let is_bound = |name: &str, whole: usize| integer(instruction, name).is_none_or(|value| value == whole as i64);
    if !is_bound("low", 1) || !is_bound("high", n) {
        return Err(EvalFailure::malformed("only whole matrices are reduced"));
    }
    let mut data = load_all::<Complex64>(a);
    let mut taus = Vec::new();
    for matrix in data.chunks_mut((n * n).max(1)) {
        taus.extend(reduce(matrix, n));
    }
    Ok(vec![store_all(&data, result)?, store_all(&taus, tau)?, integers(Vec::new(), info)?])
}

/// `sytrd`, `hetrd`: (packed, diagonal, elements beside it, τ, info), from one triangle, into which it is packed.
pub(super) fn tridiagonal(
    instruction: &Instruction,
    a: &ArrayLiteral,
    [result, diagonal, beside, tau, info]: [&ArrayShape; 5],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (n, columns) = matrix_size(a.shape())?;
    if n != columns {
        return Err(EvalFailure::malformed("the matrices are not square"));
    }
    // The upper triangle is the lower one of the matrix read from its end; so are the results.
    let backwards = letter(instruction, "uplo")? != b'L';
    let mut data = load_all::<Complex64>(a);
    let (mut diagonals, mut besides, mut taus) = (Vec::new(), Vec::new(), Vec::new());
    for matrix in data.chunks_mut((n * n).max(1)) {
        if backwards {
            matrix.reverse();
        }
        let mut whole: Vec<Complex64> =
            (0..n * n).map(|p| (p / n, p % n)).map(|place| hermitian_element(matrix, n, true, place)).collect();
        let mut found = [
            reduce(&mut whole, n),
            (0..n).map(|i| whole[i * n + i]).collect(),
            (1..n).map(|i| whole[i * n + i - 1]).collect(),
        ];
        for (row, column) in (0..n).flat_map(|row| (0..=row).map(move |column| (row, column))) {
            matrix[row * n + column] = whole[row * n + column];
        }
        if backwards {
            matrix.reverse();
            found.iter_mut().for_each(|values| values.reverse());
        }
        let [found_taus, found_diagonal, found_beside] = found;
        taus.extend(found_taus);
        diagonals.extend(found_diagonal);
        besides.extend(found_beside);
    }
    Ok(vec![
        store_all(&data, result)?,
        store_all(&diagonals, diagonal)?,
        store_all(&besides, beside)?,
        store_all(&taus, tau)?,
        integers(Vec::new(), info)?,
    ])
}
