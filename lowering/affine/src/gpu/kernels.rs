//! Kernels: the loops of fusions as functions of the GPU's module, with a launch for each use.

use std::cell::RefCell;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::launch_plan::{Launch, LaunchArgument, PlanStep};
use hlo::mapping::{WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval, ceil_div};
use melior::ir::Type;
use melior::ir::attribute::{Attribute, DenseI32ArrayAttribute, TypeAttribute};
use melior::ir::r#type::{DimSize, FunctionType, IntegerType, MemRefType, ShapedTypeLike, TypeLike};
use mlir_ext::builder::{Body, OpBuilder, Region, Value};
use mlir_ext::control::AffineConditions;
use mlir_ext::gpu::given_shared_memory;
use passes::assign_buffers::{ComputationBuffers, Slice};

use super::{GpuProgram, PLATFORM, Result};
use crate::elemental::{Elemental, instruction_location};
use crate::error::LoweringError;
use crate::kernel::emit_fusion;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::mapping;
use crate::memory::{ArrayRef, ArraysOnDemand, Inputs, MAX_ARGUMENTS, array_type};
use crate::program::{kernel_body, kernel_slices, shared_arrays};
use crate::scatter::emit_scatter;
use crate::scope::Binding;
use crate::team::{ALIGNMENT, TeamShape};
use crate::tiles::{BoxKernel, ParameterBoxes, emit_tiles, tile_grid, tile_limits};
use crate::wide_concatenate::{WideConcatenate, part_of_mapping};

/// Arrays of a kernel, at most: their addresses, and a number, are what PTX has room for.
pub(super) const MOST_ARRAYS: usize = 4094;

/// What a kernel works on: arrays with their places, those that it reads and those that it writes.
pub(super) struct KernelArrays<'k> {
    pub inputs: Vec<(&'k ArrayShape, Slice)>,
    pub outputs: Vec<(&'k ArrayShape, Slice)>,
    /// Whether threads read what others have written.
    pub are_exchanged: bool,
    /// Threads of a block, and blocks of a multiprocessor, that registers must suffice for, where that is not the usual: else the
    /// assembler may keep some in memory, to make room for further blocks.
    pub limits: Option<[i64; 2]>,
}

/// A kernel that there is.
#[derive(Clone)]
pub(super) struct Kernel {
    pub name: String,
    /// Bytes of shared memory that its launches give it.
    pub shared: u32,
}

impl Kernel {
    /// A launch of it.
    pub fn launch(self, blocks: u64, threads: u32, arguments: Vec<LaunchArgument>) -> PlanStep {
        let of = Vec::new();
        PlanStep::Launch(Launch { kernel: self.name, blocks, threads, shared: self.shared, arguments, of })
    }
}

impl KernelArrays<'_> {
    fn all(&self) -> impl Iterator<Item = &(&ArrayShape, Slice)> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// What a launch passes for them.
    pub(super) fn arguments(&self) -> Vec<LaunchArgument> {
        let slice = |(_, slice): &(&ArrayShape, Slice)| *slice;
        LaunchArgument::arrays(self.inputs.iter().map(slice), self.outputs.iter().map(slice))
    }
}

