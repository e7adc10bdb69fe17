//! `iota`: counts from 0 along a dimension.
//!
//! Source: operation semantics, "Iota"; the result shape is the declared one.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `iota`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Iota, Arity::Exactly(0), OpClass::Indexed, infer_shape)
    .with_attributes(&[AttributeSpec::required("iota_dimension", AttributeForm::Int)]);

/// - C1: `iota_dimension` is a dimension of the result.
/// - C2: the element type is not pred.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let result = view.declared_array()?;
    let dimension = view.attributes.int("iota_dimension").unwrap_or_default();
    view.dimension_index(Some("C1"), "iota_dimension", dimension, result.rank())?;
    if result.element_type == ElementType::Pred {
        return Err(view.error(Some("C2"), "the result must have an arithmetic element type, got pred".to_string()));
    }
    Ok(result.clone().into())
}
