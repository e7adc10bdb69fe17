//! Collectives in groups of one: each device receives what it sends itself. Those of several are in `exchanges`.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::collective_permute::CollectivePermuteAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::gather::GatherAttributes;
use hlo::shape::Shape;

use super::asynchronous::with_contexts;
use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// The operands bare or as a tuple, as the shape says; `None` where its sizes show several replicas.
fn as_shape(builder: &mut GraphBuilder, operands: &[InstructionId], shape: &Shape) -> Option<InstructionId> {
    let value = match (operands, shape) {
        (&[single], Shape::Tuple(_)) if builder.shape(single).as_tuple().is_none() => builder.tuple(&[single]),
        (&[single], _) => single,
        (several, _) => builder.tuple(several),
    };
    builder.shape(value).compatible(shape).then_some(value)
}

/// The operands themselves.
pub(super) fn same(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    as_shape(builder, operands, &instruction.shape)
}

/// `replica-id`, `partition-id`.
pub(super) fn number(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    _: &[InstructionId],
) -> Option<InstructionId> {
    Some(builder.zeros(&instruction.shape))
}

/// (operands, results, contexts…) of a start whose result is given.
pub(super) fn started(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    result: InstructionId,
) -> Option<InstructionId> {
    let sent = as_shape(builder, operands, instruction.shape.as_tuple()?.first()?)?;
    with_contexts(builder, instruction, &[sent, result])
}

/// `all-gather-start`.
pub(super) fn gather_start(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let result = as_shape(builder, operands, instruction.shape.as_tuple()?.get(1)?)?;
    started(builder, instruction, operands, result)
}

/// The operands if replica 0 sends to itself, zeros otherwise.
fn received(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    shape: &Shape,
) -> Option<InstructionId> {
    let attributes: CollectivePermuteAttributes = instruction.attributes().ok()?;
    let to_itself = attributes.source_target_pairs.iter().any(|pair| pair[..] == [0, 0]);
    if to_itself { as_shape(builder, operands, shape) } else { Some(builder.zeros(shape)) }
}

/// `collective-permute`.
pub(super) fn permute(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    received(builder, instruction, operands, &instruction.shape)
}

/// `collective-permute-start`.
pub(super) fn permute_start(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let result = received(builder, instruction, operands, instruction.shape.as_tuple()?.get(1)?)?;
    started(builder, instruction, operands, result)
}

/// `ragged-all-to-all` of (input, output, input offsets, send sizes, output offsets, received sizes): rows of the
/// input in the place of rows of the output.
pub(super) fn ragged_all_to_all(
    builder: &mut GraphBuilder,
    _: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let &[input, output, input_offsets, send_sizes, output_offsets, _] = operands else { return None };
    if builder.array(input_offsets).element_count() != 1 {
        return None;
    }
    let shape = builder.array(output);
    let input_rows = *builder.dimensions(input).first()?;
    let rows = *shape.dimensions.first()?;
    let [read, count, written] = [input_offsets, send_sizes, output_offsets].map(|operand| {
        let scalar = builder.reshape(operand, &[]);
        builder.convert(scalar, ElementType::S64)
    });
    for (first, size) in [(read, input_rows), (written, rows)] {
        require_inside(builder, first, count, size);
    }
    if input_rows == 0 {
        return Some(output);
    }
    let [first_read, count, first_written] = [read, count, written].map(|it| builder.broadcast(it, &[rows], &[]));
    let row = builder.iota(ElementType::S64, &[rows], 0);
    let number = builder.binary(OpKind::Subtract, row, first_written);
    let zero = builder.filled(&builder.array(number), ConstantNumber::Integer(0));
    let is_after = builder.compare(ComparisonDirection::Ge, number, zero);
    let is_before = builder.compare(ComparisonDirection::Lt, number, count);
    let is_sent = builder.binary(OpKind::And, is_after, is_before);
    let read = builder.binary(OpKind::Add, number, first_read);
    let indices = builder.reshape(read, &[rows, 1]);
    let rank = shape.rank() as i64;
    let mut slice_sizes = shape.dimensions.clone();
    slice_sizes[0] = 1;
    let offset_dims: Vec<i64> = (1..rank).collect();
    let attributes = GatherAttributes::new(&offset_dims, &[0], &[0], 1, &slice_sizes);
    let sent = builder.add(OpKind::Gather, shape.clone(), &[input, indices], attributes);
    let is_sent = builder.broadcast(is_sent, &shape.dimensions, &[0]);
    Some(builder.select(is_sent, sent, output))
}

/// Makes the program fail unless `count` rows from `first` on are inside an array of so many.
fn require_inside(builder: &mut GraphBuilder, first: InstructionId, count: InstructionId, size: i64) {
    let [zero, size] = [0, size].map(|number| builder.scalar(ElementType::S64, ConstantNumber::Integer(number)));
    let room = builder.binary(OpKind::Subtract, size, first);
    for (larger, smaller) in [(first, zero), (count, zero), (room, count)] {
        let holds = builder.compare(ComparisonDirection::Ge, larger, smaller);
        builder.require(holds, "rows outside the input or the output of a ragged-all-to-all");
    }
}
