//! Floating-point formats below 32 bits: rounding of `f32` registers, and the way from and to their codes.
//!
//! Rounding is to nearest, ties to even (`f8e8m0fnu`, which has no mantissa: ties up). Overflow gives infinity where
//! the format has one, else NaN, else (`f4e2m1fn`) the largest value. Everything but `f16`, and reading and writing what
//! has its exponents, is integer arithmetic: the conversions of LLVM would be library calls on most CPUs.

use hlo::element_type::ElementType;
use melior::ir::Type;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

/// A float format below 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    /// `bf16`: the upper half of `f32`.
    BrainFloat,
    /// `f16`, for which CPUs have instructions.
    Half,
    /// `f8e8m0fnu`: powers of two from 2^-127 to 2^127, without sign and zero; code 255 is NaN.
    PowerOfTwo,
    /// Sign, exponent and mantissa in at most 8 bits.
    Small(&'static SmallFormat),
}

/// What the codes mean that are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// An exponent of all ones is infinity (mantissa 0) or NaN.
    Ieee,
    /// Exponent and mantissa of all ones are NaN; no infinity.
    OneNan,
    /// The code of -0 is NaN, which is negative in the total order; no infinity, no -0.
    NanIsNegativeZero,
    /// Every code is a finite number; NaN becomes -0.
    None,
}

/// Sign, exponent and mantissa; the exponent field 0 holds subnormal numbers.
#[derive(Debug)]
pub(super) struct SmallFormat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// Largest finite value.
    largest: f32,
    specials: Specials,
}

const fn small(exponent_bits: u32, mantissa_bits: u32, bias: i32, largest: f32, specials: Specials) -> SmallFormat {
    SmallFormat { exponent_bits, mantissa_bits, bias, largest, specials }
}

static F4E2M1FN: SmallFormat = small(2, 1, 1, 6.0, Specials::None);
static F8E3M4: SmallFormat = small(3, 4, 3, 15.5, Specials::Ieee);
static F8E4M3: SmallFormat = small(4, 3, 7, 240.0, Specials::Ieee);
static F8E4M3FN: SmallFormat = small(4, 3, 7, 448.0, Specials::OneNan);
static F8E4M3B11FNUZ: SmallFormat = small(4, 3, 11, 30.0, Specials::NanIsNegativeZero);
static F8E4M3FNUZ: SmallFormat = small(4, 3, 8, 240.0, Specials::NanIsNegativeZero);
static F8E5M2: SmallFormat = small(5, 2, 15, 57344.0, Specials::Ieee);
static F8E5M2FNUZ: SmallFormat = small(5, 2, 16, 57344.0, Specials::NanIsNegativeZero);

/// `f16`.
const HALF_EXPONENT_BITS: u32 = 5;
const HALF_MANTISSA_BITS: u32 = 10;
const HALF_SIGN_PLACE: u32 = 15;
const HALF_BIAS: i32 = 15;
const HALF_NAN: u32 = 0x7e00;

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
const QUIET_NAN: u32 = 0x7fc0_0000;

impl Format {
    /// The format of an element type; `None` for types that registers hold as they are.
    pub(super) fn of(element_type: ElementType) -> Option<Format> {
        Some(match element_type {
            ElementType::F4E2M1FN => Format::Small(&F4E2M1FN),
            ElementType::F8E3M4 => Format::Small(&F8E3M4),
            ElementType::F8E4M3 => Format::Small(&F8E4M3),
            ElementType::F8E4M3FN => Format::Small(&F8E4M3FN),
            ElementType::F8E4M3B11FNUZ => Format::Small(&F8E4M3B11FNUZ),
            ElementType::F8E4M3FNUZ => Format::Small(&F8E4M3FNUZ),
            ElementType::F8E5M2 => Format::Small(&F8E5M2),
            ElementType::F8E5M2FNUZ => Format::Small(&F8E5M2FNUZ),
            ElementType::F8E8M0FNU => Format::PowerOfTwo,
            ElementType::BF16 => Format::BrainFloat,
            ElementType::F16 => Format::Half,
            _ => return None,
        })
    }

