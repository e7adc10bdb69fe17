//! Eigenvalues of small Hermitian matrices, and singular values of small ones, by Jacobi's rotations, each of as many matrices at once as
//! vectors have lanes.

#![allow(clippy::needless_range_loop, reason = "rotations are written as formulas of matrices are, by row and column")]

use std::array::from_fn;

use faer::{
    MatMut,
    traits::math_utils::{
        abs, abs1, abs2, add, conj, eps, from_f64, from_real, is_finite, is_nan, min_positive, mul, mul_real, one,
        real, recip, sqrt, sub, zero,
    },
};

use crate::{
    Element, in_vectors,
    together::{Elements, Lanes, TOGETHER, Together, element_by_element},
};

/// Times that all elements beside the diagonal are rotated away, at most; six are usual.
const MOST_SWEEPS: usize = 20;

/// Rows and columns of matrices up to which rotations leave no more than a rounding of the largest element.
const SIZE_OF_ROUNDING: usize = 8;

/// Eigenvalues and eigenvectors of some matrices.
pub struct EigenTogether<T: Element> {
    size: usize,
    /// Each matrix's largest absolute value, which it was divided by.
    scale: Lanes<T::Real>,
    /// The rotated matrices, which are diagonal.
    rotated: Together<T>,
    /// As rows.
    vectors: Elements<T>,
    has_converged: Lanes<bool>,
}

impl<T: Element> Together<T> {
    /// Eigenvalues and eigenvectors of Hermitian matrices, of which the lower triangles and the real parts of the diagonals are read.
    pub fn hermitian_eigen(self) -> EigenTogether<T> {
        let mut found = EigenTogether {
            size: self.rows,
            scale: [one(); TOGETHER],
            vectors: Elements::zeros(self.rows, self.rows),
            rotated: self,
            has_converged: [false; TOGETHER],
        };
        in_vectors!(found.rotate_all());
        found
    }
}

impl<T: Element> EigenTogether<T> {
    /// The eigenvalues of a matrix in ascending order, and the vectors that belong to them, conjugated if wanted, as columns; `None`
    /// if the matrix is not finite or the rotations do not end.
    pub fn write(&self, lane: usize, vectors: Option<MatMut<'_, T>>, conjugated: bool) -> Option<Vec<T::Real>> {
        if !self.has_converged[lane] {
            return None;
        }
        let value = |place: usize| real(&self.rotated.elements[place][place][lane]);
        let mut order: Vec<usize> = (0..self.size).collect();
        order.sort_by(|&a, &b| T::widen(value(a)).total_cmp(&T::widen(value(b))));
        if let Some(mut vectors) = vectors {
            for (column, &place) in order.iter().enumerate() {
                for row in 0..self.size {
                    let element = self.vectors[place][row][lane];
                    vectors[(row, column)] = if conjugated { conj(&element) } else { element };
                }
            }
        }
        Some(order.into_iter().map(|place| mul(&value(place), &self.scale[lane])).collect())
    }

    #[inline(always)]
    fn rotate_all(&mut self) {
        self.divide();
        for place in 0..self.size {
            self.vectors[place][place] = [one(); TOGETHER];
        }
        // What is rotated away comes back as what rotations of as many elements are rounded by.
        let least = mul(&eps::<T::Real>(), &from_f64(self.size.div_ceil(SIZE_OF_ROUNDING) as f64));
        for _ in 0..MOST_SWEEPS {
            let beside = self.largest_beside_diagonal();
            self.has_converged = from_fn(|lane| beside[lane] <= least);
            // What is not finite never converges.
            if (0..TOGETHER).all(|lane| self.has_converged[lane] || !is_finite(&beside[lane])) {
                break;
            }
            for first in 0..self.size {
                for second in first + 1..self.size {
                    self.rotate(first, second);
                }
            }
        }
    }

