//! Collectives: what each member of a group makes of the operands of all; on one device, what the only participant receives
//! from itself.

use super::control::zeros;
use super::data::{build, sizes};
use super::execute::{array_shape, array_shapes, arrays, nested};
use super::movement;
use super::strided::{self, Side};
use super::value::EvalValue;
use super::{EvalFailure, Evaluator};
use hlo::attributes::SliceDimension;
use hlo::graph::Instruction;
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::all_gather::AllGatherAttributes;
use hlo::ops::all_to_all::AllToAllAttributes;
use hlo::ops::collective_permute::CollectivePermuteAttributes;
use hlo::ops::reduce_scatter::ReduceScatterAttributes;
use hlo::scalar::load;
use hlo::shape::{ArrayShape, Shape};

impl Evaluator<'_, '_, '_> {
    /// Executes a collective.
    pub(super) fn collective(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
        result: &Shape,
    ) -> Result<EvalValue, EvalFailure> {
        if self.environment.device.is_some() {
            return self.collective_of_several(instruction, operands, result);
        }
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

    /// Executes a collective on one of several devices.
    fn collective_of_several(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
        result: &Shape,
    ) -> Result<EvalValue, EvalFailure> {
        if operands.iter().any(EvalValue::is_dynamic) {
            return Err(EvalFailure::Unsupported("run-time sizes among several devices".into()));
        }
        let is_start = matches!(instruction.kind, OpKind::AllGatherStart | OpKind::CollectivePermuteStart);
        let data_shape = if is_start { result.as_tuple().and_then(|elements| elements.get(1)) } else { Some(result) };
        let data_shape = data_shape.ok_or_else(|| EvalFailure::malformed("the result is not a tuple"))?;
        let own = if is_start { operands.clone() } else { Vec::new() };
        let Some(device) = &mut self.environment.device else {
            return Err(EvalFailure::Unsupported("a collective among several devices".into()));
        };
        let data = match instruction.kind {
            OpKind::ReplicaId | OpKind::PartitionId => {
                EvalValue::array(ArrayLiteral::from_slice([], &[device.id(instruction.kind)])?)
            }
            OpKind::CollectivePermute | OpKind::CollectivePermuteStart => {
                match device.permuted(instruction, operands)? {
                    Some(received) => same(received, data_shape)?,
                    None => zeros(data_shape)?,
                }
            }
            _ => match device.meet(instruction, operands)? {
                None => zeros(data_shape)?,
                Some((place, all)) => {
                    let all = all.into_iter().map(arrays).collect::<Result<Vec<_>, _>>()?;
                    let shapes = array_shapes(data_shape)?;
                    let results = self.combined(instruction, place, &all, &shapes)?;
                    same(results.into_iter().map(EvalValue::array).collect(), data_shape)?
                }
            },
        };
        if is_start { started(own, data, result) } else { Ok(data) }
    }

    /// The results of one member from the operands of all: `all[member][operand]`.
    fn combined(
        &mut self,
        instruction: &Instruction,
        place: usize,
        all: &[Vec<ArrayLiteral>],
        shapes: &[&ArrayShape],
    ) -> Result<Vec<ArrayLiteral>, EvalFailure> {
        let column = |operand: usize| -> Result<Vec<&ArrayLiteral>, EvalFailure> {
            let of_all = all.iter().map(|operands| operands.get(operand)).collect::<Option<_>>();
            of_all.ok_or_else(|| EvalFailure::malformed("an operand is missing"))
        };
        let each = shapes.iter().copied().enumerate();
        match instruction.kind {
            OpKind::AllReduce | OpKind::AllReduceStart => {
                each.map(|(operand, shape)| self.reduced(instruction, &column(operand)?, shape)).collect()
            }
            OpKind::ReduceScatter => {
                let ReduceScatterAttributes { dimensions, .. } = instruction.attributes()?;
                each.map(|(operand, shape)| {
                    let operands = column(operand)?;
                    let whole = operands.first().map(|operand| operand.shape().clone());
                    let whole = whole.ok_or_else(|| EvalFailure::malformed("a group without members"))?;
                    part(&self.reduced(instruction, &operands, &whole)?, dimensions.index(), place, shape)
                })
                .collect()
            }
            OpKind::AllGather | OpKind::AllGatherStart => {
                let AllGatherAttributes { dimensions, .. } = instruction.attributes()?;
                each.map(|(operand, shape)| movement::concatenate(&column(operand)?, dimensions.0, shape)).collect()
            }
            OpKind::AllToAll => {
                let AllToAllAttributes { dimensions, .. } = instruction.attributes()?;
                let Some(dimension) = dimensions else {
                    // Operand `place` of each member is for this one.
                    return column(place).map(|operands| operands.into_iter().cloned().collect());
                };
                each.map(|(operand, shape)| {
                    let mut block = shape.clone();
                    let size = block.dimensions.get_mut(dimension.index());
                    *size.ok_or_else(|| EvalFailure::malformed("a missing dimension"))? /= all.len() as i64;
                    let parts = column(operand)?
                        .into_iter()
                        .map(|operand| part(operand, dimension.index(), place, &block))
                        .collect::<Result<Vec<_>, _>>()?;
                    movement::concatenate(&parts.iter().collect::<Vec<_>>(), dimension.0, shape)
                })
                .collect()
            }
            OpKind::CollectiveBroadcast => each.map(|(operand, _)| Ok(column(operand)?[0].clone())).collect(),
            OpKind::RaggedAllToAll => {
                let output = column(1)?[place].clone();
                let received =
                    all.iter().try_fold(output, |output, sender| received_rows(sender, place, all.len(), output));
                Ok(vec![received?])
            }
            other => Err(EvalFailure::malformed(format!("{other} is no collective"))),
        }
    }

    /// Arrays combined element by element, in order.
    fn reduced(
        &mut self,
        instruction: &Instruction,
        operands: &[&ArrayLiteral],
        shape: &ArrayShape,
    ) -> Result<ArrayLiteral, EvalFailure> {
        let (first, rest) = operands.split_first().ok_or_else(|| EvalFailure::malformed("a group without members"))?;
        let computation = nested(instruction, 0)?;
        let first = movement::reshape(first, shape)?;
        rest.iter().try_fold(first, |sum, next| self.map(computation, &[&sum, &movement::reshape(next, shape)?], shape))
    }
}

