//! Values of constants.

use crate::element_type::ElementType;
use crate::literal::{ArrayLiteral, Literal};
use crate::shape::ArrayShape;

use super::messages::{LiteralProto, ShapeProto};
use super::{ProtoError, Result, element_type};
use crate::text::literal::write_literal;

/// The text of a value.
pub(super) fn text(name: &str, literal: Option<&LiteralProto>) -> Result<String> {
    let literal = literal.ok_or_else(|| unknown(name, "a constant without a value"))?;
    let mut text = String::new();
    write_literal(&mut text, &value(name, literal)?);
    Ok(text)
}

fn unknown(name: &str, what: impl Into<String>) -> ProtoError {
    ProtoError::Unknown(name.to_string(), what.into())
}

fn value(name: &str, literal: &LiteralProto) -> Result<Literal> {
    let shape = literal.shape.as_ref().ok_or_else(|| unknown(name, "a value without a shape"))?;
    match shape.element_type {
        13 => {
            let elements = literal.tuple_literals.iter().map(|element| value(name, element));
            return Ok(Literal::Tuple(elements.collect::<Result<_>>()?));
        }
        17 => return Ok(Literal::Token),
        _ => {}
    }
    let element_type: Option<ElementType> = element_type(shape.element_type).and_then(|name| name.parse().ok());
    let element_type =
        element_type.ok_or_else(|| unknown(name, format!("a value of the element type {}", shape.element_type)))?;
    let array = ArrayShape::new(element_type, shape.dimensions.clone());
    let size = array.checked_byte_size().ok_or_else(|| unknown(name, "a value whose size overflows"))? as usize;
    let bytes = bytes_of(element_type, literal);
    if bytes.len() != size {
        return Err(unknown(name, format!("a value of {} bytes for {array}, which takes {size}", bytes.len())));
    }
    let stored = ArrayLiteral::from_bytes(array, &row_major(&bytes, shape, element_type.byte_width()))
        .map_err(|error| unknown(name, error.to_string()))?;
    Ok(Literal::Array(stored))
}

/// The elements in the order in which the message has them.
fn bytes_of(element_type: ElementType, literal: &LiteralProto) -> Vec<u8> {
    fn numbers<const N: usize, T: Copy>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&value| bytes(value)).collect()
    }
    match element_type {
        ElementType::Pred => literal.preds.iter().map(|&value| u8::from(value)).collect(),
        ElementType::S32 => numbers(&literal.s32s, i32::to_le_bytes),
        ElementType::S64 => numbers(&literal.s64s, i64::to_le_bytes),
        ElementType::U32 => numbers(&literal.u32s, u32::to_le_bytes),
        ElementType::U64 => numbers(&literal.u64s, u64::to_le_bytes),
        ElementType::F32 => numbers(&literal.f32s, f32::to_le_bytes),
        ElementType::F64 => numbers(&literal.f64s, f64::to_le_bytes),
        ElementType::C64 => numbers(&literal.c64s, f32::to_le_bytes),
        ElementType::C128 => numbers(&literal.c128s, f64::to_le_bytes),
        ElementType::S2 => literal.s2s.iter().map(|&byte| sign_extended(byte, 2)).collect(),
        ElementType::S4 => literal.s4s.iter().map(|&byte| sign_extended(byte, 4)).collect(),
        ElementType::S8 => literal.s8s.clone(),
        ElementType::S16 => literal.s16s.clone(),
        ElementType::U2 => literal.u2s.iter().map(|byte| byte & 3).collect(),
        ElementType::U4 => literal.u4s.iter().map(|byte| byte & 15).collect(),
        ElementType::U8 => literal.u8s.clone(),
        ElementType::U16 => literal.u16s.clone(),
        ElementType::F16 => literal.f16s.clone(),
        ElementType::BF16 => literal.bf16s.clone(),
        ElementType::F8E5M2 => literal.f8e5m2s.clone(),
        ElementType::F8E4M3 => literal.f8e4m3s.clone(),
        ElementType::F8E4M3FN => literal.f8e4m3fns.clone(),
        ElementType::F8E4M3B11FNUZ => literal.f8e4m3b11fnuzs.clone(),
        ElementType::F8E5M2FNUZ => literal.f8e5m2fnuzs.clone(),
        ElementType::F8E4M3FNUZ => literal.f8e4m3fnuzs.clone(),
        ElementType::F8E3M4 => literal.f8e3m4s.clone(),
        ElementType::F4E2M1FN => literal.f4e2m1fns.clone(),
        ElementType::F8E8M0FNU => literal.f8e8m0fnus.clone(),
    }
}

/// A narrow integer as a byte.
fn sign_extended(byte: u8, bits: u32) -> u8 {
    let shift = 8 - bits;
    (((byte << shift) as i8) >> shift) as u8
}

/// Elements from the order of a layout in row-major order.
fn row_major(bytes: &[u8], shape: &ShapeProto, width: usize) -> Vec<u8> {
    let rank = shape.dimensions.len();
    let layout = shape.layout.as_ref().map(|layout| layout.minor_to_major.as_slice()).unwrap_or_default();
    if layout.len() != rank || layout.iter().rev().copied().eq(0..rank as i64) {
        return bytes.to_vec();
    }
    let mut strides = vec![0usize; rank];
    let mut stride = 1;
    for &dimension in layout {
        let Some(place) = usize::try_from(dimension).ok().filter(|&place| place < rank) else { return bytes.to_vec() };
        strides[place] = stride;
        stride *= shape.dimensions[place].max(0) as usize;
    }
    let mut result = Vec::with_capacity(bytes.len());
    for position in 0..bytes.len() / width.max(1) {
        let (mut rest, mut source) = (position, 0);
        for dimension in (0..rank).rev() {
            let size = shape.dimensions[dimension].max(1) as usize;
            source += rest % size * strides[dimension];
            rest /= size;
        }
        result.extend(bytes.get(source * width..(source + 1) * width).unwrap_or_default());
    }
    result
}
