//! `gees` and `geev`: the Schur form of square matrices, and their eigenvalues and eigenvectors.
//!
//! As in LAPACK a matrix is balanced, reduced to Hessenberg form, and iterated upon; a real one stays real. Everything is done
//! in double precision and rounded at the end. Eigenvalues come in the order in which the iteration leaves them.

mod balance;
mod complex;
mod real;
mod vectors;

use super::{
    is_read, letter,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use balance::Balance;
use faer::{
    Mat, MatMut, MatRef, c32, c64,
    linalg::matmul::matmul,
    prelude::ReborrowMut,
    traits::math_utils::{abs, is_finite, mul_real, one, zero},
};
use linear_algebra::{Element, multiply_out, reduce};
use vectors::Side;

/// So many steps without progress, and the next one is another.
const STALLED: usize = 10;

/// What `info` says of a matrix that is not finite, before `geev` is tried.
const NOT_FINITE: i32 = -4;

/// The numbers of an element type. They say when an iteration has converged, which decides the order of eigenvalues.
#[derive(Clone, Copy)]
pub(super) struct Precision {
    epsilon: f64,
    min_positive: f64,
}

/// An element type in which matrices are decomposed.
pub(super) trait Wide: Element<Real = f64> {
    /// The number as a complex one.
    fn to_complex(self) -> c64;

    /// Replaces a Hessenberg matrix by its Schur form, see the modules of the iterations.
    fn iterate(h: MatMut<'_, Self>, z: MatMut<'_, Self>, precision: Precision) -> Result<(), usize>;
}

impl Wide for f64 {
    fn to_complex(self) -> c64 {
        c64::new(self, 0.0)
    }

    fn iterate(h: MatMut<'_, Self>, z: MatMut<'_, Self>, precision: Precision) -> Result<(), usize> {
        real::iterate(h, z, precision)
    }
}

impl Wide for c64 {
    fn to_complex(self) -> c64 {
        self
    }

    fn iterate(h: MatMut<'_, Self>, z: MatMut<'_, Self>, precision: Precision) -> Result<(), usize> {
        complex::iterate(h, z, precision)
    }
}

/// An element type of programs.
pub(super) trait Widened: Element {
    /// What matrices are decomposed in.
    type Wide: Wide;
    /// What eigenvectors consist of.
    type Complex: Element;
    /// Its own precision.
    const PRECISION: Precision;

    fn widen(self) -> Self::Wide;
    fn round(value: Self::Wide) -> Self;
    fn round_complex(value: c64) -> Self::Complex;
    /// A part of an eigenvalue: 0 the real part, 1 the imaginary one. A complex number has one part, itself.
    fn part(value: c64, part: usize) -> Self;
}

macro_rules! widened {
    ($real:ty, $complex:ty) => {
        impl Widened for $real {
            type Wide = f64;
            type Complex = $complex;
            const PRECISION: Precision =
                Precision { epsilon: <$real>::EPSILON as f64, min_positive: <$real>::MIN_POSITIVE as f64 };

            fn widen(self) -> f64 {
                self.into()
            }

            fn round(value: f64) -> Self {
                value as $real
            }

            fn round_complex(value: c64) -> $complex {
                <$complex>::round(value)
            }

            fn part(value: c64, part: usize) -> Self {
                (if part == 0 { value.re } else { value.im }) as $real
            }
        }

        impl Widened for $complex {
            type Wide = c64;
            type Complex = $complex;
            const PRECISION: Precision =
                Precision { epsilon: <$real>::EPSILON as f64, min_positive: <$real>::MIN_POSITIVE as f64 };

            fn widen(self) -> c64 {
                c64::new(self.re.into(), self.im.into())
            }

            fn round(value: c64) -> Self {
                Self::new(value.re as $real, value.im as $real)
            }

            fn round_complex(value: c64) -> $complex {
                Self::round(value)
            }

            fn part(value: c64, _: usize) -> Self {
                Self::round(value)
            }
        }
    };
}

widened!(f32, c32);
widened!(f64, c64);

/// a = `scale` z t zᴴ up to balancing.
struct Schur<T> {
    scale: f64,
    form: Mat<T>,
    /// Without rows if vectors are not wanted.
    vectors: Mat<T>,
    /// Those of t.
    eigenvalues: Vec<c64>,
    balance: Balance,
    precision: Precision,
}

/// Decomposes a matrix; an error is the number of eigenvalues that were not found.
fn decompose<T: Wide>(
    mut a: Mat<T>,
    precision: Precision,
    with_vectors: bool,
    with_scales: bool,
) -> Result<Schur<T>, usize> {
    let size = a.nrows();
    if !all_finite(a.as_ref()) {
        return Err(size);
    }
    // Squares of elements must be numbers.
    let largest = largest(a.as_ref());
    let is_ordinary = largest == 0.0 || (1e-138..1e138).contains(&largest);
    let scale = if is_ordinary { 1.0 } else { largest.max(f64::MIN_POSITIVE) };
    multiply(a.as_mut(), scale.recip());
    let balance = Balance::new(a.as_mut(), with_scales);
    let mut taus = vec![zero(); size.saturating_sub(1)];
    reduce(a.as_mut(), &mut taus);
    let mut z = Mat::zeros(if with_vectors { size } else { 0 }, size);
    if with_vectors && size > 0 {
        z[(0, 0)] = one();
        let mut rest = z.as_mut().submatrix_mut(1, 1, size - 1, size - 1);
        rest.copy_from(a.as_ref().submatrix(1, 0, size - 1, size - 1));
        multiply_out(rest, &taus);
    }
    for column in 0..size {
        for row in (column + 2).min(size)..size {
            a[(row, column)] = zero();
        }
    }
    T::iterate(a.as_mut(), z.as_mut(), precision)?;
    let eigenvalues = vectors::eigenvalues(to_complex(a.as_ref()).as_ref());
    Ok(Schur { scale, form: a, vectors: z, eigenvalues, balance, precision })
}

fn all_finite<T: Element>(a: MatRef<'_, T>) -> bool {
    (0..a.ncols()).all(|column| (0..a.nrows()).all(|row| is_finite(&a[(row, column)])))
}

fn largest<T: Wide>(a: MatRef<'_, T>) -> f64 {
    (0..a.ncols()).flat_map(|column| (0..a.nrows()).map(move |row| abs(&a[(row, column)]))).fold(0.0, f64::max)
}

fn multiply<T: Wide>(mut a: MatMut<'_, T>, factor: f64) {
    if factor != 1.0 {
        for column in 0..a.ncols() {
            for row in 0..a.nrows() {
                a[(row, column)] = mul_real(&a[(row, column)], &factor);
            }
        }
    }
}

fn to_complex<T: Wide>(a: MatRef<'_, T>) -> Mat<c64> {
    Mat::from_fn(a.nrows(), a.ncols(), |row, column| a[(row, column)].to_complex())
}

/// Whether the element left of the diagonal in `row` is zero but for rounding, by its neighbours: Ahues and Tisseur's criterion.
fn is_negligible(element: impl Fn(usize, usize) -> c64, row: usize, end: usize, precision: Precision) -> bool {
    let size = |row: usize, column: usize| element(row, column).l1_norm();
    let left = size(row, row - 1);
    let least = precision.min_positive * (end as f64 / precision.epsilon);
    if left <= least {
        return true;
    }
    let mut neighbours = size(row - 1, row - 1) + size(row, row);
    if neighbours == 0.0 {
        neighbours += if row >= 2 { size(row - 1, row - 2) } else { 0.0 };
        neighbours += if row + 1 < end { size(row + 1, row) } else { 0.0 };
    }
    if left > precision.epsilon * neighbours {
        return false;
    }
    let (above, diagonal) = (size(row - 1, row), size(row, row));
    let difference = (element(row - 1, row - 1) - element(row, row)).l1_norm();
    let (larger, smaller) = (left.max(above), left.min(above));
    let (larger_diagonal, smaller_diagonal) = (diagonal.max(difference), diagonal.min(difference));
    let sum = larger + larger_diagonal;
    smaller * (larger / sum) <= least.max(precision.epsilon * (smaller_diagonal * (larger_diagonal / sum)))
}

/// The buffers of eigenvalues: two for real element types, one for complex ones.
struct EigenvalueBuffers<T>(Vec<Vectors<T>>);

impl<T: Widened> EigenvalueBuffers<T> {
    fn new(call: &CustomCall, first: usize, input: &Matrices<T>) -> Result<Self, String> {
        let parts = if T::IS_REAL { 2 } else { 1 };
        let buffers = (first..first + parts).map(|index| Vectors::new(&call.results, index, input.count));
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        if input.rows != input.columns {
            return Err("the matrices are not square".into());
        }
        if input.count > 0 && buffers.iter().any(|buffer| buffer.length != input.rows) {
            return Err("the eigenvalues do not fit".into());
        }
        Ok(Self(buffers))
    }

    /// Writes the eigenvalues of a matrix, or that there are none.
    ///
    /// # Safety
    /// The buffers must hold them, and no one else may use them meanwhile.
    unsafe fn write<W>(&self, index: usize, schur: Option<&Schur<W>>) {
        for (part, buffer) in self.0.iter().enumerate() {
            let part =
                |schur: &Schur<W>| schur.eigenvalues.iter().map(|value| T::part(value * schur.scale, part)).collect();
            let values: Option<Vec<T>> = schur.map(part);
            // SAFETY: the caller's promise.
            unsafe { buffer.fill(index, values.as_deref(), T::NAN) };
        }
    }
}

fn write<T: Element>(mut target: MatMut<'_, T>, element: impl Fn(usize, usize) -> T) {
    for column in 0..target.ncols() {
        for row in 0..target.nrows() {
            target[(row, column)] = element(row, column);
        }
    }
}

/// (a) -> (t, z, eigenvalues, how many were selected, info) with a = z t zᴴ.
pub(super) fn gees<T: Widened>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let wanted = letter(call, "mode")? == 'V' && is_read(call, [1]);
    if letter(call, "sort")? != 'N' {
        return Err("eigenvalues cannot be sorted".into());
    }
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let form = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let vectors = Matrices::<T>::new(&call.results, 1)?.like(&input)?;
    let values = EigenvalueBuffers::new(call, 2, &input)?;
    let next = 2 + values.0.len();
    let selected = Vectors::<i32>::new(&call.results, next, input.count)?;
    let info = Vectors::<i32>::new(&call.results, next + 1, input.count)?;
    for_each_matrix(context, input.count, 25 * input.rows.pow(3), |index| {
        // SAFETY: this thread alone handles this matrix, whose copy is made before a result is written.
        unsafe {
            let result = decompose(widened(input.read(index)), T::PRECISION, wanted, false);
            selected.set(index, 0);
            info.set(index, result.as_ref().map_or_else(|&unfound| unfound as i32, |_| 0));
            values.write(index, result.as_ref().ok());
            let result = result.ok().map(|mut schur| {
                multiply(schur.form.as_mut(), schur.scale);
                schur.balance.undo(schur.vectors.as_mut(), Side::Right);
                schur
            });
            write(form.write(index), |row, column| {
                result.as_ref().map_or(T::NAN, |schur| T::round(schur.form[(row, column)]))
            });
            write(vectors.write(index), |row, column| match &result {
                Some(schur) if wanted => T::round(schur.vectors[(row, column)]),
                Some(_) => zero(),
                None => T::NAN,
            });
        }
    });
    Ok(())
}

