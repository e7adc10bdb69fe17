//! `rng_get_and_update_state`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `RngGetAndUpdateState`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::RngGetAndUpdateState, Arity::Exactly(0), OpClass::Random, infer_shape)
        .with_attributes(&[AttributeSpec::required("delta", AttributeForm::Int)])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
