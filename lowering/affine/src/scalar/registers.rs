//! Registers: their types, their constants, and the way from and to memory.
//!
//! In memory `pred` is a byte of 0 or 1, 2- and 4-bit types take a whole byte, `bf16`, `f16` and smaller floats are
//! integers of their width, complex numbers are two neighbours (real part first) of a buffer of the real type.

use hlo::element_type::{ElementClass, ElementType};
use melior::ir::Type;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use super::RegisterValue;
use super::small_float::{self, Format};

/// Type of the registers that hold one element (of complex types: one part), without vector lanes.
pub(super) fn scalar_type<'c>(builder: &OpBuilder<'c>, element_type: ElementType) -> Type<'c> {
    match element_type.class() {
        ElementClass::Predicate => builder.integer_type(1),
        ElementClass::Signed | ElementClass::Unsigned => builder.integer_type(element_type.bit_width().max(8)),
        ElementClass::Float | ElementClass::Complex => match element_type.real_part() {
            ElementType::F64 => Type::float64(builder.context()),
            _ => Type::float32(builder.context()),
        },
    }
}

/// Type of the register (of complex types: of each of the two registers) that holds `lanes` elements.
pub fn register_type<'c>(builder: &OpBuilder<'c>, element_type: ElementType, lanes: Option<u32>) -> Type<'c> {
    with_lanes(builder, scalar_type(builder, element_type), lanes)
}

fn with_lanes<'c>(builder: &OpBuilder<'c>, element: Type<'c>, lanes: Option<u32>) -> Type<'c> {
    lanes.map_or(element, |lanes| builder.vector_type(lanes, element))
}

/// Element type of buffers; a buffer of complex elements has twice as many elements of the real type.
pub fn memory_type<'c>(builder: &OpBuilder<'c>, element_type: ElementType) -> Type<'c> {
    match element_type.real_part() {
        ElementType::F32 => Type::float32(builder.context()),
        ElementType::F64 => Type::float64(builder.context()),
        real => builder.integer_type(8 * real.byte_width() as u32),
    }
}

/// Whether registers hold elements of a type otherwise than memory does, as predicates and small floats.
pub fn is_coded(element_type: ElementType) -> bool {
    element_type.class() == ElementClass::Predicate || Format::of(element_type).is_some()
}

/// The unsigned integers that memory holds for elements of a type that [is coded](is_coded).
pub fn code_type(element_type: ElementType) -> ElementType {
    if element_type.byte_width() == 1 { ElementType::U8 } else { ElementType::U16 }
}

/// Type that a load of `lanes` neighbouring elements yields: a vector of twice the lanes for complex elements, also
/// for a single one.
pub fn load_type<'c>(builder: &OpBuilder<'c>, element_type: ElementType, lanes: Option<u32>) -> Type<'c> {
    let memory = memory_type(builder, element_type);
    match element_type.is_complex() {
        true => builder.vector_type(lanes.map_or(2, |lanes| 2 * lanes), memory),
        false => with_lanes(builder, memory, lanes),
    }
}

/// Registers of a loaded value of [`load_type`].
pub fn from_memory<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    lanes: Option<u32>,
    loaded: Value<'c>,
) -> RegisterValue<'c> {
    let real = |value| RegisterValue { element_type, lanes, value, imaginary: None };
    match element_type.class() {
        ElementClass::Predicate => real(builder.cmpi(CmpiPredicate::Ne, loaded, builder.integer_like(loaded, 0))),
        ElementClass::Signed | ElementClass::Unsigned => real(loaded),
        ElementClass::Float => real(match Format::of(element_type) {
            Some(format) => small_float::decode(builder, format, loaded),
            None => loaded,
        }),
        ElementClass::Complex => {
            let (re, im) = match lanes {
                None => (builder.extract_lane(loaded, 0), builder.extract_lane(loaded, 1)),
                Some(lanes) => {
                    let part = |first: u32| -> Vec<u32> { (0..lanes).map(|lane| 2 * lane + first).collect() };
                    (builder.shuffle(loaded, loaded, &part(0)), builder.shuffle(loaded, loaded, &part(1)))
                }
            };
            RegisterValue { element_type, lanes, value: re, imaginary: Some(im) }
        }
    }
}