impl<'c> GpuProgram<'_, 'c> {
    /// The launches of an instruction's kernels.
    pub(super) fn kernels(
        &self,
        computation: &Computation,
        buffers: &ComputationBuffers,
        id: InstructionId,
    ) -> Result<Vec<PlanStep>> {
        let instruction = computation.get(id);
        let [inputs, outputs] = kernel_slices(computation, buffers, id);
        let mappings = mapping::of(&self.mappings, instruction)?;
        let body = kernel_body(computation, instruction);
        let wide = WideConcatenate::of(&body)?;
        let mut steps = Vec::with_capacity(mappings.len());
        for mapping in mappings {
            let part = part_of_mapping(&body, wide.as_ref(), mapping);
            let (inputs, outputs) = (part.inputs_of(&inputs).into_owned(), outputs.clone());
            let body = &*part.body;
            let limits = tile_limits(self.builder.context(), body, mapping);
            let mut arrays = KernelArrays { inputs, outputs, are_exchanged: false, limits };
            let structure = self.kernel_names.number_of(body.structure());
            let (blocks, threads) = grid(mapping);
            if arrays.all().count() > MAX_ARGUMENTS && is_of_single_threads(mapping) {
                let emit: EmitByNeed<'_, 'c> = &|builder, inputs, outputs, function| {
                    emit_loops(builder, (body, mapping), inputs, outputs, function)
                };
                let (kernel, arguments) = self.kernel_by_need(computation, id, &arrays, emit)?;
                steps.push(kernel.launch(blocks, threads, arguments));
                continue;
            }
            let boxes = self.boxes(body, mapping, &arrays)?;
            let mapping = boxes.as_ref().map_or(mapping, |own| &own.mapping);
            let (blocks, threads) = match &boxes {
                Some(own) => {
                    arrays.limits = Some(own.limits);
                    (grid(mapping).0, own.limits[0] as u32)
                }
                None => (blocks, threads),
            };
            let descriptions: Vec<LaunchArgument> = boxes.iter().flat_map(|own| box_arguments(own, &arrays)).collect();
            let WorkMapping { map, dimensions, rows, .. } = mapping;
            let key = format!("{structure} {map} {dimensions:?} {rows:?}");
            let addresses = vec![self.builder.integer_type(64); descriptions.len()];
            let kernel =
                self.kernel(computation, id, &arrays, (&key, &addresses), &|builder, inputs, outputs, function| {
                    match tile_grid(mapping) {
                        Some(_) => {
                            let descriptions = &function.parameters()[arrays.all().count()..];
                            emit_tiles(builder, body, mapping, (inputs, outputs), (function, descriptions))
                        }
                        None => emit_loops(builder, (body, mapping), inputs.into(), outputs, function),
                    }
                })?;
            let arguments = [arrays.arguments(), descriptions].concat();
            steps.push(kernel.launch(blocks, threads, arguments));
        }
        Ok(steps)
    }

    /// How a fusion's operands are copied in boxes, if they are.
    fn boxes(
        &self,
        body: &Computation,
        mapping: &WorkMapping<'c>,
        arrays: &KernelArrays<'_>,
    ) -> Result<Option<BoxKernel<'c>>> {
        if tile_grid(mapping).is_none() {
            return Ok(None);
        }
        let alignment = |input: usize| arrays.inputs.get(input).map_or(0, |(_, slice)| alignment(slice));
        BoxKernel::of(self.builder.context(), body, mapping, self.builder.machine(), &alignment)
    }

    /// The kernel of an instruction, of some arrays and further numbers of some types. One with the same `key`
    /// and arrays that share memory in the same way does.
    pub(super) fn kernel(
        &self,
        computation: &Computation,
        id: InstructionId,
        arrays: &KernelArrays<'_>,
        (key, numbers): (&str, &[Type<'c>]),
        emit: &dyn Fn(&OpBuilder<'c>, &[ArrayRef<'c>], &[ArrayRef<'c>], &Body<'c>) -> Result<()>,
    ) -> Result<Kernel> {
        let instruction = computation.get(id);
        let mut shared = shared_arrays(&arrays.inputs, &arrays.outputs);
        if arrays.are_exchanged {
            shared.fill(true);
        }
        let alignments: Vec<i64> = arrays.all().map(|(_, slice)| alignment(slice)).collect();
        let key = format!("{key} {shared:?} {alignments:?}");
        if let Some(kernel) = self.kernels.borrow().get(&key) {
            return Ok(kernel.clone());
        }
        let shapes: Vec<&ArrayShape> = arrays.all().map(|(shape, _)| *shape).collect();
        check_count(instruction, shapes.len())?;
        let builder = self.builder;
        let mut types: Vec<Type<'c>> = shapes.iter().map(|shape| array_type(builder, shape)).collect();
        types.extend(numbers);
        let outer = builder.set_location(instruction_location(builder.context(), instruction));
        let (region, all_types) = builder.function_region(&types, |builder, function| {
            let parameters = function.parameters();
            let placed = shapes.iter().zip(&alignments);
            let array = |(&memref, (shape, &alignment)): (_, (&&ArrayShape, _))| {
                ArrayRef::new(memref, shape).aligned(alignment)
            };
            let all: Vec<ArrayRef<'c>> = parameters.iter().zip(placed).map(array).collect();
            let (inputs, outputs) = all.split_at(arrays.inputs.len());
            emit(builder, inputs, outputs, function)?;
            builder.effect("gpu.return", &[], &[]);
            Ok::<_, LoweringError>(())
        })?;
        let mut attributes: Vec<&str> = Vec::with_capacity(types.len());
        let of_array = |(number, &is_shared)| argument_attributes(is_shared, number < arrays.inputs.len());
        attributes.extend(shared.iter().enumerate().map(of_array));
        attributes.resize(types.len(), "{}");
        let kernel = self.define_kernel(instruction, region, &all_types, (&attributes, arrays.limits))?;
        builder.set_location(outer);
        self.kernels.borrow_mut().insert(key, kernel.clone());
        Ok(kernel)
    }

    /// As [`Self::kernel`], of those arrays alone that it comes to need, which are its arguments: for one part of the work with
    /// very many.
    fn kernel_by_need(
        &self,
        computation: &Computation,
        id: InstructionId,
        arrays: &KernelArrays<'_>,
        emit: EmitByNeed<'_, 'c>,
    ) -> Result<(Kernel, Vec<LaunchArgument>)> {
        let (builder, instruction) = (self.builder, computation.get(id));
        let shared = shared_arrays(&arrays.inputs, &arrays.outputs);
        let (of_inputs, of_outputs) = shared.split_at(arrays.inputs.len());
        let array = |memref: Value<'c>, (shape, slice): &(&ArrayShape, Slice)| {
            ArrayRef::new(memref, shape).aligned(alignment(slice))
        };
        let types: Vec<Type<'c>> = arrays.outputs.iter().map(|(shape, _)| array_type(builder, shape)).collect();
        let mut attributes: Vec<&str> = of_outputs.iter().map(|&own| argument_attributes(own, false)).collect();
        let needed = RefCell::new(Vec::new());
        let outer = builder.set_location(instruction_location(builder.context(), instruction));
        let (region, all_types) = builder.function_region(&types, |builder, function| {
            let parameters = function.parameters();
            let outputs: Vec<ArrayRef<'c>> =
                parameters.iter().zip(&arrays.outputs).map(|(&memref, own)| array(memref, own)).collect();
            let inputs = ArraysOnDemand::new(arrays.inputs.len(), |number| {
                needed.borrow_mut().push(number);
                let own = &arrays.inputs[number];
                array(function.add_parameter(array_type(builder, own.0)), own)
            });
            emit(builder, Inputs::OnDemand(&inputs), &outputs, function)?;
            builder.effect("gpu.return", &[], &[]);
            Ok::<_, LoweringError>(())
        })?;
        let needed = needed.into_inner();
        check_count(instruction, all_types.len())?;
        attributes.extend(needed.iter().map(|&number| argument_attributes(of_inputs[number], true)));
        let kernel = self.define_kernel(instruction, region, &all_types, (&attributes, arrays.limits))?;
        builder.set_location(outer);
        let needed = needed.iter().map(|&number| &arrays.inputs[number]);
        let written = LaunchArgument::arrays([], arrays.outputs.iter().map(|(_, slice)| *slice));
        Ok((kernel, [written, LaunchArgument::arrays(needed.map(|(_, slice)| *slice), [])].concat()))
    }

    /// Puts a kernel into the module, with attributes of its arguments, behind which there is memory of each block, and with
    /// [`KernelArrays::limits`].
    fn define_kernel(
        &self,
        instruction: &Instruction,
        region: Region<'c>,
        all_types: &[Type<'c>],
        (attributes, limits): (&[&str], Option<[i64; 2]>),
    ) -> Result<Kernel> {
        let builder = self.builder;
        let name = self.kernel_symbol(instruction);
        let types = &all_types[..attributes.len()];
        let attributes = format!("[{}]", attributes.join(", "));
        let attributes = Attribute::parse(builder.context(), &attributes)
            .ok_or_else(|| LoweringError::bug("attributes of arguments"))?;
        let r#type = FunctionType::new(builder.context(), types, &[]);
        // What was added behind the parameters is memory of each block.
        let sizes =
            all_types[types.len()..].iter().map(|&r#type| shared_bytes(r#type)).collect::<Result<Vec<u64>>>()?;
        let given = given_shared_memory(&sizes).map_or(0, |(_, bytes)| bytes as u32);
        let shared_arrays = sizes.len();
        let aligned = format!("{{llvm.align = {ALIGNMENT} : i64}}");
        let aligned = format!("[{}]", vec![aligned; shared_arrays].join(", "));
        let aligned = Attribute::parse(builder.context(), &aligned)
            .ok_or_else(|| LoweringError::bug("attributes of shared memory"))?;
        let shared_arrays = builder.integer_attribute(builder.integer_type(64), shared_arrays as i64);
        let threads = limits.map_or(BLOCK_SIZE, |[threads, _]| threads);
        let mut all = vec![
            ("sym_name", builder.string_attribute(&name)),
            ("function_type", TypeAttribute::new(r#type.into()).into()),
            ("arg_attrs", attributes),
            ("gpu.kernel", Attribute::unit(builder.context())),
            // So that registers suffice for all of them.
            ("nvvm.maxntid", DenseI32ArrayAttribute::new(builder.context(), &[threads as i32]).into()),
            ("workgroup_attributions", shared_arrays),
            ("workgroup_attrib_attrs", aligned),
        ];
        if let Some([_, blocks]) = limits {
            all.push(("nvvm.minctasm", builder.integer_attribute(builder.integer_type(32), blocks)));
        }
        builder.operation("gpu.func", &[], &[], &all, vec![region]);
        Ok(Kernel { name, shared: given })
    }
}

/// What a kernel gets for the arrays of which boxes are copied.
fn box_arguments(kernel: &BoxKernel<'_>, arrays: &KernelArrays<'_>) -> Vec<LaunchArgument> {
    let argument = |&ParameterBoxes { parameter, first, boxes }: &ParameterBoxes| {
        let Slice { buffer, offset, size } = arrays.inputs[parameter].1;
        LaunchArgument::Boxes(Slice { buffer, offset: offset + first, size: size - first }, boxes)
    };
    kernel.boxes.iter().map(argument).collect()
}

/// Emits a kernel's code.
type EmitByNeed<'e, 'c> = &'e dyn Fn(&OpBuilder<'c>, Inputs<'_, 'c>, &[ArrayRef<'c>], &Body<'c>) -> Result<()>;

/// The code of an instruction's kernel without tiles.
pub(super) fn emit_loops<'a, 'c>(
    builder: &'a OpBuilder<'c>,
    (body, mapping): (&'a Computation, &WorkMapping<'c>),
    inputs: Inputs<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &'a Body<'c>,
) -> Result<()> {
    match body.root().kind {
        OpKind::Scatter => emit_scatter(builder, body, mapping, inputs, outputs),
        _ => emit_fusion(builder, body, mapping, inputs, outputs, None, Some(function)),
    }
}

/// Attributes of an array among the arguments of a kernel.
fn argument_attributes(is_shared: bool, is_input: bool) -> &'static str {
    match (is_shared, is_input) {
        (true, _) => "{}",
        (false, true) => "{llvm.noalias, llvm.readonly}",
        (false, false) => "{llvm.noalias}",
    }
}

/// Refuses a kernel of more arrays than it can be given.
fn check_count(instruction: &Instruction, arrays: usize) -> Result<()> {
    if arrays <= MOST_ARRAYS {
        return Ok(());
    }
    Err(LoweringError::Unsupported {
        op: instruction.kind,
        platform: PLATFORM,
        what: format!("a kernel of {arrays} arrays, more than {MOST_ARRAYS}"),
        instruction: instruction.name.clone(),
    })
}

/// Whether each thread of a kernel works alone, without memory that its block shares.
fn is_of_single_threads(mapping: &WorkMapping<'_>) -> bool {
    mapping.rows.is_none() && tile_grid(mapping).is_none() && TeamShape::of(mapping).is_none()
}

/// Bytes of an array in shared memory.
fn shared_bytes(r#type: Type<'_>) -> Result<u64> {
    let array = MemRefType::try_from(r#type).map_err(|error| LoweringError::bug(error.to_string()))?;
    let element = array.element();
    let bits = match IntegerType::try_from(element) {
        Ok(integer) => u64::from(integer.width()),
        Err(_) if element.is_f64() => 64,
        Err(_) if element.is_f32() => 32,
        Err(_) if element.is_f16() || element.is_bf16() => 16,
        Err(_) => return Err(LoweringError::bug(format!("shared memory of {element}"))),
    };
    let mut bytes = bits.div_ceil(8);
    for dimension in 0..array.rank() {
        match array.dim_size(dimension) {
            Ok(DimSize::Static(size)) => bytes *= size,
            _ => return Err(LoweringError::bug("shared memory without a size")),
        }
    }
    Ok(bytes)
}

/// Bytes that the address of an array is a multiple of, as far as vectors need to know.
fn alignment(slice: &Slice) -> i64 {
    // Of buffers, those of a device begin at multiples of far more.
    ALIGNMENT.min(1 << (slice.offset as i64 | ALIGNMENT).trailing_zeros())
}

/// Blocks and threads of a block that a mapping asks for: one thread where the work cannot be divided.
pub(super) fn grid(mapping: &WorkMapping<'_>) -> (u64, u32) {
    if let Some((blocks, threads)) = tile_grid(mapping) {
        return (blocks as u64, threads as u32);
    }
    if let Some(team) = TeamShape::of(mapping) {
        let elements = mapping.bounds(team.elements()).upper + 1;
        return (ceil_div(elements, team.count) as u64, team.threads() as u32);
    }
    match mapping.dimensions.first() {
        Some(first) if first.kind == WorkKind::Threads => {
            (ceil_div(mapping.iterations(0), first.tile) as u64, first.tile as u32)
        }
        _ => (1, 1),
    }
}

/// The positions within bounds, one a thread: the last block may have threads without any.
pub(crate) fn over_threads<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    bounds: Interval,
    threads: i64,
    body: &mut dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>) -> Result<()>,
) -> Result<()> {
    let builder = emitter.builder;
    let positions = bounds.upper - bounds.lower + 1;
    let blocks = ceil_div(positions, threads);
    let (block, thread) = thread_numbers(emitter, positions, threads, threads)?;
    let number = builder.as_symbols(|builder| emitter.scope.emit(builder, block * threads + thread))?;
    let bounded = emitter.scope.add_variable(Interval::of_size(blocks * threads), Binding::Symbol(number));
    let has_one = emitter.scope.affine_bounds(&[-bounded + (positions - 1)])?;
    let has_one = AffineConditions { values: has_one, equalities: vec![false] };
    builder.affine_if_then(&has_one, |_| {
        let number = emitter.scope.add_variable(Interval::of_size(positions), Binding::Symbol(number));
        body(emitter, number + bounds.lower)
    })
}

/// The numbers of a block in the grid and of a thread in its block, where a block of so many threads takes so many of all
/// positions.
pub(crate) fn thread_numbers<'c>(
    emitter: &mut Elemental<'_, 'c>,
    positions: i64,
    of_block: i64,
    threads: i64,
) -> Result<(Expr<'c>, Expr<'c>)> {
    let mut variable = |name: &str, bound: i64| {
        let value = id(emitter.builder, name, bound)?;
        Ok::<_, LoweringError>(emitter.scope.add_variable(Interval::of_size(bound), Binding::Symbol(value)))
    };
    Ok((variable("gpu.block_id", ceil_div(positions, of_block))?, variable("gpu.thread_id", threads)?))
}

/// The number of a thread in its block.
pub(super) fn thread_id<'c>(builder: &OpBuilder<'c>, threads: i64) -> Result<Value<'c>> {
    id(builder, "gpu.thread_id", threads)
}

/// The number of a block in the grid.
pub(super) fn block_id<'c>(builder: &OpBuilder<'c>, blocks: i64) -> Result<Value<'c>> {
    id(builder, "gpu.block_id", blocks)
}

/// The number of a block in the grid, or of a thread in its block.
fn id<'c>(builder: &OpBuilder<'c>, name: &str, bound: i64) -> Result<Value<'c>> {
    let x = Attribute::parse(builder.context(), "#gpu<dim x>").ok_or_else(|| LoweringError::bug("#gpu<dim x>"))?;
    let bound = builder.integer_attribute(builder.index_type, bound);
    let attributes = [("dimension", x), ("upper_bound", bound)];
    Ok(builder.as_symbols(|builder| builder.value(name, &[], builder.index_type, &attributes)))
}
