//! Roots.

use super::{Math, parts::in_parts};
use mlir_ext::{arith::CmpfPredicate, builder::Value};

impl<'c> Math<'_, 'c> {
    /// `1 / sqrt(x)` within 1.5 units in the last place, for any float type: from an instruction's estimate where there is one,
    /// else by the two exactly rounded instructions, which take two to four times as long.
    pub(super) fn rsqrt(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let Some(estimate) = self.estimated_rsqrt(x) else {
            return builder.divf(self.constant(x, 1.0), builder.sqrt(x));
        };
        // An estimate of 14 digits has 28 after a step of Newton's, 42 after one of Halley's.
        let refined = match self.is_double(x) {
            true => self.refined_rsqrt(x, self.refined_rsqrt(x, estimate, Some(0.375)), None),
            false => self.refined_rsqrt(x, estimate, None),
        };
        // Of zero and infinity, where the steps give NaN, the estimate is exact.
        let is_undefined = builder.cmpf(CmpfPredicate::Uno, refined, refined);
        builder.select(is_undefined, estimate, refined)
    }

    /// A better reciprocal square root: `y + y e (1/2 + c e)`, where `e = 1 - x y²` is the error, without a `c` of Newton's.
    fn refined_rsqrt(self, x: Value<'c>, y: Value<'c>, c: Option<f64>) -> Value<'c> {
        let builder = self.builder;
        let error = builder.fma(builder.negf(builder.mulf(x, y)), y, self.constant(x, 1.0));
        let half = self.constant(x, 0.5);
        let factor = c.map_or(half, |c| builder.fma(error, self.constant(x, c), half));
        builder.fma(builder.mulf(y, error), factor, y)
    }

    /// `1 / sqrt(x)` to 14 binary digits by the instruction of AVX-512, which is exact for zeros, infinities and what is no number.
    fn estimated_rsqrt(self, x: Value<'c>) -> Option<Value<'c>> {
        let builder = self.builder;
        let (suffix, least) = if self.is_double(x) { ("pd", 2) } else { ("ps", 4) };
        let is_scalar = builder.lanes_of(x.r#type()).is_none();
        let vector = if is_scalar { builder.broadcast(x, Some(least)) } else { x };
        let width = self.instruction_lanes(vector)?;
        let all_lanes = self.all_lanes(width);
        let name = format!("llvm.x86.avx512.rsqrt14.{suffix}.{}", 128 / least * width);
        let estimate = in_parts(self.builder, width, &[vector], |parts| {
            builder.intrinsic(&name, &[parts[0], parts[0], all_lanes], parts[0].r#type())
        });
        Some(if is_scalar { builder.extract_lane(estimate, 0) } else { estimate })
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
