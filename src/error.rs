//! Errors of compiling and running programs.

use std::io;
#[cfg(feature = "compiler")]
use std::path::Path;
use std::path::PathBuf;

use hlo::graph::GraphError;
#[cfg(feature = "compiler")]
use lowering_affine::error::LoweringError;
#[cfg(feature = "compiler")]
use mlir_ext::{pass::FailureKind, pass_pipeline::PipelineError};

/// Why a program was not compiled or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program breaks a rule.
    #[error(transparent)]
    Invalid(#[from] GraphError),
    /// It has an instruction that its devices cannot run.
    #[error("unsupported: {0}")]
    WrongDevices(#[from] hlo::devices::WrongDevices),
    /// It is for more devices than the client has.
    #[error("the program is for {needed} devices, the client has {devices}")]
    TooFewDevices {
        /// Devices of the program.
        needed: usize,
        /// Devices of the client.
        devices: usize,
    },
    /// Arguments for another number of devices.
    #[error("the program is for {expected} devices, there are arguments for {found}")]
    DeviceCount {
        /// Devices of the program.
        expected: usize,
        /// Devices with arguments.
        found: usize,
    },
    /// What is wrong on one of several devices.
    #[error("device {device}: {error}")]
    OnDevice {
        /// Number of the device.
        device: usize,
        /// What is wrong.
        error: Box<Error>,
    },
    /// A pass could not run on it.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    Pass(#[from] PipelineError),
    /// It uses something that has no lowering.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    /// Making machine code failed: a bug of the compiler.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    CodeGeneration(#[from] lowering_llvm::Error),
    /// Loading or running code failed.
    #[error(transparent)]
    Execution(#[from] exec::Error),
    /// Running kernels of a GPU failed.
    #[error(transparent)]
    Cuda(#[from] cuda::Error),
    /// A constant without a value.
    #[error("constant `{0}` has no value: its text says `{{...}}`; XLA prints values with print_large_constants=True")]
    Elided(String),
    /// Text that is no program.
    #[cfg(feature = "compiler")]
    #[error("{excerpt}")]
    Text {
        /// What is wrong with it.
        errors: hlo::text::Errors,
        /// The same as text, with excerpts of the program.
        excerpt: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// MLIR that is no program.
    #[cfg(feature = "compiler")]
    #[error(transparent)]
    Dialect(#[from] hlo::dialect::DialectError),
    /// Data that do not fit a shape.
    #[error(transparent)]
    Literal(#[from] hlo::literal::LiteralError),
    /// A value that is no array, where a buffer should be made of it.
    #[error("a buffer holds one array, not {0}")]
    NoArray(hlo::shape::Shape),
    /// A saved executable that cannot be loaded here.
    #[error("the saved executable cannot be loaded: {0}")]
    Saved(String),
    /// Wrong number of arguments.
    #[error("the program takes {expected} arguments, got {found}")]
    ArgumentCount {
        /// Parameters of the program, tuples flattened.
        expected: usize,
        /// Arguments given, tuples flattened.
        found: usize,
    },
    /// An argument of another shape.
    #[error("argument {argument} must be {expected}, got {found}")]
    ArgumentShape {
        /// Number of the parameter; `0.2` is leaf 2 of a tuple.
        argument: String,
        /// The parameter's shape.
        expected: String,
        /// The argument's shape.
        found: String,
    },
    /// An argument that is no array in memory.
    #[error("argument {argument} cannot be used: {reason}")]
    Argument {
        /// Number of the parameter; `0.2` is leaf 2 of a tuple.
        argument: String,
        /// Why.
        reason: &'static str,
    },
    /// Wrong number of places for results.
    #[error("the program gives {expected} results, there are places for {found}")]
    ResultCount {
        /// Results of the program, tuples flattened.
        expected: usize,
        /// Places given, tuples flattened.
        found: usize,
    },
    /// A place for a result of another shape.
    #[error("the place for result {result} must be {expected}, got {found}")]
    ResultShape {
        /// Number of the result, tuples flattened.
        result: usize,
        /// The result's shape.
        expected: String,
        /// The shape of the place.
        found: String,
    },
    /// A place that cannot be written.
    #[error("the place for result {result} cannot be used: {reason}")]
    Result {
        /// Number of the result, tuples flattened.
        result: usize,
        /// Why.
        reason: &'static str,
    },
    /// The program reported a failure while it ran.
    #[error("the program failed: {0}")]
    Failed(String),
    /// The operating system refused threads.
    #[error("could not start threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl Error {
    /// Errors in a text, which a reader knows by a name.
    #[cfg(feature = "compiler")]
    pub(crate) fn text(errors: hlo::text::Errors, name: &str, text: &str) -> Self {
        let excerpt = errors.render(name, text).trim_end().to_string();
        Error::Text { errors, excerpt }
    }

    #[cfg(feature = "compiler")]
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Error::File { path: path.to_path_buf(), error }
    }

    /// Whether this is a mistake of the compiler, not of the program.
    pub fn is_bug(&self) -> bool {
        match self {
            #[cfg(feature = "compiler")]
            Error::Lowering(error) => matches!(error, LoweringError::Bug(_) | LoweringError::Rewrite(_)),
            #[cfg(feature = "compiler")]
            Error::Pass(PipelineError::Pass { failure, .. }) => failure.kind == FailureKind::Bug,
            #[cfg(feature = "compiler")]
            Error::Pass(error) => matches!(error, PipelineError::Failed { .. }),
            #[cfg(feature = "compiler")]
            Error::CodeGeneration(error) => !matches!(error, lowering_llvm::Error::Target { .. }),
            Error::Execution(error) => !matches!(error, exec::Error::OutOfMemory { .. }),
            Error::Cuda(error) => error.is_bug(),
            Error::OnDevice { error, .. } => error.is_bug(),
            _ => false,
        }
    }

    /// Name of the instruction that this is about, if it is about one.
    pub fn instruction(&self) -> Option<&str> {
        match self {
            Error::Invalid(GraphError::Op { instruction, .. }) | Error::Elided(instruction) => Some(instruction),
            #[cfg(feature = "compiler")]
            Error::Lowering(LoweringError::Unsupported { instruction, .. } | LoweringError::Elided(instruction)) => {
                Some(instruction)
            }
            #[cfg(feature = "compiler")]
            Error::Pass(PipelineError::Pass { failure, .. }) => failure.instruction.as_deref(),
            Error::WrongDevices(error) => Some(&error.instruction),
            Error::OnDevice { error, .. } => error.instruction(),
            _ => None,
        }
    }

    /// Whether the program is valid but uses something that has no lowering yet.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Error::WrongDevices(_) => true,
            #[cfg(feature = "compiler")]
            Error::Lowering(LoweringError::Unsupported { .. }) => true,
            #[cfg(feature = "compiler")]
            Error::Pass(PipelineError::Pass { failure, .. }) => failure.kind == FailureKind::Unsupported,
            _ => false,
        }
    }
}
