//! `parameter`: an argument of the computation.
//!
//! Source: operation semantics, "Parameter"; the result shape is the declared one.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `parameter`. In text, the number stands where operands do: `parameter(0)`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Parameter, Arity::Exactly(0), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("parameter_number", AttributeForm::Int)]);

/// - C1: `parameter_number` is not negative.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let number = view.attributes.int("parameter_number").unwrap_or_default();
    if number < 0 {
        return Err(view.attribute_error(Some("C1"), "parameter_number", format!("must be at least 0, got {number}")));
    }
    view.declared().cloned()
}
