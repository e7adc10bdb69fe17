//! What reductions and scans combine where it is associative, so that parts of it may be combined first: one operation, or any
//! computation of one or several operands, such as affine maps one after the other, or sums that begin anew where a flag says.

use std::collections::HashMap;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use passes::regrouping::{self, Initial, Regrouping};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::scalar::RegisterValue;
use crate::scalar::combiner::{self, Combiner, is_associative};

/// A way to combine the elements of several operands.
pub(crate) enum Combination<'s> {
    /// Of one operand, by one operation, in any order.
    Operation(Combiner),
    /// By a computation.
    Computation {
        /// On its left is what comes first, or last.
        computation: &'s Computation,
        /// Whether left and right may be exchanged.
        commutes: bool,
        /// Whether what comes first is on its right.
        is_swapped: bool,
    },
}

impl<'s> Combination<'s> {
    /// That of a scan, which may begin at the end, if it is known to be associative.
    pub fn of_scan(computation: &'s Computation, scan: &'s Instruction, is_reversed: bool) -> Option<Self> {
        let [combination] = &scan.computations[..] else { return None };
        if scan.operands.len() == 2
            && let Some(combiner) = combiner::recognise(combination)
        {
            return Some(Combination::Operation(combiner));
        }
        let Regrouping { commutes, initial } = regrouping_of(computation, scan)?;
        // From the end a row's elements come last to first, and what it begins with is on the left of them all.
        let is_swapped = is_reversed && !commutes;
        (!is_swapped || initial == Initial::Identity).then_some(Combination::Computation {
            computation: combination,
            commutes,
            is_swapped,
        })
    }

    /// That of a reduction by a computation, of which every part may begin with the values that all begin with, in any order.
    pub fn of_reduction(computation: &Computation, reduce: &'s Instruction) -> Option<Self> {
        let Regrouping { commutes, initial } = regrouping_of(computation, reduce)?;
        let combination = reduce.computations.first()?;
        let any_order = Combination::Computation { computation: combination, commutes, is_swapped: false };
        (commutes && initial >= Initial::BeforeParts).then_some(any_order)
    }

    /// Whether left and right may be exchanged.
    pub fn commutes(&self) -> bool {
        match self {
            Combination::Operation(_) => true,
            Combination::Computation { commutes, .. } => *commutes,
        }
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
            Combination::Computation { computation, is_swapped, .. } => {
                let operands = if *is_swapped { [next, first] } else { [first, next] };
                emitter.scalar_computation(computation, &operands.concat())
            }
        }
    }
}

/// How a reduction or a scan may be regrouped, by what its computation does with numbers.
fn regrouping_of(computation: &Computation, instruction: &Instruction) -> Option<Regrouping> {
    let [combination] = &instruction.computations[..] else { return None };
    let initial = &instruction.operands[instruction.operands.len() / 2..];
    let initial = regrouping::constants(initial, |id| computation.get(id));
    Regrouping::of(combination, initial.as_deref())
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
