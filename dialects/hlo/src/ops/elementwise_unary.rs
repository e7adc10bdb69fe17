//! Elementwise operations of one operand, as a table: the element types each accepts and gives.
//!
//! Source: operation semantics, "Element-wise unary functions". `result_accuracy`, of the functions that hardware
//! approximates, is carried and not interpreted.

use super::element_classes::{ARITHMETIC, COMPLEX_OR_FLOAT, Classes, FLOAT, INTEGER, LOGICAL, SIGNED};
use super::typed_attributes::{NoAttributes, OperationAttributes, Raw, attributes};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
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

attributes! {
    /// Attributes of the functions that hardware approximates.
    pub struct ApproximatedAttributes<'a> {
        /// How exact the result must be.
        optional result_accuracy: Option<Raw<'a>> = None,
    }
}

macro_rules! unary {
    ($($name:ident = $kind:ident($accepts:expr) -> $result:ident $attributes:ident;)*) => {
        $(
            #[doc = concat!("Definition of `", stringify!($kind), "`.")]
            pub static $name: OpDefinition =
                OpDefinition::new(OpKind::$kind, Arity::Exactly(1), OpClass::Elementwise, |view| {
                    infer_shape(view, &$accepts, ResultType::$result)
                })
                .with_attributes($attributes::TABLE);
        )*
    };
}

unary! {
    ABS = Abs(SIGNED) -> RealPart NoAttributes;
    ACOS = Acos(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    ACOSH = Acosh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    ASIN = Asin(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    ASINH = Asinh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    ATANH = Atanh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    CBRT = Cbrt(FLOAT) -> Same ApproximatedAttributes;
    CEIL = Ceil(FLOAT) -> Same NoAttributes;
    COSH = Cosh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    COSINE = Cosine(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    COUNT_LEADING_ZEROS = CountLeadingZeros(INTEGER) -> Same NoAttributes;
    ERF = Erf(FLOAT) -> Same ApproximatedAttributes;
    EXPONENTIAL = Exponential(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    EXPONENTIAL_MINUS_ONE = ExponentialMinusOne(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    FLOOR = Floor(FLOAT) -> Same NoAttributes;
    IMAG = Imag(COMPLEX_OR_FLOAT) -> RealPart NoAttributes;
    IS_FINITE = IsFinite(FLOAT) -> Predicate NoAttributes;
    LOG = Log(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    LOG_PLUS_ONE = LogPlusOne(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    LOGISTIC = Logistic(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    NEGATE = Negate(ARITHMETIC) -> Same NoAttributes;
    NOT = Not(LOGICAL) -> Same NoAttributes;
    POPULATION_COUNT = PopulationCount(INTEGER) -> Same NoAttributes;
    REAL = Real(COMPLEX_OR_FLOAT) -> RealPart NoAttributes;
    ROUND_NEAREST_AFZ = RoundNearestAfz(FLOAT) -> Same NoAttributes;
    ROUND_NEAREST_EVEN = RoundNearestEven(FLOAT) -> Same NoAttributes;
    RSQRT = Rsqrt(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    SIGN = Sign(SIGNED) -> Same NoAttributes;
    SINE = Sine(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    SINH = Sinh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    SQRT = Sqrt(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    TAN = Tan(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
    TANH = Tanh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes;
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
