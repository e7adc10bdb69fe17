//! What an evaluation reads and writes besides its arguments and result.

use std::collections::{HashMap, VecDeque};

use super::EvalError;
use super::devices::Device;
use super::random::GeneratorState;
use hlo::graph::Instruction;
use hlo::literal::Literal;

/// Called with each executed instruction, the literals of its operands and its result. A parameter's operand is
/// its argument.
pub type Observer<'a> = &'a mut dyn FnMut(&Instruction, &[Literal], &Literal);

/// Functions that `custom-call` instructions name.
pub trait CustomCalls {
    /// Calls the function an instruction names; `None` if there is no such function, and then the built-in ones
    /// are tried.
    fn call(&self, instruction: &Instruction, operands: &[Literal]) -> Option<Result<Literal, String>>;
}

/// Queues, functions and limits of an evaluation.
pub struct Environment<'a> {
    /// Values that `infeed` reads, first one first.
    pub infeed: VecDeque<Literal>,
    /// Values that `outfeed` has written.
    pub outfeed: VecDeque<Literal>,
    /// Values sent and not yet received, by channel.
    pub channels: HashMap<Option<i64>, VecDeque<Literal>>,
    /// Functions for `custom-call`.
    pub custom_calls: Option<&'a dyn CustomCalls>,
    /// Called with each executed instruction.
    pub observer: Option<Observer<'a>>,
    /// Instructions that may be executed, those of nested computations included.
    pub step_limit: Option<u64>,
    /// Bytes that one result may have; 4 GiB by default.
    pub memory_limit: u64,
    /// State of `rng` and `rng-get-and-update-state`.
    pub random: GeneratorState,
    /// Which device this is, of several.
    pub(super) device: Option<Device<'a>>,
    steps: u64,
}

impl Default for Environment<'_> {
    fn default() -> Self {
        Environment {
            infeed: VecDeque::new(),
            outfeed: VecDeque::new(),
            channels: HashMap::new(),
            custom_calls: None,
            observer: None,
            step_limit: None,
            memory_limit: 4 << 30,
            random: GeneratorState::default(),
            device: None,
            steps: 0,
        }
    }
}

impl Environment<'_> {
    /// Empty queues, no functions, no step limit.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn count_step(&mut self) -> Result<(), EvalError> {
        self.steps += 1;
        match self.step_limit {
            Some(limit) if self.steps > limit => Err(EvalError::StepLimit(limit)),
            _ => Ok(()),
        }
    }
}
