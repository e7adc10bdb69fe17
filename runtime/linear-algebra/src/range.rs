//! Matrices so small or so large that squares of their elements would be lost or infinite, brought into range.

use faer::{
    Mat, MatRef,
    traits::math_utils::{imag, mul_real, real},
};

use crate::Element;

/// Exponents of the largest element of a matrix that needs no scale.
const IN_RANGE: std::ops::RangeInclusive<i32> = -30..=30;

/// A matrix times the power of two that brings its largest element near 1, and that power; `None` where it is in range. `is_read` says
/// which elements count.
pub(crate) fn scaled<T: Element>(
    matrix: MatRef<'_, T>,
    is_read: impl Fn(usize, usize) -> bool,
) -> Option<(Mat<T>, f64)> {
    let (rows, columns) = matrix.shape();
    let size = |element: &T| f64::abs(T::widen(real(element))).max(f64::abs(T::widen(imag(element))));
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
    let read = places.filter(|&(row, column)| is_read(row, column));
    let largest = read.fold(0.0, |largest: f64, place| largest.max(size(&matrix[place])));
    let exponent = largest.log2().floor() as i32;
    if largest == 0.0 || IN_RANGE.contains(&exponent) {
        return None;
    }
    let most = if T::IS_SINGLE { 120 } else { 1000 };
    let factor = f64::powi(2.0, -exponent.clamp(-most, most));
    let real_factor = T::narrow(factor);
    Some((Mat::from_fn(rows, columns, |row, column| mul_real(&matrix[(row, column)], &real_factor)), factor))
}

/// What numbers of a scaled matrix are for the matrix itself.
pub(crate) fn unscaled<T: Element>(values: Vec<T::Real>, factor: f64) -> Vec<T::Real> {
    values.into_iter().map(|value| T::narrow(T::widen(value) / factor)).collect()
}
