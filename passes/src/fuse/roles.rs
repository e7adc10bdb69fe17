//! What fusion knows about an instruction.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::custom_call_targets::is_annotation;
use hlo::ops::pad::PadAttributes;
use hlo::ops::{ElementCost, FusionRole, definition};
use hlo::shape::{ArrayShape, Shape};

/// What an instruction is in a group: what its operation is, if its shape allows.
pub(super) fn role(instruction: &Instruction) -> FusionRole {
    let role = definition(instruction.kind).fusion;
    let is_fused = match &instruction.shape {
        Shape::Array(array) => !array.is_dynamic() && (instruction.kind != OpKind::Constant || array.rank() == 0),
        // A variadic reduction is a group's only output.
        Shape::Tuple(_) | Shape::Token | Shape::Opaque => role == FusionRole::Reduction,
    };
    if is_fused { role } else { FusionRole::Opaque }
}

/// The operand whose elements an update in place writes, or combines with what is there.
pub fn update_of(instruction: &Instruction) -> Option<InstructionId> {
    let number = match instruction.kind {
        OpKind::DynamicUpdateSlice => 1,
        _ => 2,
    };
    instruction.operands.get(number).copied().filter(|_| role(instruction) == FusionRole::Update)
}

/// Whether a fused computation ends with an update in place: its result is where the root's first operand is.
pub fn is_update(body: &Computation) -> bool {
    role(body.root()) == FusionRole::Update
}

/// Whether the instruction needs no code where it stands alone: its value is its operand's buffer.
pub fn is_alias(instruction: &Instruction) -> bool {
    let is_view = match instruction.kind {
        OpKind::Reshape | OpKind::Copy => true,
        OpKind::CustomCall => {
            let target = instruction.attributes().map(|call: CustomCallAttributes| call.custom_call_target);
            instruction.operands.len() == 1 && target.is_ok_and(is_annotation)
        }
        _ => false,
    };
    is_view && instruction.shape.as_array().is_some()
}

/// Whether computing an element again costs more than loading it.
pub fn is_expensive(instruction: &Instruction) -> bool {
    let is_float = instruction.shape.as_array().is_some_and(|shape| !shape.element_type.is_integer());
    match definition(instruction.kind).cost {
        ElementCost::Division | ElementCost::Lookup => true,
        ElementCost::Transcendental => is_float,
        ElementCost::Applied => role(instruction) == FusionRole::Elementwise,
        ElementCost::Free | ElementCost::Simple | ElementCost::Whole => false,
    }
}

/// Whether it is a function of many operations for each element, such as an exponential of floats.
pub fn is_function(instruction: &Instruction) -> bool {
    let is_array = instruction.shape.as_array().is_some_and(|shape| shape.rank() > 0);
    is_array && definition(instruction.kind).cost == ElementCost::Transcendental && is_expensive(instruction)
}

/// Whether user and operand are read at the same index: the operand's evaluation is shared, not repeated.
pub(super) fn reads_at_same_index(user: &Instruction) -> bool {
    role(user) == FusionRole::Elementwise || user.kind == OpKind::Copy
}

/// Whether an instruction puts others between the elements of its operand.
pub(super) fn has_gaps(instruction: &Instruction) -> bool {
    let is_pad = instruction.kind == OpKind::Pad;
    is_pad
        && instruction.attributes().is_ok_and(|pad: PadAttributes<'_>| pad.padding.iter().any(|own| own.interior > 0))
}

/// By instruction: whether it puts others between elements, or is made, element by element, of what does.
pub(super) fn made_with_gaps(computation: &Computation) -> Vec<bool> {
    let mut made: Vec<bool> = Vec::with_capacity(computation.instructions.len());
    for (_, instruction) in computation.iter() {
        let reads = || instruction.operands.iter().any(|operand| made[operand.index()]);
        made.push(has_gaps(instruction) || role(instruction) == FusionRole::Elementwise && reads());
    }
    made
}

/// Simple operations, roughly, that an element of each instruction takes, from what is in memory in any case.
pub(super) fn work(computation: &Computation) -> Vec<u32> {
    let mut work: Vec<u32> = Vec::with_capacity(computation.instructions.len());
    for (_, instruction) in computation.iter() {
        let is_array = instruction.shape.as_array().is_some_and(|shape| shape.rank() > 0);
        let operands =
            || instruction.operands.iter().fold(0u32, |sum, operand| sum.saturating_add(work[operand.index()]));
        let most = || instruction.operands.iter().map(|operand| work[operand.index()]).max().unwrap_or_default();
        work.push(match role(instruction) {
            _ if !is_array => 0,
            FusionRole::View => match instruction.kind {
                OpKind::Pad | OpKind::Concatenate => most().saturating_add(2),
                OpKind::Reshape if changes_index(computation, instruction) => operands().saturating_add(2),
                _ => operands(),
            },
            FusionRole::Elementwise if !is_expensive(instruction) => operands().saturating_add(1),
            _ => 0,
        });
    }
    work
}

/// Places of joined arrays that are counted, at most.
const MOST_PLACES: i64 = 64;

/// Between how many places it is chosen for an element of each instruction: those of the operands of concatenations, and of what is
/// moved further from them.
pub(super) fn places(computation: &Computation) -> Vec<i64> {
    let mut places: Vec<i64> = Vec::with_capacity(computation.instructions.len());
    for (_, instruction) in computation.iter() {
        let of_operands = || instruction.operands.iter().map(|operand| places[operand.index()]).sum::<i64>();
        places.push(match instruction.kind {
            OpKind::Concatenate => of_operands().min(MOST_PLACES),
            OpKind::Slice | OpKind::Reverse | OpKind::Reshape | OpKind::Transpose => of_operands(),
            _ => 1,
        });
    }
    places
}

/// Whether a reshape divides indices: whether it does more than add or leave out dimensions of size 1.
pub(super) fn changes_index(computation: &Computation, reshape: &Instruction) -> bool {
    let [own, read] = [Some(reshape), reshape.operands.first().map(|&operand| computation.get(operand))]
        .map(|instruction| instruction.and_then(|instruction| instruction.shape.as_array()));
    let sizes = |shape: Option<&ArrayShape>| -> Vec<i64> {
        shape.map_or(&[][..], |shape| &shape.dimensions).iter().copied().filter(|&size| size != 1).collect()
    };
    sizes(own) != sizes(read)
}
