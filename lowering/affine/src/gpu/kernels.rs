//! Kernels: the loops of fusions as functions of the GPU's module, with a launch for each use.

use hlo::graph::{Computation, InstructionId};
use hlo::launch_plan::{Launch, LaunchArgument, PlanStep};
use hlo::mapping::{WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval, ceil_div};
use melior::ir::Type;
use melior::ir::attribute::{Attribute, DenseI32ArrayAttribute, TypeAttribute};
use melior::ir::r#type::{DimSize, FunctionType, IntegerType, MemRefType, ShapedTypeLike, TypeLike};
use mlir_ext::builder::{Body, OpBuilder, Value};
use mlir_ext::control::AffineConditions;
use mlir_ext::gpu::given_shared_memory;
use passes::assign_buffers::{ComputationBuffers, Slice};

use super::{GpuProgram, PLATFORM, Result};
use crate::elemental::{Elemental, instruction_location};
use crate::error::LoweringError;
use crate::kernel::emit_fusion;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::mapping;
use crate::memory::{ArrayRef, MAX_ARGUMENTS, array_type};
use crate::program::{kernel_body, kernel_slices, shared_arrays, structure};
use crate::scatter::emit_scatter;
use crate::scope::Binding;
use crate::team::{ALIGNMENT, TeamShape};
use crate::tiles::{emit_tiles, tile_grid};

/// What a kernel works on: arrays with their places, those that it reads and those that it writes.
pub(super) struct KernelArrays<'k> {
    pub inputs: Vec<(&'k ArrayShape, Slice)>,
    pub outputs: Vec<(&'k ArrayShape, Slice)>,
    /// Whether threads read what others have written.
    pub are_exchanged: bool,
}

/// A kernel that there is.
#[derive(Clone)]
pub(super) struct Kernel {
    pub name: String,
    /// Bytes of shared memory that its launches give it.
    pub shared: u32,
}

impl KernelArrays<'_> {
    fn all(&self) -> impl Iterator<Item = &(&ArrayShape, Slice)> {
        self.inputs.iter().chain(&self.outputs)
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
        let arrays = KernelArrays { inputs, outputs, are_exchanged: false };
        let mappings = mapping::of(&self.mappings, instruction)?;
        let body = kernel_body(computation, instruction);
        let body = &*body;
        let structure = self.kernel_names.number_of(structure(body));
        let mut steps = Vec::with_capacity(mappings.len());
        for mapping in mappings {
            let WorkMapping { map, dimensions, rows, .. } = mapping;
            let key = format!("{structure} {map} {dimensions:?} {rows:?}");
            let kernel =
                self.kernel(computation, id, &arrays, (&key, &[]), &|builder, inputs, outputs, function| {
                    match instruction.kind {
                        OpKind::Scatter => emit_scatter(builder, body, mapping, inputs.into(), outputs),
                        _ if tile_grid(mapping).is_some() => {
                            emit_tiles(builder, body, mapping, inputs, outputs, function)
                        }
                        _ => emit_fusion(builder, body, mapping, inputs.into(), outputs, None, Some(function)),
                    }
                })?;
            let (blocks, threads) = grid(mapping);
            let arguments = arrays.all().map(|(_, slice)| LaunchArgument::Array(*slice)).collect();
            let Kernel { name: kernel, shared } = kernel;
            steps.push(PlanStep::Launch(Launch { kernel, blocks, threads, shared, arguments }));
        }
        Ok(steps)
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
        if shapes.len() > MAX_ARGUMENTS {
            return Err(LoweringError::Unsupported {
                op: instruction.kind,
                platform: PLATFORM,
                what: format!("a kernel of {} arrays, more than {MAX_ARGUMENTS}", shapes.len()),
                instruction: instruction.name.clone(),
            });
        }
        let builder = self.builder;
        let mut types: Vec<Type<'c>> = shapes.iter().map(|shape| array_type(builder, shape)).collect();
        types.extend(numbers);
        let outer = builder.set_location(instruction_location(builder.context(), instruction));
        let (region, all_types) = builder.function_region(&types, |builder, function| {
            let parameters = function.parameters();
            let mut all: Vec<ArrayRef<'c>> =
                parameters.iter().zip(&shapes).map(|(&memref, shape)| ArrayRef::new(memref, shape)).collect();
            for (array, &alignment) in all.iter_mut().zip(&alignments) {
                array.alignment = Some(alignment);
            }
            let (inputs, outputs) = all.split_at(arrays.inputs.len());
            emit(builder, inputs, outputs, function)?;
            builder.effect("gpu.return", &[], &[]);
            Ok::<_, LoweringError>(())
        })?;
        let name = self.kernel_symbol(instruction);
        let mut attributes: Vec<&str> = Vec::with_capacity(types.len());
        attributes.extend(shared.iter().enumerate().map(|(number, &is_shared)| match is_shared {
            true => "{}",
            false if number < arrays.inputs.len() => "{llvm.noalias, llvm.readonly}",
            false => "{llvm.noalias}",
        }));
        attributes.resize(types.len(), "{}");
        let attributes = format!("[{}]", attributes.join(", "));
        let attributes = Attribute::parse(builder.context(), &attributes)
            .ok_or_else(|| LoweringError::bug("attributes of arguments"))?;
        let r#type = FunctionType::new(builder.context(), &types, &[]);
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
        builder.operation(
            "gpu.func",
            &[],
            &[],
            &[
                ("sym_name", builder.string_attribute(&name)),
                ("function_type", TypeAttribute::new(r#type.into()).into()),
                ("arg_attrs", attributes),
                ("gpu.kernel", Attribute::unit(builder.context())),
                // So that registers suffice for all of them.
                ("nvvm.maxntid", DenseI32ArrayAttribute::new(builder.context(), &[BLOCK_SIZE as i32]).into()),
                ("workgroup_attributions", shared_arrays),
                ("workgroup_attrib_attrs", aligned),
            ],
            vec![region],
        );
        builder.set_location(outer);
        let kernel = Kernel { name, shared: given };
        self.kernels.borrow_mut().insert(key, kernel.clone());
        Ok(kernel)
    }
}

/// Bytes of an array in shared memory.
fn shared_bytes(r#type: Type<'_>) -> Result<u64> {
    let array = MemRefType::try_from(r#type).map_err(|error| LoweringError::bug(error.to_string()))?;
    let element = array.element();
    let bits = match IntegerType::try_from(element) {
        Ok(integer) => u64::from(integer.width()),
        Err(_) if element.is_f64() => 64,
        Err(_) if element.is_f32() => 32,
        Err(_) => 16,
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
            (ceil_div(mapping.iterations(), first.tile) as u64, first.tile as u32)
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

/// The number of a block in the grid, or of a thread in its block.
fn id<'c>(builder: &OpBuilder<'c>, name: &str, bound: i64) -> Result<Value<'c>> {
    let x = Attribute::parse(builder.context(), "#gpu<dim x>").ok_or_else(|| LoweringError::bug("#gpu<dim x>"))?;
    let bound = builder.integer_attribute(builder.index_type, bound);
    let attributes = [("dimension", x), ("upper_bound", bound)];
    Ok(builder.as_symbols(|builder| builder.value(name, &[], builder.index_type, &attributes)))
}
