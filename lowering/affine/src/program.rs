//! Whole programs as functions: control flow, the order of kernels, copies between buffers.
//!
//! Functions take the buffers that they use, as memrefs. Values live in the buffers that the assignment gave them, so
//! instructions meet only in memory: a computation is its kernels one after another, a `while` is an `scf.while` whose
//! condition reads a `pred` from memory. Long ones are divided ([`crate::parts`]). The outermost function gets the table of
//! addresses that the runtime fills; of a program with control flow it passes each buffer's to the program's function.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use hlo::devices::DeviceCount;
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::ops::{Lowering, definition};
use hlo::packed_parameter::PackedParameter;
use hlo::profile::ProfiledStep;
use hlo::shape::{ArrayShape, Shape};
use melior::Context;
use melior::ir::{Location, Module};
pub use mlir_ext::builder::Machine;
use mlir_ext::builder::{OpBuilder, Value};
use passes::assign_buffers::{Buffer, BufferAssignment, ComputationBuffers, Slice};
use passes::fuse::{Attention, is_alias};

use crate::copies::{base_copies, result_copies};
use crate::cost::{cost, steps_of};
use crate::elemental::instruction_location;
use crate::error::LoweringError;
use crate::interface::CodeInterface;
use crate::kernel_function::{Code, Kernel, KernelArrays, task_symbol};
use crate::kernel_names::KernelNames;
use crate::library_calls;
use crate::mapping::{self, Mappings, invalid};
use crate::matmul::{self, AttentionKernel, MatMul};
use crate::memory::{ArrayRef, BufferTable, FunctionMemory, pointer_to, pointer_type};
use crate::moved_bits::MovedBits;
use crate::parts::{STEPS_PER_FUNCTION, groups};
use crate::scalar::{self, memory_type};
use crate::wide_concatenate::{WideConcatenate, part_of_mapping};

type Result<T> = std::result::Result<T, LoweringError>;

/// The function of the program's buffers.
pub(crate) const PROGRAM: &str = "program";

/// Name of the function that runs the program; it takes the table of buffer addresses.
pub const ENTRY: &str = hlo::ENTRY_SYMBOL;

/// The runtime's copy of many bytes.
const COPY: &str = "halo_copy";

/// Bytes from which on threads share a copy.
const BYTES_OF_PARALLEL_COPY: usize = 1 << 20;

/// What the loops are made for.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Whether steps note when they begin and end.
    pub profile: bool,
    /// What the target and the runtime have.
    pub machine: Machine,
    /// What calls of the runtime depend on.
    pub calls: CallOptions,
}

/// What calls of the runtime depend on.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// What custom calls may name.
    pub custom_calls: CustomCallNames,
    /// Devices that run the program together; one where none depends on another.
    pub devices: DeviceCount,
}

/// Whether the runtime knows a function by the name that a custom call gives.
pub type CustomCallNames = fn(&str) -> bool;

/// Lowers an entry computation whose buffers are assigned and whose kernels are mapped to a module of loops, and says what its
/// caller must know of the code.
///
/// # Errors
/// [`LoweringError::Unsupported`] before anything is emitted, for operations without a lowering.
pub fn lower_program<'c>(
    context: &'c Context,
    entry: &Computation,
    assignment: &BufferAssignment,
    mappings: Mappings<'c>,
    options: LoopOptions,
) -> Result<(Module<'c>, CodeInterface)> {
    check_supported(entry, options.calls, "cpu")?;
    crate::load_dialects(context);
    let location = Location::unknown(context);
    let module = Module::new(location);
    let builder = OpBuilder::new(context, &module, location);
    builder.set_machine(options.machine);
    let program = Program {
        builder: &builder,
        table: BufferTable::new(assignment),
        overwritten: assignment.places.iter().map(|place| place.buffer).collect(),
        options,
        mappings,
        functions: Cell::new(0),
        names: RefCell::default(),
        kernel_names: KernelNames::default(),
        steps: RefCell::default(),
        packed: RefCell::default(),
    };
    let body = |memory: &FunctionMemory<'_, 'c>| {
        program.computation(entry, &assignment.entry, memory)?;
        program.outputs(entry, assignment, memory)
    };
    // Only loops gain by buffers that are parameters, which are known not to overlap; each function takes time to compile.
    if entry.instructions.iter().any(|instruction| lowering_of(instruction) == Lowering::Branches) {
        let parameters = program.function(PROGRAM, body)?;
        program.entry_function(&parameters)?;
    } else {
        program.whole_function(body)?;
    }
    let code = CodeInterface { steps: program.steps.take(), packed: program.packed.take() };
    Ok((module, code))
}

