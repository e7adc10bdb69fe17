//! Mutated inputs: none may crash halo, and on programs that stay valid both engines must agree.
//!
//! A mutant is a text of `test-files/`, or a file's bytes, with a few tokens, lines or bytes changed, made from a seed. Two
//! engines that both give an error agree, whatever they say. What correct engines may differ in is listed in `judge.rs`.

pub mod files;
mod judge;
pub mod saved;
mod text;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use halo::Client;
use hlo::dialect::{self, PrintOptions};

pub use text::mutant;

/// A mutant on which something went wrong.
#[derive(Clone, Debug)]
pub struct MutantFailure {
    /// The mutant's seed.
    pub seed: u64,
    /// What went wrong.
    pub message: String,
    /// The mutant.
    pub text: String,
}

impl fmt::Display for MutantFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mutant {}: {}\n{}", self.seed, self.message, self.text)
    }
}

/// How far a mutant came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutantStage {
    /// It is no program.
    Invalid,
    /// It is a program that is too large or too long to run here, or that one of the engines has no code for.
    NotRun,
    /// Both engines ran it.
    Ran,
}

/// Reads, evaluates, compiles and runs the mutant of a seed, of HLO text.
///
/// # Errors
/// For a panic, a mistake of the compiler, and results that differ.
pub fn check(seed: u64, sources: &[String], client: &Client) -> Result<MutantStage, MutantFailure> {
    judged(seed, mutant(seed, sources), |text| judge::judge_text(seed, text, client))
}

/// Reads, evaluates, compiles and runs the mutant of a seed, of MLIR text.
///
/// # Errors
/// As for [`check`].
pub fn check_mlir(seed: u64, sources: &[String], client: &Client) -> Result<MutantStage, MutantFailure> {
    judged(seed, mutant(seed, sources), |text| judge::judge_mlir(seed, text, client))
}

fn judged(
    seed: u64,
    text: String,
    judge: impl FnOnce(&str) -> Result<MutantStage, String>,
) -> Result<MutantStage, MutantFailure> {
    let message = match panic::catch_unwind(AssertUnwindSafe(|| judge(&text))) {
        Ok(Ok(stage)) => return Ok(stage),
        Ok(Err(message)) => message,
        Err(payload) => format!("panic: {}", text_of_panic(&*payload)),
    };
    Err(MutantFailure { seed, message, text })
}

pub(crate) fn text_of_panic(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// The programs of the texts of a folder's file tests.
pub fn programs_of(text: &str) -> impl Iterator<Item = String> {
    text.split("\n// -----").filter(|program| program.contains("ENTRY")).map(|program| {
        let is_directive = |line: &&str| !line.trim_start().starts_with("//");
        program.lines().filter(is_directive).flat_map(|line| [line, "\n"]).collect()
    })
}

/// A program as text of the hlo dialect; nothing for what is no program.
pub fn mlir_of(program: &str) -> Option<String> {
    let module = hlo::text::read(program).ok()?;
    let context = dialect::context();
    let module = dialect::graph_to_mlir(&context, &module).ok()?;
    Some(dialect::print(&module, PrintOptions { locations: false, elide_above: None, ..PrintOptions::default() }))
}
