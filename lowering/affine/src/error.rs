//! What can go wrong while loops are emitted.

use hlo::dialect::DialectError;
use hlo::op_kind::OpKind;
use hlo::ops::OpError;
use mlir_ext::rewrite::RewriteError;

/// A program that cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoweringError {
    /// The operation (or this use of it) has no lowering on the platform.
    #[error("`{op}` is not supported on {platform}: {what} (instruction `{instruction}`)")]
    Unsupported {
        /// The operation.
        op: OpKind,
        /// The platform, e.g. `cpu`.
        platform: &'static str,
        /// Which use of it.
        what: String,
        /// Name of the instruction.
        instruction: String,
    },
    /// The module is no HLO program, or its buffers are not assigned.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// A constant whose value the text left out cannot be executed.
    #[error("constant `{0}` has no value: its text says `{{...}}`")]
    Elided(String),
    /// A broken invariant of the compiler.
    #[error("internal error in lowering: {0}")]
    Bug(String),
    /// Attributes that the verifier should have refused.
    #[error("internal error in lowering: {0}")]
    Attributes(#[from] OpError),
    /// A rewrite would have broken the module: a bug of the pass.
    #[error("internal error in lowering: {0}")]
    Rewrite(#[from] RewriteError),
}

impl LoweringError {
    /// A broken invariant, found while looking at something.
    pub fn bug(text: impl Into<String>) -> Self {
        LoweringError::Bug(text.into())
    }
}
