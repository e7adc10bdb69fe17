//! How often a loop runs, where the program says so: a counter that starts at a constant, grows by one, and is compared with one.
//!
//! Nothing then has to be computed, or waited for, to know whether there is another iteration. Values are followed through
//! tuples and fusions.

use std::rc::Rc;

use hlo::element_type::ElementClass;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::{Lowering, definition};
use hlo::scalar::{Scalar, load};
use hlo::shape::ArrayShape;

/// Instructions that a value is followed through, at most.
const MOST_STEPS: usize = 64;

/// The number of iterations of a `while` of a computation, if it is known.
pub(crate) fn trip_count(computation: &Computation, instruction: &Instruction) -> Option<u64> {
    let [condition, body] = &instruction.computations[..] else { return None };
    if !condition.instructions.iter().all(has_no_effect) {
        return None;
    }
    let initial = |state: usize| Place::of(computation, instruction.operands[0], Some(state)).integer();
    let next = |state: usize| Place::of(body, body.root, Some(state)).sum(MOST_STEPS);
    let test = Place::of(condition, condition.root, None).resolved()?;
    let compare = test.instruction();
    if compare.kind != OpKind::Compare {
        return None;
    }
    let [left, right] = [0, 1].map(|number| test.operand(number).sum(MOST_STEPS));
    let (left, right) = (left?, right?);
    let step_of = |sum: Sum| match sum.state {
        None => Some(0),
        Some(state) => next(state).filter(|next| next.state == Some(state)).map(|next| next.offset),
    };
    let start_of = |sum: Sum| sum.state.map_or(Some(0), initial)?.checked_add(sum.offset);
    let direction = compare.attributes::<CompareAttributes>().ok()?.direction;
    let (counter, limit, direction) = match (step_of(left)?, step_of(right)?) {
        (_, 0) => (left, right, direction),
        (0, _) => (right, left, mirrored(direction)),
        _ => return None,
    };
    let (start, limit, step) = (start_of(counter)?, start_of(limit)?, step_of(counter)?);
    let count = iterations(start, step, limit, direction)?;
    // The counter never leaves its type.
    let shape = test.operand(0).shape()?;
    let end = start.checked_add(step.checked_mul(i128::from(count))?)?;
    let ends = [start, end, start - counter.offset, end - counter.offset, limit];
    ends.iter().all(|&end| holds(shape, end)).then_some(count)
}

/// Whether leaving out an instruction changes nothing but its value.
pub(crate) fn has_no_effect(instruction: &Instruction) -> bool {
    matches!(definition(instruction.kind).lowering, Lowering::None | Lowering::Kernel)
}

/// The first number of a sequence with which the comparison does not hold.
fn iterations(start: i128, step: i128, limit: i128, direction: ComparisonDirection) -> Option<u64> {
    let (distance, step) = match direction {
        ComparisonDirection::Lt => (limit - start, step),
        ComparisonDirection::Le => (limit - start + 1, step),
        ComparisonDirection::Gt => (start - limit, -step),
        ComparisonDirection::Ge => (start - limit + 1, -step),
        ComparisonDirection::Ne if step != 0 && (limit - start) % step == 0 => {
            return u64::try_from((limit - start) / step).ok();
        }
        ComparisonDirection::Eq | ComparisonDirection::Ne => return None,
    };
    match step {
        _ if distance <= 0 => Some(0),
        1.. => u64::try_from((distance + step - 1) / step).ok(),
        _ => None,
    }
}

/// The comparison of the operands in the other order.
fn mirrored(direction: ComparisonDirection) -> ComparisonDirection {
    match direction {
        ComparisonDirection::Lt => ComparisonDirection::Gt,
        ComparisonDirection::Le => ComparisonDirection::Ge,
        ComparisonDirection::Gt => ComparisonDirection::Lt,
        ComparisonDirection::Ge => ComparisonDirection::Le,
        ComparisonDirection::Eq | ComparisonDirection::Ne => direction,
    }
}

