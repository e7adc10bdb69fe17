//! The LAPACK routines that JAX's programs for the CPU call, by their `lapack_*_ffi` targets, and XLA's own factorisations.
//!
//! Where LAPACK leaves a choice (signs of eigenvectors and singular vectors, the order of eigenvalues that are not sorted)
//! the result is one of the right ones, not LAPACK's own.

mod condensed;
mod nonsymmetric;
mod orthogonal;
mod schur;
mod spectral;
mod triangular;
mod tridiagonal;

use std::cmp::Ordering;

use num_complex::Complex64;

use super::EvalFailure;
use super::dot::store_all;
use super::execute::array_shapes;
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

/// A character option such as `uplo = 76 : ui8` of the instruction's `backend_config`.
pub(super) fn letter(instruction: &Instruction, name: &str) -> Result<u8, EvalFailure> {
    let value = option_text(instruction, name).unwrap_or_default();
    let digits = &value[..value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len())];
    digits.parse().map_err(|_| EvalFailure::Malformed(format!("`backend_config` has no `{name}`")))
}

/// An integer option such as `low = 1 : i32`.
pub(super) fn integer(instruction: &Instruction, name: &str) -> Option<i64> {
    let value = option_text(instruction, name)?;
    value[..value.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(value.len())].parse().ok()
}

/// Whether an option such as `left = true` is true.
pub(super) fn flag(instruction: &Instruction, name: &str) -> Result<bool, EvalFailure> {
    match option_text(instruction, name) {
        Some(value) if value.starts_with("true") => Ok(true),
        Some(value) if value.starts_with("false") => Ok(false),
        _ => Err(EvalFailure::Malformed(format!("`backend_config` has no `{name}`"))),
    }
}

/// Whether XLA's `Eigh` reads the lower triangle: the first number of its `backend_config`, which goes on with whether
/// eigenvalues are sorted, and with two limits of the method.
fn is_eigh_of_lower(instruction: &Instruction) -> bool {
    instruction.annotation("backend_config").is_none_or(|config| !config.trim_matches('"').starts_with('0'))
}

/// What follows the equals sign of an option.
fn option_text<'a>(instruction: &'a Instruction, name: &str) -> Option<&'a str> {
    let mut rest = instruction.annotation("backend_config")?;
    while let Some(found) = rest.find(name) {
        let before = rest[..found].chars().next_back();
        let after = rest[found + name.len()..].trim_start();
        rest = &rest[found + name.len()..];
        let is_whole_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if let (true, Some(value)) = (is_whole_word, after.strip_prefix('=')) {
            return Some(value.trim_start());
        }
    }
    None
}

/// Calls a routine; `None` if it is not known.
pub(super) fn call(
    target: &str,
    instruction: &Instruction,
    operands: &[&ArrayLiteral],
) -> Result<Option<Vec<ArrayLiteral>>, EvalFailure> {
    let shapes = array_shapes(&instruction.shape)?;
    match (target, operands, &shapes[..]) {
        ("tridiagonal_solve_perturbed_ffi", [below, diagonal, above, b], [result]) => {
            return Ok(Some(vec![tridiagonal::solve_perturbed([below, diagonal, above, b], result)?]));
        }
        ("Qr", [a], [result, tau]) => return Ok(Some(orthogonal::householder(a, result, tau)?)),
        ("ProductOfElementaryHouseholderReflectors", [a, tau], [result]) => {
            return Ok(Some(vec![orthogonal::product(a, tau, result)?]));
        }
        ("Eigh", [a], [vectors, values]) => {
            return Ok(Some(spectral::hermitian_eigenvalues(is_eigh_of_lower(instruction), a, vectors, values)?));
        }
        _ => {}
    }
    let Some(routine) = target.strip_prefix("lapack_").and_then(|name| name.strip_suffix("_ffi")) else {
        return Ok(None);
    };
    // The first letter is the element type, which the operands have already.
    let Some((_, routine)) = routine.split_at_checked(1) else {
        return Ok(None);
    };
    Ok(Some(match (routine, operands, &shapes[..]) {
        ("potrf", [a], [result, info]) => triangular::cholesky(instruction, a, result, info)?,
        ("trsm", [a, b], [result]) => vec![triangular::solve(instruction, a, b, result)?],
        ("getrf", [a], [result, pivots, info]) => triangular::lu(a, result, pivots, info)?,
        ("geqrf", [a], [result, tau]) => orthogonal::householder(a, result, tau)?,
        ("geqp3", [a, fixed], [result, order, tau]) => {
            orthogonal::householder_with_exchanges(a, fixed, [result, order, tau])?
        }
        ("ormqr" | "unmqr", [a, tau, c], [result]) => vec![orthogonal::apply(instruction, [a, tau, c], result)?],
        ("orgqr" | "ungqr", [a, tau], [result]) => vec![orthogonal::product(a, tau, result)?],
        ("syevd" | "heevd", [a], [vectors, values, info]) => {
            let lower = letter(instruction, "uplo")? == b'L';
            let mut results = spectral::hermitian_eigenvalues(lower, a, vectors, values)?;
            results.push(integers(Vec::new(), info)?);
            results
        }
        ("geev", [a], results) => nonsymmetric::eigen(instruction, a, results)?,
        ("gees", [a], results) => nonsymmetric::schur_form(instruction, a, results)?,
        // The same decomposition by two algorithms of LAPACK's.
        ("gesdd" | "gesvd", [a], [overwritten, values, left, right, info]) => {
            spectral::singular_values(instruction, a, [overwritten, values, left, right, info])?
        }
        ("gehrd", [a], [result, tau, info]) => condensed::hessenberg(instruction, a, result, tau, info)?,
        ("sytrd" | "hetrd", [a], [result, diagonal, beside, tau, info]) => {
            condensed::tridiagonal(instruction, a, [result, diagonal, beside, tau, info])?
        }
        ("gtsv", [below, diagonal, above, b], results) => tridiagonal::solve([below, diagonal, above, b], results)?,
        _ => return Ok(None),
    }))
}

/// An element of an n x n Hermitian matrix of which one triangle is read. Its diagonal is real: what imaginary parts stand there is
/// not read.
fn hermitian_element(matrix: &[Complex64], n: usize, lower: bool, (row, column): (usize, usize)) -> Complex64 {
    match row.cmp(&column) {
        Ordering::Equal => Complex64::new(matrix[row * n + row].re, 0.0),
        order if (order == Ordering::Greater) == lower => matrix[row * n + column],
        _ => matrix[column * n + row].conj(),
    }
}

/// Integers of a result such as `info`; zeros where there are too few.
fn integers(mut values: Vec<i64>, shape: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    values.resize(shape.element_count() as usize, 0);
    store_all(&values, shape)
}