    /// Divides each matrix, and completes it from its lower triangle.
    #[inline(always)]
    fn divide(&mut self) {
        let size = self.size;
        for row in 0..size {
            let diagonal = &mut self.rotated.elements[row][row];
            *diagonal = from_fn(|lane| from_real(&real(&diagonal[lane])));
        }
        self.scale = divide_by_largest(&mut self.rotated, |row, column| column <= row);
        let a = &mut self.rotated.elements;
        for row in 0..size {
            for column in 0..row {
                a[column][row] = from_fn(|lane| conj(&a[row][column][lane]));
            }
        }
    }

    /// Also on the diagonal if something is no number.
    #[inline(always)]
    fn largest_beside_diagonal(&self) -> Lanes<T::Real> {
        let a = &self.rotated.elements;
        let mut largest: Lanes<T::Real> = [zero(); TOGETHER];
        for row in 0..self.size {
            for column in 0..=row {
                for lane in 0..TOGETHER {
                    let value = a[row][column][lane];
                    let size = if column < row { abs1(&value) } else { mul(&abs1(&value), &zero::<T::Real>()) };
                    largest[lane] = larger::<T>(largest[lane], size);
                }
            }
        }
        largest
    }

    /// Turns two axes, so that the element of both becomes zero.
    #[inline(always)]
    fn rotate(&mut self, first: usize, second: usize) {
        let a = &mut self.rotated.elements;
        let both = a[first][second];
        let [one_value, other_value]: [Lanes<T::Real>; 2] =
            [first, second].map(|place| from_fn(|lane| real(&a[place][place][lane])));
        // Less is as good as nothing beside the largest element, 1, and products of it were subnormal.
        let least = mul(&eps::<T::Real>(), &eps::<T::Real>());
        let is_wanted = both.map(|value| abs1(&value) > least);
        let rotation = Rotation::new(&one_value, &other_value, &both, &is_wanted);
        // The rows are the columns, conjugated; what is at both axes is replaced below.
        let [one, other] = a.two_rows(first, second);
        rotation.conjugated().turn(one, other);
        for row in (0..self.size).filter(|&row| row != first && row != second) {
            for place in [first, second] {
                a[row][place] = a[place][row].map(|value| conj(&value));
            }
        }
        let change = rotation.change;
        a[first][first] = from_fn(|lane| from_real(&sub(&one_value[lane], &change[lane])));
        a[second][second] = from_fn(|lane| from_real(&add(&other_value[lane], &change[lane])));
        a[first][second] = from_fn(|lane| if rotation.is_turned[lane] { zero() } else { both[lane] });
        a[second][first] = a[first][second].map(|value| conj(&value));
        let [one, other] = self.vectors.two_rows(first, second);
        rotation.turn(one, other);
    }
}

/// What makes two axes of Hermitian matrices independent of each other.
struct Rotation<T: Element> {
    cosine: Lanes<T::Real>,
    sine: Lanes<T>,
    /// What the first axis' value loses and the second one's gains.
    change: Lanes<T::Real>,
    /// Whether there is something to be turned.
    is_turned: Lanes<bool>,
}

