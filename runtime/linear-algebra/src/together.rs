//! Batches of small matrices: each step of a factorisation is done for as many of them at once as vectors have lanes.

#![allow(clippy::needless_range_loop, reason = "steps are written as formulas of matrices are, by row and column")]

use std::{
    array::from_fn,
    ops::{Index, IndexMut},
};

use faer::{
    MatMut, MatRef,
    prelude::ReborrowMut,
    traits::math_utils::{abs1, conj, from_real, is_finite, is_nan, mul, real, recip, sqrt, sub, zero},
};

use crate::{Element, TriangularSystem, in_vectors};

/// Matrices that are computed at once.
pub const TOGETHER: usize = 16;

/// Rows and columns of small matrices, at most.
pub(crate) const LARGEST: usize = 32;

/// Rows and columns up to which rotations of both sides are sooner than an iteration.
const LARGEST_HERMITIAN: usize = 14;

/// Bytes of a row that is exchanged, at most, of larger matrices than small ones.
const MOST_EXCHANGED_BYTES: usize = 128;

/// Right-hand sides up to which solving together is sooner than products of blocks.
const MOST_SIDES: usize = 16;

/// Rows and columns up to which two matrices are enough, as most of the time goes to calls and loops of a few steps otherwise.
const SMALL: usize = 8;

/// Matrices that fill enough of the lanes.
const MANY: usize = TOGETHER / 2;

/// Rows and columns up to which together is sooner although most lanes may be for nothing, or numbers are complex, whose parts are no
/// lanes.
const FEW: usize = 4;

/// A value of each matrix.
pub(crate) type Lanes<T> = [T; TOGETHER];

/// Up to [`TOGETHER`] small matrices, all of the same size.
pub struct Together<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) elements: Elements<T>,
}

/// The elements of some matrices, by row and column.
pub(crate) struct Elements<T> {
    columns: usize,
    /// Between the beginnings of rows: an odd number, so that the elements of a column are in different sets of a cache.
    stride: usize,
    lanes: Vec<Lanes<T>>,
}

impl<T: Element> Elements<T> {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        Self { columns, stride: columns | 1, lanes: vec![[zero(); TOGETHER]; rows * (columns | 1)] }
    }

    /// Two rows, the first of which comes before the second.
    #[inline(always)]
    pub(crate) fn two_rows(&mut self, first: usize, second: usize) -> [&mut [Lanes<T>]; 2] {
        let (before, after) = self.lanes.split_at_mut(second * self.stride);
        [&mut before[first * self.stride..][..self.columns], &mut after[..self.columns]]
    }

    /// The columns as rows.
    pub(crate) fn transposed(&self, rows: usize) -> Self {
        let mut result = Self::zeros(self.columns, rows);
        for column in 0..self.columns {
            (0..rows).for_each(|row| result[column][row] = self[row][column]);
        }
        result
    }
}

impl<T> Index<usize> for Elements<T> {
    type Output = [Lanes<T>];

    #[inline(always)]
    fn index(&self, row: usize) -> &[Lanes<T>] {
        &self.lanes[row * self.stride..][..self.columns]
    }
}

impl<T> IndexMut<usize> for Elements<T> {
    #[inline(always)]
    fn index_mut(&mut self, row: usize) -> &mut [Lanes<T>] {
        &mut self.lanes[row * self.stride..][..self.columns]
    }
}

impl<T: Element> Together<T> {
    /// Whether matrices are small enough, and there are several.
    pub fn suits(count: usize, rows: usize, columns: usize) -> bool {
        let size = rows.max(columns);
        count > 1 && size <= SMALL || T::IS_REAL && count >= MANY && size <= LARGEST
    }

    /// Whether that is so for LU, which exchanges rows.
    pub fn suits_lu(count: usize, rows: usize, columns: usize) -> bool {
        let row_bytes = rows.max(columns) * size_of::<T>();
        Self::suits(count, rows, columns) && (rows.max(columns) <= SMALL || row_bytes <= MOST_EXCHANGED_BYTES)
    }

    /// Whether right-hand sides of systems are.
    pub fn suits_sides(count: usize, rows: usize, columns: usize) -> bool {
        Self::suits(count, rows, columns) && (T::IS_REAL || rows.min(columns) <= FEW) && rows.min(columns) <= MOST_SIDES
    }

    /// Whether rotations give eigenvalues, or singular values, sooner than an iteration does.
    pub fn suits_rotations(count: usize, size: usize) -> bool {
        size <= FEW || T::IS_REAL && Self::suits(count, size, size)
    }

    /// As [`Self::suits_rotations`], of both sides of Hermitian matrices, whose iteration is shorter.
    pub fn suits_hermitian(count: usize, size: usize) -> bool {
        size <= LARGEST_HERMITIAN && Self::suits_rotations(count, size)
    }

