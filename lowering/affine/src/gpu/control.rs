//! Control flow within a block: loops and conditionals whose kernels are one block each, as one kernel.
//!
//! Its threads go through the steps together, and wait for each other behind each of them, so that what one wrote is seen by all.
//! A loop of unknown length comes back to the host now and then, which may want to end it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hlo::buffers::Buffer;
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::launch_plan::{PlanStep, Round};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::ops::Lowering;
use hlo::shape::{ArrayShape, Shape};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{Body, OpBuilder, Value};
use passes::assign_buffers::{ComputationBuffers, Slice};

use super::kernels::{KernelArrays, MOST_ARRAYS, emit_loops, grid, thread_id};
use super::plan::copy;
use super::{GpuProgram, Result};
use crate::copies::{Copies, WhileMemory, base_copies};
use crate::elemental::instruction_location;
use crate::error::LoweringError;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::mapping;
use crate::memory::ArrayRef;
use crate::program::{kernel_body, kernel_slices, lowering_of};
use crate::scalar;
use crate::team::barrier;
use crate::tiles::tile_grid;
use crate::trip_count::trip_count;

/// Elements that a copy within a block has at most.
const MOST_COPIED: i64 = 16 * BLOCK_SIZE;

/// Kernels that become one, at most.
const MOST_KERNELS: usize = 64;

/// Iterations of a kernel's loop of unknown length, which is within no other step, after which the kernel ends.
const MOST_ITERATIONS: i64 = 1 << 12;

/// Iterations up to which a loop of known length is one kernel.
const MOST_COUNTED: u64 = 1 << 16;

