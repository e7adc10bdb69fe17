//! Elementwise functions of two operands (operation semantics, "Element-wise binary arithmetic operations").
//!
//! What the document leaves to the implementation follows XLA:CPU: x / 0 is -1 (unsigned: all ones), x % 0 is
//! x, the least integer divided by -1 is itself with remainder 0, a shift by the width or more shifts all out.

use num_complex::Complex64;

use super::EvalFailure;
use super::complex;
use super::element_loops::{self, BinaryFunction};
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::scalar::{wrap_signed, wrap_unsigned};
use hlo::shape::ArrayShape;

/// Applies an elementwise function to each pair of elements.
pub(super) fn evaluate(
    kind: OpKind,
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    if let Some(array) = element_loops::native_binary(kind, lhs, rhs, result)? {
        return Ok(array);
    }
    let function = function(kind, lhs.element_type()).ok_or_else(|| EvalFailure::type_mismatch(lhs.element_type()))?;
    element_loops::binary(function, lhs, rhs, result)
}

/// The function an operation computes on elements of a type; `None` for types it does not allow.
pub(super) fn function(kind: OpKind, element_type: ElementType) -> Option<BinaryFunction> {
    match element_type.class() {
        ElementClass::Predicate => predicate_function(kind),
        ElementClass::Signed => signed_function(kind),
        ElementClass::Unsigned => unsigned_function(kind),
        ElementClass::Float => float_function(kind),
        ElementClass::Complex => complex_function(kind),
    }
}

fn predicate_function(kind: OpKind) -> Option<BinaryFunction> {
    let function: fn(bool, bool) -> bool = match kind {
        OpKind::And | OpKind::Minimum | OpKind::Multiply => |a, b| a & b,
        OpKind::Or | OpKind::Maximum | OpKind::Add => |a, b| a | b,
        OpKind::Xor => |a, b| a ^ b,
        _ => return None,
    };
    Some(BinaryFunction::Predicate(function))
}

fn signed_function(kind: OpKind) -> Option<BinaryFunction> {
    let function: fn(i64, i64, u32) -> i64 = match kind {
        OpKind::Add => |a, b, _| a.wrapping_add(b),
        OpKind::Subtract => |a, b, _| a.wrapping_sub(b),
        OpKind::Multiply => |a, b, _| a.wrapping_mul(b),
        OpKind::Divide => |a, b, _| if b == 0 { -1 } else { a.wrapping_div(b) },
        OpKind::Remainder => |a, b, _| if b == 0 { a } else { a.wrapping_rem(b) },
        OpKind::Power => |base, exponent, _| power(base, exponent),
        OpKind::Maximum => |a, b, _| a.max(b),
        OpKind::Minimum => |a, b, _| a.min(b),
        OpKind::And => |a, b, _| a & b,
        OpKind::Or => |a, b, _| a | b,
        OpKind::Xor => |a, b, _| a ^ b,
        OpKind::ShiftLeft => |a, b, width| if in_width(b as u64, width) { a << b } else { 0 },
        OpKind::ShiftRightArithmetic => |a, b, width| a >> if in_width(b as u64, width) { b } else { 63 },
        OpKind::ShiftRightLogical => {
            |a, b, width| if in_width(b as u64, width) { (wrap_unsigned(a as u64, width) >> b) as i64 } else { 0 }
        }
        _ => return None,
    };
    Some(BinaryFunction::Signed(function))
}

fn unsigned_function(kind: OpKind) -> Option<BinaryFunction> {
    let function: fn(u64, u64, u32) -> u64 = match kind {
        OpKind::Add => |a, b, _| a.wrapping_add(b),
        OpKind::Subtract => |a, b, _| a.wrapping_sub(b),
        OpKind::Multiply => |a, b, _| a.wrapping_mul(b),
        OpKind::Divide => |a, b, _| a.checked_div(b).unwrap_or(u64::MAX),
        OpKind::Remainder => |a, b, _| a.checked_rem(b).unwrap_or(a),
        OpKind::Power => |base, exponent, width| {
            let signed = |value| wrap_signed(value as i64, width.max(8));
            power(signed(base), signed(exponent)) as u64
        },
        OpKind::Maximum => |a, b, _| a.max(b),
        OpKind::Minimum => |a, b, _| a.min(b),
        OpKind::And => |a, b, _| a & b,
        OpKind::Or => |a, b, _| a | b,
        OpKind::Xor => |a, b, _| a ^ b,
        OpKind::ShiftLeft => |a, b, width| if in_width(b, width) { a << b } else { 0 },
        OpKind::ShiftRightLogical => |a, b, width| if in_width(b, width) { a >> b } else { 0 },
        // The bits are those of a signed number of the same width.
        OpKind::ShiftRightArithmetic => |a, b, width| {
            let signed = wrap_signed(a as i64, width);
            (signed >> if in_width(b, width) { b } else { 63 }) as u64
        },
        _ => return None,
    };
    Some(BinaryFunction::Unsigned(function))
}

fn in_width(amount: u64, width: u32) -> bool {
    amount < u64::from(width)
}

/// Power by squaring, wrapping around. Unsigned numbers come as the signed ones of the same bytes: a negative exponent
/// gives 0 unless the base is 1 or -1, and of others the low six bits count.
fn power(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let (mut base, mut product) = (base, 1i64);
    for bit in 0..6 {
        if exponent >> bit & 1 == 1 {
            product = product.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
    }
    product
}

fn float_function(kind: OpKind) -> Option<BinaryFunction> {
    let function: fn(f64, f64) -> f64 = match kind {
        OpKind::Add => |a, b| a + b,
        OpKind::Subtract => |a, b| a - b,
        OpKind::Multiply => |a, b| a * b,
        OpKind::Divide => |a, b| a / b,
        // The sign is the dividend's.
        OpKind::Remainder => |a, b| a % b,
        OpKind::Power => f64::powf,
        OpKind::Atan2 => f64::atan2,
        OpKind::Maximum => maximum,
        OpKind::Minimum => minimum,
        OpKind::Complex => return Some(BinaryFunction::FloatToComplex(Complex64::new)),
        _ => return None,
    };
    Some(BinaryFunction::Float(function))
}

/// The larger value; NaN if either is, +0 above -0.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
}

/// The smaller value; NaN if either is, -0 below +0.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() || (a == b && a.is_sign_negative()) { a } else { b }
}

fn complex_function(kind: OpKind) -> Option<BinaryFunction> {
    let function: fn(Complex64, Complex64) -> Complex64 = match kind {
        OpKind::Add => |a, b| a + b,
        OpKind::Subtract => |a, b| a - b,
        OpKind::Multiply => complex::multiply,
        OpKind::Divide => complex::divide,
        OpKind::Maximum => complex::maximum,
        OpKind::Minimum => complex::minimum,
        OpKind::Power => complex::pow,
        // -i ln((x + iy) / sqrt(x² + y²))
        OpKind::Atan2 => |y, x| {
            let i = Complex64::new(0.0, 1.0);
            let length = complex::sqrt(complex::multiply(x, x) + complex::multiply(y, y));
            complex::multiply(-i, complex::log(complex::divide(x + complex::multiply(i, y), length)))
        },
        _ => return None,
    };
    Some(BinaryFunction::Complex(function))
}
