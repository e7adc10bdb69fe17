//! The remainder of a division, exact.

use mlir_ext::arith::CmpfPredicate::{Oeq, Olt, Uno};
use mlir_ext::builder::Value;

use std::convert::Infallible;

use super::Real;

/// Bits of a mantissa that fit behind it in 64.
const BITS_A_STEP: i64 = 11;

impl<'b, 'c> Real<'b, 'c> {
    /// `self - trunc(self / other) · other`, with the sign of `self`: C's `fmod`. The mantissas are divided as integers, eleven
    /// bits of the quotient at a time.
    pub(super) fn remainder(self, other: Self) -> Self {
        let builder = self.builder;
        let (x, y) = (self.abs(), other.abs());
        let ([own, own_exponent], [divisor, divisor_exponent]) = (x.integer_parts(), y.integer_parts());
        let word = |value: i64| builder.integer_like(own, value);
        // A divisor of zero, whose result is none, must not be divided by.
        let is_zero = builder.cmpf(Oeq, y.value, y.constant(0.0).value);
        let divisor = builder.select(is_zero, word(1), divisor);
        let difference = builder.subi(own_exponent, divisor_exponent);
        let steps =
            builder.divui(builder.addi(builder.maxsi(difference, word(0)), word(BITS_A_STEP - 1)), word(BITS_A_STEP));
        let index = |value: Value<'c>| builder.value("arith.index_cast", &[value], builder.index_type, &[]);
        let (zero, one) = (builder.constant_index(0), builder.constant_index(1));
        let first = builder.remui(own, divisor);
        let Ok(left) = builder.for_loop(zero, index(steps), one, &[first], |builder, step, state| {
            let step = builder.value("arith.index_cast", &[step], builder.integer_type(64), &[]);
            let done = builder.muli(step, word(BITS_A_STEP));
            let bits = builder.minsi(builder.subi(difference, done), word(BITS_A_STEP));
            Ok::<_, Infallible>(vec![builder.remui(builder.shli(state[0], bits), divisor)])
        });
        let result = self.of_integer(left[0]).times_power(divisor_exponent);
        let result = result.but_if(builder.cmpf(Olt, x.value, y.value), x);
        let is_none = builder.ori(is_zero, builder.ori(x.is(f64::INFINITY), builder.cmpf(Uno, x.value, y.value)));
        result.copysign(self).but_if(is_none, self.constant(f64::NAN))
    }

    /// A positive finite number as an integer of 53 bits and the power of two behind it.
    fn integer_parts(self) -> [Value<'c>; 2] {
        let builder = self.builder;
        let scaled = self.but_if(self.below(f64::MIN_POSITIVE), self * 2f64.powi(54));
        let bits = scaled.bits();
        let word = |value: i64| builder.integer_like(bits, value);
        let mantissa = builder.ori(builder.andi(bits, word((1 << 52) - 1)), word(1 << 52));
        let exponent = builder.subi(builder.shrui(bits, word(52)), word(1075));
        let less = builder.subi(exponent, word(54));
        [mantissa, builder.select(self.below(f64::MIN_POSITIVE), less, exponent)]
    }

    /// `self · 2^exponent` of an integer, where the result is exact.
    fn times_power(self, exponent: Value<'c>) -> Self {
        let builder = self.builder;
        // In two factors: the smallest is 2^-1128.
        let half = builder.shrsi(exponent, builder.integer_like(exponent, 1));
        self * self.power_of_two(half) * self.power_of_two(builder.subi(exponent, half))
    }
}
