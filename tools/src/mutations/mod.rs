//! Mutated inputs: none may crash halo, and on programs that stay valid both engines must agree.
//!
//! A mutant is a text of `test-files/` with a few tokens or lines changed, made from a seed. Two engines that both give an
//! error agree, whatever they say. What correct engines may differ in is listed in `judge.rs`.

pub mod files;
mod judge;
mod text;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use halo::Client;

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

/// Reads, evaluates, compiles and runs the mutant of a seed.
///
/// # Errors
/// For a panic, a mistake of the compiler, and results that differ.
pub fn check(seed: u64, sources: &[String], client: &Client) -> Result<MutantStage, MutantFailure> {
    let text = mutant(seed, sources);
    let failure = |message: String| MutantFailure { seed, message, text: text.clone() };
    match panic::catch_unwind(AssertUnwindSafe(|| judge::judge(seed, &text, client))) {
        Ok(judgement) => judgement.map_err(failure),
        Err(payload) => Err(failure(format!("panic: {}", text_of_panic(&*payload)))),
    }
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
