//! Textual pass pipelines on an operation, with MLIR's diagnostics and its instrumentation.

use crate::diagnostics::{self, Diagnostic};
use crate::dialects;
use crate::operations::{self, PrintOptions, printing_flags};
use crate::pass::{self, PassFailure, PassRun};
use crate::pipeline_text::PipelineText;
use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use melior::ir::{Module, OperationRef};
use melior::{ContextRef, StringRef, pass::PassManager};
use mlir_sys::{
    MlirOpPrintingFlags, MlirPassManager, MlirStringRef, mlirOpPassManagerAddPipeline,
    mlirPassManagerCreateOnOperation, mlirPassManagerEnableIRPrinting, mlirPassManagerEnableTiming,
    mlirPassManagerRunOnOp, mlirPrintPassPipeline,
};
use std::ffi::c_void;
use std::path::Path;
use std::sync::Once;
use thiserror::Error;

/// Why a pipeline was not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PipelineError {
    /// The text is not a pipeline: an unknown pass, a bad option, a syntax error.
    #[error("pass pipeline `{pipeline}` is malformed: {message}")]
    Malformed {
        /// The pipeline's text.
        pipeline: String,
        /// MLIR's explanation.
        message: String,
    },
    /// A pass of [`crate::pass`] failed.
    #[error("{failure}")]
    Pass {
        /// Why.
        failure: PassFailure,
        /// What the passes said.
        diagnostics: Vec<Diagnostic>,
    },
    /// A pass of MLIR's own failed, or the IR after a pass is invalid.
    #[error("{}\nin the pass pipeline `{pipeline}`", said(.diagnostics))]
    Failed {
        /// The pipeline's text.
        pipeline: String,
        /// What the passes said.
        diagnostics: Vec<Diagnostic>,
    },
}

/// What passes said when one failed; some of MLIR's say nothing.
fn said(diagnostics: &[Diagnostic]) -> String {
    if diagnostics.is_empty() {
        return "a pass failed and does not say why".to_string();
    }
    diagnostics::render(diagnostics).trim_end().to_string()
}

impl PipelineError {
    /// What the passes said.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            PipelineError::Malformed { .. } => &[],
            PipelineError::Pass { diagnostics, .. } | PipelineError::Failed { diagnostics, .. } => diagnostics,
        }
    }
}

/// What MLIR shows while a pipeline runs, on standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instrumentation {
    /// Passes before which the IR is printed, separated by commas; `*` is all.
    pub print_before: String,
    /// Passes after which the IR is printed, separated by commas; `*` is all.
    pub print_after: String,
    /// Whether the IR is printed only where the pass changed it.
    pub only_on_change: bool,
    /// How the IR is printed.
    pub print: PrintOptions,
    /// Whether the time of each pass is printed at the end.
    pub timing: bool,
    /// Where the IR and the pipeline are written when a pass fails.
    pub reproducer: Option<String>,
}

/// A pass pipeline, parsed for one context, that can run on several of its operations.
pub struct PassPipeline<'c> {
    text: String,
    manager: PassManager<'c>,
}

impl<'c> PassPipeline<'c> {
    /// Parses a pipeline on a builtin module, such as `builtin.module(func.func(lower-affine),convert-to-llvm)`;
    /// `builtin.module` may be left out.
    ///
    /// # Errors
    /// [`PipelineError::Malformed`].
    pub fn parse(context: ContextRef<'c>, text: &str) -> Result<Self, PipelineError> {
        static MLIR_PASSES: Once = Once::new();
        MLIR_PASSES.call_once(|| pass::change_registry(dialects::register_passes));
        let context = operations::context(context);
        let text = PipelineText::parse(text);
        // A pipeline on operations of a dialect that is loaded later would never run: their names would differ.
        for anchor in text.steps.iter().flat_map(|step| &step.anchors) {
            if let Some((dialect, _)) = anchor.split_once('.') {
                context.get_or_load_dialect(dialect);
            }
        }
        let text = text.elements();
        let mut message = Vec::<u8>::new();
        let registry = pass::registry();
        // SAFETY: the context is live, the texts outlive the calls (MLIR copies both), the callback gets the
        // vector it expects, and the new manager is owned by nothing else.
        let (manager, succeeded) = unsafe {
            let manager = PassManager::from_raw(mlirPassManagerCreateOnOperation(
                context.to_raw(),
                StringRef::new("builtin.module").to_raw(),
            ));
            let result = mlirOpPassManagerAddPipeline(
                manager.as_operation_pass_manager().to_raw(),
                StringRef::new(&text).to_raw(),
                Some(append_message),
                (&raw mut message).cast(),
            );
            (manager, result.value != 0)
        };
        drop(registry);
        if succeeded {
            manager.enable_verifier(false);
            Ok(Self { text, manager })
        } else {
            Err(PipelineError::Malformed { pipeline: text, message: String::from_utf8_lossy(&message).trim().into() })
        }
    }