impl<T: Element> Rotation<T> {
    /// By the values of the axes, and what stands in the row of the first and the column of the second, of the matrices of which it is wanted.
    #[inline(always)]
    fn new(first: &Lanes<T::Real>, second: &Lanes<T::Real>, both: &Lanes<T>, is_wanted: &Lanes<bool>) -> Self {
        let size: Lanes<T::Real> = from_fn(|lane| if T::IS_REAL { abs(&both[lane]) } else { sqrt(&abs2(&both[lane])) });
        let is_turned: Lanes<bool> = from_fn(|lane| is_wanted[lane] && size[lane] > min_positive());
        let inverse: Lanes<T::Real> = from_fn(|lane| recip(&size[lane]));
        let phase: Lanes<T> =
            from_fn(|lane| if is_turned[lane] { mul_real(&both[lane], &inverse[lane]) } else { zero() });
        // The tangent of the smaller angle.
        let tangent: Lanes<T::Real> = from_fn(|lane| {
            let difference = sub(&second[lane], &first[lane]);
            let twice = add(&size[lane], &size[lane]);
            let cotangent = mul(&difference, &recip(&twice));
            let sum = add(&abs(&cotangent), &sqrt(&add(&one::<T::Real>(), &mul(&cotangent, &cotangent))));
            let tangent = recip(&sum);
            let tangent = if cotangent < zero() { sub(&zero::<T::Real>(), &tangent) } else { tangent };
            if is_turned[lane] { tangent } else { zero() }
        });
        let cosine: Lanes<T::Real> =
            from_fn(|lane| recip(&sqrt(&add(&one::<T::Real>(), &mul(&tangent[lane], &tangent[lane])))));
        let sine: Lanes<T> = from_fn(|lane| mul_real(&phase[lane], &mul(&tangent[lane], &cosine[lane])));
        let change = from_fn(|lane| mul(&tangent[lane], &size[lane]));
        Rotation { cosine, sine, change, is_turned }
    }

    /// That of the conjugated elements.
    #[inline(always)]
    fn conjugated(&self) -> Self {
        Rotation { sine: self.sine.map(|sine| conj(&sine)), ..*self }
    }

    /// Turns elements of both axes.
    #[inline(always)]
    fn turn(&self, first: &mut [Lanes<T>], second: &mut [Lanes<T>]) {
        let (cosine, sine) = (&self.cosine, &self.sine);
        for (first, second) in first.iter_mut().zip(second) {
            element_by_element();
            let (one, other) = (*first, *second);
            *first = from_fn(|lane| sub(&mul_real(&one[lane], &cosine[lane]), &mul(&conj(&sine[lane]), &other[lane])));
            *second = from_fn(|lane| add(&mul(&sine[lane], &one[lane]), &mul_real(&other[lane], &cosine[lane])));
        }
    }
}

/// Singular values and vectors of some matrices with no more columns than rows.
pub struct SingularTogether<T: Element> {
    /// Each matrix's largest absolute value, which it was divided by.
    scale: Lanes<T::Real>,
    rows: usize,
    columns: usize,
    /// The matrices times the right vectors, left vectors times singular values, as rows.
    left: Elements<T>,
    /// As rows.
    right: Elements<T>,
    has_converged: Lanes<bool>,
}

impl<T: Element> Together<T> {
    /// Singular values and vectors of matrices with no more columns than rows: columns are turned until all are orthogonal.
    pub fn singular(mut self) -> SingularTogether<T> {
        let (rows, columns) = (self.rows, self.columns);
        let scale = divide_by_largest(&mut self, |_, _| true);
        let mut found = SingularTogether {
            scale,
            rows,
            columns,
            left: self.elements.transposed(rows),
            right: Elements::zeros(columns, columns),
            has_converged: [false; TOGETHER],
        };
        in_vectors!(found.turn_all());
        found
    }
}

