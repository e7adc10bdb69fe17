//! Checked reading of builtin attributes: each function answers `None` for an attribute of another kind.
//!
//! melior's own accessors panic on empty strings and print the whole attribute into the error of a failed cast,
//! which for constants may be hundreds of megabytes.

use melior::ir::attribute::{Attribute, AttributeLike};
use melior::ir::{Identifier, Type, TypeLike, ValueLike};
use mlir_sys::{
    MlirStringRef, mlirArrayAttrGetElement, mlirArrayAttrGetNumElements, mlirBoolAttrGetValue,
    mlirDenseArrayGetNumElements, mlirDenseI32ArrayGetElement, mlirDenseI64ArrayGetElement,
    mlirDictionaryAttrGetElement, mlirDictionaryAttrGetNumElements, mlirFlatSymbolRefAttrGetValue,
    mlirFloatAttrGetValueDouble, mlirIdentifierStr, mlirIntegerAttrGetValueInt, mlirIntegerAttrGetValueSInt,
    mlirIntegerAttrGetValueUInt, mlirIntegerTypeGetWidth, mlirIntegerTypeIsSigned, mlirIntegerTypeIsSignless,
    mlirStringAttrGetValue, mlirTypeAttrGetValue,
};

/// Text of an identifier; empty if it is not UTF-8.
pub fn identifier_text<'c>(identifier: Identifier<'c>) -> &'c str {
    // SAFETY: identifiers live as long as the context.
    unsafe { text(mlirIdentifierStr(identifier.to_raw())) }.unwrap_or_default()
}

/// Value of a string attribute.
pub fn string<'c>(attribute: Attribute<'c>) -> Option<&'c str> {
    if !attribute.is_string() {
        return None;
    }
    // SAFETY: it is a string attribute, whose text lives as long as the context.
    unsafe { text(mlirStringAttrGetValue(attribute.to_raw())) }
}

/// Name in a flat symbol reference.
pub fn symbol<'c>(attribute: Attribute<'c>) -> Option<&'c str> {
    if !attribute.is_flat_symbol_ref() {
        return None;
    }
    // SAFETY: it is a flat symbol reference, whose text lives as long as the context.
    unsafe { text(mlirFlatSymbolRefAttrGetValue(attribute.to_raw())) }
}

/// Value of an integer attribute of at most 64 bits.
pub fn integer(attribute: Attribute<'_>) -> Option<i64> {
    let r#type = attribute.is_integer().then(|| attribute.r#type())?;
    if r#type.is_index() {
        // SAFETY: it is an integer attribute of type index.
        return Some(unsafe { mlirIntegerAttrGetValueInt(attribute.to_raw()) });
    }
    // SAFETY: the type is asked for its width and signedness only if it is an integer type, and the value with the
    // accessor of that signedness.
    unsafe {
        if !r#type.is_integer() || mlirIntegerTypeGetWidth(r#type.to_raw()) > 64 {
            None
        } else if mlirIntegerTypeIsSignless(r#type.to_raw()) {
            Some(mlirIntegerAttrGetValueInt(attribute.to_raw()))
        } else if mlirIntegerTypeIsSigned(r#type.to_raw()) {
            Some(mlirIntegerAttrGetValueSInt(attribute.to_raw()))
        } else {
            i64::try_from(mlirIntegerAttrGetValueUInt(attribute.to_raw())).ok()
        }
    }
}

/// Value of a bool attribute.
pub fn boolean(attribute: Attribute<'_>) -> Option<bool> {
    // SAFETY: it is a bool attribute.
    attribute.is_bool().then(|| unsafe { mlirBoolAttrGetValue(attribute.to_raw()) })
}

/// Value of a float attribute.
pub fn float(attribute: Attribute<'_>) -> Option<f64> {
    // SAFETY: it is a float attribute.
    attribute.is_float().then(|| unsafe { mlirFloatAttrGetValueDouble(attribute.to_raw()) })
}

/// Value of a type attribute.
pub fn r#type<'c>(attribute: Attribute<'c>) -> Option<Type<'c>> {
    // SAFETY: it is a type attribute.
    attribute.is_type().then(|| unsafe { Type::from_raw(mlirTypeAttrGetValue(attribute.to_raw())) })
}

/// Values of a dense array of 64-bit integers.
pub fn integers(attribute: Attribute<'_>) -> Option<Vec<i64>> {
    if !attribute.is_dense_i64_array() {
        return None;
    }
    // SAFETY: it is an array of that kind, and the positions are below its length.
    Some(unsafe {
        (0..mlirDenseArrayGetNumElements(attribute.to_raw()))
            .map(|position| mlirDenseI64ArrayGetElement(attribute.to_raw(), position))
            .collect()
    })
}

/// Numbers of operands in each of an operation's variadic groups, its attribute `operandSegmentSizes`.
pub fn segment_sizes(attribute: Attribute<'_>) -> Option<Vec<usize>> {
    if !attribute.is_dense_i32_array() {
        return None;
    }
    // SAFETY: it is an array of that kind, and the positions are below its length.
    let sizes = unsafe {
        (0..mlirDenseArrayGetNumElements(attribute.to_raw()))
            .map(|position| mlirDenseI32ArrayGetElement(attribute.to_raw(), position))
            .collect::<Vec<i32>>()
    };
    sizes.into_iter().map(|size| usize::try_from(size).ok()).collect()
}

/// Elements of an array attribute.
pub fn elements<'c>(attribute: Attribute<'c>) -> Option<Vec<Attribute<'c>>> {
    if !attribute.is_array() {
        return None;
    }
    // SAFETY: it is an array attribute, and the positions are below its length.
    Some(unsafe {
        (0..mlirArrayAttrGetNumElements(attribute.to_raw()))
            .map(|position| Attribute::from_raw(mlirArrayAttrGetElement(attribute.to_raw(), position)))
            .collect()
    })
}

/// One element of an array attribute; `None` beyond its end.
pub fn element<'c>(attribute: Attribute<'c>, position: usize) -> Option<Attribute<'c>> {
    let position = isize::try_from(position).ok().filter(|_| attribute.is_array())?;
    // SAFETY: it is an array attribute, and the position is below its length.
    unsafe {
        (position < mlirArrayAttrGetNumElements(attribute.to_raw()))
            .then(|| Attribute::from_raw(mlirArrayAttrGetElement(attribute.to_raw(), position)))
    }
}

/// Entries of a dictionary attribute, sorted by name.
pub fn entries<'c>(attribute: Attribute<'c>) -> Option<Vec<(&'c str, Attribute<'c>)>> {
    if !attribute.is_dictionary() {
        return None;
    }
    // SAFETY: it is a dictionary attribute, the positions are below its length, and names live as long as the context.
    Some(unsafe {
        (0..mlirDictionaryAttrGetNumElements(attribute.to_raw()))
            .map(|position| {
                let entry = mlirDictionaryAttrGetElement(attribute.to_raw(), position);
                (text(mlirIdentifierStr(entry.name)).unwrap_or_default(), Attribute::from_raw(entry.attribute))
            })
            .collect()
    })
}

/// A number that identifies a value among the live values of its context.
pub fn value_key<'c>(value: &impl ValueLike<'c>) -> usize {
    value.to_raw().ptr as usize
}

/// # Safety
/// The string must be alive for `'c`.
unsafe fn text<'c>(string: MlirStringRef) -> Option<&'c str> {
    if string.length == 0 {
        return Some("");
    }
    // SAFETY: the caller answers for the lifetime; a non-empty string has a valid pointer.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(string.data.cast::<u8>(), string.length) }).ok()
}
