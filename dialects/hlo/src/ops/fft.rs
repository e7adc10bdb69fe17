//! `fft`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Fft`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Fft, Arity::Exactly(1), OpClass::Library, infer_shape)
    .with_attributes(&[
        AttributeSpec::required("fft_type", AttributeForm::Word),
        AttributeSpec::required("fft_length", AttributeForm::Ints),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
