//! `while` and `conditional` as `scf`: the computations that they choose between are steps of the same function.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::Value;
use passes::assign_buffers::ComputationBuffers;

use crate::copies::{Copies, Round, WhileMemory};
use crate::error::LoweringError;
use crate::memory::{ArrayRef, FunctionMemory, pointer_type};
use crate::program::Program;
use crate::trip_count::has_no_effect;

type Result<T> = std::result::Result<T, LoweringError>;

/// Instructions of a condition that is written twice, before a loop and at its end.
const MOST_OF_CONDITION: usize = 32;

/// Whether a condition is so little code that a loop may have it twice.
fn is_short(condition: &Computation) -> bool {
    condition.instructions.len() <= MOST_OF_CONDITION && condition.instructions.iter().all(has_no_effect)
}

impl<'c> Program<'_, 'c> {
    pub(crate) fn run_while(
        &self,
        instruction: &Instruction,
        id: InstructionId,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let [condition, body] = &instruction.computations[..] else {
            return Err(LoweringError::bug("while without two computations"));
        };
        let WhileMemory { enter: [initial, state], rounds } = WhileMemory::new(instruction, id, buffers)?;
        let copy = |[from, to]: &Copies| self.copy_step(&instruction.name, &instruction.shape, from, to, memory);
        copy(&[initial, state])?;
        let holds = |round: &Round<'_>| {
            self.computation(condition, &round.condition, memory)?;
            let arrays = self.arrays(condition.root(), &round.condition.values[condition.root.index()], memory);
            let holds = self.load_pred(arrays.first())?;
            Ok::<_, LoweringError>(if self.options.calls.devices.total() > 1 {
                self.unless_failed(holds, memory)
            } else {
                holds
            })
        };
        let iteration = |round: &Round<'_>| {
            self.computation(body, &round.body, memory)?;
            round.copies.iter().try_for_each(copy)
        };
        let builder = self.builder;
        let [first, second] = &rounds[..] else {
            let round = &rounds[0];
            if !is_short(condition) {
                return builder.while_loop(|_| holds(round), |_| iteration(round));
            }
            let goes_on = holds(round)?;
            return builder.while_true(goes_on, |_| {
                iteration(round)?;
                holds(round)
            });
        };
        let goes_on = holds(first)?;
        builder.while_true(goes_on, |_| {
            iteration(first)?;
            let goes_on = holds(second)?;
            let next =
                builder.if_else(goes_on, &[builder.integer_type(1)], |_, goes_on| -> Result<Vec<Value<'c>>> {
                    if goes_on {
                        iteration(second)?;
                        return Ok(vec![holds(first)?]);
                    }
                    second.leave.iter().try_for_each(copy)?;
                    Ok(vec![builder.constant_integer(builder.integer_type(1), 0)])
                })?;
            next.first().copied().ok_or_else(|| LoweringError::bug("a branch without its value"))
        })
    }

    /// The condition of a loop, false in an execution that has failed: what other devices did not send may be what would
    /// end the loop.
    fn unless_failed(&self, holds: Value<'c>, memory: &FunctionMemory<'_, 'c>) -> Value<'c> {
        const GOES_ON: &str = "halo_goes_on";
        let builder = self.builder;
        let (pointer, byte) = (pointer_type(builder), builder.integer_type(8));
        builder.define_once(GOES_ON, |builder| builder.declare_function(GOES_ON, &[pointer], &[byte]));
        let goes_on = builder.call_value(GOES_ON, &[memory.context(builder)], byte);
        let goes_on = builder.cmpi(CmpiPredicate::Ne, goes_on, builder.integer_like(goes_on, 0));
        builder.value("arith.andi", &[holds, goes_on], builder.integer_type(1), &[])
    }

    /// The value of a scalar `pred` as `i1`.
    fn load_pred(&self, array: Option<&ArrayRef<'c>>) -> Result<Value<'c>> {
        let array = array.ok_or_else(|| LoweringError::bug("a condition that is no array"))?;
        let byte = self.builder.plain_load(array.memref, &[], self.builder.integer_type(8));
        Ok(self.builder.cmpi(CmpiPredicate::Ne, byte, self.builder.integer_like(byte, 0)))
    }

    pub(crate) fn run_conditional(
        &self,
        computation: &Computation,
        instruction: &Instruction,
        id: InstructionId,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let builder = self.builder;
        let selector = instruction.operands[0];
        let arrays = self.arrays(computation.get(selector), &buffers.values[selector.index()], memory);
        let array = arrays.first().ok_or_else(|| LoweringError::bug("conditional without selector"))?;
        let nested = buffers.nested.get(&id).ok_or_else(|| LoweringError::bug("conditional without buffers"))?;
        let results = &buffers.values[id.index()];
        let branch = |number: usize| -> Result<()> {
            let branch = &instruction.computations[number];
            self.computation(branch, &nested[number], memory)?;
            let from = &nested[number].values[branch.root.index()];
            self.copy_step(&instruction.name, &instruction.shape, from, results, memory)
        };
        if array.element_type == ElementType::Pred {
            let holds = self.load_pred(Some(array))?;
            return builder
                .if_else(holds, &[], |_, holds| branch(usize::from(!holds)).map(|()| Vec::new()))
                .map(|_| ());
        }
        // Out of range selects the last branch.
        let index = builder.plain_load(array.memref, &[], builder.integer_type(32));
        let index = builder.value("arith.index_cast", &[index], builder.index_type, &[]);
        builder.index_switch(index, instruction.computations.len(), |_, number| branch(number))
    }
}
