//! Conversions between element types: `convert`, `reduce-precision`, `stochastic-convert`.
//!
//! Float to integer truncates, saturates and takes NaN to 0, as XLA:CPU does; integers of another width wrap
//! around; anything not zero (NaN too) is true; a complex number gives its real part.

use super::EvalFailure;
use super::data::build;
use super::element_loops::map;
use hlo::element_type::{ElementClass, ElementType};
use hlo::float_format;
use hlo::literal::ArrayLiteral;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// Converts one element; the result is already rounded to the type.
pub(super) fn convert_scalar(value: Scalar, to: ElementType) -> Scalar {
    let value = if to == ElementType::BF16 { by_way_of_f32(value) } else { value };
    let converted = match (value, to.class()) {
        (Scalar::Float(x), ElementClass::Signed) => Scalar::Signed(saturate_signed(x, to.bit_width())),
        (Scalar::Float(x), ElementClass::Unsigned) => Scalar::Unsigned(saturate_unsigned(x, to.bit_width())),
        (Scalar::Complex(z), ElementClass::Signed | ElementClass::Unsigned) => {
            return convert_scalar(Scalar::Float(z.re), to);
        }
        (Scalar::Signed(x), ElementClass::Float) if to != ElementType::F64 => {
            let magnitude = exact_enough(x.unsigned_abs());
            Scalar::Float(if x < 0 { -magnitude } else { magnitude })
        }
        (Scalar::Unsigned(x), ElementClass::Float) if to != ElementType::F64 => Scalar::Float(exact_enough(x)),
        (other, _) => other,
    };
    converted.rounded(to)
}

/// XLA:CPU's way from integers and `f64` to `bf16`: two roundings, the first to `f32`.
fn by_way_of_f32(value: Scalar) -> Scalar {
    match value {
        Scalar::Signed(x) => Scalar::Float(f64::from(x as f32)),
        Scalar::Unsigned(x) => Scalar::Float(f64::from(x as f32)),
        Scalar::Float(x) => Scalar::Float(f64::from(x as f32)),
        other => other,
    }
}

fn saturate_signed(x: f64, width: u32) -> i64 {
    let largest = i64::MAX >> (64 - width.min(64));
    // `as` truncates, saturates to 64 bits and takes NaN to 0.
    (x as i64).clamp(-largest - 1, largest)
}

fn saturate_unsigned(x: f64, width: u32) -> u64 {
    (x as u64).min(u64::MAX >> (64 - width.min(64)))
}

/// An integer as `f64`, rounded to odd: rounding the result once more to a narrower type gives what rounding
/// the integer itself would.
fn exact_enough(magnitude: u64) -> f64 {
    let excess = (64 - magnitude.leading_zeros()).saturating_sub(53);
    let lost = magnitude & ((1u64 << excess) - 1) != 0;
    let kept = magnitude >> excess | u64::from(lost);
    kept as f64 * (1u64 << excess) as f64
}

/// Converts each element to the result's type.
pub(super) fn convert(operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let (from, to) = (operand.element_type(), result.element_type);
    match (from, to) {
        (from, to) if from == to => Ok(operand.with_shape(result.clone())?),
        (ElementType::Pred, ElementType::F32) => map::<u8, f32>(operand, result, |x| f32::from(u8::from(x != 0))),
        (ElementType::Pred, ElementType::S32) => map::<u8, i32>(operand, result, |x| i32::from(x != 0)),
        (ElementType::S32, ElementType::F32) => map::<i32, f32>(operand, result, |x| x as f32),
        (ElementType::F32, ElementType::S32) => map::<f32, i32>(operand, result, |x| x as i32),
        (ElementType::F32, ElementType::F64) => map::<f32, f64>(operand, result, f64::from),
        (ElementType::F64, ElementType::F32) => map::<f64, f32>(operand, result, |x| x as f32),
        (ElementType::U32, ElementType::S32) => map::<u32, u32>(operand, result, |x| x),
        (ElementType::BF16, ElementType::F32) => map::<u16, u32>(operand, result, |x| u32::from(x) << 16),
        (ElementType::F32, ElementType::BF16) => {
            map::<f32, u16>(operand, result, |x| half::bf16::from_f32(x).to_bits())
        }
        _ => {
            let count = operand.shape().element_count() as usize;
            build::<u8>(result, |target| {
                for index in 0..count {
                    store(to, target, index, convert_scalar(load(from, operand.bytes(), index), to));
                }
                Ok(())
            })
        }
    }
}

