//! `infeed_outfeed`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Infeed`.
pub static INFEED: OpDefinition = OpDefinition::new(OpKind::Infeed, Arity::Exactly(1), OpClass::Library, infer_shape)
    .with_attributes(&[AttributeSpec::optional("infeed_config", AttributeForm::String)])
    .with_side_effect();

/// Definition of `Outfeed`.
pub static OUTFEED: OpDefinition =
    OpDefinition::new(OpKind::Outfeed, Arity::Between(1, 2), OpClass::Library, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("outfeed_shape", AttributeForm::Shape),
            AttributeSpec::optional("outfeed_config", AttributeForm::String),
        ])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
