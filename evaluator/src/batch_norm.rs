//! Batch normalisation: training, inference, gradient. Computed in double precision.

use super::EvalFailure;
use super::data::{build, row_major_strides, sizes};
use hlo::literal::ArrayLiteral;
use hlo::ops::batch_norm::BatchNormAttributes;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// The operand's elements by feature.
struct Features {
    element_count: usize,
    feature_count: usize,
    stride: usize,
    epsilon: f64,
}

impl Features {
    fn new(operand: &ArrayShape, attributes: &BatchNormAttributes) -> Result<Features, EvalFailure> {
        let dimension = usize::try_from(attributes.feature_index).ok().filter(|&d| d < operand.rank());
        let dimension = dimension.ok_or_else(|| EvalFailure::malformed("the feature dimension does not exist"))?;
        let sizes = sizes(&operand.dimensions);
        Ok(Features {
            element_count: sizes.iter().product(),
            feature_count: sizes[dimension],
            stride: row_major_strides(&sizes)[dimension],
            // XLA keeps it as `f32`, whatever the operands are.
            epsilon: f64::from(attributes.epsilon as f32),
        })
    }

    fn of(&self, position: usize) -> usize {
        position / self.stride % self.feature_count
    }

    /// Elements of one feature.
    fn group_size(&self) -> f64 {
        self.element_count as f64 / self.feature_count as f64
    }

    /// Sum over each feature of a function of the position.
    fn sums(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.feature_count];
        (0..self.element_count).for_each(|position| sums[self.of(position)] += value(position));
        sums
    }
}

fn values(array: &ArrayLiteral) -> Vec<f64> {
    let count = array.shape().element_count() as usize;
    (0..count).map(|index| load(array.element_type(), array.bytes(), index).to_float()).collect()
}

fn stored(shape: &ArrayShape, values: impl Iterator<Item = f64>) -> Result<ArrayLiteral, EvalFailure> {
    build::<u8>(shape, |target| {
        values.enumerate().for_each(|(index, value)| store(shape.element_type, target, index, Scalar::Float(value)));
        Ok(())
    })
}

fn check(inputs: &[Vec<f64>], features: &Features) -> Result<(), EvalFailure> {
    if inputs.iter().any(|input| input.len() != features.feature_count) {
        return Err(EvalFailure::malformed(
            "scale, offset, mean or variance does not have the size of the feature dimension",
        ));
    }
    Ok(())
}

/// (normalized, mean, variance) of operand, scale, offset ("BatchNormTraining").
pub(super) fn training(
    operands: &[&ArrayLiteral],
    attributes: &BatchNormAttributes,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let ([operand, scale, offset], [result, mean_shape, variance_shape]) = (operands, results) else {
        return Err(EvalFailure::malformed("batch-norm-training has three operands and three results"));
    };
    let features = Features::new(operand.shape(), attributes)?;
    let (x, scale, offset) = (values(operand), values(scale), values(offset));
    check(&[scale.clone(), offset.clone()], &features)?;
    let count = features.group_size();
    let mean: Vec<f64> = features.sums(|p| x[p]).into_iter().map(|sum| sum / count).collect();
    let variance = features.sums(|p| (x[p] - mean[features.of(p)]).powi(2));
    let variance: Vec<f64> = variance.into_iter().map(|sum| sum / count).collect();
    let normalized = (0..x.len()).map(|p| {
        let f = features.of(p);
        scale[f] * (x[p] - mean[f]) / (variance[f] + features.epsilon).sqrt() + offset[f]
    });
    Ok(vec![
        stored(result, normalized)?,
        stored(mean_shape, mean.iter().copied())?,
        stored(variance_shape, variance.iter().copied())?,
    ])
}

/// Normalizes operand with scale, offset, mean, variance ("BatchNormInference").
pub(super) fn inference(
    operands: &[&ArrayLiteral],
    attributes: &BatchNormAttributes,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let [operand, scale, offset, mean, variance] = operands else {
        return Err(EvalFailure::malformed("batch-norm-inference has five operands"));
    };
    let features = Features::new(operand.shape(), attributes)?;
    let x = values(operand);
    let [scale, offset, mean, variance] = [values(scale), values(offset), values(mean), values(variance)];
    check(&[scale.clone(), offset.clone(), mean.clone(), variance.clone()], &features)?;
    let normalized = (0..x.len()).map(|p| {
        let f = features.of(p);
        scale[f] * (x[p] - mean[f]) / (variance[f] + features.epsilon).sqrt() + offset[f]
    });
    stored(result, normalized)
}

/// Gradients of operand, scale and offset from operand, scale, mean, variance, output gradient ("BatchNormGrad").
pub(super) fn gradient(
    operands: &[&ArrayLiteral],
    attributes: &BatchNormAttributes,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let ([operand, scale, mean, variance, output], [result, scale_shape, offset_shape]) = (operands, results) else {
        return Err(EvalFailure::malformed("batch-norm-grad has five operands and three results"));
    };
    let features = Features::new(operand.shape(), attributes)?;
    let (x, dy) = (values(operand), values(output));
    let [scale, mean, variance] = [values(scale), values(mean), values(variance)];
    check(&[scale.clone(), mean.clone(), variance.clone()], &features)?;
    if dy.len() != x.len() {
        return Err(EvalFailure::malformed("the output's gradient does not have the operand's size"));
    }
    let count = features.group_size();
    let deviation = |f: usize| (variance[f] + features.epsilon).sqrt();
    let sum_dy = features.sums(|p| dy[p]);
    let sum_dy_x = features.sums(|p| dy[p] * (x[p] - mean[features.of(p)]));
    let gradient = (0..x.len()).map(|p| {
        let f = features.of(p);
        let c = sum_dy_x[f] / (variance[f] + features.epsilon) / count;
        let d = sum_dy[f] / count;
        scale[f] / deviation(f) * (dy[p] - d - c * (x[p] - mean[f]))
    });
    Ok(vec![
        stored(result, gradient)?,
        stored(scale_shape, (0..features.feature_count).map(|f| sum_dy_x[f] / deviation(f)))?,
        stored(offset_shape, sum_dy.iter().copied())?,
    ])
}
