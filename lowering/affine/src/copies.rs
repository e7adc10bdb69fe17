//! Copies that the order of kernels needs: results to their places, the state of loops, what is updated in place.

use std::borrow::Cow;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use passes::assign_buffers::{Buffer, BufferAssignment, ComputationBuffers, Slice, exchanged_slice};
use passes::fuse::is_update;

use crate::error::LoweringError;
use crate::mapping::scatter_inputs;

/// The leaves of a value: where they are, and where they are copied to unless they are there.
pub(crate) type Copies = [Vec<Slice>; 2];

/// Bring results that are parameters, constants or used twice to their places, in order.
pub(crate) fn result_copies(entry: &Computation, assignment: &BufferAssignment) -> [Copies; 3] {
    let results = assignment.entry.values[entry.root.index()].clone();
    // First those that may be read from an argument that another takes the place of.
    let is_own = |place: &Slice| matches!(place.buffer, Buffer::Output(_));
    let own: Vec<Slice> =
        assignment.places.iter().zip(&results).map(|(&place, &it)| if is_own(&place) { place } else { it }).collect();
    let mut kept = own.clone();
    for (&number, &slice) in &assignment.exchange {
        kept[number] = slice;
    }
    [[results, own.clone()], [own, kept.clone()], [kept, assignment.places.clone()]]
}

/// What an instruction updates in place is brought there first, unless it could take that over: operands and their copies.
pub(crate) fn base_copies(
    computation: &Computation,
    buffers: &ComputationBuffers,
    id: InstructionId,
) -> Vec<(InstructionId, Copies)> {
    let instruction = computation.get(id);
    let outputs = &buffers.values[id.index()];
    let value = |operand: InstructionId| buffers.values[operand.index()].clone();
    match (instruction.kind, &instruction.computations[..]) {
        (OpKind::Scatter, _) => {
            let updated = instruction.operands.iter().zip(outputs).take(scatter_inputs(instruction));
            updated.map(|(&operand, &output)| (operand, [value(operand), vec![output]])).collect()
        }
        (OpKind::Fusion, [body]) if is_update(body) => {
            let base = body.get(body.root().operands[0]).parameter_number().map(|number| instruction.operands[number]);
            base.into_iter().map(|operand| (operand, [value(operand), outputs.clone()])).collect()
        }
        _ => Vec::new(),
    }
}

/// Where the state of a `while` is from one iteration to the next.
pub(crate) struct WhileMemory<'b> {
    /// The state before the first iteration.
    pub enter: Copies,
    /// The kinds of iterations, which take turns: two where leaves are in two places in turns.
    pub rounds: Vec<Round<'b>>,
}

/// An iteration of a `while`.
pub(crate) struct Round<'b> {
    /// Buffers of the condition.
    pub condition: Cow<'b, ComputationBuffers>,
    /// Buffers of the body.
    pub body: Cow<'b, ComputationBuffers>,
    /// Copies behind the body, in order.
    pub copies: [Copies; 2],
    /// Copies when the condition does not hold.
    pub leave: Option<Copies>,
}

impl<'b> WhileMemory<'b> {
    /// The memory of a `while`.
    ///
    /// # Errors
    /// [`LoweringError::Bug`] if its buffers are not assigned.
    pub fn new(
        instruction: &Instruction,
        id: InstructionId,
        buffers: &'b ComputationBuffers,
    ) -> Result<Self, LoweringError> {
        let state = &buffers.values[id.index()];
        let enter = [buffers.values[instruction.operands[0].index()].clone(), state.clone()];
        let [_, body] = &instruction.computations[..] else {
            return Err(LoweringError::bug("while without two computations"));
        };
        let nested = buffers.nested.get(&id).ok_or_else(|| LoweringError::bug("while without buffers"))?;
        let [condition_buffers, body_buffers] = &nested[..] else {
            return Err(LoweringError::bug("while without buffers of two computations"));
        };
        let exchange = buffers.exchange.get(&id);
        let alternating = buffers.alternating.get(&id).filter(|leaves| !leaves.is_empty());
        let copies = |body_buffers: &ComputationBuffers, pairs: &[(Slice, Slice)]| {
            let results = &body_buffers.values[body.root.index()];
            let mut kept = results.clone();
            let mut next = state.clone();
            for (&number, &slice) in exchange.into_iter().flatten() {
                kept[number] = exchanged_slice(slice, pairs);
            }
            for &number in alternating.into_iter().flatten() {
                next[number] = results[number];
            }
            [[results.clone(), kept.clone()], [kept, next]]
        };
        let mut rounds = vec![Round {
            condition: Cow::Borrowed(condition_buffers),
            body: Cow::Borrowed(body_buffers),
            copies: copies(body_buffers, &[]),
            leave: None,
        }];
        if let Some(alternating) = alternating {
            // The second iteration, from where the first leaves the state to where that found it.
            let mut other_state = state.clone();
            let mut pairs = Vec::with_capacity(alternating.len());
            for &number in alternating {
                other_state[number] = body_buffers.values[body.root.index()][number];
                pairs.push((state[number], other_state[number]));
            }
            let other_body = body_buffers.exchanged(&pairs);
            rounds.push(Round {
                copies: copies(&other_body, &pairs),
                condition: Cow::Owned(condition_buffers.exchanged(&pairs)),
                body: Cow::Owned(other_body),
                leave: Some([other_state, state.clone()]),
            });
        }
        Ok(WhileMemory { enter, rounds })
    }
}
