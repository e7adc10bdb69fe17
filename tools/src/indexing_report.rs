//! Indexing maps as text or JSON: of the instructions of a program, or of maps given as text.

use std::fmt::Write;

use hlo::graph::{Computation, InstructionId, Module};
use hlo::indexing_maps::{Analysis, ValueIndexing};
use indexing::IndexingMap;
use melior::Context;
use serde_json::{Value, json};

use crate::error::ToolError;

/// Which way maps go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    /// From an element of the result to the elements of the operands it needs.
    #[default]
    OutputToInput,
    /// From an element of an operand to the elements of the result it goes into.
    InputToOutput,
}

/// What to report.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Only the instruction of this name, in any computation; all of the entry computation without it.
    pub instruction: Option<String>,
    /// Which way.
    pub direction: Direction,
    /// Whether composed maps stay as they are composed.
    pub no_simplify: bool,
    /// One JSON object a line: `{"instruction", "direction", "operands": [[map, …], …]}`, with `null` for an
    /// operand whose maps are not known.
    pub json: bool,
}

/// The maps of the instructions asked for.
///
/// # Errors
/// If there is no such instruction.
pub fn report(module: &Module, options: &ReportOptions) -> Result<String, ToolError> {
    let context = Context::new_with_threading(false);
    let mut text = String::new();
    let Some(name) = &options.instruction else {
        let entry = module.entry();
        let mut analysis = analysis(&context, entry, options);
        for (id, instruction) in entry.iter() {
            if !instruction.operands.is_empty() {
                describe(&mut text, &mut analysis, entry, id, options);
            }
        }
        return Ok(text);
    };
    let (computation, id) =
        find(module, name).ok_or_else(|| ToolError::Usage(format!("no instruction is named `{name}`")))?;
    describe(&mut text, &mut analysis(&context, computation, options), computation, id, options);
    Ok(text)
}

fn analysis<'c, 'a>(context: &'c Context, computation: &'a Computation, options: &ReportOptions) -> Analysis<'c, 'a> {
    let analysis = Analysis::new(context, computation);
    if options.no_simplify { analysis.without_simplification() } else { analysis }
}

/// An instruction by name: the entry computation first, then the others, then nested ones.
fn find<'a>(module: &'a Module, name: &str) -> Option<(&'a Computation, InstructionId)> {
    let mut waiting: Vec<&Computation> = module.functions.iter().collect();
    waiting.push(module.entry());
    while let Some(computation) = waiting.pop() {
        if let Some((id, _)) = computation.iter().find(|(_, instruction)| instruction.name == name) {
            return Some((computation, id));
        }
        waiting.splice(0..0, computation.instructions.iter().flat_map(|instruction| &instruction.computations));
    }
    None
}

fn describe<'c, 'a>(
    text: &mut String,
    analysis: &mut Analysis<'c, 'a>,
    computation: &'a Computation,
    id: InstructionId,
    options: &ReportOptions,
) {
    let instruction = computation.get(id);
    let count = instruction.operands.len();
    let leaves = instruction.shape.leaves().len();
    // For each operand the leaves of the result it has to do with: of a wide tuple, each has one.
    let mut operands: Vec<Vec<(usize, ValueIndexing<'c>)>> = vec![Vec::new(); count];
    let mut add = |operand: usize, leaf: usize, group: ValueIndexing<'c>| {
        if group != ValueIndexing::Known(Vec::new()) {
            operands[operand].push((leaf, group));
        }
    };
    match options.direction {
        Direction::OutputToInput => (0..leaves).for_each(|leaf| {
            let groups = analysis.output_to_input(id, leaf).into_iter().take(count).enumerate();
            groups.for_each(|(operand, group)| add(operand, leaf, group));
        }),
        Direction::InputToOutput => (0..count).for_each(|operand| {
            let groups = analysis.input_to_output(id, operand).into_iter().enumerate();
            groups.for_each(|(leaf, group)| add(operand, leaf, group));
        }),
    }
    if options.json {
        let operands: Vec<Value> = operands.iter().map(|groups| json_of(groups)).collect();
        let direction = match options.direction {
            Direction::OutputToInput => "output-to-input",
            Direction::InputToOutput => "input-to-output",
        };
        let object = json!({ "instruction": instruction.name, "direction": direction, "operands": operands });
        let _ = writeln!(text, "{object}");
        return;
    }
    let _ = writeln!(text, "{} = {}", instruction.name, instruction.kind);
    for (&operand, groups) in instruction.operands.iter().zip(&operands) {
        for (leaf, group) in groups {
            let operand = &computation.get(operand).name;
            let several = leaves > 1;
            let line = match options.direction {
                Direction::OutputToInput if several => format!("  {leaf} -> {operand}"),
                Direction::OutputToInput => format!("  -> {operand}"),
                Direction::InputToOutput if several => format!("  {operand} -> {} {leaf}", instruction.name),
                Direction::InputToOutput => format!("  {operand} -> {}", instruction.name),
            };
            if *group == ValueIndexing::Unknown {
                let _ = writeln!(text, "{line}: unknown");
            }
            for entry in group.maps() {
                let _ = writeln!(text, "{line}: {}", entry.map);
                describe_runtimes(text, analysis, &entry.map);
            }
        }
    }
}

/// The elements that a map's run-time variables stand for.
fn describe_runtimes(text: &mut String, analysis: &Analysis<'_, '_>, map: &IndexingMap<'_>) {
    for (i, variable) in map.runtimes().iter().enumerate() {
        let Some(source) = &variable.source else { continue };
        let Some(instruction) = analysis.runtime_instruction(source.value) else { continue };
        let index: Vec<String> = source.index.iter().map(|&expr| map.named(expr).to_string()).collect();
        let _ = writeln!(text, "    rt{i} = {}[{}]", instruction.name, index.join(", "));
    }
}

/// The maps to or from all leaves of the result; `null` if some are not known.
fn json_of(groups: &[(usize, ValueIndexing<'_>)]) -> Value {
    if groups.iter().any(|(_, group)| *group == ValueIndexing::Unknown) {
        return Value::Null;
    }
    groups.iter().flat_map(|(_, group)| group.maps()).map(|entry| Value::from(entry.map.to_string())).collect()
}

/// A map given as text, followed by another if there is one; simplified unless that is not wanted.
///
/// # Errors
/// If a text is not a map, or the maps cannot follow each other.
pub fn map(first: &str, second: Option<&str>, no_simplify: bool) -> Result<String, ToolError> {
    let bad = |error: indexing::Error| ToolError::Usage(error.to_string());
    let context = Context::new_with_threading(false);
    let mut map = IndexingMap::parse(&context, first).map_err(bad)?;
    if let Some(second) = second {
        map = map.compose(&IndexingMap::parse(&context, second).map_err(bad)?).map_err(bad)?;
    }
    if !no_simplify {
        map.simplify();
        map.remove_unused_symbols();
    }
    Ok(format!("{map}\n"))
}
