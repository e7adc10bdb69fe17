//! Products summed: dot, ragged dot, convolution.

use super::windows::WindowLists;
use super::{Draft, HloBuilder, Op, Padding};
use crate::attributes::{ConvolutionDimensions, WindowDimension};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::ops::convolution::ConvolutionAttributes;
use crate::ops::dot::{DotAttributes, DotDimensions};
use crate::ops::ragged_dot::RaggedDotAttributes;
use crate::ops::typed_attributes::Dimension;
use crate::shape::Shape;

/// How [`HloBuilder::conv_general`] lays the kernel over the input.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// The window, by spatial dimension.
    pub window: Vec<WindowDimension>,
    /// What the dimensions of input, kernel and output are.
    pub dimensions: ConvolutionDimensions,
    /// Groups of features that are convolved apart; 1 for none.
    pub feature_group_count: i64,
    /// Groups of the batch that are convolved apart; 1 for none.
    pub batch_group_count: i64,
}

/// The document's order: batch, features, spatial dimensions; the kernel's output features, input features, spatial.
fn default_dimensions(rank: usize) -> ConvolutionDimensions {
    let spatial: Vec<i64> = (2..rank as i64).collect();
    ConvolutionDimensions {
        input_batch: 0,
        input_feature: 1,
        input_spatial: spatial.clone(),
        kernel_output_feature: 0,
        kernel_input_feature: 1,
        kernel_spatial: spatial.clone(),
        output_batch: 0,
        output_feature: 1,
        output_spatial: spatial,
    }
}

fn numbers(dimensions: &[usize]) -> Vec<i64> {
    dimensions.iter().map(|&dimension| dimension as i64).collect()
}

impl HloBuilder {
    /// The product of vectors, of a matrix and a vector, or of matrices.
    #[track_caller]
    pub fn dot<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>) -> Op<'b> {
        let (Some(left), Some(right)) = (self.array_of("dot", lhs), self.array_of("dot", rhs)) else {
            return self.nothing();
        };
        if !matches!(left.rank(), 1 | 2) || !matches!(right.rank(), 1 | 2) {
            return self.fail_rule("dot", format!("takes vectors and matrices, got {left} and {right}"));
        }
        let dimensions =
            DotDimensions { lhs_contracting: vec![left.rank() - 1], rhs_contracting: vec![0], ..Default::default() };
        self.dot_general(lhs, rhs, &dimensions, None)
    }

    /// The products summed over pairs of contracting dimensions, for each index of pairs of batch dimensions; of element
    /// type `result_type`, where one is given.
    ///
    /// The result has the batch dimensions, the left operand's others, the right operand's others.
    #[track_caller]
    pub fn dot_general<'b>(
        &'b self,
        lhs: Op<'b>,
        rhs: Op<'b>,
        dimensions: &DotDimensions,
        result_type: Option<ElementType>,
    ) -> Op<'b> {
        let attributes = DotAttributes {
            lhs_batch_dims: &numbers(&dimensions.lhs_batch),
            lhs_contracting_dims: &numbers(&dimensions.lhs_contracting),
            rhs_batch_dims: &numbers(&dimensions.rhs_batch),
            rhs_contracting_dims: &numbers(&dimensions.rhs_contracting),
            ..DotAttributes::new()
        };
        self.push(typed(Draft::new(OpKind::Dot, &[lhs, rhs]).with_attributes(attributes), result_type))
    }

    /// A dot whose dimension `lhs_ragged` is split into groups of the sizes `group_sizes`; where it is no batch or
    /// contracting dimension, `rhs_group` is the dimension of the right operand with a matrix for each group.
    #[track_caller]
    pub fn ragged_dot<'b>(
        &'b self,
        lhs: Op<'b>,
        rhs: Op<'b>,
        group_sizes: Op<'b>,
        dimensions: &DotDimensions,
        lhs_ragged: i64,
        rhs_group: Option<i64>,
    ) -> Op<'b> {
        let attributes = RaggedDotAttributes {
            lhs_batch_dims: &numbers(&dimensions.lhs_batch),
            lhs_contracting_dims: &numbers(&dimensions.lhs_contracting),
            rhs_batch_dims: &numbers(&dimensions.rhs_batch),
            rhs_contracting_dims: &numbers(&dimensions.rhs_contracting),
            rhs_group_dims: rhs_group.as_slice(),
            ..RaggedDotAttributes::new(Dimension(lhs_ragged))
        };
        self.push(Draft::new(OpKind::RaggedDot, &[lhs, rhs, group_sizes]).with_attributes(attributes))
    }

    /// A convolution of an input (batch, features, spatial dimensions) with a kernel (output features, input features,
    /// spatial dimensions).
    #[track_caller]
    pub fn conv<'b>(&'b self, lhs: Op<'b>, rhs: Op<'b>, window_strides: &[i64], padding: &Padding) -> Op<'b> {
        self.conv_with_general_padding(lhs, rhs, window_strides, padding, &[], &[], 1, 1)
    }

    /// [`conv`](Self::conv) with holes between the elements of the input (`lhs_dilation`) and of the kernel
    /// (`rhs_dilation`), and with groups; empty lists are ones.
    #[track_caller]
    #[allow(clippy::too_many_arguments, reason = "the document's list of arguments")]
    pub fn conv_with_general_padding<'b>(
        &'b self,
        lhs: Op<'b>,
        rhs: Op<'b>,
        window_strides: &[i64],
        padding: &Padding,
        lhs_dilation: &[i64],
        rhs_dilation: &[i64],
        feature_group_count: i64,
        batch_group_count: i64,
    ) -> Op<'b> {
        let (Some(input), Some(kernel)) = (self.array_of("conv", lhs), self.array_of("conv", rhs)) else {
            return self.nothing();
        };
        if input.rank() < 2 || kernel.rank() != input.rank() {
            return self
                .fail_rule("conv", format!("takes arrays of the same rank, at least 2, got {input} and {kernel}"));
        }
        let lists = WindowLists {
            sizes: &kernel.dimensions[2..],
            strides: window_strides,
            base_dilations: lhs_dilation,
            window_dilations: rhs_dilation,
            padding,
        };
        match lists.over(&input.dimensions[2..]) {
            Ok(window) => {
                let dimensions = default_dimensions(input.rank());
                let convolution = Convolution { window, dimensions, feature_group_count, batch_group_count };
                self.conv_general(lhs, rhs, &convolution, None)
            }
            Err(message) => self.fail_rule("conv", message),
        }
    }

    /// A convolution with dimensions in any order; of element type `result_type`, where one is given.
    #[track_caller]
    pub fn conv_general<'b>(
        &'b self,
        lhs: Op<'b>,
        rhs: Op<'b>,
        convolution: &Convolution,
        result_type: Option<ElementType>,
    ) -> Op<'b> {
        let attributes = ConvolutionAttributes {
            window: &convolution.window,
            feature_group_count: convolution.feature_group_count,
            batch_group_count: convolution.batch_group_count,
            ..ConvolutionAttributes::new(&convolution.dimensions)
        };
        let draft = Draft::new(OpKind::Convolution, &[lhs, rhs]).with_attributes(attributes);
        self.push(typed(draft, result_type))
    }
}

/// Declares the element type of a contraction, whose dimensions follow from the operands.
fn typed(draft: Draft<'_>, result_type: Option<ElementType>) -> Draft<'_> {
    match result_type {
        Some(element_type) => draft.declared(Shape::scalar(element_type)),
        None => draft,
    }
}