    /// Whether negation, absolute value, choice and rounding to integers of exact values stay exact. The formats
    /// without -0, without sign or without large integers do not.
    pub(super) fn is_closed(self) -> bool {
        matches!(self, Format::BrainFloat | Format::Half)
    }

    /// The largest finite value and, where there is one, infinity: the bound of all values.
    pub(super) fn bound(self) -> f64 {
        match self {
            Format::BrainFloat | Format::Half => f64::INFINITY,
            Format::PowerOfTwo => 2f64.powi(127),
            Format::Small(format) if format.specials == Specials::Ieee => f64::INFINITY,
            Format::Small(format) => f64::from(format.largest),
        }
    }

    /// Bits of the `f32` that a code means.
    pub(super) fn decode_bits(self, code: u32) -> u32 {
        match self {
            Format::BrainFloat => code << 16,
            Format::Half => {
                let sign = (code & 0x8000) << 16;
                let magnitude = code & 0x7fff;
                sign | match magnitude {
                    0x7c00.. => INFINITY | (magnitude & 0x3ff) << 13,
                    0x400.. => (magnitude << 13) + ((127 - 15) << 23),
                    _ => (magnitude as f32 * 2f32.powi(-24)).to_bits(),
                }
            }
            Format::PowerOfTwo => match code {
                0 => 1 << 22,
                0xff => QUIET_NAN,
                _ => code << 23,
            },
            Format::Small(format) => format.decode_bits(code),
        }
    }
}

impl SmallFormat {
    /// How far the mantissa lies from that of `f32`.
    fn shift(&self) -> u32 {
        23 - self.mantissa_bits
    }

    /// Difference of the biases, at the place of the exponent of `f32`.
    fn rebias(&self) -> i64 {
        i64::from(127 - self.bias) << 23
    }

    /// Code of the sign.
    fn sign(&self) -> u32 {
        1 << self.sign_place()
    }

    /// The smallest magnitude with exponent field all ones.
    fn last_exponent(&self) -> u32 {
        self.sign() - (1 << self.mantissa_bits)
    }

    /// The place of the sign.
    fn sign_place(&self) -> u32 {
        self.exponent_bits + self.mantissa_bits
    }

    /// Whether values are read and written as those of `f16` that have the same exponents and first bits of the mantissa.
    fn goes_by_half(&self, builder: &OpBuilder<'_>) -> bool {
        let has_all_exponents = self.exponent_bits == HALF_EXPONENT_BITS;
        let is_taken = self.sign_place() == 7 && (self.specials == Specials::Ieee) == has_all_exponents;
        is_taken && !builder.machine().is_gpu
    }

    /// By which power of two a value is larger than the `f16` with the same bits of exponent and mantissa.
    fn powers_above_half(&self) -> i32 {
        HALF_BIAS - self.bias
    }

    /// Value of the lowest mantissa bit of a subnormal number.
    fn quantum(&self) -> f64 {
        2f64.powi(1 - self.bias - self.mantissa_bits as i32)
    }

    /// The smallest normal number.
    fn smallest_normal(&self) -> f64 {
        2f64.powi(1 - self.bias)
    }

    fn decode_bits(&self, code: u32) -> u32 {
        let sign = if code & self.sign() != 0 { SIGN } else { 0 };
        let magnitude = code & (self.sign() - 1);
        let payload = (magnitude << self.shift()) & !INFINITY;
        match self.specials {
            Specials::Ieee if magnitude >= self.last_exponent() => return sign | INFINITY | payload,
            Specials::OneNan if magnitude == self.sign() - 1 => return sign | QUIET_NAN,
            Specials::NanIsNegativeZero if code & (2 * self.sign() - 1) == self.sign() => return SIGN | QUIET_NAN,
            _ => {}
        }
        sign | if magnitude < 1 << self.mantissa_bits {
            ((f64::from(magnitude) * self.quantum()) as f32).to_bits()
        } else {
            ((i64::from(magnitude) << self.shift()) + self.rebias()) as u32
        }
    }
}

