//! `batch_norm`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `BatchNormTraining`.
pub static BATCH_NORM_TRAINING: OpDefinition =
    OpDefinition::new(OpKind::BatchNormTraining, Arity::Exactly(3), OpClass::Reduction, infer_shape).with_attributes(
        &[
            AttributeSpec::required("epsilon", AttributeForm::Float),
            AttributeSpec::required("feature_index", AttributeForm::Int),
        ],
    );

/// Definition of `BatchNormInference`.
pub static BATCH_NORM_INFERENCE: OpDefinition =
    OpDefinition::new(OpKind::BatchNormInference, Arity::Exactly(5), OpClass::Elementwise, infer_shape)
        .with_attributes(&[
            AttributeSpec::required("epsilon", AttributeForm::Float),
            AttributeSpec::required("feature_index", AttributeForm::Int),
        ]);

/// Definition of `BatchNormGrad`.
pub static BATCH_NORM_GRAD: OpDefinition =
    OpDefinition::new(OpKind::BatchNormGrad, Arity::Exactly(5), OpClass::Reduction, infer_shape).with_attributes(&[
        AttributeSpec::required("epsilon", AttributeForm::Float),
        AttributeSpec::required("feature_index", AttributeForm::Int),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
