//! The steps of a program that a profile gives times for.

use crate::cost::Cost;
use crate::graph::{Computation, GraphError, Instruction};
use crate::op_kind::OpKind;

/// What copies are called as an operation.
const COPY: &str = "copy";

/// A step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfiledStep {
    /// Name of its instruction in the fused program.
    pub name: String,
    /// Name of its operation; `copy` for what is copied before or after an instruction.
    pub operation: String,
    /// Whether it consists of other steps: a `while` or a `conditional`.
    pub has_steps: bool,
    /// What one execution costs.
    pub cost: Cost,
}

impl ProfiledStep {
    /// The step of an instruction.
    ///
    /// # Errors
    /// For instructions that break a rule of their operation.
    pub fn of(computation: &Computation, instruction: &Instruction) -> Result<Self, GraphError> {
        Ok(ProfiledStep {
            name: instruction.name.clone(),
            operation: instruction.kind.text_name().to_string(),
            has_steps: matches!(instruction.kind, OpKind::While | OpKind::Conditional),
            cost: Cost::of_instruction(computation, instruction)?,
        })
    }

    /// What is copied for an instruction.
    pub fn copy_for(name: &str, bytes: usize) -> Self {
        let cost = Cost { bytes_accessed: 2 * bytes as u64, ..Cost::default() };
        ProfiledStep { name: name.to_string(), operation: COPY.to_string(), has_steps: false, cost }
    }
}
