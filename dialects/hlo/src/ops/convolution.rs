//! `convolution`: windows of the input multiplied with a kernel and summed, with strides, padding, dilations of
//! both operands, and groups of features or of the batch.
//!
//! The result's element type is the declared one. Source: operation semantics, "Conv (convolution)",
//! "ConvWithGeneralPadding (convolution)".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, Precisions, Raw, Word, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::attributes::{ConvolutionDimensions, WindowDimension};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

attributes! {
    /// Attributes of `convolution`.
    pub struct ConvolutionAttributes<'a> {
        /// The window over the spatial dimensions.
        optional window: &'a [WindowDimension] = &[],
        /// What the dimensions of input, kernel and output are.
        required dim_labels: &'a ConvolutionDimensions,
        /// Groups of features that are convolved apart.
        optional feature_group_count: i64 = 1,
        /// Groups of the batch that are convolved apart.
        optional batch_group_count: i64 = 1,
        /// What the convolution computes of a layer (forward, gradients).
        optional convolution_kind: Option<Word<'a>> = None,
        /// Precisions of the operands.
        optional operand_precision ["C11"]: Precisions<'a> = Precisions::DEFAULT,
        /// Which operand is sparse.
        optional sparsity_config: Option<Raw<'a>> = None,
    }
}

/// Definition of `convolution`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Convolution,
    Arity::Exactly(2),
    Facets::new(OpClass::Contraction, FusionRole::Opaque, Lowering::Kernel, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(ConvolutionAttributes::TABLE);

/// - C1: input and kernel have the same rank, at least 2.
/// - C2: `dim_labels` names each dimension of input, kernel and output once.
/// - C3: `window` has one entry for each spatial dimension.
/// - C4: the window has the kernel's spatial sizes.
/// - C5: strides and dilations are positive, and no size overflows.
/// - C6: the group counts are positive, and one of them is 1.
/// - C7: the input features are the kernel's input features times `feature_group_count`.
/// - C8: the kernel's output features divide by each group count.
/// - C9: the input batch divides by `batch_group_count`.
/// - C10: an integer result is not narrower than the operands; complex operands have a complex result.
/// - C11: `operand_precision` has words of XLA's: default, high, highest.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (input, kernel) = (view.array(0)?, view.array(1)?);
    let rank = input.rank();
    if rank < 2 || kernel.rank() != rank {
        let message = format!("must have the rank of operand 0, at least 2, got {input} and {kernel}");
        return Err(view.operand_error(Some("C1"), 1, message));
    }
    let attributes: ConvolutionAttributes = view.attributes()?;
    let ConvolutionAttributes { window, dim_labels: labels, .. } = attributes;
    check_labels(view, labels, rank)?;
    if window.len() != rank - 2 {
        let message = format!("must have length {}, one for each spatial dimension, got {}", rank - 2, window.len());
        return Err(view.attribute_error(Some("C3"), "window", message));
    }
    let (feature_groups, batch_groups) = (attributes.feature_group_count, attributes.batch_group_count);
    if feature_groups < 1 || batch_groups < 1 || (feature_groups > 1 && batch_groups > 1) {
        let message = format!(
            "and batch_group_count must be positive, and one of them 1, got {feature_groups} and {batch_groups}"
        );
        return Err(view.attribute_error(Some("C6"), "feature_group_count", message));
    }
    check_groups(view, labels, feature_groups, batch_groups)?;

    let mut result = ArrayShape::new(view.contraction_element_type(Some("C10"))?, vec![0; rank]);
    let copies = [
        (labels.output_batch, input.dimensions[labels.input_batch as usize] / batch_groups, input, labels.input_batch),
        (
            labels.output_feature,
            kernel.dimensions[labels.kernel_output_feature as usize],
            kernel,
            labels.kernel_output_feature,
        ),
    ];
    for (target, size, source, dimension) in copies {
        result.dimensions[target as usize] = size;
        if source.is_dynamic_dimension(dimension as usize) {
            result.set_dynamic_dimension(target as usize, true);
        }
    }
    for (spatial, entry) in window.iter().enumerate() {
        let source = labels.input_spatial[spatial] as usize;
        let expected = kernel.dimensions[labels.kernel_spatial[spatial] as usize];
        if entry.size != expected {
            let message =
                format!("must have the kernel's size {expected} in spatial dimension {spatial}, got {}", entry.size);
            return Err(view.attribute_error(Some("C4"), "window", message));
        }
        let target = labels.output_spatial[spatial] as usize;
        result.dimensions[target] = view.window_positions(Some("C5"), input.dimensions[source], entry, spatial)?;
        if input.is_dynamic_dimension(source) {
            result.set_dynamic_dimension(target, true);
        }
    }
    Ok(result.into())
}

fn check_labels(view: &OpView<'_>, labels: &ConvolutionDimensions, rank: usize) -> Result<(), OpError> {
    let parts = [
        ("input", labels.input_batch, labels.input_feature, &labels.input_spatial),
        ("kernel", labels.kernel_input_feature, labels.kernel_output_feature, &labels.kernel_spatial),
        ("output", labels.output_batch, labels.output_feature, &labels.output_spatial),
    ];
    for (part, first, second, spatial) in parts {
        let mut named = spatial.clone();
        named.extend([first, second]);
        named.sort_unstable();
        if !named.iter().copied().eq(0..rank as i64) {
            let message = format!("must name each of the {rank} dimensions of the {part} once, got {named:?}");
            return Err(view.attribute_error(Some("C2"), "dim_labels", message));
        }
    }
    Ok(())
}

fn check_groups(
    view: &OpView<'_>,
    labels: &ConvolutionDimensions,
    feature_groups: i64,
    batch_groups: i64,
) -> Result<(), OpError> {
    let (input, kernel) = (view.array(0)?, view.array(1)?);
    let input_features = input.dimensions[labels.input_feature as usize];
    let kernel_features = kernel.dimensions[labels.kernel_input_feature as usize];
    if kernel_features.checked_mul(feature_groups) != Some(input_features) {
        let message = format!(
            "must have {input_features} / {feature_groups} input features (input features / feature_group_count), got {kernel_features}"
        );
        return Err(view.operand_error(Some("C7"), 1, message));
    }
    let output_features = kernel.dimensions[labels.kernel_output_feature as usize];
    if output_features % feature_groups != 0 || output_features % batch_groups != 0 {
        let groups = feature_groups.max(batch_groups);
        let message =
            format!("must have a multiple of {groups} output features, the group count, got {output_features}");
        return Err(view.operand_error(Some("C8"), 1, message));
    }
    let batch = input.dimensions[labels.input_batch as usize];
    if batch % batch_groups != 0 {
        let message = format!("must have a batch that is a multiple of {batch_groups}, batch_group_count, got {batch}");
        return Err(view.operand_error(Some("C9"), 0, message));
    }
    Ok(())
}
