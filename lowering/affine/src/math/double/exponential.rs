//! Exponentials, logarithms, and what is made of them.

use mlir_ext::arith::CmpfPredicate;
use mlir_ext::arith::CmpiPredicate::{Eq, Sgt, Slt};
use mlir_ext::builder::Value;

use super::{LN_2, Real};

const EXP: [f64; 5] = [
    1.666_666_666_666_660_2e-1,
    -2.777_777_777_701_559_3e-3,
    6.613_756_321_437_934e-5,
    -1.653_390_220_546_525_2e-6,
    4.138_136_797_057_238_5e-8,
];
const EXPM1: [f64; 6] = [
    1.0,
    -3.333_333_333_333_313e-2,
    1.587_301_587_254_814_6e-3,
    -7.936_507_578_674_88e-5,
    4.008_217_827_329_362e-6,
    -2.010_992_181_836_243_7e-7,
];
const LOG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];

impl<'c> Real<'_, 'c> {
    /// x less a multiple of ln 2, as a number and what it lacks, and the multiple.
    fn reduce(self) -> (Self, Self, Value<'c>) {
        let (n, integer) = (self * std::f64::consts::LOG2_E).round();
        let high = (-n).fma(self.constant(LN_2[0]), self);
        let low = n * LN_2[1];
        let rest = high - low;
        (rest, (high - rest) - low, integer)
    }

    /// exp(x + tail) for a tail that is far smaller than x.
    pub(super) fn exp_with_tail(self, tail: Self) -> Self {
        let x = self.clamp(-746.0, 710.0);
        let (n, integer) = (x * std::f64::consts::LOG2_E).round();
        let high = (-n).fma(x.constant(LN_2[0]), x);
        let low = n * LN_2[1] - tail;
        let rest = high - low;
        let square = rest * rest;
        let c = rest - square * square.series(&EXP);
        let power = 1.0 - ((low - (rest * c) / (2.0 - c)) - high);
        power.scale(integer)
    }

    pub(super) fn exp(self) -> Self {
        self.exp_with_tail(self.constant(0.0))
    }

    pub(super) fn expm1(self) -> Self {
        let x = self.clamp(-40.0, 709.9);
        let (rest, tail, n) = x.reduce();
        let half = rest * 0.5;
        let half_square = rest * half;
        let r = half_square.series(&EXPM1);
        let t = 3.0 - r * half;
        let e = half_square * ((r - t) / (6.0 - rest * t));
        let at_zero = rest - (rest * e - half_square);
        let e = rest * (e - tail) - tail - half_square;
        let is = |number| rest.integer_is(Eq, n, number);
        let at_minus_one = (rest - e) * 0.5 - 0.5;
        let at_one = (1.0 + (rest - e) * 2.0).but_if(rest.below(-0.25), (e - (rest + 0.5)) * -2.0);
        // 2^-n, where it counts.
        let builder = self.builder;
        let sixty = builder.integer_like(n, 60);
        let limited = builder.select(rest.integer_is(Sgt, n, 60), sixty, n);
        let limited = builder.select(rest.integer_is(Slt, limited, -60), builder.integer_like(n, -60), limited);
        let inverse = rest.power_of_two(builder.subi(builder.integer_like(n, 0), limited));
        let small = (rest - e + (1.0 - inverse)).scale(n);
        let large = (rest - (e + inverse) + 1.0).scale(n);
        let result = large.but_if(rest.integer_is(Slt, n, 20), small);
        let outside = builder.ori(rest.integer_is(Slt, n, -1), rest.integer_is(Sgt, n, 56));
        let result = result.but_if(outside, (rest - e + 1.0).scale(n) - 1.0);
        let result = result.but_if(is(1), at_one).but_if(is(-1), at_minus_one).but_if(is(0), at_zero);
        result.but_if(self.is(0.0), self)
    }

    /// The logarithm of 2^exponent · (1 + f), with a correction of f.
    fn logarithm(self, exponent: Value<'c>, correction: Self) -> Self {
        let f = self;
        let n = f.of_integer(exponent);
        let half_square = f * f * 0.5;
        let s = f / (f + 2.0);
        let square = s * s;
        let r = square * square.series(&LOG);
        s * (half_square + r) + (n * LN_2[1] + correction) - half_square + f + n * LN_2[0]
    }

    /// `result`, but for logarithms of what is not positive and finite.
    fn logarithm_specials(self, argument: Self, result: Self) -> Self {
        let is_outside = argument.compare(CmpfPredicate::Ult, argument.constant(0.0));
        let result = result.but_if(self.is(f64::INFINITY), self);
        let result = result.but_if(argument.is(0.0), self.constant(f64::NEG_INFINITY));
        result.but_if(is_outside, self.constant(f64::NAN))
    }

    pub(super) fn log(self) -> Self {
        let (exponent, mantissa) = self.exponent_and_mantissa(std::f64::consts::FRAC_1_SQRT_2);
        let result = (mantissa - 1.0).logarithm(exponent, self.constant(0.0));
        self.logarithm_specials(self, result)
    }

    pub(super) fn log1p(self) -> Self {
        let sum = self + 1.0;
        let (exponent, mantissa) = sum.exponent_and_mantissa(std::f64::consts::FRAC_1_SQRT_2);
        // What the sum lost, over the sum.
        let lost = (self - (sum - 1.0)).but_if(self.integer_is(Sgt, exponent, 1), 1.0 - (sum - self));
        let correction = (lost / sum).but_if(self.integer_is(Sgt, exponent, 53), self.constant(0.0));
        let is_near = self.integer_is(Eq, exponent, 0);
        let f = (mantissa - 1.0).but_if(is_near, self);
        let result = f.logarithm(exponent, correction.but_if(is_near, self.constant(0.0)));
        let result = result.but_if(self.is(0.0), self);
        self.logarithm_specials(sum, result)
    }

    /// exp(|x|) / 2 where that may be finite although exp(|x|) is not.
    fn half_exponential(self) -> Self {
        let root = (self.abs() * 0.5).exp();
        root * 0.5 * root
    }

    pub(super) fn sinh(self) -> Self {
        let magnitude = self.abs();
        let t = magnitude.expm1();
        let small = (t * 2.0 - t * t / (t + 1.0)) * 0.5;
        let medium = (t + t / (t + 1.0)) * 0.5;
        let result = medium.but_if(magnitude.below(1.0), small);
        let result = result.but_if(magnitude.above(22.0), magnitude.exp() * 0.5);
        result.but_if(magnitude.above(709.0), self.half_exponential()).copysign(self)
    }

    pub(super) fn cosh(self) -> Self {
        let magnitude = self.abs();
        let t = magnitude.expm1();
        let near_one = 1.0 + t * t / ((t + 1.0) * 2.0);
        let power = magnitude.exp();
        let medium = power * 0.5 + 0.5 / power;
        let result = medium.but_if(magnitude.below(0.5 * std::f64::consts::LN_2), near_one);
        result.but_if(magnitude.above(709.0), self.half_exponential())
    }

    pub(super) fn tanh(self) -> Self {
        let magnitude = self.abs();
        let is_small = magnitude.below(1.0);
        let t = (magnitude * self.constant(2.0).but_if(is_small, self.constant(-2.0))).expm1();
        let quotient = self.constant(2.0).but_if(is_small, -t) / (t + 2.0);
        (1.0 - quotient).but_if(is_small, quotient).copysign(self)
    }

    pub(super) fn asinh(self) -> Self {
        let x = self.abs();
        let large = x.log() + std::f64::consts::LN_2;
        let root = (x * x + 1.0).sqrt();
        let medium = (x * 2.0 + 1.0 / (root + x)).log();
        let small = (x + x * x / (root + 1.0)).log1p();
        let result = medium.but_if(x.below(2.0), small);
        result.but_if(x.above(2f64.powi(28)), large).copysign(self)
    }

    pub(super) fn acosh(self) -> Self {
        let t = self - 1.0;
        let small = (t + (t * 2.0 + t * t).sqrt()).log1p();
        let medium = (self * 2.0 - 1.0 / (self + (self * self - 1.0).sqrt())).log();
        let large = self.log() + std::f64::consts::LN_2;
        let result = medium.but_if(self.below(2.0), small);
        let result = result.but_if(self.above(2f64.powi(28)), large);
        result.but_if(self.below(1.0), self.constant(f64::NAN))
    }

    pub(super) fn atanh(self) -> Self {
        let y = self.abs();
        let twice = y * 2.0;
        let small = twice + twice * y / (1.0 - y);
        let large = (y / (1.0 - y)) * 2.0;
        let result = large.but_if(y.below(0.5), small).log1p() * 0.5;
        result.copysign(self)
    }
}
