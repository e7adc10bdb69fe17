//! `compare`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Compare`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Compare, Arity::Exactly(2), OpClass::Elementwise, infer_shape).with_attributes(&[
        AttributeSpec::required("direction", AttributeForm::Word),
        AttributeSpec::optional("type", AttributeForm::Word),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
