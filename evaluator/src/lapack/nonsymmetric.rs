//! `gees` and `geev`: Schur forms, eigenvalues and eigenvectors of square matrices.

use num_complex::Complex64;

use super::super::EvalFailure;
use super::super::dot::{load_all, store_all};
use super::super::linear_algebra::matrix_size;
use super::schur::Schur;
use super::{integers, letter};
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::shape::ArrayShape;

const ZERO: Complex64 = Complex64::new(0.0, 0.0);
const ONE: Complex64 = Complex64::new(1.0, 0.0);
const MISSING: Complex64 = Complex64::new(f64::NAN, f64::NAN);

/// What `geev` reports of a matrix that is not finite.
const NOT_FINITE: i64 = -4;

/// Eigenvalues in the results for them: one of complex numbers, or one of real and one of imaginary parts.
fn store_eigenvalues(values: &[Complex64], results: &[&ArrayShape]) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let imaginary: Vec<f64> = values.iter().map(|value| value.im).collect();
    match results {
        [whole] => Ok(vec![store_all(values, whole)?]),
        [real, imaginary_part] => Ok(vec![store_all(values, real)?, store_all(&imaginary, imaginary_part)?]),
        _ => Err(EvalFailure::malformed("eigenvalues have one part or two")),
    }
}

fn square_size(a: &ArrayLiteral) -> Result<usize, EvalFailure> {
    match matrix_size(a.shape())? {
        (rows, columns) if rows == columns => Ok(rows),
        _ => Err(EvalFailure::malformed("the matrices are not square")),
    }
}

