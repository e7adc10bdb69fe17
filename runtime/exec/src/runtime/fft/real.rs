//! Rows of real numbers, one after the other: pairs of neighbours are complex numbers, of half the length.

use super::lanes::{InVectors, Lane, in_vectors, root, rounded};
use num_complex::Complex;
use pulp::Simd;
use rustfft::{Fft, FftDirection};
use std::{array::from_fn, slice, sync::Arc};

/// How rows of one even length above [`SHORTEST_ROW`] are transformed in one direction.
pub(super) struct RealPlan<T> {
    pairs: Arc<dyn Fft<T>>,
    /// `-i` times the roots of unity, conjugates for an inverse transform: each real part twice,
    real: Vec<T>,
    /// and each imaginary part, the negative one first.
    imaginary: Vec<T>,
}

/// Room to transform a row.
pub(super) struct RealScratch<T> {
    pairs: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<T: Lane> RealPlan<T> {
    /// Of the plan for pairs of neighbours.
    pub(super) fn new(pairs: Arc<dyn Fft<T>>) -> Self {
        let half = pairs.len();
        let factor = |k: usize| {
            let factor = Complex::new(0.0, -1.0) * root(k, 2 * half);
            rounded::<T>(if pairs.fft_direction() == FftDirection::Inverse { factor.conj() } else { factor })
        };
        let real = (0..half).flat_map(|k| [factor(k).re; 2]).collect();
        let imaginary = (0..half).flat_map(|k| [-factor(k).im, factor(k).im]).collect();
        Self { pairs, real, imaginary }
    }

    pub(super) fn scratch(&self) -> RealScratch<T> {
        let length = self.pairs.get_immutable_scratch_len().max(self.pairs.get_outofplace_scratch_len());
        let zeros = |length| vec![Complex::default(); length];
        RealScratch { pairs: zeros(self.pairs.len()), scratch: zeros(length) }
    }

    /// From pairs of neighbours to the first half of the spectrum, one number more.
    pub(super) fn forward(&self, row: &[Complex<T>], spectrum: &mut [Complex<T>], scratch: &mut RealScratch<T>) {
        let half = self.pairs.len();
        self.pairs.process_immutable_with_scratch(row, &mut scratch.pairs, &mut scratch.scratch);
        in_vectors(Mirror {
            plan: self,
            source: &scratch.pairs,
            target: &mut spectrum[..half],
            scale: T::rounded(0.5),
        });
        let first = scratch.pairs[0];
        spectrum[0] = (first.re + first.im).into();
        spectrum[half] = (first.re - first.im).into();
    }

    /// From the first half of a spectrum to pairs of neighbours, times the length and a scale. The first and the last number
    /// are taken for real.
    pub(super) fn inverse(
        &self,
        spectrum: &[Complex<T>],
        row: &mut [Complex<T>],
        scratch: &mut RealScratch<T>,
        scale: T,
    ) {
        let half = self.pairs.len();
        in_vectors(Mirror { plan: self, source: &spectrum[..half], target: &mut scratch.pairs, scale });
        let (first, last) = (spectrum[0].re, spectrum[half].re);
        scratch.pairs[0] = Complex::new((first + last) * scale, (first - last) * scale);
        self.pairs.process_outofplace_with_scratch(&mut scratch.pairs, row, &mut scratch.scratch);
    }
}

/// Between the spectrum of pairs and that of the row: sums with the conjugates in the opposite order, and differences times the
/// factors, for all but the first number.
struct Mirror<'a, T> {
    plan: &'a RealPlan<T>,
    source: &'a [Complex<T>],
    target: &'a mut [Complex<T>],
    scale: T,
}

/// Complex numbers that are computed together.
const BLOCK: usize = 8;
/// Their parts.
const PARTS: usize = 2 * BLOCK;

/// Rows must be longer.
pub(super) const SHORTEST_ROW: usize = 2 * BLOCK;

impl<T: Lane> InVectors for Mirror<'_, T> {
    // Loops over a block become vectors of those that the processor has.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { plan, source, target, scale } = self;
        let half = source.len();
        let (source, target) = (parts(source), parts_mut(target));
        for begin in (1..half).step_by(BLOCK) {
            // The last two may overlap.
            let begin = begin.min(half - BLOCK);
            let at =
                |values: &[T], position: usize| -> [T; PARTS] { from_fn(|part| values[2 * position..][..PARTS][part]) };
            let (a, b) = (at(source, begin), at(source, half + 1 - BLOCK - begin));
            let (real, imaginary) = (at(&plan.real, begin), at(&plan.imaginary, begin));
            let mirrored: [T; PARTS] = from_fn(|part| b[(PARTS - 1 - part) ^ 1]);
            let conjugate: [T; PARTS] = from_fn(|part| if part % 2 == 0 { mirrored[part] } else { -mirrored[part] });
            let difference: [T; PARTS] = from_fn(|part| a[part] - conjugate[part]);
            let swapped: [T; PARTS] = from_fn(|part| difference[part ^ 1]);
            let turned: [T; PARTS] = from_fn(|part| real[part] * difference[part] + imaginary[part] * swapped[part]);
            let result: [T; PARTS] = from_fn(|part| (a[part] + conjugate[part] + turned[part]) * scale);
            target[2 * begin..][..PARTS].copy_from_slice(&result);
        }
    }
}

/// Real and imaginary parts in turns.
fn parts<T>(values: &[Complex<T>]) -> &[T] {
    // SAFETY: a complex number is its two parts.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), 2 * values.len()) }
}

fn parts_mut<T>(values: &mut [Complex<T>]) -> &mut [T] {
    // SAFETY: as above.
    unsafe { slice::from_raw_parts_mut(values.as_mut_ptr().cast(), 2 * values.len()) }
}
