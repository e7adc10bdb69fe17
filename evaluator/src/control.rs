//! Control flow, tuples, and what enters and leaves a computation by other ways than arguments and result.

use super::data::build;
use super::execute::nested;
use super::scalar_function::ScalarFunction;
use super::value::EvalValue;
use super::{EvalFailure, Evaluator};
use hlo::graph::{Computation, Instruction};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::send_recv::ChannelAttributes;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::{ArrayShape, Shape};

/// An element of a tuple; the others are dropped, which frees what only they hold.
pub(super) fn element(value: EvalValue, index: usize) -> Result<EvalValue, EvalFailure> {
    match value {
        EvalValue::Tuple(mut elements) if index < elements.len() => Ok(elements.swap_remove(index)),
        EvalValue::Tuple(elements) => {
            Err(EvalFailure::malformed(format!("there is no element {index} in a tuple of {}", elements.len())))
        }
        EvalValue::Array(_) | EvalValue::Token => Err(EvalFailure::malformed("the operand is not a tuple")),
    }
}

/// `get-tuple-element`.
pub(super) fn get_tuple_element(instruction: &Instruction, operand: EvalValue) -> Result<EvalValue, EvalFailure> {
    let GetTupleElementAttributes { index } = instruction.attributes()?;
    let position =
        usize::try_from(index).map_err(|_| EvalFailure::malformed(format!("there is no element {index}")))?;
    element(operand, position)
}

fn scalar_of(value: &EvalValue) -> Result<Scalar, EvalFailure> {
    match value {
        EvalValue::Array(array) if !array.literal.bytes().is_empty() => {
            Ok(load(array.literal.element_type(), array.literal.bytes(), 0))
        }
        _ => Err(EvalFailure::malformed("expected a scalar")),
    }
}

/// `select` between tuples ("Select": tuples count as scalars, so the predicate is one).
pub(super) fn select_tuple(operands: Vec<EvalValue>) -> Result<EvalValue, EvalFailure> {
    match <[EvalValue; 3]>::try_from(operands) {
        Ok([predicate, on_true, on_false]) => Ok(if scalar_of(&predicate)?.is_true() { on_true } else { on_false }),
        Err(_) => Err(EvalFailure::malformed("a select has three operands")),
    }
}

/// Zeros of a shape; NaN in the type that has no zero.
pub(super) fn zeros(shape: &Shape) -> Result<EvalValue, EvalFailure> {
    Ok(match shape {
        Shape::Array(array) => {
            let mut literal = ArrayLiteral::zeros(array.clone())?;
            if !array.element_type.has_zero() {
                let nan = Scalar::zero(array.element_type);
                for index in 0..literal.bytes().len() {
                    store(array.element_type, literal.bytes_mut(), index, nan);
                }
            }
            EvalValue::array(literal)
        }
        Shape::Tuple(elements) => EvalValue::Tuple(elements.iter().map(zeros).collect::<Result<_, _>>()?),
        Shape::Token | Shape::Opaque => EvalValue::Token,
    })
}

/// Shape of element `index` of a tuple shape.
fn element_shape(shape: &Shape, index: usize) -> Result<&Shape, EvalFailure> {
    shape
        .as_tuple()
        .and_then(|elements| elements.get(index))
        .ok_or_else(|| EvalFailure::malformed(format!("the result has no element {index}")))
}

/// A tuple of the given shape that begins with the given values; contexts after them are zeros.
fn with_contexts(values: Vec<EvalValue>, shape: &Shape) -> Result<EvalValue, EvalFailure> {
    let mut elements = values;
    for context in shape.as_tuple().unwrap_or(&[]).iter().skip(elements.len()) {
        elements.push(zeros(context)?);
    }
    Ok(EvalValue::Tuple(elements))
}

/// The channel of a send or receive; those without one share one.
fn channel(instruction: &Instruction) -> Result<Option<i64>, EvalFailure> {
    let ChannelAttributes { channel_id, .. } = instruction.attributes()?;
    Ok(channel_id)
}

/// `copy-start`: (destination, source, context).
pub(super) fn copy_start(instruction: &Instruction, operand: EvalValue) -> Result<EvalValue, EvalFailure> {
    let destination = operand.clone().with_shape(element_shape(&instruction.shape, 0)?)?;
    with_contexts(vec![destination, operand], &instruction.shape)
}