/// `f32` registers of codes in memory.
pub(super) fn decode<'c>(builder: &OpBuilder<'c>, format: Format, code: Value<'c>) -> Value<'c> {
    let float = Type::float32(builder.context());
    let wide = |code| builder.extui(code, builder.integer_type(32));
    match format {
        Format::BrainFloat => {
            let code = wide(code);
            builder.bitcast(builder.shli(code, builder.integer_like(code, 16)), float)
        }
        Format::Half => builder.extf(builder.bitcast(code, Type::float16(builder.context())), float),
        Format::PowerOfTwo => {
            let code = wide(code);
            let is = |value| builder.cmpi(CmpiPredicate::Eq, code, builder.integer_like(code, value));
            let bits = builder.shli(code, builder.integer_like(code, 23));
            let bits = builder.select(is(0), builder.integer_like(code, 1 << 22), bits);
            let bits = builder.select(is(0xff), builder.integer_like(code, i64::from(QUIET_NAN)), bits);
            builder.bitcast(bits, float)
        }
        Format::Small(format) if format.goes_by_half(builder) => decode_as_half(builder, format, code),
        Format::Small(format) => builder.bitcast(decode_small(builder, format, wide(code)), float),
    }
}

/// Values of codes whose exponents are some of those of `f16`, by the instruction that processors have for it.
fn decode_as_half<'c>(builder: &OpBuilder<'c>, format: &SmallFormat, code: Value<'c>) -> Value<'c> {
    let place = HALF_MANTISSA_BITS - format.mantissa_bits;
    let above = (1 << HALF_SIGN_PLACE) - (1 << (format.sign_place() + place));
    let wide = if above == 0 { OpBuilder::extui } else { OpBuilder::extsi };
    let wide = wide(builder, code, builder.integer_type(16));
    let integer = |value: u32| builder.integer_like(wide, value.into());
    let shifted = builder.shli(wide, integer(place));
    // Copies of the sign are above the exponent.
    let half = if above == 0 { shifted } else { builder.andi(shifted, integer(!above & 0xffff)) };
    let nan_for = |code: u32, bits: u32| {
        let (code, magnitude) = (integer(code), integer((1 << HALF_SIGN_PLACE) - 1));
        let own = if format.specials == Specials::OneNan { builder.andi(half, magnitude) } else { half };
        let is_nan = builder.cmpi(CmpiPredicate::Eq, own, code);
        builder.xori(half, builder.select(is_nan, integer(bits), integer(0)))
    };
    let half = match format.specials {
        Specials::Ieee | Specials::None => half,
        Specials::OneNan => nan_for((format.sign() - 1) << place, (format.sign() - 1) << place ^ HALF_NAN),
        Specials::NanIsNegativeZero => nan_for(1 << HALF_SIGN_PLACE, HALF_NAN),
    };
    let half = builder.bitcast(half, Type::float16(builder.context()));
    scaled(builder, builder.extf(half, Type::float32(builder.context())), format.powers_above_half())
}

