//! `allow-tf32`: products of f32 whose precision a program leaves open may be made of tf32, with ten bits behind the point, as
//! XLA's are on GPUs. Only where the user allows it: they are some five times as fast, and a thousand times less exact.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::ops::enumerations::DotAlgorithm;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::GraphBuilder;
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let is_dot = |_, kind| kind == OpKind::Dot;
    for block in blocks_with(&rewriter, is_dot) {
        Body::read(&rewriter, block, is_dot)?.rewrite(|builder, _, instruction| {
            let made_of_tf32 = of_tf32(builder, instruction)?;
            statistics.add("products", 1);
            Some(made_of_tf32)
        })?;
    }
    Ok(())
}

// dot(x, y) => dot(x, y), algorithm=dot_tf32_tf32_f32
fn of_tf32(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    if dot.kind != OpKind::Dot {
        return None;
    }
    let is_f32 = |id: &InstructionId| builder.array(*id).element_type == ElementType::F32;
    let mut attributes: DotAttributes = dot.attributes().ok()?;
    let is_open =
        attributes.algorithm.is_none_or(|own| own == DotAlgorithm::Unset) && attributes.operand_precision.are_default();
    if !is_open || dot.shape.as_array()?.element_type != ElementType::F32 || !dot.operands.iter().all(is_f32) {
        return None;
    }
    attributes.algorithm = Some(DotAlgorithm::Tf32Tf32F32);
    let attributes = attributes.into();
    Some(builder.push(Instruction { attributes, ..dot.clone() }))
}