impl<T: Element> SingularTogether<T> {
    /// The singular values of a matrix in descending order, and calls `write` with the row and the column of each element of the left
    /// vectors and of the right ones, as columns. `None`, and nothing is written, where the matrix is not finite or has not the
    /// rank of its columns, or the rotations do not end: another method has to find what is missing.
    pub fn write(
        &self,
        lane: usize,
        mut left: impl FnMut(usize, usize, T),
        mut right: impl FnMut(usize, usize, T),
    ) -> Option<Vec<T::Real>> {
        let columns = self.columns;
        let length = |column: usize| {
            let squares = self.left[column].iter().map(|value| abs2(&value[lane]));
            sqrt(&squares.fold(zero(), |sum: T::Real, square| add(&sum, &square)))
        };
        let lengths: Vec<T::Real> = (0..columns).map(length).collect();
        if !self.has_converged[lane] || lengths.iter().any(|length| !is_finite(&recip(length))) {
            return None;
        }
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|&a, &b| T::widen(lengths[b]).total_cmp(&T::widen(lengths[a])));
        for (column, &place) in order.iter().enumerate() {
            let factor = recip(&lengths[place]);
            for (row, value) in self.left[place].iter().enumerate() {
                left(row, column, mul_real(&value[lane], &factor));
            }
            for (row, value) in self.right[place].iter().enumerate() {
                right(row, column, value[lane]);
            }
        }
        Some(order.into_iter().map(|place| mul(&lengths[place], &self.scale[lane])).collect())
    }

    #[inline(always)]
    fn turn_all(&mut self) {
        let columns = self.columns;
        for place in 0..columns {
            self.right[place][place] = [one(); TOGETHER];
        }
        for _ in 0..MOST_SWEEPS {
            let mut has_converged = [true; TOGETHER];
            for first in 0..columns {
                for second in first + 1..columns {
                    let are_orthogonal = self.turn(first, second);
                    has_converged = from_fn(|lane| has_converged[lane] & are_orthogonal[lane]);
                }
            }
            self.has_converged = has_converged;
            if has_converged.iter().all(|has_converged| *has_converged) {
                break;
            }
        }
    }

    /// Turns two columns, so that they are orthogonal; says whether they had been already.
    #[inline(always)]
    fn turn(&mut self, first: usize, second: usize) -> Lanes<bool> {
        let [one, other] = self.left.two_rows(first, second);
        let (mut one_value, mut other_value): (Lanes<T::Real>, Lanes<T::Real>) =
            ([zero(); TOGETHER], [zero(); TOGETHER]);
        let mut both: Lanes<T> = [zero(); TOGETHER];
        for (one, other) in one.iter().zip(&*other) {
            element_by_element();
            one_value = from_fn(|lane| add(&one_value[lane], &abs2(&one[lane])));
            other_value = from_fn(|lane| add(&other_value[lane], &abs2(&other[lane])));
            both = from_fn(|lane| add(&both[lane], &mul(&conj(&one[lane]), &other[lane])));
        }
        // Sums of as many products are rounded as often.
        let roundings = from_f64::<T::Real>(2.0 * self.rows.max(SIZE_OF_ROUNDING) as f64);
        let most = mul(&roundings, &mul(&eps::<T::Real>(), &eps::<T::Real>()));
        let are_orthogonal: Lanes<bool> =
            from_fn(|lane| abs2(&both[lane]) <= mul(&most, &mul(&one_value[lane], &other_value[lane])));
        let rotation = Rotation::new(&one_value, &other_value, &both, &are_orthogonal.map(|is| !is));
        rotation.turn(one, other);
        let [one, other] = self.right.two_rows(first, second);
        rotation.turn(one, other);
        are_orthogonal
    }
}

/// The larger one of two numbers, or what is none.
#[inline(always)]
fn larger<T: Element>(one: T::Real, other: T::Real) -> T::Real {
    if other <= one || is_nan(&one) { one } else { other }
}

/// Divides each matrix by its largest absolute value, of the elements that are read, if its reciprocal is a number; the result is what by.
#[inline(always)]
fn divide_by_largest<T: Element>(matrices: &mut Together<T>, is_read: impl Fn(usize, usize) -> bool) -> Lanes<T::Real> {
    let (rows, columns, a) = (matrices.rows, matrices.columns, &mut matrices.elements);
    let mut largest: Lanes<T::Real> = [zero(); TOGETHER];
    for row in 0..rows {
        for column in (0..columns).filter(|&column| is_read(row, column)) {
            for lane in 0..TOGETHER {
                let size = abs1(&a[row][column][lane]);
                largest[lane] = larger::<T>(largest[lane], size);
            }
        }
    }
    let inverse: Lanes<T::Real> = from_fn(|lane| recip(&largest[lane]));
    let scale: Lanes<T::Real> = from_fn(|lane| if is_finite(&inverse[lane]) { largest[lane] } else { one() });
    let factors: Lanes<T::Real> = from_fn(|lane| if is_finite(&inverse[lane]) { inverse[lane] } else { one() });
    for row in 0..rows {
        for column in 0..columns {
            a[row][column] = from_fn(|lane| mul_real(&a[row][column][lane], &factors[lane]));
        }
    }
    scale
}

