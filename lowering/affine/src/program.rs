//! Whole programs as functions: control flow, the order of kernels, copies between buffers.
//!
//! Every function takes the table of buffer addresses. Values live in the buffers that the assignment gave them,
//! so instructions meet only in memory: a computation is its kernels one after another, a `while` is an `scf.while`
//! whose condition reads a `pred` from memory. Long computations are split into functions of a few kernels each,
//! because code generation takes longer than linear in the size of a function.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use melior::Context;
use melior::ir::{Location, Module, Type};
use mlir_ext::arith::CmpiPredicate;
pub use mlir_ext::builder::Machine;
use mlir_ext::builder::{OpBuilder, Value};
use passes::assign_buffers::{BufferAssignment, ComputationBuffers, Slice};
use passes::fuse::{is_alias, is_expensive};

use crate::error::LoweringError;
use crate::kernel::{KernelOptions, KernelPlan, Range, emit_fusion};
use crate::library_calls;
use crate::matmul::{self, MatMul, emit_matmul};
use crate::memory::{
    ArrayRef, BufferTable, FunctionMemory, MAX_ARGUMENTS, RUN_CONTEXT, argument_array, pointer_at, pointer_type,
};

type Result<T> = std::result::Result<T, LoweringError>;

/// Kernels that share a function.
const KERNELS_PER_FUNCTION: usize = 64;

/// Element operations below which a kernel stays on the calling thread.
const PARALLEL_COST: i64 = 400_000;

/// Element operations up to which a kernel is written where it runs; larger ones are functions, shared by equal
/// kernels.
const INLINE_COST: i64 = 256;

/// The runtime's parallel loop.
const PARALLEL_FOR: &str = "halo_parallel_for";

/// Name of the function that runs the program; it takes the table of buffer addresses.
pub const ENTRY: &str = "main";

/// What the loops are made for.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Bits of the target's vector registers.
    pub vector_bits: u32,
    /// Whether large kernels are handed to the runtime's threads.
    pub parallel: bool,
    /// What else the target and the runtime have.
    pub machine: Machine,
    /// Whether the runtime knows a function by the name that a custom call gives.
    pub custom_calls: fn(&str) -> bool,
}

/// Lowers an entry computation whose buffers are assigned to a module of loops.
///
/// # Errors
/// [`LoweringError::Unsupported`] before anything is emitted, for operations without a lowering.
pub fn lower_program<'c>(
    context: &'c Context,
    entry: &Computation,
    assignment: &BufferAssignment,
    options: LoopOptions,
) -> Result<Module<'c>> {
    check_supported(entry, &options)?;
    crate::load_dialects(context);
    let location = Location::unknown(context);
    let module = Module::new(location);
    let builder = OpBuilder::new(context, &module, location);
    builder.set_machine(options.machine);
    let program = Program {
        builder: &builder,
        table: BufferTable::new(assignment),
        options,
        functions: Cell::new(0),
        names: RefCell::new(HashMap::new()),
        failure: RefCell::new(None),
    };
    program.function(ENTRY, false, &|program, memory| {
        program.computation(entry, &assignment.entry, memory)?;
        program.outputs(entry, assignment, memory)
    });
    match program.failure.take() {
        Some(error) => Err(error),
        None => Ok(module),
    }
}

/// Rejects what has no lowering, before any code exists.
fn check_supported(computation: &Computation, options: &LoopOptions) -> Result<()> {
    for instruction in &computation.instructions {
        let unsupported = |what: &str| {
            Err(LoweringError::Unsupported {
                op: instruction.kind,
                platform: "cpu",
                what: what.to_string(),
                instruction: instruction.name.clone(),
            })
        };
        if instruction.shape.leaves().iter().any(|leaf| leaf.as_array().is_some_and(ArrayShape::is_dynamic)) {
            return unsupported("dynamic dimensions");
        }
        match step_of(instruction) {
            Step::Nothing => {}
            Step::Kernel => library_calls::check(computation, instruction, options)?,
            Step::Control => {
                instruction.computations.iter().try_for_each(|nested| check_supported(nested, options))?;
            }
            Step::Unsupported => return unsupported("no lowering yet"),
        }
    }
    Ok(())
}

/// What an instruction contributes to the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Kernel,
    Control,
    Unsupported,
}

