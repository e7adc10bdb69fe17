//! Builtin types that melior lacks.

use melior::ir::{Type, TypeLike};
use mlir_sys::{mlirComplexTypeGet, mlirComplexTypeGetElementType, mlirShapedTypeGetElementType};

/// Complex type with parts of the given float type.
pub fn complex<'c>(part: Type<'c>) -> Type<'c> {
    // SAFETY: the type is live; the result belongs to the same context.
    unsafe { Type::from_raw(mlirComplexTypeGet(part.to_raw())) }
}

/// Type of the parts of a complex type.
pub fn complex_part<'c>(value: Type<'c>) -> Option<Type<'c>> {
    // SAFETY: it is a complex type.
    value.is_complex().then(|| unsafe { Type::from_raw(mlirComplexTypeGetElementType(value.to_raw())) })
}

/// Type of the elements of a vector type.
pub fn vector_element<'c>(value: Type<'c>) -> Option<Type<'c>> {
    // SAFETY: a vector type is a shaped type with an element type.
    value.is_vector().then(|| unsafe { Type::from_raw(mlirShapedTypeGetElementType(value.to_raw())) })
}
