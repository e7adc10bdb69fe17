//! `gather`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Gather`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Gather, Arity::Exactly(2), OpClass::Indexed, infer_shape).with_attributes(&[
        AttributeSpec::required("offset_dims", AttributeForm::Ints),
        AttributeSpec::required("collapsed_slice_dims", AttributeForm::Ints),
        AttributeSpec::required("start_index_map", AttributeForm::Ints),
        AttributeSpec::optional("operand_batching_dims", AttributeForm::Ints),
        AttributeSpec::optional("start_indices_batching_dims", AttributeForm::Ints),
        AttributeSpec::required("index_vector_dim", AttributeForm::Int),
        AttributeSpec::required("slice_sizes", AttributeForm::Ints),
        AttributeSpec::optional("indices_are_sorted", AttributeForm::Bool),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
