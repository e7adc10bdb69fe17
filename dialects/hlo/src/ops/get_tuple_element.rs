//! `get_tuple_element`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `GetTupleElement`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::GetTupleElement, Arity::Exactly(1), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("index", AttributeForm::Int)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
