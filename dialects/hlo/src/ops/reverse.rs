//! `reverse`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Reverse`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Reverse, Arity::Exactly(1), OpClass::Indexed, infer_shape)
        .with_attributes(&[AttributeSpec::required("dimensions", AttributeForm::Ints)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