    /// The pipeline as MLIR prints it: with every option of every pass.
    pub fn text(&self) -> String {
        let mut text = Vec::<u8>::new();
        // SAFETY: the manager is live, and the callback gets the vector it expects.
        unsafe {
            mlirPrintPassPipeline(
                self.manager.as_operation_pass_manager().to_raw(),
                Some(append_message),
                (&raw mut text).cast(),
            );
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Whether MLIR verifies the operation after each pass (off until changed). It costs as much as the lowering itself.
    pub fn enable_verifier(&self, enabled: bool) {
        self.manager.enable_verifier(enabled);
    }

    /// Switches MLIR's instrumentation on. At most once for a pipeline.
    pub fn instrument(&self, wanted: &Instrumentation) {
        let manager = self.manager.to_raw();
        // SAFETY: the manager is live; texts and flags outlive the calls, which copy them.
        unsafe {
            if !wanted.print_before.is_empty() || !wanted.print_after.is_empty() {
                let flags: OperationPrintingFlags = printing_flags(wanted.print);
                let (before, after) = (StringRef::new(&wanted.print_before), StringRef::new(&wanted.print_after));
                let on_change = wanted.only_on_change;
                haloPassManagerEnableIRPrinting(manager, before.to_raw(), after.to_raw(), on_change, flags.to_raw());
            }
            if wanted.timing {
                mlirPassManagerEnableTiming(manager);
            }
            if let Some(path) = &wanted.reproducer {
                haloPassManagerEnableReproducer(manager, StringRef::new(path).to_raw());
            }
        }
    }

    /// Prints the IR after each pass into files of a tree of folders, as MLIR names them.
    pub fn print_tree(&self, folder: &Path, print: PrintOptions) {
        let (folder, flags) = (folder.display().to_string(), printing_flags(print));
        // SAFETY: the manager is live; text and flags outlive the call, which copies them.
        unsafe {
            mlirPassManagerEnableIRPrinting(
                self.manager.to_raw(),
                false,
                true,
                false,
                false,
                false,
                flags.to_raw(),
                StringRef::new(&folder).to_raw(),
            );
        }
    }

    /// Runs the passes in order on an operation of the name that the pipeline is for. After an error the operation is
    /// valid memory but may be half-converted.
    ///
    /// # Errors
    /// [`PipelineError::Pass`] and [`PipelineError::Failed`] with everything the passes reported.
    pub fn run(&self, root: OperationRef<'c, '_>) -> Result<PassRun, PipelineError> {
        let ((succeeded, run), diagnostics) = diagnostics::collect_in(root.context(), || {
            // SAFETY: manager and operation are live and belong to the same context `'c`.
            pass::record(|| unsafe { mlirPassManagerRunOnOp(self.manager.to_raw(), root.to_raw()).value != 0 })
        });
        match (succeeded, &run.failure) {
            (true, _) => Ok(run),
            (false, Some(failure)) => Err(PipelineError::Pass { failure: failure.clone(), diagnostics }),
            (false, None) => Err(PipelineError::Failed { pipeline: self.text.clone(), diagnostics }),
        }
    }
}

/// Parses `pipeline` and runs it on `module`, verifying after each pass if asked to.
///
/// # Errors
/// Those of [`PassPipeline::parse`] and [`PassPipeline::run`].
pub fn run_pipeline(module: &Module, pipeline: &str, verify: bool) -> Result<(), PipelineError> {
    let pipeline = PassPipeline::parse(module.context(), pipeline)?;
    pipeline.enable_verifier(verify);
    pipeline.run(module.as_operation()).map(drop)
}

unsafe extern "C" {
    fn haloPassManagerEnableIRPrinting(
        manager: MlirPassManager,
        before: MlirStringRef,
        after: MlirStringRef,
        only_on_change: bool,
        flags: MlirOpPrintingFlags,
    );
    fn haloPassManagerEnableReproducer(manager: MlirPassManager, path: MlirStringRef);
}

unsafe extern "C" fn append_message(text: MlirStringRef, message: *mut c_void) {
    if text.length == 0 {
        return;
    }
    // SAFETY: MLIR passes the pointer given with the callback, a live vector that nothing else uses during the call, and a
    // string of `length` bytes.
    unsafe {
        let message = &mut *message.cast::<Vec<u8>>();
        message.extend_from_slice(std::slice::from_raw_parts(text.data.cast(), text.length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use melior::{Context, ir::operation::OperationLike};

    fn context() -> Context {
        Context::new_with_registry(&dialects::registry(), false)
    }

    #[test]
    fn an_unknown_pass_is_named() {
        let context = context();
        let module = Module::parse(&context, "module {}").unwrap();
        let error = run_pipeline(&module, "func.func(no-such-pass)", true).unwrap_err();
        assert!(error.to_string().contains("no-such-pass"), "{error}");
    }

    #[test]
    fn a_failing_pass_reports_its_diagnostics() {
        let context = context();
        let text = "module {\n  func.func @f() { return }\n}";
        let module = Module::parse(&context, text).unwrap();
        let error =
            run_pipeline(&module, "func.func(affine-super-vectorize{virtual-vector-size=0})", true).unwrap_err();
        let PipelineError::Failed { diagnostics, .. } = error else { panic!("{error}") };
        assert!(!diagnostics.is_empty());
        assert!(diagnostics[0].location.contains(":2:"), "{diagnostics:?}");
    }

    #[test]
    fn nested_pipelines_run() {
        let context = context();
        let text = "func.func @f(%a: index) -> index {
            %0 = affine.apply affine_map<(d0) -> (d0 + 1)>(%a)
            return %0 : index
        }";
        let module = Module::parse(&context, text).unwrap();
        run_pipeline(&module, "func.func(lower-affine)", true).unwrap();
        let printed = module.as_operation().to_string();
        assert!(printed.contains("arith.addi") && !printed.contains("affine.apply"), "{printed}");
        assert!(module.as_operation().verify());
    }
}
