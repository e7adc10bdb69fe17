//! The evaluator: what every operation means, in plain Rust, straight from the operation semantics.
//!
//! It is the reference that compiled programs are compared with, so it shares no code with indexing maps or lowering. Instructions are
//! executed in order and a value is freed after its last use; only nested computations recurse. Elements are
//! computed in the widest type of their class and rounded once per operation (see [`hlo::scalar`]).
//!
//! One file per family of operations; `execute.rs` is the table that maps each operation to its function.

mod batch_norm;
mod binary;
mod collective;
mod compare;
mod complex;
mod control;
mod convert;
mod convolution;
mod custom_call;
mod data;
mod devices;
mod dot;
mod dynamic_shape;
mod element_loops;
mod environment;
mod error;
mod execute;
mod fft;
mod indexed;
mod lapack;
mod linear_algebra;
mod movement;
mod ragged;
mod random;
mod reduce;
mod scalar_function;
mod scatter;
mod sort;
mod sparse;
mod strided;
mod unary;
mod value;
mod window;

pub use devices::evaluate_on_devices;
pub use environment::{CustomCalls, Environment, Observer};
pub use error::{EvalError, EvalFailure};
pub use movement::reshape_in_order;
pub use value::{ArrayValue, EvalValue};

use hlo::graph::{Computation, Instruction, InstructionId, Module};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;

/// Evaluates a module's entry computation on arguments given by parameter number.
///
/// The module is checked first ([`Module::check`]); one whose devices depend on one another is for
/// [`evaluate_on_devices`]. Bounded dynamic results come back at their bound, with zeros for
/// what does not exist; use [`evaluate_values`] to see run-time sizes.
pub fn evaluate(
    module: &Module,
    arguments: &[Literal],
    environment: &mut Environment<'_>,
) -> Result<Literal, EvalError> {
    let arguments = arguments.iter().map(EvalValue::from_literal).collect::<Result<_, _>>();
    let arguments = arguments.map_err(|failure| EvalError::Arguments(failure.to_string()))?;
    let value = evaluate_values(module, arguments, environment)?;
    let zeroed = value.zeroed().map_err(|failure| EvalError::Arguments(failure.to_string()))?;
    Ok(zeroed.to_literal())
}

/// Evaluates a module's entry computation on values that may carry run-time sizes.
pub fn evaluate_values(
    module: &Module,
    arguments: Vec<EvalValue>,
    environment: &mut Environment<'_>,
) -> Result<EvalValue, EvalError> {
    module.check()?;
    hlo::devices::check(module)?;
    if hlo::devices::devices_of(module) > 1 {
        return Err(EvalError::Devices { expected: hlo::devices::DeviceCount::of(module).total(), found: 1 });
    }
    check_length(module)?;
    Evaluator::new(Some(module), environment).run(module.entry(), arguments)
}

/// Evaluates one instruction on the literals of its operands, as constant folding does. `module` holds the
/// functions it calls, if any. The instruction must have been checked.
pub fn evaluate_instruction(
    module: Option<&Module>,
    instruction: &Instruction,
    operands: &[Literal],
    environment: &mut Environment<'_>,
) -> Result<Literal, EvalError> {
    let mut evaluator = Evaluator::new(module, environment);
    let operands: Result<Vec<EvalValue>, EvalFailure> = operands.iter().map(EvalValue::from_literal).collect();
    operands
        .and_then(|operands| evaluator.execute(instruction, operands))
        .map(|value| value.to_literal())
        .map_err(|failure| EvalError::at(instruction, failure))
}

/// Instructions that calls, one of another, may come to: as many take minutes.
const LENGTH_LIMIT: u64 = 1 << 33;

/// Refuses modules whose calls multiply until they would never end. Loops may be as long as they are.
fn check_length(module: &Module) -> Result<(), EvalError> {
    fn length(computation: &Computation, functions: &[u64]) -> u64 {
        let lengths = computation.instructions.iter().map(|instruction| {
            let nested = instruction.computations.iter().map(|nested| length(nested, functions));
            let callee = instruction.callee.and_then(|callee| functions.get(callee.index()));
            // Of the branches one is executed.
            nested.fold(0, u64::max).saturating_add(callee.map_or(0, |&length| length)).saturating_add(1)
        });
        lengths.fold(0, u64::saturating_add)
    }
    let mut functions: Vec<u64> = Vec::with_capacity(module.functions.len());
    for function in &module.functions {
        functions.push(length(function, &functions));
    }
    match functions.get(module.entry.index()) {
        Some(&length) if length > LENGTH_LIMIT => Err(EvalError::TooLong(LENGTH_LIMIT)),
        _ => Ok(()),
    }
}

