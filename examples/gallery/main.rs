//! Programs that show the interface at work, one module each: `cargo run --release --example gallery -- mandelbrot`.
//!
//! They share a binary because LLVM is linked into each one.

mod call_overhead;
mod custom_call;
mod k_means;
mod linear_regression;
mod mandelbrot;
mod time_a_dump;
mod two_moons;

use std::path::PathBuf;
use std::process::ExitCode;

/// What an example gives: a line to print, or whatever went wrong.
type Outcome = Result<String, Box<dyn std::error::Error>>;

/// An example: it gets the arguments after its name.
type Example = fn(&[PathBuf]) -> Outcome;

const EXAMPLES: [(&str, Example); 7] = [
    ("call-overhead", call_overhead::run),
    ("custom-call", custom_call::run),
    ("k-means", k_means::run),
    ("linear-regression", linear_regression::run),
    ("mandelbrot", mandelbrot::run),
    ("time-a-dump", time_a_dump::run),
    ("two-moons", two_moons::run),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some((_, example)) = EXAMPLES.iter().find(|(known, _)| *known == name) else {
        let names = EXAMPLES.map(|(name, _)| name).join(", ");
        eprintln!("usage: gallery EXAMPLE [ARGUMENTS], where EXAMPLE is one of {names}");
        return ExitCode::from(2);
    };
    let arguments: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    match example(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
