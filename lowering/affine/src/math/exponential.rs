//! `exp`, `expm1`, `tanh` and `logistic` for `f32`: 2^n times a polynomial of the rest.

use super::Math;
use mlir_ext::{
    arith::{CmpfPredicate, CmpiPredicate},
    builder::Value,
};

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two floats, the first with enough zeros at its end for exact products.
const LN_2: [f64; 2] = [0.693_145_752, 1.428_606_77e-6];

/// Here, and below, `exp` is zero.
const LEAST_EXPONENT: f64 = -104.0;

/// What `tanh` of a float type is made of.
struct Tanh {
    /// From here on the result is 1 to the last bit.
    bound: f64,
    /// Adding it puts the nearest integer into the low bits of the mantissa.
    rounding_shift: f64,
    /// ln 2 in two floats, the first with enough zeros at its end for exact products.
    ln_2: [f64; 2],
    /// (exp(x) - 1 - x) / x^2 for |x| up to ln 2 / 2.
    growth: &'static [f64],
    bits: u32,
    mantissa_bits: i64,
    /// The bits of 1.
    one: i64,
    /// Whether results near 1 come from their distance to 1: half a unit less error, for four operations more.
    by_distance: bool,
}

impl Tanh {
    /// (exp(2x) - 1 - 2x) / (2 x^2) for |x| up to ln 2 / 4: the coefficients times powers of two.
    fn growth_of_twice(&self) -> Vec<f64> {
        let powers = (1..=self.growth.len() as i32).rev();
        self.growth.iter().zip(powers).map(|(coefficient, power)| coefficient * 2f64.powi(power)).collect()
    }
}

const TANH_F32: Tanh = Tanh {
    bound: 9.1,
    rounding_shift: 12_582_912.0,
    ln_2: LN_2,
    growth: &[1.985_028_802e-4, 1.394_109_08e-3, 8.333_382_223e-3, 4.166_635_484e-2, 1.666_666_64e-1, 5.000_000_046e-1],
    bits: 32,
    mantissa_bits: 23,
    one: 0x3f80_0000,
    by_distance: true,
};

const TANH_F64: Tanh = Tanh {
    bound: 20.0,
    rounding_shift: 6_755_399_441_055_744.0,
    ln_2: [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10],
    growth: &[
        2.505_692_258_987_971e-8,
        2.762_654_622_201_818e-7,
        2.755_739_868_129_999_7e-6,
        2.480_150_403_507_09e-5,
        1.984_126_972_806_423_2e-4,
        1.388_888_893_256_240_4e-3,
        8.333_333_333_385_44e-3,
        4.166_666_666_657_378e-2,
        1.666_666_666_666_659_7e-1,
        5.000_000_000_000_005e-1,
    ],
    bits: 64,
    mantissa_bits: 52,
    one: 0x3ff0_0000_0000_0000,
    by_distance: false,
};

impl<'c> Math<'_, 'c> {
    /// Error at most 0.86 units in the last place; denormal results are right, too.
    pub(super) fn exp(self, x: Value<'c>) -> Value<'c> {
        let x = self.clamp(x, LEAST_EXPONENT, 104.0);
        let n = self.round_product(x, LOG2_E);
        let rest = self.subtract_multiple_of_ln_2(x, n.float);
        let power = self.horner(
            rest,
            &[1.378_059_39e-3, 8.373_124_52e-3, 4.166_953_64e-2, 1.666_647_20e-1, 0.499_999_851, 1.0, 1.0],
        );
        if self.builder.lanes_of(x.r#type()).is_none() {
            return self.scale(power, n.integer);
        }
        // Rounding to zero is twenty times slower on some processors, and masked elements are all like this. Threads of a GPU,
        // which take no vectors, are as fast.
        let is_zero = self.compare(x, CmpfPredicate::Ole, LEAST_EXPONENT);
        self.scale(self.builder.select(is_zero, self.constant(x, 0.0), power), n.integer)
    }

    fn subtract_multiple_of_ln_2(self, x: Value<'c>, n: Value<'c>) -> Value<'c> {
        LN_2.iter().fold(x, |rest, &part| self.builder.fma(n, self.constant(x, -part), rest))
    }

    /// Error at most 1 unit in the last place.
    pub(super) fn expm1(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        // Beyond, the result is -1 or infinite.
        let limited = self.clamp(x, -30.0, 89.0);
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

    /// Error at most 2.3 units in the last place for `f32`, 3 for `f64`.
    pub(super) fn tanh(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let constants = if self.is_double(x) { &TANH_F64 } else { &TANH_F32 };
        let magnitude = builder.absf(x);
        let limited = self.at_most(magnitude, constants.bound);
        // exp(2|x|) = power * (1 + 2 growth), from |x| less a multiple of ln 2 / 2.
        let shift = self.constant(x, constants.rounding_shift);
        let shifted = builder.fma(limited, self.constant(x, 2.0 * LOG2_E), shift);
        let n = builder.subf(shifted, shift);
        let reduced = |rest, &part: &f64| builder.fma(n, self.constant(x, -0.5 * part), rest);
        let rest = constants.ln_2.iter().fold(limited, reduced);
        let polynomial = self.horner(rest, &constants.growth_of_twice());
        let growth = builder.fma(polynomial, builder.mulf(rest, rest), rest);
        let [one, half] = [1.0, 0.5].map(|number| self.constant(x, number));
        let bits = builder.bitcast(shifted, builder.integer_type(constants.bits));
        let exponent = builder.shli(bits, builder.integer_like(bits, constants.mantissa_bits));
        let biased = builder.addi(exponent, builder.integer_like(bits, constants.one));
        let power = builder.bitcast(biased, builder.element_type_of(x.r#type()));
        // tanh = (exp(2|x|) - 1) / (exp(2|x|) + 1), both halved, far from zero 1 - 2 / (exp(2|x|) + 1).
        let less_one = builder.fma(power, growth, builder.fma(power, half, self.constant(x, -0.5)));
        let denominator = builder.addf(less_one, one);
        if !constants.by_distance {
            return builder.copysign(builder.divf(less_one, denominator), x);
        }
        let is_large = self.compare(magnitude, CmpfPredicate::Ogt, 1.0);
        let numerator = builder.select(is_large, self.constant(x, -1.0), less_one);
        let quotient = builder.divf(numerator, denominator);
        let result = builder.select(is_large, builder.addf(one, quotient), quotient);
        builder.copysign(result, x)
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

    /// `exp` for `f64` by the library, which takes vectors apart where a result is too small.
    pub(super) fn exp_by_library(self, x: Value<'c>) -> Value<'c> {
        let (builder, zero) = (self.builder, self.constant(x, 0.0));
        if builder.lanes_of(x.r#type()).is_none() {
            return self.library("exp", &[x]);
        }
        let is_zero = self.compare(x, CmpfPredicate::Olt, -746.0);
        let result = self.library("exp", &[builder.select(is_zero, zero, x)]);
        builder.select(is_zero, zero, result)
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
