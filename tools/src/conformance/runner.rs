//! Running cases: evaluated one by one, compiled together.

use std::sync::Arc;

use hlo::eval::{self, Environment};
use hlo::literal::{ArrayLiteral, Literal};

use super::case::{Case, LoadedCase};
use super::difference::difference;
use super::joined::{join, member_of};
use super::report::Outcome;
use super::tolerance;

/// Cases that are compiled as one program.
const JOINED: usize = 48;

/// Evaluates each case.
pub fn evaluate(cases: &[Arc<Case>]) -> Vec<Outcome> {
    cases
        .iter()
        .map(|case| {
            let outcome = case.load().and_then(|loaded| {
                let found = eval::evaluate(&loaded.module, &loaded.inputs, &mut Environment::default());
                found.map(|found| compare(case, &loaded, &found)).map_err(|error| error.to_string())
            });
            outcome.unwrap_or_else(Outcome::Fails)
        })
        .collect()
}

/// Compiles and runs the cases, many in one program.
pub fn execute(cases: &[Arc<Case>]) -> Vec<Outcome> {
    cases.chunks(JOINED).flat_map(execute_together).collect()
}

fn execute_together(cases: &[Arc<Case>]) -> Vec<Outcome> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; cases.len()];
    let mut loaded: Vec<(usize, LoadedCase)> = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        match case.load() {
            Ok(case) => loaded.push((number, case)),
            Err(message) => outcomes[number] = Some(Outcome::Fails(message)),
        }
    }
    while !loaded.is_empty() {
        let joined = join(loaded.iter().map(|(_, case)| &case.module));
        let inputs: Vec<Literal> = loaded.iter().flat_map(|(_, case)| case.inputs.iter().cloned()).collect();
        let (outcome, at_fault) = match compile_and_run(&joined, &inputs) {
            Ok(results) => {
                for ((number, case), found) in loaded.iter().zip(&results) {
                    outcomes[*number] = Some(compare(&cases[*number], case, found));
                }
                break;
            }
            Err(failure) => failure,
        };
        // Without the case at fault, the others run; if it is not known, each is tried alone.
        match at_fault.filter(|&member| member < loaded.len()) {
            Some(member) => outcomes[loaded.remove(member).0] = Some(outcome),
            None if loaded.len() == 1 => outcomes[loaded.remove(0).0] = Some(outcome),
            None => {
                for (number, _) in loaded.drain(..) {
                    outcomes[number] = execute_together(&cases[number..=number]).pop();
                }
            }
        }
    }
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Outcome::Fails("it did not run".into()))).collect()
}

/// The results of a joined program, one for each member; or what went wrong, and in which member if that is known.
fn compile_and_run(module: &hlo::graph::Module, inputs: &[Literal]) -> Result<Vec<Literal>, (Outcome, Option<usize>)> {
    let failed = |error: halo::Error| {
        let member = match &error {
            halo::Error::Lowering(lowering_loops::error::LoweringError::Unsupported { instruction, .. }) => {
                member_of(instruction)
            }
            _ => None,
        };
        let text = error.to_string();
        (if error.is_unsupported() { Outcome::Unsupported(text) } else { Outcome::Fails(text) }, member)
    };
    let executable = halo::Client::with_threads(1)
        .and_then(|client| client.compile(module, &halo::CompileOptions::default()))
        .map_err(failed)?;
    match executable.execute(inputs).map_err(failed)? {
        Literal::Tuple(results) => Ok(results),
        _ => Err((Outcome::Fails("the joined program gave no tuple".into()), None)),
    }
}

/// Compares the result of a case with what is expected.
fn compare(case: &Case, loaded: &LoadedCase, found: &Literal) -> Outcome {
    let found: Vec<&ArrayLiteral> = found.leaves().into_iter().filter_map(Literal::as_array).collect();
    if found.len() != loaded.results.len() {
        return Outcome::Fails(format!("expected {} arrays, got {}", loaded.results.len(), found.len()));
    }
    let differences = found.iter().zip(&loaded.results).filter_map(|(found, expected)| {
        let measure = tolerance::measure(case.op, case.element_type);
        difference(found, expected, measure, tolerance::flushes_denormals(case.source))
    });
    differences.map(Outcome::Fails).next().unwrap_or(Outcome::Agrees)
}