/// The value of [`load_type`] to store for registers, which hold values of their type exactly.
pub fn to_memory<'c>(builder: &OpBuilder<'c>, value: &RegisterValue<'c>) -> Value<'c> {
    let element_type = value.element_type;
    match (element_type.class(), value.imaginary) {
        (ElementClass::Predicate, _) => builder.extui(value.value, memory_type(builder, element_type)),
        (ElementClass::Float, _) => match Format::of(element_type) {
            Some(format) => small_float::encode(builder, format, value.value),
            None => value.value,
        },
        (ElementClass::Complex, Some(imaginary)) => match value.lanes {
            None => builder.from_elements(&[value.value, imaginary]),
            Some(lanes) => {
                let mask: Vec<u32> = (0..lanes).flat_map(|lane| [lane, lanes + lane]).collect();
                builder.shuffle(value.value, imaginary, &mask)
            }
        },
        (ElementClass::Signed | ElementClass::Unsigned | ElementClass::Complex, _) => value.value,
    }
}

/// Every lane the element whose literal bytes are given; missing bytes count as zero.
pub fn constant<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    bytes: &[u8],
    lanes: Option<u32>,
) -> RegisterValue<'c> {
    let width = element_type.byte_width();
    let r#type = register_type(builder, element_type, lanes);
    let bits = |first: usize, width: usize| {
        let bytes = bytes.iter().skip(first).take(width);
        bytes.zip(0..).fold(0u64, |bits, (&byte, place)| bits | u64::from(byte) << (8 * place))
    };
    let (value, imaginary) = match element_type.class() {
        ElementClass::Predicate => (builder.constant_integer(r#type, i64::from(bits(0, 1) != 0)), None),
        ElementClass::Signed | ElementClass::Unsigned => {
            (builder.constant_integer(r#type, bits(0, width) as i64), None)
        }
        ElementClass::Float => match Format::of(element_type) {
            Some(format) => {
                (float_constant(builder, r#type, u64::from(format.decode_bits(bits(0, width) as u32))), None)
            }
            None => (float_constant(builder, r#type, bits(0, width)), None),
        },
        ElementClass::Complex => (
            float_constant(builder, r#type, bits(0, width / 2)),
            Some(float_constant(builder, r#type, bits(width / 2, width / 2))),
        ),
    };
    RegisterValue { element_type, lanes, value, imaginary }
}

/// Constant of an f32 or f64 type (or vector of it) with the given bits.
fn float_constant<'c>(builder: &OpBuilder<'c>, r#type: Type<'c>, bits: u64) -> Value<'c> {
    let is_double = builder.element_type_of(r#type) == Type::float64(builder.context());
    let number = if is_double { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) };
    if !number.is_nan() {
        return builder.constant_float(r#type, number);
    }
    // A float attribute would not keep the payload.
    let integer = builder.integer_type(if is_double { 64 } else { 32 });
    let bits = builder.constant_integer(builder.with_element_type(r#type, integer), bits as i64);
    builder.bitcast(bits, builder.element_type_of(r#type))
}

/// One of two values of a type.
pub fn select<'c>(
    builder: &OpBuilder<'c>,
    condition: Value<'c>,
    if_true: &RegisterValue<'c>,
    if_false: &RegisterValue<'c>,
) -> RegisterValue<'c> {
    let parts = if_true.values().into_iter().zip(if_false.values());
    let parts: Vec<Value<'c>> = parts.map(|(a, b)| builder.select(condition, a, b)).collect();
    if_true.with_values(&parts)
}

/// The single element in `lanes` lanes; the value itself when it is a vector or `lanes` is `None`.
pub fn splat<'c>(builder: &OpBuilder<'c>, value: &RegisterValue<'c>, lanes: Option<u32>) -> RegisterValue<'c> {
    if value.lanes.is_some() {
        return *value;
    }
    RegisterValue {
        lanes,
        ..value.with_values(&value.values().iter().map(|&part| builder.broadcast(part, lanes)).collect::<Vec<_>>())
    }
}

/// One element of a vector; the value itself when it is a single element.
pub fn extract<'c>(builder: &OpBuilder<'c>, vector: &RegisterValue<'c>, lane: u32) -> RegisterValue<'c> {
    if vector.lanes.is_none() {
        return *vector;
    }
    let parts: Vec<Value> = vector.values().iter().map(|&part| builder.extract_lane(part, lane)).collect();
    RegisterValue { lanes: None, ..vector.with_values(&parts) }
}

/// A vector of single elements of one type; `None` without elements.
pub fn from_elements<'c>(builder: &OpBuilder<'c>, elements: &[RegisterValue<'c>]) -> Option<RegisterValue<'c>> {
    let first = elements.first()?;
    let values: Vec<Value> = elements.iter().map(|element| element.value).collect();
    let imaginaries: Vec<Value> = elements.iter().filter_map(|element| element.imaginary).collect();
    Some(RegisterValue {
        element_type: first.element_type,
        lanes: Some(elements.len() as u32),
        value: builder.from_elements(&values),
        imaginary: (imaginaries.len() == values.len()).then(|| builder.from_elements(&imaginaries)),
    })
}
