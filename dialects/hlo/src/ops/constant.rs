//! `constant`: a literal.
//!
//! Source: operation semantics, "ConstantLiteral".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `constant`. In text, the value stands where operands do: `constant({1, 2})`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Constant, Arity::Exactly(0), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("value", AttributeForm::Literal)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    match view.attributes.literal() {
        Some(literal) => Ok(literal.shape()),
        None => Err(view.error(None, "attribute `value` is missing".to_string())),
    }
}
