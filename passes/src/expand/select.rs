//! `select` between tuples ("Select"): between their arrays, with the one scalar predicate.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use crate::graph_builder::GraphBuilder;

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let &[predicate, on_true, on_false] = operands else { return None };
    match &instruction.shape {
        Shape::Tuple(_) => Some(choose(builder, predicate, on_true, on_false)),
        Shape::Array(_) | Shape::Token | Shape::Opaque => None,
    }
}

fn choose(
    builder: &mut GraphBuilder,
    predicate: InstructionId,
    on_true: InstructionId,
    on_false: InstructionId,
) -> InstructionId {
    let shape = builder.shape(on_true).clone();
    match &shape {
        Shape::Tuple(elements) => {
            let chosen: Vec<InstructionId> = (0..elements.len())
                .map(|index| {
                    let (on_true, on_false) = (builder.element(on_true, index), builder.element(on_false, index));
                    choose(builder, predicate, on_true, on_false)
                })
                .collect();
            builder.tuple(&chosen)
        }
        Shape::Array(_) => builder.add(OpKind::Select, shape, &[predicate, on_true, on_false], Default::default()),
        Shape::Token | Shape::Opaque => on_true,
    }
}
