//! Textual pass pipelines on a builtin module, with MLIR's diagnostics in the error.

use crate::attributes;
use crate::diagnostics::{self, Diagnostic};
use melior::ir::operation::OperationLike;
use melior::ir::{Module, OperationRef};
use melior::{ContextRef, StringRef, pass::PassManager, utility::register_all_passes};
use mlir_sys::{MlirStringRef, mlirOpPassManagerAddPipeline, mlirPassManagerCreateOnOperation, mlirPassManagerRunOnOp};
use std::ffi::c_void;
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
    /// A pass failed.
    #[error("pass pipeline `{pipeline}` failed:\n{}", diagnostics::render(.diagnostics))]
    Failed {
        /// The pipeline's text.
        pipeline: String,
        /// What the passes said.
        diagnostics: Vec<Diagnostic>,
    },
}

/// A pass pipeline on `builtin.module`, parsed for one context, that can run on several of its modules.
pub struct PassPipeline<'c> {
    text: String,
    manager: PassManager<'c>,
}

impl<'c> PassPipeline<'c> {
    /// Parses the comma-separated elements of a pipeline on a builtin module, such as
    /// `func.func(lower-affine),convert-to-llvm`.
    ///
    /// # Errors
    /// [`PipelineError::Malformed`].
    pub fn parse(context: ContextRef<'c>, text: &str) -> Result<Self, PipelineError> {
        Self::parse_on(context, "builtin.module", text)
    }

    /// [`Self::parse`] for a pipeline on operations of another name.
    ///
    /// # Errors
    /// [`PipelineError::Malformed`].
    pub fn parse_on(context: ContextRef<'c>, anchor: &str, text: &str) -> Result<Self, PipelineError> {
        register_all_passes();
        // SAFETY: the reference lives in this frame only; `'c` keeps the context alive.
        let context = unsafe { context.to_ref() };
        let mut message = Vec::<u8>::new();
        // SAFETY: the context is live, anchor and text outlive the calls (MLIR copies both), the callback
        // gets the vector it expects, and the new manager is owned by nothing else.
        let (manager, succeeded) = unsafe {
            let manager = PassManager::from_raw(mlirPassManagerCreateOnOperation(
                context.to_raw(),
                StringRef::new(anchor).to_raw(),
            ));
            let result = mlirOpPassManagerAddPipeline(
                manager.as_operation_pass_manager().to_raw(),
                StringRef::new(text).to_raw(),
                Some(append_message),
                (&raw mut message).cast(),
            );
            (manager, result.value != 0)
        };
        if succeeded {
            Ok(Self { text: text.into(), manager })
        } else {
            Err(PipelineError::Malformed {
                pipeline: text.into(),
                message: String::from_utf8_lossy(&message).trim().into(),
            })
        }
    }

    /// Whether MLIR verifies the module after each pass (on until changed). It costs as much as the lowering itself.
    pub fn enable_verifier(&self, enabled: bool) {
        self.manager.enable_verifier(enabled);
    }

    /// Runs the passes in order. After an error the module is valid memory but may be half-converted.
    ///
    /// # Errors
    /// [`PipelineError::Failed`] with everything the passes reported.
    pub fn run(&self, module: &Module<'c>) -> Result<(), PipelineError> {
        self.run_on(module.as_operation())
    }

    /// Runs the passes in order on an operation of the name that the pipeline is for.
    ///
    /// # Errors
    /// [`PipelineError::Failed`].
    pub fn run_on(&self, root: OperationRef<'c, '_>) -> Result<(), PipelineError> {
        let (succeeded, diagnostics) = diagnostics::collect_in(root.context(), || {
            // SAFETY: manager and operation are live and belong to the same context `'c`.
            unsafe { mlirPassManagerRunOnOp(self.manager.to_raw(), root.to_raw()).value != 0 }
        });
        if succeeded { Ok(()) } else { Err(PipelineError::Failed { pipeline: self.text.clone(), diagnostics }) }
    }
}

/// Parses `pipeline` and runs it on `module`, verifying after each pass if asked to.
///
/// # Errors
/// Those of [`PassPipeline::parse`] and [`PassPipeline::run`].
pub fn run_pipeline(module: &Module, pipeline: &str, verify: bool) -> Result<(), PipelineError> {
    let pipeline = PassPipeline::parse(module.context(), pipeline)?;
    pipeline.enable_verifier(verify);
    pipeline.run(module)
}

/// [`run_pipeline`] on an operation that is isolated from above, such as a function.
///
/// # Errors
/// Those of [`PassPipeline::parse_on`] and [`PassPipeline::run_on`].
pub fn run_pipeline_on(root: OperationRef<'_, '_>, pipeline: &str, verify: bool) -> Result<(), PipelineError> {
    let context = root.context();
    let pipeline = PassPipeline::parse_on(context, attributes::identifier_text(root.name()), pipeline)?;
    pipeline.enable_verifier(verify);
    pipeline.run_on(root)
}

unsafe extern "C" fn append_message(text: MlirStringRef, message: *mut c_void) {
    if text.length == 0 {
        return;
    }
    // SAFETY: MLIR passes the pointer given to `mlirOpPassManagerAddPipeline`, a live vector that nothing else uses
    // during the call, and a string of `length` bytes.
    unsafe {
        let message = &mut *message.cast::<Vec<u8>>();
        message.extend_from_slice(std::slice::from_raw_parts(text.data.cast(), text.length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use melior::{Context, dialect::DialectRegistry, ir::operation::OperationLike, utility::register_all_dialects};

    fn context() -> Context {
        let registry = DialectRegistry::new();
        register_all_dialects(&registry);
        Context::new_with_registry(&registry, false)
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
        let text = "func.func @f(%a: i32) -> tensor<4xf32> {\n  %0 = builtin.unrealized_conversion_cast %a : i32 to tensor<4xf32>\n  return %0 : tensor<4xf32>\n}";
        let module = Module::parse(&context, text).unwrap();
        let error = run_pipeline(&module, "one-shot-bufferize", true).unwrap_err();
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
