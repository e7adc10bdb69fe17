//! Conversion between element types, by value and by bits.
//!
//! Floats become integers by truncation; NaN becomes 0, values out of range the nearest limit. Complex numbers become
//! only complex numbers and `pred`, which asks whether either part is not 0. As in XLA:CPU, integers become
//! `bf16` and `f16`, and `f64` becomes `bf16`, by way of `f32`; `f64` becomes `f16` with one rounding.

use hlo::element_type::{ElementClass, ElementType};
use melior::ir::Type;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::small_float::Format;
use super::{RegisterValue, from_memory, integer, memory_type, registers, table, to_memory};

/// The value of each element in another type; `None` from complex to real numbers.
pub fn convert<'c>(builder: &OpBuilder<'c>, value: &RegisterValue<'c>, to: ElementType) -> Option<RegisterValue<'c>> {
    let from = value.element_type;
    if from == to {
        return Some(*value);
    }
    if to == ElementType::Pred {
        return Some(is_not_zero(builder, value));
    }
    let Some(imaginary) = value.imaginary else { return Some(convert_real(builder, value, to)) };
    if !to.is_complex() {
        return None;
    }
    let part = |value: Value<'c>| {
        let element_type = from.real_part();
        convert_real(builder, &RegisterValue::real(builder, element_type, value), to.real_part()).value
    };
    Some(RegisterValue::complex(builder, to, part(value.value), part(imaginary)))
}

/// As [`convert`], of elements that are not complex.
fn convert_real<'c>(builder: &OpBuilder<'c>, value: &RegisterValue<'c>, to: ElementType) -> RegisterValue<'c> {
    let from = value.element_type;
    if from == to {
        return *value;
    }
    if to.is_complex() {
        let re = convert_real(builder, value, to.real_part()).value;
        return RegisterValue::complex(builder, to, re, builder.float_like(re, 0.0));
    }
    let element = registers::scalar_type(builder, to);
    let result = match (from.class(), to.class()) {
        (ElementClass::Float, ElementClass::Float) => convert_float(builder, from, to, value.value),
        (ElementClass::Float, _) => float_to_integer(builder, from, to, value.value),
        (ElementClass::Signed, ElementClass::Float) => {
            table::bring_into_type(builder, to, builder.sitofp(value.value, element))
        }
        (_, ElementClass::Float) => table::bring_into_type(builder, to, builder.uitofp(value.value, element)),
        _ => integer::wrap(builder, to, convert_integer(builder, from, to, value.value)),
    };
    RegisterValue::real(builder, to, result)
}

fn is_not_zero<'c>(builder: &OpBuilder<'c>, value: &RegisterValue<'c>) -> RegisterValue<'c> {
    let is_float = matches!(value.element_type.class(), ElementClass::Float | ElementClass::Complex);
    let is_not_zero = |part| match is_float {
        true => builder.cmpf(CmpfPredicate::Une, part, builder.float_like(part, 0.0)),
        false => builder.cmpi(CmpiPredicate::Ne, part, builder.integer_like(part, 0)),
    };
    let result = is_not_zero(value.value);
    let result = value.imaginary.map_or(result, |imaginary| builder.ori(result, is_not_zero(imaginary)));
    RegisterValue::real(builder, ElementType::Pred, result)
}

/// Width of the register of an integer or `pred` type.
fn register_width(element_type: ElementType) -> u32 {
    if element_type == ElementType::Pred { 1 } else { element_type.bit_width().max(8) }
}

fn convert_integer<'c>(builder: &OpBuilder<'c>, from: ElementType, to: ElementType, value: Value<'c>) -> Value<'c> {
    let (from_width, to_width) = (register_width(from), register_width(to));
    let element = builder.integer_type(to_width);
    if from_width > to_width {
        builder.trunci(value, element)
    } else if from_width == to_width {
        value
    } else if from.is_signed_integer() {
        builder.extsi(value, element)
    } else {
        builder.extui(value, element)
    }
}

fn convert_float<'c>(builder: &OpBuilder<'c>, from: ElementType, to: ElementType, value: Value<'c>) -> Value<'c> {
    let single = Type::float32(builder.context());
    let format = Format::of(to);
    let value = match (from, to) {
        (ElementType::F64, ElementType::F64) => value,
        (ElementType::F64, _) if format.is_some_and(|format| !matches!(format, Format::BrainFloat)) => {
            truncate_to_odd(builder, value)
        }
        (ElementType::F64, _) => builder.truncf(value, single),
        (_, ElementType::F64) => builder.extf(value, Type::float64(builder.context())),
        _ => value,
    };
    match format {
        Some(_) => table::bring_into_type(builder, to, value),
        None => value,
    }
}

