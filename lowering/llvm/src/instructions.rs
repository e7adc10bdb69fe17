//! What instructions of LLVM IR read, and what reads them.

use std::ffi::CStr;
use std::iter::successors;

use inkwell::types::VectorType;
use inkwell::values::{AnyValueEnum, BasicValueEnum, BasicValueUse, InstructionOpcode, InstructionValue, Operand};

/// The values that an instruction reads, in their order; blocks are none.
pub(crate) fn operands<'c>(instruction: InstructionValue<'c>) -> impl Iterator<Item = BasicValueEnum<'c>> {
    (0..instruction.get_num_operands()).filter_map(move |operand| operand_of(instruction, operand))
}

pub(crate) fn operand_of(instruction: InstructionValue<'_>, operand: u32) -> Option<BasicValueEnum<'_>> {
    instruction.get_operand(operand).and_then(Operand::value)
}

/// The instructions that read a value; `None` for one that is not known.
pub(crate) fn users(value: InstructionValue<'_>) -> impl Iterator<Item = Option<InstructionValue<'_>>> {
    successors(value.get_first_use(), |own: &BasicValueUse<'_>| own.get_next_use()).map(|own| match own.get_user() {
        AnyValueEnum::InstructionValue(user) => Some(user),
        AnyValueEnum::FloatValue(user) => user.as_instruction(),
        AnyValueEnum::IntValue(user) => user.as_instruction(),
        AnyValueEnum::VectorValue(user) => user.as_instruction(),
        _ => None,
    })
}

/// Whether an instruction calls a function of such a name.
pub(crate) fn calls(instruction: InstructionValue<'_>, is_name: impl FnOnce(&CStr) -> bool) -> bool {
    let is_call = instruction.get_opcode() == InstructionOpcode::Call;
    let function = instruction.get_num_operands().checked_sub(1).and_then(|last| operand_of(instruction, last));
    match function {
        Some(BasicValueEnum::PointerValue(function)) => is_call && is_name(function.get_name()),
        _ => false,
    }
}

/// Each of some instructions once, in their order: code must not depend on anything else.
pub(crate) fn distinct<'c>(instructions: impl Iterator<Item = InstructionValue<'c>>) -> Vec<InstructionValue<'c>> {
    let mut distinct = Vec::new();
    instructions.for_each(|own| {
        if !distinct.contains(&own) {
            distinct.push(own);
        }
    });
    distinct
}

/// The element of a constant that has no others.
pub(crate) fn element_of(value: BasicValueEnum<'_>) -> Option<BasicValueEnum<'_>> {
    let BasicValueEnum::VectorValue(vector) = value else { return Some(value) };
    // Those of others, of which some elements are undefined, are no data that LLVM could take one from.
    if !vector.is_constant_data_vector() {
        return None;
    }
    let element = vector.get_element_as_constant(0);
    (VectorType::const_vector(&vec![element; vector.get_type().get_size() as usize]) == vector).then_some(element)
}
