//! Numbers of element types in descriptors: those of XLA's `PrimitiveType` (`xla_data.proto`).
#![allow(missing_docs)]

pub const PRED: i64 = 1;
pub const S8: i64 = 2;
pub const S16: i64 = 3;
pub const S32: i64 = 4;
pub const S64: i64 = 5;
pub const U8: i64 = 6;
pub const U16: i64 = 7;
pub const U32: i64 = 8;
pub const U64: i64 = 9;
pub const F16: i64 = 10;
pub const F32: i64 = 11;
pub const F64: i64 = 12;
pub const C64: i64 = 15;
pub const BF16: i64 = 16;
pub const C128: i64 = 18;
pub const F8E5M2: i64 = 19;
pub const F8E4M3FN: i64 = 20;
pub const S4: i64 = 21;
pub const U4: i64 = 22;
pub const F8E4M3B11FNUZ: i64 = 23;
pub const F8E5M2FNUZ: i64 = 24;
pub const F8E4M3FNUZ: i64 = 25;
pub const S2: i64 = 26;
pub const U2: i64 = 27;
pub const F8E4M3: i64 = 28;
pub const F8E3M4: i64 = 29;
pub const F4E2M1FN: i64 = 32;
pub const F8E8M0FNU: i64 = 33;

/// Bytes of an element in memory: types below 8 bits take one. `None` for numbers that are no element type.
pub fn byte_width(primitive_type: i64) -> Option<usize> {
    Some(match primitive_type {
        PRED | S8 | U8 | S4 | U4 | S2 | U2 | F8E5M2 | F8E4M3FN | F8E4M3B11FNUZ | F8E5M2FNUZ | F8E4M3FNUZ | F8E4M3
        | F8E3M4 | F4E2M1FN | F8E8M0FNU => 1,
        S16 | U16 | F16 | BF16 => 2,
        S32 | U32 | F32 => 4,
        S64 | U64 | F64 | C64 => 8,
        C128 => 16,
        _ => return None,
    })
}
