//! `canonicalize-convolutions`: brings convolutions into the forms that have fast code.
//!
//! Where the base is dilated, most products are with zeros: the positions of the result that see the same elements of the
//! kernel, a *phase*, are a convolution without dilation, and these are interleaved. Phases that see the same elements of the input
//! are features of one convolution. Other dilation, and padding, become a `pad` (which fuses with what makes the input), except
//! where each feature is convolved by itself: that kernel leaves out what is outside of the input, and a `pad` with zeros
//! becomes padding of its window. A reversed window becomes a `reverse` of the kernel. Windows of one element, or of which none sees
//! what another one does, are a product of matrices (`dots`), and large ones of 3 × 3 are several (`winograd`). Dimensions are put in the order
//! in which vectors are full and sums are long (`orders`).

mod dots;
mod orders;
mod phases;

use hlo::attributes::{ConvolutionDimensions, PaddingDimension, WindowDimension};
use hlo::dialect;
use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::{OperationRef, ValueLike};
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};
use crate::winograd;

/// Options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[
    OptionDefinition {
        name: "features-last",
        description: "whether features move behind the dimensions of space, and where they are few before these: vectors run along what is last",
        kind: OptionKind::Boolean,
        default: "false",
    },
    OptionDefinition {
        name: "winograd",
        description: "whether large convolutions of 3x3 elements go by Winograd's algorithm, which rounds otherwise, where that is faster",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

/// What the pass does beside what is always better.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvolutionOptions {
    /// Whether features move behind space, and where they are few before it.
    pub(crate) features_last: bool,
    /// Whether Winograd's algorithm may be taken.
    pub(crate) winograd: bool,
}

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub(crate) fn run(
    root: OperationRef<'_, '_>,
    options: ConvolutionOptions,
    statistics: &mut PassStatistics,
) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    for block in blocks_with(&rewriter, |_, kind| kind == OpKind::Convolution) {
        let is_number = |operation: OperationRef<'_, '_>| {
            let shape = operation.result(0).ok().and_then(|result| dialect::shape_of(result.r#type()).ok());
            shape.as_ref().and_then(Shape::as_array).is_some_and(|array| array.rank() == 0)
        };
        let body = Body::read(&rewriter, block, |operation, kind| match kind {
            OpKind::Constant => is_number(operation),
            kind => matches!(kind, OpKind::Convolution | OpKind::Pad),
        })?;
        body.rewrite(|builder, _, convolution| Site::of(builder, convolution, options, statistics)?.canonical())?;
    }
    Ok(())
}

/// A convolution to rewrite.
struct Site<'s> {
    builder: &'s mut GraphBuilder,
    attributes: ConvolutionAttributes<'s>,
    statistics: &'s mut PassStatistics,
    options: ConvolutionOptions,
    dimensions: ConvolutionDimensions,
    window: Vec<WindowDimension>,
    result: ArrayShape,
    input: InstructionId,
    kernel: InstructionId,
}

impl<'s> Site<'s> {
    fn of(
        builder: &'s mut GraphBuilder,
        convolution: &'s Instruction,
        options: ConvolutionOptions,
        statistics: &'s mut PassStatistics,
    ) -> Option<Self> {
        if convolution.kind != OpKind::Convolution {
            return None;
        }
        let (&[input, kernel], result) = (&convolution.operands[..], convolution.shape.as_array()?) else {
            return None;
        };
        let is_empty = |shape: &ArrayShape| shape.dimensions.contains(&0);
        if result.is_dynamic()
            || is_empty(result)
            || is_empty(&builder.array(input))
            || is_empty(&builder.array(kernel))
        {
            return None;
        }
        let attributes: ConvolutionAttributes = convolution.attributes().ok()?;
        Some(Site {
            builder,
            dimensions: attributes.dim_labels.clone(),
            window: attributes.window.to_vec(),
            attributes,
            result: ArrayShape { layout: None, ..result.clone() },
            statistics,
            options,
            input,
            kernel,
        })
    }

