//! Why an evaluation stopped.

use hlo::devices::WrongDevices;
use hlo::element_type::ElementType;
use hlo::graph::{GraphError, Instruction, TextPosition};
use hlo::literal::LiteralError;
use hlo::op_kind::OpKind;
use hlo::ops::OpError;
use hlo::shape::ArrayShape;

/// An evaluation that could not be completed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// The module breaks a rule.
    #[error(transparent)]
    Graph(Box<GraphError>),
    /// An instruction that the program's devices cannot run.
    #[error("unsupported: {0}")]
    WrongDevices(Box<WrongDevices>),
    /// Arguments for another number of devices.
    #[error("the program is for {expected} devices, there are arguments for {found}")]
    Devices {
        /// Devices of the program.
        expected: i64,
        /// Devices with arguments.
        found: usize,
    },
    /// A device failed.
    #[error("device {number}: {error}")]
    OnDevice {
        /// Its number.
        number: usize,
        /// Why it failed.
        error: Box<EvalError>,
    },
    /// Calls of calls of calls: executing them all would not end.
    #[error("the program's calls execute more than {0} instructions")]
    TooLong(u64),
    /// The arguments do not fit the computation.
    #[error("{0}")]
    Arguments(String),
    /// An instruction failed.
    #[error("`{instruction}` ({kind}): {failure}")]
    Instruction {
        /// Name of the instruction.
        instruction: String,
        /// Its operation.
        kind: OpKind,
        /// Where it stands in its text, if it was read from one.
        position: Option<TextPosition>,
        /// Why it failed.
        failure: EvalFailure,
    },
    /// More instructions were executed than the environment allows.
    #[error("stopped after {0} instructions")]
    StepLimit(u64),
    /// Computations call one another too deeply.
    #[error("computations nest deeper than {0}")]
    TooDeep(usize),
}

impl EvalError {
    /// Where the instruction at fault stands in its text, if it was read from one.
    pub fn position(&self) -> Option<TextPosition> {
        match self {
            EvalError::Instruction { position, .. } => *position,
            EvalError::Graph(error) => match &**error {
                GraphError::Op { position, .. } => *position,
                GraphError::Structure(_) => None,
            },
            EvalError::WrongDevices(error) => error.position,
            EvalError::OnDevice { error, .. } => error.position(),
            EvalError::Devices { .. }
            | EvalError::TooLong(_)
            | EvalError::Arguments(_)
            | EvalError::StepLimit(_)
            | EvalError::TooDeep(_) => None,
        }
    }

    /// Names the instruction that failed; a failure inside a nested computation already has a name.
    pub(super) fn at(instruction: &Instruction, failure: EvalFailure) -> EvalError {
        match failure {
            EvalFailure::Nested(error) => *error,
            failure => EvalError::Instruction {
                instruction: instruction.name.clone(),
                kind: instruction.kind,
                position: instruction.position,
                failure,
            },
        }
    }
}

impl From<WrongDevices> for EvalError {
    fn from(error: WrongDevices) -> Self {
        EvalError::WrongDevices(Box::new(error))
    }
}

impl From<GraphError> for EvalError {
    fn from(error: GraphError) -> Self {
        EvalError::Graph(Box::new(error))
    }
}

/// Why one operation could not be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalFailure {
    /// The constant's value was left out of the text.
    #[error("the constant's value was left out of the text (`{{...}}`); XLA prints it with print_large_constants=True")]
    Elided,
    /// No meaning here, or none that halo knows.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The instruction breaks a rule of its operation.
    #[error("{0}")]
    Malformed(String),
    /// The value is larger than the environment allows.
    #[error("out of memory: a value of shape {0} of {bytes} bytes is beyond the memory limit", bytes = .0.byte_size())]
    TooLarge(Box<ArrayShape>),
    /// Nothing left to read.
    #[error("{0} is empty")]
    Empty(String),
    /// Other devices failed or did not come.
    #[error("{0}")]
    Devices(String),
    /// A custom call reported an error.
    #[error("custom call failed: {0}")]
    CustomCall(String),
    /// Data of the wrong size.
    #[error(transparent)]
    Literal(Box<LiteralError>),
    /// A nested computation failed.
    #[error(transparent)]
    Nested(Box<EvalError>),
}

impl EvalFailure {
    pub(super) fn malformed(text: impl Into<String>) -> EvalFailure {
        EvalFailure::Malformed(text.into())
    }

    pub(super) fn type_mismatch(element_type: ElementType) -> EvalFailure {
        EvalFailure::Malformed(format!("the operation is not defined on {element_type}"))
    }
}

impl From<LiteralError> for EvalFailure {
    fn from(error: LiteralError) -> Self {
        EvalFailure::Literal(Box::new(error))
    }
}

impl From<OpError> for EvalFailure {
    fn from(error: OpError) -> Self {
        EvalFailure::Malformed(error.to_string())
    }
}

impl From<EvalError> for EvalFailure {
    fn from(error: EvalError) -> Self {
        EvalFailure::Nested(Box::new(error))
    }
}
