//! The errors of this crate.

use thiserror::Error;

/// Why code could not be loaded or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// LLVM's loader refused an object file or could not resolve its symbols.
    #[error("loading machine code failed: {0}")]
    Load(String),
    /// A symbol is not in the loaded objects.
    #[error("no symbol `{name}` in the loaded code: {reason}")]
    NoSymbol {
        /// The symbol.
        name: String,
        /// The loader's explanation.
        reason: String,
    },
    /// Memory for a buffer could not be had.
    #[error("cannot allocate {bytes} bytes")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },
}