/// Whether an instruction needs no code: its value is its operands', or comes from outside.
pub fn is_free(instruction: &Instruction) -> bool {
    step_of(instruction) == Step::Nothing
}

fn step_of(instruction: &Instruction) -> Step {
    if is_alias(instruction) {
        return Step::Nothing;
    }
    match instruction.kind {
        OpKind::Parameter
        | OpKind::Constant
        | OpKind::Tuple
        | OpKind::GetTupleElement
        | OpKind::OptimizationBarrier
        | OpKind::Domain
        | OpKind::AddDependency
        | OpKind::AfterAll
        | OpKind::Recv
        | OpKind::SendDone => Step::Nothing,
        OpKind::While | OpKind::Conditional => Step::Control,
        OpKind::Fusion | OpKind::Dot | OpKind::Convolution | OpKind::Scatter => Step::Kernel,
        kind if library_calls::is_library_call(kind) => Step::Kernel,
        _ => Step::Unsupported,
    }
}

/// What a kernel's code is.
enum Work {
    Loops,
    Product(Box<MatMul>),
    Scatter,
}

/// Emits a kernel's code for its inputs and outputs, all of it or some iterations.
type EmitKernel<'e, 'p, 'c> = dyn Fn(&Program<'p, 'c>, &[ArrayRef<'c>], &[ArrayRef<'c>], Range<'c>) -> Result<()> + 'e;

/// Array leaves of instructions with their slices.
fn leaf_slices<'i>(
    instructions: impl IntoIterator<Item = (&'i Instruction, &'i Vec<Slice>)>,
) -> Vec<(&'i ArrayShape, Slice)> {
    instructions
        .into_iter()
        .flat_map(|(instruction, slices)| instruction.shape.leaves().into_iter().zip(slices.iter().copied()))
        .filter_map(|(leaf, slice)| Some((leaf.as_array()?, slice)))
        .collect()
}

/// Array leaves of an instruction's operands, and of its result.
pub(crate) fn kernel_slices<'i>(
    computation: &'i Computation,
    buffers: &'i ComputationBuffers,
    id: InstructionId,
) -> [Vec<(&'i ArrayShape, Slice)>; 2] {
    let value = |id: InstructionId| (computation.get(id), &buffers.values[id.index()]);
    let operands = &computation.get(id).operands;
    [leaf_slices(operands.iter().map(|&operand| value(operand))), leaf_slices([value(id)])]
}

/// A text that is equal for computations that compute the same: names and annotations left out.
pub(crate) fn structure(computation: &Computation) -> String {
    let mut text = String::new();
    for instruction in &computation.instructions {
        let operands: Vec<u32> = instruction.operands.iter().map(|operand| operand.0).collect();
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{} {} {operands:?} {:?}",
            instruction.kind,
            instruction.shape.without_layout(),
            instruction.attributes
        );
        for nested in &instruction.computations {
            let _ = write!(text, " {{{}}}", structure(nested));
        }
        text.push('\n');
    }
    let _ = write!(text, "root {}", computation.root.0);
    text
}

/// Emits one program.
pub(crate) struct Program<'p, 'c> {
    pub(crate) builder: &'p OpBuilder<'c>,
    pub(crate) table: BufferTable,
    pub(crate) options: LoopOptions,
    functions: Cell<usize>,
    /// Names of functions and constants of the module by what they are.
    names: RefCell<HashMap<String, String>>,
    failure: RefCell<Option<LoweringError>>,
}

