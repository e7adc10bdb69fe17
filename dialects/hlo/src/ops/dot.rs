//! `dot`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Dot`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Dot, Arity::Between(2, 4), OpClass::Contraction, infer_shape).with_attributes(&[
        AttributeSpec::optional("lhs_batch_dims", AttributeForm::Ints),
        AttributeSpec::optional("lhs_contracting_dims", AttributeForm::Ints),
        AttributeSpec::optional("rhs_batch_dims", AttributeForm::Ints),
        AttributeSpec::optional("rhs_contracting_dims", AttributeForm::Ints),
        AttributeSpec::optional("sparsity", AttributeForm::Raw),
        AttributeSpec::optional("operand_precision", AttributeForm::Words),
        AttributeSpec::optional("algorithm", AttributeForm::Word),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
