//! `slice`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Slice`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Slice, Arity::Exactly(1), OpClass::Indexed, infer_shape)
        .with_attributes(&[AttributeSpec::required("slice", AttributeForm::Slice)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
