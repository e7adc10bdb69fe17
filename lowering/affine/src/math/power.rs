//! `pow` for `f32`: 2^(y·log2 x) in `f64`, then C99's special cases.

use super::Math;
use melior::ir::Type;
use mlir_ext::{
    arith::{CmpfPredicate, CmpiPredicate},
    builder::Value,
};

impl<'c> Math<'_, 'c> {
    /// Error at most 0.51 units in the last place.
    pub(super) fn pow(self, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let double = Type::float64(builder.context());
        let wide_x = builder.absf(builder.extf(x, double));
        let wide_y = builder.extf(y, double);
        let logarithm = self.log2_f64(wide_x);
        let product = builder.mulf(wide_y, logarithm);
        // |x| = 1: 1 to the power of infinity is 1.
        let is_one = self.compare(logarithm, CmpfPredicate::Oeq, 0.0);
        let product = builder.select(is_one, self.constant(product, 0.0), product);
        let power = self.exp2_f64(self.clamp(product, -200.0, 200.0));
        let magnitude = builder.truncf(power, builder.element_type_of(x.r#type()));
        self.pow_specials(x, y, magnitude)
    }

    /// Sign, NaN and the cases where an operand decides alone.
    pub(super) fn pow_specials(self, x: Value<'c>, y: Value<'c>, magnitude: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        // y is an integer if rounding leaves it; an odd one if half of it then is none. Infinities count as even.
        let is_integer = builder.cmpf(CmpfPredicate::Oeq, builder.floor(y), y);
        let half = builder.mulf(y, self.constant(y, 0.5));
        let is_half_integer = builder.cmpf(CmpfPredicate::Oeq, builder.floor(half), half);
        let is_even = builder.andi(is_integer, is_half_integer);
        let bits = if self.is_double(x) { builder.bitcast(x, builder.integer_type(64)) } else { self.bits(x) };
        let is_sign_set = builder.cmpi(CmpiPredicate::Slt, bits, builder.integer_like(bits, 0));
        let keeps_sign = builder.select(is_even, self.false_like(is_even), is_integer);
        let is_negative = builder.andi(keeps_sign, is_sign_set);
        let result = builder.select(is_negative, builder.negf(magnitude), magnitude);
        // A finite negative number has no real fractional power.
        let is_below_zero = self.compare(x, CmpfPredicate::Olt, 0.0);
        let is_finite = self.compare(x, CmpfPredicate::Ogt, f64::NEG_INFINITY);
        let has_real_power = builder.ori(is_integer, self.negate(builder.andi(is_below_zero, is_finite)));
        // The NaN of a number is negative, as XLA gives it; that of an operand keeps its sign.
        let result = builder.select(has_real_power, result, self.constant(x, -f64::NAN));
        let is_nan = builder.cmpf(CmpfPredicate::Uno, x, y);
        let result = builder.select(is_nan, builder.addf(x, y), result);
        let is_trivial =
            builder.ori(self.compare(y, CmpfPredicate::Oeq, 0.0), self.compare(x, CmpfPredicate::Oeq, 1.0));
        builder.select(is_trivial, self.constant(x, 1.0), result)
    }

    fn false_like(self, condition: Value<'c>) -> Value<'c> {
        self.builder.integer_like(condition, 0)
    }

    fn negate(self, condition: Value<'c>) -> Value<'c> {
        self.builder.xori(condition, self.builder.integer_like(condition, 1))
    }

    /// log2 of a non-negative `f64` that is no denormal, to about 2^-50; right at 0 and infinity.
    pub(super) fn log2_f64(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let (integer, double) = (builder.integer_type(64), Type::float64(builder.context()));
        let bits = builder.bitcast(x, integer);
        // The exponent of x / sqrt(1/2), so that the mantissa lies around 1.
        let sqrt_half = builder.integer_like(bits, std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64);
        let above = builder.subi(bits, sqrt_half);
        let exponent = builder.shrsi(above, builder.integer_like(bits, 52));
        let exponent_bits = builder.shli(exponent, builder.integer_like(bits, 52));
        let mantissa = builder.bitcast(builder.subi(bits, exponent_bits), double);
        let one = self.constant(x, 1.0);
        let s = builder.divf(builder.subf(mantissa, one), builder.addf(mantissa, one));
        let square = builder.mulf(s, s);
        let twice_log2_e = 2.0 * std::f64::consts::LOG2_E;
        let coefficients: Vec<f64> = (0..7).rev().map(|term| twice_log2_e / f64::from(2 * term + 1)).collect();
        let series = self.horner(square, &coefficients);
        let exponent = builder.sitofp(builder.trunci(exponent, builder.integer_type(32)), double);
        let result = builder.fma(series, s, exponent);
        let is_zero = self.compare(x, CmpfPredicate::Oeq, 0.0);
        let result = builder.select(is_zero, self.constant(x, f64::NEG_INFINITY), result);
        let is_infinite = self.compare(x, CmpfPredicate::Oeq, f64::INFINITY);
        builder.select(is_infinite, x, result)
    }

    /// 2^x for `f64` of magnitude up to 200, to about 2^-40: enough for an `f32`. NaN gives something.
    pub(super) fn exp2_f64(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let (integer, double) = (builder.integer_type(64), Type::float64(builder.context()));
        // 1.5·2^52, see `round_product`.
        let shift = self.constant(x, 6_755_399_441_055_744.0);
        let shifted = builder.addf(x, shift);
        let n = builder.subf(shifted, shift);
        let rest = builder.subf(x, n);
        let mut coefficients = vec![1.0];
        for term in 1..=8 {
            let previous = coefficients[term - 1];
            coefficients.push(previous * std::f64::consts::LN_2 / term as f64);
        }
        coefficients.reverse();
        let power = self.horner(rest, &coefficients);
        let exponent =
            builder.shli(builder.bitcast(shifted, integer), builder.integer_like(builder.bitcast(x, integer), 52));
        builder.bitcast(builder.addi(builder.bitcast(power, integer), exponent), double)
    }
}
