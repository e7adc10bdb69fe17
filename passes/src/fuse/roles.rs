//! What fusion knows about an instruction.

use hlo::graph::Instruction;
use hlo::op_kind::OpKind;
use hlo::ops::custom_call_targets::is_annotation;
use hlo::ops::{self, OpClass};

/// What an instruction is in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Not fused: control flow, contractions, library calls, tuples, parameters, arrays of constants.
    Opaque,
    /// Costs nothing when the group reads it at another index: reshape, broadcast, slice, scalar constant ….
    View,
    /// One element from the elements at the same index.
    Elementwise,
    /// Looks up elements at run-time indices.
    Lookup,
    /// Combines many elements: the group loops inside.
    Reduction,
    /// Writes part of an array in place: only as the single output of a group.
    Update,
}

impl Role {
    /// Role of an instruction.
    pub(super) fn of(instruction: &Instruction) -> Self {
        let Some(shape) = instruction.shape.as_array() else {
            // A variadic reduction has a tuple shape and is a group's only output.
            let fusible = matches!(instruction.kind, OpKind::Reduce | OpKind::ReduceWindow);
            return if fusible { Role::Reduction } else { Role::Opaque };
        };
        if shape.is_dynamic() {
            return Role::Opaque;
        }
        match instruction.kind {
            OpKind::Constant if shape.rank() == 0 => Role::View,
            OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose
            | OpKind::Slice
            | OpKind::Reverse
            | OpKind::Pad
            | OpKind::Concatenate
            | OpKind::Iota
            | OpKind::Copy => Role::View,
            OpKind::DynamicSlice | OpKind::Gather => Role::Lookup,
            OpKind::DynamicUpdateSlice => Role::Update,
            OpKind::Reduce | OpKind::ReduceWindow => Role::Reduction,
            OpKind::Map => Role::Elementwise,
            OpKind::BitcastConvert => Role::Elementwise,
            kind if ops::definition(kind).class == OpClass::Elementwise => Role::Elementwise,
            _ => Role::Opaque,
        }
    }
}

/// Whether the instruction needs no code where it stands alone: its value is its operand's buffer.
pub fn is_alias(instruction: &Instruction) -> bool {
    let is_view = match instruction.kind {
        OpKind::Reshape | OpKind::Copy => true,
        OpKind::CustomCall => {
            let target = instruction.attributes.word("custom_call_target");
            instruction.operands.len() == 1 && target.is_some_and(is_annotation)
        }
        _ => false,
    };
    is_view && instruction.shape.as_array().is_some()
}

/// Whether computing an element again costs more than loading it.
pub fn is_expensive(instruction: &Instruction) -> bool {
    let is_float = instruction.shape.as_array().is_some_and(|shape| !shape.element_type.is_integer());
    match instruction.kind {
        OpKind::Divide | OpKind::Remainder | OpKind::Map | OpKind::Gather => true,
        OpKind::Abs
        | OpKind::Add
        | OpKind::And
        | OpKind::BitcastConvert
        | OpKind::Ceil
        | OpKind::Clamp
        | OpKind::Compare
        | OpKind::Complex
        | OpKind::Convert
        | OpKind::CountLeadingZeros
        | OpKind::Floor
        | OpKind::Imag
        | OpKind::IsFinite
        | OpKind::Maximum
        | OpKind::Minimum
        | OpKind::Multiply
        | OpKind::Negate
        | OpKind::Not
        | OpKind::Or
        | OpKind::PopulationCount
        | OpKind::Real
        | OpKind::ReducePrecision
        | OpKind::RoundNearestAfz
        | OpKind::RoundNearestEven
        | OpKind::Select
        | OpKind::ShiftLeft
        | OpKind::ShiftRightArithmetic
        | OpKind::ShiftRightLogical
        | OpKind::Sign
        | OpKind::Subtract
        | OpKind::Xor => false,
        _ => is_float && Role::of(instruction) == Role::Elementwise,
    }
}

/// Whether user and operand are read at the same index: the operand's evaluation is shared, not repeated.
pub(super) fn reads_at_same_index(user: &Instruction) -> bool {
    Role::of(user) == Role::Elementwise || user.kind == OpKind::Copy
}
