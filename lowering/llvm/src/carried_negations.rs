//! Numbers that loops carry to be negated, which are carried as their negations.
//!
//! The larger one of two vectors is made of the smaller one of their negations, which keeps NaN and orders zeros in fewest
//! instructions. A loop that looks for the largest negates what it carries at its begin and at its end.

use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::module::Module;
use inkwell::values::{BasicValue, BasicValueEnum, FloatMathValue, InstructionOpcode, InstructionValue, PhiValue};

use crate::Error;
use crate::instructions::{distinct, operand_of, users};

/// Carries the negation of each number that a loop negates whenever it reads it, and that a negation made.
///
/// # Errors
/// None but internal ones.
pub(crate) fn carry(module: &Module<'_>) -> Result<(), Error> {
    let builder = module.get_context().create_builder();
    for function in module.get_functions() {
        let phis = || function.get_basic_block_iter().flat_map(phis_of);
        let is_name = |phi: &PhiValue<'_>| phi.count_incoming() == 1;
        phis().filter(is_name).collect::<Vec<_>>().into_iter().for_each(remove);
        phis().collect::<Vec<_>>().into_iter().try_for_each(|phi| match is_to_be_negated(phi) {
            true => replace(&builder, phi),
            false => Ok(()),
        })?;
    }
    Ok(())
}

fn phis_of(block: BasicBlock<'_>) -> impl Iterator<Item = PhiValue<'_>> {
    block.get_instructions().map_while(|own| PhiValue::try_from(own).ok())
}

/// Removes another name of a value, as what a loop carried has behind it.
fn remove(name: PhiValue<'_>) {
    let own = name.as_instruction();
    let value = name.get_incomings().next().and_then(|(value, _)| value.as_instruction_value());
    if let Some(value) = value.filter(|&value| value != own) {
        own.replace_all_uses_with(&value);
        own.erase_from_basic_block();
    }
}

/// Whether a number is negated by what reads it in a loop, and is the result of a negation or a constant, whichever way one comes.
fn is_to_be_negated(phi: PhiValue<'_>) -> bool {
    let incoming: Vec<BasicValueEnum<'_>> = phi.get_incomings().map(|(value, _)| value).collect();
    let is_negated = |value| negated(value).is_some_and(|number| number != phi.as_basic_value());
    let is_made = incoming.iter().any(|&value| is_negated(value))
        && incoming.iter().all(|&value| is_negated(value) || is_constant(value));
    if !is_made {
        return false;
    }
    let Some(users) = users(phi.as_instruction()).collect::<Option<Vec<_>>>() else { return false };
    let (negations, others): (Vec<_>, Vec<_>) = users.into_iter().partition(|&user| is_negation(user));
    let inside = [&negations[..], &[phi.as_instruction()]].concat();
    let is_elsewhere = |user: &InstructionValue<'_>| {
        user.get_opcode() != InstructionOpcode::Phi && inside.iter().all(|own| own.get_parent() != user.get_parent())
    };
    !negations.is_empty() && others.iter().all(is_elsewhere)
}

/// Puts a phi of negations in the place of one that is negated; what reads the number itself negates that again.
fn replace<'c>(builder: &Builder<'c>, phi: PhiValue<'c>) -> Result<(), Error> {
    let old = phi.as_instruction();
    builder.position_before(&old);
    let mut incoming = Vec::new();
    for (value, block) in phi.get_incomings() {
        incoming.push((negated(value).map_or_else(|| negation(builder, value), Ok)?, block));
    }
    let new = builder.build_phi(phi.as_basic_value().get_type(), "").map_err(Error::emit)?;
    incoming.iter().for_each(|(value, block)| new.add_incoming(&[(value, *block)]));
    for user in distinct(users(old).flatten()) {
        if is_negation(user) {
            user.replace_all_uses_with(&new.as_instruction());
            user.erase_from_basic_block();
            continue;
        }
        builder.position_before(&user);
        let number = negation(builder, new.as_basic_value())?;
        for operand in 0..user.get_num_operands() {
            if operand_of(user, operand) == Some(phi.as_basic_value()) {
                user.set_operand(operand, number);
            }
        }
    }
    let made = distinct(phi.get_incomings().filter_map(|(value, _)| value.as_instruction_value()));
    old.erase_from_basic_block();
    made.into_iter().filter(|own| own.get_first_use().is_none()).for_each(|own| own.erase_from_basic_block());
    Ok(())
}

fn is_negation(instruction: InstructionValue<'_>) -> bool {
    instruction.get_opcode() == InstructionOpcode::FNeg
}

/// What a value is the negation of.
fn negated(value: BasicValueEnum<'_>) -> Option<BasicValueEnum<'_>> {
    operand_of(value.as_instruction_value().filter(|&own| is_negation(own))?, 0)
}

fn is_constant(value: BasicValueEnum<'_>) -> bool {
    match value {
        BasicValueEnum::FloatValue(value) => value.is_const(),
        BasicValueEnum::VectorValue(value) => value.is_const(),
        _ => false,
    }
}

/// A number negated; a constant if it is one.
fn negation<'c>(builder: &Builder<'c>, value: BasicValueEnum<'c>) -> Result<BasicValueEnum<'c>, Error> {
    fn of<'c, T: FloatMathValue<'c>>(builder: &Builder<'c>, value: T) -> Result<BasicValueEnum<'c>, Error> {
        Ok(builder.build_float_neg(value, "").map_err(Error::emit)?.as_basic_value_enum())
    }
    match value {
        BasicValueEnum::FloatValue(value) => of(builder, value),
        BasicValueEnum::VectorValue(value) => of(builder, value),
        _ => Err(Error::emit("a number that has no sign")),
    }
}
