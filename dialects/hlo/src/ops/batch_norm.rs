//! Batch normalisation: training (result, mean and variance of the batch), inference, and the gradient.
//!
//! Source: operation semantics, "BatchNormTraining", "BatchNormInference", "BatchNormGrad".

use super::element_classes::FLOAT;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of the batch normalisations.
    pub struct BatchNormAttributes {
        /// Added to the variance, which may be 0.
        required epsilon: f64,
        /// The dimension of features; the others are the batch's.
        required feature_index: i64,
    }
}

/// Definition of `batch-norm-training(operand, scale, offset)` -> (result, mean, variance).
pub static BATCH_NORM_TRAINING: OpDefinition = OpDefinition::new(
    OpKind::BatchNormTraining,
    Arity::Exactly(3),
    Facets::new(OpClass::Reduction, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Whole),
    infer_training,
)
.with_attributes(BatchNormAttributes::TABLE);

/// Definition of `batch-norm-inference(operand, scale, offset, mean, variance)`.
pub static BATCH_NORM_INFERENCE: OpDefinition = OpDefinition::new(
    OpKind::BatchNormInference,
    Arity::Exactly(5),
    Facets::new(
        OpClass::Elementwise,
        FusionRole::Elementwise,
        Lowering::Replaced,
        Effects::None,
        ElementCost::Division,
    ),
    infer_inference,
)
.with_attributes(BatchNormAttributes::TABLE);

/// Definition of `batch-norm-grad(operand, scale, mean, variance, output gradient)` -> gradients of operand,
/// scale, offset.
pub static BATCH_NORM_GRAD: OpDefinition = OpDefinition::new(
    OpKind::BatchNormGrad,
    Arity::Exactly(5),
    Facets::new(OpClass::Reduction, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Whole),
    infer_grad,
)
.with_attributes(BatchNormAttributes::TABLE);

fn infer_training(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, features) = check(view, &[1, 2])?;
    Ok(Shape::Tuple(vec![operand.into(), features.clone().into(), features.into()]))
}

fn infer_inference(view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(check(view, &[1, 2, 3, 4])?.0.into())
}

/// - C4: the output gradient has the operand's shape.
fn infer_grad(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, features) = check(view, &[1, 2, 3])?;
    let gradient = view.array(4)?;
    if gradient.element_type != operand.element_type || !gradient.same_dimensions(&operand) {
        return Err(view.operand_error(
            Some("C4"),
            4,
            format!("must have the shape {operand} of operand 0, got {gradient}"),
        ));
    }
    Ok(Shape::Tuple(vec![operand.into(), features.clone().into(), features.into()]))
}

/// Returns the shape of the operand and of one value for each feature.
///
/// - C1: the operand is floating-point.
/// - C2: `feature_index` is a dimension of the operand.
/// - C3: scale, offset, mean and variance have the operand's type and one value for each feature.
fn check(view: &OpView<'_>, per_feature: &[usize]) -> Result<(ArrayShape, ArrayShape), OpError> {
    view.element_class(Some("C1"), 0, &FLOAT)?;
    let operand = view.array(0)?;
    let attributes: BatchNormAttributes = view.attributes()?;
    let feature = view.dimension_index(Some("C2"), "feature_index", attributes.feature_index, operand.rank())?;
    let features = super::transpose::permuted(operand, &[feature]);
    for &index in per_feature {
        let shape = view.array(index)?;
        if shape.element_type != features.element_type || !shape.same_dimensions(&features) {
            let message = format!("must have shape {features}, one value for each feature, got {shape}");
            return Err(view.operand_error(Some("C3"), index, message));
        }
    }
    Ok((operand.clone(), features))
}
