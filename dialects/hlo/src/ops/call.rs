//! `call`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Call`.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::Call, Arity::AtLeast(0), OpClass::Control, infer_shape)
    .with_attributes(&[
        AttributeSpec::optional("is_composite", AttributeForm::Bool),
        AttributeSpec::optional("output_to_operand_aliasing", AttributeForm::Raw),
    ])
    .with_computations(&["to_apply"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
