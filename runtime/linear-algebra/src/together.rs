//! Batches of small matrices: each step of a factorisation is done for as many of them at once as vectors have lanes.

#![allow(clippy::needless_range_loop, reason = "steps are written as formulas of matrices are, by row and column")]

use std::array::from_fn;

use faer::{
    MatMut, MatRef,
    traits::math_utils::{abs1, conj, from_real, is_finite, is_nan, mul, real, recip, sqrt, sub, zero},
};

use crate::{Element, TriangularSystem, in_vectors};

/// Matrices that are computed at once.
pub const TOGETHER: usize = 16;

/// Rows and columns of small matrices, at most.
pub(crate) const LARGEST: usize = 8;

/// Rows and columns up to which together is sooner although most lanes may be for nothing, or numbers are complex, whose parts are no
/// lanes.
const FEW: usize = 4;

/// A value of each matrix.
pub(crate) type Lanes<T> = [T; TOGETHER];

/// Up to [`TOGETHER`] matrices of up to 8 rows and columns, all of the same size.
pub struct Together<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) elements: [[Lanes<T>; LARGEST]; LARGEST],
}

impl<T: Element> Together<T> {
    /// Whether matrices are small enough, and there are several.
    pub fn suits(count: usize, rows: usize, columns: usize) -> bool {
        count > 1 && rows.max(columns) <= LARGEST
    }

    /// Whether right-hand sides of systems are.
    pub fn suits_sides(count: usize, rows: usize, columns: usize) -> bool {
        Self::suits(count, rows, columns) && (T::IS_REAL || rows.min(columns) <= FEW)
    }

    /// Whether rotations give eigenvalues, or singular values, sooner than an iteration does.
    pub fn suits_rotations(count: usize, size: usize) -> bool {
        size <= FEW || T::IS_REAL && Self::suits(count, size, size)
    }

