//! reduce-precision: rounding to a format of given exponent and mantissa bits that keeps the type.

use hlo::element_type::{ElementClass, ElementType};
use melior::ir::Type;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::{RegisterValue, registers, table};

const PRODUCT: &str = "arith.mulf";

/// Rounds to nearest, ties to even, with `mantissa_bits`; then values whose exponent does not fit `exponent_bits`
/// become infinity or zero of their sign. There are no subnormal results unless the type has no more exponent bits
/// itself, and NaN stays NaN.
///
/// `f16`, `f32` and `f64` are rounded in their own format, floats of 8 bits with five of exponent as `f16`, others as
/// `f32`. A product that is rounded to its own format is not added to something in one operation. `None` for element types that are not floats and formats without exponent or with negative mantissa bits.
pub fn reduce_precision<'c>(
    builder: &OpBuilder<'c>,
    value: &RegisterValue<'c>,
    exponent_bits: i64,
    mantissa_bits: i64,
) -> Option<RegisterValue<'c>> {
    if value.element_type.class() != ElementClass::Float || exponent_bits < 1 || mantissa_bits < 0 {
        return None;
    }
    let (width, exponent_width, mantissa_width) = match value.element_type {
        ElementType::F64 => (64, 11, 52),
        ElementType::F16 | ElementType::F8E5M2 | ElementType::F8E5M2FNUZ => (16, 5, 10),
        _ => (32, 8, 23),
    };
    if exponent_bits >= exponent_width && mantissa_bits >= mantissa_width {
        return Some(RegisterValue { value: rounded_product(builder, value.value), ..*value });
    }
    let register = registers::scalar_type(builder, value.element_type);
    let half = (width == 16).then(|| Type::float16(builder.context()));
    let narrowed = half.map_or(value.value, |half| builder.truncf(value.value, half));
    let original = builder.bitcast(narrowed, builder.integer_type(width));
    let integer = |number: i64| builder.integer_like(original, number);
    let mut bits = original;
    if mantissa_bits < mantissa_width {
        let dropped = mantissa_width - mantissa_bits;
        let last = builder.andi(builder.shrui(bits, integer(dropped)), integer(1));
        let bias = builder.addi(last, integer((1 << (dropped - 1)) - 1));
        bits = builder.andi(builder.addi(bits, bias), integer(-1 << dropped));
    }
    if exponent_bits < exponent_width {
        let exponent_mask = ((1i64 << exponent_width) - 1) << mantissa_width;
        let bias = (1i64 << (exponent_width - 1)) - 1;
        let reduced_bias = (1i64 << (exponent_bits - 1)) - 1;
        let exponent = builder.andi(bits, integer(exponent_mask));
        let sign = builder.andi(bits, integer(i64::MIN >> (64 - width)));
        let limit = |exponent: i64| integer(exponent << mantissa_width);
        let overflows = builder.cmpi(CmpiPredicate::Ugt, exponent, limit(bias + reduced_bias));
        let underflows = builder.cmpi(CmpiPredicate::Ule, exponent, limit(bias - reduced_bias));
        bits = builder.select(overflows, builder.ori(sign, integer(exponent_mask)), bits);
        bits = builder.select(underflows, sign, bits);
    }
    let is_nan = builder.cmpf(CmpfPredicate::Uno, value.value, value.value);
    let reduced = builder.bitcast(bits, half.unwrap_or(register));
    let reduced = if half.is_some() { builder.extf(reduced, register) } else { reduced };
    let result = builder.select(is_nan, value.value, reduced);
    let result = table::bring_into_type(builder, value.element_type, result);
    Some(RegisterValue::real(builder, value.element_type, result))
}

/// A value that is rounded before something is added to it: a product that no fused multiply-add takes, or the value itself.
fn rounded_product<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    match value.operands_if_made_by(PRODUCT) {
        Some(operands) => builder.value(PRODUCT, &operands, value.r#type(), &[]),
        None => value,
    }
}
