//! What can go wrong with arrays and their files.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no array.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Arrays and their descriptions do not fit a program.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error("cannot read {}: {}", .path.display(), io_text(.source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {}", .path.display(), io_text(.source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {message}", .path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        message: String,
    },
    /// Data that does not fit its shape.
    #[error(transparent)]
    Literal(#[from] hlo::literal::LiteralError),
}

impl DataError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        DataError::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        DataError::Write { path: path.to_path_buf(), source }
    }

    pub(crate) fn data(path: &Path, message: impl Into<String>) -> Self {
        DataError::Data { path: path.to_path_buf(), message: message.into() }
    }
}

/// The system's message without the `(os error 2)` that Rust appends, in lower case.
pub fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
