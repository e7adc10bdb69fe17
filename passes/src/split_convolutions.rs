//! The part of `split-reductions` for convolutions: one of few elements, each of which sums many input features, as the gradient of a
//! kernel does, becomes one whose groups of features are parts of these, and their sum.

use hlo::attributes::Attributes;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::shape::ArrayShape;

use crate::graph_builder::GraphBuilder;
use crate::split_products::{LEAST_TERMS_OF_PART, MOST_TILES, sum_of_parts, tiles_to_fill, wide_type};

// convolution(x, k) => reduce(reshape(convolution(x, reshape(transpose(reshape(k))), feature_group_count=parts)))
// convolution(x, k), batch_group_count=n => the same of reshape(transpose(reshape(x))), batch_group_count=parts*n
pub(super) fn split(builder: &mut GraphBuilder, convolution: &Instruction) -> Option<InstructionId> {
    let &[input, kernel] = &convolution.operands[..] else { return None };
    let shapes = [input, kernel].map(|operand| builder.array(operand));
    let result = convolution.shape.as_array()?;
    let attributes: ConvolutionAttributes = convolution.attributes().ok()?;
    if result.is_dynamic() || shapes.iter().any(ArrayShape::is_dynamic) || attributes.feature_group_count != 1 {
        return None;
    }
    let wide = wide_type(result.element_type, &shapes)?;
    let labels = attributes.dim_labels;
    let [output_feature, kernel_output, kernel_input] =
        [labels.output_feature, labels.kernel_output_feature, labels.kernel_input_feature].map(|d| d as usize);
    let groups = attributes.batch_group_count;
    let (features, outputs) = (shapes[1].dimensions[kernel_input], result.dimensions[output_feature]);
    if result.element_count() * features * groups == 0 {
        return None;
    }
    let terms = shapes[1].element_count() / outputs;
    let tiles = tiles_to_fill(groups, result.element_count() / outputs, outputs / groups)?;
    let wanted = (MOST_TILES / tiles).min(terms / LEAST_TERMS_OF_PART).min(features);
    let parts = (2..=wanted).rev().find(|parts| features % parts == 0)?;
    let kernel = with_parts(builder, kernel, (kernel_input, kernel_output), parts);
    let (input, feature_groups, batch_groups) = match groups {
        1 => (input, parts, 1),
        _ => {
            let [feature, batch] = [labels.input_feature, labels.input_batch].map(|d| d as usize);
            (with_parts(builder, input, (feature, batch), parts), 1, parts * groups)
        }
    };
    let mut dimensions = result.dimensions.clone();
    dimensions[output_feature] = parts * outputs;
    let attributes: Attributes =
        ConvolutionAttributes { feature_group_count: feature_groups, batch_group_count: batch_groups, ..attributes }
            .into();
    let all = builder.add(OpKind::Convolution, ArrayShape::new(wide, dimensions), &[input, kernel], attributes);
    let mut sizes = result.dimensions.clone();
    sizes.insert(output_feature, parts);
    let divided = builder.reshape(all, &sizes);
    Some(sum_of_parts(builder, divided, output_feature, result.element_type))
}

/// An array of which a dimension becomes shorter, and another one as many times longer: its positions once for each part of
/// the first one.
fn with_parts(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    (from, to): (usize, usize),
    parts: i64,
) -> InstructionId {
    let mut sizes = builder.dimensions(operand);
    let mut divided = sizes.clone();
    divided.splice(from..=from, [parts, sizes[from] / parts]);
    let divided = builder.reshape(operand, &divided);
    // The dimension of the parts goes before the one that becomes longer.
    let mut order: Vec<i64> = (0..=sizes.len() as i64).filter(|&d| d != from as i64).collect();
    order.insert(to, from as i64);
    let moved = builder.transpose(divided, &order);
    sizes[from] /= parts;
    sizes[to] *= parts;
    builder.reshape(moved, &sizes)
}
