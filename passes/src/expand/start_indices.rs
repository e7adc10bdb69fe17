//! Start indices of `dynamic-slice` and `dynamic-update-slice` as one array, as dumps until 2018 have them
//! ("DynamicSlice"): as scalars.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;

use crate::graph_builder::GraphBuilder;

/// The operands with scalars for the array of start indices that stands at `first`; `None` if there is no such array.
pub(crate) fn as_scalars(
    builder: &mut GraphBuilder,
    operands: &[InstructionId],
    first: usize,
) -> Option<Vec<InstructionId>> {
    let &[starts] = operands.get(first..)? else { return None };
    let is_vector = builder.shape(starts).as_array()?.rank() == 1;
    is_vector.then(|| [&operands[..first], &builder.elements_of(starts)].concat())
}

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let first = if instruction.kind == OpKind::DynamicSlice { 1 } else { 2 };
    let operands = as_scalars(builder, operands, first)?;
    Some(builder.add(instruction.kind, instruction.shape.clone(), &operands, instruction.attributes.clone()))
}
