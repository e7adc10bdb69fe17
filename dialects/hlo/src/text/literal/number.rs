//! Numbers of literals: decimal and hexadecimal, infinities, NaNs with payload.

use crate::element_type::ElementType;
use crate::float_format;

/// Why a token is no number of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// Not a number, or not of this class.
    Malformed,
    /// Beyond the type's range.
    OutOfRange,
}

use NumberError::{Malformed, OutOfRange};

/// Magnitude and sign of an integer.
fn magnitude(token: &str) -> Result<(bool, u64), NumberError> {
    let (negative, digits) = match token.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, token),
    };
    if let Some(digits) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Malformed);
        }
        return u64::from_str_radix(digits, 16).map(|value| (negative, value)).map_err(|_| OutOfRange);
    }
    if digits.is_empty() {
        return Err(Malformed);
    }
    let mut value = 0u64;
    for byte in digits.bytes() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Malformed);
        }
        value = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit))).ok_or(OutOfRange)?;
    }
    Ok((negative, value))
}

/// A signed integer of `bits` bits.
pub(crate) fn signed(token: &str, bits: u32) -> Result<i64, NumberError> {
    let (negative, value) = magnitude(token)?;
    let limit = 1u64 << (bits - 1);
    match negative {
        true if value <= limit => Ok((value as i64).wrapping_neg()),
        false if value < limit => Ok(value as i64),
        _ => Err(OutOfRange),
    }
}

/// An unsigned integer of `bits` bits. As for XLA, negative ones of 64 bits stand for their complement of two.
pub(crate) fn unsigned(token: &str, bits: u32) -> Result<u64, NumberError> {
    let (negative, value) = magnitude(token)?;
    match negative {
        false if bits == 64 || value >> bits == 0 => Ok(value),
        true if value == 0 || bits == 64 && value <= 1 << 63 => Ok(value.wrapping_neg()),
        _ => Err(OutOfRange),
    }
}

/// A truth value: `true`, `false`, or an integer that is one when it is not zero.
pub(crate) fn predicate(token: &str) -> Result<bool, NumberError> {
    match token {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => magnitude(token).map(|(_, value)| value != 0),
    }
}

/// A float, whatever its spelling: `1`, `-.5e3`, `0x1.8p-2`, `inf`, `-nan`, `nan(0x1)`.
trait Float: Copy + std::str::FromStr {
    fn from_f64(value: f64) -> Self;
    fn is_infinite(self) -> bool;
    fn nan(negative: bool, payload: Option<u64>) -> Option<Self>;
}

macro_rules! float {
    ($type:ty, $bits:ty, $mantissa:literal) => {
        impl Float for $type {
            fn from_f64(value: f64) -> Self {
                value as $type
            }

            fn is_infinite(self) -> bool {
                <$type>::is_infinite(self)
            }

            fn nan(negative: bool, payload: Option<u64>) -> Option<Self> {
                let sign = if negative { -1.0 } else { 1.0 };
                let nan = match payload {
                    None => <$type>::NAN.abs(),
                    Some(payload) if payload == 0 || payload >> $mantissa != 0 => return None,
                    Some(payload) => <$type>::from_bits(<$type>::INFINITY.to_bits() | payload as $bits),
                };
                Some(nan.copysign(sign))
            }
        }
    };
}

float!(f32, u32, 23);
float!(f64, u64, 52);

/// A `f32`, correctly rounded.
pub(crate) fn f32(token: &str) -> Result<f32, NumberError> {
    float(token)
}

/// A `f64`, correctly rounded.
pub(crate) fn f64(token: &str) -> Result<f64, NumberError> {
    float(token)
}

fn float<F: Float>(token: &str) -> Result<F, NumberError> {
    let digits = token.strip_prefix('-').unwrap_or(token);
    let first = digits.bytes().next().ok_or(Malformed)?;
    if first.is_ascii_digit() || first == b'.' {
        let value = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => F::from_f64(hexadecimal(token)?),
            _ => token.parse().map_err(|_| Malformed)?,
        };
        return if value.is_infinite() { Err(OutOfRange) } else { Ok(value) };
    }
    let negative = digits.len() != token.len();
    if digits == "inf" {
        return Ok(F::from_f64(if negative { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    F::nan(negative, nan_payload(digits)?).ok_or(OutOfRange)
}

/// The payload in `nan` or `nan(0x1)`.
fn nan_payload(token: &str) -> Result<Option<u64>, NumberError> {
    let payload = token.strip_prefix("nan").ok_or(Malformed)?;
    if payload.is_empty() {
        return Ok(None);
    }
    let digits = payload.strip_prefix("(0x").and_then(|digits| digits.strip_suffix(')')).ok_or(Malformed)?;
    u64::from_str_radix(digits, 16).map(Some).map_err(|_| Malformed)
}

/// `-0x1.8p-2`. More than 64 bits of mantissa are refused.
fn hexadecimal(token: &str) -> Result<f64, NumberError> {
    let (negative, digits) = match token.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, token),
    };
    let digits = digits.get(2..).ok_or(Malformed)?;
    let (mantissa, exponent) = digits.split_once(['p', 'P']).unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut value = 0u64;
    if whole.len() + fraction.len() == 0 {
        return Err(Malformed);
    }
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16).ok_or(Malformed)?);
        value = value.checked_mul(16).ok_or(OutOfRange)? | digit;
    }
    let exponent: i64 = exponent.parse().map_err(|_| Malformed)?;
    let mut exponent = exponent.saturating_sub(4 * fraction.len() as i64).clamp(-3000, 3000);
    // Scaled in steps that are exact until the last, so that the value is rounded once.
    let mut scaled = value as f64;
    while exponent != 0 {
        let step = exponent.clamp(-900, 900);
        scaled *= f64::from_bits(((step + 1023) as u64) << 52);
        exponent -= step;
    }
    Ok(if negative { -scaled } else { scaled })
}

