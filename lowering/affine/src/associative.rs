//! What scans combine where it is associative, so that parts of it may be combined first: one operation, one for each of several
//! operands, or a pair as a whole: choices of an element, affine maps one after the other, sums that begin anew where a flag says.

use std::collections::HashMap;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::{ComparisonDirection, ComparisonType};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::scalar::RegisterValue;
use crate::scalar::combiner::{self, Combiner, is_associative};
use crate::selection::is_choice;

/// A way to combine the elements of several operands.
pub(crate) enum Combination<'s> {
    /// Of one operand, by one operation, in any order.
    Operation(Combiner),
    /// By a computation, on whose left is what comes first.
    Computation(&'s Computation),
}

impl<'s> Combination<'s> {
    /// That of a scan, which may begin at the end, if it is known to be associative.
    pub fn of(instruction: &'s Instruction, is_reversed: bool) -> Option<Self> {
        let [computation] = &instruction.computations[..] else { return None };
        if instruction.operands.len() == 2 {
            return combiner::recognise(computation).map(Combination::Operation);
        }
        // From the end a row's elements come last to first, and what it begins with stays on the left: only what may be exchanged
        // can be combined in parts then.
        let is_known = is_separate(computation)
            || !is_reversed
                && (is_ordered_choice(computation) || is_affine_map(computation) || is_segmented(computation));
        is_known.then_some(Combination::Computation(computation))
    }

    /// Whether left and right may be exchanged.
    pub fn commutes(&self) -> bool {
        matches!(self, Combination::Operation(_))
    }

    /// Elements, or what was combined of them, as they are combined.
    pub fn widen<'c>(&self, emitter: &Elemental<'_, 'c>, mut values: Vec<RegisterValue<'c>>) -> Vec<RegisterValue<'c>> {
        if let Combination::Operation(combiner) = self {
            values.iter_mut().for_each(|value| *value = combiner.widen(emitter.builder, value));
        }
        values
    }

    /// What was combined, as elements.
    pub fn finish<'c>(
        &self,
        emitter: &Elemental<'_, 'c>,
        mut values: Vec<RegisterValue<'c>>,
    ) -> Vec<RegisterValue<'c>> {
        if let Combination::Operation(combiner) = self {
            values.iter_mut().for_each(|value| *value = combiner.finish(emitter.builder, value));
        }
        values
    }

    /// What was combined first, with what comes next.
    pub fn combine<'c>(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        first: &[RegisterValue<'c>],
        next: &[RegisterValue<'c>],
    ) -> Result<Vec<RegisterValue<'c>>, LoweringError> {
        match self {
            Combination::Operation(combiner) => {
                let pairs = first.iter().zip(next);
                Ok(pairs.map(|(first, next)| combiner.combine(emitter.builder, first, next)).collect())
            }
            Combination::Computation(computation) => emitter.scalar_computation(computation, &[first, next].concat()),
        }
    }
}

/// The results of a computation of two tuples of so many elements each, whose types are those of the elements.
fn results_of(computation: &Computation) -> Option<(&[InstructionId], &[InstructionId], &[InstructionId])> {
    let root = computation.root();
    let count = root.operands.len();
    let fits = root.kind == OpKind::Tuple && computation.parameters.len() == 2 * count;
    let (left, right) = computation.parameters.split_at_checked(count)?;
    let is_alike =
        |(own, other): (&InstructionId, &InstructionId)| computation.get(*own).shape == computation.get(*other).shape;
    (fits && root.operands.iter().zip(left).all(is_alike)).then_some((&root.operands, left, right))
}

/// Whether an instruction is an operation of two others, in any order.
fn is_of(computation: &Computation, id: InstructionId, kind: OpKind, [one, other]: [InstructionId; 2]) -> bool {
    let instruction = computation.get(id);
    let operands = &instruction.operands[..];
    instruction.kind == kind && (operands == [one, other] || operands == [other, one])
}