/// `gees`: (t, z, eigenvalues, how many of them were selected, info).
pub(super) fn schur_form(
    instruction: &Instruction,
    a: &ArrayLiteral,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let [form, vectors, eigenvalues @ .., selected, info] = results else {
        return Err(EvalFailure::malformed("gees has at least five results"));
    };
    if letter(instruction, "sort")? != b'N' {
        return Err(EvalFailure::malformed("gees does not sort eigenvalues"));
    }
    let n = square_size(a)?;
    let data = load_all::<Complex64>(a);
    let (mut forms, mut all_vectors, mut values, mut infos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for matrix in data.chunks((n * n).max(1)) {
        match Schur::new(matrix, n, !a.element_type().is_complex()) {
            Ok(schur) => {
                let scaled = |value: Complex64| value * schur.scale;
                values.extend(schur.eigenvalues().into_iter().map(scaled));
                forms.extend(schur.t.iter().copied().map(scaled));
                all_vectors.extend(schur.z);
                infos.push(0);
            }
            Err(unfound) => {
                values.extend(vec![MISSING; n]);
                forms.extend(vec![MISSING; n * n]);
                all_vectors.extend(vec![MISSING; n * n]);
                infos.push(unfound as i64);
            }
        }
    }
    if letter(instruction, "mode")? != b'V' {
        all_vectors.fill(ZERO);
    }
    let mut literals = vec![store_all(&forms, form)?, store_all(&all_vectors, vectors)?];
    literals.extend(store_eigenvalues(&values, eigenvalues)?);
    literals.push(integers(Vec::new(), selected)?);
    literals.push(integers(infos, info)?);
    Ok(literals)
}

/// `geev`: (eigenvalues, left eigenvectors, right ones, info).
pub(super) fn eigen(
    instruction: &Instruction,
    a: &ArrayLiteral,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let [eigenvalues @ .., left, right, info] = results else {
        return Err(EvalFailure::malformed("geev has at least four results"));
    };
    let n = square_size(a)?;
    let is_real = !a.element_type().is_complex();
    let data = load_all::<Complex64>(a);
    let (mut lefts, mut rights, mut values, mut infos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for matrix in data.chunks((n * n).max(1)) {
        match Schur::new(matrix, n, is_real) {
            Ok(schur) => {
                let found = schur.eigenvalues();
                let schur = schur.into_triangular();
                lefts.extend(left_vectors(&schur, &found, is_real));
                rights.extend(right_vectors(&schur, &found, is_real));
                values.extend(found.iter().map(|value| value * schur.scale));
                infos.push(0);
            }
            Err(unfound) => {
                lefts.extend(vec![MISSING; n * n]);
                rights.extend(vec![MISSING; n * n]);
                values.extend(vec![MISSING; n]);
                let is_finite = matrix.iter().all(|value| value.is_finite());
                infos.push(if is_finite { unfound as i64 } else { NOT_FINITE });
            }
        }
    }
    for (name, vectors) in [("compute_left", &mut lefts), ("compute_right", &mut rights)] {
        if letter(instruction, name)? != b'V' {
            vectors.fill(ZERO);
        }
    }
    let mut literals = store_eigenvalues(&values, eigenvalues)?;
    literals.extend([store_all(&lefts, left)?, store_all(&rights, right)?, integers(infos, info)?]);
    Ok(literals)
}

/// The columns v with t v = w v, times z, for upper triangular t: v is 1 at its own place, zero below, and above by substitution.
fn right_vectors(schur: &Schur, values: &[Complex64], is_real: bool) -> Vec<Complex64> {
    let n = values.len();
    let t = |row: usize, column: usize| schur.t[row * n + column];
    vectors(schur, values, is_real, |own| {
        let mut v = vec![ZERO; n];
        v[own] = ONE;
        for row in (0..own).rev() {
            let known: Complex64 = (row + 1..=own).map(|k| t(row, k) * v[k]).sum();
            v[row] = -known;
            divide(&mut v, row, divisor(t(row, row) - values[own], values[own]));
        }
        v
    })
}

/// The columns u with uᴴ t = w uᴴ, times z: u is 1 at its own place, zero above, and below by substitution.
fn left_vectors(schur: &Schur, values: &[Complex64], is_real: bool) -> Vec<Complex64> {
    let n = values.len();
    let t = |row: usize, column: usize| schur.t[row * n + column];
    vectors(schur, values, is_real, |own| {
        let mut u = vec![ZERO; n];
        u[own] = ONE;
        for row in own + 1..n {
            let known: Complex64 = (own..row).map(|k| t(k, row).conj() * u[k]).sum();
            u[row] = -known;
            divide(&mut u, row, divisor(t(row, row) - values[own], values[own]).conj());
        }
        u
    })
}

/// A difference of eigenvalues; equal ones differ by rounding.
fn divisor(difference: Complex64, value: Complex64) -> Complex64 {
    let least = (f64::EPSILON * value.norm()).max(f64::MIN_POSITIVE / f64::EPSILON);
    if difference.norm() < least { Complex64::new(least, 0.0) } else { difference }
}

/// Divides an element, after making the whole vector smaller if the quotient would be very large.
fn divide(vector: &mut [Complex64], place: usize, divisor: Complex64) {
    let size = divisor.l1_norm();
    let limit = size * 1e100;
    let dividend = vector[place].l1_norm();
    if dividend > limit {
        vector.iter_mut().for_each(|value| *value *= limit / dividend);
    }
    vector[place] = vector[place] / size / (divisor / size);
}

/// The matrix by rows whose columns are z times the given vectors, of length 1, their largest elements real and, but for real
/// vectors, positive. The second of a conjugate pair is the conjugate of the first.
fn vectors(
    schur: &Schur,
    values: &[Complex64],
    is_real: bool,
    vector: impl Fn(usize) -> Vec<Complex64>,
) -> Vec<Complex64> {
    let n = values.len();
    let mut result = vec![ZERO; n * n];
    for own in 0..n {
        if is_real && values[own].im < 0.0 {
            (0..n).for_each(|row| result[row * n + own] = result[row * n + own - 1].conj());
            continue;
        }
        let of_form = vector(own);
        let mut found: Vec<Complex64> =
            schur.z.chunks(n).map(|row| row.iter().zip(&of_form).map(|(z, v)| z * v).sum()).collect();
        let size = |found: &[Complex64], row: usize| found[row].norm();
        let largest = (0..n).fold(0, |best, row| if size(&found, row) > size(&found, best) { row } else { best });
        let scale = size(&found, largest);
        let length = scale * found.iter().map(|value| (value / scale).norm_sqr()).sum::<f64>().sqrt();
        let is_free = !is_real || values[own].im != 0.0;
        let phase = if is_free { found[largest].conj() / scale } else { ONE };
        found.iter_mut().for_each(|value| *value = *value * phase / length);
        if is_free {
            found[largest].im = 0.0;
        }
        found.iter().enumerate().for_each(|(row, &value)| result[row * n + own] = value);
    }
    result
}