/// `f64` to `f32`, inexact results with an odd last bit: rounding them to far fewer bits is as good as rounding the
/// `f64`.
fn truncate_to_odd<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    let nearest = builder.truncf(value, Type::float32(builder.context()));
    let back = builder.extf(nearest, Type::float64(builder.context()));
    let bits = builder.bitcast(nearest, builder.integer_type(32));
    // What is zero in f32 stays zero, and becomes NaN in the type that has none.
    let is_nonzero = builder.cmpf(CmpfPredicate::One, back, builder.float_like(back, 0.0));
    let is_inexact = builder.andi(builder.cmpf(CmpfPredicate::One, back, value), is_nonzero);
    let is_larger = builder.cmpf(CmpfPredicate::Ogt, builder.absf(back), builder.absf(value));
    let toward_zero = builder.subi(bits, builder.extui(is_larger, builder.integer_type(32)));
    let odd = builder.ori(toward_zero, builder.integer_like(bits, 1));
    builder.bitcast(builder.select(is_inexact, odd, bits), Type::float32(builder.context()))
}

fn float_to_integer<'c>(builder: &OpBuilder<'c>, from: ElementType, to: ElementType, value: Value<'c>) -> Value<'c> {
    let width = to.bit_width();
    let is_signed = to.is_signed_integer();
    let precision = if from == ElementType::F64 { 53 } else { 24 };
    let bits = if is_signed { width - 1 } else { width };
    // The largest float that is not above the largest integer.
    let upper = 2f64.powi(bits as i32) - 2f64.powi(bits.saturating_sub(precision) as i32);
    let lower = if is_signed { -(2f64.powi(bits as i32)) } else { 0.0 };
    let largest = if bits == 64 { -1 } else { ((1u64 << bits) - 1) as i64 };

    // Values that no lane takes must not be out of range either, so the operand is clamped first.
    let below = builder.cmpf(CmpfPredicate::Olt, value, builder.float_like(value, lower));
    let above = builder.cmpf(CmpfPredicate::Ogt, value, builder.float_like(value, upper));
    let is_nan = builder.cmpf(CmpfPredicate::Uno, value, value);
    let clamped = builder.select(below, builder.float_like(value, lower), value);
    let clamped = builder.select(above, builder.float_like(value, upper), clamped);
    let clamped = builder.select(is_nan, builder.float_like(value, 0.0), clamped);
    // CPUs convert to 32 bits and more, to signed integers faster than to unsigned ones.
    let wide = builder.integer_type(width.max(32));
    let integer = match is_signed || width < 32 {
        true => builder.fptosi(clamped, wide),
        false => builder.fptoui(clamped, wide),
    };
    let register = register_width(to);
    let integer = if register < 32 { builder.trunci(integer, builder.integer_type(register)) } else { integer };
    match bits > precision {
        // The clamped value is less than the largest integer.
        true => builder.select(above, builder.integer_like(integer, largest), integer),
        false => integer,
    }
}

/// The bits of each element as another type of the same width.
pub fn bitcast_convert<'c>(
    builder: &OpBuilder<'c>,
    value: &RegisterValue<'c>,
    to: ElementType,
) -> Option<RegisterValue<'c>> {
    let from = value.element_type;
    if from == to {
        return Some(*value);
    }
    if from.bit_width() != to.bit_width() || from.is_complex() != to.is_complex() {
        return None;
    }
    let bits = to_memory(builder, value);
    let memory = memory_type(builder, to);
    let bits = if memory_type(builder, from) == memory { bits } else { builder.bitcast(bits, memory) };
    let bits = if to.is_integer() { integer::wrap(builder, to, bits) } else { bits };
    let bits = if from.is_signed_integer() && to.is_float() && to.bit_width() < 8 {
        // Codes have no copies of the sign above their width.
        builder.andi(bits, builder.integer_like(bits, (1 << to.bit_width()) - 1))
    } else {
        bits
    };
    Some(from_memory(builder, to, value.lanes, bits))
}
