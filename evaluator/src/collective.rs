//! Collectives on one replica of one: what the only participant receives from itself.

use super::control::zeros;
use super::data::{build, sizes};
use super::execute::{array_shape, arrays};
use super::strided::{self, Side};
use super::value::EvalValue;
use super::{EvalFailure, Evaluator};
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::collective_permute::CollectivePermuteAttributes;
use hlo::scalar::load;
use hlo::shape::Shape;

impl Evaluator<'_, '_, '_> {
    /// Executes a collective; shapes that need more than one replica are unsupported.
    pub(super) fn collective(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
        result: &Shape,
    ) -> Result<EvalValue, EvalFailure> {
        match instruction.kind {
            OpKind::ReplicaId | OpKind::PartitionId => zeros(result),
            OpKind::RaggedAllToAll => Ok(EvalValue::array(ragged_all_to_all(&arrays(operands)?, result)?)),
            OpKind::CollectivePermute => received(instruction, operands, result),
            OpKind::CollectivePermuteStart => {
                let shape = result.as_tuple().and_then(|elements| elements.get(1));
                let shape = shape.ok_or_else(|| EvalFailure::malformed("the result is not a tuple"))?;
                let data = received(instruction, operands.clone(), shape)?;
                started(operands, data, result)
            }
            OpKind::AllGatherStart => {
                let shape = result.as_tuple().and_then(|elements| elements.get(1));
                let shape = shape.ok_or_else(|| EvalFailure::malformed("the result is not a tuple"))?;
                let data = same(operands.clone(), shape)?;
                started(operands, data, result)
            }
            _ => same(operands, result),
        }
    }
}

/// The operand, or the tuple of operands, itself.
fn same(operands: Vec<EvalValue>, result: &Shape) -> Result<EvalValue, EvalFailure> {
    let value = match (result, <[EvalValue; 1]>::try_from(operands)) {
        (Shape::Tuple(_), Ok([EvalValue::Tuple(elements)])) => EvalValue::Tuple(elements),
        (Shape::Tuple(_), Ok([single])) => EvalValue::Tuple(vec![single]),
        (_, Ok([single])) => single,
        (_, Err(operands)) => EvalValue::Tuple(operands),
    };
    value.with_shape(result).map_err(|_| EvalFailure::Unsupported("a collective among several replicas".into()))
}

/// What replica 0 receives: the operand if it sends to itself, zeros otherwise ("CollectivePermute").
fn received(instruction: &Instruction, operands: Vec<EvalValue>, result: &Shape) -> Result<EvalValue, EvalFailure> {
    let attributes: CollectivePermuteAttributes = instruction.attributes()?;
    let to_itself = attributes.source_target_pairs.iter().any(|pair| pair[..] == [0, 0]);
    if to_itself { same(operands, result) } else { zeros(result) }
}

/// (operands, result, contexts) of an asynchronous start.
fn started(operands: Vec<EvalValue>, data: EvalValue, result: &Shape) -> Result<EvalValue, EvalFailure> {
    let source = match <[EvalValue; 1]>::try_from(operands) {
        Ok([single]) => single,
        Err(operands) => EvalValue::Tuple(operands),
    };
    let mut elements = vec![source, data];
    for context in result.as_tuple().unwrap_or(&[]).iter().skip(2) {
        elements.push(zeros(context)?);
    }
    Ok(EvalValue::Tuple(elements))
}

/// Operands: input, output, and for each participant the offset and size of the rows sent, the offset they are
/// received at and the size received.
fn ragged_all_to_all(operands: &[ArrayLiteral], result: &Shape) -> Result<ArrayLiteral, EvalFailure> {
    let [input, output, input_offsets, send_sizes, output_offsets, _] = operands else {
        return Err(EvalFailure::malformed("a ragged-all-to-all has six operands"));
    };
    let result = array_shape(result)?;
    if input_offsets.shape().element_count() != 1 {
        return Err(EvalFailure::Unsupported("a collective among several replicas".into()));
    }
    let first = |array: &ArrayLiteral| load(array.element_type(), array.bytes(), 0).to_index();
    let (from_sizes, to_sizes) = (sizes(&input.shape().dimensions), sizes(&result.dimensions));
    if from_sizes.len() != to_sizes.len() || from_sizes.is_empty() || from_sizes[1..] != to_sizes[1..] {
        return Err(EvalFailure::malformed("the rows of input and output differ"));
    }
    let (read, count, write) = (first(input_offsets), first(send_sizes), first(output_offsets));
    let inside = |start: i64, size: usize| start >= 0 && count >= 0 && start.saturating_add(count) <= size as i64;
    if !inside(read, from_sizes[0]) || !inside(write, to_sizes[0]) {
        return Err(EvalFailure::malformed("rows outside the input or the output"));
    }
    let (mut from, mut to) = (Side::dense(&from_sizes), Side::dense(&to_sizes));
    from.base = read as isize * from.strides[0];
    to.base = write as isize * to.strides[0];
    let mut moved = from_sizes;
    moved[0] = count as usize;
    build::<u8>(result, |target| {
        target.copy_from_slice(output.bytes());
        strided::copy(result.element_type.byte_width(), &moved, input.bytes(), &from, target, &to);
        Ok(())
    })
}