impl<'p, 'c> Program<'p, 'c> {
    /// A function of the buffer table; an error in `body` is kept for the end.
    fn function(&self, name: &str, private: bool, body: &dyn Fn(&Self, &FunctionMemory<'c>) -> Result<()>) {
        self.builder.at_module_level(|builder| {
            builder.function(name, &[pointer_type(builder)], &[], private, |builder, region| {
                let memory = FunctionMemory::new(builder, region.argument(0));
                self.keep_failure(body(self, &memory));
                builder.effect("func.return", &[], &[]);
            });
        });
    }

    fn keep_failure(&self, result: Result<()>) {
        self.kept(result);
    }

    /// The value of a result; an error is kept for the end.
    pub(crate) fn kept<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.failure.borrow_mut().get_or_insert(error).clone()).ok()
    }

    /// The name of what `define` makes at module level for a key, made at its first use.
    pub(crate) fn named_once(&self, key: &str, prefix: &str, define: impl FnOnce(&str)) -> String {
        if let Some(name) = self.names.borrow().get(key) {
            return name.clone();
        }
        let name = format!("{prefix}_{}", self.functions.replace(self.functions.get() + 1));
        self.builder.at_module_level(|_| define(&name));
        self.names.borrow_mut().insert(key.to_string(), name.clone());
        name
    }

    /// The instructions of a computation, in order.
    fn computation(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'c>,
    ) -> Result<()> {
        let kernels =
            computation.instructions.iter().filter(|instruction| step_of(instruction) == Step::Kernel).count();
        let mut pending: Vec<InstructionId> = Vec::new();
        let flush = |pending: &mut Vec<InstructionId>| -> Result<()> {
            let group = std::mem::take(pending);
            if group.is_empty() {
                return Ok(());
            }
            if kernels <= KERNELS_PER_FUNCTION {
                return group.iter().try_for_each(|&id| self.kernel(computation, buffers, id, memory));
            }
            let name = format!("part_{}", self.functions.replace(self.functions.get() + 1));
            self.function(&name, true, &|program, memory| {
                group.iter().try_for_each(|&id| program.kernel(computation, buffers, id, memory))
            });
            self.builder.call(&name, &[memory.table()], &[]);
            Ok(())
        };
        for (id, instruction) in computation.iter() {
            match step_of(instruction) {
                Step::Nothing | Step::Unsupported => {}
                Step::Kernel => {
                    pending.push(id);
                    if pending.len() == KERNELS_PER_FUNCTION {
                        flush(&mut pending)?;
                    }
                }
                Step::Control => {
                    flush(&mut pending)?;
                    match instruction.kind {
                        OpKind::While => self.while_loop(instruction, id, buffers, memory)?,
                        _ => self.conditional(computation, instruction, id, buffers, memory)?,
                    }
                }
            }
        }
        flush(&mut pending)
    }

    /// Arrays of the leaves of an instruction.
    pub(crate) fn arrays(
        &self,
        instruction: &Instruction,
        slices: &[Slice],
        memory: &FunctionMemory<'c>,
    ) -> Vec<ArrayRef<'c>> {
        self.arrays_of(&instruction.shape, slices, memory)
    }

    fn arrays_of(&self, shape: &Shape, slices: &[Slice], memory: &FunctionMemory<'c>) -> Vec<ArrayRef<'c>> {
        shape
            .leaves()
            .iter()
            .zip(slices)
            .filter_map(|(leaf, &slice)| Some(memory.array(self.builder, &self.table, slice, leaf.as_array()?)))
            .collect()
    }

    fn kernel(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        id: InstructionId,
        memory: &FunctionMemory<'c>,
    ) -> Result<()> {
        let instruction = computation.get(id);
        if library_calls::is_library_call(instruction.kind) {
            return self.library_call(computation, buffers, id, memory);
        }
        let output_slices = &buffers.values[id.index()];
        let in_place = instruction
            .operands
            .iter()
            .flat_map(|operand| &buffers.values[operand.index()])
            .any(|input| output_slices.iter().any(|output| overlap(*input, *output)));
        let options = KernelOptions { vector_bits: self.options.vector_bits, in_place };
        let [inputs, outputs] = kernel_slices(computation, buffers, id);
        let single;
        let (body, work) = match instruction.kind {
            OpKind::Scatter => {
                let count = instruction.operands.len().saturating_sub(1) / 2;
                for (number, output) in output_slices.iter().enumerate().take(count) {
                    let base = &buffers.values[instruction.operands[number].index()];
                    let shape = &computation.get(instruction.operands[number]).shape;
                    self.copy(shape, base, std::slice::from_ref(output), memory);
                }
                single = single_instruction(computation, instruction);
                (&single, Work::Scatter)
            }
            OpKind::Fusion => {
                self.base_of_update(computation, instruction, buffers, output_slices, memory);
                (&instruction.computations[0], Work::Loops)
            }
            _ => {
                let product = matmul::recognise(computation, instruction, self.options.vector_bits);
                single = single_instruction(computation, instruction);
                (&single, product.map_or(Work::Loops, |product| Work::Product(Box::new(product))))
            }
        };
        let Some((first, _)) = outputs.first() else { return Ok(()) };
        if first.element_count() == 0 {
            return Ok(());
        }
        let (plan, iterations, cost) = match &work {
            Work::Loops => {
                let plan = KernelPlan::new(body, &first.dimensions, options)?;
                let iterations = plan.outer_iterations();
                (Some(plan), iterations, cost(body))
            }
            Work::Product(product) => (None, product.tasks(), product.cost()),
            Work::Scatter => (None, 1, cost(body)),
        };
        let emit = |program: &Self, inputs: &[ArrayRef<'c>], outputs: &[ArrayRef<'c>], range: Range<'c>| {
            let builder = program.builder;
            match (&work, &plan) {
                (Work::Product(product), _) => {
                    let whole = || (builder.constant_index(0), builder.constant_index(product.tasks()));
                    let (begin, end) = range.unwrap_or_else(whole);
                    emit_matmul(builder, product, [&inputs[0], &inputs[1], &outputs[0]], begin, end);
                    Ok(())
                }
                (Work::Loops, Some(plan)) => emit_fusion(builder, body, plan, inputs, outputs, range),
                _ => crate::scatter::emit_scatter(builder, body, body.root(), inputs, outputs),
            }
        };
        if cost <= INLINE_COST || inputs.len() + outputs.len() > MAX_ARGUMENTS {
            let arrays = |slices: &[(&ArrayShape, Slice)]| -> Vec<ArrayRef<'c>> {
                slices.iter().map(|(shape, slice)| memory.array(self.builder, &self.table, *slice, shape)).collect()
            };
            return emit(self, &arrays(&inputs), &arrays(&outputs), None);
        }
        let is_parallel = self.options.parallel && cost >= PARALLEL_COST && iterations >= 2;
        let key = format!("{in_place} {is_parallel} {}", structure(body));
        let name = self.named_once(&key, "kernel", |name| {
            self.kernel_function(name, &inputs, &outputs, is_parallel, &emit);
        });
        let addresses: Vec<Value<'c>> =
            inputs.iter().chain(&outputs).map(|(_, slice)| memory.address(self.builder, &self.table, *slice)).collect();
        let arguments = memory.arguments(self.builder, &addresses);
        self.call_kernel(memory, &name, arguments, is_parallel.then_some(iterations), cost);
        Ok(())
    }

    /// A function of a table of arrays and, if it is `parallel`, of the iterations to run.
    fn kernel_function(
        &self,
        name: &str,
        inputs: &[(&ArrayShape, Slice)],
        outputs: &[(&ArrayShape, Slice)],
        is_parallel: bool,
        emit: &EmitKernel<'_, 'p, 'c>,
    ) {
        self.builder.at_module_level(|builder| {
            builder.function(name, &self.kernel_parameters(), &[], true, |builder, region| {
                let array =
                    |position: usize, shape: &ArrayShape| argument_array(builder, region.argument(0), position, shape);
                let inputs_here: Vec<ArrayRef<'c>> =
                    inputs.iter().enumerate().map(|(position, (shape, _))| array(position, shape)).collect();
                let outputs_here: Vec<ArrayRef<'c>> = outputs
                    .iter()
                    .enumerate()
                    .map(|(position, (shape, _))| array(inputs.len() + position, shape))
                    .collect();
                let position =
                    |number| builder.value("arith.index_cast", &[region.argument(number)], builder.index_type, &[]);
                let range = is_parallel.then(|| (position(1), position(2)));
                self.keep_failure(emit(self, &inputs_here, &outputs_here, range));
                builder.effect("func.return", &[], &[]);
            });
        });
    }

    /// Argument table, first iteration, one past the last: what the runtime's parallel loop calls.
    fn kernel_parameters(&self) -> [Type<'c>; 3] {
        let i64_type = self.builder.integer_type(64);
        [pointer_type(self.builder), i64_type, i64_type]
    }

    fn call_kernel(
        &self,
        memory: &FunctionMemory<'c>,
        name: &str,
        arguments: Value<'c>,
        iterations: Option<i64>,
        cost: i64,
    ) {
        let builder = self.builder;
        let [pointer, i64_type, _] = self.kernel_parameters();
        let Some(iterations) = iterations else {
            let zero = builder.constant_integer(i64_type, 0);
            builder.call(name, &[arguments, zero, zero], &[]);
            return;
        };
        builder.define_once(PARALLEL_FOR, |builder| {
            builder.declare_function(PARALLEL_FOR, &[pointer, pointer, pointer, i64_type, i64_type], &[]);
        });
        let context = pointer_at(builder, memory.table(), RUN_CONTEXT);
        let task = builder.function_pointer(name, &self.kernel_parameters(), &[], pointer);
        let count = builder.constant_integer(i64_type, iterations);
        // Enough chunks that threads finish together, each long enough to be worth handing out.
        let chunks = (cost / (PARALLEL_COST / 4)).clamp(2, 16);
        let grain = builder.constant_integer(i64_type, (iterations / chunks).max(1));
        builder.call(PARALLEL_FOR, &[context, task, arguments, count, grain], &[]);
    }

    /// Where an in-place update could not take over its base, the base is copied first.
    fn base_of_update(
        &self,
        computation: &Computation,
        instruction: &Instruction,
        buffers: &ComputationBuffers,
        outputs: &[Slice],
        memory: &FunctionMemory<'c>,
    ) {
        let body = &instruction.computations[0];
        let root = body.root();
        if root.kind != OpKind::DynamicUpdateSlice {
            return;
        }
        if let Some(number) = body.get(root.operands[0]).parameter_number() {
            let operand = instruction.operands[number];
            self.copy(&computation.get(operand).shape, &buffers.values[operand.index()], outputs, memory);
        }
    }

    /// Copies leaves whose slices differ.
    fn copy(&self, shape: &Shape, from: &[Slice], to: &[Slice], memory: &FunctionMemory<'c>) {
        for ((leaf, &from), &to) in shape.leaves().iter().zip(from).zip(to) {
            let Some(array) = leaf.as_array() else { continue };
            if from == to || array.byte_size() == 0 {
                continue;
            }
            let source = memory.array(self.builder, &self.table, from, array);
            let target = memory.array(self.builder, &self.table, to, array);
            self.builder.effect("memref.copy", &[source.memref, target.memref], &[]);
        }
    }

    /// Brings results that are parameters, constants or used twice to their places.
    fn outputs(&self, entry: &Computation, assignment: &BufferAssignment, memory: &FunctionMemory<'c>) -> Result<()> {
        let slices = &assignment.entry.values[entry.root.index()];
        let places: Vec<Slice> = slices
            .iter()
            .enumerate()
            .map(|(number, slice)| Slice {
                buffer: passes::assign_buffers::Buffer::Output(number as u32),
                offset: 0,
                size: slice.size,
            })
            .collect();
        self.copy(&entry.root().shape, slices, &places, memory);
        Ok(())
    }

    fn while_loop(
        &self,
        instruction: &Instruction,
        id: InstructionId,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'c>,
    ) -> Result<()> {
        let state = &buffers.values[id.index()];
        let initial = &buffers.values[instruction.operands[0].index()];
        self.copy(&instruction.shape, initial, state, memory);
        let [condition, body] = &instruction.computations[..] else {
            return Err(LoweringError::bug("while without two computations"));
        };
        let nested = buffers.nested.get(&id).ok_or_else(|| LoweringError::bug("while without buffers"))?;
        let exchange = buffers.exchange.get(&id);
        self.builder.while_loop(
            |_| {
                self.keep_failure(self.computation(condition, &nested[0], memory));
                self.load_pred(condition, &nested[0], memory)
            },
            |_| {
                self.keep_failure(self.computation(body, &nested[1], memory));
                let mut results = nested[1].values[body.root.index()].clone();
                let mut kept = results.clone();
                for (&number, &slice) in exchange.into_iter().flatten() {
                    kept[number] = slice;
                }
                self.copy(&instruction.shape, &results, &kept, memory);
                results = kept;
                self.copy(&instruction.shape, &results, state, memory);
            },
        );
        Ok(())
    }

    /// The value of a scalar `pred` root as `i1`.
    fn load_pred(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'c>,
    ) -> Value<'c> {
        let arrays = self.arrays(computation.root(), &buffers.values[computation.root.index()], memory);
        self.load_scalar(&arrays[0], CmpiPredicate::Ne)
    }

    fn load_scalar(&self, array: &ArrayRef<'c>, predicate: CmpiPredicate) -> Value<'c> {
        let zero = self.builder.constant_index(0);
        let byte = self.builder.value("memref.load", &[array.memref, zero], self.builder.integer_type(8), &[]);
        self.builder.cmpi(predicate, byte, self.builder.integer_like(byte, 0))
    }

    fn conditional(
        &self,
        computation: &Computation,
        instruction: &Instruction,
        id: InstructionId,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'c>,
    ) -> Result<()> {
        let selector = instruction.operands[0];
        let arrays = self.arrays(computation.get(selector), &buffers.values[selector.index()], memory);
        let array = arrays.first().ok_or_else(|| LoweringError::bug("conditional without selector"))?;
        let nested = buffers.nested.get(&id).ok_or_else(|| LoweringError::bug("conditional without buffers"))?;
        let results = &buffers.values[id.index()];
        let branch = |number: usize| {
            let branch = &instruction.computations[number];
            self.keep_failure(self.computation(branch, &nested[number], memory));
            self.copy(&instruction.shape, &nested[number].values[branch.root.index()], results, memory);
        };
        let count = instruction.computations.len();
        if array.element_type == ElementType::Pred {
            let holds = self.load_scalar(array, CmpiPredicate::Ne);
            self.builder.if_else(
                holds,
                &[],
                |_| {
                    branch(0);
                    Vec::new()
                },
                |_| {
                    branch(1);
                    Vec::new()
                },
            );
            return Ok(());
        }
        // Out of range selects the last branch; the branches before it are tested one by one.
        let zero = self.builder.constant_index(0);
        let index = self.builder.value("memref.load", &[array.memref, zero], self.builder.integer_type(32), &[]);
        self.select_branch(index, 0, count, &branch);
        Ok(())
    }

    fn select_branch(&self, index: Value<'c>, number: usize, count: usize, branch: &dyn Fn(usize)) {
        if number + 1 == count {
            return branch(number);
        }
        let chosen = self.builder.cmpi(CmpiPredicate::Eq, index, self.builder.integer_like(index, number as i64));
        self.builder.if_else(
            chosen,
            &[],
            |_| {
                branch(number);
                Vec::new()
            },
            |_| {
                self.select_branch(index, number + 1, count, branch);
                Vec::new()
            },
        );
    }
}

