//! The smallest part of a program on which the engines still differ.

use std::collections::{HashMap, HashSet};

use hlo::graph::InstructionId;
use hlo::literal::Literal;
use hlo::op_kind::OpKind;

use super::{Difference, RandomProgram, values};
use crate::program_part::{Part, part_of};

/// Makes a failing program smaller: only the output that is wrong, and its operands replaced by their values as long
/// as it stays wrong.
pub(super) fn shrink(
    program: RandomProgram,
    output: Option<usize>,
    differs: impl Fn(&RandomProgram) -> Option<Difference>,
) -> RandomProgram {
    let known = values(&program);
    let entry = program.module.entry();
    let outputs = match output {
        Some(output) => vec![entry.root().operands[output]],
        None => entry.root().operands.clone(),
    };
    let mut cut = HashSet::new();
    let mut smallest = part(&program, &outputs, &cut, &known);
    if differs(&smallest).is_none() {
        return program;
    }
    for (id, instruction) in entry.iter() {
        let is_value = known.get(&instruction.name).is_some_and(|value| value.as_array().is_some());
        if !is_value || outputs.contains(&id) || instruction.kind == OpKind::Parameter {
            continue;
        }
        cut.insert(id);
        let candidate = part(&program, &outputs, &cut, &known);
        if differs(&candidate).is_some() {
            smallest = candidate;
        } else {
            cut.remove(&id);
        }
    }
    smallest
}

/// The program that computes `outputs`, with the values of the instructions in `cut` given as arguments.
fn part(
    program: &RandomProgram,
    outputs: &[InstructionId],
    cut: &HashSet<InstructionId>,
    known: &HashMap<String, Literal>,
) -> RandomProgram {
    let entry = program.module.entry();
    let Part { module, parameters } = part_of(&program.module, outputs, cut);
    let value = |&id: &InstructionId| match entry.get(id).parameter_number() {
        Some(number) => program.arguments.get(number).cloned(),
        None => known.get(&entry.get(id).name).cloned(),
    };
    let arguments = parameters.iter().filter_map(value).collect();
    RandomProgram { module, arguments, errors: program.errors.clone(), ..*program }
}