#[cfg(test)]
mod tests {
    use faer::{Mat, c64};

    use super::*;
    use crate::together::LARGEST;

    /// Multiplies matrices of several kinds with their vectors: dense ones, diagonal ones, those of one value many times, large and
    /// small ones.
    fn check<T: Element>(size: usize, element: impl Fn(usize, usize, usize) -> T, tolerance: f64) {
        let matrices: Vec<Mat<T>> = (0..11)
            .map(|number| {
                Mat::from_fn(size, size, |row, column| {
                    let own = element(number, row.max(column), row.min(column));
                    let own = if row == column { from_real(&real(&own)) } else { own };
                    match number {
                        2 if row != column => zero(),
                        3 => {
                            if row == column {
                                one()
                            } else {
                                zero()
                            }
                        }
                        4 => zero(),
                        _ if row < column => conj(&own),
                        _ => own,
                    }
                })
            })
            .collect();
        let views: Vec<_> = matrices.iter().map(|matrix| matrix.as_ref()).collect();
        let found = Together::read(&views).hermitian_eigen();
        for (lane, matrix) in matrices.iter().enumerate() {
            let mut vectors = Mat::<T>::zeros(size, size);
            let values = found.write(lane, Some(vectors.as_mut()), false).unwrap();
            assert!(values.is_sorted_by(|a, b| a <= b));
            let largest = T::widen(values.iter().fold(zero(), |most, value| {
                let size = abs(value);
                if size > most { size } else { most }
            }));
            let near =
                |a: &T, b: &T, scale: f64| T::widen(abs1(&sub(a, b))) <= tolerance * scale.max(f64::MIN_POSITIVE);
            let product = matrix * &vectors;
            let square = vectors.adjoint() * &vectors;
            for row in 0..size {
                for column in 0..size {
                    let expected = mul_real(&vectors[(row, column)], &values[column]);
                    assert!(near(&product[(row, column)], &expected, largest), "matrix {lane} of size {size}");
                    let unit = if row == column { one::<T>() } else { zero() };
                    assert!(near(&square[(row, column)], &unit, 1.0), "vectors {lane} of size {size}");
                }
            }
        }
    }

    fn number(number: usize, row: usize, column: usize) -> f64 {
        let scale = match number {
            5 => 1e-30,
            6 => 1e30,
            _ => 1.0,
        };
        scale * (((number * 31 + row * 17 + column * 13) * (row + 3) % 19) as f64 - 9.0)
    }

    #[test]
    fn vectors_are_multiplied_by_their_values() {
        for size in (1..=8).chain([13, LARGEST]) {
            check(size, number, 1e-13);
            check(size, |n, row, column| number(n, row, column) as f32, 1e-5);
            let complex = |n, row, column| c64::new(number(n, row, column), number(n + 7, column, row));
            check(
                size,
                |n, row, column| if n == 5 || n == 6 { c64::new(1.0, 2.0) } else { complex(n, row, column) },
                1e-13,
            );
        }
    }

