//! Makes a program smaller as long as a command fails on it as it did on the whole.
//!
//! First the shortest prefix of the entry that fails is found by bisection, then the computation that is to blame takes
//! the entry's place where it fails on its own, then operands become parameters, many at once before few (delta debugging:
//! A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002).

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use hlo::graph::{Computation, InstructionId, Module, SourceTables};
use hlo::op_kind::OpKind;

use crate::error::ToolError;
use crate::program_part::{part_of, with_entry};

/// A program that was made smaller.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// It.
    pub module: Module,
    /// Exit status of the command on it and on the whole.
    pub status: i32,
    /// How often the command was run.
    pub runs: usize,
}

/// Reduces a program. The command is run by `sh` with the path of a file of HLO text behind it, or in the place of `{}`.
///
/// # Errors
/// If the command cannot be run, or does not fail on the program.
pub fn reduce(module: &Module, command: &str) -> Result<Reduced, ToolError> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("hlo-reduce-{}-{number}.hlo", std::process::id()));
    let mut reducer = Reducer { command, path, status: 0, runs: 0 };
    let reduced = reducer.reduce(module);
    // A file that is left in the folder of temporary files harms nobody.
    let _ = std::fs::remove_file(&reducer.path);
    Ok(Reduced { module: reduced?, status: reducer.status, runs: reducer.runs })
}

struct Reducer<'r> {
    command: &'r str,
    path: PathBuf,
    status: i32,
    runs: usize,
}

