//! Operations on real floating-point registers that take more than one MLIR operation.

use hlo::element_type::ElementType;
use mlir_ext::arith::CmpfPredicate::{Oeq, Olt, Uno};
use mlir_ext::builder::{OpBuilder, Value};

/// -1, -0, 0 or 1; NaN of NaN.
pub(super) fn sign<'c>(builder: &OpBuilder<'c>, _: ElementType, operands: &[Value<'c>]) -> Value<'c> {
    let value = operands[0];
    let one = builder.copysign(builder.float_like(value, 1.0), value);
    let is_zero = builder.cmpf(Oeq, value, builder.float_like(value, 0.0));
    let is_nan = builder.cmpf(Uno, value, value);
    builder.select(builder.ori(is_zero, is_nan), value, one)
}

/// Whether the value is neither infinite nor NaN, as `i1`.
pub(super) fn is_finite<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    builder.cmpf(Olt, builder.absf(value), builder.float_like(value, f64::INFINITY))
}
