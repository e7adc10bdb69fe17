//! The errors of this crate.

use thiserror::Error;

/// Why code could not be loaded or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// An object file could not be loaded.
    #[error("loading machine code failed: {0}")]
    Load(String),
    /// A symbol that nothing defines.
    #[error("no symbol `{name}`: {reason}")]
    NoSymbol {
        /// The symbol.
        name: String,
        /// Where it was looked for.
        reason: String,
    },
    /// Memory for a buffer could not be had.
    #[error("out of memory: cannot allocate {bytes} bytes")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },
}
