//! The two ways to run a program: compiled, and evaluated.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use evaluator::Environment;
use halo::CompileOptions;
use hlo::graph::Module;
use hlo::literal::Literal;

use crate::error::ToolError;
use crate::fill;
use crate::module_file::SourceText;

/// How a program is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Compiled to machine code.
    #[default]
    Jit,
    /// Compiled to machine code that rounds wherever the program does, without excess precision.
    StrictJit,
    /// Evaluated instruction by instruction.
    Interpreter,
}

/// How a program is read and compiled.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Threads of compiled code; all processors when absent.
    pub threads: Option<usize>,
    /// Whether constants whose values the text left out get made-up ones.
    pub fill_elided: bool,
}

impl LoadOptions {
    /// With so many threads.
    pub fn with_threads(threads: Option<usize>) -> Self {
        LoadOptions { threads, ..LoadOptions::default() }
    }
}

/// A program ready to run, with what getting there cost.
pub struct LoadedProgram {
    /// The program's text.
    pub source_text: SourceText,
    /// The program.
    pub module: Module,
    /// Phases of compilation and their times, in order; the first is reading the text.
    pub phases: Vec<(String, Duration)>,
    /// Bytes of memory that one execution needs besides its arguments and results, when the engine plans them ahead.
    pub arena_bytes: Option<usize>,
    executable: Option<halo::Executable>,
}

impl LoadedProgram {
    /// Reads a program and, for the JIT, compiles it.
    pub fn load(source_text: SourceText, engine: Engine, options: LoadOptions) -> Result<Self, ToolError> {
        let start = Instant::now();
        let mut module = source_text.module()?;
        if options.fill_elided {
            fill::fill_elided(&mut module)?;
        }
        let mut phases = vec![("read".to_string(), start.elapsed())];
        let mut arena_bytes = None;
        let executable = match engine {
            Engine::Interpreter => None,
            Engine::Jit | Engine::StrictJit => {
                let threads = options.threads.unwrap_or(0);
                let options = CompileOptions { excess_precision: engine == Engine::Jit, ..CompileOptions::default() };
                let client = halo::Client::with_threads(threads)?;
                let compiled = client.compile(&module, &options);
                let executable = compiled.map_err(|error| ToolError::compiled(&source_text, &module, error))?;
                let timings = executable.timings().phases();
                phases.extend(timings.into_iter().map(|(name, time)| (name.to_string(), time)));
                arena_bytes = Some(executable.temporary_bytes());
                Some(executable)
            }
        };
        Ok(LoadedProgram { source_text, module, phases, arena_bytes, executable })
    }

    /// Runs the program.
    pub fn execute(&self, arguments: &[Literal]) -> Result<Literal, ToolError> {
        match &self.executable {
            Some(executable) => Ok(executable.execute(arguments)?),
            None => evaluator::evaluate(&self.module, arguments, &mut Environment::default())
                .map_err(|error| ToolError::evaluation(&self.source_text, error)),
        }
    }

    /// Runs the program for its time, with the results left in the device's memory, as XLA leaves them.
    pub fn execute_on_device(&self, arguments: &[Literal]) -> Result<(), ToolError> {
        match &self.executable {
            Some(executable) => Ok(executable.execute_buffers(arguments).map(drop)?),
            None => self.execute(arguments).map(drop),
        }
    }
}
