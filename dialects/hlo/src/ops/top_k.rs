//! `top_k`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `TopK`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::TopK, Arity::Exactly(1), OpClass::Library, infer_shape)
    .with_attributes(&[
        AttributeSpec::required("k", AttributeForm::Int),
        AttributeSpec::required("largest", AttributeForm::Bool),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