    /// The convolution in its new form; `None` where that is the one that it has.
    fn canonical(mut self) -> Option<InstructionId> {
        if let Some(number) = self.divided_dimension() {
            let order = self.bring_features_last().or_else(|| self.bring_space_last());
            let value = self.by_phases(number);
            return Some(self.in_first_order(value, order));
        }
        if let Some(value) = self.by_winograd() {
            return Some(value);
        }
        match self.leaves_padding_out() {
            true => self.take_padding(),
            false => self.pad_input(),
        }
        self.reverse_kernel();
        if let Some(value) = self.as_dot().or_else(|| self.with_terms_together()) {
            return Some(value);
        }
        let order = self.bring_features_last().or_else(|| self.exchange_last()).or_else(|| self.bring_space_last());
        if self.window == self.attributes.window && order.is_none() {
            return None;
        }
        let (window, result) = (self.window.clone(), self.result.clone());
        let value = self.convolve([self.input, self.kernel], &window, &result);
        Some(self.in_first_order(value, order))
    }

    /// The result in the order of dimensions that it had before they were put in another one.
    fn in_first_order(&mut self, value: InstructionId, order: Option<Vec<i64>>) -> InstructionId {
        order.map_or(value, |order| self.builder.transpose_back(value, &order))
    }

    /// The convolution of operands of the same dimensions, with a window and result of other sizes.
    fn convolve(
        &mut self,
        operands: [InstructionId; 2],
        window: &[WindowDimension],
        result: &ArrayShape,
    ) -> InstructionId {
        let attributes = ConvolutionAttributes { window, dim_labels: &self.dimensions, ..self.attributes };
        self.builder.add(OpKind::Convolution, result.clone(), &operands, attributes)
    }

    /// Parts of the result, each with positions beside those of a dimension of space in a dimension behind it, as one whose positions
    /// alternate; those behind the end of the result are left out.
    fn interleave(&mut self, parts: &[InstructionId], dimension: usize) -> InstructionId {
        let whole = self.builder.concatenate(parts, dimension + 1);
        let mut sizes = self.builder.dimensions(whole);
        sizes[dimension] *= sizes.remove(dimension + 1);
        let whole = self.builder.reshape(whole, &sizes);
        self.builder.slice(whole, dimension, 0, self.result.dimensions[dimension])
    }

    /// Elements of the window.
    fn window_size(&self) -> i64 {
        self.window.iter().fold(1, |size, w| size.saturating_mul(w.size))
    }

    /// Features of the input that the products of one place in the window are of.
    fn terms_of_place(&self) -> i64 {
        self.builder.dimensions(self.kernel)[self.dimensions.kernel_input_feature as usize]
    }

    fn is_grouped(&self) -> bool {
        self.attributes.feature_group_count != 1 || self.attributes.batch_group_count != 1
    }

    // convolution(x, k), size=3x3 => what `winograd` says, where it is faster and the program asks for no more than the usual precision
    fn by_winograd(&mut self) -> Option<InstructionId> {
        let attributes = self.attributes;
        let is_plain = |w: &WindowDimension| {
            let WindowDimension { size, stride, base_dilation, window_dilation, .. } = *w;
            size == winograd::WINDOW && [stride, base_dilation, window_dilation].iter().all(|&step| step <= 1)
        };
        let types = [self.input, self.kernel].map(|operand| self.builder.element_type(operand));
        let is_f32 = self.result.element_type == ElementType::F32 && types == [ElementType::F32; 2];
        let &[rows, columns] = &self.dimensions.output_spatial[..] else { return None };
        if !self.options.winograd
            || !attributes.operand_precision.are_default()
            || self.is_grouped()
            || !is_f32
            || !self.window.iter().all(is_plain)
        {
            return None;
        }
        let of_result = |d: i64| self.result.dimensions[d as usize];
        let sizes = winograd::Sizes {
            batch: of_result(self.dimensions.output_batch),
            space: [rows, columns].map(of_result),
            input_features: self.terms_of_place(),
            output_features: of_result(self.dimensions.output_feature),
        };
        if !sizes.is_worth_it() {
            return None;
        }
        let has_features_last = |d: &ConvolutionDimensions| {
            let input = (d.input_batch, &d.input_spatial[..], d.input_feature);
            let output = (d.output_batch, &d.output_spatial[..], d.output_feature);
            [input, output].iter().all(|&own| own == (0, &[1, 2], 3))
        };
        let order = match has_features_last(&self.dimensions) {
            true => None,
            false => Some(self.bring_features_last()?),
        };
        self.statistics.add("winograd", 1);
        self.reverse_kernel();
        for (w, size) in self.window.iter_mut().zip(sizes.space) {
            w.padding_high += size % winograd::RESULT_TILE;
        }
        self.pad_input();
        self.move_kernel();
        let whole = winograd::convolution(self.builder, self.input, self.kernel, sizes);
        let [rows, columns] = sizes.space;
        let value = self.builder.slice(whole, 1, 0, rows);
        let value = self.builder.slice(value, 2, 0, columns);
        Some(self.in_first_order(value, order))
    }

