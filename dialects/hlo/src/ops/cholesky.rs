//! `cholesky`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Cholesky`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Cholesky, Arity::Exactly(1), OpClass::Library, infer_shape)
        .with_attributes(&[AttributeSpec::optional("lower", AttributeForm::Bool)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
