//! Batch normalisation ("BatchNormTraining", "BatchNormInference", "BatchNormGrad"): sums over all dimensions but the
//! features', then arithmetic on elements. Types below 32 bits are computed in `f32` and rounded once.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::batch_norm::BatchNormAttributes;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Which elements of the operand count, where not all do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// `pred` of the operand's dimensions.
    pub(crate) exists: InstructionId,
    /// How many of them a feature has: a scalar.
    pub(crate) count: InstructionId,
}

/// What the three operations share: the operand's dimensions and the type to compute in.
struct Normalisation<'b> {
    builder: &'b mut GraphBuilder,
    counted: Option<Counted>,
    sizes: Vec<i64>,
    feature: i64,
    epsilon: f64,
    result_type: ElementType,
    element_type: ElementType,
}

impl<'b> Normalisation<'b> {
    fn new(
        builder: &'b mut GraphBuilder,
        instruction: &Instruction,
        operand: InstructionId,
        counted: Option<Counted>,
    ) -> Option<Self> {
        let BatchNormAttributes { epsilon, feature_index } = instruction.attributes().ok()?;
        let shape = builder.array(operand);
        let result_type = shape.element_type;
        let element_type = if result_type.bit_width() < 32 { ElementType::F32 } else { result_type };
        Some(Normalisation {
            builder,
            counted,
            sizes: shape.dimensions,
            feature: feature_index,
            // XLA keeps it as `f32`, whatever the operands are.
            epsilon: f64::from(epsilon as f32),
            result_type,
            element_type,
        })
    }

    /// Operands in the type to compute in; those with one value a feature are spread over the operand's shape.
    fn widened<const N: usize>(&mut self, operands: &[InstructionId]) -> Option<[InstructionId; N]> {
        let widened: Vec<InstructionId> =
            operands.iter().map(|&operand| self.builder.convert(operand, self.element_type)).collect();
        widened.try_into().ok()
    }

    fn rounded(&mut self, value: InstructionId) -> InstructionId {
        self.builder.convert(value, self.result_type)
    }

    /// One value a feature, for every element.
    fn spread(&mut self, values: InstructionId) -> InstructionId {
        self.builder.broadcast(values, &self.sizes, &[self.feature])
    }

    /// The sum over each feature.
    fn sums(&mut self, value: InstructionId) -> InstructionId {
        let others: Vec<i64> = (0..self.sizes.len() as i64).filter(|&d| d != self.feature).collect();
        let value = match self.counted {
            Some(Counted { exists, .. }) => {
                let zero = self.builder.filled(&self.builder.array(value), ConstantNumber::Integer(0));
                self.builder.select(exists, value, zero)
            }
            None => value,
        };
        self.builder.reduce(value, ConstantNumber::Integer(0), &others, OpKind::Add)
    }

    /// The sum over each feature divided by the number of its elements.
    fn means(&mut self, value: InstructionId) -> InstructionId {
        let sums = self.sums(value);
        let shape = self.builder.array(sums);
        let count = match self.counted {
            Some(Counted { count, .. }) => {
                let count = self.builder.convert(count, self.element_type);
                self.builder.broadcast(count, &shape.dimensions, &[])
            }
            None => {
                let others = (0..self.sizes.len()).filter(|&d| d as i64 != self.feature);
                let count: f64 = others.map(|d| self.sizes[d] as f64).product();
                self.builder.filled(&shape, ConstantNumber::Float(count))
            }
        };
        self.builder.binary(OpKind::Divide, sums, count)
    }

    fn binary(&mut self, kind: OpKind, lhs: InstructionId, rhs: InstructionId) -> InstructionId {
        self.builder.binary(kind, lhs, rhs)
    }

    /// variance + epsilon
    fn with_epsilon(&mut self, variance: InstructionId) -> InstructionId {
        let shape = self.builder.array(variance);
        let epsilon = self.builder.filled(&shape, ConstantNumber::Float(self.epsilon));
        self.binary(OpKind::Add, variance, epsilon)
    }

    /// operand - mean
    fn centred(&mut self, operand: InstructionId, mean: InstructionId) -> InstructionId {
        let mean = self.spread(mean);
        self.binary(OpKind::Subtract, operand, mean)
    }

    /// scale * centred / sqrt(variance + epsilon) + offset
    fn normalised(
        &mut self,
        centred: InstructionId,
        variance: InstructionId,
        scale: InstructionId,
        offset: InstructionId,
    ) -> InstructionId {
        let variance = self.with_epsilon(variance);
        let deviation = self.builder.unary(OpKind::Sqrt, variance);
        let factor = self.binary(OpKind::Divide, scale, deviation);
        let (factor, offset) = (self.spread(factor), self.spread(offset));
        let scaled = self.binary(OpKind::Multiply, centred, factor);
        self.binary(OpKind::Add, scaled, offset)
    }
}

/// (normalised, mean, variance) of operand, scale, offset.
pub(crate) fn training(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    counted: Option<Counted>,
) -> Option<InstructionId> {
    let mut on = Normalisation::new(builder, instruction, *operands.first()?, counted)?;
    let [operand, scale, offset] = on.widened(operands)?;
    let mean = on.means(operand);
    let centred = on.centred(operand, mean);
    let square = on.binary(OpKind::Multiply, centred, centred);
    let variance = on.means(square);
    let normalised = on.normalised(centred, variance, scale, offset);
    let results = [normalised, mean, variance].map(|value| on.rounded(value));
    Some(builder.tuple(&results))
}

/// The operand normalised with scale, offset, mean and variance.
pub(super) fn inference(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let mut on = Normalisation::new(builder, instruction, *operands.first()?, None)?;
    let [operand, scale, offset, mean, variance] = on.widened(operands)?;
    let centred = on.centred(operand, mean);
    let normalised = on.normalised(centred, variance, scale, offset);
    Some(on.rounded(normalised))
}

/// Gradients of operand, scale and offset from operand, scale, mean, variance and the result's gradient.
pub(crate) fn gradient(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    counted: Option<Counted>,
) -> Option<InstructionId> {
    let mut on = Normalisation::new(builder, instruction, *operands.first()?, counted)?;
    let [operand, scale, mean, variance, gradient] = on.widened(operands)?;
    let centred = on.centred(operand, mean);
    let product = on.binary(OpKind::Multiply, gradient, centred);
    let variance = on.with_epsilon(variance);
    let deviation = on.builder.unary(OpKind::Sqrt, variance);

    let offset_gradient = on.sums(gradient);
    let product_sums = on.sums(product);
    let scale_gradient = on.binary(OpKind::Divide, product_sums, deviation);

    // scale / deviation * (gradient - mean(gradient) - centred * mean(gradient * centred) / variance)
    let gradient_mean = on.means(gradient);
    let product_mean = on.means(product);
    let slope = on.binary(OpKind::Divide, product_mean, variance);
    let (gradient_mean, slope) = (on.spread(gradient_mean), on.spread(slope));
    let along = on.binary(OpKind::Multiply, centred, slope);
    let rest = on.binary(OpKind::Subtract, gradient, gradient_mean);
    let rest = on.binary(OpKind::Subtract, rest, along);
    let factor = on.binary(OpKind::Divide, scale, deviation);
    let factor = on.spread(factor);
    let operand_gradient = on.binary(OpKind::Multiply, factor, rest);
    let results = [operand_gradient, scale_gradient, offset_gradient].map(|value| on.rounded(value));
    Some(builder.tuple(&results))
}
