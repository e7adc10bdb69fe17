//! `fft` ("Fft"): the four kinds, over the last one to three dimensions, of any length, in double precision.

use num_complex::Complex64;
use rustfft::{FftDirection, FftPlanner};

use super::EvalFailure;
use super::data::{row_major_strides, sizes};
use super::dot::{load_all, store_all};
use hlo::literal::ArrayLiteral;
use hlo::ops::enumerations::FftType;
use hlo::ops::fft::FftAttributes;
use hlo::shape::ArrayShape;

/// A row-major array of complex numbers.
struct Grid {
    sizes: Vec<usize>,
    data: Vec<Complex64>,
}

impl Grid {
    /// Transforms along a dimension; the inverse is scaled by 1/N.
    fn transform(&mut self, dimension: usize, direction: FftDirection) {
        let length = self.sizes[dimension];
        if self.data.is_empty() || length == 0 {
            return;
        }
        let stride = row_major_strides(&self.sizes)[dimension];
        let plan = FftPlanner::new().plan_fft(length, direction);
        let scale = if direction == FftDirection::Inverse { 1.0 / length as f64 } else { 1.0 };
        let mut line = vec![Complex64::default(); length];
        for number in 0..self.data.len() / length {
            let base = number / stride * stride * length + number % stride;
            for (i, element) in line.iter_mut().enumerate() {
                *element = self.data[base + i * stride];
            }
            plan.process(&mut line);
            for (i, element) in line.iter().enumerate() {
                self.data[base + i * stride] = element * scale;
            }
        }
    }

    /// The same lines along the last dimension, each replaced by one of another length.
    fn resize_last(&mut self, length: usize, line: impl Fn(&[Complex64], usize) -> Complex64) {
        let Some(last) = self.sizes.last_mut() else { return };
        let old = std::mem::replace(last, length);
        let count: usize = self.sizes.iter().product();
        self.data = (0..count).map(|p| line(&self.data[p / length * old..][..old], p % length)).collect();
    }
}

/// Fourier transform along the last dimensions, whose lengths in the time domain are `fft_length`.
pub(super) fn fft(
    operand: &ArrayLiteral,
    attributes: &FftAttributes<'_>,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let lengths = sizes(attributes.fft_length);
    let rank = operand.shape().rank();
    if lengths.is_empty() || lengths.len() > rank {
        return Err(EvalFailure::malformed("`fft_length` does not fit the operand"));
    }
    let (last, inner) = (rank - 1, rank - lengths.len());
    let length = lengths[lengths.len() - 1];
    let half = length / 2 + 1;
    let mut grid = Grid { sizes: sizes(&operand.shape().dimensions), data: load_all(operand) };
    match attributes.fft_type {
        FftType::Fft => (inner..rank).rev().for_each(|d| grid.transform(d, FftDirection::Forward)),
        FftType::Ifft => (inner..rank).rev().for_each(|d| grid.transform(d, FftDirection::Inverse)),
        FftType::Rfft => {
            grid.transform(last, FftDirection::Forward);
            if grid.sizes[last] < half {
                return Err(EvalFailure::malformed("the last dimension does not have the length of `fft_length`"));
            }
            grid.resize_last(if length == 0 { 0 } else { half }, |line, i| line[i]);
            (inner..last).rev().for_each(|d| grid.transform(d, FftDirection::Forward));
        }
        FftType::Irfft => {
            if grid.sizes[last] < half && length > 0 {
                return Err(EvalFailure::malformed("the last dimension is not half of `fft_length`"));
            }
            (inner..last).rev().for_each(|d| grid.transform(d, FftDirection::Inverse));
            // The part beyond the Nyquist frequency is the reverse conjugate; the first and, of an even length,
            // the Nyquist element are taken as real.
            grid.resize_last(length, |line, i| match i {
                i if i == 0 || 2 * i == length => Complex64::new(line[i].re, 0.0),
                i if i < half => line[i],
                i => line[length - i].conj(),
            });
            grid.transform(last, FftDirection::Inverse);
        }
    }
    if grid.data.len() != result.element_count() as usize {
        return Err(EvalFailure::malformed("the result does not have the size of the transform"));
    }
    store_all(&grid.data, result)
}