    /// Whether each feature of the result sums products of one feature of the input: these are few, next to each other in
    /// vectors of features, and one test leaves out what is padding.
    fn leaves_padding_out(&self) -> bool {
        let is_dense = self.window.iter().all(|w| w.base_dilation <= 1);
        self.attributes.feature_group_count > 1 && self.terms_of_place() == 1 && is_dense
    }

    // convolution(pad(x, 0), k) => convolution(x, k), pad
    fn take_padding(&mut self) {
        let pad = self.builder.get(self.input);
        let &[input, value] = &pad.operands[..] else { return };
        let Ok(PadAttributes { padding }) = pad.attributes() else { return };
        let is_spatial = |d: usize| self.dimensions.input_spatial.contains(&(d as i64));
        let is_taken = |(d, p): (usize, &PaddingDimension)| {
            p.low >= 0 && p.high >= 0 && p.interior == 0 && (is_spatial(d) || (p.low, p.high) == (0, 0))
        };
        if pad.kind != OpKind::Pad || !padding.iter().enumerate().all(is_taken) || !self.builder.is_zero(value) {
            return;
        }
        for (&d, w) in self.dimensions.input_spatial.iter().zip(&mut self.window) {
            w.padding_low += padding[d as usize].low;
            w.padding_high += padding[d as usize].high;
        }
        self.statistics.add("take-padding", 1);
        self.input = input;
    }

    // convolution(x, k), pad, lhs_dilate => convolution(pad(x, 0), k)
    fn pad_input(&mut self) {
        let mut shape = self.builder.array(self.input);
        let mut padding = vec![PaddingDimension { low: 0, high: 0, interior: 0 }; shape.rank()];
        for (&d, w) in self.dimensions.input_spatial.iter().zip(&mut self.window) {
            let (d, interior) = (d as usize, w.base_dilation.max(1) - 1);
            // Elements behind the last window are not read: they need not be there.
            padding[d] = PaddingDimension { low: w.padding_low, high: w.padding_high, interior };
            let size = shape.dimensions[d];
            shape.dimensions[d] = size + (size - 1) * interior + w.padding_low + w.padding_high;
            (w.padding_low, w.padding_high, w.base_dilation) = (0, 0, 1);
        }
        if padding.iter().all(|p| (p.low, p.high, p.interior) == (0, 0, 0)) {
            return;
        }
        self.statistics.add("pad-input", 1);
        if !shape.element_type.has_zero() {
            self.input = self.builder.convert(self.input, ElementType::F32);
            shape = shape.with_element_type(ElementType::F32);
        }
        let zero = self.builder.scalar(shape.element_type, ConstantNumber::Integer(0));
        let attributes = PadAttributes { padding: &padding };
        self.input = self.builder.add(OpKind::Pad, shape, &[self.input, zero], attributes);
    }

    // convolution(x, k), rhs_reversal => convolution(x, reverse(k))
    fn reverse_kernel(&mut self) {
        let reversed: Vec<i64> = self
            .dimensions
            .kernel_spatial
            .iter()
            .zip(&self.window)
            .filter(|(_, w)| w.reversal && w.size > 1)
            .map(|(&d, _)| d)
            .collect();
        for w in &mut self.window {
            w.reversal = false;
        }
        if reversed.is_empty() {
            return;
        }
        self.statistics.add("reverse-kernel", 1);
        let shape = self.builder.array(self.kernel);
        let attributes = ReverseAttributes { dimensions: &reversed };
        self.kernel = self.builder.add(OpKind::Reverse, shape, &[self.kernel], attributes);
    }
}
