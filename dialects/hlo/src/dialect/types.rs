//! Shapes as MLIR types.
//!
//! Arrays are `tensor`s. What a tensor cannot say is in its encoding `#hlo.layout`: the layout, unless it is the
//! module's default, and the bounds of dynamic dimensions.

use melior::Context;
use melior::ir::attribute::{Attribute, DenseI64ArrayAttribute, StringAttribute};
use melior::ir::r#type::{DimSize, FunctionType, IntegerType, RankedTensorType, TupleType};
use melior::ir::{ShapedTypeLike, Type, TypeLike};
use mlir_ext::{attributes, operations, types};

use super::error::DialectError;
use super::ffi::{self, LayoutParameters};
use crate::element_type::{ElementClass, ElementType};
use crate::shape::{ArrayShape, Layout, ProgramShape, Shape, UNBOUNDED};

/// How deep tuples may nest.
const TUPLE_DEPTH_LIMIT: usize = 200;

/// What a `tensor` without encoding has for a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultLayout {
    /// None.
    Absent,
    /// The row-major one; scalars none.
    RowMajor,
}

impl DefaultLayout {
    fn of_rank(self, rank: usize) -> Option<Layout> {
        (self == DefaultLayout::RowMajor && rank > 0).then(|| Layout::row_major(rank))
    }
}

/// Type of a shape.
pub(super) fn type_of<'c>(
    context: &'c Context,
    default: DefaultLayout,
    shape: &Shape,
) -> Result<Type<'c>, DialectError> {
    Ok(match shape {
        Shape::Array(array) => array_type(context, default, array)?,
        Shape::Tuple(elements) => {
            let elements: Vec<Type> =
                elements.iter().map(|element| type_of(context, default, element)).collect::<Result<_, _>>()?;
            TupleType::new(context, &elements).into()
        }
        Shape::Token => ffi::token_type(context),
        Shape::Opaque => ffi::opaque_type(context),
    })
}

/// Type of an array.
pub(super) fn array_type<'c>(
    context: &'c Context,
    default: DefaultLayout,
    array: &ArrayShape,
) -> Result<Type<'c>, DialectError> {
    let sizes: Vec<u64> = (0..array.rank())
        .map(|dimension| match array.is_dynamic_dimension(dimension) {
            true => i64::MIN as u64,
            false => array.dimensions[dimension] as u64,
        })
        .collect();
    if let Some(size) = (0..array.rank()).find(|&d| !array.is_dynamic_dimension(d) && array.dimensions[d] < 0) {
        return Err(DialectError::invalid(format!("dimension {size} of {array} is negative")));
    }
    let element = element_type(context, array.element_type);
    Ok(RankedTensorType::new(&sizes, element, encoding(context, default, array)).into())
}

fn encoding<'c>(context: &'c Context, default: DefaultLayout, array: &ArrayShape) -> Option<Attribute<'c>> {
    let bounded = (0..array.rank()).any(|d| array.is_dynamic_dimension(d) && array.dimensions[d] != UNBOUNDED);
    if !bounded && array.layout == default.of_rank(array.rank()) {
        return None;
    }
    Some(ffi::layout(
        context,
        LayoutParameters {
            minor_to_major: array
                .layout
                .as_ref()
                .map(|layout| DenseI64ArrayAttribute::new(context, &layout.minor_to_major).into()),
            extras: array
                .layout
                .as_ref()
                .filter(|layout| !layout.extras.is_empty())
                .map(|layout| StringAttribute::new(context, &layout.extras).into()),
            bounds: bounded.then(|| DenseI64ArrayAttribute::new(context, &array.dimensions).into()),
        },
    ))
}

/// Type of an element.
pub(super) fn element_type(context: &Context, element: ElementType) -> Type<'_> {
    match element {
        ElementType::Pred => IntegerType::new(context, 1).into(),
        ElementType::F4E2M1FN => Type::float4_e2m1fn(context),
        ElementType::F8E3M4 => Type::float8_e3m4(context),
        ElementType::F8E4M3 => Type::float8_e4m3(context),
        ElementType::F8E4M3FN => Type::float8_e4m3fn(context),
        ElementType::F8E4M3B11FNUZ => Type::float8_e4m3b11fnuz(context),
        ElementType::F8E4M3FNUZ => Type::float8_e4m3fnuz(context),
        ElementType::F8E5M2 => Type::float8_e5m2(context),
        ElementType::F8E5M2FNUZ => Type::float8_e5m2fnuz(context),
        ElementType::F8E8M0FNU => Type::float8_e8m0fnu(context),
        ElementType::BF16 => Type::bfloat16(context),
        ElementType::F16 => Type::float16(context),
        ElementType::F32 => Type::float32(context),
        ElementType::F64 => Type::float64(context),
        ElementType::C64 => types::complex(Type::float32(context)),
        ElementType::C128 => types::complex(Type::float64(context)),
        ElementType::S2
        | ElementType::S4
        | ElementType::S8
        | ElementType::S16
        | ElementType::S32
        | ElementType::S64 => IntegerType::new(context, element.bit_width()).into(),
        ElementType::U2
        | ElementType::U4
        | ElementType::U8
        | ElementType::U16
        | ElementType::U32
        | ElementType::U64 => IntegerType::unsigned(context, element.bit_width()).into(),
    }
}

/// Shape of a type.
pub(super) fn shape_of(default: DefaultLayout, value: Type<'_>) -> Result<Shape, DialectError> {
    shape_at_depth(default, value, 0)
}

