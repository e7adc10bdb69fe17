//! `reshape`: the same elements in row-major order under other dimensions.
//!
//! Source: operation semantics, "Reshape", "Collapse"; the result shape is the declared one.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `reshape`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Reshape, Arity::Exactly(1), OpClass::Indexed, infer_shape)
        .with_attributes(&[AttributeSpec::optional("inferred_dimension", AttributeForm::Int)]);

/// - C1: operand and result have the same number of elements, dynamic dimensions counted at their bounds.
/// - C2: `inferred_dimension` is a dimension of the result.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, result) = (view.array(0)?, view.declared_array()?);
    let (expected, found) = (operand.element_count(), result.element_count());
    if expected != found {
        let message = format!("the result must have the {expected} elements of {operand}, got {result} of {found}");
        return Err(view.error(Some("C1"), message));
    }
    if let Some(dimension) = view.attributes.int("inferred_dimension") {
        // -1 is XLA's value for none.
        if dimension != -1 {
            view.dimension_index(Some("C2"), "inferred_dimension", dimension, result.rank())?;
        }
    }
    Ok(result.with_element_type(operand.element_type).into())
}
