//! Integer operations that take more than one MLIR operation. Nothing traps, whatever the operands.
//!
//! 2- and 4-bit integers are `i8` registers; the table brings results back into range with [`wrap`].

use std::convert::Infallible;

use hlo::element_type::ElementType;
use melior::ir::{Type, TypeLike};
use mlir_ext::arith::CmpiPredicate::{Eq, Sgt, Slt, Ult};
use mlir_ext::builder::{OpBuilder, Value};

use super::{constant_divisor, long_quotient};

/// Brings a 2- or 4-bit integer into range by dropping the bits above its width.
pub(super) fn wrap<'c>(builder: &OpBuilder<'c>, element_type: ElementType, value: Value<'c>) -> Value<'c> {
    if element_type.bit_width() >= 8 || !element_type.is_integer() {
        return value;
    }
    match element_type.is_signed_integer() {
        true => sign_extended(builder, element_type, value),
        false => zero_extended(builder, element_type, value),
    }
}

/// The bits of the element's width, zero above.
fn zero_extended<'c>(builder: &OpBuilder<'c>, element_type: ElementType, value: Value<'c>) -> Value<'c> {
    match element_type.bit_width() {
        width if width < 8 => builder.andi(value, builder.integer_like(value, (1 << width) - 1)),
        _ => value,
    }
}

/// The bits of the element's width, copies of the highest above.
fn sign_extended<'c>(builder: &OpBuilder<'c>, element_type: ElementType, value: Value<'c>) -> Value<'c> {
    match element_type.bit_width() {
        width if width < 8 => {
            let distance = builder.integer_like(value, i64::from(8 - width));
            builder.shrsi(builder.shli(value, distance), distance)
        }
        _ => value,
    }
}

pub(super) fn not<'c>(builder: &OpBuilder<'c>, _: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    builder.xori(operands[0], builder.integer_like(operands[0], -1))
}

pub(super) fn negate<'c>(builder: &OpBuilder<'c>, _: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    builder.subi(builder.integer_like(operands[0], 0), operands[0])
}

pub(super) fn identity<'c>(_: &OpBuilder<'c>, _: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    operands[0]
}

/// -1, 0 or 1.
pub(super) fn sign<'c>(builder: &OpBuilder<'c>, element_type: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let value = operands[0];
    let zero = builder.integer_like(value, 0);
    let element = builder.element_type_of(value.r#type());
    if element_type.is_unsigned_integer() {
        return builder.extui(builder.cmpi(Ult, zero, value), element);
    }
    let positive = builder.extui(builder.cmpi(Sgt, value, zero), element);
    let negative = builder.extsi(builder.cmpi(Slt, value, zero), element);
    builder.ori(positive, negative)
}

pub(super) fn population_count<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    operands: &[Value<'c>],
) -> Value<'c> {
    let bits = zero_extended(builder, element_type, operands[0]);
    builder.value("math.ctpop", &[bits], bits.r#type(), &[])
}

pub(super) fn count_leading_zeros<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    operands: &[Value<'c>],
) -> Value<'c> {
    let bits = zero_extended(builder, element_type, operands[0]);
    let count = builder.value("math.ctlz", &[bits], bits.r#type(), &[]);
    match element_type.bit_width() {
        width if width < 8 => builder.subi(count, builder.integer_like(count, i64::from(8 - width))),
        _ => count,
    }
}

/// Zero when the amount, read as unsigned, is the width or more.
pub(super) fn shift_left<'c>(builder: &OpBuilder<'c>, element_type: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    shift_logically(builder, element_type, operands[0], operands[1], OpBuilder::shli)
}

/// Zero when the amount, read as unsigned, is the width or more.
pub(super) fn shift_right_logical<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    operands: &[Value<'c>],
) -> Value<'c> {
    let value = zero_extended(builder, element_type, operands[0]);
    shift_logically(builder, element_type, value, operands[1], OpBuilder::shrui)
}

