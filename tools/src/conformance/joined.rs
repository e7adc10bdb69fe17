//! Several programs as one: the parameters of all, and a tuple of their results.

use hlo::graph::{Computation, FunctionId, Instruction, InstructionId, Module, SourceTables};
use hlo::op_kind::OpKind;
use hlo::ops::parameter::ParameterAttributes;
use hlo::shape::Shape;

/// Joins modules of one header. The name of every instruction starts with the number of its module and a dot: see [`member_of`].
pub(super) fn join<'m>(modules: impl Iterator<Item = &'m Module>) -> Module {
    let mut functions = Vec::new();
    let mut entry = Computation {
        name: "joined".into(),
        instructions: Vec::new(),
        parameters: Vec::new(),
        root: InstructionId(0),
        annotations: Vec::new(),
    };
    let mut roots = Vec::new();
    let mut annotations = Vec::new();
    for (number, module) in modules.enumerate() {
        annotations.clone_from(&module.annotations);
        let joined = Member { number, first_function: functions.len() as u32 };
        for (position, function) in module.functions.iter().enumerate() {
            let mut function = function.clone();
            joined.rename(&mut function);
            if position == module.entry.index() {
                roots.push(append(&mut entry, &function));
            }
            // Also the entry: functions keep their numbers.
            functions.push(function);
        }
    }
    let shapes = roots.iter().map(|&root| entry.get(root).shape.clone()).collect();
    entry.root = InstructionId(entry.instructions.len() as u32);
    entry.instructions.push(Instruction::new("results", OpKind::Tuple, Shape::Tuple(shapes), roots));
    functions.push(entry);
    Module {
        name: "joined".into(),
        annotations,
        entry_layout: None,
        input_output_aliases: Vec::new(),
        sources: SourceTables::default(),
        entry: FunctionId(functions.len() as u32 - 1),
        functions,
    }
}

/// Number of the module that an instruction of a joined module comes from.
pub(super) fn member_of(instruction: &str) -> Option<usize> {
    instruction.split_once('.')?.0.strip_prefix('m')?.parse().ok()
}

struct Member {
    number: usize,
    first_function: u32,
}

impl Member {
    /// Gives the instructions of a computation, nested ones too, names and callees of the joined module.
    fn rename(&self, computation: &mut Computation) {
        computation.name = format!("m{}.{}", self.number, computation.name);
        for instruction in &mut computation.instructions {
            instruction.name = format!("m{}.{}", self.number, instruction.name);
            if let Some(callee) = &mut instruction.callee {
                callee.0 += self.first_function;
            }
            for nested in &mut instruction.computations {
                self.rename(nested);
            }
        }
    }
}

/// Appends the instructions of a computation with its parameters; returns where its root is.
fn append(entry: &mut Computation, computation: &Computation) -> InstructionId {
    let first = entry.instructions.len() as u32;
    let first_parameter = entry.parameters.len() as i64;
    for instruction in &computation.instructions {
        let mut instruction = instruction.clone();
        for operand in &mut instruction.operands {
            operand.0 += first;
        }
        if let Some(number) = instruction.parameter_number() {
            let parameter_number = first_parameter + number as i64;
            instruction.attributes = ParameterAttributes { parameter_number }.into();
        }
        entry.instructions.push(instruction);
    }
    entry.parameters.extend(computation.parameters.iter().map(|parameter| InstructionId(parameter.0 + first)));
    InstructionId(computation.root.0 + first)
}