/// Stack kept free for one level of nesting, and the size of a further piece of stack when there is less.
const STACK_RESERVE: usize = 128 * 1024;
const STACK_PIECE: usize = 1024 * 1024;

/// Computations nested, or functions calling one another, deeper than this are refused.
const DEPTH_LIMIT: usize = 10_000;

/// An evaluation in progress.
struct Evaluator<'m, 'e, 'o> {
    module: Option<&'m Module>,
    environment: &'e mut Environment<'o>,
    depth: usize,
}

impl<'m, 'e, 'o> Evaluator<'m, 'e, 'o> {
    fn new(module: Option<&'m Module>, environment: &'e mut Environment<'o>) -> Self {
        Evaluator { module, environment, depth: 0 }
    }

    /// Evaluates a computation.
    fn run(&mut self, computation: &Computation, arguments: Vec<EvalValue>) -> Result<EvalValue, EvalError> {
        if self.depth >= DEPTH_LIMIT {
            return Err(EvalError::TooDeep(DEPTH_LIMIT));
        }
        self.depth += 1;
        let result = stacker::maybe_grow(STACK_RESERVE, STACK_PIECE, || self.run_instructions(computation, arguments));
        self.depth -= 1;
        result
    }

    fn run_instructions(
        &mut self,
        computation: &Computation,
        arguments: Vec<EvalValue>,
    ) -> Result<EvalValue, EvalError> {
        if arguments.len() != computation.parameters.len() {
            return Err(EvalError::Arguments(format!(
                "computation `{}` takes {} arguments, got {}",
                computation.name,
                computation.parameters.len(),
                arguments.len()
            )));
        }
        let mut arguments: Vec<Option<EvalValue>> = arguments.into_iter().map(Some).collect();
        let mut uses = computation.use_counts();
        if let Some(uses) = uses.get_mut(computation.root.index()) {
            *uses += 1;
        }
        let mut slots: Vec<Option<EvalValue>> = vec![None; computation.instructions.len()];
        for (id, instruction) in computation.iter() {
            self.environment.count_step()?;
            let value = self
                .operands(instruction, &mut slots, &mut uses, &mut arguments)
                .and_then(|operands| self.observed(instruction, operands))
                .map_err(|failure| EvalError::at(instruction, failure))?;
            if uses[id.index()] > 0 {
                slots[id.index()] = Some(value);
            }
        }
        slots
            .get_mut(computation.root.index())
            .and_then(Option::take)
            .ok_or_else(|| EvalError::Arguments(format!("computation `{}` has no root", computation.name)))
    }

    /// The operands' values, moved out of their slots where this is the last use. A parameter's operand is its argument.
    fn operands(
        &self,
        instruction: &Instruction,
        slots: &mut [Option<EvalValue>],
        uses: &mut [u32],
        arguments: &mut [Option<EvalValue>],
    ) -> Result<Vec<EvalValue>, EvalFailure> {
        if instruction.kind == OpKind::Parameter {
            let argument = instruction.parameter_number().and_then(|number| arguments.get_mut(number)?.take());
            return Ok(vec![argument.ok_or_else(|| EvalFailure::malformed("the parameter has no argument"))?]);
        }
        let mut take = |operand: InstructionId| {
            let slot = slots.get_mut(operand.index())?;
            let remaining = &mut uses[operand.index()];
            *remaining = remaining.saturating_sub(1);
            if *remaining == 0 { slot.take() } else { slot.clone() }
        };
        instruction
            .operands
            .iter()
            .map(|&operand| take(operand).ok_or_else(|| EvalFailure::malformed("an operand has no value")))
            .collect()
    }

    /// Executes an instruction and shows it to the observer, if there is one.
    fn observed(&mut self, instruction: &Instruction, operands: Vec<EvalValue>) -> Result<EvalValue, EvalFailure> {
        if self.environment.observer.is_none() {
            return self.execute(instruction, operands);
        }
        let literals: Vec<Literal> = operands.iter().map(EvalValue::to_literal).collect();
        let value = self.execute(instruction, operands)?;
        if let Some(observer) = &mut self.environment.observer {
            observer(instruction, &literals, &value.to_literal());
        }
        Ok(value)
    }
}
