//! `reshape`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Reshape`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Reshape, Arity::Exactly(1), OpClass::Indexed, infer_shape)
        .with_attributes(&[AttributeSpec::optional("inferred_dimension", AttributeForm::Int)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