impl Evaluator<'_, '_, '_> {
    /// `while`: the body until the condition fails.
    pub(super) fn while_loop(
        &mut self,
        instruction: &Instruction,
        initial: EvalValue,
    ) -> Result<EvalValue, EvalFailure> {
        let (condition, body) = (nested(instruction, 0)?, nested(instruction, 1)?);
        let mut state = initial.with_shape(&instruction.shape)?;
        while scalar_of(&self.run(condition, vec![state.clone()])?)?.is_true() {
            state = self.run(body, vec![state])?;
        }
        Ok(state)
    }

    /// `conditional`: true and false computation by a `pred`, or branches by an s32 index, the last one also for
    /// indices out of range.
    pub(super) fn conditional(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
    ) -> Result<EvalValue, EvalFailure> {
        let branches = instruction.computations.len();
        let mut operands = operands.into_iter();
        let selector = operands.next().ok_or_else(|| EvalFailure::malformed("the branch index is missing"))?;
        let branch = match scalar_of(&selector)? {
            Scalar::Predicate(predicate) => usize::from(!predicate),
            index => {
                let last = branches.saturating_sub(1);
                usize::try_from(index.to_index()).map_or(last, |index| index.min(last))
            }
        };
        let argument = operands.nth(branch).ok_or_else(|| EvalFailure::malformed("a branch has no operand"))?;
        Ok(self.run(nested(instruction, branch)?, vec![argument])?)
    }

    /// `async-start`: runs the computation at once; (operands, result, contexts).
    pub(super) fn async_start(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
    ) -> Result<EvalValue, EvalFailure> {
        let result = self.run(nested(instruction, 0)?, operands.clone())?;
        with_contexts(vec![EvalValue::Tuple(operands), result], &instruction.shape)
    }

    /// `map`: a function of the operands' elements at each index ("Map").
    pub(super) fn map(
        &mut self,
        computation: &Computation,
        operands: &[&ArrayLiteral],
        result: &ArrayShape,
    ) -> Result<ArrayLiteral, EvalFailure> {
        let mut function = ScalarFunction::new(self.module, computation);
        let (mut arguments, mut values) = (Vec::new(), Vec::new());
        let count = result.element_count() as usize;
        build::<u8>(result, |target| {
            for index in 0..count {
                arguments.clear();
                arguments.extend(operands.iter().map(|array| load(array.element_type(), array.bytes(), index)));
                function.call(self, &arguments, &mut values)?;
                let value = values.first().ok_or_else(|| EvalFailure::malformed("the function has no result"))?;
                store(result.element_type, target, index, *value);
            }
            Ok(())
        })
    }

    /// `infeed`: (data, token). An empty tuple is read without touching the queue.
    pub(super) fn infeed(&mut self, instruction: &Instruction) -> Result<EvalValue, EvalFailure> {
        let shape = element_shape(&instruction.shape, 0)?;
        if matches!(shape, Shape::Tuple(elements) if elements.is_empty()) {
            return Ok(EvalValue::Tuple(vec![EvalValue::Tuple(Vec::new()), EvalValue::Token]));
        }
        let literal =
            self.environment.infeed.pop_front().ok_or_else(|| EvalFailure::Empty("the infeed queue".into()))?;
        Ok(EvalValue::Tuple(vec![EvalValue::from_literal(&literal)?.with_shape(shape)?, EvalValue::Token]))
    }

    /// `outfeed`: queues the operand.
    pub(super) fn outfeed(&mut self, operands: Vec<EvalValue>) -> Result<EvalValue, EvalFailure> {
        let data = operands.into_iter().next().ok_or_else(|| EvalFailure::malformed("an operand is missing"))?;
        self.environment.outfeed.push_back(data.zeroed()?.to_literal());
        Ok(EvalValue::Token)
    }

    /// `send`: (operand, request, token); the data waits in its channel.
    pub(super) fn send(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
    ) -> Result<EvalValue, EvalFailure> {
        let data = operands.into_iter().next().ok_or_else(|| EvalFailure::malformed("an operand is missing"))?;
        match &mut self.environment.device {
            Some(device) => device.send(instruction, data.clone())?,
            None => {
                let queue = self.environment.channels.entry(channel(instruction)?).or_default();
                queue.push_back(data.clone().zeroed()?.to_literal());
            }
        }
        with_contexts(vec![data], &instruction.shape)
    }

    /// `recv`: (buffer, request, token); the data comes with `recv-done`.
    pub(super) fn receive(&mut self, instruction: &Instruction) -> Result<EvalValue, EvalFailure> {
        if let Some(device) = &mut self.environment.device {
            device.start_to_receive(instruction)?;
        }
        zeros(&instruction.shape)
    }

    /// `recv-done`: (data, token).
    pub(super) fn receive_done(&mut self, instruction: &Instruction) -> Result<EvalValue, EvalFailure> {
        if let Some(device) = &mut self.environment.device {
            let shape = element_shape(&instruction.shape, 0)?;
            let data = match device.receive(instruction)? {
                Some(value) => value.with_shape(shape)?,
                None => zeros(shape)?,
            };
            return Ok(EvalValue::Tuple(vec![data, EvalValue::Token]));
        }
        let channel = channel(instruction)?;
        let queue = self.environment.channels.entry(channel).or_default();
        let data: Literal = queue.pop_front().ok_or_else(|| {
            EvalFailure::Empty(
                channel.map_or("the channel without a number".into(), |channel| format!("channel {channel}")),
            )
        })?;
        let data = EvalValue::from_literal(&data)?.with_shape(element_shape(&instruction.shape, 0)?)?;
        Ok(EvalValue::Tuple(vec![data, EvalValue::Token]))
    }
}