/// Bits of a float of at most 16 bits, correctly rounded.
pub(crate) fn narrow(token: &str, element_type: ElementType) -> Result<u16, NumberError> {
    let value = f64(token)?;
    if value.is_nan() {
        let quiet = float_format::encode(element_type, f64::NAN.copysign(value));
        // A payload is of the type's own mantissa, and only the IEEE-like formats have room for one.
        let infinity = float_format::encode(element_type, f64::INFINITY);
        let digits = token.strip_prefix('-').unwrap_or(token);
        return match nan_payload(digits)? {
            Some(payload) if float_format::decode(element_type, infinity).is_infinite() => {
                let mantissa = quiet & !infinity & sign_mask(element_type);
                let room = u64::from(mantissa | (mantissa.wrapping_sub(1)));
                if payload == 0 || payload > room { Err(OutOfRange) } else { Ok(quiet & !mantissa | payload as u16) }
            }
            Some(_) => Err(OutOfRange),
            None => Ok(quiet),
        };
    }
    let bits = float_format::encode(element_type, value);
    let rounded = float_format::decode(element_type, bits);
    let saturated = element_type == ElementType::F4E2M1FN && value.abs() > 7.0;
    if value.is_finite() && (!rounded.is_finite() || saturated) { Err(OutOfRange) } else { Ok(bits) }
}

fn sign_mask(element_type: ElementType) -> u16 {
    ((1u32 << (element_type.bit_width() - 1)) - 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_checked_against_their_width() {
        assert_eq!(signed("-128", 8), Ok(-128));
        assert_eq!(signed("128", 8), Err(OutOfRange));
        assert_eq!(signed("-9223372036854775808", 64), Ok(i64::MIN));
        assert_eq!(signed("9223372036854775808", 64), Err(OutOfRange));
        assert_eq!(signed("-2", 2), Ok(-2));
        assert_eq!(unsigned("18446744073709551615", 64), Ok(u64::MAX));
        assert_eq!(unsigned("18446744073709551616", 64), Err(OutOfRange));
        assert_eq!(unsigned("-1", 4), Err(OutOfRange));
        assert_eq!(unsigned("-1", 64), Ok(u64::MAX));
        assert_eq!(unsigned("-9223372036854775809", 64), Err(OutOfRange));
        assert_eq!(unsigned("0xff", 8), Ok(255));
        assert_eq!(signed("1.5", 8), Err(Malformed));
        assert_eq!(signed("-", 8), Err(Malformed));
    }

    #[test]
    fn floats_of_every_spelling() {
        assert_eq!(f32("-3.40282e+38"), Ok(-3.40282e+38));
        assert_eq!(f32("3.5e38"), Err(OutOfRange));
        assert_eq!(f64("0x1.8p-2"), Ok(0.375));
        assert_eq!(f64("-0x.8p1"), Ok(-1.0));
        assert_eq!(f64("0x1p-1074"), Ok(f64::from_bits(1)));
        assert_eq!(f64("0x1p2000"), Err(OutOfRange));
        assert_eq!(f32("-inf"), Ok(f32::NEG_INFINITY));
        assert_eq!(f32("nan").map(f32::to_bits), Ok(0x7fc0_0000));
        assert_eq!(f32("-nan(0x1)").map(f32::to_bits), Ok(0xff80_0001));
        assert_eq!(f32("nan(0x800000)"), Err(OutOfRange));
        assert_eq!(f32("infinity"), Err(Malformed));
        assert_eq!(f32("e5"), Err(Malformed));
    }

    #[test]
    fn narrow_floats() {
        assert_eq!(narrow("-65520", ElementType::F16), Err(OutOfRange));
        assert_eq!(narrow("65504", ElementType::F16), Ok(0x7bff));
        assert_eq!(narrow("1e100", ElementType::BF16), Err(OutOfRange));
        assert_eq!(narrow("1", ElementType::BF16), Ok(0x3f80));
        assert_eq!(narrow("nan", ElementType::BF16), Ok(0x7fc0));
        assert_eq!(narrow("-nan(0x3)", ElementType::BF16), Ok(0xff83));
        assert_eq!(narrow("nan(0x80)", ElementType::BF16), Err(OutOfRange));
        assert_eq!(narrow("-nan", ElementType::F8E4M3FN), Ok(0xff));
        assert_eq!(narrow("-nan", ElementType::F8E4M3B11FNUZ), Ok(0x80));
        assert_eq!(narrow("nan(0x1)", ElementType::F8E4M3FN), Err(OutOfRange));
        assert_eq!(narrow("7", ElementType::F8E4M3FN), Ok(0x4e));
        assert_eq!(narrow("6", ElementType::F4E2M1FN), Ok(7));
        assert_eq!(narrow("100", ElementType::F4E2M1FN), Err(OutOfRange));
    }
}