fn widened<T: Widened>(matrix: MatRef<'_, T>) -> Mat<T::Wide> {
    Mat::from_fn(matrix.nrows(), matrix.ncols(), |row, column| matrix[(row, column)].widen())
}

/// (a) -> (eigenvalues, left eigenvectors, right ones, info): uᴴ a = w uᴴ and a v = w v.
pub(super) fn geev<T: Widened>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let values = EigenvalueBuffers::new(call, 0, &input)?;
    let next = values.0.len();
    let matrices = |index| {
        let matrices = Matrices::<T::Complex>::new(&call.results, index)?;
        let fits = (matrices.count, matrices.rows, matrices.columns) == (input.count, input.rows, input.columns);
        if fits { Ok(matrices) } else { Err("the eigenvectors do not fit".to_string()) }
    };
    let sides = [
        (Side::Left, letter(call, "compute_left")? == 'V' && is_read(call, [next]), matrices(next)?),
        (Side::Right, letter(call, "compute_right")? == 'V' && is_read(call, [next + 1]), matrices(next + 1)?),
    ];
    let info = Vectors::<i32>::new(&call.results, next + 2, input.count)?;
    let with_vectors = sides.iter().any(|(_, wanted, _)| *wanted);
    for_each_matrix(context, input.count, 25 * input.rows.pow(3), |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            let matrix = widened(input.read(index));
            let is_readable = all_finite(matrix.as_ref());
            let result = decompose(matrix, T::PRECISION, with_vectors, true);
            info.set(
                index,
                match &result {
                    Ok(_) => 0,
                    Err(unfound) if is_readable => *unfound as i32,
                    Err(_) => NOT_FINITE,
                },
            );
            values.write(index, result.as_ref().ok());
            for (side, wanted, target) in &sides {
                let found = match &result {
                    Ok(schur) if *wanted => Some(eigenvectors(schur, *side, T::IS_REAL)),
                    _ => None,
                };
                let missing = if result.is_ok() { zero() } else { T::Complex::NAN };
                write(target.write(index), |row, column| {
                    found.as_ref().map_or(missing, |found| T::round_complex(found[(row, column)]))
                });
            }
        }
    });
    Ok(())
}

/// The eigenvectors of the matrix that was decomposed.
fn eigenvectors<T: Wide>(schur: &Schur<T>, side: Side, of_real_matrix: bool) -> Mat<c64> {
    let form = to_complex(schur.form.as_ref());
    let size = form.nrows();
    let of_form = vectors::eigenvectors(form.as_ref(), &schur.eigenvalues, side, schur.precision);
    let mut found = Mat::zeros(size, size);
    let z = to_complex(schur.vectors.as_ref());
    matmul(found.as_mut(), faer::Accum::Replace, z.as_ref(), of_form.as_ref(), one(), faer::Par::Seq);
    schur.balance.undo(found.rb_mut().as_mut(), side);
    vectors::normalise(&mut found, &schur.eigenvalues, of_real_matrix);
    found
}
