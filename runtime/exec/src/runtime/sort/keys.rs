//! Elements as unsigned integers in the same order.

use std::ops::{BitAnd, BitXor, Not};

use super::SortOrder;
use crate::runtime::primitive_type;

/// The ways in which bits are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    /// Sign and magnitude; the bits of infinity, if `<` is to be told from total order.
    Float {
        infinity: Option<u64>,
    },
    /// As `Float`, but the bits of -0 are a NaN.
    FloatWithoutNegativeZero,
}

use Kind::{Float, FloatWithoutNegativeZero, Signed, Unsigned};

/// An element type that can be a key, by its number in XLA's `PrimitiveType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct KeyType {
    bits: u32,
    kind: Kind,
}

/// (type, bits, kind)
const KEY_TYPES: [(i64, u32, Kind); 26] = [
    (primitive_type::PRED, 8, Unsigned),
    (primitive_type::S8, 8, Signed),
    (primitive_type::S16, 16, Signed),
    (primitive_type::S32, 32, Signed),
    (primitive_type::S64, 64, Signed),
    (primitive_type::U8, 8, Unsigned),
    (primitive_type::U16, 16, Unsigned),
    (primitive_type::U32, 32, Unsigned),
    (primitive_type::U64, 64, Unsigned),
    (primitive_type::F16, 16, Float { infinity: Some(0x7c00) }),
    (primitive_type::F32, 32, Float { infinity: Some(0x7f80_0000) }),
    (primitive_type::F64, 64, Float { infinity: Some(0x7ff0_0000_0000_0000) }),
    (primitive_type::BF16, 16, Float { infinity: Some(0x7f80) }),
    (primitive_type::F8E5M2, 8, Float { infinity: None }),
    (primitive_type::F8E4M3FN, 8, Float { infinity: None }),
    (primitive_type::S4, 8, Signed),
    (primitive_type::U4, 8, Unsigned),
    (primitive_type::F8E4M3B11FNUZ, 8, FloatWithoutNegativeZero),
    (primitive_type::F8E5M2FNUZ, 8, FloatWithoutNegativeZero),
    (primitive_type::F8E4M3FNUZ, 8, FloatWithoutNegativeZero),
    (primitive_type::S2, 8, Signed),
    (primitive_type::U2, 8, Unsigned),
    (primitive_type::F8E4M3, 8, Float { infinity: None }),
    (primitive_type::F8E3M4, 8, Float { infinity: None }),
    (primitive_type::F4E2M1FN, 4, Float { infinity: None }),
    // No sign: its bits are in order as they are.
    (primitive_type::F8E8M0FNU, 8, Unsigned),
];

impl KeyType {
    /// The type with number `code` in a descriptor.
    pub(in crate::runtime) fn from_code(code: i64) -> Option<Self> {
        KEY_TYPES.iter().find(|row| row.0 == code).map(|&(_, bits, kind)| KeyType { bits, kind })
    }

    /// Bytes of an element in memory; types below 8 bits take one.
    pub(in crate::runtime) fn bytes(self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// The bits of infinity, if the type is a float whose NaNs can be told from its numbers.
    fn infinity(self) -> Option<u64> {
        match self.kind {
            Float { infinity } => infinity,
            _ => None,
        }
    }
}

/// Turns elements into keys and back.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct KeyCoder {
    bits: u32,
    kind: Kind,
    infinity: Option<u64>,
    canonical: bool,
    descending: bool,
}

