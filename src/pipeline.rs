//! From a module to loops: the order of passes, and the options that choose among them.

use exec::runtime::vector_math;
use hlo::dialect;
use hlo::graph::{Computation, Module};
use lowering_llvm::Target;
use lowering_loops::program::{LoopOptions, Machine, lower_program};
use melior::Context;
use passes::buffer_assignment::{BufferAssignment, assign_buffers};
use passes::pipeline::{self, Pipeline, Program};

use crate::error::Error;

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// Verify the IR between phases: for finding bugs of the compiler.
    pub verify: bool,
    /// Threads that compile; 0 for as many as the machine runs at once.
    pub compile_threads: usize,
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
    plan_in(&dialect::context(), module, false)
}

/// As [`plan`], in a given MLIR context; with `verify`, the program is verified after each pass.
///
/// # Errors
/// Those of verification and of the passes.
pub fn plan_in(context: &Context, module: &Module, verify: bool) -> Result<Planned, Error> {
    let program = Program::Graph(module.clone());
    let mut module = Pipeline::parse(pipeline::DEFAULT)?.run(context, program, verify, |_| {})?.into_graph()?;
    let entry = module.functions.swap_remove(module.entry.index());
    let buffers = assign_buffers(&entry);
    Ok(Planned { entry, buffers })
}

/// Emits the loops of a planned program, large ones for several threads if `parallel`.
///
/// # Errors
/// For operations without a lowering.
pub fn emit_loops<'c>(
    context: &'c Context,
    planned: &Planned,
    target: &Target,
    parallel: bool,
) -> Result<melior::ir::Module<'c>, Error> {
    let machine = Machine {
        scales_vectors: target.has_feature("avx512f") && target.has_feature("avx512vl"),
        vector_library_bits: vector_math::widest_vector_bits().min(target.vector_bits()),
    };
    let custom_calls = exec::runtime::custom_call::is_registered;
    let options = LoopOptions { vector_bits: target.vector_bits(), parallel, machine, custom_calls };
    Ok(lower_program(context, &planned.entry, &planned.buffers, options)?)
}
