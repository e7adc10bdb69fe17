//! `ragged_dot`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `RaggedDot`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::RaggedDot, Arity::Exactly(3), OpClass::Contraction, infer_shape).with_attributes(&[
        AttributeSpec::optional("lhs_batch_dims", AttributeForm::Ints),
        AttributeSpec::optional("lhs_contracting_dims", AttributeForm::Ints),
        AttributeSpec::optional("rhs_batch_dims", AttributeForm::Ints),
        AttributeSpec::optional("rhs_contracting_dims", AttributeForm::Ints),
        AttributeSpec::required("lhs_ragged_dims", AttributeForm::Ints),
        AttributeSpec::optional("rhs_group_dims", AttributeForm::Ints),
        AttributeSpec::optional("operand_precision", AttributeForm::Words),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
