//! `log` and `log1p` for `f32`: the exponent times ln 2, and a polynomial of the mantissa less 1.

use super::Math;
use mlir_ext::{arith::CmpfPredicate, builder::Value};

const LN_2: f64 = std::f64::consts::LN_2;
const QUIET_NAN: i64 = 0x7fc0_0000;
const EXPONENT_MASK: i64 = 0xff80_0000_u32 as i32 as i64;
/// 2^-23: an exponent that still stands at its place in the bits, times this, is the exponent.
const EXPONENT_UNIT: f64 = 1.0 / 8_388_608.0;
/// 2^-30: `log1p` of what is smaller is the same to the last bit.
const LEAST_BENT: f64 = 1.0 / 1_073_741_824.0;

impl<'c> Math<'_, 'c> {
    /// Error at most 0.86 units in the last place, for subnormal operands, too.
    pub(super) fn log(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let float_type = builder.element_type_of(x.r#type());
        let is_subnormal = self.compare(x, CmpfPredicate::Olt, f32::MIN_POSITIVE.into());
        // The bits of a subnormal number are how many units of 2^-149 it has; to multiply it would take many times as long.
        let scaled = builder.select(is_subnormal, builder.sitofp(self.bits(x), float_type), x);
        let offset = builder.select(is_subnormal, self.constant(x, -149.0), self.constant(x, 0.0));
        let bits = self.bits(scaled);
        let above_two_thirds = builder.subi(bits, builder.integer_like(bits, 0x3f2a_aaab));
        let exponent = builder.andi(above_two_thirds, builder.integer_like(bits, EXPONENT_MASK));
        let mantissa = self.float_of_bits(builder.subi(bits, exponent));
        let m = builder.subf(mantissa, self.constant(x, 1.0));
        let float = builder.sitofp(exponent, float_type);
        let exponent = builder.fma(float, self.constant(x, EXPONENT_UNIT), offset);
        let square = builder.mulf(m, m);
        let even = self.horner(square, &[-0.130_310_059, -0.121_483_512, -0.166_846_126, -0.249_996_200]);
        let odd = self.horner(square, &[0.140_869_141, 0.139_814_854, 0.200_120_345]);
        let sum = builder.fma(odd, m, even);
        let sum = self.fma_constant(sum, m, 0.333_331_972);
        let sum = self.fma_constant(sum, m, -0.5);
        let sum = builder.fma(sum, square, m);
        let result = builder.fma(exponent, self.constant(x, LN_2), sum);
        self.logarithm_specials(x, x, result)
    }

    /// Error at most 0.87 units in the last place.
    pub(super) fn log1p(self, argument: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        // A small number is its own result; its square may be subnormal, which takes some processors twenty times as long.
        let is_small = self.compare(builder.absf(argument), CmpfPredicate::Olt, LEAST_BENT);
        let x = builder.select(is_small, self.constant(argument, 0.0), argument);
        let one_more = builder.addf(x, self.constant(x, 1.0));
        let bits = self.bits(one_more);
        let above_three_quarters = builder.subi(bits, builder.integer_like(bits, 0x3f40_0000));
        let exponent = builder.andi(above_three_quarters, builder.integer_like(bits, EXPONENT_MASK));
        // Scale x and 1 each by the power of two, then add: 1 + x itself is rounded.
        let scaled_x = self.float_of_bits(builder.subi(self.bits(x), exponent));
        let four = builder.integer_like(bits, 4f32.to_bits().into());
        let scaled_four = self.float_of_bits(builder.subi(four, exponent));
        let quarter = self.constant(x, 0.25);
        let m = builder.addf(scaled_x, builder.fma(quarter, scaled_four, self.constant(x, -1.0)));
        let square = builder.mulf(m, m);
        let even = self.horner(square, &[-4.545_593_26e-2, -0.132_279_143, -0.166_416_913, -0.250_001_878]);
        let odd = self.horner(square, &[0.105_529_785, 0.144_911_006, 0.199_886_635]);
        let sum = builder.fma(odd, m, even);
        let sum = self.fma_constant(sum, m, 0.333_335_280);
        let sum = self.fma_constant(sum, m, -0.5);
        let sum = builder.fma(sum, square, m);
        let float = builder.sitofp(exponent, builder.element_type_of(x.r#type()));
        let exponent = builder.mulf(float, self.constant(x, EXPONENT_UNIT));
        let result = builder.fma(exponent, self.constant(x, LN_2), sum);
        let result = builder.select(is_small, argument, result);
        self.logarithm_specials(argument, one_more, result)
    }

    /// The logarithm of `argument` where it is not positive and finite: infinities at 0 and infinity, else NaN.
    fn logarithm_specials(self, x: Value<'c>, argument: Value<'c>, result: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let bits = self.bits(x);
        let is_infinite = self.compare(x, CmpfPredicate::Oeq, f64::INFINITY);
        let result = builder.select(is_infinite, x, result);
        let is_zero = self.compare(argument, CmpfPredicate::Oeq, 0.0);
        let result = builder.select(is_zero, self.constant(x, f64::NEG_INFINITY), result);
        let is_outside = self.compare(argument, CmpfPredicate::Ult, 0.0);
        // NaN with x's sign: negative where x is a number below the domain, as XLA gives it, which orders of all bits see.
        let nan = self.float_of_bits(builder.ori(bits, builder.integer_like(bits, QUIET_NAN)));
        builder.select(is_outside, nan, result)
    }
}