impl Reducer<'_> {
    fn reduce(&mut self, module: &Module) -> Result<Module, ToolError> {
        self.status = self.status_of(module)?;
        if let 126 | 127 = self.status {
            return Err(ToolError::Usage(format!("the command `{}` cannot be run", self.command)));
        }
        if self.status == 0 {
            return Err(ToolError::Usage(
                "the command does not fail on the program: there is nothing to reduce".into(),
            ));
        }
        let mut smallest = module.clone();
        // What only describes the program goes first: it makes files large.
        self.try_with(&mut smallest, without_annotations(module))?;
        loop {
            let before = size(&smallest);
            self.shorten(&mut smallest)?;
            self.promote(&mut smallest)?;
            self.cut_operands(&mut smallest)?;
            if size(&smallest) >= before {
                return Ok(smallest);
            }
        }
    }

    /// The exit status of the command on a program, as a shell gives it.
    fn status_of(&mut self, module: &Module) -> Result<i32, ToolError> {
        self.runs += 1;
        std::fs::write(&self.path, hlo::text::print(module)).map_err(|source| ToolError::write(&self.path, source))?;
        let status = Command::new("sh")
            .args(["-c", &command_line(self.command, &self.path)])
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| ToolError::Execution(format!("cannot run `{}`: {error}", self.command)))?;
        // A command that a signal ended has no status; shells say 128 and more.
        Ok(status.code().unwrap_or(128))
    }

    /// Whether a program is valid and the command fails on it as on the whole.
    fn fails(&mut self, module: &Module) -> Result<bool, ToolError> {
        Ok(module.check().is_ok() && self.status_of(module)? == self.status)
    }

    fn try_with(&mut self, smallest: &mut Module, candidate: Module) -> Result<bool, ToolError> {
        let fails = self.fails(&candidate)?;
        if fails {
            *smallest = candidate;
        }
        Ok(fails)
    }

    /// Finds the shortest prefix of the entry that fails, then tries its last instruction alone.
    fn shorten(&mut self, smallest: &mut Module) -> Result<(), ToolError> {
        let whole = smallest.clone();
        let entry = whole.entry();
        let (mut agrees, mut fails) = (0, entry.instructions.len());
        while fails - agrees > 1 {
            let middle = agrees + (fails - agrees) / 2;
            let candidate = part_of(&whole, &frontier(entry, middle), &HashSet::new()).module;
            match self.fails(&candidate)? {
                true => {
                    fails = middle;
                    *smallest = candidate;
                }
                false => agrees = middle,
            }
        }
        let last = InstructionId(agrees as u32);
        for candidate in [as_root(&whole, last), Some(part_of(&whole, &[last], &HashSet::new()).module)] {
            if let Some(candidate) = candidate
                && size(&candidate) <= size(smallest)
                && self.try_with(smallest, candidate)?
            {
                break;
            }
        }
        Ok(())
    }

    /// Lets a computation that fails on its own take the place of the entry.
    fn promote(&mut self, smallest: &mut Module) -> Result<(), ToolError> {
        let mut candidates: Vec<Computation> = Vec::new();
        let entry = smallest.entry.index();
        let functions = smallest.functions.iter().enumerate().filter(|(position, _)| *position != entry);
        candidates.extend(functions.map(|(_, function)| function.clone()));
        for instruction in &smallest.entry().instructions {
            candidates.extend(instruction.computations.iter().cloned());
        }
        candidates.sort_by_key(|candidate| candidate.instructions.len());
        for candidate in candidates {
            let candidate = with_entry(smallest, candidate);
            if size(&candidate) < size(smallest) && self.try_with(smallest, candidate)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Replaces instructions by parameters: all but the root, then halves of them, and so on.
    fn cut_operands(&mut self, smallest: &mut Module) -> Result<(), ToolError> {
        let mut chunk = smallest.entry().instructions.len();
        while chunk > 0 {
            let mut start = 0;
            loop {
                let entry = smallest.entry();
                let inner: Vec<InstructionId> = entry
                    .iter()
                    .filter(|(id, instruction)| *id != entry.root && instruction.kind != OpKind::Parameter)
                    .map(|(id, _)| id)
                    .collect();
                if start >= inner.len() {
                    break;
                }
                let cut: HashSet<InstructionId> =
                    inner[start..(start + chunk).min(inner.len())].iter().copied().collect();
                let candidate = with_cut(smallest, &cut);
                if size(&candidate) >= size(smallest) || !self.try_with(smallest, candidate)? {
                    start += chunk;
                }
            }
            chunk /= 2;
        }
        Ok(())
    }
}

/// The shell's search path, with the folder of this program first: its siblings are found by name.
fn search_path() -> OsString {
    let own = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = own.into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

fn command_line(command: &str, path: &Path) -> String {
    let path = path.display().to_string();
    if command.contains("{}") { command.replace("{}", &path) } else { format!("{command} {path}") }
}

/// Instructions that are not parameters, nested ones included, and a little for each parameter: the less the better.
fn size(module: &Module) -> usize {
    fn of(computation: &Computation) -> usize {
        let nested = |instruction: &hlo::graph::Instruction| instruction.computations.iter().map(of).sum::<usize>();
        computation
            .instructions
            .iter()
            .map(|instruction| if instruction.kind == OpKind::Parameter { 1 } else { 4 } + nested(instruction))
            .sum()
    }
    module.functions.iter().map(of).sum()
}

/// The first `length` instructions' values that the others read, or the root.
fn frontier(entry: &Computation, length: usize) -> Vec<InstructionId> {
    let users = entry.instructions[length..].iter().flat_map(|user| user.operands.iter().copied());
    let mut outputs: Vec<InstructionId> =
        users.chain([entry.root]).filter(|operand| operand.index() < length).collect();
    outputs.sort_unstable();
    outputs.dedup();
    outputs
}

/// The program whose result is that of one instruction.
fn as_root(module: &Module, id: InstructionId) -> Option<Module> {
    let mut part = part_of(module, &[id], &HashSet::new()).module;
    let entry = part.functions.get_mut(part.entry.index())?;
    let tuple = entry.instructions.pop()?;
    entry.root = *tuple.operands.first()?;
    Some(part)
}

/// The program with the values of some instructions as parameters.
fn with_cut(module: &Module, cut: &HashSet<InstructionId>) -> Module {
    let root = module.entry().root;
    if module.entry().root().kind != OpKind::Tuple {
        let mut part = part_of(module, &[root], cut).module;
        if let Some(entry) = part.functions.get_mut(part.entry.index())
            && let Some(tuple) = entry.instructions.pop()
            && let Some(&root) = tuple.operands.first()
        {
            entry.root = root;
        }
        return part;
    }
    part_of(module, &module.entry().root().operands, cut).module
}

fn without_annotations(module: &Module) -> Module {
    fn strip(computation: &mut Computation) {
        computation.annotations.clear();
        for instruction in &mut computation.instructions {
            instruction.annotations.retain(|(key, _)| key != hlo::metadata::METADATA);
            instruction.computations.iter_mut().for_each(strip);
        }
    }
    let mut module = Module {
        annotations: Vec::new(),
        sources: SourceTables::default(),
        entry_layout: None,
        input_output_aliases: Vec::new(),
        ..module.clone()
    };
    module.functions.iter_mut().for_each(strip);
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs in which one instruction among many makes the command fail.
    fn program(length: usize) -> Module {
        let mut text = String::from("HloModule long\nENTRY e {\n  x.0 = f32[8] parameter(0)\n");
        for number in 1..length {
            let opcode = if number == length / 3 { "tan" } else { "tanh" };
            text.push_str(&format!("  x.{number} = f32[8] {opcode}(x.{})\n", number - 1));
        }
        text.push_str(&format!("  ROOT r = (f32[8]) tuple(x.{})\n}}\n", length - 1));
        hlo::text::read(&text).unwrap()
    }

    #[test]
    fn the_instruction_that_fails_is_left() {
        let reduced = reduce(&program(300), "! grep -q ' tan('").unwrap();
        assert_eq!(reduced.status, 1);
        let text = hlo::text::print(&reduced.module);
        assert!(text.contains(" tan(") && !text.contains(" tanh("), "{text}");
        assert!(reduced.module.entry().instructions.len() <= 3, "{text}");
        assert!(reduced.runs < 30, "{}", reduced.runs);
    }

    #[test]
    fn a_command_that_succeeds_is_refused() {
        let error = reduce(&program(3), "grep -q HloModule").unwrap_err();
        assert!(error.to_string().starts_with("the command does not fail"), "{error}");
    }
}