    fn check_singular<T: Element>(
        rows: usize,
        columns: usize,
        element: impl Fn(usize, usize, usize) -> T,
        tolerance: f64,
    ) {
        let matrices: Vec<Mat<T>> =
            (0..9).map(|number| Mat::from_fn(rows, columns, |row, column| element(number, row, column))).collect();
        let views: Vec<_> = matrices.iter().map(|matrix| matrix.as_ref()).collect();
        let found = Together::read(&views).singular();
        for (lane, matrix) in matrices.iter().enumerate() {
            let (mut left, mut right) = (Mat::<T>::zeros(rows, columns), Mat::<T>::zeros(columns, columns));
            let values = found.write(
                lane,
                |row, column, value| left[(row, column)] = value,
                |row, column, value| right[(row, column)] = value,
            );
            let values = values.unwrap();
            assert!(values.is_sorted_by(|a, b| a >= b));
            let near = |a: &T, b: &T, scale: f64| T::widen(abs1(&sub(a, b))) <= tolerance * scale;
            let product = matrix * &right;
            let squares = [left.adjoint() * &left, right.adjoint() * &right];
            for column in 0..columns {
                for row in 0..rows {
                    let expected = mul_real(&left[(row, column)], &values[column]);
                    assert!(
                        near(&product[(row, column)], &expected, T::widen(values[0])),
                        "matrix {lane}, {rows} x {columns}"
                    );
                }
                for row in 0..columns {
                    let unit = if row == column { one::<T>() } else { zero() };
                    assert!(squares.iter().all(|square| near(&square[(row, column)], &unit, 1.0)), "vectors {lane}");
                }
            }
        }
    }

    /// As [`number`], of full rank.
    fn regular(lane: usize, row: usize, column: usize) -> f64 {
        let size = number(lane, row, column);
        if row == column { size + number(lane, 3, 3).abs() * 40.0 + size.abs() * 9.0 } else { size }
    }

    #[test]
    fn right_vectors_are_multiplied_to_left_ones() {
        for (rows, columns) in [(1, 1), (2, 2), (3, 3), (5, 3), (8, 8), (8, 2), (6, 6), (17, 12), (32, 32)] {
            check_singular(rows, columns, regular, 1e-13);
            check_singular(rows, columns, |n, row, column| regular(n, row, column) as f32, 1e-5);
            let complex = |n: usize, row, column| {
                let n = if n == 5 || n == 6 { 1 } else { n };
                c64::new(regular(n, row, column), number(8, column, row))
            };
            check_singular(rows, columns, complex, 1e-13);
        }
    }

    #[test]
    fn what_lacks_rank_is_left_to_others() {
        let matrices = [0.0, f64::NAN, 1.0]
            .map(|corner| Mat::from_fn(3, 2, |row, column| if column == 1 { corner * row as f64 } else { 1.0 }));
        let views: Vec<_> = matrices.iter().map(|matrix| matrix.as_ref()).collect();
        let found = Together::read(&views).singular();
        let has_values = [0, 1, 2].map(|lane| found.write(lane, |_, _, _| {}, |_, _, _| {}).is_some());
        assert_eq!(has_values, [false, false, true]);
    }

    #[test]
    fn what_is_not_finite_has_no_values() {
        let places = [(f64::NAN, 2, 1), (f64::INFINITY, 2, 1), (f64::NAN, 0, 0), (f64::INFINITY, 2, 2), (1.0, 2, 1)];
        let matrices = places.map(|(value, at_row, at_column)| {
            Mat::from_fn(3, 3, |row, column| match (row, column) == (at_row, at_column) {
                true => value,
                false => f64::from(u8::from(row == column)),
            })
        });
        // Together, and where nothing else is turned.
        let views: Vec<_> = matrices.iter().map(|matrix| matrix.as_ref()).collect();
        let found = Together::read(&views).hermitian_eigen();
        let has_values = [0, 1, 2, 3, 4].map(|lane| found.write(lane, None, false).is_some());
        assert_eq!(has_values, [false, false, false, false, true]);
        for (matrix, expected) in views.iter().zip(has_values) {
            let alone = Together::read(&[*matrix]).hermitian_eigen();
            assert_eq!(alone.write(0, None, false).is_some(), expected);
        }
    }
}
