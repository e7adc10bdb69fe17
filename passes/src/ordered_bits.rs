//! The largest, or the smallest, of floats of 16 bits in memory, as that of whole numbers in their order: registers hold twice as many
//! of these as of the `f32` that such floats are compared as, and one instruction compares them.
//!
//! Bits of floats, as signed numbers, are in the order of the floats once all but the sign of negative ones are turned: -NaN, -∞, …,
//! -0, +0, …, ∞, NaN. From -∞ on, around, both kinds of NaN are above all numbers; from behind ∞ on they are below.

use std::collections::HashSet;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::{FusionRole, definition};

use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_computation, binary_operation};

/// All bits but that of the sign.
const MAGNITUDE: u16 = 0x7fff;

/// The reductions of a computation that read floats of 16 bits from memory, alone: what is computed is in registers as `f32`, and so
/// is what others make of the same elements.
pub(crate) fn reductions_of_bits(computation: &Computation) -> HashSet<InstructionId> {
    let is_candidate = |own: &Instruction| own.kind == OpKind::Reduce && Order::of(own).is_some();
    let candidates: Vec<_> = computation.iter().filter(|(_, own)| is_candidate(own)).collect();
    if candidates.is_empty() {
        return HashSet::new();
    }
    let uses = computation.use_counts();
    let is_in_memory = |operand: InstructionId| {
        let kind = computation.get(operand).kind;
        uses[operand.index()] == 1 && definition(kind).fusion != FusionRole::Elementwise
    };
    candidates.into_iter().filter(|(_, own)| is_in_memory(own.operands[0])).map(|(id, _)| id).collect()
}

/// The order in which a reduction finds the first or the last.
#[derive(Clone, Copy)]
struct Order {
    kind: OpKind,
    element_type: ElementType,
    /// What counting begins with.
    first: u16,
}

impl Order {
    fn of(reduce: &Instruction) -> Option<Self> {
        let ([_, _], [computation]) = (&reduce.operands[..], &reduce.computations[..]) else { return None };
        Self::new(binary_operation(computation)?, reduce.shape.as_array()?.element_type)
    }

    fn new(kind: OpKind, element_type: ElementType) -> Option<Self> {
        let infinity = match element_type {
            ElementType::BF16 => 0x7f80,
            ElementType::F16 => 0x7c00,
            _ => return None,
        };
        let first = match kind {
            OpKind::Maximum => turned(infinity | !MAGNITUDE),
            OpKind::Minimum => infinity + 1,
            _ => return None,
        };
        Some(Order { kind, element_type, first })
    }

    /// The place of the float of these bits.
    fn place_of_bits(self, bits: u16) -> u16 {
        turned(bits).wrapping_sub(self.first)
    }

    /// The places of floats.
    fn places(self, builder: &mut GraphBuilder, floats: InstructionId) -> InstructionId {
        let bits = builder.bitcast(floats, ElementType::S16);
        let in_order = all_turned(builder, bits);
        let in_order = builder.bitcast(in_order, ElementType::U16);
        let first = self.all_first(builder, in_order);
        builder.binary(OpKind::Subtract, in_order, first)
    }

    /// The floats at places.
    fn floats(self, builder: &mut GraphBuilder, places: InstructionId) -> InstructionId {
        let first = self.all_first(builder, places);
        let in_order = builder.binary(OpKind::Add, places, first);
        let in_order = builder.bitcast(in_order, ElementType::S16);
        let bits = all_turned(builder, in_order);
        builder.bitcast(bits, self.element_type)
    }

    fn all_first(self, builder: &mut GraphBuilder, like: InstructionId) -> InstructionId {
        let shape = builder.array(like);
        builder.filled(&shape, ConstantNumber::Integer(self.first.into()))
    }
}

// reduce(x, i), maximum => floats(reduce(places(x), places(i)), maximum)
/// The results of a reduction of floats, made of those of a reduction of their places, which `push` appends; `None` unless it begins with
/// a constant.
pub(crate) fn by_places(
    builder: &mut GraphBuilder,
    reduce: &Instruction,
    push: impl FnOnce(&mut GraphBuilder, Instruction) -> InstructionId,
) -> Option<InstructionId> {
    let (order, &[operand, initial]) = (Order::of(reduce)?, &reduce.operands[..]) else { return None };
    let ConstantAttributes { value: Literal::Array(initial) } = builder.get(initial).attributes().ok()? else {
        return None;
    };
    let initial = u16::from_le_bytes(initial.bytes().try_into().ok()?);
    let places = order.places(builder, operand);
    let initial = builder.scalar(ElementType::U16, ConstantNumber::Integer(order.place_of_bits(initial).into()));
    let reduction = Instruction {
        operands: vec![places, initial],
        shape: reduce.shape.as_array()?.with_element_type(ElementType::U16).into(),
        computations: vec![binary_computation(&reduce.name, ElementType::U16, order.kind)],
        ..reduce.clone()
    };
    let places = push(builder, reduction);
    Some(order.floats(builder, places))
}

/// Bits of a float as a number in the order of floats, or such a number as bits.
fn turned(bits: u16) -> u16 {
    bits ^ if bits > MAGNITUDE { MAGNITUDE } else { 0 }
}

/// The same of all elements, which are signed.
fn all_turned(builder: &mut GraphBuilder, bits: InstructionId) -> InstructionId {
    let shape = builder.array(bits);
    let places_of_sign = builder.filled(&shape, ConstantNumber::Integer(i64::from(u16::BITS) - 1));
    let magnitude = builder.filled(&shape, ConstantNumber::Integer(MAGNITUDE.into()));
    let sign = builder.binary(OpKind::ShiftRightArithmetic, bits, places_of_sign);
    let mask = builder.binary(OpKind::And, sign, magnitude);
    builder.binary(OpKind::Xor, bits, mask)
}

#[cfg(test)]
mod tests {
    use hlo::element_type::ElementType;
    use hlo::op_kind::OpKind;

    use super::Order;

    const NEGATIVE: u16 = 0x8000;

    #[test]
    fn places_are_in_the_order_of_numbers_with_nan_at_the_end_that_wins() {
        for (element_type, infinity) in [(ElementType::BF16, 0x7f80), (ElementType::F16, 0x7c00)] {
            let numbers = [infinity | NEGATIVE, 0xbf80, 0x8001, 0x8000, 0x0000, 0x0001, 0x3f80, infinity];
            let nans = [infinity + 1, 0x7fff, (infinity + 1) | NEGATIVE, 0xffff];
            for kind in [OpKind::Maximum, OpKind::Minimum] {
                let order = Order::new(kind, element_type).unwrap();
                let place = |bits: &u16| order.place_of_bits(*bits);
                assert!(numbers.is_sorted_by_key(place), "{kind}");
                let wins = |nan: &u16| match kind {
                    OpKind::Maximum => numbers.iter().all(|own| place(nan) > place(own)),
                    _ => numbers.iter().all(|own| place(nan) < place(own)),
                };
                assert!(nans.iter().all(wins), "{kind}");
            }
        }
    }
}
