//! The time below which no run of a program can be, by what its kernels move and compute and what the machine can do.

use std::collections::HashMap;
use std::time::Duration;

use halo::pipeline::Phase;
use halo::{CompileOptions, Cost, Executable, StepRun};
use hlo::graph::{Computation, GraphError, Module};
use hlo::op_kind::OpKind;

use crate::arithmetic::{Flops, flops_of};
use crate::error::ToolError;
use crate::kernels::compiled_to;
use crate::machine_limits::MachineLimits;

/// What the kernels of a program do in a run.
#[derive(Clone, Debug, Default)]
pub struct Work {
    kernels: Vec<KernelWork>,
}

/// What a kernel does in a run.
#[derive(Clone, Debug)]
struct KernelWork {
    /// Of one call.
    cost: Cost,
    /// Of one call, by what they are done on.
    flops: Flops,
    calls: u64,
}

impl Work {
    /// The work of a run whose steps are known, of a program that was compiled with these options for a profile.
    ///
    /// # Errors
    /// Those of the passes up to the program's kernels.
    pub fn of_run(
        module: &Module,
        options: &CompileOptions,
        executable: &Executable,
        run: &[StepRun],
    ) -> Result<Work, ToolError> {
        let fused = compiled_to(module, Phase::Fused, options)?;
        let mut flops = HashMap::new();
        collect(fused.entry(), &mut flops).map_err(|error| ToolError::Execution(error.to_string()))?;
        let steps = run.iter().map(|run| (&executable.profiled_steps()[run.step], run.calls as u64));
        let kernels = steps.filter(|(step, _)| !step.has_steps).map(|(step, calls)| {
            // What is copied for an instruction has its name, but computes nothing.
            let flops = flops.get(step.name.as_str()).filter(|_| step.cost.flops > 0);
            KernelWork { cost: step.cost, flops: flops.cloned().unwrap_or_default(), calls }
        });
        Ok(Work { kernels: kernels.collect() })
    }

    /// The time below which no run can be. A kernel takes at least as long as copying as many bytes as it moves, in the cache
    /// that holds them, or as its arithmetic, done by the instructions that do most of it at once. Functions such as the
    /// exponential have no limit here.
    pub fn least_time(&self, limits: &mut MachineLimits) -> Duration {
        let mut seconds = 0.0;
        for KernelWork { cost, flops, calls } in &self.kernels {
            let moving = cost.bytes_accessed as f64 / limits.copy_rate(cost.bytes_accessed);
            let computing = flops.iter().map(|(&kind, &flops)| flops as f64 / limits.arithmetic_rate(kind));
            seconds += computing.fold(moving, f64::max) * *calls as f64;
        }
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Bytes that kernels read and write.
    pub fn bytes(&self) -> u64 {
        self.total(|cost| cost.bytes_accessed)
    }

    /// Arithmetic operations.
    pub fn flops(&self) -> u64 {
        self.total(|cost| cost.flops)
    }

    fn total(&self, figure: impl Fn(&Cost) -> u64) -> u64 {
        let figures = self.kernels.iter().map(|kernel| figure(&kernel.cost).saturating_mul(kernel.calls));
        figures.fold(0, u64::saturating_add)
    }
}

/// The operations of each kernel of a computation and of its loops and branches, by its name.
fn collect(computation: &Computation, flops: &mut HashMap<String, Flops>) -> Result<(), GraphError> {
    computation.instructions.iter().try_for_each(|instruction| match instruction.kind {
        OpKind::While | OpKind::Conditional => {
            instruction.computations.iter().try_for_each(|inner| collect(inner, flops))
        }
        _ => {
            flops.insert(instruction.name.clone(), flops_of(computation, instruction)?);
            Ok(())
        }
    })
}
