//! `custom_call`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `CustomCall`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::CustomCall, Arity::AtLeast(0), OpClass::Library, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("window", AttributeForm::Window),
            AttributeSpec::optional("dim_labels", AttributeForm::ConvolutionDimensions),
            AttributeSpec::optional("feature_group_count", AttributeForm::Int),
            AttributeSpec::optional("batch_group_count", AttributeForm::Int),
            AttributeSpec::optional("operand_precision", AttributeForm::Words),
            AttributeSpec::optional("padding_type", AttributeForm::Word),
            AttributeSpec::required("custom_call_target", AttributeForm::String),
            AttributeSpec::optional("operand_layout_constraints", AttributeForm::Shapes),
            AttributeSpec::optional("custom_call_has_side_effect", AttributeForm::Bool),
            AttributeSpec::optional("literal", AttributeForm::Raw),
            AttributeSpec::optional("output_to_operand_aliasing", AttributeForm::Raw),
            AttributeSpec::optional("schedule", AttributeForm::Word),
            AttributeSpec::optional("api_version", AttributeForm::Word),
        ])
        .with_computations(&["to_apply?", "called_computations*"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