/// Whether one of two pairs is chosen by a comparison of their first members that is an order: one of floats is none where there are
/// NaN.
fn is_ordered_choice(computation: &Computation) -> bool {
    use ComparisonDirection::{Ge, Gt, Le, Lt};
    let (true, [a, i, b, j]) = (is_choice(computation), &computation.parameters[..]) else { return false };
    let [first, second] = computation.root().operands[..] else { return false };
    let [first, second] = [first, second].map(|result| &computation.get(result).operands[..]);
    let ([condition, value, _], [same, other, _]) = (first, second) else { return false };
    let comparison = computation.get(*condition);
    let element_type = computation.get(*a).shape.as_array().map(|shape| shape.element_type);
    let is_order = |attributes: CompareAttributes| {
        matches!(attributes.direction, Ge | Gt | Le | Lt)
            && element_type.is_some_and(|own| attributes.order(own) != ComparisonType::Float)
    };
    condition == same
        && ([value, other] == [a, i] || [value, other] == [b, j])
        && is_of(computation, *condition, OpKind::Compare, [*a, *b])
        && comparison.attributes().is_ok_and(is_order)
}

/// Whether each result is one operation of the elements in its place.
fn is_separate(computation: &Computation) -> bool {
    let Some((results, left, right)) = results_of(computation) else { return false };
    results.iter().zip(left.iter().zip(right)).all(|(&result, (&left, &right))| {
        let kind = computation.get(result).kind;
        let element_type = computation.get(result).shape.as_array().map(|shape| shape.element_type);
        is_of(computation, result, kind, [left, right]) && element_type.is_some_and(|own| is_associative(kind, own))
    })
}

/// Whether it is the map `x => factor * x + term` of one pair behind that of the other one.
fn is_affine_map(computation: &Computation) -> bool {
    let Some((&[factor, term], &[left_factor, left_term], &[right_factor, right_term])) = results_of(computation)
    else {
        return false;
    };
    let sum = computation.get(term);
    let is_sum_of = |factor: InstructionId, inner: InstructionId, outer: InstructionId| {
        let is_product = |id: InstructionId| is_of(computation, id, OpKind::Multiply, [factor, inner]);
        let [one, other] = sum.operands[..] else { return false };
        sum.kind == OpKind::Add && (is_product(one) && other == outer || is_product(other) && one == outer)
    };
    is_of(computation, factor, OpKind::Multiply, [left_factor, right_factor])
        && (is_sum_of(right_factor, left_term, right_term) || is_sum_of(left_factor, right_term, left_term))
}

/// Whether it is one operation, of which only what is behind the last flag counts: `(f | g, g ? y : x op y)`.
fn is_segmented(computation: &Computation) -> bool {
    let Some((&[flag, value], &[left_flag, left], &[right_flag, right])) = results_of(computation) else {
        return false;
    };
    let chosen = computation.get(value);
    let [begins, anew, combined] = chosen.operands[..] else { return false };
    let kind = computation.get(combined).kind;
    let element_type = computation.get(value).shape.as_array().map(|shape| shape.element_type);
    chosen.kind == OpKind::Select
        && (begins, anew) == (right_flag, right)
        && is_of(computation, flag, OpKind::Or, [left_flag, right_flag])
        && is_of(computation, combined, kind, [left, right])
        && element_type.is_some_and(|own| is_associative(kind, own))
}

/// Whether elements may be combined in any order, one after the other: each accumulator is only changed, by one operation that allows
/// it, with what the elements alone give (`sum + x * x`). Accumulators are on the computation's left.
pub(crate) fn takes_any_order(computation: &Computation) -> bool {
    let root = computation.root();
    let results = match root.kind {
        OpKind::Tuple => root.operands.clone(),
        _ => vec![computation.root],
    };
    let Some((accumulators, _)) = computation.parameters.split_at_checked(results.len()) else { return false };
    let mut is_of_elements = HashMap::new();
    for (id, instruction) in computation.iter() {
        let of_elements = |operand: &InstructionId| is_of_elements.get(operand) == Some(&true);
        let is_own = !accumulators.contains(&id) && instruction.operands.iter().all(of_elements);
        is_of_elements.insert(id, is_own);
    }
    results.iter().zip(accumulators).all(|(&result, &accumulator)| {
        let instruction = computation.get(result);
        let element_type = instruction.shape.as_array().map(|shape| shape.element_type);
        let commutes = element_type.is_some_and(|own| is_associative(instruction.kind, own));
        let changes =
            |own: InstructionId, by: InstructionId| own == accumulator && is_of_elements.get(&by) == Some(&true);
        match instruction.operands[..] {
            [one, other] if commutes => changes(one, other) || changes(other, one),
            [one, other] => instruction.kind == OpKind::Subtract && changes(one, other),
            _ => false,
        }
    })
}
