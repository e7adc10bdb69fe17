//! The errors of this crate. None of them is the user's fault: the input was made by the compiler.

use std::fmt::Display;

use mlir_ext::{
    diagnostics::{self, Diagnostic},
    pass_pipeline::PipelineError,
};
use thiserror::Error;

/// Why a module could not be lowered or emitted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A conversion to the LLVM dialect failed.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Divisions could not be lowered.
    #[error("unsigned-divisions: {0}")]
    Divisions(#[from] mlir_ext::rewrite::RewriteError),
    /// An operation of the LLVM dialect has no LLVM IR.
    #[error("translation to LLVM IR failed:\n{}", diagnostics::render(.0))]
    Translate(Vec<Diagnostic>),
    /// A module could not be split into shards.
    #[error("splitting the module failed: {0}")]
    Partition(String),
    /// LLVM has no such target, or does not know its CPU.
    #[error("no target machine for {triple} ({cpu}): {reason}")]
    Target {
        /// The target triple.
        triple: String,
        /// The name of the CPU.
        cpu: String,
        /// LLVM's explanation.
        reason: String,
    },
    /// LLVM's verifier refused a module.
    #[error("LLVM IR is invalid: {0}")]
    Verify(String),
    /// The pass manager refused a pipeline.
    #[error("LLVM passes failed: {0}")]
    Optimize(String),
    /// The code generator failed.
    #[error("code generation failed: {0}")]
    Emit(String),
    /// GPU code was asked for, but the module holds none.
    #[error("module has no gpu.module")]
    NoGpuModule,
    /// NVIDIA's assembler could not be run or refused the PTX.
    #[error("ptxas failed: {0}")]
    Assembler(String),
}

impl Error {
    /// What the code generator, or a builder of its input, said.
    pub(crate) fn emit(message: impl Display) -> Self {
        Error::Emit(message.to_string())
    }
}
