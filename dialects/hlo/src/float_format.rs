//! The narrow floating-point formats: exact decoding to `f64` and correctly rounded encoding from it.
//!
//! Every value of a format of at most 16 bits is exact in `f64`, and an operation computed in `f64` and then
//! encoded here is rounded once. Formats follow the "OCP 8-bit floating point", "OCP microscaling" and
//! FNUZ descriptions: `FN` has no infinities, `UZ` no negative zero, `B11` a bias of 11.

use crate::element_type::ElementType;

/// What a format does with values beyond its largest finite one, and where its NaN is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// Infinities and NaNs in the largest exponent, as in IEEE 754.
    Ieee,
    /// No infinity; NaN is all ones. Overflow gives NaN.
    Finite,
    /// No infinity, no negative zero, whose pattern is the NaN. Overflow gives NaN.
    FiniteUnsignedZero,
    /// Neither infinity nor NaN. Overflow saturates; NaN becomes negative zero, as XLA:CPU has it.
    Saturating,
}

/// Layout of a narrow format with a sign bit.
#[derive(Clone, Copy, Debug)]
struct FloatFormat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    specials: Specials,
}

const fn format(exponent_bits: u32, mantissa_bits: u32, bias: i32, specials: Specials) -> FloatFormat {
    FloatFormat { exponent_bits, mantissa_bits, bias, specials }
}

impl FloatFormat {
    fn of(element_type: ElementType) -> Option<FloatFormat> {
        use Specials::*;
        Some(match element_type {
            ElementType::F4E2M1FN => format(2, 1, 1, Saturating),
            ElementType::F8E3M4 => format(3, 4, 3, Ieee),
            ElementType::F8E4M3 => format(4, 3, 7, Ieee),
            ElementType::F8E4M3FN => format(4, 3, 7, Finite),
            ElementType::F8E4M3B11FNUZ => format(4, 3, 11, FiniteUnsignedZero),
            ElementType::F8E4M3FNUZ => format(4, 3, 8, FiniteUnsignedZero),
            ElementType::F8E5M2 => format(5, 2, 15, Ieee),
            ElementType::F8E5M2FNUZ => format(5, 2, 16, FiniteUnsignedZero),
            ElementType::BF16 => format(8, 7, 127, Ieee),
            ElementType::F16 => format(5, 10, 15, Ieee),
            _ => return None,
        })
    }

    fn sign_bit(self) -> u16 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// Largest finite magnitude, as bits.
    fn largest(self) -> u16 {
        let all_ones = self.sign_bit() - 1;
        match self.specials {
            Specials::Ieee => (all_ones & !((1 << self.mantissa_bits) - 1)) - 1,
            Specials::Finite => all_ones - 1,
            Specials::FiniteUnsignedZero | Specials::Saturating => all_ones,
        }
    }

    fn nan(self, sign: u16) -> u16 {
        match self.specials {
            Specials::Ieee => sign | (self.largest() + 1) | (1 << (self.mantissa_bits - 1)),
            Specials::Finite => sign | (self.sign_bit() - 1),
            Specials::FiniteUnsignedZero | Specials::Saturating => self.sign_bit(),
        }
    }

    fn decode(self, bits: u16) -> f64 {
        let magnitude = bits & (self.sign_bit() - 1);
        let sign = if bits & self.sign_bit() == 0 { 1.0 } else { -1.0 };
        if magnitude > self.largest() {
            let payload = match self.specials {
                Specials::Ieee => u64::from(magnitude) & ((1 << self.mantissa_bits) - 1),
                _ => 0,
            };
            if self.specials == Specials::Ieee && payload == 0 {
                return sign * f64::INFINITY;
            }
            // NaN keeps its payload, which has a place in the total order, behind the bit of quiet NaN.
            let bits = f64::NAN.to_bits() | payload << (51 - self.mantissa_bits);
            return f64::from_bits(bits).copysign(sign);
        }
        if self.specials == Specials::FiniteUnsignedZero && bits == self.sign_bit() {
            // Its place in the total order is that of its bits.
            return f64::NAN.copysign(-1.0);
        }
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let fraction = f64::from(magnitude & ((1 << self.mantissa_bits) - 1));
        let hidden = if exponent == 0 { 0.0 } else { f64::from(1u16 << self.mantissa_bits) };
        let scale = exponent.max(1) - self.bias - self.mantissa_bits as i32;
        sign * (hidden + fraction) * power_of_two(scale)
    }

    /// Rounds to nearest, ties to even.
    fn encode(self, value: f64) -> u16 {
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        if value.is_nan() {
            return self.nan(sign);
        }
        let magnitude = value.abs();
        let beyond = match self.specials {
            Specials::Ieee => sign | (self.largest() + 1),
            Specials::Finite | Specials::FiniteUnsignedZero => self.nan(sign),
            Specials::Saturating => sign | self.largest(),
        };
        if magnitude.is_infinite() {
            return beyond;
        }
        let exponent = exponent_of(magnitude).max(1 - self.bias);
        // Beyond every narrow format, and where the scaling below could overflow.
        if exponent > 200 {
            return beyond;
        }
        // In units of the last place; the hidden bit, if any, is part of the integer and a carry out of the
        // mantissa moves on to the exponent by itself.
        let units = (magnitude * power_of_two(self.mantissa_bits as i32 - exponent)).round_ties_even() as u32;
        let bits = (((exponent + self.bias - 1) as u32) << self.mantissa_bits) + units;
        if bits > u32::from(self.largest()) {
            return beyond;
        }
        if bits == 0 && self.specials == Specials::FiniteUnsignedZero {
            return 0;
        }
        sign | bits as u16
    }
}

