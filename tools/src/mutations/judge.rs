//! What must hold of a mutant, and what correct engines may differ in.
//!
//! - Draws of `rng`: each engine has its own numbers; so are bits of `rng-bit-generator`'s default algorithm.
//! - Vectors and signs that LAPACK's routines leave free: programs that call them are compared in `conformance`.
//! - Sums whose terms cancel: they may differ by what they move by when arguments move by one unit in the last place.
//! - What an instruction makes of operands that differ within the tolerance of their operation, such as the bits of a float or
//!   the outcome of a comparison: compiled code must do what the evaluator does on the operands as compiled code has them.
//! - The outcome of comparing floats that are computed together with the comparison: their sums may be in another order than
//!   where they are results.

use std::collections::HashSet;

use evaluator::{Environment, EvalError, EvalFailure};
use halo::pipeline::Phase;
use halo::{Client, CompileOptions};
use hlo::graph::{Computation, Module};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use hlo::shape::Shape;
use lowering_llvm::Target;

use super::MutantStage;
use crate::compare::{self, Tolerance};
use crate::emit::{self, CodePlatform, EmitOptions, Output};
use crate::error::ToolError;
use crate::fill::{self, FillRange};
use crate::first_difference::{DifferenceCause, Engines, FirstDifference, Tolerances, first_difference};
use crate::module_file::SourceText;
use crate::sensitivity;
use crate::value_text;

/// Elements of the largest value of a program that is run.
const MOST_ELEMENTS: i64 = 1 << 14;
/// Runs with moved arguments where terms of a sum may cancel.
const SENSITIVITY_RUNS: usize = 16;
/// Instructions that a program may execute.
const MOST_STEPS: u64 = 20_000;

/// Judges HLO text; an error is what is wrong with halo.
pub(super) fn judge_text(seed: u64, text: &str, client: &Client) -> Result<MutantStage, String> {
    let module = match hlo::text::read(text) {
        Ok(module) => module,
        Err(errors) => {
            errors.render("mutant.hlo", text);
            return Ok(MutantStage::Invalid);
        }
    };
    let printed = hlo::text::print(&module);
    match hlo::text::read(&printed) {
        Ok(again) if again == module => {}
        Ok(_) => return Err(format!("the printed program reads as another one:\n{printed}")),
        Err(errors) => {
            return Err(format!("the printed program does not read:\n{}", errors.render("printed.hlo", &printed)));
        }
    }
    judge_module(seed, &module, client)
}

/// Judges MLIR text: a program in the hlo dialect, or the IR of a later phase, which is lowered as far as it goes.
pub(super) fn judge_mlir(seed: u64, text: &str, client: &Client) -> Result<MutantStage, String> {
    let source = SourceText { path: "mutant.mlir".into(), text: text.into() };
    match source.module() {
        // The rules that only a module's text has are checked there.
        Ok(module) => match hlo::text::read(&hlo::text::print(&module)) {
            Ok(_) => return judge_module(seed, &module, client),
            Err(_) => return Ok(MutantStage::Invalid),
        },
        Err(error) if error.is_bug() => return Err(error.render()),
        Err(error) => drop(error.render()),
    }
    let options = EmitOptions::new(Output::Phase(Phase::Llvm), CodePlatform::Cpu, Target::host());
    match emit::emit(&source, &options) {
        Err(error) if error.is_bug() => Err(error.render()),
        Ok(_) | Err(_) => Ok(MutantStage::Invalid),
    }
}

