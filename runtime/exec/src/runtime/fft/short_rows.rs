//! Transforms of short rows, one after the other: each is a vector that is multiplied by the matrix of the roots of unity. That is more
//! multiplications than a fast transform has, but all in vectors, of which several rows share each load of the matrix.

use super::{
    FftKind,
    lanes::{Lane, root},
};
use aligned_vec::AVec;
use num_complex::Complex;
use pulp::{Arch, Simd, WithSimd};
use std::{array::from_fn, iter::repeat_n};

/// Points of a row of real numbers that is transformed so, at most, and of one of a prime number of complex ones.
const MOST_POINTS: usize = 31;

/// Complex points of any row that is transformed so, at most.
const MOST_COMPLEX_POINTS: usize = 7;

/// The largest prime factor that the rustfft crate has vector code for.
const LARGEST_FAST_FACTOR: usize = 11;

/// Rows that share each load of the matrix.
const ROWS: usize = 8;

/// Numbers of a row of the matrix are a multiple of so many: vectors of any processor end with it.
const UNIT: usize = 16;

/// The matrix of transforms of one kind and length.
#[derive(Debug)]
pub(super) struct ShortRowPlan<T> {
    /// The real numbers of a row before, and after it is transformed.
    lengths: [usize; 2],
    /// Which of those before the result depends on.
    inputs: Vec<usize>,
    /// For each of these what the numbers after depend on it with, padded to a multiple of [`UNIT`].
    matrix: AVec<T>,
}

impl<T: Lane> ShortRowPlan<T> {
    /// None where another way is faster.
    pub(super) fn new(kind: FftKind, points: usize) -> Option<Self> {
        let is_real = matches!(kind, FftKind::RealForward | FftKind::RealInverse);
        let has_slow_factor =
            || points > LARGEST_FAST_FACTOR && !(2..points).any(|factor| points.is_multiple_of(factor));
        let pays = is_real || points <= MOST_COMPLEX_POINTS || has_slow_factor();
        if !(2..=MOST_POINTS).contains(&points) || !pays {
            return None;
        }
        let half = points / 2 + 1;
        let lengths = match kind {
            FftKind::Forward | FftKind::Inverse => [2 * points, 2 * points],
            FftKind::RealForward => [points, 2 * half],
            FftKind::RealInverse => [2 * half, points],
        };
        // What stands in its spectrum once, real numbers; all else of a real signal stands there a second time, conjugated.
        let is_alone = |input: usize| input / 2 == 0 || input / 2 * 2 == points;
        let is_ignored = |input: usize| kind == FftKind::RealInverse && !input.is_multiple_of(2) && is_alone(input);
        let inputs: Vec<usize> = (0..lengths[0]).filter(|&input| !is_ignored(input)).collect();
        let factor = |input: usize, output: usize| match kind {
            FftKind::Forward => part(turned(root(input / 2 * (output / 2), points), input), output),
            FftKind::Inverse => part(turned(root(input / 2 * (output / 2), points).conj(), input), output),
            FftKind::RealForward => part(root(input * (output / 2), points), output),
            FftKind::RealInverse => {
                let times = if is_alone(input) { 1.0 } else { 2.0 };
                times * turned(root(input / 2 * output, points).conj(), input).re
            }
        };
        let padding = lengths[1].next_multiple_of(UNIT) - lengths[1];
        let row = |&input: &usize| {
            let factors = (0..lengths[1]).map(move |output| T::rounded(factor(input, output)));
            factors.chain(repeat_n(T::zero(), padding))
        };
        let matrix = AVec::from_iter(64, inputs.iter().flat_map(row).collect::<Vec<T>>());
        Some(Self { lengths, inputs, matrix })
    }

    /// The real numbers of a row before, and after it is transformed.
    pub(super) fn lengths(&self) -> [usize; 2] {
        self.lengths
    }

    /// Transforms so many rows, and multiplies the results.
    ///
    /// # Safety
    /// Both must hold the rows, unused by others; they may be the same place, and not overlap otherwise.
    pub(super) unsafe fn transform(&self, count: usize, source: *const T, target: *mut T, scale: T) {
        Arch::new().dispatch(Transform { plan: self, count, source, target, scale });
    }
}

