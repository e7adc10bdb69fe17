//! Eigenvalues of small Hermitian matrices by Jacobi's rotations, each of as many matrices at once as vectors have lanes.

#![allow(clippy::needless_range_loop, reason = "rotations are written as formulas of matrices are, by row and column")]

use std::array::from_fn;

use faer::{
    MatMut,
    traits::math_utils::{
        abs, abs1, abs2, add, conj, eps, from_real, is_finite, min_positive, mul, mul_real, one, real, recip, sqrt,
        sub, zero,
    },
};

use crate::{
    Element, in_vectors,
    together::{LARGEST, Lanes, TOGETHER, Together},
};

/// Times that all elements beside the diagonal are rotated away, at most; six are usual.
const MOST_SWEEPS: usize = 20;

/// Eigenvalues and eigenvectors of some matrices.
pub struct EigenTogether<T: Element> {
    size: usize,
    /// Each matrix's largest absolute value, which it was divided by.
    scale: Lanes<T::Real>,
    /// The rotated matrices, which are diagonal.
    rotated: Together<T>,
    vectors: Together<T>,
    has_converged: Lanes<bool>,
}

impl<T: Element> Together<T> {
    /// Eigenvalues and eigenvectors of Hermitian matrices, of which the lower triangles and the real parts of the diagonals are read.
    pub fn hermitian_eigen(self) -> EigenTogether<T> {
        let mut found = EigenTogether {
            size: self.rows,
            scale: [one(); TOGETHER],
            vectors: Together { elements: [[[zero(); TOGETHER]; LARGEST]; LARGEST], ..self },
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
                    let element = self.vectors.elements[row][place][lane];
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
            self.vectors.elements[place][place] = [one(); TOGETHER];
        }
        for _ in 0..MOST_SWEEPS {
            let beside = self.largest_beside_diagonal();
            self.has_converged = from_fn(|lane| beside[lane] <= eps());
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

    /// Divides each matrix by its largest absolute value, and completes it from its lower triangle.
    #[inline(always)]
    fn divide(&mut self) {
        let a = &mut self.rotated.elements;
        let mut largest: Lanes<T::Real> = [zero(); TOGETHER];
        for row in 0..self.size {
            a[row][row] = from_fn(|lane| from_real(&real(&a[row][row][lane])));
            for column in 0..=row {
                for lane in 0..TOGETHER {
                    let size = abs1(&a[row][column][lane]);
                    // What is not a number is the largest, and stays so.
                    largest[lane] = if size <= largest[lane] { largest[lane] } else { size };
                }
            }
        }
        let factors: Lanes<T::Real> = from_fn(|lane| recip(&largest[lane]));
        let factors: Lanes<T::Real> = from_fn(|lane| if is_finite(&factors[lane]) { factors[lane] } else { one() });
        let is_divided: Lanes<bool> = from_fn(|lane| is_finite(&recip(&largest[lane])));
        self.scale = from_fn(|lane| if is_divided[lane] { largest[lane] } else { one() });
        for row in 0..self.size {
            for column in 0..=row {
                a[row][column] = from_fn(|lane| mul_real(&a[row][column][lane], &factors[lane]));
                if column < row {
                    a[column][row] = from_fn(|lane| conj(&a[row][column][lane]));
                }
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
                    largest[lane] = if size <= largest[lane] { largest[lane] } else { size };
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
        let size: Lanes<T::Real> = from_fn(|lane| if T::IS_REAL { abs(&both[lane]) } else { sqrt(&abs2(&both[lane])) });
        let is_turned: Lanes<bool> = from_fn(|lane| size[lane] > min_positive());
        let inverse: Lanes<T::Real> = from_fn(|lane| recip(&size[lane]));
        let phase: Lanes<T> =
            from_fn(|lane| if is_turned[lane] { mul_real(&both[lane], &inverse[lane]) } else { zero() });
        // The tangent of the smaller angle.
        let tangent: Lanes<T::Real> = from_fn(|lane| {
            let difference = sub(&other_value[lane], &one_value[lane]);
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
        let turned = |one: &Lanes<T>, other: &Lanes<T>| -> [Lanes<T>; 2] {
            let first =
                from_fn(|lane| sub(&mul_real(&one[lane], &cosine[lane]), &mul(&conj(&sine[lane]), &other[lane])));
            let second = from_fn(|lane| add(&mul(&sine[lane], &one[lane]), &mul_real(&other[lane], &cosine[lane])));
            [first, second]
        };
        for row in (0..self.size).filter(|&row| row != first && row != second) {
            [a[row][first], a[row][second]] = turned(&a[row][first], &a[row][second]);
            a[first][row] = from_fn(|lane| conj(&a[row][first][lane]));
            a[second][row] = from_fn(|lane| conj(&a[row][second][lane]));
        }
        let change: Lanes<T::Real> = from_fn(|lane| mul(&tangent[lane], &size[lane]));
        a[first][first] = from_fn(|lane| from_real(&sub(&one_value[lane], &change[lane])));
        a[second][second] = from_fn(|lane| from_real(&add(&other_value[lane], &change[lane])));
        a[first][second] = from_fn(|lane| if is_turned[lane] { zero() } else { both[lane] });
        a[second][first] = from_fn(|lane| conj(&a[first][second][lane]));
        let vectors = &mut self.vectors.elements;
        for row in 0..self.size {
            [vectors[row][first], vectors[row][second]] = turned(&vectors[row][first], &vectors[row][second]);
        }
    }
}

#[cfg(test)]
mod tests {
    use faer::{Mat, c64};

    use super::*;

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
        for size in 1..=LARGEST {
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

    #[test]
    fn what_is_not_finite_has_no_values() {
        let matrices = [f64::NAN, f64::INFINITY, 1.0].map(|corner| {
            Mat::from_fn(3, 3, |row, column| if (row, column) == (2, 1) { corner } else { (row + column) as f64 })
        });
        let views: Vec<_> = matrices.iter().map(|matrix| matrix.as_ref()).collect();
        let found = Together::read(&views).hermitian_eigen();
        let has_values = [0, 1, 2].map(|lane| found.write(lane, None, false).is_some());
        assert_eq!(has_values, [false, false, true]);
    }
}
