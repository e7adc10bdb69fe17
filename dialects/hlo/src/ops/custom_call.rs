//! `custom-call`: a function of the runtime, by name. The result shape is the declared one.
//!
//! Source: operation semantics, "CustomCall".

use super::enumerations::{CustomCallApiVersion, CustomCallSchedule};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec, AttributeValue};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `custom-call`. Whether it has a side effect is its attribute `custom_call_has_side_effect`.
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

/// - C1: `operand_layout_constraints` has one shape for each operand, the operand's but for the layout.
/// - C2: `api_version` and `schedule` are among XLA's.
/// - C3: an annotation has one operand and its shape; between whole arrays and parts, its element type and rank.
/// - C4: `TopK` gives k elements of each row of its operand, which have an order, and their places as `s32`; k is not more than
///   there are.
/// - C5: the operands of a known routine have its element type and sizes.
/// - C6: so have its results.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    if let Some(AttributeValue::Shapes(shapes)) = view.attributes.get("operand_layout_constraints") {
        let key = "operand_layout_constraints";
        if shapes.len() != view.operands.len() {
            let message =
                format!("must have length {}, one shape for each operand, got {}", view.operands.len(), shapes.len());
            return Err(view.attribute_error(Some("C1"), key, message));
        }
        for (index, (&operand, shape)) in view.operands.iter().zip(shapes).enumerate() {
            if !super::same_sizes_and_types(operand, shape) {
                let message = format!("must have the shape {operand} of operand {index}, got {shape}");
                return Err(view.attribute_error(Some("C1"), key, message));
            }
        }
    }
    if view.attributes.get("api_version").is_some() {
        view.word::<CustomCallApiVersion>(Some("C2"), "api_version")?;
    }
    if view.attributes.get("schedule").is_some() {
        view.word::<CustomCallSchedule>(Some("C2"), "schedule")?;
    }
    super::custom_call_targets::check(view)?;
    view.declared().cloned()
}