fn shape_at_depth(default: DefaultLayout, value: Type<'_>, depth: usize) -> Result<Shape, DialectError> {
    if value.is_ranked_tensor() {
        return array_shape(default, value).map(Shape::Array);
    }
    if value.is_tuple() {
        if depth == TUPLE_DEPTH_LIMIT {
            return Err(DialectError::invalid(format!("tuples nest deeper than {TUPLE_DEPTH_LIMIT}")));
        }
        let tuple = TupleType::try_from(value).map_err(|_| not_a_shape(value))?;
        let elements: Result<Vec<Shape>, _> = (0..tuple.type_count())
            .map(|index| {
                let element = tuple.r#type(index).map_err(|_| not_a_shape(value))?;
                shape_at_depth(default, element, depth + 1)
            })
            .collect();
        return elements.map(Shape::Tuple);
    }
    if ffi::is_token(value) {
        Ok(Shape::Token)
    } else if ffi::is_opaque(value) {
        Ok(Shape::Opaque)
    } else {
        Err(not_a_shape(value))
    }
}

fn not_a_shape(value: Type<'_>) -> DialectError {
    DialectError::invalid(format!("`{value}` is not a type of HLO values"))
}

/// Shape of a `tensor` type.
pub(super) fn array_shape(default: DefaultLayout, value: Type<'_>) -> Result<ArrayShape, DialectError> {
    let tensor = RankedTensorType::try_from(value).map_err(|_| not_a_shape(value))?;
    let rank = tensor.rank();
    let element = element_of(tensor.element()).ok_or_else(|| not_a_shape(value))?;
    let mut shape = ArrayShape::new(element, Vec::with_capacity(rank));
    for dimension in 0..rank {
        let size = match tensor.dim_size(dimension) {
            Ok(DimSize::Static(size)) => size as i64,
            Ok(DimSize::Dynamic) | Err(_) => UNBOUNDED,
        };
        shape.dimensions.push(size);
    }
    if shape.dimensions.contains(&UNBOUNDED) {
        shape.dynamic = shape.dimensions.iter().map(|&size| size == UNBOUNDED).collect();
    }
    match tensor.encoding() {
        None => shape.layout = default.of_rank(rank),
        Some(encoding) => {
            let parameters = ffi::layout_parameters(encoding).ok_or_else(|| not_a_shape(value))?;
            let integers = |attribute: Option<Attribute>| {
                attribute.map(|list| attributes::integers(list).ok_or_else(|| not_a_shape(value))).transpose()
            };
            if let Some(bounds) = integers(parameters.bounds)? {
                let agrees = |d: usize| shape.is_dynamic_dimension(d) || shape.dimensions[d] == bounds[d];
                if bounds.len() != rank || !(0..rank).all(agrees) {
                    return Err(DialectError::invalid(format!("the bounds of `{value}` do not fit its dimensions")));
                }
                shape.dimensions = bounds;
            }
            shape.layout = integers(parameters.minor_to_major)?.map(|minor_to_major| Layout {
                minor_to_major,
                extras: parameters.extras.and_then(attributes::string).unwrap_or_default().to_string(),
            });
            if let Some(layout) = &shape.layout
                && !is_permutation(&layout.minor_to_major, rank)
            {
                return Err(DialectError::invalid(format!("the layout of `{value}` does not fit its rank")));
            }
        }
    }
    if shape.checked_byte_size().is_none() {
        return Err(DialectError::invalid(format!("the size of {shape} in bytes does not fit 63 bits")));
    }
    Ok(shape)
}

fn is_permutation(order: &[i64], rank: usize) -> bool {
    let mut seen = vec![false; rank];
    order.len() == rank
        && order.iter().all(|&dimension| {
            usize::try_from(dimension)
                .ok()
                .and_then(|dimension| seen.get_mut(dimension))
                .is_some_and(|seen| !std::mem::replace(seen, true))
        })
}

fn element_of(value: Type<'_>) -> Option<ElementType> {
    if value.is_f32() {
        return Some(ElementType::F32);
    }
    if value.is_integer() {
        let integer = IntegerType::try_from(value).ok()?;
        let class = match integer.width() {
            1 if integer.is_signless() => ElementClass::Predicate,
            _ if integer.is_signless() => ElementClass::Signed,
            _ if integer.is_unsigned() => ElementClass::Unsigned,
            _ => return None,
        };
        let width = if class == ElementClass::Predicate { 8 } else { integer.width() };
        return ElementType::all().find(|element| element.class() == class && element.bit_width() == width);
    }
    if let Some(part) = types::complex_part(value) {
        return element_of(part)?.complex_of();
    }
    let context = operations::context(value.context());
    ElementType::all().find(|&element| element.is_float() && element_type(context, element) == value)
}

/// Function type of a signature.
pub(super) fn function_type<'c>(
    context: &'c Context,
    default: DefaultLayout,
    signature: &ProgramShape,
) -> Result<Type<'c>, DialectError> {
    let parameters: Vec<Type> =
        signature.parameters.iter().map(|shape| type_of(context, default, shape)).collect::<Result<_, _>>()?;
    let result = type_of(context, default, &signature.result)?;
    Ok(FunctionType::new(context, &parameters, &[result]).into())
}

/// Signature of a function type with one result.
pub(super) fn program_shape(default: DefaultLayout, value: Type<'_>) -> Result<ProgramShape, DialectError> {
    let not_a_function = || DialectError::invalid(format!("`{value}` is not a function with one result"));
    if !value.is_function() {
        return Err(not_a_function());
    }
    let function = FunctionType::try_from(value).map_err(|_| not_a_function())?;
    if function.result_count() != 1 {
        return Err(not_a_function());
    }
    Ok(ProgramShape {
        parameters: (0..function.input_count())
            .map(|index| shape_of(default, function.input(index).map_err(|_| not_a_function())?))
            .collect::<Result<_, _>>()?,
        result: shape_of(default, function.result(0).map_err(|_| not_a_function())?)?,
    })
}
