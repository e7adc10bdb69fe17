//! `power` with a constant exponent of a few halves: products, a quotient, a square root.
//!
//! At most three operations are rounded, none in a range where the result is a normal number and an intermediate one is
//! not, so the result is within two units in the last place, as that of the general function. Zeros and infinities are
//! those of ISO C's `pow`: an odd number of halves makes -0 positive, and of -infinity infinity or 0.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::scalar;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let &[base, exponent] = operands else { return None };
    let shape = instruction.shape.as_array().filter(|shape| !shape.is_dynamic())?;
    if !matches!(shape.element_type, ElementType::F32 | ElementType::F64) {
        return None;
    }
    let halves = 2.0 * constant(builder, exponent)?;
    let power = EXPONENTS.iter().find(|&&(known, _)| f64::from(known) == halves)?.1;
    Some(power(builder, base))
}

type Power = fn(&mut GraphBuilder, InstructionId) -> InstructionId;

/// (exponent in halves, its code)
static EXPONENTS: [(i8, Power); 8] = [
    (-4, |b, x| {
        let quotient = reciprocal(b, x);
        b.binary(OpKind::Multiply, quotient, quotient)
    }),
    (-3, |b, x| {
        let positive_zero = without_negative_zero(b, x);
        let quotient = reciprocal(b, positive_zero);
        let root = b.unary(OpKind::Sqrt, quotient);
        b.binary(OpKind::Multiply, quotient, root)
    }),
    (-2, reciprocal),
    (-1, |b, x| {
        let positive_zero = without_negative_zero(b, x);
        let root = b.unary(OpKind::Sqrt, positive_zero);
        let quotient = reciprocal(b, root);
        of_negative_infinity(b, x, 0.0, quotient)
    }),
    (1, |b, x| {
        let positive_zero = without_negative_zero(b, x);
        let root = b.unary(OpKind::Sqrt, positive_zero);
        of_negative_infinity(b, x, f64::INFINITY, root)
    }),
    (3, |b, x| {
        let root = b.unary(OpKind::Sqrt, x);
        let product = b.binary(OpKind::Multiply, x, root);
        of_negative_infinity(b, x, f64::INFINITY, product)
    }),
    (4, |b, x| b.binary(OpKind::Multiply, x, x)),
    (6, |b, x| {
        let square = b.binary(OpKind::Multiply, x, x);
        b.binary(OpKind::Multiply, square, x)
    }),
];

/// The number that every element of a value is, where that is a constant.
fn constant(builder: &GraphBuilder, id: InstructionId) -> Option<f64> {
    let instruction = builder.get(id);
    match instruction.kind {
        OpKind::Broadcast | OpKind::Reshape | OpKind::Copy => constant(builder, *instruction.operands.first()?),
        OpKind::Constant => {
            let array = instruction.literal()?.as_array()?;
            let is_one = array.shape().element_count() == 1;
            is_one.then(|| scalar::load(array.element_type(), array.bytes(), 0).to_float())
        }
        _ => None,
    }
}

fn filled_like(builder: &mut GraphBuilder, value: InstructionId, number: f64) -> InstructionId {
    let shape = builder.array(value);
    builder.filled(&shape, ConstantNumber::Float(number))
}

fn reciprocal(builder: &mut GraphBuilder, value: InstructionId) -> InstructionId {
    let one = filled_like(builder, value, 1.0);
    builder.binary(OpKind::Divide, one, value)
}

/// 0 of -0, every other number of itself.
fn without_negative_zero(builder: &mut GraphBuilder, value: InstructionId) -> InstructionId {
    let zero = filled_like(builder, value, 0.0);
    builder.binary(OpKind::Add, value, zero)
}

/// `result` where `value` is -infinity, else `otherwise`.
fn of_negative_infinity(
    builder: &mut GraphBuilder,
    value: InstructionId,
    result: f64,
    otherwise: InstructionId,
) -> InstructionId {
    let infinity = filled_like(builder, value, f64::NEG_INFINITY);
    let is_infinite = builder.compare(ComparisonDirection::Eq, value, infinity);
    let result = filled_like(builder, value, result);
    builder.select(is_infinite, result, otherwise)
}
