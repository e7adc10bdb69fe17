//! Quotients of vectors of 64-bit integers by floats of 53 bits, in two steps.
//!
//! A reciprocal of the divisor that is a little too small, by less than 2⁻⁴⁹ of itself, gives a quotient that is never too large and
//! too small by at most 2¹⁵ + 1. What is left of the dividend is divided in the same way, of which the result is right or too small by
//! 1, and the last rest says which. Converting between the two kinds of numbers is an instruction of AVX-512; processors
//! without take lanes one by one for that, as for a division.

use melior::ir::Type;
use mlir_ext::arith::CmpiPredicate::{Slt, Ult};
use mlir_ext::builder::{OpBuilder, Value};

/// By how much reciprocals are too small on purpose: more than their roundings, and those of the products, make up for.
const SHRINK: f64 = 1.0 - 8.0 * f64::EPSILON / 2.0;

/// Truncated quotients of lanes, none of which divides by zero or has a quotient that is no number of the type.
pub(super) fn quotient<'c>(
    builder: &OpBuilder<'c>,
    is_signed: bool,
    dividend: Value<'c>,
    divisor: Value<'c>,
) -> Value<'c> {
    if !is_signed {
        return unsigned_quotient(builder, dividend, divisor);
    }
    let zero = builder.integer_like(dividend, 0);
    let negated = |value| builder.subi(zero, value);
    let magnitude = |value| builder.select(builder.cmpi(Slt, value, zero), negated(value), value);
    let quotient = unsigned_quotient(builder, magnitude(dividend), magnitude(divisor));
    let is_negative = builder.cmpi(Slt, builder.xori(dividend, divisor), zero);
    builder.select(is_negative, negated(quotient), quotient)
}

fn unsigned_quotient<'c>(builder: &OpBuilder<'c>, dividend: Value<'c>, divisor: Value<'c>) -> Value<'c> {
    let (float, integer) = (Type::float64(builder.context()), builder.integer_type(64));
    let to_float = |value| builder.uitofp(value, float);
    let float_divisor = to_float(divisor);
    let reciprocal = builder.divf(builder.float_like(float_divisor, 1.0), float_divisor);
    let reciprocal = builder.mulf(reciprocal, builder.float_like(float_divisor, SHRINK));
    let (mut quotient, mut rest) = (builder.integer_like(dividend, 0), dividend);
    for _ in 0..2 {
        let part = builder.fptoui(builder.mulf(to_float(rest), reciprocal), integer);
        quotient = builder.addi(quotient, part);
        rest = builder.subi(rest, builder.muli(part, divisor));
    }
    let next = builder.addi(quotient, builder.integer_like(quotient, 1));
    builder.select(builder.cmpi(Ult, rest, divisor), quotient, next)
}
