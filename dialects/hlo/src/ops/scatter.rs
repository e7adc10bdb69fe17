//! `scatter`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Scatter`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Scatter, Arity::AtLeast(3), OpClass::Indexed, infer_shape)
        .with_attributes(&[
            AttributeSpec::required("update_window_dims", AttributeForm::Ints),
            AttributeSpec::required("inserted_window_dims", AttributeForm::Ints),
            AttributeSpec::required("scatter_dims_to_operand_dims", AttributeForm::Ints),
            AttributeSpec::optional("input_batching_dims", AttributeForm::Ints),
            AttributeSpec::optional("scatter_indices_batching_dims", AttributeForm::Ints),
            AttributeSpec::required("index_vector_dim", AttributeForm::Int),
            AttributeSpec::optional("indices_are_sorted", AttributeForm::Bool),
            AttributeSpec::optional("unique_indices", AttributeForm::Bool),
        ])
        .with_computations(&["to_apply"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
