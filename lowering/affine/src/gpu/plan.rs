//! The steps of a program: its instructions in order, with the copies that their places need.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::launch_plan::{CountedRound, PlanStep, Round};
use hlo::op_kind::OpKind;
use hlo::ops::Lowering;
use hlo::shape::Shape;
use passes::assign_buffers::{BufferAssignment, ComputationBuffers, Slice};

use super::{GpuProgram, Result, factors};
use crate::copies::{Copies, WhileMemory, base_copies, result_copies};
use crate::error::LoweringError;
use crate::library_calls;
use crate::program::lowering_of;
use crate::trip_count::trip_count;

impl GpuProgram<'_, '_> {
    /// The steps of a whole program.
    pub(super) fn entry(&self, entry: &Computation, assignment: &BufferAssignment) -> Result<Vec<PlanStep>> {
        let mut steps = self.computation(entry, &assignment.entry)?;
        for copies in result_copies(entry, assignment) {
            steps.extend(copy(&entry.root().shape, &copies));
        }
        Ok(steps)
    }

    fn computation(&self, computation: &Computation, buffers: &ComputationBuffers) -> Result<Vec<PlanStep>> {
        let mut steps = Vec::new();
        for (id, instruction) in computation.iter() {
            let first = steps.len();
            match lowering_of(instruction) {
                Lowering::None => {}
                Lowering::Loops | Lowering::Replaced => {
                    return Err(LoweringError::bug(format!("`{}` was not refused", instruction.name)));
                }
                Lowering::Kernel => {
                    for (operand, copies) in base_copies(computation, buffers, id) {
                        steps.extend(copy(&computation.get(operand).shape, &copies));
                    }
                    steps.extend(self.kernels(computation, buffers, id)?);
                }
                Lowering::Call if instruction.kind == OpKind::Sort => {
                    steps.extend(self.sort(computation, buffers, id)?);
                }
                Lowering::Call if factors::is_small(instruction, computation) => {
                    steps.extend(self.factors(computation, buffers, id)?);
                }
                Lowering::Call => {
                    let call = library_calls::host_call(computation, buffers, id, self.calls)?;
                    steps.push(PlanStep::HostCall(call));
                }
                Lowering::Branches => match self.in_block(computation, id, buffers)? {
                    Some(launched) => steps.extend(launched),
                    None if instruction.kind == OpKind::While => {
                        steps.extend(self.loop_of_rounds(computation, id, buffers)?);
                    }
                    None => steps.push(self.conditional(instruction, id, buffers)?),
                },
            }
            for step in &mut steps[first..] {
                if let PlanStep::Launch(launch) = step {
                    launch.of = computed_by(instruction);
                }
            }
        }
        Ok(steps)
    }

    fn loop_of_rounds(
        &self,
        computation: &Computation,
        id: InstructionId,
        buffers: &ComputationBuffers,
    ) -> Result<Vec<PlanStep>> {
        let instruction = computation.get(id);
        let [condition, body] = &instruction.computations[..] else {
            return Err(LoweringError::bug("while without two computations"));
        };
        let memory = WhileMemory::new(instruction, id, buffers)?;
        let mut steps = copy(&instruction.shape, &memory.enter);
        let count = trip_count(computation, instruction);
        let (mut rounds, mut counted) = (Vec::new(), Vec::new());
        for round in &memory.rounds {
            let mut iteration = self.computation(body, &round.body)?;
            iteration.extend(round.copies.iter().flat_map(|copies| copy(&instruction.shape, copies)));
            let leave = round.leave.iter().flat_map(|copies| copy(&instruction.shape, copies)).collect();
            if count.is_some() {
                counted.push(CountedRound { body: iteration, leave });
                continue;
            }
            rounds.push(Round {
                condition: self.computation(condition, &round.condition)?,
                predicate: scalar(&round.condition, condition.root)?,
                body: iteration,
                leave,
            });
        }
        steps.push(match count {
            Some(times) => PlanStep::Repeat { times, rounds: counted },
            None => PlanStep::While(rounds),
        });
        Ok(steps)
    }

    fn conditional(
        &self,
        instruction: &Instruction,
        id: InstructionId,
        buffers: &ComputationBuffers,
    ) -> Result<PlanStep> {
        let nested = buffers.nested.get(&id).ok_or_else(|| LoweringError::bug("conditional without buffers"))?;
        let results = &buffers.values[id.index()];
        let branches = instruction.computations.iter().zip(nested).map(|(branch, nested)| {
            let mut steps = self.computation(branch, nested)?;
            steps.extend(copy(&instruction.shape, &[nested.values[branch.root.index()].clone(), results.clone()]));
            Ok(steps)
        });
        let branches = branches.collect::<Result<_>>()?;
        Ok(PlanStep::Switch { selector: scalar(buffers, instruction.operands[0])?, branches })
    }
}

/// The results of a fusion, or some of many: its kernel is not named after them.
fn computed_by(instruction: &Instruction) -> Vec<String> {
    let body = instruction.computations.first().filter(|_| instruction.kind == OpKind::Fusion);
    let names = |body: &Computation| {
        let roots = body.roots().into_iter().take(MOST_NAMES);
        roots.map(|root| body.get(root).name.clone()).collect()
    };
    body.map_or_else(Vec::new, names)
}

/// Names of results that a plan has of a fusion, at most.
const MOST_NAMES: usize = 3;

/// The place of a scalar.
fn scalar(buffers: &ComputationBuffers, id: InstructionId) -> Result<Slice> {
    buffers.values[id.index()].first().copied().ok_or_else(|| LoweringError::bug("a scalar without a place"))
}

/// Copies of leaves whose places differ.
pub(super) fn copy(shape: &Shape, [from, to]: &Copies) -> Vec<PlanStep> {
    let leaves = shape.leaves();
    let arrays = leaves.iter().zip(from.iter().zip(to)).filter(|(leaf, _)| leaf.as_array().is_some());
    let moved = arrays.filter(|(_, (from, to))| from != to && from.size > 0);
    moved.map(|(_, (&from, &to))| PlanStep::Copy { from, to }).collect()
}