/// Codes of `f32` registers that hold values of the format; a code that was decoded is what it was, a signalling NaN too.
fn encode_as_half<'c>(builder: &OpBuilder<'c>, format: &SmallFormat, value: Value<'c>) -> Value<'c> {
    let byte = builder.integer_type(8);
    let mut decoded = ["arith.extf", "arith.bitcast", "arith.shli", "arith.extui"].into_iter();
    let code = decoded.try_fold(value, |value, operation| value.made_by(operation));
    if let Some(code) = code.filter(|code| builder.element_type_of(code.r#type()) == byte) {
        return code;
    }
    let half = builder.truncf(scaled(builder, value, -format.powers_above_half()), Type::float16(builder.context()));
    let half = builder.bitcast(half, builder.integer_type(16));
    let integer = |value: u32| builder.integer_like(half, value.into());
    let place = integer(HALF_MANTISSA_BITS - format.mantissa_bits);
    if format.exponent_bits == HALF_EXPONENT_BITS {
        return builder.trunci(builder.shrui(half, place), byte);
    }
    let magnitude = builder.shrui(builder.andi(half, integer((1 << HALF_SIGN_PLACE) - 1)), place);
    let sign = builder.shrui(half, integer(HALF_SIGN_PLACE - format.sign_place()));
    let sign = builder.andi(sign, integer(format.sign()));
    // All bits of the exponent of a NaN are set, and more than there are here.
    let code = match format.specials {
        Specials::OneNan => builder.ori(builder.minsi(magnitude, integer(format.sign() - 1)), sign),
        Specials::NanIsNegativeZero => {
            let is_nan = builder.cmpi(CmpiPredicate::Uge, magnitude, integer(format.sign()));
            builder.select(is_nan, integer(format.sign()), builder.ori(magnitude, sign))
        }
        Specials::Ieee | Specials::None => builder.ori(magnitude, sign),
    };
    builder.trunci(code, byte)
}

/// A value times a power of two.
fn scaled<'c>(builder: &OpBuilder<'c>, value: Value<'c>, power: i32) -> Value<'c> {
    if power == 0 { value } else { builder.mulf(value, builder.float_like(value, 2f64.powi(power))) }
}

fn decode_small<'c>(builder: &OpBuilder<'c>, format: &SmallFormat, code: Value<'c>) -> Value<'c> {
    let integer = |value: i64| builder.integer_like(code, value);
    let float = Type::float32(builder.context());
    let sign_position = format.sign_place();
    let magnitude = builder.andi(code, integer(i64::from(format.sign() - 1)));
    let shifted = builder.shli(magnitude, integer(i64::from(format.shift())));
    let normal = builder.addi(shifted, integer(format.rebias()));
    let subnormal = builder.sitofp(magnitude, float);
    let subnormal = builder.mulf(subnormal, builder.float_like(subnormal, format.quantum()));
    let subnormal = builder.bitcast(subnormal, builder.integer_type(32));
    let is_subnormal = builder.cmpi(CmpiPredicate::Ult, magnitude, integer(1 << format.mantissa_bits));
    let bits = builder.select(is_subnormal, subnormal, normal);
    let bits = match format.specials {
        Specials::Ieee => {
            let special = builder.ori(shifted, integer(i64::from(INFINITY)));
            let is_special = builder.cmpi(CmpiPredicate::Uge, magnitude, integer(i64::from(format.last_exponent())));
            builder.select(is_special, special, bits)
        }
        Specials::OneNan => {
            let is_nan = builder.cmpi(CmpiPredicate::Eq, magnitude, integer(i64::from(format.sign() - 1)));
            builder.select(is_nan, integer(i64::from(QUIET_NAN)), bits)
        }
        Specials::NanIsNegativeZero | Specials::None => bits,
    };
    let sign = builder.andi(code, integer(i64::from(format.sign())));
    let bits = builder.ori(bits, builder.shli(sign, integer(i64::from(31 - sign_position))));
    match format.specials {
        Specials::NanIsNegativeZero => {
            let is_nan = builder.cmpi(CmpiPredicate::Eq, code, integer(i64::from(format.sign())));
            builder.select(is_nan, integer(i64::from(SIGN | QUIET_NAN)), bits)
        }
        Specials::Ieee | Specials::OneNan | Specials::None => bits,
    }
}

/// Codes of `f32` registers that hold values of the format.
pub(super) fn encode<'c>(builder: &OpBuilder<'c>, format: Format, value: Value<'c>) -> Value<'c> {
    let bits = |value| builder.bitcast(value, builder.integer_type(32));
    let shifted = |bits, amount| builder.shrui(bits, builder.integer_like(bits, amount));
    match format {
        Format::BrainFloat => builder.trunci(shifted(bits(value), 16), builder.integer_type(16)),
        Format::Half => builder.bitcast(halves(builder, value), builder.integer_type(16)),
        Format::PowerOfTwo => builder.trunci(shifted(bits(value), 23), builder.integer_type(8)),
        Format::Small(format) if format.goes_by_half(builder) => encode_as_half(builder, format, value),
        Format::Small(format) => {
            builder.trunci(encode_small(builder, format, value, bits(value)), builder.integer_type(8))
        }
    }
}

fn encode_small<'c>(builder: &OpBuilder<'c>, format: &SmallFormat, value: Value<'c>, bits: Value<'c>) -> Value<'c> {
    let integer = |value: i64| builder.integer_like(bits, value);
    let magnitude = builder.andi(bits, integer(i64::from(!SIGN)));
    let shift = integer(i64::from(format.shift()));
    let normal = builder.shrui(builder.subi(magnitude, integer(format.rebias())), shift);
    let absolute = builder.absf(value);
    let scaled = builder.mulf(absolute, builder.float_like(value, 1.0 / format.quantum()));
    // Lanes outside the range of the conversion are not selected, but must not be undefined either.
    let is_subnormal = builder.cmpf(CmpfPredicate::Olt, absolute, builder.float_like(value, format.smallest_normal()));
    let scaled = builder.select(is_subnormal, scaled, builder.float_like(value, 0.0));
    let subnormal = builder.fptosi(scaled, builder.integer_type(32));
    let code = builder.select(is_subnormal, subnormal, normal);
    let is_at_least = |limit: u32| builder.cmpi(CmpiPredicate::Uge, magnitude, integer(i64::from(limit)));
    let code = match format.specials {
        Specials::Ieee => {
            let payload = builder.shrui(builder.andi(bits, integer((1 << 23) - 1)), shift);
            let special = builder.ori(payload, integer(i64::from(format.last_exponent())));
            builder.select(is_at_least(INFINITY), special, code)
        }
        Specials::OneNan => builder.select(is_at_least(INFINITY), integer(i64::from(format.sign() - 1)), code),
        Specials::NanIsNegativeZero | Specials::None => code,
    };
    let sign_position = format.sign_place();
    let sign = builder.shrui(bits, integer(i64::from(31 - sign_position)));
    let code = builder.ori(code, builder.andi(sign, integer(i64::from(format.sign()))));
    match format.specials {
        Specials::NanIsNegativeZero => {
            builder.select(is_at_least(INFINITY + 1), integer(i64::from(format.sign())), code)
        }
        Specials::Ieee | Specials::OneNan | Specials::None => code,
    }
}

