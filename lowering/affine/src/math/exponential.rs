//! `exp`, `expm1`, `tanh` and `logistic` for `f32`: 2^n times a polynomial of the rest.

use super::Math;
use mlir_ext::{
    arith::{CmpfPredicate, CmpiPredicate},
    builder::Value,
};

const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// What exponentials of a float type are made of.
struct Format {
    bits: u32,
    /// Bits behind those of the exponent.
    mantissa_bits: u32,
    /// What is added to an exponent to be stored.
    bias: u32,
    /// Adding it puts the nearest integer into the low bits of the mantissa: 1.5 times the power of two whose last bit is worth 1.
    rounding_shift: f64,
    /// ln 2 in two floats, the first with enough zeros at its end for exact products.
    ln_2: [f64; 2],
    /// exp(x) for |x| up to ln 2 / 2.
    power: &'static [f64],
    /// (exp(x) - 1 - x) / x^2 for |x| up to ln 2 / 2.
    growth: &'static [f64],
    /// Arguments of `exp`: at the first one the least of two factors is zero, at the last one the product is infinite.
    exp_domain: [f64; 2],
    /// Arguments of `logistic`: at the first one it is zero, at the last one 1 to the last bit.
    logistic_domain: [f64; 2],
    /// Where `tanh` is 1 to the last bit.
    tanh_bound: f64,
}

const F32: Format = Format {
    bits: 32,
    mantissa_bits: 23,
    bias: 127,
    rounding_shift: 12_582_912.0,
    ln_2: [0.693_145_752, 1.428_606_77e-6],
    power: &[1.378_059_39e-3, 8.373_124_52e-3, 4.166_953_64e-2, 1.666_647_20e-1, 0.499_999_851, 1.0, 1.0],
    growth: &[1.985_028_802e-4, 1.394_109_08e-3, 8.333_382_223e-3, 4.166_635_484e-2, 1.666_666_64e-1, 5.000_000_046e-1],
    exp_domain: [-176.0, 104.0],
    logistic_domain: [-104.5, 20.0],
    tanh_bound: 9.1,
};

/// The least argument of `exp` for `f32` whose result is a normal number.
const LEAST_NORMAL_F32: f64 = -87.336_544;

/// An argument of `exp` for `f32` whose result is rounded to zero.
const LEAST_F32: f64 = -104.0;

/// exp(x) for |x| up to ln 2 / 2, without the last two (exp(x) - 1 - x) / x^2.
const EXP_F64: [f64; 12] = [
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
    1.0,
    1.0,
];

const F64: Format = Format {
    bits: 64,
    mantissa_bits: 52,
    bias: 1023,
    rounding_shift: 6_755_399_441_055_744.0,
    ln_2: [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10],
    power: &EXP_F64,
    growth: EXP_F64.split_at(10).0,
    exp_domain: [-1418.0, 710.0],
    logistic_domain: [-745.5, 40.0],
    tanh_bound: 20.0,
};

impl Format {
    /// (exp(2x) - 1 - 2x) / (2 x^2) for |x| up to ln 2 / 4: the coefficients times powers of two.
    fn growth_of_twice(&self) -> Vec<f64> {
        let powers = (1..=self.growth.len() as i32).rev();
        self.growth.iter().zip(powers).map(|(coefficient, power)| coefficient * 2f64.powi(power)).collect()
    }

    /// exp(-x) times a factor for |x| up to ln 2 / 2.
    fn shrinking(&self, factor: f64) -> Vec<f64> {
        let powers = (0..self.power.len() as i32).rev();
        self.power.iter().zip(powers).map(|(coefficient, power)| coefficient * factor * (-1f64).powi(power)).collect()
    }
}

/// A number less the nearest multiple of ln 2, or of a part of it.
struct Reduced<'c> {
    rest: Value<'c>,
    /// How many times that was subtracted.
    times: Value<'c>,
    /// The same plus a constant, in the low bits of an integer.
    multiple: Value<'c>,
}

