//! Random programs: compiled and evaluated, they must give the same.
//!
//! [`generate`] makes a program from a seed, [`RandomFailure`] is one on which the two engines differ, shrunk to the few
//! instructions that matter. How far two correct engines may be apart is derived while the program is made: most
//! operations round as IEEE 754 says and are compared bit by bit; for the others (`tanh`, sums of floats, …) each
//! value carries a bound of its error, see `accuracy`. Operations that would blow a small error up, such as
//! comparisons, only take exact values. Every other program is compiled with excess precision, where the products of
//! floats and bf16 results that become f32 have an error too. In half of the programs results are written over arguments.

mod accuracy;
mod control;
mod generate;
mod movement;
mod operations;
mod reductions;
mod shrink;
mod sized;
mod structured;

use std::collections::HashMap;
use std::fmt;

use evaluator::Environment;
use halo::{Client, CompileOptions};
use hlo::graph::{InputOutputAlias, Instruction, Module};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::shape::{ProgramShape, Shape};

use crate::compare;

pub use generate::generate;

/// A program with its arguments, and how exactly its values are determined.
#[derive(Clone, Debug)]
pub struct RandomProgram {
    /// The program.
    pub module: Module,
    /// Arguments of the entry computation.
    pub arguments: Vec<Literal>,
    /// Whether it is compiled with excess precision.
    pub excess_precision: bool,
    /// Whether its results take the place of arguments of their shape.
    pub overwrites_arguments: bool,
    /// Absolute error allowed for the values of the entry computation, by name of the instruction.
    pub errors: HashMap<String, f64>,
}

/// A program on which the engines differ.
#[derive(Clone, Debug)]
pub struct RandomFailure {
    /// What is wrong.
    pub message: String,
    /// The smallest program found on which it is; none if no valid program was made.
    pub program: Option<Box<RandomProgram>>,
}

impl fmt::Display for RandomFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        let Some(program) = &self.program else { return Ok(()) };
        writeln!(f, "{}", hlo::text::print(&program.module))?;
        for (number, argument) in program.arguments.iter().enumerate() {
            writeln!(f, "argument {number}: {}", crate::value_text::shortened(argument))?;
        }
        Ok(())
    }
}

/// Compiles and evaluates the program of a seed.
///
/// # Errors
/// The failure, shrunk.
pub fn check(seed: u64, client: &Client) -> Result<(), RandomFailure> {
    let failure = |message: String, program| RandomFailure { message: format!("seed {seed}: {message}"), program };
    let program = generate(seed).map_err(|message| failure(message, None))?;
    let Some(difference) = differs(&program, client) else { return Ok(()) };
    let program = shrink::shrink(program, difference.output, |smaller| differs(smaller, client));
    let message = differs(&program, client).map_or(difference.message, |difference| difference.message);
    Err(failure(message, Some(Box::new(program))))
}

/// How the engines differ, and in which element of the result.
struct Difference {
    output: Option<usize>,
    message: String,
}

fn differs(program: &RandomProgram, client: &Client) -> Option<Difference> {
    let whole = |message: String| Some(Difference { output: None, message });
    let expected = match evaluator::evaluate(&program.module, &program.arguments, &mut Environment::default()) {
        Ok(expected) => expected,
        Err(error) => return whole(format!("not evaluated: {error}")),
    };
    let options =
        CompileOptions { excess_precision: program.excess_precision, verify: true, ..CompileOptions::default() };
    let mut module = program.module.clone();
    if program.overwrites_arguments {
        module.input_output_aliases = aliases(&module);
    }
    let compiled = client.compile(&module, &options);
    let found = match compiled.and_then(|executable| executable.execute(&program.arguments)) {
        Ok(found) => found,
        Err(error) => return whole(format!("not compiled: {error}")),
    };
    let entry = program.module.entry();
    let names = entry.root().operands.iter().map(|&operand| &entry.get(operand).name);
    let results = found.as_tuple().unwrap_or_default().iter().zip(expected.as_tuple().unwrap_or_default());
    for (output, (name, (found, expected))) in names.zip(results).enumerate() {
        let error = program.errors.get(name).copied().unwrap_or(0.0);
        if let Some(message) = array_difference(found.as_array()?, expected.as_array()?, error) {
            return Some(Difference { output: Some(output), message: format!("`{name}`: {message}") });
        }
    }
    None
}

/// Each result in the place of the last argument of its shape that no other result takes.
fn aliases(module: &Module) -> Vec<InputOutputAlias> {
    let ProgramShape { parameters, result } = module.entry().program_shape();
    let Shape::Tuple(results) = result else { return Vec::new() };
    let mut free: Vec<(usize, Shape)> =
        parameters.into_iter().enumerate().filter(|(_, shape)| shape.as_array().is_some()).collect();
    let place = |(output, shape): (usize, Shape)| {
        let (parameter, _) = free.remove(free.iter().rposition(|(_, own)| *own == shape)?);
        let (output_index, parameter) = (vec![output as i64], parameter as i64);
        Some(InputOutputAlias { output_index, parameter, parameter_index: Vec::new(), must_alias: false })
    };
    results.into_iter().enumerate().filter_map(place).collect()
}

/// The first element that is off by more than `error`.
fn array_difference(found: &ArrayLiteral, expected: &ArrayLiteral, error: f64) -> Option<String> {
    if found.bytes() == expected.bytes() {
        return None;
    }
    let mut pairs = compare::elements(found).zip(compare::elements(expected)).enumerate();
    pairs.find_map(|(position, (found, expected))| {
        let (a, b) = (found.to_complex(), expected.to_complex());
        let part = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= error;
        let equal = found == expected || (part(a.re, b.re) && part(a.im, b.im));
        (!equal)
            .then(|| format!("element {position} is {found:?} compiled and {expected:?} evaluated; allowed {error:e}"))
    })
}

/// Values of all instructions of the entry computation, by name.
fn values(program: &RandomProgram) -> HashMap<String, Literal> {
    let mut values = HashMap::new();
    let mut observer = |instruction: &Instruction, _: &[Literal], result: &Literal| {
        values.insert(instruction.name.clone(), result.clone());
    };
    let mut environment = Environment::new();
    environment.observer = Some(&mut observer);
    // A program that cannot be evaluated has no values to shrink with.
    let _ = evaluator::evaluate(&program.module, &program.arguments, &mut environment);
    values
}