/// Rejects what has no lowering, before any code exists.
pub(crate) fn check_supported(computation: &Computation, calls: CallOptions, platform: &'static str) -> Result<()> {
    for instruction in &computation.instructions {
        check_instruction(computation, instruction, calls, platform)?;
        if lowering_of(instruction) == Lowering::Branches {
            instruction.computations.iter().try_for_each(|nested| check_supported(nested, calls, platform))?;
        }
    }
    Ok(())
}

/// As [`check_supported`], of one instruction without those nested in it.
pub(crate) fn check_instruction(
    computation: &Computation,
    instruction: &Instruction,
    calls: CallOptions,
    platform: &'static str,
) -> Result<()> {
    let unsupported = |what: String| {
        Err(LoweringError::Unsupported { op: instruction.kind, platform, what, instruction: instruction.name.clone() })
    };
    if instruction.shape.leaves().iter().any(|leaf| leaf.as_array().is_some_and(ArrayShape::is_dynamic)) {
        return unsupported("dynamic dimensions".into());
    }
    match lowering_of(instruction) {
        Lowering::None | Lowering::Branches => Ok(()),
        Lowering::Kernel => check_elements(instruction, platform),
        Lowering::Call => library_calls::check(computation, instruction, calls).or_else(unsupported),
        Lowering::Loops => unsupported("it stands in no fusion, as hlo-fuse makes them".into()),
        Lowering::Replaced => unsupported("a pass before this one replaces it".into()),
    }
}

/// Rejects what has no code among the elementwise operations of a kernel.
pub(crate) fn check_elements(instruction: &Instruction, platform: &'static str) -> Result<()> {
    let result = instruction.shape.as_array().map(|array| array.element_type);
    if let Some(what) = result.and_then(|result| scalar::refusal(instruction.kind, result)) {
        let (op, what, instruction) = (instruction.kind, what.to_string(), instruction.name.clone());
        return Err(LoweringError::Unsupported { op, platform, what, instruction });
    }
    let mut nested = instruction.computations.iter().flat_map(|computation| &computation.instructions);
    nested.try_for_each(|nested| check_elements(nested, platform))
}

/// Whether an instruction needs no code: its value is its operands', or comes from outside.
pub fn is_free(instruction: &Instruction) -> bool {
    lowering_of(instruction) == Lowering::None
}

/// How an instruction that is in no fusion becomes code.
pub(crate) fn lowering_of(instruction: &Instruction) -> Lowering {
    if is_alias(instruction) { Lowering::None } else { definition(instruction.kind).lowering }
}

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

/// Emits one program.
pub(crate) struct Program<'p, 'c> {
    pub(crate) builder: &'p OpBuilder<'c>,
    pub(crate) table: BufferTable,
    pub(crate) options: LoopOptions,
    mappings: Mappings<'c>,
    functions: Cell<usize>,
    /// Names of functions and constants of the module by what they are.
    names: RefCell<HashMap<String, String>>,
    kernel_names: KernelNames,
    /// The steps of the profile.
    pub(crate) steps: RefCell<Vec<ProfiledStep>>,
    /// Buffers that results are written to, those of parameters among them.
    overwritten: HashSet<Buffer>,
    /// The parameters that products take packed.
    packed: RefCell<Vec<PackedParameter>>,
}

