//! Errors of compiling and running programs.

/// Why a program was not compiled or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program breaks a rule.
    #[error(transparent)]
    Invalid(#[from] hlo::graph::GraphError),
    /// A pass could not run on it.
    #[error(transparent)]
    Pass(#[from] passes::registry::PassError),
    /// It uses something that has no lowering.
    #[error(transparent)]
    Lowering(#[from] lowering_loops::error::LoweringError),
    /// Making machine code failed: a bug of the compiler.
    #[error(transparent)]
    CodeGeneration(#[from] lowering_llvm::Error),
    /// Loading or running code failed.
    #[error(transparent)]
    Execution(#[from] exec::Error),
    /// A constant without a value.
    #[error("constant `{0}` has no value: its text says `{{...}}`")]
    Elided(String),
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
        /// Number of the argument among the flattened parameters.
        argument: usize,
        /// The parameter's shape.
        expected: String,
        /// The argument's shape.
        found: String,
    },
    /// The program reported a failure while it ran.
    #[error("the program failed: {0}")]
    Failed(String),
    /// The operating system refused threads.
    #[error("could not start threads: {0}")]
    Threads(#[from] std::io::Error),
}

impl Error {
    /// Whether the program is valid but uses something that has no lowering yet.
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self,
            Error::Lowering(lowering_loops::error::LoweringError::Unsupported { .. })
                | Error::Pass(passes::registry::PassError::Dynamic(_))
        )
    }
}