/// Rounds one float to a format of the given bits and back ("ReducePrecision").
///
/// `f16`, `f32` and `f64` are rounded in their own format, floats of 8 bits with five of exponent as `f16`, others as
/// `f32`. With fewer exponent bits than that
/// format has, what lies beyond the largest finite value becomes infinite and results below the smallest normal value
/// become zeros of the same sign, as XLA:CPU has it; with as many, the exponent stays as it is.
pub(super) fn reduce_precision_scalar(
    element_type: ElementType,
    value: f64,
    exponent_bits: i64,
    mantissa_bits: i64,
) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let (bits, own_exponent_bits, own_mantissa_bits) = match element_type {
        ElementType::F64 => (value.to_bits(), 11, 52),
        ElementType::F16 | ElementType::F8E5M2 | ElementType::F8E5M2FNUZ => {
            (u64::from(float_format::encode(ElementType::F16, value)), 5, 10)
        }
        _ => (u64::from((value as f32).to_bits()), 8, 23),
    };
    let dropped = own_mantissa_bits - mantissa_bits.clamp(0, own_mantissa_bits);
    // Ties to even: add just under half a unit, plus one if the last kept bit is odd; a carry moves the exponent on.
    let rounded = if dropped == 0 {
        bits
    } else {
        let last_kept = bits >> dropped & 1;
        let half = (1u64 << (dropped - 1)) - 1 + last_kept;
        (bits + half) & !((1u64 << dropped) - 1)
    };
    if exponent_bits < own_exponent_bits {
        let field = (rounded >> own_mantissa_bits & ((1 << own_exponent_bits) - 1)) as i64;
        let exponent = field - ((1 << (own_exponent_bits - 1)) - 1);
        let bias = (1i64 << (exponent_bits.max(1) - 1)) - 1;
        if exponent > bias {
            return f64::INFINITY.copysign(value);
        }
        if exponent < 1 - bias {
            return 0f64.copysign(value);
        }
    }
    match own_exponent_bits {
        11 => f64::from_bits(rounded),
        5 => float_format::decode(ElementType::F16, rounded as u16),
        _ => f64::from(f32::from_bits(rounded as u32)),
    }
}

/// Reduces the precision of each element.
pub(super) fn reduce_precision(
    operand: &ArrayLiteral,
    exponent_bits: i64,
    mantissa_bits: i64,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let element_type = operand.element_type();
    let count = operand.shape().element_count() as usize;
    build::<u8>(result, |target| {
        for index in 0..count {
            let value = load(element_type, operand.bytes(), index).to_float();
            let reduced = reduce_precision_scalar(element_type, value, exponent_bits, mantissa_bits);
            store(element_type, target, index, Scalar::Float(reduced));
        }
        Ok(())
    })
}

/// Converts floats to integers or narrower floats, rounding up when the random bits fall below the fraction lost.
pub(super) fn stochastic_convert(
    operand: &ArrayLiteral,
    random: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let to = result.element_type;
    if !to.is_integer() {
        return Err(EvalFailure::Unsupported("stochastic-convert to a type that is not an integer".into()));
    }
    let random_width = random.element_type().bit_width();
    let count = operand.shape().element_count() as usize;
    build::<u8>(result, |target| {
        for index in 0..count {
            let value = load(operand.element_type(), operand.bytes(), index).to_float();
            let bits = load(random.element_type(), random.bytes(), index).to_bits();
            let whole = value.abs().trunc();
            let threshold = (value.abs().fract() * 2f64.powi(random_width as i32)) as u64;
            let magnitude = if bits < threshold { whole + 1.0 } else { whole };
            store(to, target, index, convert_scalar(Scalar::Float(magnitude.copysign(value)), to));
        }
        Ok(())
    })
}