impl<'c> Math<'_, 'c> {
    fn format(self, x: Value<'c>) -> &'static Format {
        if self.is_double(x) { &F64 } else { &F32 }
    }

    /// `x` less a multiple of `part` times ln 2; as an integer, that multiple is given plus `offset`.
    fn reduce(self, x: Value<'c>, part: f64, offset: u32) -> Reduced<'c> {
        let (builder, format) = (self.builder, self.format(x));
        let shift = self.constant(x, format.rounding_shift + f64::from(offset));
        let shifted = builder.fma(x, self.constant(x, LOG2_E / part), shift);
        let times = builder.subf(shifted, shift);
        let less = |rest, &ln_2: &f64| builder.fma(times, self.constant(x, -part * ln_2), rest);
        let rest = format.ln_2.iter().fold(x, less);
        Reduced { rest, times, multiple: builder.bitcast(shifted, builder.integer_type(format.bits)) }
    }

    /// The power of two whose biased exponent the low bits of an integer are; of 0 it is zero.
    fn power_of_biased(self, exponent: Value<'c>, like: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let mantissa_bits = builder.integer_like(exponent, self.format(like).mantissa_bits.into());
        builder.bitcast(builder.shli(exponent, mantissa_bits), builder.element_type_of(like.r#type()))
    }

    /// Error at most 0.87 units in the last place, 1.7 of subnormal results.
    pub(super) fn exp(self, x: Value<'c>) -> Value<'c> {
        if !self.is_double(x) && !self.builder.machine().is_gpu {
            return self.exp_of_normal_numbers(x);
        }
        let format = self.format(x);
        let [low, high] = format.exp_domain;
        let Reduced { rest, multiple, .. } = self.reduce(self.clamp(x, low, high), 1.0, 2 * format.bias);
        // The first factor is zero where masked elements are: to round to zero takes a processor twenty times as long.
        self.scale_by_factors(self.horner(rest, format.power), multiple)
    }

    /// `exp` for `f32`, without arithmetic whose result is subnormal or rounded to zero, which takes processors twenty times as
    /// long: there the power is scaled up until it is worth as many units as the result has in the last place, which are its bits.
    fn exp_of_normal_numbers(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let limited = self.clamp(x, LEAST_F32, F32.exp_domain[1]);
        let is_subnormal = self.compare(limited, CmpfPredicate::Olt, LEAST_NORMAL_F32);
        let Reduced { rest, times, multiple } = self.reduce(limited, 1.0, 2 * F32.bias);
        let power = self.horner(rest, F32.power);
        let digits = F32.bias - 1 + F32.mantissa_bits;
        let scaled_up = builder.addf(times, self.constant(x, digits.into()));
        let times = builder.select(is_subnormal, scaled_up, times);
        let scaled = self.scale_by_instruction(power, times).unwrap_or_else(|| {
            let scaled_up = builder.addi(multiple, builder.integer_like(multiple, digits.into()));
            self.scale_by_factors(power, builder.select(is_subnormal, scaled_up, multiple))
        });
        let subnormal = self.float_of_bits(self.nearest_integer(scaled));
        builder.select(is_subnormal, subnormal, scaled)
    }

    /// `x` times two to the power of `multiple` less twice the bias of exponents: two factors, as one would have to be less than
    /// the least normal number, or more than the largest.
    fn scale_by_factors(self, x: Value<'c>, multiple: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let half = builder.shrui(multiple, builder.integer_like(multiple, 1));
        let other_half = builder.subi(multiple, half);
        let scaled = builder.mulf(x, self.power_of_biased(half, x));
        builder.mulf(scaled, self.power_of_biased(other_half, x))
    }

    fn subtract_multiple_of_ln_2(self, x: Value<'c>, n: Value<'c>) -> Value<'c> {
        F32.ln_2.iter().fold(x, |rest, &part| self.builder.fma(n, self.constant(x, -part), rest))
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
        let scaled = self.scale(half, &n);
        let difference = builder.subf(scaled, half);
        let error = builder.subf(builder.subf(scaled, difference), half);
        let large = builder.addf(builder.fma(small, scaled, error), difference);
        let large = builder.addf(large, large);
        let result = builder.select(is_one, builder.addf(small, small), large);
        let result = builder.select(is_zero, small, result);
        builder.select(self.compare(x, CmpfPredicate::Oeq, 0.0), x, result)
    }

    /// Error at most 2.4 units in the last place, 3 of f64.
    pub(super) fn tanh(self, x: Value<'c>) -> Value<'c> {
        let (builder, format) = (self.builder, self.format(x));
        let (magnitude, sign) = self.magnitude_and_sign(x);
        let limited = self.at_most(magnitude, format.tanh_bound);
        // exp(2|x|) = power * (1 + 2 growth), from |x| less a multiple of ln 2 / 2.
        let Reduced { rest, multiple, .. } = self.reduce(limited, 0.5, format.bias);
        let polynomial = self.horner(rest, &format.growth_of_twice());
        let growth = builder.fma(polynomial, builder.mulf(rest, rest), rest);
        let power = self.power_of_biased(multiple, x);
        // tanh = (exp(2|x|) - 1) / (exp(2|x|) + 1), both halved.
        let less_one = builder.fma(power, growth, builder.fma(power, self.constant(x, 0.5), self.constant(x, -0.5)));
        let quotient = builder.divf(less_one, builder.addf(less_one, self.constant(x, 1.0)));
        self.with_sign(quotient, sign)
    }

    /// `1 / (1 + exp(-x))`. Error at most 2.5 units in the last place.
    pub(super) fn logistic(self, x: Value<'c>) -> Value<'c> {
        let (builder, format) = (self.builder, self.format(x));
        let [low, high] = format.logistic_domain;
        let limited = self.clamp(x, low, high);
        // 2^n / (2^n + exp(-rest)), both times as much as makes 2^n a normal number wherever the result is not zero.
        let digits = format.mantissa_bits + 1;
        let Reduced { rest, multiple, .. } = self.reduce(limited, 1.0, format.bias + digits);
        let power = self.power_of_biased(multiple, x);
        let factor = 2f64.powi(digits as i32);
        let shrinking = format.shrinking(factor);
        let (_, slope) = shrinking.split_last().unwrap_or((&0.0, &[]));
        let sum = builder.addf(power, self.constant(x, factor));
        builder.divf(power, builder.fma(self.horner(rest, slope), rest, sum))
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