/// Whether a number is one of a type.
fn holds(shape: &ArrayShape, number: i128) -> bool {
    let width = shape.element_type.bit_width();
    match shape.element_type.class() {
        ElementClass::Signed => (-(1 << (width - 1))..1 << (width - 1)).contains(&number),
        ElementClass::Unsigned => (0..1 << width).contains(&number),
        ElementClass::Predicate | ElementClass::Float | ElementClass::Complex => false,
    }
}

/// A constant more than an element of the loop's state, or a constant.
#[derive(Clone, Copy)]
struct Sum {
    state: Option<usize>,
    offset: i128,
}

/// A computation, and the fusion in another one whose it is.
struct Frame<'f> {
    computation: &'f Computation,
    fusion: Option<(Rc<Frame<'f>>, &'f Instruction)>,
}

/// An instruction, or one of its results.
#[derive(Clone)]
struct Place<'f> {
    frame: Rc<Frame<'f>>,
    id: InstructionId,
    result: Option<usize>,
}

impl<'f> Place<'f> {
    fn of(computation: &'f Computation, id: InstructionId, result: Option<usize>) -> Self {
        Place { frame: Rc::new(Frame { computation, fusion: None }), id, result }
    }

    fn instruction(&self) -> &'f Instruction {
        self.frame.computation.get(self.id)
    }

    fn operand(&self, number: usize) -> Self {
        Place { id: self.instruction().operands[number], result: None, ..self.clone() }
    }

    fn shape(&self) -> Option<&'f ArrayShape> {
        self.instruction().shape.as_array()
    }

    /// What computes the value.
    fn resolved(mut self) -> Option<Self> {
        for _ in 0..MOST_STEPS {
            let instruction = self.instruction();
            self = match (instruction.kind, self.result) {
                (OpKind::GetTupleElement, None) => {
                    let GetTupleElementAttributes { index } = instruction.attributes().ok()?;
                    Place { result: Some(usize::try_from(index).ok()?), ..self.operand(0) }
                }
                (OpKind::Tuple, Some(result)) => self.operand(result),
                (OpKind::Copy | OpKind::Reshape, None) => self.operand(0),
                (OpKind::Fusion, result) => {
                    let computation = instruction.computations.first()?;
                    let frame = Frame { computation, fusion: Some((Rc::clone(&self.frame), instruction)) };
                    Place { frame: Rc::new(frame), id: computation.root, result }
                }
                (OpKind::Parameter, result) if let Some((frame, fusion)) = &self.frame.fusion => {
                    let id = *fusion.operands.get(instruction.parameter_number()?)?;
                    Place { frame: Rc::clone(frame), id, result }
                }
                _ => return Some(self),
            };
        }
        None
    }

    /// The number that a constant is.
    fn integer(self) -> Option<i128> {
        let sum = self.sum(1)?;
        sum.state.is_none().then_some(sum.offset)
    }

    /// The value as a sum, found in so many steps.
    fn sum(self, steps: usize) -> Option<Sum> {
        let found = self.resolved()?;
        let (instruction, steps) = (found.instruction(), steps.checked_sub(1)?);
        match instruction.kind {
            OpKind::Parameter => found.result.map(|result| Sum { state: Some(result), offset: 0 }),
            OpKind::Constant => {
                let Literal::Array(array) = instruction.literal()? else { return None };
                if array.shape().element_count() != 1 {
                    return None;
                }
                let offset = match load(array.element_type(), array.bytes(), 0) {
                    Scalar::Signed(value) => value.into(),
                    Scalar::Unsigned(value) => value.into(),
                    Scalar::Predicate(_) | Scalar::Float(_) | Scalar::Complex(_) => return None,
                };
                Some(Sum { state: None, offset })
            }
            OpKind::Add | OpKind::Subtract => {
                let (left, right) = (found.operand(0).sum(steps / 2)?, found.operand(1).sum(steps / 2)?);
                let is_sum = instruction.kind == OpKind::Add;
                let offset = if is_sum { left.offset + right.offset } else { left.offset - right.offset };
                match (left.state, right.state) {
                    (state, None) => Some(Sum { state, offset }),
                    (None, state) if is_sum => Some(Sum { state, offset }),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
