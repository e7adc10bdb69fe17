//! Operations on real floating-point registers that take more than one MLIR operation.

use hlo::element_type::ElementType;
use melior::ir::OperationRef;
use melior::ir::operation::OperationLike;
use mlir_ext::arith::CmpfPredicate::{self, Oeq, Ogt, Olt, Uno};
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::operations;

/// -1, -0, 0 or 1; NaN of NaN.
pub(super) fn sign<'c>(builder: &OpBuilder<'c>, _: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let value = operands[0];
    let one = builder.copysign(builder.float_like(value, 1.0), value);
    let is_zero = builder.cmpf(Oeq, value, builder.float_like(value, 0.0));
    let is_nan = builder.cmpf(Uno, value, value);
    builder.select(builder.ori(is_zero, is_nan), value, one)
}

/// The larger of two numbers, NaN if one is; 0 of zeros of both signs.
pub(super) fn maximum<'c>(builder: &OpBuilder<'c>, element_type: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let (a, b) = (operands[0], operands[1]);
    if builder.machine().is_gpu || is_literal(a) || is_literal(b) {
        return builder.value("arith.maximumf", &[a, b], a.r#type(), &[]);
    }
    if builder.lanes_of(a.r#type()).is_some() {
        // A choice for NaN would take more operations, and of several in a row these negate no more than the numbers that are new.
        return builder.negf(smallest(builder, element_type, [a, b].map(|number| builder.negf(number))));
    }
    // As in `smallest`, but for the bits that both have, which may be no NaN's: a negated number would be stored from another register.
    let [one, other] = in_either_order(builder, element_type, [a, b], Ogt);
    let both = builder.bitcast(builder.andi(one, other), a.r#type());
    builder.select(builder.cmpf(Uno, a, b), builder.float_like(both, f64::NAN), both)
}

/// The smaller of two numbers, NaN if one is; -0 of zeros of both signs.
pub(super) fn minimum<'c>(builder: &OpBuilder<'c>, element_type: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let (a, b) = (operands[0], operands[1]);
    if builder.machine().is_gpu || is_literal(a) || is_literal(b) {
        return builder.value("arith.minimumf", &[a, b], a.r#type(), &[]);
    }
    smallest(builder, element_type, [a, b])
}

/// What a processor's comparison gives in either order of its operands differs where it gives the second one, of zeros and of NaN:
/// the number whose bits are those of both together, as the bits of NaN and of anything else are NaN.
fn smallest<'c>(builder: &OpBuilder<'c>, element_type: ElementType, [a, b]: [Value<'c>; 2]) -> Value<'c> {
    let [one, other] = in_either_order(builder, element_type, [a, b], Olt);
    builder.bitcast(builder.ori(one, other), builder.element_type_of(a.r#type()))
}

/// The bits of the number that a comparison chooses of two, with the operands in either order.
fn in_either_order<'c>(
    builder: &OpBuilder<'c>,
    element_type: ElementType,
    [a, b]: [Value<'c>; 2],
    comparison: CmpfPredicate,
) -> [Value<'c>; 2] {
    let integer = builder.integer_type(if element_type == ElementType::F64 { 64 } else { 32 });
    let bits = |a, b| builder.bitcast(builder.select(builder.cmpf(comparison, a, b), a, b), integer);
    [bits(a, b), bits(b, a)]
}

/// Bits of floats as whole numbers in the order of the floats, and such numbers as bits: those of negative ones are turned.
pub(super) fn turned<'c>(builder: &OpBuilder<'c>, bits: Value<'c>) -> Value<'c> {
    let width = if builder.element_type_of(bits.r#type()) == builder.integer_type(64) { 64 } else { 32 };
    let sign = builder.shrsi(bits, builder.integer_like(bits, width - 1));
    builder.xori(bits, builder.andi(sign, builder.integer_like(bits, i64::MAX >> (64 - width))))
}

/// Whether a value is a constant in each lane, of which LLVM knows that it is no NaN, and mostly no zero.
fn is_literal(value: Value<'_>) -> bool {
    let is_broadcast = |own: &OperationRef<'_, '_>| own.name().as_string_ref().as_str() == Ok("vector.broadcast");
    let broadcast = operations::definition(value.into()).filter(is_broadcast);
    let scalar = broadcast.and_then(|own| own.operand(0).ok()).map_or(value, Value::from);
    scalar.is_constant()
}

/// Whether the value is neither infinite nor NaN, as `i1`.
pub(super) fn is_finite<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    builder.cmpf(Olt, builder.absf(value), builder.float_like(value, f64::INFINITY))
}
