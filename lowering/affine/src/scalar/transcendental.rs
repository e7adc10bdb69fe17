//! Transcendental functions of `f32` and `f64` registers: the way from the table to the `math` module.

use mlir_ext::builder::{OpBuilder, Value};

use crate::math::{Binary, Math, MathTarget, Unary};

/// A real function of one or two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Unary(Unary),
    Binary(Binary),
}

/// Emits a function of `f32` or `f64` registers, scalar or vector, of as many operands as it takes.
pub(super) fn emit<'c>(builder: &OpBuilder<'c>, function: Function, operands: &[Value<'c>]) -> Value<'c> {
    let machine = builder.machine();
    let target =
        MathTarget { scale_instruction: machine.scales_vectors, vector_library_bits: machine.vector_library_bits };
    let math = Math::new(builder, target);
    match function {
        Function::Unary(function) => math.unary(function, operands[0]),
        Function::Binary(function) => math.binary(function, operands[0], operands[1]),
    }
}
