//! The pipeline of passes on HLO programs.

use melior::ir::Module;
use mlir_ext::pass::PassRun;
use mlir_ext::pass_pipeline::{PassPipeline, PipelineError};
use mlir_ext::pipeline_text::PipelineText;

use crate::registry::{self, Anchor};

/// The passes that compilation runs before fusion.
pub const HLO: &str = "hlo-inline-calls,hlo-pad-dynamic-dimensions,\
     func.func(hlo-expand,hlo-erase-layouts,hlo-keep-precision,hlo-loop-over-elements,hlo-simplify-loops,hlo-canonicalize,cse),hlo-dce,\
     func.func(hlo-canonicalize-convolutions,hlo-canonicalize-dots)";

/// The passes behind them for a processor: operands that lie as its loops go through them, and more to do side by side.
pub const FOR_CPU: &str = "func.func(hlo-arrange-operands,hlo-split-reductions{gpu=false})";

/// The passes behind them for a GPU: less to wait for the host for, and more to do side by side.
pub const FOR_GPU: &str = "func.func(hlo-expand-host-calls,hlo-allow-tf32,hlo-split-reductions,hlo-transpose-operands)";

/// The pass that makes fusions.
pub const FUSE: &str = "func.func(hlo-fuse)";

/// The pass of [`HLO`] that is left out where every rounding of the program must be kept.
pub const EXCESS_PRECISION: &str = "hlo-keep-precision";

/// The pass of [`FOR_GPU`] that is left out unless the user allows it.
pub const ALLOW_TF32: &str = "hlo-allow-tf32";

/// Reads a pipeline on a module in which passes on functions may stand without `func.func(…)` around them.
pub fn parse(text: &str) -> PipelineText {
    let mut pipeline = PipelineText::parse(text);
    for step in pipeline.steps.iter_mut().filter(|step| step.anchors.is_empty()) {
        if registry::find(step.name()).is_some_and(|pass| pass.anchor() == Anchor::Function) {
            step.anchors.push(Anchor::Function.operation_name().to_string());
        }
    }
    pipeline
}

/// Runs a pipeline on a module. With `verify`, the module is verified after each pass.
///
/// # Errors
/// Those of [`PassPipeline`].
pub fn run(module: &Module<'_>, pipeline: &PipelineText, verify: bool) -> Result<PassRun, PipelineError> {
    registry::register();
    let pipeline = PassPipeline::parse(module.context(), &pipeline.to_string())?;
    pipeline.enable_verifier(verify);
    pipeline.run(module.as_operation())
}
