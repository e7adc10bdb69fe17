//! From a module to loops: the order of passes, and the options that choose among them.

use exec::runtime::vector_math;
use hlo::devices::check_one_device;
use hlo::dialect;
use hlo::graph::{Computation, Module};
use lowering_affine::program::{LoopOptions, Machine, lower_program};
use lowering_llvm::Target;
use melior::Context;
use passes::assign_buffers::BufferAssignment;

use crate::error::Error;

/// How to compile.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Whether code may be more precise than the program says, as XLA's is: a product that is added to something is
    /// not rounded first (one fused multiply-add), and neither is a bf16 result that is converted to f32. Without it every
    /// operation is rounded by itself, so that results are those of the evaluator. On by default.
    pub excess_precision: bool,
    /// Verify the IR between phases: for finding bugs of the compiler.
    pub verify: bool,
    /// Threads that compile; 0 for as many as the machine runs at once.
    pub compile_threads: usize,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions { excess_precision: true, verify: false, compile_threads: 0 }
    }
}

/// A program ready for lowering: one computation, fused, with its buffers.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The entry computation.
    pub entry: Computation,
    /// Where its values live.
    pub buffers: BufferAssignment,
}

/// Runs the passes on a module.
///
/// # Errors
/// Those of verification and of the passes.
pub fn plan(module: &Module) -> Result<Planned, Error> {
    plan_in(&dialect::context(), module, &CompileOptions::default())
}

/// As [`plan`], in a given MLIR context; with [`CompileOptions::verify`], the program is verified after each pass.
///
/// # Errors
/// Those of verification and of the passes.
pub fn plan_in(context: &Context, module: &Module, options: &CompileOptions) -> Result<Planned, Error> {
    check_one_device(module)?;
    let program = dialect::graph_to_mlir(context, module)?;
    let pipeline = passes::pipeline::of_compilation(options.excess_precision);
    passes::pipeline::run(&program, &pipeline, options.verify)?;
    let mut module = dialect::mlir_to_graph(&program)?;
    let entry = module.functions.swap_remove(module.entry.index());
    let buffers = passes::assign_buffers::assign_buffers(&entry);
    Ok(Planned { entry, buffers })
}

/// Runs the passes on a module, the assignment of buffers included.
///
/// # Errors
/// Those of verification and of the passes.
pub(crate) fn assign_buffers<'c>(
    context: &'c Context,
    module: &Module,
    options: &CompileOptions,
) -> Result<melior::ir::Module<'c>, Error> {
    check_one_device(module)?;
    let program = dialect::graph_to_mlir(context, module)?;
    let mut pipeline = passes::pipeline::of_compilation(options.excess_precision);
    pipeline.steps.extend(passes::pipeline::parse("hlo-assign-buffers").steps);
    passes::pipeline::run(&program, &pipeline, options.verify)?;
    Ok(program)
}

/// Emits the loops of a planned program, large ones for several threads if `parallel`. Of the options,
/// [`CompileOptions::excess_precision`] matters.
///
/// # Errors
/// For operations without a lowering.
pub fn emit_loops<'c>(
    context: &'c Context,
    planned: &Planned,
    target: &Target,
    parallel: bool,
    options: &CompileOptions,
) -> Result<melior::ir::Module<'c>, Error> {
    let options = loop_options(target, parallel, options);
    Ok(lower_program(context, &planned.entry, &planned.buffers, options)?)
}

/// What lowering needs to know of the target and of the options.
pub(crate) fn loop_options(target: &Target, parallel: bool, options: &CompileOptions) -> LoopOptions {
    let machine = Machine {
        scales_vectors: target.has_feature("avx512f") && target.has_feature("avx512vl"),
        vector_library_bits: vector_math::widest_vector_bits().min(target.vector_bits()),
        contracts_products: options.excess_precision,
    };
    let custom_calls = exec::runtime::custom_call::is_registered;
    LoopOptions { vector_bits: target.vector_bits(), parallel, machine, custom_calls }
}
