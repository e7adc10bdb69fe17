//! From a module to loops: the order of passes, and the options that choose among them.

use hlo::graph::{Computation, Module};
use lowering_loops::program::{LoopOptions, lower_program};
use lowering_llvm::Target;
use melior::Context;
use passes::buffer_assignment::{BufferAssignment, assign_buffers};
use passes::{fuse_loops, inline_calls};

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
/// Those of verification and of inlining.
pub fn plan(module: &Module) -> Result<Planned, Error> {
    let mut module = module.clone();
    inline_calls::inline_calls(&mut module)?;
    fuse_loops::fuse_module(&mut module);
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
    let options = LoopOptions { vector_bits: target.vector_bits(), parallel };
    Ok(lower_program(context, &planned.entry, &planned.buffers, options)?)
}