fn judge_module(seed: u64, module: &Module, client: &Client) -> Result<MutantStage, String> {
    let traits = Traits::of(module);
    if traits.is_large {
        return Ok(MutantStage::NotRun);
    }
    let Some(arguments) = arguments(seed, module) else { return Ok(MutantStage::NotRun) };
    let mut environment = Environment::new();
    environment.step_limit = Some(MOST_STEPS);
    environment.memory_limit = 1 << 26;
    let expected = evaluator::evaluate(module, &arguments, &mut environment);
    if matches!(expected, Err(EvalError::StepLimit(_) | EvalError::TooLong(_) | EvalError::TooDeep(_))) {
        return Ok(MutantStage::NotRun);
    }
    if expected.is_err() && traits.has_loops {
        // Nobody knows whether it ends.
        return Ok(MutantStage::NotRun);
    }
    // Values that an earlier mutant sent wait in its client's channels.
    let own = traits.communicates.then(|| Client::with_threads(1)).transpose().map_err(|error| error.to_string())?;
    let client = own.as_ref().unwrap_or(client);
    let options = CompileOptions { excess_precision: false, verify: true, ..CompileOptions::default() };
    let executable = match client.compile(module, &options) {
        Ok(executable) => executable,
        Err(error) if error.is_bug() => return Err(format!("a mistake of the compiler: {error}")),
        Err(error) if error.is_unsupported() || expected.is_err() => {
            let _ = error.to_string();
            return Ok(MutantStage::NotRun);
        }
        Err(error) => return Err(format!("evaluated, but not compiled: {error}")),
    };
    match (executable.execute(&arguments), expected) {
        (Err(error), _) if error.is_bug() => Err(format!("a mistake of the compiler: {error}")),
        (Err(_), Err(_)) => Ok(MutantStage::Ran),
        (Err(_), Ok(_)) if traits.has_custom_calls => Ok(MutantStage::NotRun),
        (Err(error), Ok(_)) => Err(format!("evaluated, but compiled code says: {error}")),
        (Ok(_), Err(error)) if is_limit(&error) => Ok(MutantStage::NotRun),
        (Ok(found), Err(error)) => {
            Err(format!("compiled code gives {}, evaluated: {error}", value_text::shortened(&found)))
        }
        (Ok(_), Ok(_)) if traits.is_free => Ok(MutantStage::Ran),
        (Ok(found), Ok(expected)) => {
            let comparison = compare::compare_literals(&found, &expected, Tolerance::default_for);
            if comparison.agrees() {
                return Ok(MutantStage::Ran);
            }
            let place = match place_of_difference(module, &arguments, [&found, &expected], client, &options) {
                Ok(None) => return Ok(MutantStage::Ran),
                Ok(Some(place)) => place,
                Err(error) => error.to_string(),
            };
            let text = value_text::shortened;
            Err(format!("{comparison}: {place}\n    compiled  {}\n    evaluated {}", text(&found), text(&expected)))
        }
    }
}

/// What compiled code does differently; nothing if each instruction agrees on the operands that it gets, and one enlarges the
/// small differences which correct engines may have.
fn place_of_difference(
    module: &Module,
    arguments: &[Literal],
    [found, expected]: [&Literal; 2],
    client: &Client,
    options: &CompileOptions,
) -> Result<Option<String>, ToolError> {
    let suspect = |part: &Module, arguments: &[Literal]| Ok(client.compile(part, options)?.execute(arguments)?);
    let judge = |part: &Module, arguments: &[Literal]| {
        let mut environment = Environment::new();
        environment.step_limit = Some(MOST_STEPS);
        evaluator::evaluate(part, arguments, &mut environment).map_err(|error| ToolError::Execution(error.to_string()))
    };
    let engines = Engines { suspect: &suspect, judge: &judge };
    let first = first_difference(module, arguments, Tolerances::default(), engines)?;
    Ok(match first {
        Some(FirstDifference { cause: DifferenceCause::Operands, .. }) => None,
        Some(FirstDifference { cause: DifferenceCause::Together, instruction, kind: OpKind::Compare, .. })
            if compares_floats(module, &instruction) =>
        {
            None
        }
        Some(first) if is_sum(first.kind) && cancels(arguments, found, expected, &|moved| judge(module, moved))? => {
            None
        }
        Some(first) => Some(format!("first in `{}` ({:?})", first.instruction, first.cause)),
        None => Some("but no part of the program differs".to_string()),
    })
}

/// Whether an instruction of this name has operands that are floats.
fn compares_floats(module: &Module, name: &str) -> bool {
    computations(module).iter().any(|computation| {
        let mut named = computation.instructions.iter().filter(|own| own.name == name);
        named.any(|own| {
            let shapes = computation.operand_shapes(own);
            shapes.iter().any(|shape| shape.as_array().is_some_and(|array| array.element_type.is_float()))
        })
    })
}