/// 2 to a power in the range of normal `f64` exponents.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Floor of the base-2 logarithm of a finite non-negative value; -1023 for zero and subnormals.
fn exponent_of(magnitude: f64) -> i32 {
    (magnitude.to_bits() >> 52) as i32 - 1023
}

/// Value of a narrow float's bits (`bf16`, `f16`, every 8- and 4-bit type); NaN for other types.
pub fn decode(element_type: ElementType, bits: u16) -> f64 {
    match element_type {
        ElementType::BF16 if bits & 0x7fff <= 0x7f80 => f64::from(f32::from_bits(u32::from(bits) << 16)),
        ElementType::F8E8M0FNU if bits == 0xff => f64::NAN,
        ElementType::F8E8M0FNU => power_of_two(i32::from(bits) - 127),
        _ => FloatFormat::of(element_type).map_or(f64::NAN, |format| format.decode(bits)),
    }
}

/// Bits of the narrow float nearest to a value, ties to even; 0 for types that are not narrow floats.
pub fn encode(element_type: ElementType, value: f64) -> u16 {
    match element_type {
        ElementType::F8E8M0FNU => encode_exponent_only(value),
        _ => FloatFormat::of(element_type).map_or(0, |format| format.encode(value)),
    }
}

/// `f8e8m0fnu` holds 2^(bits - 127): no sign, no zero, NaN for what it cannot hold, which is also what is zero in
/// `f32`; ties go up.
fn encode_exponent_only(value: f64) -> u16 {
    // Written so that NaN fails the test too.
    if !(value as f32 > 0.0 && value.is_finite()) {
        return 0xff;
    }
    let floor = exponent_of(value);
    let rounded = if value.to_bits() & ((1 << 52) - 1) >= 1 << 51 { floor + 1 } else { floor };
    if rounded > 127 { 0xff } else { (rounded.max(-127) + 127) as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(element_type: ElementType, value: f64) -> f64 {
        decode(element_type, encode(element_type, value))
    }

    #[test]
    fn every_pattern_survives_a_round_trip() {
        for element_type in ElementType::all().filter(|t| t.is_float() && t.bit_width() <= 16) {
            for bits in 0..1u32 << element_type.bit_width() {
                let value = decode(element_type, bits as u16);
                if !value.is_nan() {
                    assert_eq!(encode(element_type, value), bits as u16, "{element_type} {bits:#x} {value}");
                }
            }
        }
    }

    #[test]
    fn the_total_order_is_that_of_the_bits() {
        use ElementType::{BF16, F8E3M4, F8E4M3, F8E5M2, F16};
        for element_type in [BF16, F16, F8E3M4, F8E4M3, F8E5M2] {
            let largest = (1u16 << (element_type.bit_width() - 1)) - 1;
            for bits in 0..largest {
                let [lower, upper] = [bits, bits + 1].map(|bits| decode(element_type, bits));
                assert!(lower.total_cmp(&upper).is_lt(), "{element_type} {bits:#x}");
                let [lower, upper] = [bits, bits + 1].map(|bits| decode(element_type, bits | (largest + 1)));
                assert!(lower.total_cmp(&upper).is_gt(), "{element_type} -{bits:#x}");
            }
        }
    }

    #[test]
    fn bf16_and_f16_agree_with_the_half_crate() {
        for bits in 0..=u16::MAX {
            let f16 = half::f16::from_bits(bits).to_f64();
            assert!(f16 == decode(ElementType::F16, bits) || f16.is_nan());
        }
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = f32::from_bits((state >> 32) as u32);
            if !value.is_nan() {
                assert_eq!(encode(ElementType::BF16, value.into()), half::bf16::from_f32(value).to_bits());
                assert_eq!(encode(ElementType::F16, value.into()), half::f16::from_f32(value).to_bits());
            }
        }
    }

    #[test]
    fn overflow_follows_the_format() {
        assert!(round(ElementType::F8E4M3FN, 470.0).is_nan());
        assert_eq!(round(ElementType::F8E4M3FN, 460.0), 448.0);
        assert_eq!(round(ElementType::F8E5M2, 1e10), f64::INFINITY);
        assert_eq!(round(ElementType::F8E4M3, 248.0), f64::INFINITY);
        assert!(round(ElementType::F8E4M3B11FNUZ, 31.0).is_nan());
        assert_eq!(round(ElementType::F8E4M3B11FNUZ, 30.0), 30.0);
        assert!(round(ElementType::F8E4M3FNUZ, f64::NEG_INFINITY).is_nan());
        assert_eq!(round(ElementType::F4E2M1FN, 1e10), 6.0);
        assert_eq!(round(ElementType::F4E2M1FN, -5.0), -4.0);
        assert_eq!(encode(ElementType::F8E5M2FNUZ, -1e-9), 0);
        assert_eq!(round(ElementType::F8E8M0FNU, 0.75), 1.0);
        assert!(round(ElementType::F8E8M0FNU, -1.5).is_nan());
    }
}
