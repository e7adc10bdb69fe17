//! Elementwise operations of one operand, as a table: the element types each accepts and gives, its attributes, its cost.
//!
//! Source: operation semantics, "Element-wise unary functions". `result_accuracy`, of the functions that hardware
//! approximates, is carried and not interpreted.

use super::element_classes::{ARITHMETIC, COMPLEX_OR_FLOAT, Classes, FLOAT, INTEGER, LOGICAL, SIGNED};
use super::facets::{ElementCost, Facets};
use super::typed_attributes::{NoAttributes, OperationAttributes, Raw, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
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
    ($($name:ident = $kind:ident($accepts:expr) -> $result:ident $attributes:ident $cost:ident;)*) => {
        $(
            #[doc = concat!("Definition of `", stringify!($kind), "`.")]
            pub static $name: OpDefinition =
                OpDefinition::new(OpKind::$kind, Arity::Exactly(1), Facets::elementwise(ElementCost::$cost), |view| {
                    infer_shape(view, &$accepts, ResultType::$result)
                })
                .with_attributes($attributes::TABLE);
        )*
    };
}

unary! {
    ABS = Abs(SIGNED) -> RealPart NoAttributes Simple;
    ACOS = Acos(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    ACOSH = Acosh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    ASIN = Asin(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    ASINH = Asinh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    ATANH = Atanh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    CBRT = Cbrt(FLOAT) -> Same ApproximatedAttributes Transcendental;
    CEIL = Ceil(FLOAT) -> Same NoAttributes Simple;
    COSH = Cosh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    COSINE = Cosine(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    COUNT_LEADING_ZEROS = CountLeadingZeros(INTEGER) -> Same NoAttributes Simple;
    ERF = Erf(FLOAT) -> Same ApproximatedAttributes Transcendental;
    EXPONENTIAL = Exponential(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    EXPONENTIAL_MINUS_ONE = ExponentialMinusOne(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    FLOOR = Floor(FLOAT) -> Same NoAttributes Simple;
    IMAG = Imag(COMPLEX_OR_FLOAT) -> RealPart NoAttributes Simple;
    IS_FINITE = IsFinite(FLOAT) -> Predicate NoAttributes Simple;
    LOG = Log(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    LOG_PLUS_ONE = LogPlusOne(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    LOGISTIC = Logistic(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    NEGATE = Negate(ARITHMETIC) -> Same NoAttributes Simple;
    NOT = Not(LOGICAL) -> Same NoAttributes Simple;
    POPULATION_COUNT = PopulationCount(INTEGER) -> Same NoAttributes Simple;
    REAL = Real(COMPLEX_OR_FLOAT) -> RealPart NoAttributes Simple;
    ROUND_NEAREST_AFZ = RoundNearestAfz(FLOAT) -> Same NoAttributes Simple;
    ROUND_NEAREST_EVEN = RoundNearestEven(FLOAT) -> Same NoAttributes Simple;
    RSQRT = Rsqrt(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    SIGN = Sign(SIGNED) -> Same NoAttributes Simple;
    SINE = Sine(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    SINH = Sinh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    SQRT = Sqrt(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    TAN = Tan(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
    TANH = Tanh(COMPLEX_OR_FLOAT) -> Same ApproximatedAttributes Transcendental;
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
