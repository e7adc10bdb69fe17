//! Elementwise functions of one operand (operation semantics, "Element-wise unary functions").

use num_complex::Complex64;

use super::EvalFailure;
use super::complex;
use super::element_loops::{self, UnaryFunction};
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::scalar::wrap_unsigned;
use hlo::shape::ArrayShape;

/// Applies an elementwise function to each element.
pub(super) fn evaluate(kind: OpKind, operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let function =
        function(kind, operand.element_type()).ok_or_else(|| EvalFailure::type_mismatch(operand.element_type()))?;
    element_loops::unary(function, operand, result)
}

/// The function an operation computes on elements of a type; `None` for types it does not allow.
pub(super) fn function(kind: OpKind, element_type: ElementType) -> Option<UnaryFunction> {
    match element_type.class() {
        ElementClass::Predicate => predicate_function(kind),
        ElementClass::Signed => signed_function(kind),
        ElementClass::Unsigned => unsigned_function(kind),
        ElementClass::Float => float_function(kind),
        ElementClass::Complex => complex_function(kind),
    }
}

fn predicate_function(kind: OpKind) -> Option<UnaryFunction> {
    match kind {
        OpKind::Not => Some(UnaryFunction::Predicate(|value| !value)),
        _ => None,
    }
}

fn signed_function(kind: OpKind) -> Option<UnaryFunction> {
    let function: fn(i64, u32) -> i64 = match kind {
        OpKind::Abs => |x, _| x.wrapping_abs(),
        OpKind::Negate => |x, _| x.wrapping_neg(),
        OpKind::Not => |x, _| !x,
        OpKind::Sign => |x, _| x.signum(),
        OpKind::PopulationCount => |x, width| i64::from(wrap_unsigned(x as u64, width).count_ones()),
        OpKind::CountLeadingZeros => |x, width| leading_zeros(x as u64, width) as i64,
        OpKind::Real => |x, _| x,
        _ => return None,
    };
    Some(UnaryFunction::Signed(function))
}

fn unsigned_function(kind: OpKind) -> Option<UnaryFunction> {
    let function: fn(u64, u32) -> u64 = match kind {
        OpKind::Abs | OpKind::Real => |x, _| x,
        OpKind::Negate => |x, _| x.wrapping_neg(),
        OpKind::Not => |x, _| !x,
        OpKind::Sign => |x, _| x.min(1),
        OpKind::PopulationCount => |x, _| u64::from(x.count_ones()),
        OpKind::CountLeadingZeros => leading_zeros,
        _ => return None,
    };
    Some(UnaryFunction::Unsigned(function))
}

fn leading_zeros(value: u64, width: u32) -> u64 {
    u64::from(wrap_unsigned(value, width).leading_zeros() - (64 - width.min(64)))
}

fn float_function(kind: OpKind) -> Option<UnaryFunction> {
    let function: fn(f64) -> f64 = match kind {
        OpKind::Abs => f64::abs,
        OpKind::Acos => f64::acos,
        OpKind::Acosh => acosh,
        OpKind::Asin => f64::asin,
        OpKind::Asinh => libm::asinh,
        OpKind::Atanh => libm::atanh,
        OpKind::Cbrt => f64::cbrt,
        OpKind::Ceil => f64::ceil,
        OpKind::Cosh => f64::cosh,
        OpKind::Cosine => f64::cos,
        OpKind::Erf => libm::erf,
        OpKind::Exponential => f64::exp,
        OpKind::ExponentialMinusOne => f64::exp_m1,
        OpKind::Floor => f64::floor,
        OpKind::Imag => |_| 0.0,
        OpKind::IsFinite => return Some(UnaryFunction::FloatToPredicate(f64::is_finite)),
        OpKind::Log => f64::ln,
        OpKind::LogPlusOne => f64::ln_1p,
        OpKind::Logistic => |x| 1.0 / (1.0 + (-x).exp()),
        OpKind::Negate => |x| -x,
        OpKind::Real => |x| x,
        // Ties away from zero.
        OpKind::RoundNearestAfz => f64::round,
        OpKind::RoundNearestEven => f64::round_ties_even,
        OpKind::Rsqrt => |x| 1.0 / x.sqrt(),
        // NaN stays NaN, a zero keeps its sign.
        OpKind::Sign => |x| if x == 0.0 || x.is_nan() { x } else { x.signum() },
        OpKind::Sine => f64::sin,
        OpKind::Sinh => f64::sinh,
        OpKind::Sqrt => f64::sqrt,
        OpKind::Tan => f64::tan,
        OpKind::Tanh => f64::tanh,
        _ => return None,
    };
    Some(UnaryFunction::Float(function))
}

fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

fn complex_function(kind: OpKind) -> Option<UnaryFunction> {
    let function: fn(Complex64) -> Complex64 = match kind {
        OpKind::Abs => return Some(UnaryFunction::ComplexToReal(complex::abs)),
        OpKind::Real => return Some(UnaryFunction::ComplexToReal(|z| z.re)),
        OpKind::Imag => return Some(UnaryFunction::ComplexToReal(|z| z.im)),
        OpKind::IsFinite => return Some(UnaryFunction::ComplexToPredicate(|z| z.re.is_finite() && z.im.is_finite())),
        OpKind::Acos => complex::acos,
        OpKind::Acosh => complex::acosh,
        OpKind::Asin => complex::asin,
        OpKind::Asinh => complex::asinh,
        OpKind::Atanh => complex::atanh,
        OpKind::Cbrt => complex::cbrt,
        OpKind::Cosh => complex::cosh,
        OpKind::Cosine => complex::cos,
        OpKind::Exponential => complex::exp,
        OpKind::ExponentialMinusOne => complex::exp_m1,
        OpKind::Log => complex::log,
        OpKind::LogPlusOne => complex::log_1p,
        OpKind::Logistic => complex::logistic,
        OpKind::Negate => |z| -z,
        OpKind::Rsqrt => complex::rsqrt,
        OpKind::Sign => complex::sign,
        OpKind::Sine => complex::sin,
        OpKind::Sinh => complex::sinh,
        OpKind::Sqrt => complex::sqrt,
        OpKind::Tan => complex::tan,
        OpKind::Tanh => complex::tanh,
        _ => return None,
    };
    Some(UnaryFunction::Complex(function))
}