impl<'c> Program<'_, 'c> {
    /// A name that nothing else has.
    pub(crate) fn fresh_name(&self, prefix: &str) -> String {
        format!("{prefix}_{}", self.functions.replace(self.functions.get() + 1))
    }

    /// The name of what `define` makes at module level for a key, made at its first use.
    pub(crate) fn named_once(
        &self,
        key: &str,
        prefix: &str,
        define: impl FnOnce(&str) -> Result<()>,
    ) -> Result<String> {
        self.defined_once(key, || self.fresh_name(prefix), define)
    }

    pub(crate) fn defined_once(
        &self,
        key: &str,
        fresh: impl FnOnce() -> String,
        define: impl FnOnce(&str) -> Result<()>,
    ) -> Result<String> {
        if let Some(name) = self.names.borrow().get(key) {
            return Ok(name.clone());
        }
        let name = fresh();
        self.builder.at_module_level(|_| define(&name))?;
        self.names.borrow_mut().insert(key.to_string(), name.clone());
        Ok(name)
    }

    /// The name of an instruction's kernel. It has a dot in it, which no other symbol has.
    pub(crate) fn kernel_symbol(&self, instruction: &Instruction) -> String {
        let mut name = instruction.name.clone();
        if !name.contains('.') {
            name.push_str(".kernel");
        }
        let unique = self.kernel_names.unique(name, '.');
        self.kernel_names.take(task_symbol(&unique));
        unique
    }

    /// The instructions of a computation, in order.
    pub(crate) fn computation(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let steps = |id: &InstructionId| steps_of(computation, computation.get(*id));
        let are_many = |filter: fn(Lowering) -> bool| {
            let counted = computation.iter().filter(|(_, own)| filter(lowering_of(own)));
            counted.map(|(id, _)| steps(&id)).sum::<usize>() > STEPS_PER_FUNCTION
        };
        let divides_branches = are_many(|own| own == Lowering::Branches);
        let divides_kernels = divides_branches || are_many(|own| matches!(own, Lowering::Kernel | Lowering::Call));
        let mut pending: Vec<InstructionId> = Vec::new();
        let flush = |pending: &mut Vec<InstructionId>| -> Result<()> {
            groups(&std::mem::take(pending), steps).into_iter().filter(|group| !group.is_empty()).try_for_each(
                |group| {
                    self.part(memory, |memory| {
                        group.iter().try_for_each(|&id| self.instruction(computation, buffers, id, memory))
                    })
                },
            )
        };
        for (id, instruction) in computation.iter() {
            let is_divided = match lowering_of(instruction) {
                Lowering::None => continue,
                Lowering::Branches => divides_branches,
                _ => divides_kernels,
            };
            if is_divided {
                pending.push(id);
            } else {
                flush(&mut pending)?;
                self.instruction(computation, buffers, id, memory)?;
            }
        }
        flush(&mut pending)
    }

    /// An instruction that needs code, as a step of the profile.
    fn instruction(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        id: InstructionId,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let instruction = computation.get(id);
        let emit = || match (lowering_of(instruction), instruction.kind) {
            (Lowering::Kernel | Lowering::Call, _) => self.kernel(computation, buffers, id, memory),
            (Lowering::Branches, OpKind::While) => self.run_while(instruction, id, buffers, memory),
            (Lowering::Branches, _) => self.run_conditional(computation, instruction, id, buffers, memory),
            _ => Err(LoweringError::bug(format!("`{}` was not refused", instruction.name))),
        };
        self.step(|| step_of(computation, instruction), memory, emit)
    }

    /// Arrays of the leaves of an instruction.
    pub(crate) fn arrays(
        &self,
        instruction: &Instruction,
        slices: &[Slice],
        memory: &FunctionMemory<'_, 'c>,
    ) -> Vec<ArrayRef<'c>> {
        self.arrays_of(&instruction.shape, slices, memory)
    }

    fn arrays_of(&self, shape: &Shape, slices: &[Slice], memory: &FunctionMemory<'_, 'c>) -> Vec<ArrayRef<'c>> {
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
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let instruction = computation.get(id);
        if lowering_of(instruction) == Lowering::Call {
            return self.library_call(computation, buffers, id, memory);
        }
        let [mut inputs, mut outputs] = kernel_slices(computation, buffers, id);
        for (operand, [from, to]) in base_copies(computation, buffers, id) {
            self.copy(&computation.get(operand).shape, &from, &to, memory)?;
        }
        let mappings = mapping::of(&self.mappings, instruction)?;
        if mappings.is_empty() {
            return Ok(());
        }
        let body = kernel_body(computation, instruction);
        let bits = MovedBits::of(&body);
        let body = bits.as_ref().map_or(&*body, |bits| &bits.computation);
        let shapes = bits.as_ref().map(|bits| [&inputs, &outputs].map(|arrays| bits.shapes(arrays)));
        if let Some([read, written]) = &shapes {
            for (array, shape) in inputs.iter_mut().zip(read).chain(outputs.iter_mut().zip(written)) {
                array.0 = shape;
            }
        }
        let wide = WideConcatenate::of(body)?;
        let cost_of_loops = cost(self.builder.context(), body);
        let scores = Attention::of_body(body).map(|attention| body.get(attention.scores));
        let scores_type = scores.and_then(|scores| scores.shape.as_array()).map(|shape| shape.element_type);
        let outer = self.builder.set_location(instruction_location(self.builder.context(), instruction));
        self.in_parts(mappings, WorkMapping::pieces, memory, |mappings_here, memory| {
            for mapping in mappings_here {
                let part = part_of_mapping(body, wide.as_ref(), mapping);
                let (body, inputs) = (&*part.body, part.inputs_of(&inputs));
                let arrays = KernelArrays::new(self, memory, &inputs, &outputs);
                let shared = shared_arrays(&inputs, &outputs);
                let key = || {
                    let structure = self.kernel_names.number_of(body.structure());
                    let WorkMapping { map, dimensions, inner_lanes, overlap, rows } = mapping;
                    format!("kernel {structure} {shared:?} {map} {dimensions:?} {inner_lanes} {overlap} {rows:?}")
                };
                let (product, attention);
                let mut packed = None;
                let (code, cost) = match body.root().kind {
                    OpKind::Scatter => (Code::Scatter(body), cost_of_loops),
                    _ if !mapping.map.ranges().is_empty() && scores_type.is_some() => {
                        attention = self.attention(instruction, mapping, scores_type)?;
                        (Code::Attention(&attention, body), attention.cost())
                    }
                    _ if !mapping.map.ranges().is_empty() => {
                        product = self.product(computation, instruction, mapping)?;
                        packed = self.packed_parameter(&product, &inputs);
                        (Code::Product(&product, body), product.cost())
                    }
                    _ => (Code::Loops(body), cost_of_loops / mappings.len() as i64),
                };
                let (key, arrays, shared) = (&key, &arrays, &shared);
                let kernel = Kernel { key, code, arrays, mapping, cost, shared, packed };
                self.call_kernel(instruction, &kernel, memory)?;
            }
            Ok(())
        })?;
        self.builder.set_location(outer);
        Ok(())
    }

    /// An attention whose tasks are mapped, and whose scores are of a type.
    fn attention(
        &self,
        instruction: &Instruction,
        mapping: &WorkMapping<'c>,
        scores_type: Option<ElementType>,
    ) -> Result<AttentionKernel> {
        let recognise = |element_type: ElementType| {
            let bits = element_type.bit_width() * mapping.inner_lanes;
            AttentionKernel::recognise(self.builder.context(), instruction, bits, self.options.machine)
        };
        scores_type
            .and_then(recognise)
            .filter(|attention| mapping.dimensions.len() == 1 && mapping.iterations(0) == attention.tasks())
            .ok_or_else(|| {
                invalid(format!("`{}`: it is no attention of as many tasks as its mapping has", instruction.name))
            })
    }

    /// A product whose tasks are mapped.
    fn product(
        &self,
        computation: &Computation,
        instruction: &Instruction,
        mapping: &WorkMapping<'c>,
    ) -> Result<MatMul> {
        let recognise = |element_type: ElementType| {
            let bits = element_type.bit_width() * mapping.inner_lanes;
            matmul::recognise(self.builder.context(), computation, instruction, bits, self.options.machine)
        };
        matmul::product_type(instruction)
            .and_then(recognise)
            .filter(|product| mapping.dimensions.len() == 1 && mapping.iterations(0) == product.tasks())
            .ok_or_else(|| {
                invalid(format!("`{}`: it is no product of as many tasks as its mapping has", instruction.name))
            })
    }

    /// The parameter that a product takes packed where an earlier run has packed it: one that nothing writes to. A parameter is
    /// packed in one way, that of the first product.
    fn packed_parameter(&self, product: &MatMul, inputs: &[(&ArrayShape, Slice)]) -> Option<usize> {
        let (_, slice) = inputs.get(product.packable_input()?)?;
        let Buffer::Parameter(parameter) = slice.buffer else { return None };
        if slice.offset != 0 || self.overwritten.contains(&slice.buffer) {
            return None;
        }
        let packed = product.packed_as(parameter as usize)?;
        let mut all = self.packed.borrow_mut();
        match all.iter().find(|other| other.parameter == packed.parameter) {
            Some(other) => (*other == packed).then_some(packed.parameter),
            None => {
                let parameter = packed.parameter;
                all.push(packed);
                Some(parameter)
            }
        }
    }

    /// Copies leaves whose slices differ.
    fn copy(&self, shape: &Shape, from: &[Slice], to: &[Slice], memory: &FunctionMemory<'_, 'c>) -> Result<()> {
        let leaves = shape.leaves().into_iter().zip(from.iter().copied()).zip(to.iter().copied());
        let copies: Vec<(&ArrayShape, [Slice; 2])> = leaves
            .filter_map(|((leaf, from), to)| Some((leaf.as_array()?, [from, to])))
            .filter(|(array, [from, to])| from != to && array.byte_size() > 0)
            .collect();
        self.in_parts(
            &copies,
            |_| 1,
            memory,
            |copies, memory| {
                for &(array, slices) in copies {
                    if array.byte_size() >= BYTES_OF_PARALLEL_COPY {
                        self.copy_in_parallel(array, slices, memory);
                        continue;
                    }
                    self.copy_array(&slices.map(|slice| memory.array(self.builder, &self.table, slice, array)));
                }
                Ok(())
            },
        )
    }

    /// Copies an array on the runtime's threads.
    fn copy_in_parallel(&self, array: &ArrayShape, slices: [Slice; 2], memory: &FunctionMemory<'_, 'c>) {
        let builder = self.builder;
        let (pointer, i64_type) = (pointer_type(builder), builder.integer_type(64));
        builder.define_once(COPY, |builder| {
            builder.declare_function(COPY, &[pointer, pointer, pointer, i64_type], &[]);
        });
        let [from, to] = slices.map(|slice| pointer_to(builder, memory.address(builder, &self.table, slice, array)));
        let bytes = builder.constant_integer(i64_type, array.byte_size() as i64);
        builder.call(COPY, &[memory.context(builder), from, to, bytes], &[]);
    }

    /// Copies an array; one of one element in a register, in which LLVM can keep it.
    fn copy_array(&self, [from, to]: &[ArrayRef<'c>; 2]) {
        let builder = self.builder;
        if from.parts() > 1 || from.dimensions.iter().any(|&size| size != 1) {
            return builder.effect("memref.copy", &[from.memref, to.memref], &[]);
        }
        let place: Vec<Value<'c>> = from.dimensions.iter().map(|_| builder.constant_index(0)).collect();
        let element = builder.plain_load(from.memref, &place, memory_type(builder, from.element_type));
        builder.plain_store(element, to.memref, &place);
    }

    /// Copies leaves whose slices differ, as a step of its own.
    pub(crate) fn copy_step(
        &self,
        name: &str,
        shape: &Shape,
        from: &[Slice],
        to: &[Slice],
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let bytes = from.iter().zip(to).filter(|(from, to)| from != to).map(|(from, _)| from.size).sum();
        if bytes == 0 {
            return Ok(());
        }
        self.step(|| Ok(ProfiledStep::copy_for(name, bytes)), memory, || self.copy(shape, from, to, memory))
    }

    /// Brings results that are parameters, constants or used twice to their places.
    fn outputs(
        &self,
        entry: &Computation,
        assignment: &BufferAssignment,
        memory: &FunctionMemory<'_, 'c>,
    ) -> Result<()> {
        let root = entry.root();
        result_copies(entry, assignment)
            .iter()
            .try_for_each(|[from, to]| self.copy_step(&root.name, &root.shape, from, to, memory))
    }
}