impl KeyCoder {
    pub(in crate::runtime) fn new(key_type: KeyType, order: SortOrder, descending: bool) -> Self {
        Self {
            bits: key_type.bits,
            kind: key_type.kind,
            infinity: key_type.infinity(),
            canonical: order != SortOrder::Total,
            descending,
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// Whether the bits are those of a NaN.
    pub(super) fn is_nan(self, bits: u64) -> bool {
        self.infinity.is_some_and(|infinity| bits & !self.sign() & self.mask() > infinity)
    }

    /// Whether different bits always have different keys.
    pub(super) fn is_reversible(self) -> bool {
        self.infinity.is_none() || !self.canonical
    }

    /// The key of an element's bits; smaller keys come first.
    #[inline(always)]
    pub(in crate::runtime) fn encode(self, bits: u64) -> u64 {
        let sign = self.sign();
        let key = match self.kind {
            Unsigned => bits,
            Signed => bits ^ sign,
            FloatWithoutNegativeZero if bits == sign => self.mask(),
            Float { .. } | FloatWithoutNegativeZero => {
                let bits = match self.infinity {
                    Some(infinity) if self.canonical => {
                        let magnitude = bits & !sign & self.mask();
                        let bits = if magnitude == 0 { 0 } else { bits };
                        if magnitude > infinity { infinity | infinity >> 1 } else { bits }
                    }
                    _ => bits,
                };
                // Negative ones are inverted, the others get the sign bit; without a branch, which would be guessed wrong
                // half the time.
                let is_negative = bits >> (self.bits - 1) & 1;
                bits ^ (is_negative.wrapping_neg() & self.mask() | sign)
            }
        };
        if self.descending { !key & self.mask() } else { key }
    }

    /// The bits with a key, if keys are reversible.
    #[inline(always)]
    pub(super) fn decode(self, key: u64) -> u64 {
        let sign = self.sign();
        let key = if self.descending { !key & self.mask() } else { key };
        match self.kind {
            Unsigned => key,
            Signed => key ^ sign,
            FloatWithoutNegativeZero if key == self.mask() => sign,
            Float { .. } | FloatWithoutNegativeZero => {
                let is_negative = (key >> (self.bits - 1) & 1) ^ 1;
                key ^ (is_negative.wrapping_neg() & self.mask() | sign)
            }
        }
    }
}

/// Unsigned integers, as elements and as the keys of rows that are sorted side by side.
pub(in crate::runtime) trait Word:
    Copy + Default + Ord + Into<u64> + Not<Output = Self> + BitXor<Output = Self> + BitAnd<Output = Self>
{
    /// The lowest bits.
    fn truncated(bits: u64) -> Self;
}

macro_rules! words {
    ($($name:ty)*) => {
        $(impl Word for $name {
            #[inline(always)]
            fn truncated(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

words!(u8 u16 u32 u64);

/// Turns elements into keys and back where a key is the bits but for some that are inverted: in all, or in negative ones.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct WordCoder<W> {
    pub(super) sign: W,
    inverted: W,
    inverted_if_negative: W,
    /// The bits of infinity, and of the NaN that stands for all, if zeros have one key, and NaNs.
    special: Option<(W, W)>,
}

impl WordCoder<u64> {
    /// The same as another coder, if it is of this kind.
    pub(in crate::runtime) fn new(coder: KeyCoder) -> Option<Self> {
        if coder.kind == FloatWithoutNegativeZero {
            return None;
        }
        let plain = KeyCoder { canonical: false, ..coder };
        let (sign, inverted) = (coder.sign(), plain.encode(0));
        Some(Self {
            sign,
            inverted,
            inverted_if_negative: plain.encode(sign) ^ sign ^ inverted,
            special: coder.infinity.filter(|_| coder.canonical).map(|infinity| (infinity, infinity + 1)),
        })
    }

    /// The same for words as wide as the elements, or wider.
    pub(in crate::runtime) fn truncated<W: Word>(self) -> WordCoder<W> {
        WordCoder {
            sign: W::truncated(self.sign),
            inverted: W::truncated(self.inverted),
            inverted_if_negative: W::truncated(self.inverted_if_negative),
            special: self.special.map(|(infinity, nan)| (W::truncated(infinity), W::truncated(nan))),
        }
    }
}

impl<W: Word> WordCoder<W> {
    /// The bits of infinity, if zeros have one key, and NaNs.
    pub(super) fn infinity(self) -> Option<W> {
        self.special.map(|(infinity, _)| infinity)
    }

    #[inline(always)]
    fn inverted_by_sign(self, bits: W) -> W {
        bits ^ if bits & self.sign == self.sign { self.inverted_if_negative } else { W::default() }
    }

    /// The key of an element that is neither a NaN nor -0, or where these are elements as any other.
    #[inline(always)]
    pub(in crate::runtime) fn encode(self, bits: W) -> W {
        self.inverted_by_sign(bits) ^ self.inverted
    }

    /// The element with a key of [`Self::encode`].
    #[inline(always)]
    pub(super) fn decode(self, key: W) -> W {
        self.inverted_by_sign(key ^ self.inverted)
    }

    /// The key of any element.
    #[inline(always)]
    pub(super) fn encode_canonical(self, bits: W) -> W {
        let Some((infinity, nan)) = self.special else { return self.encode(bits) };
        let magnitude = bits & !self.sign;
        let bits = if magnitude == W::default() { magnitude } else { bits };
        self.encode(if magnitude > infinity { nan } else { bits })
    }
}
