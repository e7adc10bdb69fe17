//! What can go wrong: text that is not a map, and maps that do not exist.

use thiserror::Error;

/// The errors of this crate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The text is not an indexing map or expression; `offset` is the byte at fault.
    #[error("{message} at byte {offset}")]
    Parse {
        /// Byte offset into the text.
        offset: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// A map's parts do not fit together.
    #[error("{0}")]
    Invalid(String),
}