/// What the threads of a block do.
enum Step<'s> {
    Kernel { computation: &'s Computation, id: InstructionId, arrays: [Vec<Placed>; 2] },
    Copy { shape: ArrayShape, places: [Slice; 2] },
    Loop { times: Option<i64>, rounds: Vec<BlockRound<'s>> },
    Switch { selector: Placed, branches: Vec<Vec<Step<'s>>> },
}

/// An iteration: nothing is asked where it is known how many there are.
struct BlockRound<'s> {
    condition: Vec<Step<'s>>,
    predicate: Placed,
    body: Vec<Step<'s>>,
    leave: Vec<Step<'s>>,
}

/// An array and its place.
type Placed = (ArrayShape, Slice);

impl<'c> GpuProgram<'_, 'c> {
    /// A loop or conditional as one kernel, which the host launches until it is done; nothing where it needs more than a block.
    pub(super) fn in_block(
        &self,
        computation: &Computation,
        id: InstructionId,
        buffers: &ComputationBuffers,
    ) -> Result<Option<Vec<PlanStep>>> {
        let instruction = computation.get(id);
        let mut kernels = 0;
        let Some(step) = self.branches_in_block(computation, id, buffers, &mut kernels)? else { return Ok(None) };
        let mut steps = match instruction.kind {
            OpKind::While => copy(&instruction.shape, &WhileMemory::new(instruction, id, buffers)?.enter),
            _ => Vec::new(),
        };
        let is_open = matches!(&step, Step::Loop { times: None, .. });
        let (mut placed, mut numbers): (Vec<Placed>, HashMap<Placed, usize>) = Default::default();
        step.visit(&mut |array| {
            if let Entry::Vacant(number) = numbers.entry(array.clone()) {
                number.insert(placed.len());
                placed.push(array.clone());
            }
        });
        if is_open {
            let flag = ArrayShape::new(ElementType::Pred, []);
            let places = self.scratch(&[Slice { buffer: Buffer::Arena, offset: 0, size: 1 }]);
            placed.extend(places.into_iter().map(|place| (flag.clone(), place)));
        }
        if placed.len() > MOST_ARRAYS {
            return Ok(None);
        }
        let outputs = placed.iter().map(|(shape, slice)| (shape, *slice)).collect();
        // There is one block, so nothing is won by registers that leave room for others.
        let limits = Some([BLOCK_SIZE, 1]);
        let arrays = KernelArrays { inputs: Vec::new(), outputs, are_exchanged: true, limits };
        let places: Vec<Slice> = placed.iter().map(|(_, slice)| *slice).collect();
        let key = format!("control {:p} {places:?}", std::ptr::from_ref(instruction));
        let kernel = self.kernel(computation, id, &arrays, (&key, &[]), &|builder, _, arrays, function| {
            let thread = thread_id(builder, BLOCK_SIZE)?;
            let first = builder.constant_index(0);
            let is_first = builder.cmpi(CmpiPredicate::Eq, thread, first);
            let block = Block { program: self, builder, function, thread, is_first, numbers: &numbers, arrays };
            let goes_on = block.step(&step)?;
            let (Some(goes_on), Some(flag)) = (goes_on, arrays.last()) else { return Ok(()) };
            let byte = builder.integer_type(8);
            builder.if_then(is_first, |builder| {
                builder.plain_store(builder.extui(goes_on, byte), flag.flat(builder), &[first]);
                Ok(())
            })
        })?;
        let launch = kernel.launch(1, BLOCK_SIZE as u32, arrays.arguments());
        steps.push(match places.last() {
            Some(&predicate) if is_open => {
                PlanStep::While(vec![Round { condition: vec![launch], predicate, body: Vec::new(), leave: Vec::new() }])
            }
            _ => launch,
        });
        Ok(Some(steps))
    }

    /// The steps of a computation, if a block is enough for each.
    fn steps_in_block<'s>(
        &self,
        computation: &'s Computation,
        buffers: &ComputationBuffers,
        kernels: &mut usize,
    ) -> Result<Option<Vec<Step<'s>>>> {
        let mut steps = Vec::new();
        for (id, instruction) in computation.iter() {
            match lowering_of(instruction) {
                Lowering::None => {}
                Lowering::Kernel => {
                    for (operand, copies) in base_copies(computation, buffers, id) {
                        let Some(copies) = copies_in_block(&computation.get(operand).shape, &copies) else {
                            return Ok(None);
                        };
                        steps.extend(copies);
                    }
                    let mappings = mapping::of(&self.mappings, instruction)?;
                    if !mappings.iter().all(is_of_block) {
                        return Ok(None);
                    }
                    *kernels += mappings.len();
                    if *kernels > MOST_KERNELS {
                        return Ok(None);
                    }
                    let own = |(shape, slice): (&ArrayShape, Slice)| (shape.clone(), slice);
                    let arrays =
                        kernel_slices(computation, buffers, id).map(|arrays| arrays.into_iter().map(own).collect());
                    steps.push(Step::Kernel { computation, id, arrays });
                }
                Lowering::Branches => match self.branches_in_block(computation, id, buffers, kernels)? {
                    Some(step) => {
                        if instruction.kind == OpKind::While {
                            let memory = WhileMemory::new(instruction, id, buffers)?;
                            let Some(copies) = copies_in_block(&instruction.shape, &memory.enter) else {
                                return Ok(None);
                            };
                            steps.extend(copies);
                        }
                        steps.push(step);
                    }
                    None => return Ok(None),
                },
                Lowering::Call | Lowering::Loops | Lowering::Replaced => return Ok(None),
            }
        }
        Ok(Some(steps))
    }

    /// A loop, of which the state is in its place, or a conditional.
    fn branches_in_block<'s>(
        &self,
        computation: &'s Computation,
        id: InstructionId,
        buffers: &ComputationBuffers,
        kernels: &mut usize,
    ) -> Result<Option<Step<'s>>> {
        let instruction = computation.get(id);
        let scalar = |computation: &Computation, buffers: &ComputationBuffers, id: InstructionId| -> Result<Placed> {
            let place = buffers.values[id.index()].first();
            let placed = computation.get(id).shape.as_array().zip(place);
            let (shape, &place) = placed.ok_or_else(|| LoweringError::bug("a scalar without a place"))?;
            Ok((shape.clone(), place))
        };
        let copies = |copies: &Copies| copies_in_block(&instruction.shape, copies);
        if instruction.kind != OpKind::While {
            let nested = buffers.nested.get(&id).ok_or_else(|| LoweringError::bug("conditional without buffers"))?;
            let results = &buffers.values[id.index()];
            let mut branches = Vec::with_capacity(nested.len());
            for (branch, nested) in instruction.computations.iter().zip(nested) {
                let Some(mut steps) = self.steps_in_block(branch, nested, kernels)? else { return Ok(None) };
                let result = [nested.values[branch.root.index()].clone(), results.clone()];
                let Some(result) = copies(&result) else { return Ok(None) };
                steps.extend(result);
                branches.push(steps);
            }
            let selector = scalar(computation, buffers, instruction.operands[0])?;
            return Ok(Some(Step::Switch { selector, branches }));
        }
        let [condition, body] = &instruction.computations[..] else {
            return Err(LoweringError::bug("while without two computations"));
        };
        let count = trip_count(computation, instruction);
        if count.is_some_and(|count| count > MOST_COUNTED) {
            return Ok(None);
        }
        let mut rounds = Vec::new();
        for round in &WhileMemory::new(instruction, id, buffers)?.rounds {
            let tested = match count {
                Some(_) => Some(Vec::new()),
                None => self.steps_in_block(condition, &round.condition, kernels)?,
            };
            let done = self.steps_in_block(body, &round.body, kernels)?;
            let (Some(tested), Some(mut done)) = (tested, done) else { return Ok(None) };
            let mut leave = Vec::new();
            for (group, to) in
                round.copies.iter().map(|own| (own, false)).chain(round.leave.iter().map(|own| (own, true)))
            {
                let Some(group) = copies(group) else { return Ok(None) };
                if to { &mut leave } else { &mut done }.extend(group);
            }
            let predicate = scalar(condition, &round.condition, condition.root)?;
            rounds.push(BlockRound { condition: tested, predicate, body: done, leave });
        }
        Ok(Some(Step::Loop { times: count.map(|count| count as i64), rounds }))
    }
}

