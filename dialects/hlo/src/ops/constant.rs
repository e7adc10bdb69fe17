//! `constant`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Constant`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Constant, Arity::Exactly(0), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("value", AttributeForm::Literal)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
