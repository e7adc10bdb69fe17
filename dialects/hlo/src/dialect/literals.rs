//! Literals as elements attributes.
//!
//! An array whose elements are all the same crosses as one element, so that it prints as a splat and is stored once.
//! Other arrays cross as raw bytes: small ones are copied into MLIR's context, where equal ones are one attribute; large
//! ones stay where they are and are shared, as resources, which are neither hashed nor compared. Only `pred` differs in
//! format: MLIR packs `i1` into bits where it copies.

use std::sync::Arc;

use melior::Context;
use melior::ir::Type;
use melior::ir::attribute::{ArrayAttribute, Attribute, AttributeLike, DenseElementsAttribute};
use mlir_ext::{attributes, resources};

use super::error::DialectError;
use super::ffi::{self, ElementsData};
use super::types::{self, DefaultLayout};
use crate::element_type::ElementType;
use crate::literal::{self, ALIGNMENT, AlignedBytes, ArrayLiteral, Literal, LiteralError};
use crate::shape::{ArrayShape, Shape};

/// Bytes up to which an array is copied.
const COPIED_BYTES: usize = 4096;

/// Name of the arrays that are shared, in text.
const RESOURCE_NAME: &str = "constant";

/// Attribute of a literal.
pub(super) fn attribute_of<'c>(
    context: &'c Context,
    default: DefaultLayout,
    literal: &Literal,
) -> Result<Attribute<'c>, DialectError> {
    match literal {
        Literal::Array(array) => {
            let r#type = types::array_type(context, default, &static_shape(array.shape()))?;
            Ok(elements_attribute(r#type, array))
        }
        Literal::Tuple(elements) => {
            let elements: Vec<Attribute> =
                elements.iter().map(|element| attribute_of(context, default, element)).collect::<Result<_, _>>()?;
            Ok(ArrayAttribute::new(context, &elements).into())
        }
        Literal::Token => Ok(Attribute::unit(context)),
        Literal::Elided(shape) => {
            let r#type = types::array_type(context, default, &static_shape(shape))?;
            ffi::elided_elements(r#type).ok_or_else(|| DialectError::invalid("an elided constant must be an array"))
        }
    }
}

/// Elements attributes have static shapes; the constant's result type keeps the dynamic dimensions.
fn static_shape(shape: &ArrayShape) -> ArrayShape {
    ArrayShape { dynamic: Vec::new(), ..shape.clone() }
}

fn elements_attribute<'c>(r#type: Type<'c>, array: &ArrayLiteral) -> Attribute<'c> {
    let (element, bytes) = (array.element_type(), array.bytes());
    let width = element.byte_width();
    // Each byte equals the one an element before: the comparison ends at the first difference.
    let is_splat = bytes.len() >= width && bytes[width..] == bytes[..bytes.len() - width];
    if !is_splat && bytes.len() > COPIED_BYTES {
        return resources::shared_elements(r#type, RESOURCE_NAME, array.shared_bytes(), ALIGNMENT);
    }
    let packed: Vec<u8>;
    let data = match (is_splat, element) {
        (true, ElementType::Pred) if bytes[0] != 0 => &[0xff],
        (true, ElementType::Pred) => &[0],
        (true, _) => &bytes[..width],
        (false, ElementType::Pred) => {
            packed = bytes.chunks(8).map(pack_bits).collect();
            &packed
        }
        (false, _) => bytes,
    };
    DenseElementsAttribute::raw_buffer(r#type, data).into()
}

fn pack_bits(values: &[u8]) -> u8 {
    values.iter().enumerate().fold(0, |byte, (position, &value)| byte | u8::from(value != 0) << position)
}

/// Literal of an attribute; `shape` is the shape of the constant's result.
pub(super) fn literal_of(
    default: DefaultLayout,
    attribute: Attribute<'_>,
    shape: &Shape,
) -> Result<Literal, DialectError> {
    match shape {
        Shape::Array(array) => array_literal(default, attribute, array),
        Shape::Tuple(elements) => {
            let values = attributes::elements(attribute)
                .filter(|values| values.len() == elements.len())
                .ok_or_else(|| DialectError::invalid(format!("the value of a constant {shape} is no such tuple")))?;
            let values: Result<Vec<_>, _> =
                values.iter().zip(elements).map(|(value, shape)| literal_of(default, *value, shape)).collect();
            values.map(Literal::Tuple)
        }
        Shape::Token => Ok(Literal::Token),
        Shape::Opaque => Err(DialectError::invalid("a constant cannot be opaque")),
    }
}

/// The one value, as a scalar, of an elements attribute that is stored as a splat or has one element.
pub(super) fn splat_of(attribute: Attribute<'_>) -> Option<ArrayLiteral> {
    if !attribute.is_dense_elements() {
        return None;
    }
    let shape = types::array_shape(DefaultLayout::Absent, attribute.r#type()).ok()?;
    let scalar = ArrayShape::new(shape.element_type, []);
    match ffi::elements_data(attribute)? {
        ElementsData::Splat(data) if shape.element_type == ElementType::Pred => {
            ArrayLiteral::from_bytes(scalar, &[data.first()? & 1]).ok()
        }
        ElementsData::Splat(data) => ArrayLiteral::from_bytes(scalar, data).ok(),
        ElementsData::Full(_) | ElementsData::Resource(_) | ElementsData::Missing => None,
    }
}

/// As [`literal_of`], with [`Literal::Elided`] for every array: what a verifier needs, without touching the data.
pub(super) fn outline_of(
    default: DefaultLayout,
    attribute: Attribute<'_>,
    shape: &Shape,
) -> Result<Literal, DialectError> {
    match shape {
        Shape::Array(array) => elements_shape(default, attribute, array).map(Literal::Elided),
        Shape::Tuple(elements) => {
            let values = attributes::elements(attribute).unwrap_or_default();
            if values.len() != elements.len() {
                return Err(DialectError::invalid(format!("the value of a constant {shape} is no such tuple")));
            }
            let values: Result<Vec<_>, _> =
                values.iter().zip(elements).map(|(value, shape)| outline_of(default, *value, shape)).collect();
            values.map(Literal::Tuple)
        }
        Shape::Token | Shape::Opaque => literal_of(default, attribute, shape),
    }
}

/// Shape of an elements attribute, with the dynamic dimensions of the result where the sizes agree.
fn elements_shape(
    default: DefaultLayout,
    attribute: Attribute<'_>,
    result: &ArrayShape,
) -> Result<ArrayShape, DialectError> {
    if !attribute.is_elements() {
        return Err(DialectError::invalid(format!("the value of a constant {result} is not an elements attribute")));
    }
    let mut shape = types::array_shape(default, attribute.r#type())?;
    if shape.dimensions == result.dimensions {
        shape.dynamic.clone_from(&result.dynamic);
    }
    Ok(shape)
}

fn array_literal(
    default: DefaultLayout,
    attribute: Attribute<'_>,
    result: &ArrayShape,
) -> Result<Literal, DialectError> {
    let shape = elements_shape(default, attribute, result)?;
    let size = shape.byte_size();
    let wrong_size = || DialectError::invalid(format!("the data of a constant {shape} has the wrong size"));
    let mut bytes: AlignedBytes = match ffi::elements_data(attribute) {
        None => return Err(DialectError::invalid("the value of a constant is neither dense nor a resource")),
        Some(ElementsData::Missing) => return Ok(Literal::Elided(shape)),
        Some(ElementsData::Full(data)) if shape.element_type == ElementType::Pred => {
            if data.len() != size.div_ceil(8) {
                return Err(wrong_size());
            }
            let mut bytes = literal::reserve(size).map_err(no_memory)?;
            (0..size).for_each(|position| bytes.push(data[position / 8] >> (position % 8) & 1));
            bytes
        }
        Some(ElementsData::Full(data)) => copied(data)?,
        Some(ElementsData::Resource(data)) => {
            let shared = resources::owner_of(attribute, data);
            let bytes = shared.map_or_else(|| copied(data).map(Arc::new), Ok)?;
            return ArrayLiteral::from_shared(shape.clone(), bytes).map(Literal::Array).map_err(|_| wrong_size());
        }
        Some(ElementsData::Splat(data)) => {
            let element = if shape.element_type == ElementType::Pred {
                [data.first().copied().unwrap_or_default() & 1].to_vec()
            } else {
                data.to_vec()
            };
            repeat(&element, size).map_err(no_memory)?
        }
    };
    let width = shape.element_type.bit_width();
    if shape.element_type.is_signed_integer() && width < 8 {
        // Read from text, the bits above the width are zero.
        let unused = 8 - width;
        bytes.iter_mut().for_each(|byte| *byte = ((*byte << unused) as i8 >> unused) as u8);
    }
    ArrayLiteral::new(shape.clone(), bytes).map(Literal::Array).map_err(|_| wrong_size())
}

fn copied(data: &[u8]) -> Result<AlignedBytes, DialectError> {
    let mut bytes = literal::reserve(data.len()).map_err(no_memory)?;
    bytes.extend_from_slice(data);
    Ok(bytes)
}

fn no_memory(error: LiteralError) -> DialectError {
    DialectError::invalid(error.to_string())
}

fn repeat(element: &[u8], size: usize) -> Result<AlignedBytes, LiteralError> {
    let mut bytes = literal::reserve(size)?;
    bytes.resize(size, element.first().copied().unwrap_or_default());
    if element.len() > 1 {
        for place in bytes.chunks_exact_mut(element.len()) {
            place.copy_from_slice(element);
        }
    }
    Ok(bytes)
}