/// The real or the imaginary part of a number, which stand in turn.
fn part(value: Complex<f64>, number: usize) -> f64 {
    if number.is_multiple_of(2) { value.re } else { value.im }
}

/// A factor of a real part, or that of the imaginary part.
fn turned(factor: Complex<f64>, number: usize) -> Complex<f64> {
    if number.is_multiple_of(2) { factor } else { factor * Complex::i() }
}

struct Transform<'a, T> {
    plan: &'a ShortRowPlan<T>,
    count: usize,
    source: *const T,
    target: *mut T,
    scale: T,
}

impl<T: Lane> WithSimd for Transform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut room = [T::default(); ROWS * 2 * (MOST_POINTS + 1)];
        let whole = self.count / ROWS * ROWS;
        (0..whole).step_by(ROWS).for_each(|row| self.rows::<S, ROWS>(simd, row, &mut room));
        (whole..self.count).for_each(|row| self.rows::<S, 1>(simd, row, &mut room));
    }
}

impl<T: Lane> Transform<'_, T> {
    /// Transforms some rows, of which there is room for a copy: it is what is read when results are already written.
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&self, simd: S, first: usize, room: &mut [T]) {
        let [before, after] = self.plan.lengths;
        let copy = &mut room[..R * before];
        // SAFETY: the rows are there, and nobody writes them.
        unsafe { self.source.add(first * before).copy_to_nonoverlapping(copy.as_mut_ptr(), copy.len()) };
        let rows: [&[T]; R] = from_fn(|row| &copy[row * before..][..before]);
        // SAFETY: the results are there, and nobody else uses them.
        let results = unsafe { std::slice::from_raw_parts_mut(self.target.add(first * after), R * after) };
        let width = size_of::<T::Vector<S>>() / size_of::<T>();
        let vectors = T::vectors::<S>(&self.plan.matrix);
        let columns = after.next_multiple_of(UNIT) / width;
        let scale = T::splat(simd, self.scale);
        for column in 0..after.div_ceil(width) {
            let mut sums = [T::splat(simd, T::zero()); R];
            for (&input, &factors) in self.plan.inputs.iter().zip(vectors[column..].iter().step_by(columns)) {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = T::mul_add(simd, T::splat(simd, row[input]), factors, *sum);
                }
            }
            for (row, sum) in sums.into_iter().enumerate() {
                let place = row * after + column * width..(row * after + (column + 1) * width).min((row + 1) * after);
                T::store_first(simd, &mut results[place], T::product(simd, sum, scale));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar128b, Scalar256b};

    use super::*;

    /// Vectors of a half and of a quarter of the size, as other processors have, give what those of this one give.
    #[test]
    fn vectors_of_any_size_are_alike() {
        for (kind, points) in [
            (FftKind::Forward, 3),
            (FftKind::Inverse, 7),
            (FftKind::Forward, 29),
            (FftKind::RealForward, 24),
            (FftKind::RealForward, 31),
            (FftKind::RealInverse, 9),
        ] {
            let Some(plan) = ShortRowPlan::<f64>::new(kind, points) else { panic!("{points} has no plan") };
            let count = ROWS + 3;
            let [before, after] = plan.lengths.map(|length| count * length);
            let source: Vec<f64> = (0..before).map(|index| (index * 7 % 11) as f64 - 5.0).collect();
            let [mut widest, mut wide, mut narrow] = [(); 3].map(|()| vec![0.0; after]);
            let transform = |target: &mut Vec<f64>| Transform {
                plan: &plan,
                count,
                source: source.as_ptr(),
                target: target.as_mut_ptr(),
                scale: 0.5,
            };
            Arch::new().dispatch(transform(&mut widest));
            transform(&mut wide).with_simd(Scalar256b);
            transform(&mut narrow).with_simd(Scalar128b);
            for other in [wide, narrow] {
                let difference = other.iter().zip(&widest).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(difference < 1e-12, "{kind:?} of {points}: {difference}");
            }
        }
    }
}
