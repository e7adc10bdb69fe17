//! `elementwise_unary`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Abs`.
pub static ABS: OpDefinition = OpDefinition::new(OpKind::Abs, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Acos`.
pub static ACOS: OpDefinition = OpDefinition::new(OpKind::Acos, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Acosh`.
pub static ACOSH: OpDefinition = OpDefinition::new(OpKind::Acosh, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Asin`.
pub static ASIN: OpDefinition = OpDefinition::new(OpKind::Asin, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Asinh`.
pub static ASINH: OpDefinition = OpDefinition::new(OpKind::Asinh, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Atanh`.
pub static ATANH: OpDefinition = OpDefinition::new(OpKind::Atanh, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Cbrt`.
pub static CBRT: OpDefinition = OpDefinition::new(OpKind::Cbrt, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Ceil`.
pub static CEIL: OpDefinition = OpDefinition::new(OpKind::Ceil, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Cosh`.
pub static COSH: OpDefinition = OpDefinition::new(OpKind::Cosh, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Cosine`.
pub static COSINE: OpDefinition =
    OpDefinition::new(OpKind::Cosine, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `CountLeadingZeros`.
pub static COUNT_LEADING_ZEROS: OpDefinition =
    OpDefinition::new(OpKind::CountLeadingZeros, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Erf`.
pub static ERF: OpDefinition = OpDefinition::new(OpKind::Erf, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Exponential`.
pub static EXPONENTIAL: OpDefinition =
    OpDefinition::new(OpKind::Exponential, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `ExponentialMinusOne`.
pub static EXPONENTIAL_MINUS_ONE: OpDefinition =
    OpDefinition::new(OpKind::ExponentialMinusOne, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Floor`.
pub static FLOOR: OpDefinition = OpDefinition::new(OpKind::Floor, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Imag`.
pub static IMAG: OpDefinition = OpDefinition::new(OpKind::Imag, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `IsFinite`.
pub static IS_FINITE: OpDefinition =
    OpDefinition::new(OpKind::IsFinite, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Log`.
pub static LOG: OpDefinition = OpDefinition::new(OpKind::Log, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `LogPlusOne`.
pub static LOG_PLUS_ONE: OpDefinition =
    OpDefinition::new(OpKind::LogPlusOne, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Logistic`.
pub static LOGISTIC: OpDefinition =
    OpDefinition::new(OpKind::Logistic, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Negate`.
pub static NEGATE: OpDefinition =
    OpDefinition::new(OpKind::Negate, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Not`.
pub static NOT: OpDefinition = OpDefinition::new(OpKind::Not, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `PopulationCount`.
pub static POPULATION_COUNT: OpDefinition =
    OpDefinition::new(OpKind::PopulationCount, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Real`.
pub static REAL: OpDefinition = OpDefinition::new(OpKind::Real, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `RoundNearestAfz`.
pub static ROUND_NEAREST_AFZ: OpDefinition =
    OpDefinition::new(OpKind::RoundNearestAfz, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `RoundNearestEven`.
pub static ROUND_NEAREST_EVEN: OpDefinition =
    OpDefinition::new(OpKind::RoundNearestEven, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
        .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Rsqrt`.
pub static RSQRT: OpDefinition = OpDefinition::new(OpKind::Rsqrt, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Sign`.
pub static SIGN: OpDefinition = OpDefinition::new(OpKind::Sign, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Sine`.
pub static SINE: OpDefinition = OpDefinition::new(OpKind::Sine, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Sinh`.
pub static SINH: OpDefinition = OpDefinition::new(OpKind::Sinh, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Sqrt`.
pub static SQRT: OpDefinition = OpDefinition::new(OpKind::Sqrt, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Tan`.
pub static TAN: OpDefinition = OpDefinition::new(OpKind::Tan, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

/// Definition of `Tanh`.
pub static TANH: OpDefinition = OpDefinition::new(OpKind::Tanh, Arity::Exactly(1), OpClass::Elementwise, infer_shape)
    .with_attributes(&[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