/// The nearest `f16`; the one that a register was made of, if it was.
pub(super) fn halves<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    let half = Type::float16(builder.context());
    value
        .made_by("arith.extf")
        .filter(|source| builder.element_type_of(source.r#type()) == half)
        .unwrap_or_else(|| builder.truncf(value, half))
}

/// The nearest value of the format, as an `f32`.
pub(super) fn round<'c>(builder: &OpBuilder<'c>, format: Format, value: Value<'c>) -> Value<'c> {
    let float = Type::float32(builder.context());
    match format {
        Format::Half => builder.extf(halves(builder, value), float),
        Format::BrainFloat => {
            let bits = builder.bitcast(value, builder.integer_type(32));
            let rounded = round_bits(builder, bits, 16);
            let is_nan = builder.cmpf(CmpfPredicate::Uno, value, value);
            let sign = builder.andi(bits, builder.integer_like(bits, i64::from(SIGN)));
            let nan = builder.ori(sign, builder.integer_like(bits, i64::from(QUIET_NAN)));
            builder.bitcast(builder.select(is_nan, nan, rounded), float)
        }
        Format::PowerOfTwo => builder.bitcast(round_to_power_of_two(builder, value), float),
        Format::Small(format) => builder.bitcast(round_small(builder, format, value), float),
    }
}

/// Rounds away the lowest `count` bits of the bits of a finite number, to nearest, ties to even.
fn round_bits<'c>(builder: &OpBuilder<'c>, bits: Value<'c>, count: u32) -> Value<'c> {
    let integer = |value: i64| builder.integer_like(bits, value);
    let lowest_kept = builder.andi(builder.shrui(bits, integer(i64::from(count))), integer(1));
    let rounded = builder.addi(bits, builder.addi(lowest_kept, integer((1 << (count - 1)) - 1)));
    builder.andi(rounded, integer(-1 << count))
}

fn round_to_power_of_two<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    let bits = builder.bitcast(value, builder.integer_type(32));
    let integer = |value: i64| builder.integer_like(bits, value);
    // Ties go up; among subnormals 2^-127 itself, which is such a tie, stays.
    let rounded = builder.andi(builder.addi(bits, integer(1 << 22)), integer(0xff << 23));
    let smallest = integer(1 << 22);
    let is_smallest = builder.cmpi(CmpiPredicate::Ule, bits, smallest);
    let rounded = builder.select(is_smallest, smallest, rounded);
    // Negative numbers and -0 have the highest bit set; zero is the only other number without a value.
    let less_one = builder.subi(bits, integer(1));
    let invalid = builder.cmpi(CmpiPredicate::Uge, less_one, integer(i64::from(INFINITY - (1 << 22)) - 1));
    builder.select(invalid, integer(i64::from(QUIET_NAN)), rounded)
}

