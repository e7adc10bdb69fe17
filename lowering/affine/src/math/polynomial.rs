//! Evaluation of polynomials and the float tricks that all functions share.

use super::{Math, parts::in_parts};
use melior::ir::Type;
use mlir_ext::{arith::CmpfPredicate, builder::Value};

/// Adding 1.5·2²³ to a smaller float puts its nearest integer into the low bits of the mantissa.
const ROUNDING_SHIFT: f64 = 12_582_912.0;

/// A float that is an integer, and that integer.
pub(super) struct Rounded<'c> {
    pub(super) float: Value<'c>,
    pub(super) integer: Value<'c>,
}

impl<'c> Math<'_, 'c> {
    /// A float constant of the type of `like`.
    pub(super) fn constant(self, like: Value<'c>, value: f64) -> Value<'c> {
        self.builder.float_like(like, value)
    }

    /// `a * b + c` for a constant `c`.
    pub(super) fn fma_constant(self, a: Value<'c>, b: Value<'c>, c: f64) -> Value<'c> {
        self.builder.fma(a, b, self.constant(a, c))
    }

    /// `coefficients[0] * x^n + … + coefficients[n]` by Horner's rule.
    pub(super) fn horner(self, x: Value<'c>, coefficients: &[f64]) -> Value<'c> {
        let mut coefficients = coefficients.iter();
        let first = coefficients.next().copied().unwrap_or(0.0);
        coefficients.fold(self.constant(x, first), |sum, &coefficient| self.fma_constant(sum, x, coefficient))
    }

    /// `x` compared with a constant.
    pub(super) fn compare(self, x: Value<'c>, predicate: CmpfPredicate, value: f64) -> Value<'c> {
        self.builder.cmpf(predicate, x, self.constant(x, value))
    }

    /// `x` limited to `low..=high`; NaN stays.
    pub(super) fn clamp(self, x: Value<'c>, low: f64, high: f64) -> Value<'c> {
        let builder = self.builder;
        let raised = builder.select(self.compare(x, CmpfPredicate::Olt, low), self.constant(x, low), x);
        self.at_most(raised, high)
    }

    /// The smaller of `x` and a constant; NaN stays.
    pub(super) fn at_most(self, x: Value<'c>, high: f64) -> Value<'c> {
        self.builder.select(self.compare(x, CmpfPredicate::Ogt, high), self.constant(x, high), x)
    }

    /// An `f32` as `f64`.
    pub(super) fn widen(self, x: Value<'c>) -> Value<'c> {
        self.builder.extf(x, Type::float64(self.builder.context()))
    }

    /// An `f64` rounded to `f32`.
    pub(super) fn narrow(self, x: Value<'c>) -> Value<'c> {
        self.builder.truncf(x, Type::float32(self.builder.context()))
    }

    /// The bits of an `f32` as `i32`.
    pub(super) fn bits(self, x: Value<'c>) -> Value<'c> {
        self.builder.bitcast(x, self.builder.integer_type(32))
    }

    /// The `f32` of some bits.
    pub(super) fn float_of_bits(self, bits: Value<'c>) -> Value<'c> {
        self.builder.bitcast(bits, Type::float32(self.builder.context()))
    }

    /// `|x|`, and the bit of the sign alone.
    pub(super) fn magnitude_and_sign(self, x: Value<'c>) -> (Value<'c>, Value<'c>) {
        let builder = self.builder;
        let width = if self.is_double(x) { 64 } else { 32 };
        let bits = builder.bitcast(x, builder.integer_type(width));
        let sign = builder.andi(bits, builder.integer_like(bits, i64::MIN >> (64 - width)));
        (builder.bitcast(builder.xori(bits, sign), builder.element_type_of(x.r#type())), sign)
    }

    /// A number whose own sign bit is not set, with another one's.
    pub(super) fn with_sign(self, magnitude: Value<'c>, sign: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let bits = builder.bitcast(magnitude, builder.element_type_of(sign.r#type()));
        builder.bitcast(builder.ori(bits, sign), builder.element_type_of(magnitude.r#type()))
    }

    /// `x * factor` (of magnitude below 2²²) rounded to the nearest integer, also as `i32`. For NaN both are meaningless
    /// but defined, which a conversion instruction would not be.
    pub(super) fn round_product(self, x: Value<'c>, factor: f64) -> Rounded<'c> {
        let builder = self.builder;
        let shifted = builder.fma(x, self.constant(x, factor), self.constant(x, ROUNDING_SHIFT));
        let float = builder.subf(shifted, self.constant(x, ROUNDING_SHIFT));
        let bits = self.bits(shifted);
        let integer = builder.subi(bits, builder.integer_like(bits, (ROUNDING_SHIFT as f32).to_bits().into()));
        Rounded { float, integer }
    }

    /// The nearest integer to an `f32`, even between two, as `i32`; for those that are too large, anything.
    pub(super) fn nearest_integer(self, x: Value<'c>) -> Value<'c> {
        let integer = self.builder.with_element_type(x.r#type(), self.builder.integer_type(32));
        let suffix = self.builder.lanes_of(integer).map_or(String::new(), |lanes| format!("v{lanes}"));
        self.builder.intrinsic(&format!("llvm.lrint.{suffix}i32.{suffix}f32"), &[x], integer)
    }

    /// `x * 2^exponent` for an `f32` near 1 and exponents in -200..=200, rounded once also where the result is subnormal.
    pub(super) fn scale(self, x: Value<'c>, exponent: &Rounded<'c>) -> Value<'c> {
        let builder = self.builder;
        if let Some(scaled) = self.scale_by_instruction(x, exponent.float) {
            return scaled;
        }
        let half = builder.shrsi(exponent.integer, builder.integer_like(exponent.integer, 1));
        let rest = builder.subi(exponent.integer, half);
        builder.mulf(builder.mulf(x, self.power_of_two(half)), self.power_of_two(rest))
    }

    /// `x * 2^exponent` for a whole number, where that is an instruction (of AVX-512).
    pub(super) fn scale_by_instruction(self, x: Value<'c>, exponent: Value<'c>) -> Option<Value<'c>> {
        let builder = self.builder;
        let width = if self.is_double(x) { None } else { self.instruction_lanes(x) }?;
        let all_lanes = self.all_lanes(width);
        // Rounding is that of the thread.
        let rounding = (width == 16).then(|| builder.constant_integer(builder.integer_type(32), 4));
        Some(in_parts(self.builder, width, &[x, exponent], |parts| {
            let operands = [parts[0], parts[1], parts[0], all_lanes].into_iter().chain(rounding);
            let name = format!("llvm.x86.avx512.mask.scalef.ps.{}", 32 * width);
            builder.intrinsic(&name, &operands.collect::<Vec<_>>(), parts[0].r#type())
        }))
    }

    /// 2^exponent for exponents of normal floats.
    fn power_of_two(self, exponent: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let biased = builder.addi(exponent, builder.integer_like(exponent, 127));
        self.float_of_bits(builder.shli(biased, builder.integer_like(exponent, 23)))
    }
}
