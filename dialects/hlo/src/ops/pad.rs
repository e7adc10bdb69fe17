//! `pad`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Pad`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Pad, Arity::Exactly(2), OpClass::Indexed, infer_shape)
    .with_attributes(&[AttributeSpec::required("padding", AttributeForm::Padding)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
