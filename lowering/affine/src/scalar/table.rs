//! The table of elementwise operations: one row an operation, one column a class of element types.

use hlo::element_type::{ElementClass, ElementType};
use hlo::op_kind::OpKind;
use mlir_ext::builder::{OpBuilder, Value};

use super::complex::{self, Complex};
use super::complex_functions;
use super::small_float::{self, Format};
use super::transcendental::{self, Function};
use super::{RegisterValue, float, integer};
use crate::math::{Binary, Unary};

type RealEmission = for<'c> fn(&OpBuilder<'c>, ElementType, &[Value<'c>]) -> Value<'c>;
type ComplexEmission = for<'c> fn(&OpBuilder<'c>, &[Complex<'c>]) -> Complex<'c>;
type MagnitudeEmission = for<'c> fn(&OpBuilder<'c>, &[Complex<'c>]) -> Value<'c>;

/// How an operation on one class of element types is emitted. Operands and result have one type.
#[derive(Clone, Copy)]
enum Rule {
    /// Not defined for the class.
    Undefined,
    /// One MLIR operation.
    Single(&'static str),
    /// One MLIR operation that may become a part of a fused multiply-add.
    Contractible(&'static str),
    /// One MLIR operation whose results need no rounding or wrapping when the operands needed none.
    Closed(&'static str),
    /// A function of this crate.
    Several(RealEmission),
    /// A function of this crate whose result is one of the operands.
    Choice(RealEmission),
    /// A transcendental function.
    Transcendental(Function),
    /// A function of complex numbers.
    Complex(ComplexEmission),
    /// A function of complex numbers with a real result.
    Magnitude(MagnitudeEmission),
}

use Rule::{Choice, Closed, Contractible, Magnitude, Several, Single, Transcendental, Undefined};

struct Row {
    kind: OpKind,
    operands: usize,
    predicate: Rule,
    signed: Rule,
    unsigned: Rule,
    float: Rule,
    complex: Rule,
}

/// A row: operation, number of operands, rules for `pred`, signed, unsigned, float and complex elements.
const fn row(
    kind: OpKind,
    operands: usize,
    predicate: Rule,
    signed: Rule,
    unsigned: Rule,
    float: Rule,
    complex: Rule,
) -> Row {
    Row { kind, operands, predicate, signed, unsigned, float, complex }
}

/// A row of a function that floats and complex numbers have.
const fn function(kind: OpKind, operands: usize, float: Function, complex: ComplexEmission) -> Row {
    row(kind, operands, Undefined, Undefined, Undefined, Transcendental(float), Rule::Complex(complex))
}

/// A row of a unary operation that only floats have.
const fn float_only(kind: OpKind, float: Rule) -> Row {
    row(kind, 1, Undefined, Undefined, Undefined, float, Undefined)
}

#[rustfmt::skip]
static TABLE: &[Row] = &[
    //  operation              n  pred                   signed                       unsigned                     float                            complex
    row(OpKind::Add,           2, Closed("arith.ori"),   Single("arith.addi"),        Single("arith.addi"),        Contractible("arith.addf"),      Rule::Complex(complex::add)),
    row(OpKind::Subtract,      2, Undefined,             Single("arith.subi"),        Single("arith.subi"),        Contractible("arith.subf"),      Rule::Complex(complex::subtract)),
    row(OpKind::Multiply,      2, Closed("arith.andi"),  Single("arith.muli"),        Single("arith.muli"),        Contractible("arith.mulf"),      Rule::Complex(complex::multiply)),
    row(OpKind::Divide,        2, Undefined,             Several(integer::divide),    Several(integer::divide),    Single("arith.divf"),            Rule::Complex(complex::divide)),
    row(OpKind::Remainder,     2, Undefined,             Several(integer::remainder), Several(integer::remainder), Transcendental(Function::Binary(Binary::Remainder)), Undefined),
    row(OpKind::Maximum,       2, Closed("arith.ori"),   Closed("arith.maxsi"),       Closed("arith.maxui"),       Choice(float::maximum),          Rule::Complex(complex::maximum)),
    row(OpKind::Minimum,       2, Closed("arith.andi"),  Closed("arith.minsi"),       Closed("arith.minui"),       Choice(float::minimum),          Rule::Complex(complex::minimum)),
    row(OpKind::Power,         2, Undefined,             Several(integer::power),     Several(integer::power),     Transcendental(Function::Binary(Binary::Pow)),   Rule::Complex(complex_functions::power)),
    row(OpKind::And,           2, Closed("arith.andi"),  Closed("arith.andi"),        Closed("arith.andi"),        Undefined,                       Undefined),
    row(OpKind::Or,            2, Closed("arith.ori"),   Closed("arith.ori"),         Closed("arith.ori"),         Undefined,                       Undefined),
    row(OpKind::Xor,           2, Closed("arith.xori"),  Closed("arith.xori"),        Closed("arith.xori"),        Undefined,                       Undefined),
    row(OpKind::ShiftLeft,     2, Undefined,             Several(integer::shift_left), Several(integer::shift_left), Undefined,                     Undefined),
    row(OpKind::ShiftRightLogical, 2, Undefined,         Several(integer::shift_right_logical), Several(integer::shift_right_logical), Undefined,   Undefined),
    row(OpKind::ShiftRightArithmetic, 2, Undefined,      Several(integer::shift_right_arithmetic), Several(integer::shift_right_arithmetic), Undefined, Undefined),
    row(OpKind::Not,           1, Several(integer::not), Several(integer::not),       Several(integer::not),       Undefined,                       Undefined),
    row(OpKind::PopulationCount, 1, Undefined,           Several(integer::population_count), Several(integer::population_count), Undefined,         Undefined),
    row(OpKind::CountLeadingZeros, 1, Undefined,         Several(integer::count_leading_zeros), Several(integer::count_leading_zeros), Undefined,   Undefined),
    row(OpKind::Abs,           1, Undefined,             Single("math.absi"),         Several(integer::identity),  Closed("math.absf"),             Magnitude(complex::magnitude)),
    row(OpKind::Negate,        1, Undefined,             Several(integer::negate),    Several(integer::negate),    Closed("arith.negf"),            Rule::Complex(complex::negate)),
    row(OpKind::Sign,          1, Undefined,             Several(integer::sign),      Several(integer::sign),      Several(float::sign),            Rule::Complex(complex::sign)),
    row(OpKind::Sqrt,          1, Undefined,             Undefined,                   Undefined,                   Single("math.sqrt"),             Rule::Complex(complex::square_root)),
    row(OpKind::Rsqrt,         1, Undefined,             Undefined,                   Undefined,                   Transcendental(Function::Unary(Unary::Rsqrt)), Rule::Complex(complex::reciprocal_square_root)),
    float_only(OpKind::Ceil,             Closed("math.ceil")),
    float_only(OpKind::Floor,            Closed("math.floor")),
    float_only(OpKind::RoundNearestAfz,  Closed("math.round")),
    float_only(OpKind::RoundNearestEven, Closed("math.roundeven")),
    float_only(OpKind::Cbrt,             Transcendental(Function::Unary(Unary::Cbrt))),
    float_only(OpKind::Erf,              Transcendental(Function::Unary(Unary::Erf))),
    function(OpKind::Acos,                1, Function::Unary(Unary::Acos),     complex_functions::arc_cosine),
    function(OpKind::Acosh,               1, Function::Unary(Unary::Acosh),    complex_functions::inverse_hyperbolic_cosine),
    function(OpKind::Asin,                1, Function::Unary(Unary::Asin),     complex_functions::arc_sine),
    function(OpKind::Asinh,               1, Function::Unary(Unary::Asinh),    complex_functions::inverse_hyperbolic_sine),
    function(OpKind::Atan2,               2, Function::Binary(Binary::Atan2),    complex_functions::arc_tangent_2),
    function(OpKind::Atanh,               1, Function::Unary(Unary::Atanh),    complex_functions::inverse_hyperbolic_tangent),
    function(OpKind::Cosh,                1, Function::Unary(Unary::Cosh),     complex_functions::hyperbolic_cosine),
    function(OpKind::Cosine,              1, Function::Unary(Unary::Cos),      complex_functions::cosine),
    function(OpKind::Exponential,         1, Function::Unary(Unary::Exp),      complex_functions::exponential),
    function(OpKind::ExponentialMinusOne, 1, Function::Unary(Unary::Expm1),    complex_functions::exponential_minus_one),
    function(OpKind::Log,                 1, Function::Unary(Unary::Log),      complex_functions::log),
    function(OpKind::LogPlusOne,          1, Function::Unary(Unary::Log1p),    complex_functions::log_plus_one),
    function(OpKind::Logistic,            1, Function::Unary(Unary::Logistic), complex_functions::logistic),
    function(OpKind::Sine,                1, Function::Unary(Unary::Sin),      complex_functions::sine),
    function(OpKind::Sinh,                1, Function::Unary(Unary::Sinh),     complex_functions::hyperbolic_sine),
    function(OpKind::Tan,                 1, Function::Unary(Unary::Tan),      complex_functions::tangent),
    function(OpKind::Tanh,                1, Function::Unary(Unary::Tanh),     complex_functions::hyperbolic_tangent),
];

/// Whether the table has a row for the operation.
pub(super) fn has_row(kind: OpKind) -> bool {
    find(kind).is_some()
}

fn find(kind: OpKind) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.kind == kind)
}

/// Emits an operation of the table on operands of one element type; `None` when it is not defined for them.
pub(super) fn emit<'c>(
    builder: &OpBuilder<'c>,
    kind: OpKind,
    operands: &[RegisterValue<'c>],
) -> Option<RegisterValue<'c>> {
    let row = find(kind)?;
    let element_type = operands.first()?.element_type;
    if operands.len() != row.operands || operands.iter().any(|operand| operand.element_type != element_type) {
        return None;
    }
    let rule = match element_type.class() {
        ElementClass::Predicate => row.predicate,
        ElementClass::Signed => row.signed,
        ElementClass::Unsigned => row.unsigned,
        ElementClass::Float => row.float,
        ElementClass::Complex => row.complex,
    };
    let values: Vec<Value> = operands.iter().map(|operand| operand.value).collect();
    let finish =
        |value| Some(RegisterValue::real(builder, element_type, bring_into_type(builder, element_type, value)));
    let finish_closed = |value| match Format::of(element_type) {
        Some(format) if !format.is_closed() => finish(value),
        _ => Some(RegisterValue::real(builder, element_type, value)),
    };
    match rule {
        Undefined => None,
        Contractible(name) if element_type == ElementType::F16 && builder.machine().half_arithmetic => {
            // The same as the rounded result of `f32`, which has more than twice as many digits. Quotients and roots are
            // faster there.
            let halves: Vec<Value> = values.iter().map(|&value| small_float::halves(builder, value)).collect();
            let result = builder.value(name, &halves, halves[0].r#type(), &[]);
            let result = builder.extf(result, builder.element_type_of(values[0].r#type()));
            Some(RegisterValue::real(builder, element_type, result))
        }
        Single(name) => finish(builder.value(name, &values, values[0].r#type(), &[])),
        Contractible(name) => {
            let contract = [("fastmath", builder.contract())];
            let attributes: &[_] = if builder.machine().allow_fma { &contract } else { &[] };
            finish(builder.value(name, &values, values[0].r#type(), attributes))
        }
        Closed(name) => finish_closed(builder.value(name, &values, values[0].r#type(), &[])),
        Choice(emit) => finish_closed(emit(builder, element_type, &values)),
        Several(emit) => finish(emit(builder, element_type, &values)),
        Transcendental(function) => finish(transcendental::emit(builder, function, &values)),
        Rule::Complex(emit) => {
            let result = emit(builder, &complex_operands(operands)?);
            Some(RegisterValue::complex(builder, element_type, result.re, result.im))
        }
        Magnitude(emit) => {
            let result = emit(builder, &complex_operands(operands)?);
            Some(RegisterValue::real(builder, element_type.real_part(), result))
        }
    }
}

/// The parts of complex operands.
pub(super) fn complex_operands<'c>(operands: &[RegisterValue<'c>]) -> Option<Vec<Complex<'c>>> {
    operands.iter().map(|operand| Some(Complex { re: operand.value, im: operand.imaginary? })).collect()
}

/// Rounds or wraps a result of the arithmetic of registers to a value of the element type.
pub(super) fn bring_into_type<'c>(builder: &OpBuilder<'c>, element_type: ElementType, value: Value<'c>) -> Value<'c> {
    match Format::of(element_type) {
        Some(format) => small_float::round(builder, format, value),
        None => integer::wrap(builder, element_type, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_one_row() {
        for (position, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..position].iter().all(|other| other.kind != row.kind), "{}", row.kind);
        }
    }
}