/// Part `number` of an array along a dimension, of the given shape.
fn part(
    operand: &ArrayLiteral,
    dimension: usize,
    number: usize,
    shape: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let mut slices: Vec<SliceDimension> =
        shape.dimensions.iter().map(|&size| SliceDimension { start: 0, limit: size, stride: 1 }).collect();
    if let (Some(slice), Some(size)) = (slices.get_mut(dimension), shape.dimensions.get(dimension)) {
        slice.start = number as i64 * size;
        slice.limit = slice.start + size;
    }
    movement::slice(operand, &slices, shape)
}

/// An output with the rows that one sender has for member `place` of so many.
fn received_rows(
    sender: &[ArrayLiteral],
    place: usize,
    members: usize,
    mut output: ArrayLiteral,
) -> Result<ArrayLiteral, EvalFailure> {
    let [input, _, input_offsets, send_sizes, output_offsets, _] = sender else {
        return Err(EvalFailure::malformed("a ragged-all-to-all has six operands"));
    };
    let each = input_offsets.shape().element_count() as usize / members;
    for number in place * each..(place + 1) * each {
        let [read, count, write] = [input_offsets, send_sizes, output_offsets]
            .map(|array| load(array.element_type(), array.bytes(), number).to_index());
        output = move_rows(input, output, read, count, write)?;
    }
    Ok(output)
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
    let moved = move_rows(input, output.clone(), first(input_offsets), first(send_sizes), first(output_offsets))?;
    Ok(moved.with_shape(result.clone())?)
}

/// The output with `count` rows of the input, from row `read`, in the place of its own from row `write`.
fn move_rows(
    input: &ArrayLiteral,
    output: ArrayLiteral,
    read: i64,
    count: i64,
    write: i64,
) -> Result<ArrayLiteral, EvalFailure> {
    let result = output.shape();
    let (from_sizes, to_sizes) = (sizes(&input.shape().dimensions), sizes(&result.dimensions));
    if from_sizes.len() != to_sizes.len() || from_sizes.is_empty() || from_sizes[1..] != to_sizes[1..] {
        return Err(EvalFailure::malformed("the rows of input and output differ"));
    }
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