/// Element operations of a fusion, roughly: every member counts for the elements it computes or reads.
fn cost(computation: &Computation) -> i64 {
    computation
        .instructions
        .iter()
        .map(|instruction| {
            let elements: i64 = instruction
                .shape
                .leaves()
                .iter()
                .filter_map(|leaf| leaf.as_array())
                .map(ArrayShape::element_count)
                .sum();
            let contracted = match instruction.kind {
                OpKind::Dot | OpKind::Convolution => contracted_size(computation, instruction),
                _ => 1,
            };
            let weight = if is_expensive(instruction) { 8 } else { 1 };
            elements.saturating_mul(contracted).saturating_mul(weight)
        })
        .fold(0i64, i64::saturating_add)
}

/// Products summed for each element of a contraction.
fn contracted_size(computation: &Computation, instruction: &Instruction) -> i64 {
    crate::contraction::contraction_maps(computation, instruction)
        .map_or(1, |maps| maps.ranges.iter().fold(1i64, |product, &size| product.saturating_mul(size)))
}

/// Whether two slices share bytes.
fn overlap(a: Slice, b: Slice) -> bool {
    a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size
}

/// An instruction as a computation of its own, its operands as parameters.
pub(crate) fn single_instruction(computation: &Computation, instruction: &Instruction) -> Computation {
    use hlo::attributes::{AttributeValue, Attributes};
    let mut single = Computation {
        name: instruction.name.clone(),
        instructions: Vec::new(),
        parameters: Vec::new(),
        root: InstructionId(instruction.operands.len() as u32),
        annotations: Vec::new(),
    };
    for (number, &operand) in instruction.operands.iter().enumerate() {
        let source = computation.get(operand);
        single.parameters.push(InstructionId(number as u32));
        single.instructions.push(Instruction {
            name: source.name.clone(),
            kind: OpKind::Parameter,
            shape: source.shape.clone(),
            operands: Vec::new(),
            attributes: Attributes::new().with("parameter_number", AttributeValue::Int(number as i64)),
            computations: Vec::new(),
            callee: None,
            annotations: Vec::new(),
            position: None,
        });
    }
    let mut own = instruction.clone();
    own.operands = (0..instruction.operands.len() as u32).map(InstructionId).collect();
    single.instructions.push(own);
    single
}
