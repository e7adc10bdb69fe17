//! What a run needs of memory: as the compiler plans it, and measured.

use std::fs;

use clap::ValueEnum;
use halo::{Buffer, Donated, Executable, MemoryUse};
use hlo::aliases::aliased_parameters;
use hlo::graph::Module;
use hlo::literal::Literal;
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::kernels::bytes_text;

/// What becomes of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArgumentMemory {
    /// They stay.
    Kept,
    /// They are given away: results take the place of arguments. Where the program does not say which, each takes that of
    /// the first argument of its shape.
    Donated,
}

/// The memory of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunMemory {
    /// As the compiler plans it.
    pub planned: MemoryUse,
    /// What became of the arguments.
    pub arguments: ArgumentMemory,
    /// By how many bytes the process grew at most; known on Linux.
    pub growth: Option<u64>,
}

/// Runs a program once, before any other run, and measures what the process needs besides the arguments.
///
/// # Errors
/// Those of the run.
pub fn measure(
    module: &Module,
    executable: &Executable,
    arguments: &[Literal],
    kept: ArgumentMemory,
) -> Result<RunMemory, ToolError> {
    let growth = match kept {
        ArgumentMemory::Kept => growth_in(|| Ok(executable.execute_buffers(arguments)?))?,
        ArgumentMemory::Donated => {
            let donated = donated(module, executable, arguments)?;
            growth_in(|| Ok(executable.execute_buffers(donated)?))?
        }
    };
    Ok(RunMemory { planned: executable.memory(), arguments: kept, growth })
}

/// The arguments in memory that results may take.
fn donated(module: &Module, executable: &Executable, arguments: &[Literal]) -> Result<Vec<Donated>, ToolError> {
    let arrays = arguments.iter().flat_map(Literal::leaves).filter(|leaf| leaf.as_array().is_some());
    let mut buffers: Vec<Buffer> =
        arrays.map(|array| Buffer::try_from(array.clone())).collect::<Result<_, halo::Error>>()?;
    let aliases = aliased_parameters(&module.input_output_aliases, &module.entry().program_shape())
        .map_err(|error| ToolError::Execution(error.to_string()))?;
    for (mut place, parameter) in executable.result_buffers()?.into_iter().zip(aliases) {
        if let Some(argument) = parameter.and_then(|parameter| buffers.get_mut(parameter))
            && let Some(bytes) = place.bytes_mut()
        {
            bytes.copy_from_slice(argument.bytes()?);
            *argument = place;
        }
    }
    Ok(buffers.into_iter().map(Buffer::donate).collect())
}

/// By how many bytes the process grows at most while it does something, with the result; known on Linux.
///
/// # Errors
/// Those of what it does.
pub fn growth_in<T>(run: impl FnOnce() -> Result<T, ToolError>) -> Result<Option<u64>, ToolError> {
    let resets = fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = status("VmRSS:").filter(|_| resets);
    let result = run()?;
    let most = status("VmHWM:");
    drop(result);
    Ok(before.zip(most).map(|(before, most)| most.saturating_sub(before)))
}

/// A number of bytes in the kernel's description of this process.
fn status(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

impl RunMemory {
    /// Bytes of results in the place of arguments.
    fn shared(&self) -> usize {
        if self.arguments == ArgumentMemory::Donated { self.planned.aliased } else { 0 }
    }

    /// Bytes of arguments, results, temporaries and constants together.
    pub fn total(&self) -> usize {
        let MemoryUse { arguments, results, temporaries, constants, .. } = self.planned;
        arguments + results + temporaries + constants - self.shared()
    }

    /// For people.
    pub fn text(&self) -> String {
        let bytes = |count: usize| bytes_text(count as f64);
        let MemoryUse { arguments, results, temporaries, constants, .. } = self.planned;
        let shared = match self.shared() {
            0 => String::new(),
            shared => format!(" ({} in the place of arguments)", bytes(shared)),
        };
        let mut text = format!(
            "memory   {} planned: arguments {}, results {}{shared}, temporaries {}, constants {}\n",
            bytes(self.total()),
            bytes(arguments),
            bytes(results),
            bytes(temporaries),
            bytes(constants)
        );
        if let Some(growth) = self.growth {
            text += &format!("         {} more than the arguments measured\n", bytes_text(growth as f64));
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let MemoryUse { arguments, results, temporaries, constants, code, .. } = self.planned;
        json!({
            "planned": self.total(),
            "arguments": arguments,
            "results": results,
            "in_place_of_arguments": self.shared(),
            "temporaries": temporaries,
            "constants": constants,
            "code": code,
            "growth": self.growth,
        })
    }
}

#[cfg(test)]
mod tests {
    use halo::{Client, CompileOptions};
    use hlo::aliases;

    use super::*;

    #[test]
    fn donated_arguments_are_the_memory_of_results() {
        let text = "ENTRY e {
  p = f32[1048576] parameter(0)
  q = f32[4] parameter(1)
  n = f32[1048576] negate(p)
  ROOT r = (f32[1048576], f32[4]) tuple(n, q)
}";
        let mut module = hlo::text::read(text).unwrap();
        module.input_output_aliases = aliases::by_shape(&module.entry().program_shape());
        let client = Client::with_threads(1).unwrap();
        let executable = client.compile(&module, &CompileOptions::default()).unwrap();
        let shapes = module.entry().program_shape().parameters;
        let zeros = |shape: &hlo::shape::Shape| hlo::literal::ArrayLiteral::zeros(shape.as_array().unwrap().clone());
        let arguments: Vec<Literal> = shapes.iter().map(|shape| Literal::Array(zeros(shape).unwrap())).collect();
        let memory = measure(&module, &executable, &arguments, ArgumentMemory::Donated).unwrap();
        assert_eq!((memory.total(), memory.shared()), ((1 << 22) + 16, (1 << 22) + 16));
        let memory = measure(&module, &executable, &arguments, ArgumentMemory::Kept).unwrap();
        assert_eq!(memory.total(), 2 * ((1 << 22) + 16));
    }
}
