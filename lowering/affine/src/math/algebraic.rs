//! Roots.

use super::Math;
use mlir_ext::{arith::CmpfPredicate, builder::Value};

impl<'c> Math<'_, 'c> {
    /// `1 / sqrt(x)` by the two exactly rounded instructions: 1.5 units in the last place, for any float type.
    pub(super) fn rsqrt(self, x: Value<'c>) -> Value<'c> {
        self.builder.divf(self.constant(x, 1.0), self.builder.sqrt(x))
    }

    /// sqrt(x² + y²) for `f32`; infinite if an operand is, also beside NaN.
    pub(super) fn hypot(self, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let (wide_x, wide_y) = (self.widen(x), self.widen(y));
        let sum = builder.fma(wide_x, wide_x, builder.mulf(wide_y, wide_y));
        let result = self.narrow(builder.sqrt(sum));
        let infinity = self.constant(x, f64::INFINITY);
        [x, y].into_iter().fold(result, |result, operand| {
            let is_infinite = builder.cmpf(CmpfPredicate::Oeq, builder.absf(operand), infinity);
            builder.select(is_infinite, infinity, result)
        })
    }

    /// Cube root for `f32`, in `f64`: a third of the exponent as a first guess, then Halley's iteration, which triples the digits.
    pub(super) fn cbrt(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let magnitude = builder.absf(self.widen(x));
        let (word, long) = (builder.integer_type(32), builder.integer_type(64));
        let bits = builder.bitcast(magnitude, long);
        let high = builder.trunci(builder.shrui(bits, builder.integer_like(bits, 32)), word);
        let third = builder.value("arith.divui", &[high, builder.integer_like(high, 3)], high.r#type(), &[]);
        // Two thirds of the exponent's bias, adjusted for the least error (W. Kahan).
        let guess = builder.addi(third, builder.integer_like(high, 715_094_163));
        let guess = builder.shli(builder.extui(guess, long), builder.integer_like(bits, 32));
        let guess = builder.bitcast(guess, builder.element_type_of(magnitude.r#type()));
        let root = (0..3).fold(guess, |root, _| {
            let cube = builder.mulf(builder.mulf(root, root), root);
            let numerator = builder.addf(cube, builder.addf(magnitude, magnitude));
            let denominator = builder.addf(builder.addf(cube, cube), magnitude);
            builder.mulf(root, builder.divf(numerator, denominator))
        });
        let result = builder.copysign(self.narrow(root), x);
        let is_zero = self.compare(x, CmpfPredicate::Ueq, 0.0);
        let is_infinite = self.compare(builder.absf(x), CmpfPredicate::Oeq, f64::INFINITY);
        builder.select(builder.ori(is_zero, is_infinite), x, result)
    }
}
