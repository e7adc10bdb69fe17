//! `convolution`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Convolution`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Convolution, Arity::Exactly(2), OpClass::Contraction, infer_shape).with_attributes(&[
        AttributeSpec::optional("window", AttributeForm::Window),
        AttributeSpec::required("dim_labels", AttributeForm::ConvolutionDimensions),
        AttributeSpec::optional("feature_group_count", AttributeForm::Int),
        AttributeSpec::optional("batch_group_count", AttributeForm::Int),
        AttributeSpec::optional("operand_precision", AttributeForm::Words),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