    /// Reads matrices; lanes without one repeat the first.
    pub fn read<'a>(matrices: &[MatRef<'a, T>]) -> Self
    where
        T: 'a,
    {
        let (rows, columns) = matrices.first().map_or((0, 0), |matrix| matrix.shape());
        let mut elements = [[[zero(); TOGETHER]; LARGEST]; LARGEST];
        for lane in 0..TOGETHER {
            let Some(matrix) = matrices.get(lane).or(matrices.first()) else { continue };
            for (row, of_row) in elements.iter_mut().enumerate().take(rows) {
                for (column, element) in of_row.iter_mut().enumerate().take(columns) {
                    element[lane] = matrix[(row, column)];
                }
            }
        }
        Together { rows, columns, elements }
    }

    /// Writes those elements of one of the matrices that are wanted by row and column.
    pub fn write(&self, lane: usize, mut matrix: MatMut<'_, T>, is_wanted: impl Fn(usize, usize) -> bool) {
        for (row, of_row) in self.elements.iter().enumerate().take(self.rows) {
            for (column, element) in of_row.iter().enumerate().take(self.columns) {
                if is_wanted(row, column) {
                    matrix[(row, column)] = element[lane];
                }
            }
        }
    }

    /// Replaces the lower triangles by the Cholesky factors. Where a matrix is not positive definite, its triangle becomes NaN, and
    /// the result is the order of its first leading minor that is not; otherwise 0.
    pub fn cholesky(&mut self) -> Lanes<i32> {
        in_vectors!(self.cholesky_in_vectors())
    }

    /// Replaces the right-hand sides by the solutions of triangular systems.
    pub fn solve(&mut self, a: &Self, system: TriangularSystem) {
        in_vectors!(self.solve_in_vectors(a, system));
    }

    /// LU as [`crate::lu`] does it. `pivots` gets the row that each row was exchanged with, counted from 1, and the result is the
    /// place of the first zero on the diagonal counted from 1, or 0.
    pub fn lu(&mut self, pivots: &mut [Lanes<i32>]) -> Lanes<i32> {
        in_vectors!(self.lu_in_vectors(pivots))
    }

    #[inline(always)]
    fn cholesky_in_vectors(&mut self) -> Lanes<i32> {
        let (size, a) = (self.rows, &mut self.elements);
        let mut failed = [0; TOGETHER];
        for step in 0..size {
            let value = a[step][step];
            let roots: Lanes<T> = from_fn(|lane| from_real(&sqrt(&real(&value[lane]))));
            for (failed, value) in failed.iter_mut().zip(&value) {
                let value = real(value);
                if *failed == 0 && (value <= zero() || is_nan(&value)) {
                    *failed = step as i32 + 1;
                }
            }
            let factors: Lanes<T> = from_fn(|lane| recip(&roots[lane]));
            a[step][step] = roots;
            for row in step + 1..size {
                a[row][step] = from_fn(|lane| mul(&a[row][step][lane], &factors[lane]));
            }
            for column in step + 1..size {
                let other = a[column][step];
                for row in column..size {
                    let factor = a[row][step];
                    a[row][column] =
                        from_fn(|lane| sub(&a[row][column][lane], &mul(&factor[lane], &conj(&other[lane]))));
                }
            }
        }
        for (lane, _) in failed.iter().enumerate().filter(|(_, failed)| **failed > 0) {
            (0..size).for_each(|row| (0..=row).for_each(|column| a[row][column][lane] = T::NAN));
        }
        failed
    }

    #[inline(always)]
    fn solve_in_vectors(&mut self, a: &Self, system: TriangularSystem) {
        // x op(a) = b is op(a)ᵀ xᵀ = bᵀ.
        let transposed = system.transposed == system.left_side;
        let lower = system.lower != transposed;
        let coefficient = |row: usize, column: usize, lane: usize| {
            let value = if transposed { a.elements[column][row][lane] } else { a.elements[row][column][lane] };
            if system.conjugated { conj(&value) } else { value }
        };
        let (size, others) = if system.left_side { (self.rows, self.columns) } else { (self.columns, self.rows) };
        let place = |row: usize, other: usize| if system.left_side { (row, other) } else { (other, row) };
        for step in 0..size {
            let row = if lower { step } else { size - 1 - step };
            let known = if lower { 0..row } else { row + 1..size };
            for other in 0..others {
                let own = place(row, other);
                let mut rest = self.elements[own.0][own.1];
                for column in known.clone() {
                    let from = place(column, other);
                    let found = self.elements[from.0][from.1];
                    rest = from_fn(|lane| sub(&rest[lane], &mul(&coefficient(row, column, lane), &found[lane])));
                }
                if !system.unit_diagonal {
                    rest = from_fn(|lane| quotient(rest[lane], coefficient(row, row, lane)));
                }
                self.elements[own.0][own.1] = rest;
            }
        }
    }

    #[inline(always)]
    fn lu_in_vectors(&mut self, pivots: &mut [Lanes<i32>]) -> Lanes<i32> {
        let (rows, columns, a) = (self.rows, self.columns, &mut self.elements);
        let mut failed = [0; TOGETHER];
        for step in 0..rows.min(columns) {
            // NaN is chosen only where it is the first element.
            let mut most: Lanes<T::Real> = from_fn(|lane| abs1(&a[step][step][lane]));
            let mut pivot = [step as i32; TOGETHER];
            for row in step + 1..rows {
                for lane in 0..TOGETHER {
                    let size = abs1(&a[row][step][lane]);
                    let is_larger = size > most[lane];
                    most[lane] = if is_larger { size } else { most[lane] };
                    pivot[lane] = if is_larger { row as i32 } else { pivot[lane] };
                }
            }
            for row in step + 1..rows {
                for column in 0..columns {
                    let (upper, own) = (a[step][column], a[row][column]);
                    let is_exchanged = |lane: usize| pivot[lane] == row as i32;
                    a[step][column] = from_fn(|lane| if is_exchanged(lane) { own[lane] } else { upper[lane] });
                    a[row][column] = from_fn(|lane| if is_exchanged(lane) { upper[lane] } else { own[lane] });
                }
            }
            pivots[step] = pivot.map(|row| row + 1);
            let value = a[step][step];
            let is_usable: Lanes<bool> = from_fn(|lane| value[lane] != zero() && !is_nan(&value[lane]));
            for lane in 0..TOGETHER {
                if failed[lane] == 0 && !is_usable[lane] && !is_nan(&value[lane]) {
                    failed[lane] = step as i32 + 1;
                }
            }
            let scale: Lanes<T> = from_fn(|lane| recip(&value[lane]));
            for row in step + 1..rows {
                let own = a[row][step];
                let factor: Lanes<T> = from_fn(|lane| mul(&own[lane], &scale[lane]));
                let factor: Lanes<T> = from_fn(|lane| if is_usable[lane] { factor[lane] } else { own[lane] });
                a[row][step] = factor;
                for column in step + 1..columns {
                    let upper = a[step][column];
                    let open = a[row][column];
                    let next: Lanes<T> = from_fn(|lane| sub(&open[lane], &mul(&factor[lane], &upper[lane])));
                    let is_changed = |lane: usize| is_usable[lane] && upper[lane] != zero();
                    a[row][column] = from_fn(|lane| if is_changed(lane) { next[lane] } else { open[lane] });
                }
            }
        }
        failed
    }
}

