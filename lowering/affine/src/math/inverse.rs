//! Inverse functions for `f32`, computed in `f64`: used where no vector library is at hand. Results are right to the last bit
//! but for rare cases, so nothing here is done twice for accuracy.

use super::Math;
use mlir_ext::{arith::CmpfPredicate, builder::Value};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

impl<'c> Math<'_, 'c> {
    /// The angle of the point (x, y), of `f32` operands.
    pub(super) fn atan2(self, y: Value<'c>, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let angle = self.atan2_f64(self.widen(y), self.widen(x));
        let is_nan = builder.cmpf(CmpfPredicate::Uno, x, y);
        builder.select(is_nan, self.constant(x, f64::NAN), self.narrow(angle))
    }

    pub(super) fn atan(self, x: Value<'c>) -> Value<'c> {
        self.atan2(x, self.constant(x, 1.0))
    }

    pub(super) fn asin(self, x: Value<'c>) -> Value<'c> {
        let wide = self.widen(x);
        self.narrow(self.nan_beyond_one(x, self.atan2_f64(wide, self.cosine_of_sine(wide))))
    }

    pub(super) fn acos(self, x: Value<'c>) -> Value<'c> {
        let wide = self.widen(x);
        self.narrow(self.nan_beyond_one(x, self.atan2_f64(self.cosine_of_sine(wide), wide)))
    }

    /// sqrt(1 - x²), exact where x is an `f32`.
    fn cosine_of_sine(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let one = self.constant(x, 1.0);
        builder.sqrt(builder.mulf(builder.subf(one, x), builder.addf(one, x)))
    }

    /// `result` where |x| ≤ 1, else NaN.
    fn nan_beyond_one(self, x: Value<'c>, result: Value<'c>) -> Value<'c> {
        let is_inside = self.compare(self.builder.absf(x), CmpfPredicate::Ole, 1.0);
        self.builder.select(is_inside, result, self.constant(result, f64::NAN))
    }

    /// The angle of a point in `f64` to about 2^-35, not for NaN.
    fn atan2_f64(self, y: Value<'c>, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let (across, up) = (builder.absf(x), builder.absf(y));
        let is_steep = builder.cmpf(CmpfPredicate::Ogt, up, across);
        let small = builder.select(is_steep, across, up);
        let large = builder.select(is_steep, up, across);
        let slope = builder.divf(small, large);
        // 0 / 0 counts as 0, ∞ / ∞ as 1.
        let is_zero = self.compare(large, CmpfPredicate::Oeq, 0.0);
        let slope = builder.select(is_zero, self.constant(x, 0.0), slope);
        let is_infinite = self.compare(small, CmpfPredicate::Oeq, f64::INFINITY);
        let one = self.constant(x, 1.0);
        let slope = builder.select(is_infinite, one, slope);
        // Above tan(π/8), the angle from π/4.
        let is_wide = self.compare(slope, CmpfPredicate::Ogt, std::f64::consts::SQRT_2 - 1.0);
        let from_diagonal = builder.divf(builder.subf(slope, one), builder.addf(slope, one));
        let reduced = builder.select(is_wide, from_diagonal, slope);
        let coefficients: Vec<f64> =
            (0..13).rev().map(|term| f64::from(1 - 2 * (term % 2)) / f64::from(2 * term + 1)).collect();
        let series = self.horner(builder.mulf(reduced, reduced), &coefficients);
        let angle = builder.mulf(series, reduced);
        let zero = self.constant(x, 0.0);
        let angle = builder.addf(builder.select(is_wide, self.constant(x, FRAC_PI_4), zero), angle);
        let angle = builder.select(is_steep, builder.subf(self.constant(x, FRAC_PI_2), angle), angle);
        // The sign bit of x counts, also that of -0.
        let is_left = self.compare(builder.copysign(one, x), CmpfPredicate::Olt, 0.0);
        let angle = builder.select(is_left, builder.subf(self.constant(x, PI), angle), angle);
        builder.copysign(angle, y)
    }

    pub(super) fn asinh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let magnitude = builder.absf(self.widen(x));
        let root = builder.sqrt(self.fma_constant(magnitude, magnitude, 1.0));
        let logarithm = self.ln_f64(builder.addf(magnitude, root));
        self.odd_function(x, -1.0 / 6.0, logarithm)
    }

    pub(super) fn atanh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let magnitude = builder.absf(self.widen(x));
        let one = self.constant(magnitude, 1.0);
        let quotient = builder.divf(builder.addf(one, magnitude), builder.subf(one, magnitude));
        let logarithm = builder.mulf(self.ln_f64(quotient), self.constant(magnitude, 0.5));
        self.odd_function(x, 1.0 / 3.0, self.nan_beyond_one(x, logarithm))
    }

    pub(super) fn acosh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let wide = self.widen(x);
        let one = self.constant(wide, 1.0);
        let root = builder.sqrt(builder.mulf(builder.subf(wide, one), builder.addf(wide, one)));
        let result = self.narrow(self.ln_f64(builder.addf(wide, root)));
        let is_inside = self.compare(x, CmpfPredicate::Oge, 1.0);
        builder.select(is_inside, result, self.constant(x, f64::NAN))
    }

    /// `magnitude_result` with the sign of the `f32` x; where x is so small that a logarithm near 1 has no digits left, x +
    /// `cubic`·x³ instead. NaN stays.
    fn odd_function(self, x: Value<'c>, cubic: f64, magnitude_result: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let wide = self.widen(x);
        let cube = builder.mulf(builder.mulf(wide, wide), wide);
        let series = builder.fma(cube, self.constant(wide, cubic), wide);
        let is_small = self.compare(builder.absf(wide), CmpfPredicate::Olt, 1.0 / 4096.0);
        let large = builder.copysign(magnitude_result, wide);
        let result = self.narrow(builder.select(is_small, series, large));
        let is_zero_or_nan = self.compare(x, CmpfPredicate::Ueq, 0.0);
        builder.select(is_zero_or_nan, x, result)
    }

    /// The natural logarithm of a non-negative `f64` that is no denormal.
    fn ln_f64(self, x: Value<'c>) -> Value<'c> {
        let logarithm = self.log2_f64(x);
        self.builder.mulf(logarithm, self.constant(x, LN_2))
    }
}
