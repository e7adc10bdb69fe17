//! `inline-calls`: replaces every `call` by the body of its function, so that the entry computation is the whole
//! program and fusion sees across function borders.
//!
//! Functions stand before their callers, so one walk in that order inlines everything without recursion. Names
//! stay unique: an inlined instruction gets the call's name in front.

use std::collections::HashMap;

use hlo::graph::{Computation, FunctionId, Instruction, InstructionId, Module};
use hlo::op_kind::OpKind;

/// Instructions that inlining may produce at most: nested calls can grow a small text exponentially.
pub const MAX_INSTRUCTIONS: usize = 4_000_000;

/// The program is too large once its calls are inlined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("inlining the calls of `{function}` makes more than {MAX_INSTRUCTIONS} instructions")]
pub struct InlineError {
    /// Name of the function in which the limit was passed.
    pub function: String,
}

/// Inlines all calls; only the entry function is left. Returns how many calls were replaced.
pub fn inline_calls(module: &mut Module) -> Result<usize, InlineError> {
    let mut inlined: Vec<Computation> = Vec::with_capacity(module.functions.len());
    let mut count = 0;
    let mut total = 0;
    for function in std::mem::take(&mut module.functions) {
        let name = function.name.clone();
        let result = inline_into(function, &inlined, &mut count, &mut total);
        inlined.push(result.ok_or(InlineError { function: name })?);
    }
    let entry = module.entry.index();
    module.functions = inlined.into_iter().skip(entry).take(1).collect();
    module.entry = FunctionId(0);
    Ok(count)
}

/// The computation without calls; `None` beyond the limit.
fn inline_into(
    mut computation: Computation,
    functions: &[Computation],
    count: &mut usize,
    total: &mut usize,
) -> Option<Computation> {
    *total += computation.instructions.len();
    let mut has_calls = false;
    for instruction in &mut computation.instructions {
        for nested in &mut instruction.computations {
            let body = std::mem::replace(
                nested,
                Computation {
                    name: String::new(),
                    instructions: Vec::new(),
                    parameters: Vec::new(),
                    root: InstructionId(0),
                    annotations: Vec::new(),
                },
            );
            *nested = inline_into(body, functions, count, total)?;
        }
        has_calls |= instruction.callee.is_some();
    }
    if !has_calls {
        return Some(computation);
    }
    let mut result: Vec<Instruction> = Vec::with_capacity(computation.instructions.len());
    let mut new_ids: Vec<InstructionId> = Vec::with_capacity(computation.instructions.len());
    for mut instruction in computation.instructions {
        for operand in &mut instruction.operands {
            *operand = new_ids[operand.index()];
        }
        let callee = instruction.callee.and_then(|callee| functions.get(callee.index()));
        match callee {
            Some(callee) if instruction.kind == OpKind::Call => {
                *count += 1;
                *total += callee.instructions.len();
                if *total > MAX_INSTRUCTIONS {
                    return None;
                }
                new_ids.push(splice(callee, &instruction, &mut result));
            }
            _ => {
                new_ids.push(InstructionId(result.len() as u32));
                result.push(instruction);
            }
        }
    }
    computation.parameters = computation.parameters.iter().map(|parameter| new_ids[parameter.index()]).collect();
    computation.root = new_ids[computation.root.index()];
    computation.instructions = result;
    Some(computation)
}

/// Appends a callee's instructions; returns where its root is.
fn splice(callee: &Computation, call: &Instruction, result: &mut Vec<Instruction>) -> InstructionId {
    let mut ids: HashMap<InstructionId, InstructionId> = HashMap::with_capacity(callee.instructions.len());
    for (id, instruction) in callee.iter() {
        if let Some(number) = instruction.parameter_number() {
            ids.insert(id, call.operands[number]);
            continue;
        }
        let mut copy = instruction.clone();
        copy.name = format!("{}.{}", call.name, copy.name);
        for operand in &mut copy.operands {
            *operand = ids[operand];
        }
        ids.insert(id, InstructionId(result.len() as u32));
        result.push(copy);
    }
    ids[&callee.root]
}