fn round_small<'c>(builder: &OpBuilder<'c>, format: &SmallFormat, value: Value<'c>) -> Value<'c> {
    let bits = builder.bitcast(value, builder.integer_type(32));
    let integer = |value: i64| builder.integer_like(bits, value);
    let sign = builder.andi(bits, integer(i64::from(SIGN)));
    let absolute = builder.absf(value);
    let magnitude = builder.xori(bits, sign);
    let normal = round_bits(builder, magnitude, format.shift());
    // Adding a number whose last bit is worth the quantum rounds to a multiple of the quantum.
    let rounder = builder.float_like(value, format.quantum() * 2f64.powi(23));
    let subnormal = builder.subf(builder.addf(absolute, rounder), rounder);
    let subnormal = builder.bitcast(subnormal, builder.integer_type(32));
    let smallest_normal = integer(i64::from((format.smallest_normal() as f32).to_bits()));
    let is_subnormal = builder.cmpi(CmpiPredicate::Ult, magnitude, smallest_normal);
    let rounded = builder.select(is_subnormal, subnormal, normal);
    let largest = integer(i64::from(format.largest.to_bits()));
    let overflow = match format.specials {
        Specials::Ieee => integer(i64::from(INFINITY)),
        Specials::OneNan => integer(i64::from(QUIET_NAN)),
        Specials::NanIsNegativeZero => integer(i64::from(SIGN | QUIET_NAN)),
        Specials::None => largest,
    };
    let overflows = builder.cmpi(CmpiPredicate::Ugt, rounded, largest);
    let rounded = builder.select(overflows, overflow, rounded);
    let signed = builder.ori(rounded, sign);
    let is_nan = || builder.cmpi(CmpiPredicate::Ugt, magnitude, integer(i64::from(INFINITY)));
    match format.specials {
        Specials::Ieee => {
            let nan = builder.ori(sign, integer(i64::from(QUIET_NAN)));
            builder.select(is_nan(), nan, signed)
        }
        // NaN counts as overflow.
        Specials::OneNan => signed,
        Specials::NanIsNegativeZero => {
            let is_zero = builder.cmpi(CmpiPredicate::Eq, rounded, integer(0));
            builder.select(is_zero, rounded, signed)
        }
        Specials::None => builder.select(is_nan(), integer(i64::from(SIGN)), signed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_the_numbers_of_the_formats() {
        let decode =
            |element_type, code| f32::from_bits(Format::of(element_type).expect("a small format").decode_bits(code));
        assert_eq!(decode(ElementType::F4E2M1FN, 0b0001), 0.5);
        assert_eq!(decode(ElementType::F4E2M1FN, 0b1111), -6.0);
        assert_eq!(decode(ElementType::F8E4M3FN, 0x7e), 448.0);
        assert!(decode(ElementType::F8E4M3FN, 0xff).is_nan());
        assert_eq!(decode(ElementType::F8E4M3FN, 1), 2f32.powi(-9));
        assert_eq!(decode(ElementType::F8E5M2, 0xfc), f32::NEG_INFINITY);
        assert_eq!(decode(ElementType::F8E5M2, 0x7b), 57344.0);
        assert!(decode(ElementType::F8E5M2FNUZ, 0x80).is_nan());
        assert_eq!(decode(ElementType::F8E3M4, 0x6f), 15.5);
        assert_eq!(decode(ElementType::F8E8M0FNU, 0), 2f32.powi(-127));
        assert_eq!(decode(ElementType::BF16, 0x3fc0), 1.5);
        assert_eq!(decode(ElementType::F16, 0x0001), 2f32.powi(-24));
        assert_eq!(decode(ElementType::F16, 0xc100), -2.5);
        assert_eq!(decode(ElementType::F16, 0x7c00), f32::INFINITY);
    }
}
