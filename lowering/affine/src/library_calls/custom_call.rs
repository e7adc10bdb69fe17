//! custom-call: functions that the runtime knows by name.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::shape::{ArrayShape, Shape};

use super::{Argument, Call, array_operands, arrays, attributes_of, shape_words, sort};
use crate::program::CustomCallNames;

/// Descriptor: bytes of the name and of the configuration, operands, results, whether the result is a tuple; of each
/// array the element type, the rank, the dimensions, from minor to major the orders of dimensions that it has and
/// that the program declares for the call, and whether the program reads it.
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
        descriptor.extend(array_words(operand, constraints.get(number).copied(), true));
    }
    for (result, is_read) in results.into_iter().zip(read_results(computation, instruction)) {
        descriptor.extend(array_words(result, Some(result), is_read));
    }
    let arguments =
        vec![Argument::Text(target.to_string()), Argument::Text(configuration), Argument::Operands, Argument::Results];
    Ok(Call::new("halo_custom_call", descriptor, arguments))
}

/// Compiled code keeps every array row-major, which is also what is declared where nothing else is.
fn array_words(shape: &ArrayShape, declared: Option<&ArrayShape>, is_read: bool) -> Vec<i64> {
    let row_major: Vec<i64> = (0..shape.rank() as i64).rev().collect();
    let declared = declared.map_or(row_major.clone(), |declared| declared.layout_or_default().minor_to_major);
    shape_words(shape).chain(row_major).chain(declared).chain([is_read.into()]).collect()
}

/// Whether each array of a result is read: all are, but those of elements of a tuple of which only others are taken.
fn read_results(computation: &Computation, instruction: &Instruction) -> Vec<bool> {
    let elements = match &instruction.shape {
        Shape::Tuple(elements) => &elements[..],
        whole => std::slice::from_ref(whole),
    };
    let is_call = |id: InstructionId| std::ptr::eq(computation.get(id), instruction);
    let users = || computation.instructions.iter().filter(|own| own.operands.iter().any(|&operand| is_call(operand)));
    let element_taken = |user: &Instruction| match user.kind {
        OpKind::GetTupleElement => Some(user.attributes::<GetTupleElementAttributes>().ok()?.index),
        _ => None,
    };
    let is_whole = is_call(computation.root) || users().any(|user| element_taken(user).is_none());
    let is_read = |number: usize| is_whole || users().any(|user| element_taken(user) == Some(number as i64));
    let of_element = |(number, element)| std::iter::repeat_n(is_read(number), arrays(element).len());
    elements.iter().enumerate().flat_map(of_element).collect()
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
