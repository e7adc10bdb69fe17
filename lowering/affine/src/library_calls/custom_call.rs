//! custom-call: functions that the runtime knows by name.

use hlo::graph::{Computation, Instruction};
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::shape::{ArrayShape, Shape};

use super::{Argument, Call, array_operands, arrays, attributes_of, shape_words, sort};
use crate::program::CustomCallNames;

/// Descriptor: bytes of the name and of the configuration, operands, results, whether the result is a tuple; of each
/// array the element type, the rank, the dimensions and, from minor to major, the orders of dimensions that it has and
/// that the program declares for the call.
pub(super) fn custom_call(
    computation: &Computation,
    instruction: &Instruction,
    custom_calls: CustomCallNames,
) -> Result<Call, String> {
    let attributes: CustomCallAttributes = attributes_of(instruction)?;
    let target = attributes.custom_call_target;
    if !custom_calls(target) {
        if target == "TopK" {
            return sort::top_k(computation, instruction, true);
        }
        return Err(format!("no function is registered as `{target}`"));
    }
    let configuration = configuration(instruction);
    let (operands, results) = (array_operands(computation, instruction), arrays(&instruction.shape));
    let mut descriptor = vec![
        target.len() as i64,
        configuration.len() as i64,
        operands.len() as i64,
        results.len() as i64,
        matches!(instruction.shape, Shape::Tuple(_)).into(),
    ];
    let constraints: Vec<&ArrayShape> =
        attributes.operand_layout_constraints.into_iter().flatten().flat_map(arrays).collect();
    for (number, operand) in operands.into_iter().enumerate() {
        descriptor.extend(array_words(operand, constraints.get(number).copied()));
    }
    descriptor.extend(results.into_iter().flat_map(|result| array_words(result, Some(result))));
    let arguments =
        vec![Argument::Text(target.to_string()), Argument::Text(configuration), Argument::Operands, Argument::Results];
    Ok(Call::new("halo_custom_call", descriptor, arguments))
}

/// Compiled code keeps every array row-major, which is also what is declared where nothing else is.
fn array_words(shape: &ArrayShape, declared: Option<&ArrayShape>) -> Vec<i64> {
    let row_major: Vec<i64> = (0..shape.rank() as i64).rev().collect();
    let declared = declared.map_or(row_major.clone(), |declared| declared.layout_or_default().minor_to_major);
    shape_words(shape).chain(row_major).chain(declared).collect()
}

/// The call's `backend_config`; the text of a quoted one.
fn configuration(instruction: &Instruction) -> String {
    let text = instruction.annotation("backend_config").unwrap_or_default();
    let Some(quoted) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.to_string();
    };
    let mut unquoted = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => unquoted.push('\n'),
                Some('t') => unquoted.push('\t'),
                Some(other) => unquoted.push(other),
                None => {}
            },
            other => unquoted.push(other),
        }
    }
    unquoted
}