/// The computations of a module, and those of their instructions.
fn computations(module: &Module) -> Vec<&Computation> {
    let mut all = Vec::new();
    let mut open: Vec<&Computation> = module.functions.iter().collect();
    while let Some(computation) = open.pop() {
        open.extend(computation.instructions.iter().flat_map(|instruction| &instruction.computations));
        all.push(computation);
    }
    all
}

fn is_sum(kind: OpKind) -> bool {
    matches!(definition(kind).class, OpClass::Reduction | OpClass::Contraction)
}

/// Whether results differ by no more than they move by when arguments move by one unit in the last place, because terms cancel.
fn cancels(
    arguments: &[Literal],
    found: &Literal,
    expected: &Literal,
    evaluate: &dyn Fn(&[Literal]) -> Result<Literal, ToolError>,
) -> Result<bool, ToolError> {
    let movements = sensitivity::movements(arguments, expected, SENSITIVITY_RUNS, evaluate)?;
    let arrays = |literal: &Literal| -> Vec<ArrayLiteral> {
        literal.leaves().into_iter().filter_map(|leaf| leaf.as_array().cloned()).collect()
    };
    Ok(arrays(found).iter().zip(&arrays(expected)).zip(&movements).all(|((found, expected), movement)| {
        let tolerance = Tolerance::default_for(expected.element_type());
        compare::compare_arrays(found, expected, tolerance, Some(movement)).agrees()
    }))
}

fn is_limit(error: &EvalError) -> bool {
    let EvalError::Instruction { failure, .. } = error else { return false };
    matches!(failure, EvalFailure::TooLarge(_) | EvalFailure::Unsupported(_) | EvalFailure::Elided)
}

fn arguments(seed: u64, module: &Module) -> Option<Vec<Literal>> {
    fn value(stream: u64, shape: &Shape) -> Option<Literal> {
        match shape {
            Shape::Array(array) => {
                fill::fill(stream, array, FillRange::default_for(array.element_type)).ok().map(Literal::Array)
            }
            Shape::Tuple(elements) => {
                let values = (0..).zip(elements).map(|(number, element)| value(stream + number, element));
                Some(Literal::Tuple(values.collect::<Option<_>>()?))
            }
            Shape::Token => Some(Literal::Token),
            Shape::Opaque => None,
        }
    }
    let parameters = module.entry().program_shape().parameters;
    (0..).zip(&parameters).map(|(number, shape)| value(seed.wrapping_add(16 * number) & 0xff_ffff, shape)).collect()
}

/// What the comparison must know of a program.
#[derive(Default)]
struct Traits {
    /// It has values too large to try.
    is_large: bool,
    /// Its results are not determined.
    is_free: bool,
    /// It has loops.
    has_loops: bool,
    /// It sends or receives values.
    communicates: bool,
    /// It has custom calls, whose configurations are read more strictly by compiled code.
    has_custom_calls: bool,
}

impl Traits {
    fn of(module: &Module) -> Self {
        let mut traits = Traits::default();
        let mut kinds = HashSet::new();
        for computation in computations(module) {
            for instruction in &computation.instructions {
                traits.look_at(&instruction.shape);
                for operand in computation.operand_shapes(instruction) {
                    traits.look_at(operand);
                }
                let window: i64 = instruction.attributes.window().iter().map(|w| w.size.max(1)).product();
                traits.is_large |= !(0..=MOST_ELEMENTS).contains(&window);
                kinds.insert(instruction.kind);
            }
        }
        let has = |wanted: &[OpKind]| wanted.iter().any(|kind| kinds.contains(kind));
        traits.has_loops = has(&[OpKind::While]);
        traits.communicates = has(&[OpKind::Send, OpKind::Recv, OpKind::Infeed, OpKind::Outfeed]);
        traits.has_custom_calls = has(&[OpKind::CustomCall]);
        traits.is_free = has(&[OpKind::Rng, OpKind::RngBitGenerator, OpKind::RngGetAndUpdateState, OpKind::CustomCall]);
        traits
    }

    fn look_at(&mut self, shape: &Shape) {
        for array in shape.leaves().into_iter().filter_map(Shape::as_array) {
            let count = array.dimensions.iter().try_fold(1i64, |count, &size| count.checked_mul(size));
            self.is_large |= !count.is_some_and(|count| (0..=MOST_ELEMENTS).contains(&count));
        }
    }
}