/// A shift in either direction, zero when the amount is the width or more.
fn shift_logically<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    value: Value<'c>,
    amount: Value<'c>,
    shift: fn(&OpBuilder<'c>, Value<'c>, Value<'c>) -> Value<'c>,
) -> Value<'c> {
    let (width, zero) = (i64::from(element_type.bit_width()), builder.integer_like(value, 0));
    let is_in_width = is_in_width(builder, element_type, amount);
    if width == 64 && builder.machine().is_gpu {
        // The zero is chosen before the shift: behind it, the code generator thinks that the shift makes it anyway.
        let kept = builder.select(is_in_width, value, zero);
        return shift(builder, kept, builder.andi(amount, builder.integer_like(amount, width - 1)));
    }
    builder.select(is_in_width, shift(builder, value, amount), zero)
}

/// Copies of the sign when the amount, read as unsigned, is the width or more; unsigned integers are read as signed.
pub(super) fn shift_right_arithmetic<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    operands: &[Value<'c>],
) -> Value<'c> {
    let (value, amount) = (sign_extended(builder, element_type, operands[0]), operands[1]);
    let most = builder.integer_like(amount, i64::from(element_type.bit_width()) - 1);
    builder.shrsi(value, builder.select(is_in_width(builder, element_type, amount), amount, most))
}

fn is_in_width<'c>(builder: &OpBuilder<'c>, element_type: ElementType, amount: Value<'c>) -> Value<'c> {
    builder.cmpi(Ult, amount, builder.integer_like(amount, i64::from(element_type.bit_width())))
}

/// Truncated quotient; x / 0 = -1 (all ones), MIN / -1 = MIN.
pub(super) fn divide<'c>(builder: &OpBuilder<'c>, element_type: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let (dividend, divisor) = (operands[0], operands[1]);
    if let Some(quotient) = constant_quotient(builder, element_type, dividend, divisor) {
        return quotient;
    }
    let safe = safe_divisor(builder, element_type, dividend, divisor);
    let quotient = quotient(builder, element_type, dividend, safe.divisor);
    builder.select(safe.is_zero, builder.integer_like(dividend, -1), quotient)
}

/// Remainder with the sign of the dividend; x % 0 = x, MIN % -1 = 0.
pub(super) fn remainder<'c>(builder: &OpBuilder<'c>, element_type: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let (dividend, divisor) = (operands[0], operands[1]);
    let remainder = |quotient, divisor| builder.subi(dividend, builder.muli(quotient, divisor));
    if constant_divisor(element_type, divisor).is_some_and(|number| is_shift(element_type, number)) {
        let name = if element_type.is_signed_integer() { "arith.remsi" } else { "arith.remui" };
        return builder.value(name, &[dividend, divisor], dividend.r#type(), &[]);
    }
    if let Some(quotient) = constant_quotient(builder, element_type, dividend, divisor) {
        return remainder(quotient, divisor);
    }
    let safe = safe_divisor(builder, element_type, dividend, divisor);
    let quotient = quotient(builder, element_type, dividend, safe.divisor);
    builder.select(safe.is_zero, dividend, remainder(quotient, safe.divisor))
}

/// A constant with which every division is defined.
fn constant_divisor(element_type: ElementType, divisor: Value<'_>) -> Option<i64> {
    let number = divisor.made_by("vector.broadcast").unwrap_or(divisor).constant()?;
    (number != 0 && !(element_type.is_signed_integer() && number == -1)).then_some(number)
}

/// Whether such a division is a shift.
fn is_shift(element_type: ElementType, divisor: i64) -> bool {
    let magnitude = match element_type.is_signed_integer() {
        true => divisor.unsigned_abs(),
        false => divisor as u64 & (u64::MAX >> (64 - element_type.bit_width())),
    };
    magnitude.is_power_of_two()
}

/// Truncated quotient by such a constant. LLVM shifts or multiplies instead, but does not multiply vectors of 64-bit integers.
fn constant_quotient<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    dividend: Value<'c>,
    divisor: Value<'c>,
) -> Option<Value<'c>> {
    let is_signed = element_type.is_signed_integer();
    let number = constant_divisor(element_type, divisor)?;
    let is_multiplied = dividend.r#type().is_vector() && !is_shift(element_type, number);
    Some(match (element_type.bit_width(), is_signed) {
        (64, true) if is_multiplied => constant_divisor::signed_quotient(builder, dividend, number),
        (64, false) if is_multiplied => constant_divisor::unsigned_quotient(builder, dividend, number as u64),
        _ => whole_quotient(builder, is_signed, dividend, divisor),
    })
}