/// The step of a profile that an instruction is.
fn step_of(computation: &Computation, instruction: &Instruction) -> Result<ProfiledStep> {
    ProfiledStep::of(computation, instruction).map_err(|error| LoweringError::bug(error.to_string()))
}

/// Whether each of a kernel's arrays shares bytes with another, of which at least one is written.
pub(crate) fn shared_arrays(inputs: &[(&ArrayShape, Slice)], outputs: &[(&ArrayShape, Slice)]) -> Vec<bool> {
    let mut shared = vec![false; inputs.len() + outputs.len()];
    for (number, (_, output)) in outputs.iter().enumerate() {
        let output_place = inputs.len() + number;
        for (place, (_, other)) in inputs.iter().chain(&outputs[..number]).enumerate() {
            if overlap(*output, *other) {
                shared[place] = true;
                shared[output_place] = true;
            }
        }
    }
    shared
}

/// Whether two slices share bytes.
pub(crate) fn overlap(a: Slice, b: Slice) -> bool {
    a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size
}

/// What a kernel computes: the body of a fusion, or an instruction as a computation of its own, its operands as parameters.
pub(crate) fn kernel_body<'a>(computation: &Computation, instruction: &'a Instruction) -> Cow<'a, Computation> {
    if instruction.kind == OpKind::Fusion {
        return Cow::Borrowed(&instruction.computations[0]);
    }
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
        single.instructions.push(Instruction::parameter(&source.name, source.shape.clone(), number));
    }
    let mut own = instruction.clone();
    own.operands = (0..instruction.operands.len() as u32).map(InstructionId).collect();
    single.instructions.push(own);
    Cow::Owned(single)
}
