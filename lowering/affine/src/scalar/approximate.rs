//! Exponentials and quotients of GPUs with fewer instructions than all digits take: where many are summed up, or rounded to 16 bits.

use hlo::element_type::ElementType;
use hlo::op_kind::OpKind;
use mlir_ext::arith::CmpfPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use super::RegisterValue;

/// How many digits of a value of 32 bits are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Digits {
    /// As many as results of the operation have everywhere.
    #[default]
    All,
    /// All but two units in the last place.
    Most,
    /// What remains when the value is rounded to 16 bits.
    Few,
}

/// The operation on values of 32 bits, one element each, if there are fewer instructions for fewer digits.
pub fn elementwise<'c>(
    builder: &OpBuilder<'c>,
    digits: Digits,
    kind: OpKind,
    operands: &[RegisterValue<'c>],
) -> Option<RegisterValue<'c>> {
    let is_float = |own: &RegisterValue<'_>| own.element_type == ElementType::F32 && own.lanes.is_none();
    if digits == Digits::All || !operands.iter().all(is_float) {
        return None;
    }
    let value = match (kind, operands) {
        (OpKind::Exponential, [x]) if digits == Digits::Few => {
            power_of_two(builder, builder.mulf(x.value, builder.float_like(x.value, std::f64::consts::LOG2_E)))
        }
        (OpKind::Exponential, [x]) => exponential(builder, x.value),
        (OpKind::Divide, [a, b]) => quotient(builder, a.value, b.value),
        _ => return None,
    };
    Some(RegisterValue::real(builder, ElementType::F32, value))
}

/// A power of two with 22 bits; 0 instead of numbers that are not normal.
pub fn power_of_two<'c>(builder: &OpBuilder<'c>, exponent: Value<'c>) -> Value<'c> {
    builder.intrinsic("llvm.nvvm.ex2.approx.ftz.f32", &[exponent], exponent.r#type())
}

/// Exponents of two that normal numbers have, as far as both they and their negative are such.
const MOST_EXPONENT: f64 = 126.0;

/// A number to which others are added to be rounded to integers, whose last bits are those of the integer and of an exponent's bias.
const ROUNDING: f64 = 12_582_912.0 + 127.0;

/// Where the exponent of a number begins.
const EXPONENT_BIT: i64 = 23;

/// An exponential: a power of two between about -1/2 and 1/2, scaled by another one that is exact. Where that would not be a normal
/// number, the first one takes the rest.
fn exponential<'c>(builder: &OpBuilder<'c>, x: Value<'c>) -> Value<'c> {
    let constant = |value: f64| builder.float_like(x, value);
    let fma = |a, b, c| builder.intrinsic("llvm.fma.f32", &[a, b, c], x.r#type());
    let limit = MOST_EXPONENT * std::f64::consts::LN_2;
    let kept = builder.intrinsic("llvm.maxnum.f32", &[x, constant(-limit)], x.r#type());
    let kept = builder.intrinsic("llvm.minnum.f32", &[kept, constant(limit)], x.r#type());
    let high = f64::from(std::f64::consts::LOG2_E as f32);
    let rounded = fma(kept, constant(high), constant(ROUNDING));
    let whole = builder.subf(rounded, constant(ROUNDING));
    let rest = fma(x, constant(high), builder.subf(constant(-0.0), whole));
    let rest = fma(x, constant(std::f64::consts::LOG2_E - high), rest);
    let word = builder.integer_type(32);
    let bits = builder.value("arith.bitcast", &[rounded], word, &[]);
    let bits = builder.value("arith.shli", &[bits, builder.integer_like(bits, EXPONENT_BIT)], word, &[]);
    let scale = builder.value("arith.bitcast", &[bits], x.r#type(), &[]);
    builder.mulf(power_of_two(builder, rest), scale)
}

/// Divisors outside of these have reciprocals that are not normal numbers, or nearly so, and are scaled by the other one of them first.
const SMALL_DIVISOR: f64 = 1.0 / LARGE_DIVISOR;
const LARGE_DIVISOR: f64 = 18_446_744_073_709_551_616.0;

/// A quotient by the reciprocal of the divisor, which many have in common.
fn quotient<'c>(builder: &OpBuilder<'c>, dividend: Value<'c>, divisor: Value<'c>) -> Value<'c> {
    let constant = |value: f64| builder.float_like(divisor, value);
    let absolute = builder.intrinsic("llvm.fabs.f32", &[divisor], divisor.r#type());
    let is_small = builder.cmpf(CmpfPredicate::Olt, absolute, constant(SMALL_DIVISOR));
    let is_large = builder.cmpf(CmpfPredicate::Ogt, absolute, constant(LARGE_DIVISOR));
    let scale = builder.select(is_large, constant(SMALL_DIVISOR), constant(1.0));
    let scale = builder.select(is_small, constant(LARGE_DIVISOR), scale);
    let scaled = builder.mulf(divisor, scale);
    let reciprocal = builder.intrinsic("llvm.nvvm.rcp.approx.ftz.f", &[scaled], divisor.r#type());
    builder.mulf(builder.mulf(dividend, scale), reciprocal)
}
