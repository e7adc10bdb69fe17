//! The element types of HLO arrays: names, widths and classes.
//!
//! One table (`ELEMENT_TYPES`) holds every fact; the accessors only look it up.

use std::fmt;
use std::str::FromStr;

/// Type of one array element, as XLA's text spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ElementType {
    Pred,
    S2,
    S4,
    S8,
    S16,
    S32,
    S64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3B11FNUZ,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

/// What arithmetic an element type takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementClass {
    /// `pred`.
    Predicate,
    /// `s2` … `s64`.
    Signed,
    /// `u2` … `u64`.
    Unsigned,
    /// Every floating-point type, the 4- and 8-bit ones included.
    Float,
    /// `c64` and `c128`.
    Complex,
}

use ElementClass::{Complex, Float, Predicate, Signed, Unsigned};
use ElementType::*;

/// (type, text name, class, width in bits)
const ELEMENT_TYPES: [(ElementType, &str, ElementClass, u32); 28] = [
    (Pred, "pred", Predicate, 8),
    (S2, "s2", Signed, 2),
    (S4, "s4", Signed, 4),
    (S8, "s8", Signed, 8),
    (S16, "s16", Signed, 16),
    (S32, "s32", Signed, 32),
    (S64, "s64", Signed, 64),
    (U2, "u2", Unsigned, 2),
    (U4, "u4", Unsigned, 4),
    (U8, "u8", Unsigned, 8),
    (U16, "u16", Unsigned, 16),
    (U32, "u32", Unsigned, 32),
    (U64, "u64", Unsigned, 64),
    (F4E2M1FN, "f4e2m1fn", Float, 4),
    (F8E3M4, "f8e3m4", Float, 8),
    (F8E4M3, "f8e4m3", Float, 8),
    (F8E4M3FN, "f8e4m3fn", Float, 8),
    (F8E4M3B11FNUZ, "f8e4m3b11fnuz", Float, 8),
    (F8E4M3FNUZ, "f8e4m3fnuz", Float, 8),
    (F8E5M2, "f8e5m2", Float, 8),
    (F8E5M2FNUZ, "f8e5m2fnuz", Float, 8),
    (F8E8M0FNU, "f8e8m0fnu", Float, 8),
    (BF16, "bf16", Float, 16),
    (F16, "f16", Float, 16),
    (F32, "f32", Float, 32),
    (F64, "f64", Float, 64),
    (C64, "c64", Complex, 64),
    (C128, "c128", Complex, 128),
];

impl ElementType {
    /// Every element type, in the order of the enum.
    pub fn all() -> impl Iterator<Item = ElementType> {
        ELEMENT_TYPES.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (ElementType, &'static str, ElementClass, u32) {
        &ELEMENT_TYPES[self as usize]
    }

    /// Name in HLO text, e.g. `f32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Arithmetic class.
    pub fn class(self) -> ElementClass {
        self.row().2
    }

    /// Width in bits; `pred` counts 8 (one byte a value), as in XLA.
    pub fn bit_width(self) -> u32 {
        self.row().3
    }

    /// Bytes one element takes in literals, buffers and compiled code: 2- and 4-bit types take a whole byte.
    pub fn byte_width(self) -> usize {
        self.bit_width().div_ceil(8) as usize
    }

    /// Whether this is a floating-point (not complex) type.
    pub fn is_float(self) -> bool {
        self.class() == Float
    }

    /// Whether zero is a number of the type, with all bits 0. Those bits are a power of two in `f8e8m0fnu`, which has no zero.
    pub fn has_zero(self) -> bool {
        self != F8E8M0FNU
    }

    /// Whether this is a complex type.
    pub fn is_complex(self) -> bool {
        self.class() == Complex
    }

    /// Whether this is a signed or unsigned integer type (`pred` is not).
    pub fn is_integer(self) -> bool {
        matches!(self.class(), Signed | Unsigned)
    }

    /// Whether this is a signed integer type.
    pub fn is_signed_integer(self) -> bool {
        self.class() == Signed
    }

    /// Whether this is an unsigned integer type.
    pub fn is_unsigned_integer(self) -> bool {
        self.class() == Unsigned
    }

    /// Type of the real and imaginary part of a complex type; the type itself otherwise.
    pub fn real_part(self) -> ElementType {
        match self {
            C64 => F32,
            C128 => F64,
            other => other,
        }
    }

    /// Complex type with parts of this type, for `f32` and `f64`.
    pub fn complex_of(self) -> Option<ElementType> {
        match self {
            F32 => Some(C64),
            F64 => Some(C128),
            _ => None,
        }
    }

    /// Number in XLA's `PrimitiveType` (`xla_data.proto`).
    pub fn primitive_type(self) -> i64 {
        match self {
            Pred => 1,
            S8 => 2,
            S16 => 3,
            S32 => 4,
            S64 => 5,
            U8 => 6,
            U16 => 7,
            U32 => 8,
            U64 => 9,
            F16 => 10,
            F32 => 11,
            F64 => 12,
            C64 => 15,
            BF16 => 16,
            C128 => 18,
            F8E5M2 => 19,
            F8E4M3FN => 20,
            S4 => 21,
            U4 => 22,
            F8E4M3B11FNUZ => 23,
            F8E5M2FNUZ => 24,
            F8E4M3FNUZ => 25,
            S2 => 26,
            U2 => 27,
            F8E4M3 => 28,
            F8E3M4 => 29,
            F4E2M1FN => 32,
            F8E8M0FNU => 33,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type `{0}`")]
pub struct UnknownElementType(pub String);

impl FromStr for ElementType {
    type Err = UnknownElementType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ELEMENT_TYPES
            .iter()
            .find(|row| row.1 == text)
            .map(|row| row.0)
            .ok_or_else(|| UnknownElementType(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_enum_order_and_names_are_unique() {
        for (position, row) in ELEMENT_TYPES.iter().enumerate() {
            assert_eq!(row.0 as usize, position);
            assert_eq!(row.1.parse::<ElementType>(), Ok(row.0));
        }
    }
}
