//! `map`, `reduce` and `reduce-window` as loops.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::shape::ArrayShape;

use super::{as_declared, call, counted_loop, element_at, elements_at, flat, with_element, with_number};
use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Element by element.
pub(super) fn map(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let function = instruction.computations.first()?;
    let result = instruction.shape.as_array()?;
    let operands: Vec<InstructionId> = instruction.operands.iter().map(|&operand| flat(builder, operand)).collect();
    let count = result.element_count();
    let start = builder.filled(&ArrayShape::new(result.element_type, [count]), ConstantNumber::Integer(0));
    let mapped = counted_loop(builder, count, &operands, &[start], |builder, at| {
        let arguments = elements_at(builder, at.constants, at.index);
        let results = call(builder, function, &arguments);
        let update = |(&array, &result)| with_element(builder, array, at.index, result);
        at.variables.iter().zip(&results).map(update).collect()
    });
    as_declared(builder, instruction, &mapped)
}

/// The reduced dimensions come last; each run of them is folded into one element.
pub(super) fn reduce(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let (inputs, initial) = instruction.operands.split_at(instruction.operands.len() / 2);
    let reduced = instruction.attributes::<ReduceAttributes>().ok()?.dimensions;
    let dimensions = builder.dimensions(*inputs.first()?);
    let (last, first): (Vec<i64>, Vec<i64>) = (0..dimensions.len() as i64).partition(|d| reduced.contains(d));
    let runs: i64 = first.iter().map(|&d| dimensions[d as usize]).product();
    let order = [first, last].concat();
    let inputs: Vec<InstructionId> = inputs
        .iter()
        .map(|&input| {
            let ordered = builder.transpose(input, &order);
            flat(builder, ordered)
        })
        .collect();
    let folded = fold(builder, instruction.computations.first()?, &inputs, initial, runs, None);
    as_declared(builder, instruction, &folded)
}

/// Every window is laid out as a run, in which padding and holes are passed over.
pub(super) fn reduce_window(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let (inputs, initial) = instruction.operands.split_at(instruction.operands.len() / 2);
    let window = instruction.attributes::<ReduceWindowAttributes>().ok()?.window;
    let base = builder.dimensions(*inputs.first()?);
    let outside = &instruction.shape.leaves().first()?.as_array()?.dimensions;
    let inside: Vec<i64> = window.iter().map(|w| w.size).collect();
    // Dimensions: the windows', then those inside of a window.
    let all = [&outside[..], &inside].concat();
    let places = ArrayShape::new(ElementType::S64, all.clone());
    let mut place = builder.filled(&places, ConstantNumber::Integer(0));
    let mut exists = builder.filled(&places.with_element_type(ElementType::Pred), ConstantNumber::Integer(1));
    for (d, w) in window.iter().enumerate() {
        let number = builder.iota(ElementType::S64, &all, d);
        let mut offset = builder.iota(ElementType::S64, &all, base.len() + d);
        if w.reversal {
            let last = builder.filled(&places, ConstantNumber::Integer(w.size - 1));
            offset = builder.binary(OpKind::Subtract, last, offset);
        }
        let start = spread(builder, OpKind::Multiply, number, w.stride);
        let offset = spread(builder, OpKind::Multiply, offset, w.window_dilation);
        let dilated = builder.binary(OpKind::Add, start, offset);
        let dilated = spread(builder, OpKind::Subtract, dilated, w.padding_low);
        let dilation = w.base_dilation.max(1);
        let index = spread(builder, OpKind::Divide, dilated, dilation);
        let hole = spread(builder, OpKind::Remainder, dilated, dilation);
        for (direction, value, bound) in [
            (ComparisonDirection::Ge, dilated, 0),
            (ComparisonDirection::Lt, index, base[d]),
            (ComparisonDirection::Eq, hole, 0),
        ] {
            let bound = builder.filled(&places, ConstantNumber::Integer(bound));
            let holds = builder.compare(direction, value, bound);
            exists = builder.binary(OpKind::And, exists, holds);
        }
        place = spread(builder, OpKind::Multiply, place, base[d]);
        place = builder.binary(OpKind::Add, place, index);
    }
    let runs: i64 = outside.iter().product();
    let is_empty = base.contains(&0) || all.contains(&0);
    let (place, exists) = (flat(builder, place), flat(builder, exists));
    let inputs: Vec<InstructionId> = inputs
        .iter()
        .map(|&input| {
            let input = flat(builder, input);
            if is_empty { input } else { builder.take(input, place) }
        })
        .collect();
    let folded = match is_empty {
        true => initial.iter().map(|&value| builder.broadcast(value, &[runs], &[])).collect(),
        false => fold(builder, instruction.computations.first()?, &inputs, initial, runs, Some(exists)),
    };
    as_declared(builder, instruction, &folded)
}

/// An array and a number, combined element by element.
fn spread(builder: &mut GraphBuilder, kind: OpKind, array: InstructionId, number: i64) -> InstructionId {
    let shape = builder.array(array);
    let number = builder.filled(&shape, ConstantNumber::Integer(number));
    builder.binary(kind, array, number)
}

/// Folds each of `runs` equal parts of flat inputs into one element, from the left; elements that do not exist are
/// passed over.
fn fold(
    builder: &mut GraphBuilder,
    function: &Computation,
    inputs: &[InstructionId],
    initial: &[InstructionId],
    runs: i64,
    exists: Option<InstructionId>,
) -> Vec<InstructionId> {
    let start: Vec<InstructionId> = initial.iter().map(|&value| builder.broadcast(value, &[runs], &[])).collect();
    let count = inputs.first().map_or(0, |&input| builder.array(input).element_count());
    if runs == 0 || count == 0 {
        return start;
    }
    let constants: Vec<InstructionId> = inputs.iter().copied().chain(exists).collect();
    counted_loop(builder, count, &constants, &start, |builder, at| {
        let run = with_number(builder, OpKind::Divide, at.index, count / runs);
        let before = elements_at(builder, at.variables, run);
        let mut arguments = before.clone();
        arguments.extend(elements_at(builder, &at.constants[..inputs.len()], at.index));
        let mut results = call(builder, function, &arguments);
        if exists.is_some() {
            let exists = element_at(builder, at.constants[inputs.len()], at.index);
            for (result, &before) in results.iter_mut().zip(&before) {
                *result = builder.select(exists, *result, before);
            }
        }
        let update = |(&array, &result)| with_element(builder, array, run, result);
        at.variables.iter().zip(&results).map(update).collect()
    })
}

#[cfg(test)]
mod tests {
    use hlo::shape::Shape;

    use super::*;

    #[test]
    fn an_empty_reduction_is_its_initial_value() {
        let mut builder = GraphBuilder::new("test");
        let input = builder.parameter(0, Shape::array(ElementType::F32, [0]));
        let initial = builder.scalar(ElementType::F32, ConstantNumber::Integer(3));
        let function = crate::graph_builder::binary_computation("f", ElementType::F32, OpKind::Add);
        let folded = fold(&mut builder, &function, &[input], &[initial], 1, None);
        assert_eq!(builder.get(folded[0]).kind, OpKind::Broadcast);
    }
}
