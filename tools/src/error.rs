//! What can go wrong in a tool, sorted by who must act: the user, or halo's authors.

use std::io;
use std::path::{Path, PathBuf};

use evaluator::EvalError;
use hlo::graph::TextPosition;
use hlo_text::source::{Location, Source};

use crate::module_file::SourceText;
use crate::outer_boundary;

/// Error of a tool.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The command line makes no sense.
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
    /// A program whose text is not valid.
    #[error("{errors}")]
    Program {
        /// The text, for the excerpt.
        source_text: SourceText,
        /// What is wrong, and where.
        errors: hlo_text::Errors,
    },
    /// Something at one place of a program: an instruction that failed, or MLIR text that is not valid.
    #[error("{message}")]
    Instruction {
        /// The text, for the excerpt.
        source_text: SourceText,
        /// Where the instruction stands.
        position: TextPosition,
        /// What happened.
        message: String,
    },
    /// Something halo cannot do yet.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The program failed while it ran.
    #[error("{0}")]
    Execution(String),
    /// A mistake in halo itself.
    #[error("internal error: {0}")]
    Bug(String),
    /// Compilation or compiled code failed.
    #[error(transparent)]
    Compiled(#[from] halo::Error),
    /// A pass cannot be run.
    #[error(transparent)]
    Pass(#[from] passes::registry::PassError),
    /// Data that does not fit its shape.
    #[error(transparent)]
    Literal(#[from] hlo::literal::LiteralError),
}

impl ToolError {
    /// The message as tools print it: with an excerpt where it points at a text, and nothing a terminal would obey.
    pub fn render(&self) -> String {
        let printable = |character: char| character == '\n' || !character.is_control();
        self.render_raw().chars().map(|character| if printable(character) { character } else { '\u{fffd}' }).collect()
    }

    fn render_raw(&self) -> String {
        match self {
            ToolError::Program { source_text, errors } => {
                errors.render(&source_text.path.display().to_string(), &source_text.text)
            }
            ToolError::Instruction { source_text, position, message } => {
                let location = instruction_location(&source_text.text, *position);
                location.render(&source_text.path.display().to_string(), &source_text.text, message, "")
            }
            ToolError::Bug(_) => {
                format!("error: {self}\nThis is a bug in halo, not in the program; please report it with the input.\n")
            }
            other => format!("error: {other}\n"),
        }
    }

    /// Status that a tool ends with.
    pub fn exit_status(&self) -> u8 {
        if matches!(self, ToolError::Bug(_)) { outer_boundary::BUG } else { outer_boundary::INVALID }
    }

    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        ToolError::Read { path: path.to_path_buf(), source }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        ToolError::Write { path: path.to_path_buf(), source }
    }

    pub(crate) fn evaluation(source_text: &SourceText, error: EvalError) -> Self {
        let message = error.to_string();
        match error.position() {
            Some(position) => ToolError::Instruction { source_text: source_text.clone(), position, message },
            None => ToolError::Execution(message),
        }
    }

    pub(crate) fn data(path: &Path, message: impl Into<String>) -> Self {
        ToolError::Data { path: path.to_path_buf(), message: message.into() }
    }
}

/// The system's message without the `(os error 2)` that Rust appends, in lower case.
fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The place of an instruction's name.
fn instruction_location(text: &str, position: TextPosition) -> Location {
    let start: usize = text.split_inclusive('\n').take(position.line.saturating_sub(1) as usize).map(str::len).sum();
    let line = text[start..].lines().next().unwrap_or("");
    let skipped: usize = line.chars().take(position.column.saturating_sub(1) as usize).map(char::len_utf8).sum();
    let name = line[skipped..].split_whitespace().next().unwrap_or("");
    Source::new(text).location(start + skipped..start + skipped + name.len())
}
