//! `rng` of floats below 16 bits: numbers of f64, rounded.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::{ComparisonDirection, RandomDistribution};
use hlo::ops::rng::RngAttributes;

use crate::graph_builder::GraphBuilder;

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let &[a, b] = operands else { return None };
    let shape = instruction.shape.as_array()?;
    let element_type = shape.element_type;
    if !element_type.is_float() || element_type.bit_width() >= 16 {
        return None;
    }
    let bounds = [a, b].map(|bound| builder.convert(bound, ElementType::F64));
    let wide_shape = shape.with_element_type(ElementType::F64);
    let wide = builder.add(OpKind::Rng, wide_shape, &bounds, instruction.attributes.clone());
    let rounded = builder.convert(wide, element_type);
    let RngAttributes { distribution } = instruction.attributes().ok()?;
    if distribution != RandomDistribution::Uniform {
        return Some(rounded);
    }
    // Rounding may reach b, which is outside of [a, b).
    let [low, high] = [a, b].map(|bound| builder.broadcast(bound, &shape.dimensions, &[]));
    let is_outside = builder.compare(ComparisonDirection::Eq, rounded, high);
    Some(builder.select(is_outside, low, rounded))
}