    /// Reads matrices, which lie in memory alike; lanes without one repeat the first.
    pub fn read<'a>(matrices: &[MatRef<'a, T>]) -> Self
    where
        T: 'a,
    {
        let Some(first) = matrices.first() else {
            return Self { rows: 0, columns: 0, elements: Elements::zeros(0, 0) };
        };
        let ((rows, columns), [row_stride, column_stride]) = (first.shape(), [first.row_stride(), first.col_stride()]);
        let is_alike = |own: &MatRef<'a, T>| {
            own.shape() == first.shape() && [own.row_stride(), own.col_stride()] == [row_stride, column_stride]
        };
        assert!(matrices.iter().all(is_alike), "matrices that lie in memory alike");
        let starts: [*const T; TOGETHER] = from_fn(|lane| matrices.get(lane).unwrap_or(first).as_ptr());
        let mut elements = Elements::zeros(rows, columns);
        for row in 0..rows {
            for (column, element) in elements[row].iter_mut().enumerate() {
                let offset = row as isize * row_stride + column as isize * column_stride;
                // SAFETY: each of the matrices has this element there.
                *element = from_fn(|lane| unsafe { *starts[lane].offset(offset) });
            }
        }
        Together { rows, columns, elements }
    }

    /// Writes those elements of one of the matrices that are wanted by row and column.
    pub fn write(&self, lane: usize, mut matrix: MatMut<'_, T>, is_wanted: impl Fn(usize, usize) -> bool) {
        assert_eq!(matrix.shape(), (self.rows, self.columns), "a matrix of the same size");
        for row in 0..self.rows {
            for (column, element) in self.elements[row].iter().enumerate() {
                if is_wanted(row, column) {
                    // SAFETY: the matrix has this element.
                    unsafe { *matrix.rb_mut().ptr_at_mut(row, column) = element[lane] };
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
        // The column of a step, conjugated.
        let mut others = vec![[zero(); TOGETHER]; size];
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
                let factor = product(&a[row][step], &factors);
                a[row][step] = factor;
                others[row] = factor.map(|value| conj(&value));
                for (open, other) in a[row][step + 1..=row].iter_mut().zip(&others[step + 1..=row]) {
                    *open = less_product(open, &factor, other);
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
        let coefficient = |row: usize, column: usize| {
            let values = if transposed { a.elements[column][row] } else { a.elements[row][column] };
            if system.conjugated { values.map(|value| conj(&value)) } else { values }
        };
        let divided = |rest: &Lanes<T>, row: usize| -> Lanes<T> {
            if system.unit_diagonal {
                return *rest;
            }
            let diagonal = coefficient(row, row);
            from_fn(|lane| quotient(rest[lane], diagonal[lane]))
        };
        let size = if system.left_side { self.rows } else { self.columns };
        for step in 0..size {
            let row = if lower { step } else { size - 1 - step };
            let known = if lower { 0..row } else { row + 1..size };
            if !system.left_side {
                for other in 0..self.rows {
                    let x = &mut self.elements[other];
                    let mut rest = x[row];
                    for (column, found) in known.clone().zip(&x[known.clone()]) {
                        rest = less_product(&rest, &coefficient(row, column), found);
                    }
                    x[row] = divided(&rest, row);
                }
                continue;
            }
            for column in known {
                let factor = coefficient(row, column);
                let [before, after] = self.elements.two_rows(row.min(column), row.max(column));
                let (own, found) = if row < column { (before, after) } else { (after, before) };
                own.iter_mut().zip(found).for_each(|(rest, found)| *rest = less_product(rest, &factor, found));
            }
            self.elements[row].iter_mut().for_each(|rest| *rest = divided(rest, row));
        }
    }

    #[inline(always)]
    fn lu_in_vectors(&mut self, pivots: &mut [Lanes<i32>]) -> Lanes<i32> {
        let (rows, a) = (self.rows, &mut self.elements);
        let mut failed = [0; TOGETHER];
        for step in 0..rows.min(self.columns) {
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
            for row in (step + 1..rows).filter(|&row| pivot.contains(&(row as i32))) {
                let is_exchanged: Lanes<bool> = from_fn(|lane| pivot[lane] == row as i32);
                let [upper, own] = a.two_rows(step, row);
                for (upper, own) in upper.iter_mut().zip(own) {
                    element_by_element();
                    let (first, second) = (*upper, *own);
                    *upper = from_fn(|lane| if is_exchanged[lane] { second[lane] } else { first[lane] });
                    *own = from_fn(|lane| if is_exchanged[lane] { first[lane] } else { second[lane] });
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
                let [upper, own] = a.two_rows(step, row);
                let value = own[step];
                let factor = product(&value, &scale);
                let factor: Lanes<T> = from_fn(|lane| if is_usable[lane] { factor[lane] } else { value[lane] });
                own[step] = factor;
                for (upper, own) in upper[step + 1..].iter().zip(&mut own[step + 1..]) {
                    let (open, next) = (*own, less_product(own, &factor, upper));
                    let is_changed = |lane: usize| is_usable[lane] && upper[lane] != zero();
                    *own = from_fn(|lane| if is_changed(lane) { next[lane] } else { open[lane] });
                }
            }
        }
        failed
    }
}

#[inline(always)]
fn product<T: Element>(a: &Lanes<T>, b: &Lanes<T>) -> Lanes<T> {
    from_fn(|lane| mul(&a[lane], &b[lane]))
}

/// Keeps a loop over elements from becoming one whose vectors have neighbouring elements, of lanes that stand apart: the lanes of an element
/// are a vector.
#[inline(always)]
pub(crate) fn element_by_element() {
    std::hint::black_box(());
}

/// `rest - a b`.
#[inline(always)]
fn less_product<T: Element>(rest: &Lanes<T>, a: &Lanes<T>, b: &Lanes<T>) -> Lanes<T> {
    element_by_element();
    from_fn(|lane| sub(&rest[lane], &mul(&a[lane], &b[lane])))
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
        for (rows, columns) in [(1, 1), (2, 2), (3, 5), (8, 8), (7, 4), (11, 9)] {
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
        for size in (1..=8).chain([LARGEST]) {
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
