//! `rng`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Rng`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Rng, Arity::Exactly(2), OpClass::Random, infer_shape)
    .with_attributes(&[AttributeSpec::required("distribution", AttributeForm::Word)])
    .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