/// Whether a block's threads, or one of them, do all the work of a kernel.
fn is_of_block(mapping: &WorkMapping<'_>) -> bool {
    let is_plain = tile_grid(mapping).is_none() && mapping.rows.is_none();
    is_plain && matches!(grid(mapping), (1, threads) if threads == 1 || i64::from(threads) == BLOCK_SIZE)
}

/// Copies of leaves whose places differ, if they are small.
fn copies_in_block<'s>(shape: &Shape, [from, to]: &Copies) -> Option<Vec<Step<'s>>> {
    let leaves = shape.leaves();
    let arrays = leaves.iter().zip(from.iter().zip(to)).filter_map(|(leaf, places)| Some((leaf.as_array()?, places)));
    let moved = arrays.filter(|(_, (from, to))| from != to && from.size > 0);
    let copy = |(shape, (&from, &to)): (&ArrayShape, _)| {
        (shape.element_count() <= MOST_COPIED).then(|| Step::Copy { shape: shape.clone(), places: [from, to] })
    };
    moved.map(copy).collect()
}

impl Step<'_> {
    /// All arrays that the step reads or writes.
    fn visit(&self, found: &mut dyn FnMut(&Placed)) {
        let all = |steps: &[Step<'_>], found: &mut dyn FnMut(&Placed)| steps.iter().for_each(|step| step.visit(found));
        match self {
            Step::Kernel { arrays, .. } => arrays.iter().flatten().for_each(found),
            Step::Copy { shape, places } => places.iter().for_each(|&place| found(&(shape.clone(), place))),
            Step::Loop { times, rounds } => {
                for BlockRound { condition, predicate, body, leave } in rounds {
                    [condition, body, leave].into_iter().for_each(|steps| all(steps, found));
                    if times.is_none() {
                        found(predicate);
                    }
                }
            }
            Step::Switch { selector, branches } => {
                found(selector);
                branches.iter().for_each(|steps| all(steps, found));
            }
        }
    }
}

/// A kernel of one block under construction.
struct Block<'b, 'p, 'c> {
    program: &'b GpuProgram<'p, 'c>,
    builder: &'b OpBuilder<'c>,
    function: &'b Body<'c>,
    thread: Value<'c>,
    is_first: Value<'c>,
    /// Where among the function's arrays each is.
    numbers: &'b HashMap<Placed, usize>,
    arrays: &'b [ArrayRef<'c>],
}

