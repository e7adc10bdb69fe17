//! Programs for GPUs: the kernels of one `gpu.module`, by the emitter that serves CPUs too, and the host's plan of their
//! launches.
//!
//! Values live where the buffer assignment puts them, as on a CPU. What is a call of the runtime there is a call on the host;
//! but sorting, and what there is for small triangular matrices, are kernels.

mod block_sort;
mod control;
mod factors;
mod kernels;
mod plan;
mod radix_sort;
mod sort;
mod sort_order;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use hlo::graph::{Computation, Instruction};
use hlo::launch_plan::LaunchPlan;
use melior::Context;
use melior::ir::{Location, Module};
use mlir_ext::builder::{Machine, OpBuilder};
use passes::assign_buffers::BufferAssignment;

use crate::error::LoweringError;
use crate::kernel_names::KernelNames;
use crate::mapping::Mappings;
use crate::program::{CallOptions, check_supported};

use kernels::Kernel;
pub(crate) use kernels::{over_threads, thread_numbers};

type Result<T> = std::result::Result<T, LoweringError>;

/// Name of the platform in messages.
pub(crate) const PLATFORM: &str = "cuda";

/// A lowered program.
pub(crate) struct LoweredProgram<'c> {
    /// A module with one `gpu.module`.
    pub kernels: Module<'c>,
    pub plan: LaunchPlan,
    /// Bytes of temporary memory, that of kernels which need some for themselves included.
    pub arena_size: usize,
}

/// Lowers an entry computation whose buffers are assigned and whose kernels are mapped.
///
/// # Errors
/// [`LoweringError::Unsupported`] before anything is emitted, for operations without a lowering.
pub(crate) fn lower_program<'c>(
    context: &'c Context,
    entry: &Computation,
    assignment: &BufferAssignment,
    mappings: Mappings<'c>,
    (machine, calls): (Machine, CallOptions),
) -> Result<LoweredProgram<'c>> {
    check_supported(entry, calls, PLATFORM)?;
    crate::load_dialects(context);
    let location = Location::unknown(context);
    let module = Module::new(location);
    let builder = OpBuilder::new(context, &module, location);
    builder.set_machine(machine);
    let program = GpuProgram {
        builder: &builder,
        mappings,
        calls,
        kernel_names: KernelNames::default(),
        kernels: RefCell::default(),
        first_scratch: assignment.arena_size.next_multiple_of(SCRATCH_ALIGNMENT),
        scratch: Cell::new(0),
    };
    let mut plan = LaunchPlan::default();
    // Functions that kernels call stand beside them, in the GPU's module.
    let kernels = builder.module_region(|_| {
        plan.steps = program.entry(entry, assignment)?;
        Ok::<_, LoweringError>(())
    })?;
    let arena_size = match program.scratch.get() {
        0 => assignment.arena_size,
        scratch => program.first_scratch + scratch,
    };
    builder.operation("gpu.module", &[], &[], &[("sym_name", builder.string_attribute("kernels"))], vec![kernels]);
    Ok(LoweredProgram { kernels: module, plan, arena_size })
}

/// Arrays of temporary memory begin at multiples of so many bytes.
const SCRATCH_ALIGNMENT: usize = 256;

/// Emits one program.
struct GpuProgram<'p, 'c> {
    builder: &'p OpBuilder<'c>,
    mappings: Mappings<'c>,
    calls: CallOptions,
    kernel_names: KernelNames,
    /// Kernels by what they compute.
    kernels: RefCell<HashMap<String, Kernel>>,
    /// Where kernels have memory of their own, behind what is assigned.
    first_scratch: usize,
    /// The most bytes that one needs.
    scratch: Cell<usize>,
}

impl GpuProgram<'_, '_> {
    /// A name for an instruction's kernel, of letters, digits and `_`.
    fn kernel_symbol(&self, instruction: &Instruction) -> String {
        let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
        let name = format!("kernel_{}", instruction.name.chars().map(plain).collect::<String>());
        self.kernel_names.unique(name, '_')
    }
}
