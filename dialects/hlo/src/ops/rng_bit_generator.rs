//! `rng_bit_generator`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `RngBitGenerator`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::RngBitGenerator, Arity::Exactly(1), OpClass::Random, infer_shape)
        .with_attributes(&[AttributeSpec::required("algorithm", AttributeForm::Word)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
