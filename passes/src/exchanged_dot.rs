//! A dot as that of its exchanged operands.

use hlo::graph::Instruction;
use hlo::ops::dot::DotAttributes;
use hlo::shape::ArrayShape;

use crate::graph_builder::GraphBuilder;

/// The dot of the exchanged operands, and where each dimension of its result is in that of the dot: batches, those of the second
/// operand, those of the first. `None` where the operands have precisions of their own.
pub(super) fn exchanged_dot(builder: &GraphBuilder, dot: &Instruction) -> Option<(Instruction, Vec<usize>)> {
    let &[lhs, rhs] = &dot.operands[..] else { return None };
    let result = dot.shape.as_array()?;
    let attributes: DotAttributes = dot.attributes().ok()?;
    let precisions: Vec<_> = attributes.operand_precision.iter().collect();
    if precisions.windows(2).any(|pair| pair[0] != pair[1]) {
        return None;
    }
    let batch = attributes.lhs_batch_dims.len();
    let lhs_end = builder.array(lhs).rank() - attributes.lhs_contracting_dims.len();
    let order: Vec<usize> = (0..batch).chain(lhs_end..result.rank()).chain(batch..lhs_end).collect();
    let dimensions = order.iter().map(|&d| result.dimensions.get(d).copied()).collect::<Option<Vec<_>>>()?;
    let numbers = DotAttributes {
        lhs_batch_dims: attributes.rhs_batch_dims,
        rhs_batch_dims: attributes.lhs_batch_dims,
        lhs_contracting_dims: attributes.rhs_contracting_dims,
        rhs_contracting_dims: attributes.lhs_contracting_dims,
        ..attributes
    };
    let shape = ArrayShape::new(result.element_type, dimensions).into();
    let attributes = numbers.into();
    Some((Instruction { operands: vec![rhs, lhs], shape, attributes, ..dot.clone() }, order))
}
