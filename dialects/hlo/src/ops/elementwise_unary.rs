//! Elementwise operations of one operand, as a table: the element types each accepts and gives.
//!
//! Source: operation semantics, "Element-wise unary functions". `result_accuracy`, of the functions that hardware
//! approximates, is carried and not interpreted.

use super::element_classes::{ARITHMETIC, COMPLEX_OR_FLOAT, Classes, FLOAT, INTEGER, LOGICAL, SIGNED};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Element type of the result.
#[derive(Clone, Copy)]
enum ResultType {
    /// The operand's.
    Same,
    /// The type of a part of a complex operand; a real operand's own.
    RealPart,
    /// `pred`.
    Predicate,
}

const ACCURACY: &[AttributeSpec] = &[AttributeSpec::optional("result_accuracy", AttributeForm::Raw)];
const PLAIN: &[AttributeSpec] = &[];

macro_rules! unary {
    ($($name:ident = $kind:ident($accepts:expr) -> $result:ident $attributes:expr;)*) => {
        $(
            #[doc = concat!("Definition of `", stringify!($kind), "`.")]
            pub static $name: OpDefinition =
                OpDefinition::new(OpKind::$kind, Arity::Exactly(1), OpClass::Elementwise, |view| {
                    infer_shape(view, &$accepts, ResultType::$result)
                })
                .with_attributes($attributes);
        )*
    };
}

unary! {
    ABS = Abs(SIGNED) -> RealPart PLAIN;
    ACOS = Acos(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    ACOSH = Acosh(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    ASIN = Asin(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    ASINH = Asinh(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    ATANH = Atanh(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    CBRT = Cbrt(FLOAT) -> Same ACCURACY;
    CEIL = Ceil(FLOAT) -> Same PLAIN;
    COSH = Cosh(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    COSINE = Cosine(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    COUNT_LEADING_ZEROS = CountLeadingZeros(INTEGER) -> Same PLAIN;
    ERF = Erf(FLOAT) -> Same ACCURACY;
    EXPONENTIAL = Exponential(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    EXPONENTIAL_MINUS_ONE = ExponentialMinusOne(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    FLOOR = Floor(FLOAT) -> Same PLAIN;
    IMAG = Imag(COMPLEX_OR_FLOAT) -> RealPart PLAIN;
    IS_FINITE = IsFinite(FLOAT) -> Predicate PLAIN;
    LOG = Log(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    LOG_PLUS_ONE = LogPlusOne(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    LOGISTIC = Logistic(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    NEGATE = Negate(ARITHMETIC) -> Same PLAIN;
    NOT = Not(LOGICAL) -> Same PLAIN;
    POPULATION_COUNT = PopulationCount(INTEGER) -> Same PLAIN;
    REAL = Real(COMPLEX_OR_FLOAT) -> RealPart PLAIN;
    ROUND_NEAREST_AFZ = RoundNearestAfz(FLOAT) -> Same PLAIN;
    ROUND_NEAREST_EVEN = RoundNearestEven(FLOAT) -> Same PLAIN;
    RSQRT = Rsqrt(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    SIGN = Sign(SIGNED) -> Same PLAIN;
    SINE = Sine(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    SINH = Sinh(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    SQRT = Sqrt(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    TAN = Tan(COMPLEX_OR_FLOAT) -> Same ACCURACY;
    TANH = Tanh(COMPLEX_OR_FLOAT) -> Same ACCURACY;
}

/// - C1: the element type is one the operation is defined on.
fn infer_shape(view: &OpView<'_>, accepts: Classes, result: ResultType) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    view.element_class(Some("C1"), 0, accepts)?;
    let element_type = match result {
        ResultType::Same => operand.element_type,
        ResultType::RealPart => operand.element_type.real_part(),
        ResultType::Predicate => ElementType::Pred,
    };
    Ok(operand.with_element_type(element_type).into())
}
