//! Eigenvalues and singular values without vectors, of matrices in single precision.
//!
//! What is left of a matrix is tridiagonal, and its eigenvalues are found in `f64` without square roots (Reinsch's rational QL
//! algorithm, `tqlrat` of EISPACK). Singular values are the square roots of eigenvalues of a product, whose digits `f64` holds.

use faer::{
    Mat, MatRef, Par, Spec,
    dyn_stack::{MemBuffer, MemStack},
    linalg::{
        evd::tridiag::{tridiag_in_place, tridiag_in_place_scratch},
        qr::no_pivoting::factor::recommended_block_size,
        svd::bidiag::{bidiag_in_place, bidiag_in_place_scratch},
    },
    traits::math_utils::{abs, real},
};

use crate::Element;

/// Steps for one eigenvalue after which the iteration is given up.
const MOST_STEPS: usize = 60;

/// Columns up to which a matrix is tall that is not made triangular first.
const TALL: usize = 2;

/// Eigenvalues of a Hermitian matrix in ascending order; the lower triangle is read.
pub(crate) fn eigenvalues<T: Element>(matrix: MatRef<'_, T>) -> Option<Vec<T::Real>> {
    let size = matrix.nrows();
    let mut reduced = Mat::<T>::zeros(size, size);
    reduced.as_mut().copy_from_triangular_lower(matrix);
    let mut reflections = Mat::<T>::zeros(recommended_block_size::<T>(size, size), size.saturating_sub(1));
    let mut memory = MemBuffer::new(tridiag_in_place_scratch::<T>(size, Par::Seq, Spec::default()));
    let stack = MemStack::new(&mut memory);
    tridiag_in_place(reduced.as_mut(), reflections.as_mut(), Par::Seq, stack, Spec::default());
    let diagonal = (0..size).map(|place| T::widen(real(&reduced[(place, place)]))).collect();
    let below = (1..size).map(|place| T::widen(abs(&reduced[(place, place - 1)])).powi(2)).collect();
    let values = of_tridiagonal(diagonal, below)?;
    Some(values.into_iter().map(T::narrow).collect())
}

/// Singular values in descending order; `None` where the matrix is too tall or wide for this to be the way, too.
pub(crate) fn singular_values<T: Element>(matrix: MatRef<'_, T>) -> Option<Vec<T::Real>> {
    let matrix = if matrix.nrows() < matrix.ncols() { matrix.transpose() } else { matrix };
    let (rows, size) = matrix.shape();
    if size == 0 || rows >= TALL * size {
        return None;
    }
    let mut reduced = matrix.to_owned();
    let block = recommended_block_size::<T>(rows, size);
    let (mut left, mut right) = (Mat::<T>::zeros(block, size), Mat::<T>::zeros(block, size - 1));
    let mut memory = MemBuffer::new(bidiag_in_place_scratch::<T>(rows, size, Par::Seq, Spec::default()));
    let stack = MemStack::new(&mut memory);
    bidiag_in_place(reduced.as_mut(), left.as_mut(), right.as_mut(), Par::Seq, stack, Spec::default());
    let square = |row: usize, column: usize| T::widen(abs(&reduced[(row, column)])).powi(2);
    // Bᴴ B of the bidiagonal B: squares of its columns, and of what neighbouring columns have in common.
    let above = |column: usize| if column == 0 { 0.0 } else { square(column - 1, column) };
    let diagonal = (0..size).map(|column| square(column, column) + above(column)).collect();
    let beside = (1..size).map(|column| square(column - 1, column - 1) * above(column)).collect();
    let values = of_tridiagonal(diagonal, beside)?;
    Some(values.into_iter().rev().map(|value| T::narrow(value.max(0.0).sqrt())).collect())
}

