//! Elements as unsigned integers in the same order.

use super::SortOrder;

/// The element types that can be keys.
#[repr(i64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KeyType {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    U64 = 3,
    S8 = 4,
    S16 = 5,
    S32 = 6,
    S64 = 7,
    F16 = 8,
    Bf16 = 9,
    F32 = 10,
    F64 = 11,
}

impl KeyType {
    /// The type with number `code` in a descriptor.
    pub fn from_code(code: i64) -> Option<Self> {
        const ALL: [KeyType; 12] = [
            KeyType::U8,
            KeyType::U16,
            KeyType::U32,
            KeyType::U64,
            KeyType::S8,
            KeyType::S16,
            KeyType::S32,
            KeyType::S64,
            KeyType::F16,
            KeyType::Bf16,
            KeyType::F32,
            KeyType::F64,
        ];
        ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 8,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::S32 | Self::F32 => 32,
            Self::U64 | Self::S64 | Self::F64 => 64,
        }
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// The bits of infinity, if the type is a float.
    fn infinity(self) -> Option<u64> {
        match self {
            Self::F16 => Some(0x7c00),
            Self::Bf16 => Some(0x7f80),
            Self::F32 => Some(0x7f80_0000),
            Self::F64 => Some(0x7ff0_0000_0000_0000),
            _ => None,
        }
    }
}

/// Turns elements into keys and back.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct KeyCoder {
    bits: u32,
    signed: bool,
    infinity: Option<u64>,
    canonical: bool,
    descending: bool,
}

impl KeyCoder {
    pub(in crate::runtime) fn new(key_type: KeyType, order: SortOrder, descending: bool) -> Self {
        Self {
            bits: key_type.bits(),
            signed: key_type.is_signed(),
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
        let key = match self.infinity {
            Some(infinity) => {
                let magnitude = bits & !sign & self.mask();
                let bits = match self.canonical {
                    true if magnitude == 0 => 0,
                    true if magnitude > infinity => infinity | infinity >> 1,
                    _ => bits,
                };
                if bits & sign != 0 { !bits & self.mask() } else { bits | sign }
            }
            None if self.signed => bits ^ sign,
            None => bits,
        };
        if self.descending { !key & self.mask() } else { key }
    }

    /// The bits with a key, if keys are reversible.
    #[inline(always)]
    pub(super) fn decode(self, key: u64) -> u64 {
        let sign = self.sign();
        let key = if self.descending { !key & self.mask() } else { key };
        match self.infinity {
            Some(_) if key & sign != 0 => key & !sign,
            Some(_) => !key & self.mask(),
            None if self.signed => key ^ sign,
            None => key,
        }
    }
}
