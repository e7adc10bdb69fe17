//! `bitcast`: the operand's memory, in the order of its layout, as an array of the result's shape and layout.

use hlo::graph::{Instruction, InstructionId};
use hlo::shape::ArrayShape;

use super::bitcast_convert;
use crate::graph_builder::GraphBuilder;

/// Dimensions from the slowest to the fastest varying.
fn memory_order(shape: &ArrayShape) -> Vec<i64> {
    shape.layout_or_default().minor_to_major.iter().rev().copied().collect()
}

fn in_order(shape: &ArrayShape, order: &[i64]) -> Vec<i64> {
    order.iter().map(|&d| shape.dimensions[d as usize]).collect()
}

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let operand = *operands.first()?;
    let (source, result) = (builder.shape(operand).as_array()?.clone(), instruction.shape.as_array()?);
    let source_order = memory_order(&source);
    if source_order.len() != source.rank() {
        return None;
    }
    let memory = builder.transpose(operand, &source_order);
    let order = memory_order(result);
    let sizes = in_order(result, &order);
    let memory = match (source.element_type.bit_width(), result.element_type.bit_width()) {
        (from, to) if from == to => {
            let bits = builder.bitcast(memory, result.element_type);
            builder.reshape(bits, &sizes)
        }
        (from, to) => {
            let count = source.element_count();
            let flat = match from > to {
                true => builder.reshape(memory, &[count]),
                false => {
                    let ratio = i64::from(to / from);
                    builder.reshape(memory, &[count / ratio, ratio])
                }
            };
            let converted = bitcast_convert::between_widths(builder, flat, result.element_type)?;
            builder.reshape(converted, &sizes)
        }
    };
    Some(builder.transpose_back(memory, &order))
}
