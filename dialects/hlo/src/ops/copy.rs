//! `copy`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Copy`.
pub static COPY: OpDefinition = OpDefinition::new(OpKind::Copy, Arity::Exactly(1), OpClass::Elementwise, infer_shape);

/// Definition of `CopyStart`.
pub static COPY_START: OpDefinition =
    OpDefinition::new(OpKind::CopyStart, Arity::Exactly(1), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::optional("cross_program_prefetch_index", AttributeForm::Int)]);

/// Definition of `CopyDone`.
pub static COPY_DONE: OpDefinition =
    OpDefinition::new(OpKind::CopyDone, Arity::Exactly(1), OpClass::Structural, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
