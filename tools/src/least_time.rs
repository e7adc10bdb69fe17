//! The time below which no run of a program can be, by what its kernels move and compute and what the machine can do.

use std::time::Duration;

use halo::{Cost, Executable, StepRun};
use hlo::graph::{Computation, Module};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use crate::machine_limits::MachineLimits;

/// What the kernels of a program do in a run.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The cost of each kernel, with how often it ran.
    kernels: Vec<(Cost, u64)>,
    multiplies_narrow_elements: bool,
}

impl Work {
    /// The work of a run whose steps are known, of a program that was compiled for a profile.
    pub fn of_run(module: &Module, executable: &Executable, run: &[StepRun]) -> Work {
        let steps = run.iter().map(|run| (&executable.profiled_steps()[run.step], run.calls as u64));
        let kernels = steps.filter(|(step, _)| !step.has_steps).map(|(step, calls)| (step.cost, calls)).collect();
        Work { kernels, multiplies_narrow_elements: multiplies_narrow_elements(module) }
    }

    /// The time below which no run can be. A kernel takes at least as long as copying as many bytes as it moves, in the cache
    /// that holds them, or as multiplying and adding as often as it computes.
    ///
    /// Products of elements of 16 bits and fewer are limited by the bytes alone: processors have instructions of their own for
    /// them. Functions such as the exponential have no limit here.
    pub fn least_time(&self, limits: &mut MachineLimits) -> Duration {
        let mut seconds = 0.0;
        for (cost, calls) in &self.kernels {
            let moving = cost.bytes_accessed as f64 / limits.copy_rate(cost.bytes_accessed);
            let is_limited = cost.flops > 0 && !self.multiplies_narrow_elements;
            let computing = if is_limited { cost.flops as f64 / limits.arithmetic_rate() } else { 0.0 };
            seconds += moving.max(computing) * *calls as f64;
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
        let figures = self.kernels.iter().map(|(cost, calls)| figure(cost).saturating_mul(*calls));
        figures.fold(0, u64::saturating_add)
    }
}

/// Whether a program has products of elements that are narrower than `f32`.
fn multiplies_narrow_elements(module: &Module) -> bool {
    module.functions.iter().any(has_narrow_products)
}

fn has_narrow_products(computation: &Computation) -> bool {
    let is_narrow = |shape: &Shape| shape.as_array().is_some_and(|array| array.element_type.bit_width() < 32);
    computation.instructions.iter().any(|instruction| {
        let is_product = matches!(instruction.kind, OpKind::Dot | OpKind::Convolution);
        is_product && computation.operand_shapes(instruction).into_iter().any(is_narrow)
            || instruction.computations.iter().any(has_narrow_products)
    })
}
