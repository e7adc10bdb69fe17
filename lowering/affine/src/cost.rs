//! What kernels cost, and how much code they are.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use melior::Context;
use passes::fuse::{is_expensive, is_update, update_of};

/// Element operations of a fusion, roughly: every member counts for the elements it computes or reads.
pub(crate) fn cost(context: &Context, computation: &Computation) -> i64 {
    let sliced = only_sliced(computation);
    let members = computation.iter().filter(|(id, _)| !sliced[id.index()]);
    members
        .map(|(id, instruction)| {
            // In the base's place, it writes the update only.
            let update = update_of(instruction).filter(|_| id == computation.root);
            let written = update.map_or(instruction, |update| computation.get(update));
            let elements: i64 =
                written.shape.leaves().iter().filter_map(|leaf| leaf.as_array()).map(ArrayShape::element_count).sum();
            let contracted = match instruction.kind {
                OpKind::Dot | OpKind::Convolution => contracted_size(context, computation, instruction),
                _ => 1,
            };
            let weight = if is_expensive(instruction) { 8 } else { 1 };
            elements.saturating_mul(contracted).saturating_mul(weight)
        })
        .fold(0i64, i64::saturating_add)
}

/// Parameters of which only slices are read or written.
fn only_sliced(computation: &Computation) -> Vec<bool> {
    let mut sliced: Vec<bool> = computation.instructions.iter().map(|own| own.kind == OpKind::Parameter).collect();
    for (id, instruction) in computation.iter() {
        let is_updated = id == computation.root && is_update(computation);
        let slices = is_updated || matches!(instruction.kind, OpKind::Slice | OpKind::DynamicSlice);
        for (number, operand) in instruction.operands.iter().enumerate() {
            sliced[operand.index()] &= slices && number == 0;
        }
    }
    sliced
}

/// Products summed for each element of a contraction.
pub(crate) fn contracted_size(context: &Context, computation: &Computation, instruction: &Instruction) -> i64 {
    crate::contraction::contraction_maps(context, computation, instruction)
        .map_or(1, |maps| maps.ranges.iter().fold(1i64, |product, &size| product.saturating_mul(size)))
}

/// Arrays whose addresses take as much code as a small kernel.
const ARRAYS_PER_STEP: usize = 8;

/// Steps that an instruction counts for in its function.
pub(crate) fn steps_of(computation: &Computation, instruction: &Instruction) -> usize {
    let arrays = |shape: &Shape| if shape.as_array().is_some() { 1 } else { shape.leaves().len() };
    let operands = instruction.operands.iter().map(|&operand| arrays(&computation.get(operand).shape));
    1 + (operands.sum::<usize>() + arrays(&instruction.shape)) / ARRAYS_PER_STEP
}
