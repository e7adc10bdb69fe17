//! The LAPACK routines that JAX's programs for the CPU call, by their `lapack_*_ffi` targets.
//!
//! Where LAPACK leaves a choice (signs of eigenvectors and singular vectors) the result is one of the right ones,
//! not LAPACK's own.

mod condensed;
mod orthogonal;
mod spectral;
mod triangular;

use super::Failure;
use super::dot::store_all;
use super::execute::array_shapes;
use crate::graph::Instruction;
use crate::literal::ArrayLiteral;
use crate::shape::ArrayShape;

/// A character option such as `uplo = 76 : ui8` of the instruction's `backend_config`.
pub(super) fn option(instruction: &Instruction, name: &str) -> Option<u8> {
    let config = instruction.annotation("backend_config")?;
    let mut rest = config;
    while let Some(found) = rest.find(name) {
        let before = rest[..found].chars().next_back();
        let after = rest[found + name.len()..].trim_start();
        rest = &rest[found + name.len()..];
        let is_whole_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if let (true, Some(value)) = (is_whole_word, after.strip_prefix('=')) {
            let digits: String = value.trim_start().chars().take_while(char::is_ascii_digit).collect();
            return digits.parse().ok();
        }
    }
    None
}

/// Calls a routine; `None` if it is not known.
pub(super) fn call(
    target: &str,
    instruction: &Instruction,
    operands: &[&ArrayLiteral],
) -> Result<Option<Vec<ArrayLiteral>>, Failure> {
    let Some(routine) = target.strip_prefix("lapack_").and_then(|name| name.strip_suffix("_ffi")) else {
        return Ok(None);
    };
    // The first letter is the element type, which the operands have already.
    let Some((_, routine)) = routine.split_at_checked(1) else {
        return Ok(None);
    };
    let shapes = array_shapes(&instruction.shape)?;
    Ok(Some(match (routine, operands, &shapes[..]) {
        ("potrf", [a], [result, info]) => triangular::cholesky(instruction, a, result, info)?,
        ("trsm", [a, b], [result]) => vec![triangular::solve(instruction, a, b, result)?],
        ("getrf", [a], [result, pivots, info]) => triangular::lu(a, result, pivots, info)?,
        ("geqrf", [a], [result, tau]) => orthogonal::householder(a, result, tau)?,
        ("orgqr" | "ungqr", [a, tau], [result]) => vec![orthogonal::product(a, tau, result)?],
        ("syevd" | "heevd", [a], [vectors, values, info]) => {
            spectral::hermitian_eigenvalues(instruction, a, vectors, values, info)?
        }
        ("gesdd", [a], [overwritten, values, left, right, info]) => {
            spectral::singular_values(instruction, a, [overwritten, values, left, right, info])?
        }
        ("gehrd", [a], [result, tau, info]) => condensed::hessenberg(a, result, tau, info)?,
        ("sytrd" | "hetrd", [a], [result, diagonal, beside, tau, info]) => {
            condensed::tridiagonal(instruction, a, [result, diagonal, beside, tau, info])?
        }
        ("gtsv", [below, diagonal, above, b], results) => {
            condensed::solve_tridiagonal([below, diagonal, above, b], results)?
        }
        _ => return Ok(None),
    }))
}

/// Integers of a result such as `info`; zeros where there are too few.
fn integers(mut values: Vec<i64>, shape: &ArrayShape) -> Result<ArrayLiteral, Failure> {
    values.resize(shape.element_count() as usize, 0);
    store_all(&values, shape)
}
