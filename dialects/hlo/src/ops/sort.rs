//! `sort`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Sort`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Sort, Arity::AtLeast(1), OpClass::Library, infer_shape)
    .with_attributes(&[
        AttributeSpec::required("dimensions", AttributeForm::Ints),
        AttributeSpec::optional("is_stable", AttributeForm::Bool),
    ])
    .with_computations(&["to_apply"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
