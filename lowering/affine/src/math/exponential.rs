//! `exp`, `expm1`, `tanh` and `logistic` for `f32`: 2^n times a polynomial of the rest.

use super::Math;
use mlir_ext::{
    arith::{CmpfPredicate, CmpiPredicate},
    builder::Value,
};

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two floats, the first with enough zeros at its end for exact products.
const LN_2: [f64; 2] = [0.693_145_752, 1.428_606_77e-6];

impl<'c> Math<'_, 'c> {
    /// Error at most 0.86 units in the last place; denormal results are right, too.
    pub(super) fn exp(self, x: Value<'c>) -> Value<'c> {
        let x = self.clamp(x, -104.0, 104.0);
        let n = self.round_product(x, LOG2_E);
        let rest = self.subtract_multiple_of_ln_2(x, n.float);
        let power = self.horner(
            rest,
            &[1.378_059_39e-3, 8.373_124_52e-3, 4.166_953_64e-2, 1.666_647_20e-1, 0.499_999_851, 1.0, 1.0],
        );
        self.scale(power, n.integer)
    }

    fn subtract_multiple_of_ln_2(self, x: Value<'c>, n: Value<'c>) -> Value<'c> {
        LN_2.iter().fold(x, |rest, &part| self.builder.fma(n, self.constant(x, -part), rest))
    }

    /// Error at most 1 unit in the last place.
    pub(super) fn expm1(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        // Beyond, the result is -1 or infinite.
        let limited = self.clamp(x, -104.0, 89.0);
        let n = self.round_product(limited, LOG2_E);
        let rest = self.subtract_multiple_of_ln_2(limited, n.float);
        let polynomial = self.horner(
            rest,
            &[1.973_509_79e-4, 1.393_090_70e-3, 8.333_439_94e-3, 4.166_680_20e-2, 1.666_667_16e-1, 4.999_999_70e-1],
        );
        let is = |integer| builder.cmpi(CmpiPredicate::Eq, n.integer, builder.integer_like(n.integer, integer));
        let (is_zero, is_one) = (is(0), is(1));
        let half = self.constant(x, 0.5);
        let linear = builder.select(is_one, builder.addf(rest, half), rest);
        let small = builder.fma(polynomial, builder.mulf(rest, rest), linear);
        // Half of 2^n - 1 as an unevaluated sum, so that the subtraction loses nothing.
        let scaled = self.scale(half, n.integer);
        let difference = builder.subf(scaled, half);
        let error = builder.subf(builder.subf(scaled, difference), half);
        let large = builder.addf(builder.fma(small, scaled, error), difference);
        let large = builder.addf(large, large);
        let result = builder.select(is_one, builder.addf(small, small), large);
        let result = builder.select(is_zero, small, result);
        builder.select(self.compare(x, CmpfPredicate::Oeq, 0.0), x, result)
    }

    /// Error at most 1.8 units in the last place.
    pub(super) fn tanh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let magnitude = builder.absf(x);
        let one = self.constant(x, 1.0);
        let exponential = self.exp(builder.addf(magnitude, magnitude));
        let quotient = builder.divf(self.constant(x, -2.0), builder.addf(exponential, one));
        let large = builder.addf(one, quotient);
        let square = builder.mulf(x, x);
        let polynomial = self.horner(square, &[1.573_944_09e-2, -5.230_255_80e-2, 1.331_524_70e-1, -3.333_276_81e-1]);
        let small = builder.fma(builder.mulf(polynomial, square), magnitude, magnitude);
        let is_large = self.compare(magnitude, CmpfPredicate::Ogt, 0.55);
        builder.copysign(builder.select(is_large, large, small), x)
    }

    /// `1 / (1 + exp(-x))` given `exp(-|x|)`, which cannot overflow; for any float type. The roundings of the sum and of
    /// the quotient are made good, so that of `exp`'s error and half a unit is left.
    pub(super) fn logistic(self, x: Value<'c>, exponential: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let one = self.constant(x, 1.0);
        let is_negative = self.compare(x, CmpfPredicate::Olt, 0.0);
        let numerator = builder.select(is_negative, exponential, one);
        let sum = builder.addf(one, exponential);
        let lost = builder.subf(exponential, builder.subf(sum, one));
        let quotient = builder.divf(numerator, sum);
        let rest = builder.fma(builder.negf(quotient), sum, numerator);
        let rest = builder.fma(builder.negf(quotient), lost, rest);
        // 1 / sum, for sums between 1 and 2, to 4 percent: enough for a rest of one unit.
        let reciprocal = builder.fma(self.constant(x, -0.5), sum, self.constant(x, 1.457));
        builder.fma(rest, reciprocal, quotient)
    }

    /// `sinh` or `cosh` for `f32`, in `f64`: used where no vector library is at hand.
    pub(super) fn sinh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let wide = self.widen(x);
        let (growing, shrinking) = self.exponentials(wide);
        let large = builder.mulf(builder.subf(growing, shrinking), self.constant(wide, 0.5));
        let large = builder.copysign(large, wide);
        let square = builder.mulf(wide, wide);
        let series = self.horner(square, &[1.0 / 362_880.0, 1.0 / 5040.0, 1.0 / 120.0, 1.0 / 6.0]);
        let small = builder.fma(builder.mulf(series, square), wide, wide);
        let is_small = self.compare(builder.absf(wide), CmpfPredicate::Olt, 0.5);
        let result = self.narrow(builder.select(is_small, small, large));
        // The fused multiply-add makes +0 of -0.
        let is_zero_or_nan = self.compare(x, CmpfPredicate::Ueq, 0.0);
        builder.select(is_zero_or_nan, x, result)
    }

    /// See `sinh`.
    pub(super) fn cosh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let wide = self.widen(x);
        let (growing, shrinking) = self.exponentials(wide);
        let result = self.narrow(builder.mulf(builder.addf(growing, shrinking), self.constant(wide, 0.5)));
        let is_nan = builder.cmpf(CmpfPredicate::Uno, x, x);
        builder.select(is_nan, x, result)
    }

    /// exp(|x|) and exp(-|x|) in `f64`, good for an `f32`.
    fn exponentials(self, x: Value<'c>) -> (Value<'c>, Value<'c>) {
        let builder = self.builder;
        let power = builder.mulf(builder.absf(x), self.constant(x, LOG2_E));
        let growing = self.exp2_f64(self.clamp(power, -200.0, 200.0));
        (growing, builder.divf(self.constant(x, 1.0), growing))
    }
}
