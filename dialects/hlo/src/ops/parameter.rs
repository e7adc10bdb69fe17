//! `parameter`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Parameter`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Parameter, Arity::Exactly(0), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("parameter_number", AttributeForm::Int)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
