//! The smallest part of a program on which the engines still differ.

use std::collections::{HashMap, HashSet};

use hlo::graph::{Computation, FunctionId, Instruction, InstructionId, Module};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use super::{Difference, RandomProgram, values};

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
    let mut needed: HashSet<InstructionId> = outputs.iter().copied().collect();
    for (id, instruction) in entry.iter().collect::<Vec<_>>().into_iter().rev() {
        if needed.contains(&id) && !cut.contains(&id) {
            needed.extend(&instruction.operands);
        }
    }
    let mut smaller = Computation {
        name: entry.name.clone(),
        instructions: Vec::new(),
        parameters: Vec::new(),
        root: InstructionId(0),
        annotations: Vec::new(),
    };
    let mut arguments = Vec::new();
    let mut places: HashMap<InstructionId, InstructionId> = HashMap::new();
    for (id, instruction) in entry.iter().filter(|(id, _)| needed.contains(id)) {
        let mut copy = instruction.clone();
        let argument = match instruction.parameter_number() {
            Some(number) => program.arguments.get(number),
            None if cut.contains(&id) => known.get(&instruction.name),
            None => None,
        };
        if let Some(argument) = argument {
            copy = parameter(instruction, arguments.len());
            smaller.parameters.push(InstructionId(smaller.instructions.len() as u32));
            arguments.push(argument.clone());
        }
        copy.operands = copy.operands.iter().filter_map(|operand| places.get(operand).copied()).collect();
        places.insert(id, InstructionId(smaller.instructions.len() as u32));
        smaller.instructions.push(copy);
    }
    let mut root = entry.root().clone();
    root.operands = outputs.iter().filter_map(|output| places.get(output).copied()).collect();
    root.shape = Shape::Tuple(outputs.iter().map(|&output| entry.get(output).shape.clone()).collect());
    smaller.root = InstructionId(smaller.instructions.len() as u32);
    smaller.instructions.push(root);

    let module = with_entry(&program.module, smaller);
    RandomProgram { module, arguments, errors: program.errors.clone(), ..*program }
}

/// The module with another entry computation, and only the functions which that needs.
fn with_entry(module: &Module, entry: Computation) -> Module {
    let mut needed = vec![false; module.functions.len()];
    mark_callees(&entry, &mut needed);
    // Callees stand before their callers.
    for position in (0..module.functions.len()).rev() {
        if needed[position] && position != module.entry.index() {
            mark_callees(&module.functions[position], &mut needed);
        }
    }
    let mut places = vec![FunctionId(0); module.functions.len()];
    let mut functions = Vec::new();
    for (position, function) in module.functions.iter().enumerate().filter(|(position, _)| needed[*position]) {
        places[position] = FunctionId(functions.len() as u32);
        functions.push(function.clone());
    }
    functions.push(entry);
    functions.iter_mut().for_each(|function| renumber_callees(function, &places));
    Module { entry: FunctionId(functions.len() as u32 - 1), functions, ..module.clone() }
}

fn mark_callees(computation: &Computation, needed: &mut [bool]) {
    for instruction in &computation.instructions {
        if let Some(callee) = instruction.callee {
            needed[callee.index()] = true;
        }
        instruction.computations.iter().for_each(|nested| mark_callees(nested, needed));
    }
}

fn renumber_callees(computation: &mut Computation, places: &[FunctionId]) {
    for instruction in &mut computation.instructions {
        if let Some(callee) = &mut instruction.callee {
            *callee = places[callee.index()];
        }
        instruction.computations.iter_mut().for_each(|nested| renumber_callees(nested, places));
    }
}

fn parameter(instruction: &Instruction, number: usize) -> Instruction {
    Instruction {
        annotations: instruction.annotations.clone(),
        position: instruction.position,
        ..Instruction::parameter(instruction.name.clone(), instruction.shape.clone(), number)
    }
}
