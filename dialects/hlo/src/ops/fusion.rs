//! `fusion`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Fusion`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Fusion, Arity::AtLeast(0), OpClass::Control, infer_shape)
        .with_attributes(&[
            AttributeSpec::required("kind", AttributeForm::Word),
            AttributeSpec::optional("output_to_operand_aliasing", AttributeForm::Raw),
        ])
        .with_computations(&["calls"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