impl<'c> Block<'_, '_, 'c> {
    fn array(&self, placed: &Placed) -> Result<ArrayRef<'c>> {
        let known = self.numbers.get(placed).and_then(|&number| self.arrays.get(number));
        known.cloned().ok_or_else(|| LoweringError::bug("an array that the kernel does not have"))
    }

    /// Steps within others. Loops among them run to their ends, as nobody comes back into the middle of a kernel.
    fn steps(&self, steps: &[Step<'_>]) -> Result<()> {
        steps.iter().try_for_each(|step| match step {
            Step::Loop { times: None, rounds } => self.open(rounds, i64::MAX).map(|_| ()),
            step => self.step(step).map(|_| ()),
        })
    }

    /// The step that a kernel is; of a loop of unknown length, which the host comes back to, whether it goes on.
    fn step(&self, step: &Step<'_>) -> Result<Option<Value<'c>>> {
        let builder = self.builder;
        match step {
            Step::Kernel { computation, id, arrays: [inputs, outputs] } => {
                let made = |arrays: &[Placed]| arrays.iter().map(|own| self.array(own)).collect::<Result<Vec<_>>>();
                let (inputs, outputs) = (made(inputs)?, made(outputs)?);
                self.kernel(computation, computation.get(*id), &inputs, &outputs)?;
            }
            Step::Copy { shape, places: [from, to] } => {
                let [from, to] = [from, to].map(|&place| self.array(&(shape.clone(), place)));
                self.copy(&from?, &to?)?;
            }
            Step::Loop { times: Some(times), rounds } => self.counted(*times, rounds)?,
            Step::Loop { times: None, rounds } => return self.open(rounds, MOST_ITERATIONS).map(Some),
            Step::Switch { selector, branches } => {
                let value = self.scalar(selector)?;
                if selector.1.size == 1 {
                    let holds = self.is_true(value);
                    builder.if_else(holds, &[], |_, holds| {
                        self.steps(&branches[usize::from(!holds)]).map(|()| Vec::new())
                    })?;
                } else {
                    let number = builder.value("arith.index_cast", &[value], builder.index_type, &[]);
                    builder.index_switch(number, branches.len(), |_, branch| self.steps(&branches[branch]))?;
                }
            }
        }
        Ok(None)
    }

    fn kernel(
        &self,
        computation: &Computation,
        instruction: &Instruction,
        inputs: &[ArrayRef<'c>],
        outputs: &[ArrayRef<'c>],
    ) -> Result<()> {
        let builder = self.builder;
        let body = kernel_body(computation, instruction);
        let outer = builder.set_location(instruction_location(builder.context(), instruction));
        for mapping in mapping::of(&self.program.mappings, instruction)? {
            let emit =
                |builder: &OpBuilder<'c>| emit_loops(builder, (&body, mapping), inputs.into(), outputs, self.function);
            match grid(mapping) {
                (_, 1) => builder.if_then(self.is_first, emit)?,
                _ => emit(builder)?,
            }
            barrier(builder);
        }
        builder.set_location(outer);
        Ok(())
    }

    /// Each thread copies some elements.
    fn copy(&self, from: &ArrayRef<'c>, to: &ArrayRef<'c>) -> Result<()> {
        let builder = self.builder;
        let count = from.dimensions.iter().product::<i64>() * from.parts();
        let [count, step] = [count, BLOCK_SIZE].map(|number| builder.constant_index(number));
        let (source, target) = (from.flat(builder), to.flat(builder));
        let r#type = scalar::memory_type(builder, from.element_type);
        builder.for_loop(self.thread, count, step, &[], |builder, place, _| {
            builder.plain_store(builder.plain_load(source, &[place], r#type), target, &[place]);
            Ok::<_, LoweringError>(Vec::new())
        })?;
        barrier(builder);
        Ok(())
    }

    /// A scalar that all threads read before anything else is written there.
    fn scalar(&self, placed: &Placed) -> Result<Value<'c>> {
        let builder = self.builder;
        let array = self.array(placed)?;
        let r#type = scalar::memory_type(builder, array.element_type);
        let value = builder.plain_load(array.flat(builder), &[builder.constant_index(0)], r#type);
        barrier(builder);
        Ok(value)
    }

    fn is_true(&self, value: Value<'c>) -> Value<'c> {
        self.builder.cmpi(CmpiPredicate::Ne, value, self.builder.integer_like(value, 0))
    }

    fn counted(&self, times: i64, rounds: &[BlockRound<'_>]) -> Result<()> {
        let builder = self.builder;
        let (all, rest) = (times / rounds.len() as i64, times as usize % rounds.len());
        let [first, all, step] = [0, all, 1].map(|number| builder.constant_index(number));
        builder.for_loop(first, all, step, &[], |_, _, _| {
            rounds.iter().try_for_each(|round| self.steps(&round.body))?;
            Ok::<_, LoweringError>(Vec::new())
        })?;
        rounds[..rest].iter().try_for_each(|round| self.steps(&round.body))?;
        self.steps(&rounds[rest].leave)
    }

    /// Iterations until the condition is false, or there were `most`: whether it goes on.
    fn open(&self, rounds: &[BlockRound<'_>], most: i64) -> Result<Value<'c>> {
        let builder = self.builder;
        let r#true = builder.constant_integer(builder.integer_type(1), 1);
        let most = builder.constant_index(most);
        let done = builder.while_carrying(
            &[builder.constant_index(0), r#true],
            |builder, state| Ok(builder.andi(state[1], builder.cmpi(CmpiPredicate::Ult, state[0], most))),
            |builder, state| {
                let next = builder.addi(state[0], builder.constant_index(1));
                Ok::<_, LoweringError>(vec![next, self.rounds(rounds)?])
            },
        )?;
        done.get(1).copied().ok_or_else(|| LoweringError::bug("a loop without its state"))
    }

    /// One of each round, as long as conditions hold: whether they all did.
    fn rounds(&self, rounds: &[BlockRound<'_>]) -> Result<Value<'c>> {
        let builder = self.builder;
        let truth = |value: bool| builder.constant_integer(builder.integer_type(1), value.into());
        let Some((round, others)) = rounds.split_first() else { return Ok(truth(true)) };
        self.steps(&round.condition)?;
        let holds = self.is_true(self.scalar(&round.predicate)?);
        let done = builder.if_else(holds, &[builder.integer_type(1)], |_, holds| {
            if holds {
                self.steps(&round.body)?;
                return Ok::<_, LoweringError>(vec![self.rounds(others)?]);
            }
            self.steps(&round.leave)?;
            Ok(vec![truth(false)])
        })?;
        done.first().copied().ok_or_else(|| LoweringError::bug("a branch without its value"))
    }
}
