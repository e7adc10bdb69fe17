//! The public interface, used as programs use it: building, compiling, running, keeping.

mod against_evaluation;
mod brain_floats;
mod broadcasting;
mod calls;
mod columns;
mod cuda_emulator;
mod devices;
mod documents;
mod donation;
mod every_operation;
mod examples;
mod few_columns;
mod gaps;
mod growth;
mod joined;
mod layouts;
mod moved_rows;
mod prepacked;
mod profile;
mod running;
mod saved;
mod small_matrices;
mod steady_state;
mod stress;
mod threads;

use std::sync::LazyLock;

use evaluator::{Environment, evaluate};
use halo::builder::{HloBuilder, Op};
use halo::{Client, CompileOptions, Executable, Literal, Module};

/// A device for all tests.
static CLIENT: LazyLock<Client> = LazyLock::new(|| Client::cpu().expect("a device"));

fn compile(module: &Module) -> Executable {
    CLIENT.compile(module, &CompileOptions::default()).expect("a program that compiles")
}

/// Builds a program, and checks its result evaluated and compiled. Where an operation has no lowering yet, the evaluator
/// alone is asked.
#[track_caller]
fn assert_result(build: impl for<'b> FnOnce(&'b HloBuilder) -> Op<'b>, expected: impl Into<Literal>) {
    let b = HloBuilder::new("test");
    let root = build(&b);
    let module = b.build(root).unwrap_or_else(|errors| panic!("{errors}"));
    let expected = expected.into();
    let evaluated = evaluate(&module, &[], &mut Environment::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(evaluated, expected, "evaluated");
    match CLIENT.compile(&module, &CompileOptions::default()) {
        Ok(executable) => {
            let result = executable.execute(()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(result, expected, "compiled");
        }
        Err(error) if error.is_unsupported() => eprintln!("evaluated only: {error}"),
        Err(error) => panic!("{error}"),
    }
}
mod winograd;
