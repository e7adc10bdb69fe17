//! `map`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Map`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Map, Arity::AtLeast(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("dimensions", AttributeForm::Ints)])
        .with_computations(&["to_apply"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
