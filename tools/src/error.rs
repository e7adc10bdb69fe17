//! What can go wrong in a tool, sorted by who must act: the user, or halo's authors.

use std::io;
use std::path::{Path, PathBuf};

use data::error::{DataError, io_text};
use evaluator::EvalError;
use hlo::graph::{Computation, Instruction, Module, TextPosition};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::text::error_message::{ErrorMessage, Style};
use hlo::text::source::SourceLines;
use mlir_ext::pass_pipeline::PipelineError;

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
        errors: hlo::text::Errors,
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
    /// Nobody reads what the tool writes.
    #[error("the output is closed")]
    ClosedOutput,
    /// It took longer than was allowed.
    #[error("stopped after {0} seconds, the time limit")]
    TimeLimit(f64),
    /// Compilation or compiled code failed.
    #[error("{error}")]
    Compiled {
        /// Why.
        error: Box<halo::Error>,
        /// Where the instruction that it is about stands, if it is about one of a text.
        place: Option<(SourceText, TextPosition)>,
        /// What the tools can do about it.
        hint: Option<&'static str>,
    },
    /// A pass of MLIR's own failed, of a pipeline that the user chose or on IR that the user wrote.
    #[error(transparent)]
    UserPipeline(PipelineError),
    /// Data that does not fit its shape.
    #[error(transparent)]
    Literal(#[from] hlo::literal::LiteralError),
}

impl ToolError {
    /// The message as tools print it: with an excerpt where it points at a text, and nothing a terminal would obey.
    pub fn render(&self) -> String {
        self.render_in(Style::Plain)
    }

    /// The same in a style.
    pub fn render_in(&self, style: Style) -> String {
        let at = |source_text: &SourceText, position: TextPosition, message: String, hint: Option<&str>| {
            let at = SourceLines::new(&source_text.text).word_at(position);
            let file = source_text.path.display().to_string();
            let message = ErrorMessage::new(message).label(&at, "");
            let message = hint.into_iter().fold(message, ErrorMessage::help);
            message.render(&file, &source_text.text, style)
        };
        match self {
            ToolError::Program { source_text, errors } => {
                errors.render_in(style, &source_text.path.display().to_string(), &source_text.text)
            }
            ToolError::Instruction { source_text, position, message } => {
                at(source_text, *position, message.clone(), None)
            }
            ToolError::Compiled { error, place: Some((source_text, position)), hint } if !error.is_bug() => {
                at(source_text, *position, error.to_string(), *hint)
            }
            ToolError::ClosedOutput => String::new(),
            _ => {
                let printable = |character: char| character == '\n' || !character.is_control();
                let replaced = |character: char| if printable(character) { character } else { '\u{fffd}' };
                let mut text: String = format!("error: {self}\n").chars().map(replaced).collect();
                if self.is_bug() {
                    text += "This is a bug in halo, not in the program; please report it with the input.\n";
                }
                text
            }
        }
    }

    /// Status that a tool ends with.
    pub fn exit_status(&self) -> u8 {
        match self {
            ToolError::ClosedOutput => outer_boundary::CLOSED_OUTPUT,
            bug if bug.is_bug() => outer_boundary::BUG,
            _ => outer_boundary::INVALID,
        }
    }

    /// Whether this is a mistake in halo itself.
    pub fn is_bug(&self) -> bool {
        match self {
            ToolError::Bug(_) => true,
            ToolError::Compiled { error, .. } => error.is_bug(),
            _ => false,
        }
    }

    /// A failure of compilation or of compiled code, at its instruction's place in the text.
    pub(crate) fn compiled(source_text: &SourceText, module: &Module, error: halo::Error) -> Self {
        let is_elided = |instruction: &Instruction| matches!(instruction.literal(), Some(Literal::Elided(_)));
        let mut instruction = error.instruction().and_then(|name| find(module, |instruction| instruction.name == name));
        if let halo::Error::Elided(_) = error {
            instruction = instruction.or_else(|| find(module, is_elided));
        }
        let hint = instruction.and_then(|instruction| match instruction.kind {
            OpKind::CustomCall => Some("hlo-run --stub-custom-calls lets calls that nobody knows give zeros"),
            _ if is_elided(instruction) => Some("hlo-run --fill-elided-constants makes values up, to time the program"),
            _ => None,
        });
        let place = instruction.and_then(|found| found.position).map(|position| (source_text.clone(), position));
        ToolError::Compiled { error: Box::new(error), place, hint }
    }

    /// A failure of compilation that says no place, with what `place` makes of it.
    pub(crate) fn map_compiled(self, place: impl FnOnce(halo::Error) -> ToolError) -> Self {
        match self {
            ToolError::Compiled { error, place: None, .. } => place(*error),
            other => other,
        }
    }

    /// Standard output could not be written.
    pub(crate) fn output(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => ToolError::ClosedOutput,
            _ => ToolError::Write { path: "the standard output".into(), source },
        }
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

impl From<halo::Error> for ToolError {
    fn from(error: halo::Error) -> Self {
        ToolError::Compiled { error: Box::new(error), place: None, hint: None }
    }
}

impl From<DataError> for ToolError {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Usage(message) => ToolError::Usage(message),
            DataError::Read { path, source } => ToolError::Read { path, source },
            DataError::Write { path, source } => ToolError::Write { path, source },
            DataError::Data { path, message } => ToolError::Data { path, message },
            DataError::Literal(error) => ToolError::Literal(error),
        }
    }
}

/// The first instruction of a module that is meant, in any computation.
fn find(module: &Module, is_meant: impl Fn(&Instruction) -> bool) -> Option<&Instruction> {
    let mut open: Vec<&Computation> = module.functions.iter().collect();
    while let Some(computation) = open.pop() {
        for instruction in &computation.instructions {
            if is_meant(instruction) {
                return Some(instruction);
            }
            open.extend(&instruction.computations);
        }
    }
    None
}