/// A quotient. Squares of parts of complex numbers may be too large or small, those of a reciprocal are not.
#[inline(always)]
fn quotient<T: Element>(dividend: T, divisor: T) -> T {
    if T::IS_REAL {
        return dividend / divisor;
    }
    let factor = recip(&divisor);
    if is_finite(&factor) { mul(&dividend, &factor) } else { dividend / divisor }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;

    /// Matrices of small whole numbers, among them singular ones, some with NaN.
    fn samples(rows: usize, columns: usize) -> Vec<Mat<f64>> {
        let element = |number: usize, row: usize, column: usize| match (number % 4, row, column) {
            (1, _, 0) => 0.0,
            (2, 1, 1) => f64::NAN,
            (3, _, _) if number > 8 => (row + 1) as f64 * (column + 1) as f64,
            _ => ((number * 31 + row * 17 + column * 13) * (row + 3) % 19) as f64 - 9.0,
        };
        (0..13).map(|number| Mat::from_fn(rows, columns, |row, column| element(number, row, column))).collect()
    }

    fn views(matrices: &[Mat<f64>]) -> Vec<MatRef<'_, f64>> {
        matrices.iter().map(|matrix| matrix.as_ref()).collect()
    }

    fn assert_same(together: &Together<f64>, lane: usize, expected: &Mat<f64>, part: impl Fn(usize, usize) -> bool) {
        let mut found = Mat::zeros(expected.nrows(), expected.ncols());
        together.write(lane, found.as_mut(), &part);
        for column in 0..expected.ncols() {
            for row in (0..expected.nrows()).filter(|&row| part(row, column)) {
                let (a, b) = (found[(row, column)], expected[(row, column)]);
                let is_same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-9 * (1.0 + b.abs());
                assert!(is_same, "matrix {lane}, {row}, {column}: {a} {b}");
            }
        }
    }

    #[test]
    fn exchanges_are_those_of_one_matrix() {
        for (rows, columns) in [(1, 1), (2, 2), (3, 5), (8, 8), (7, 4)] {
            let steps = rows.min(columns);
            let matrices = samples(rows, columns);
            let mut together = Together::read(&views(&matrices));
            let mut pivots = vec![[0; TOGETHER]; steps];
            let failed = together.lu(&mut pivots);
            for (lane, matrix) in matrices.iter().enumerate() {
                let (mut expected, mut expected_pivots) = (matrix.clone(), vec![0; steps]);
                let order = crate::lu(expected.as_mut(), &mut expected_pivots);
                let found: Vec<i32> = pivots.iter().map(|step| step[lane]).collect();
                assert_eq!((failed[lane], found), (order, expected_pivots), "matrix {lane}, {rows} x {columns}");
                assert_same(&together, lane, &expected, |_, _| true);
            }
        }
    }

    #[test]
    fn factors_are_those_of_one_matrix() {
        for size in 1..=LARGEST {
            let squares: Vec<Mat<f64>> = samples(size, size).iter().map(|x| x * x.transpose()).collect();
            let mut together = Together::read(&views(&squares));
            let failed = together.cholesky();
            for (lane, square) in squares.iter().enumerate() {
                let mut expected = square.clone();
                let order = f64::cholesky(expected.as_mut()).err().map_or(0, |order| order as i32);
                assert_eq!(failed[lane] > 0, order > 0, "matrix {lane} of size {size}");
                assert_same(&together, lane, &expected, |row, column| column <= row);
            }
        }
    }

    #[test]
    fn complex_diagonals_may_be_as_large_or_small_as_numbers_are() {
        for size in [1e-200, 1e200] {
            let value = faer::c64 { re: size, im: size };
            let matrix = Mat::from_fn(1, 1, |_, _| value);
            let mut x = Together::read(&[matrix.as_ref(), matrix.as_ref()]);
            let system = TriangularSystem {
                left_side: true,
                lower: true,
                unit_diagonal: false,
                transposed: false,
                conjugated: false,
            };
            let a = Together::read(&[matrix.as_ref(), matrix.as_ref()]);
            x.solve(&a, system);
            let mut found = Mat::<faer::c64>::zeros(1, 1);
            x.write(1, found.as_mut(), |_, _| true);
            let found = found[(0, 0)];
            assert!((found.re - 1.0).abs() < 1e-12 && found.im.abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn solutions_are_those_of_one_matrix() {
        for case in 0..32 {
            let is = |bit: usize| case >> bit & 1 == 1;
            let system = TriangularSystem {
                left_side: is(0),
                lower: is(1),
                unit_diagonal: is(2),
                transposed: is(3),
                conjugated: is(4),
            };
            let (rows, columns) = (5, 3);
            let size = if system.left_side { rows } else { columns };
            let matrices = samples(size, size);
            let sides = samples(rows, columns);
            let mut together = Together::read(&views(&sides));
            together.solve(&Together::read(&views(&matrices)), system);
            for (lane, side) in sides.iter().enumerate() {
                // What is NaN, or divided by zero, may be so elsewhere too.
                if lane % 4 != 0 {
                    continue;
                }
                let mut expected = side.clone();
                f64::solve_triangular(matrices[lane].as_ref(), expected.as_mut(), system);
                assert_same(&together, lane, &expected, |_, _| true);
            }
        }
    }
}