/// The eigenvalues of a symmetric tridiagonal matrix, ascending: of its diagonal and the squares of what is beside that. `None`
/// if something is not finite or the iteration does not end.
fn of_tridiagonal(mut diagonal: Vec<f64>, mut squares: Vec<f64>) -> Option<Vec<f64>> {
    if !diagonal.iter().chain(&squares).all(|value| value.is_finite()) {
        return None;
    }
    let size = diagonal.len();
    squares.push(0.0);
    let (mut shifts, mut largest, mut unit, mut negligible) = (0.0, 0.0, 0.0, 0.0);
    for first in 0..size {
        let own = f64::abs(diagonal[first]) + squares[first].sqrt();
        if own > largest {
            largest = own;
            unit = f64::EPSILON * own;
            negligible = unit * unit;
        }
        // The last square is zero.
        let last = (first..size).find(|&place| squares[place] <= negligible).unwrap_or(size - 1);
        let mut is_found = last == first;
        for _ in 0..MOST_STEPS {
            if is_found {
                break;
            }
            let beside = squares[first].sqrt();
            let old = diagonal[first];
            let half = (diagonal[first + 1] - old) / (2.0 * beside);
            diagonal[first] = beside / (half + half.hypot(1.0).copysign(half));
            let shift = old - diagonal[first];
            diagonal[first + 1..].iter_mut().for_each(|value| *value -= shift);
            shifts += shift;
            let not_zero = |value: f64, unit: f64| if value == 0.0 { unit } else { value };
            let mut here = not_zero(diagonal[last], unit);
            let (mut above, mut sine) = (here, 0.0);
            for place in (first..last).rev() {
                let product = here * above;
                let sum = product + squares[place];
                squares[place + 1] = sine * sum;
                sine = squares[place] / sum;
                diagonal[place + 1] = above + sine * (above + diagonal[place]);
                here = not_zero(diagonal[place] - squares[place] / here, unit);
                above = here * product / sum;
            }
            squares[first] = sine * here;
            diagonal[first] = above;
            // A quotient does not vanish where the product would.
            is_found = above == 0.0 || f64::abs(squares[first]) <= f64::abs(negligible / above);
            if !is_found {
                squares[first] *= above;
                is_found = squares[first] == 0.0;
            }
        }
        if !is_found {
            return None;
        }
        diagonal[first] += shifts;
    }
    diagonal.sort_unstable_by(f64::total_cmp);
    diagonal.iter().all(|value| value.is_finite()).then_some(diagonal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SingularVectors;

    /// Numbers between -1 and 1.
    fn random(seed: u64) -> impl FnMut() -> f32 {
        let mut state = seed * 2 + 1;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        }
    }

    /// The largest difference of sorted values from those of faer in `f64`, in units of the largest value's last digit.
    fn error(mut found: Vec<f32>, mut expected: Vec<f64>) -> f64 {
        found.sort_unstable_by(f32::total_cmp);
        expected.sort_unstable_by(f64::total_cmp);
        let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        assert_eq!(found.len(), expected.len());
        let differences = found.iter().zip(&expected).map(|(found, expected)| (f64::from(*found) - expected).abs());
        differences.fold(0.0, f64::max) / largest / f64::from(f32::EPSILON)
    }

    /// Matrices of some size: random ones, some of small rank, diagonal ones, with columns of very different size.
    fn matrices(rows: usize, columns: usize) -> Vec<Mat<f32>> {
        let mut next = random((rows * 100 + columns) as u64);
        let any = Mat::from_fn(rows, columns, |_, _| next());
        let (left, right) = (Mat::from_fn(rows, 2, |_, _| next()), Mat::from_fn(2, columns, |_, _| next()));
        let diagonal = Mat::from_fn(rows, columns, |row, column| if row == column { next() } else { 0.0 });
        let graded = Mat::from_fn(rows, columns, |_, column| next() * f32::powi(0.1, column as i32 % 20));
        vec![
            any,
            left * right,
            diagonal,
            graded,
            Mat::zeros(rows, columns),
            Mat::full(rows, columns, 1e-30),
            Mat::full(rows, columns, 1e30),
        ]
    }

    #[test]
    fn singular_values_are_those_of_double_precision() {
        for (rows, columns) in [(1, 1), (2, 2), (3, 5), (7, 4), (16, 16), (33, 31), (64, 64), (100, 100)] {
            for (number, matrix) in matrices(rows, columns).iter().enumerate() {
                let wide = Mat::from_fn(rows, columns, |row, column| f64::from(matrix[(row, column)]));
                let expected = wide.singular_values().expect("values");
                let found = Element::singular(matrix.as_ref(), SingularVectors::None).expect("values").values;
                assert!(found.is_sorted_by(|a, b| a >= b));
                let error = error(found, expected);
                assert!(error < 8.0 + columns as f64 / 4.0, "{rows} x {columns}, matrix {number}: {error}");
            }
        }
    }

    #[test]
    fn singular_vectors_make_their_matrix() {
        for (rows, columns) in [(64, 64), (65, 65), (66, 70), (100, 100), (128, 65), (130, 130)] {
            let mut next = random((rows + columns) as u64);
            let rank = rows.min(columns) / 2;
            let (left, right) = (Mat::from_fn(rows, rank, |_, _| next()), Mat::from_fn(rank, columns, |_, _| next()));
            let any = Mat::from_fn(rows, columns, |_, _| next());
            let repeated = Mat::from_fn(rows, columns, |row, column| any[(row, column % (columns / 2))]);
            for matrix in [left * right, repeated, any, Mat::full(rows, columns, 1.0)] {
                let found = Element::singular(matrix.as_ref(), SingularVectors::Thin).expect("values");
                assert!(found.values.is_sorted_by(|a, b| a >= b), "{rows} x {columns}");
                let scaled =
                    Mat::from_fn(rows, found.values.len(), |row, place| found.left[(row, place)] * found.values[place]);
                let difference = &scaled * found.right.transpose() - &matrix;
                let error = difference.norm_max() / found.values[0] / f32::EPSILON;
                assert!(error < 64.0, "{rows} x {columns}: {error}");
            }
        }
    }

    #[test]
    fn eigenvalues_are_those_of_double_precision() {
        for size in [1, 2, 3, 7, 16, 33, 64, 100] {
            for (number, matrix) in matrices(size, size).iter().enumerate() {
                let matrix = matrix + matrix.transpose();
                let wide = Mat::from_fn(size, size, |row, column| f64::from(matrix[(row, column)]));
                let expected = wide.self_adjoint_eigenvalues(faer::Side::Lower).expect("values");
                let found = Element::hermitian_eigen(matrix.as_ref(), None).expect("values");
                assert!(found.is_sorted());
                let error = error(found, expected);
                assert!(error < 8.0 + size as f64 / 4.0, "{size}, matrix {number}: {error}");
            }
        }
    }
}
