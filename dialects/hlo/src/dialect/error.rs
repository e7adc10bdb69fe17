//! Errors of the bridge between graph and dialect.

use mlir_ext::diagnostics::{self, Diagnostic};

/// A graph or MLIR module that cannot cross the bridge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialectError {
    /// MLIR's parser or verifier rejects the module.
    #[error("{}", diagnostics::render(.0))]
    Diagnostics(Vec<Diagnostic>),
    /// The module is not an HLO program.
    #[error("{}{message}", location.as_ref().map(|location| format!("{location}: ")).unwrap_or_default())]
    Invalid {
        /// Where, as MLIR prints locations; `None` where no operation is at fault.
        location: Option<String>,
        /// What is wrong.
        message: String,
    },
}

impl DialectError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        DialectError::Invalid { location: None, message: message.into() }
    }

    /// The same error with a location, unless it has one.
    pub(super) fn at(self, location: impl FnOnce() -> String) -> Self {
        match self {
            DialectError::Invalid { location: None, message } => {
                DialectError::Invalid { location: Some(location()), message }
            }
            other => other,
        }
    }
}
