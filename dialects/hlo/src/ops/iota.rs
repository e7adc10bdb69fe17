//! `iota`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Iota`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Iota, Arity::Exactly(0), OpClass::Indexed, infer_shape)
    .with_attributes(&[AttributeSpec::required("iota_dimension", AttributeForm::Int)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