/// The quotient as one operation.
fn whole_quotient<'c>(builder: &OpBuilder<'c>, is_signed: bool, dividend: Value<'c>, divisor: Value<'c>) -> Value<'c> {
    let name = if is_signed { "arith.divsi" } else { "arith.divui" };
    builder.value(name, &[dividend, divisor], dividend.r#type(), &[])
}

struct SafeDivisor<'c> {
    /// The divisor, or 1 where the division is not defined.
    divisor: Value<'c>,
    is_zero: Value<'c>,
}

fn safe_divisor<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    dividend: Value<'c>,
    divisor: Value<'c>,
) -> SafeDivisor<'c> {
    let is_zero = builder.cmpi(Eq, divisor, builder.integer_like(divisor, 0));
    let mut is_undefined = is_zero;
    if element_type.is_signed_integer() {
        let smallest = builder.integer_like(dividend, i64::MIN >> (64 - element_type.bit_width().max(8)));
        let is_smallest = builder.cmpi(Eq, dividend, smallest);
        let is_minus_one = builder.cmpi(Eq, divisor, builder.integer_like(divisor, -1));
        is_undefined = builder.ori(is_zero, builder.andi(is_smallest, is_minus_one));
    }
    SafeDivisor { divisor: builder.select(is_undefined, builder.integer_like(divisor, 1), divisor), is_zero }
}

/// Truncated quotient where it is defined.
///
/// CPUs divide vectors of floats but not of integers. The truncated float quotient is exact when the float has more
/// bits than dividend and divisor: the true quotient is no nearer than 1/divisor to the next integer.
fn quotient<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    dividend: Value<'c>,
    divisor: Value<'c>,
) -> Value<'c> {
    let is_signed = element_type.is_signed_integer();
    let width = element_type.bit_width().max(8);
    let float = match width {
        ..=16 => Type::float32(builder.context()),
        17..=32 => Type::float64(builder.context()),
        _ => Type::none(builder.context()),
    };
    let is_vector = dividend.r#type().is_vector();
    if is_vector && width > 32 && builder.machine().scales_vectors {
        return long_quotient::quotient(builder, is_signed, dividend, divisor);
    }
    if !is_vector || width > 32 {
        return whole_quotient(builder, is_signed, dividend, divisor);
    }
    let to_float = |value| if is_signed { builder.sitofp(value, float) } else { builder.uitofp(value, float) };
    let quotient = builder.divf(to_float(dividend), to_float(divisor));
    // At least 32 bits wide: CPUs convert to nothing narrower.
    let wide = builder.integer_type(32);
    let quotient = if is_signed { builder.fptosi(quotient, wide) } else { builder.fptoui(quotient, wide) };
    if width < 32 { builder.trunci(quotient, builder.integer_type(width)) } else { quotient }
}

/// Power by squaring, wrapping. Exponents are read as signed: a negative one gives 0 unless the base is 1 or -1, and of
/// others the low six bits count, as XLA:CPU has it.
pub(super) fn power<'c>(builder: &OpBuilder<'c>, _: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let (base, exponent) = (operands[0], operands[1]);
    let one = builder.integer_like(base, 1);
    let bits = builder.constant_index(6);
    let (first, step) = (builder.constant_index(0), builder.constant_index(1));
    let Ok(carried) = builder.for_loop(first, bits, step, &[one, base, exponent], |builder, _, carried| {
        let [result, base, exponent] = [carried[0], carried[1], carried[2]];
        let one = builder.integer_like(base, 1);
        let takes = builder.cmpi(Eq, builder.andi(exponent, one), one);
        Ok::<_, Infallible>(vec![
            builder.select(takes, builder.muli(result, base), result),
            builder.muli(base, base),
            builder.shrui(exponent, one),
        ])
    });
    let zero = builder.integer_like(base, 0);
    let minus_one = builder.integer_like(base, -1);
    let is_odd = builder.cmpi(Eq, builder.andi(exponent, one), one);
    let of_minus_one = builder.select(is_odd, minus_one, one);
    let is_minus_one = builder.cmpi(Eq, base, minus_one);
    let is_one = builder.cmpi(Eq, base, one);
    let inverse = builder.select(is_minus_one, of_minus_one, builder.select(is_one, one, zero));
    builder.select(builder.cmpi(Slt, exponent, zero), inverse, carried[0])
}
