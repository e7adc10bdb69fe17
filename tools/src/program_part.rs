//! Parts of programs as programs of their own: some instructions of the entry, with what they need.

use std::collections::{HashMap, HashSet};

use hlo::graph::{Computation, FunctionId, Instruction, InstructionId, Module};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

/// A part of a program.
#[derive(Clone, Debug)]
pub struct Part {
    /// The program.
    pub module: Module,
    /// By its parameters: the instructions of the whole whose values they take.
    pub parameters: Vec<InstructionId>,
}

/// The program that computes a tuple of `outputs` of the entry; the values of the instructions in `cut` come as parameters.
pub fn part_of(module: &Module, outputs: &[InstructionId], cut: &HashSet<InstructionId>) -> Part {
    let entry = module.entry();
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
        annotations: entry.annotations.clone(),
    };
    let mut parameters = Vec::new();
    let mut places: HashMap<InstructionId, InstructionId> = HashMap::new();
    for (id, instruction) in entry.iter().filter(|(id, _)| needed.contains(id)) {
        let place = InstructionId(smaller.instructions.len() as u32);
        let mut copy = if instruction.kind == OpKind::Parameter || cut.contains(&id) {
            smaller.parameters.push(place);
            parameters.push(id);
            parameter(instruction, parameters.len() - 1)
        } else {
            instruction.clone()
        };
        copy.operands = copy.operands.iter().filter_map(|operand| places.get(operand).copied()).collect();
        places.insert(id, place);
        smaller.instructions.push(copy);
    }
    let operands: Vec<InstructionId> = outputs.iter().filter_map(|output| places.get(output).copied()).collect();
    let shape = Shape::Tuple(outputs.iter().map(|&output| entry.get(output).shape.clone()).collect());
    let names: HashSet<&str> = entry.instructions.iter().map(|instruction| instruction.name.as_str()).collect();
    let mut name = "part".to_string();
    while names.contains(name.as_str()) {
        name.push_str(".root");
    }
    smaller.root = InstructionId(smaller.instructions.len() as u32);
    smaller.instructions.push(Instruction::new(name, OpKind::Tuple, shape, operands));
    Part { module: with_entry(module, smaller), parameters }
}

/// The module with another entry computation, and only the functions which that needs.
pub fn with_entry(module: &Module, entry: Computation) -> Module {
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
    let entry = FunctionId(functions.len() as u32 - 1);
    // The shapes that the header declares are those of the whole.
    Module { entry, functions, entry_layout: None, input_output_aliases: Vec::new(), ..module.clone() }
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

/// The parameter that stands for an instruction's value.
pub fn parameter(instruction: &Instruction, number: usize) -> Instruction {
    Instruction {
        annotations: instruction.annotations.clone(),
        position: instruction.position,
        ..Instruction::parameter(instruction.name.clone(), instruction.shape.clone(), number)
    }
}
