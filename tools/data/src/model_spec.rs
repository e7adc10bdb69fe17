//! Descriptions of model programs: how their parameters are filled, and what their outputs must be.
//!
//! A description is the JSON file beside a program. `parameters` are the entry parameters, tuples flattened, each with
//! the range of its [`crate::fill`]; `outputs` are the result's leaves with up to 16 samples and a summary.

use std::path::Path;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Module};
use hlo::literal::ArrayLiteral;
use hlo::ops::view::counted;
use hlo::scalar::Scalar;
use hlo::shape::{ArrayShape, Shape};
use num_complex::Complex;
use serde::Deserialize;
use serde_json::Value;

use crate::compare::{self, ArrayComparison, Tolerance};
use crate::error::DataError;
use crate::fill::{self, FillRange};
use crate::movement::Movement;

/// What a sum of integers may be off by, as a part of itself, in a program that computes in floating point. Samples are
/// compared exactly, and so are the sums of all other programs. But an integer may hang on the rounding of a float, such
/// as the number of steps until a bound is passed: correct compilers differ there in an element here and there, XLA with
/// itself from host to host. A sum that is used this way is reported as [`ArrayComparison::note`].
const SUM_TOLERANCE: f64 = 1e-4;

/// Description of a model program.
#[derive(Debug, Deserialize)]
pub struct ModelSpec {
    /// The entry parameters, tuples flattened.
    pub parameters: Vec<ParameterSpec>,
    /// The result's leaves; none when no values were recorded.
    #[serde(default)]
    pub outputs: Vec<OutputSpec>,
}

/// Description of one parameter.
#[derive(Debug, Deserialize)]
pub struct ParameterSpec {
    /// Dimensions.
    pub shape: Vec<i64>,
    /// Element type, as HLO text spells it.
    pub dtype: String,
    /// Range of the values.
    pub fill: FillSpec,
    /// Whether each device has a part of a larger array, divided along its first dimension; else all have the same.
    #[serde(default)]
    pub shard: bool,
}

/// A range, as JSON numbers.
#[derive(Debug, Deserialize)]
pub struct FillSpec {
    lo: serde_json::Number,
    hi: serde_json::Number,
}

/// Description of one output.
#[derive(Debug, Deserialize)]
pub struct OutputSpec {
    /// Dimensions.
    pub shape: Vec<i64>,
    /// Element type, as HLO text spells it.
    pub dtype: String,
    /// Samples: [position, value], or [position, real part, imaginary part].
    #[serde(default)]
    pub samples: Vec<Vec<Value>>,
    /// Root mean square, when all elements are finite floats.
    pub rms: Option<f64>,
    /// Mean, when all elements are finite real floats.
    pub mean: Option<f64>,
    /// Sum of integers; of 1000 elements and more wrapped to 64 bits.
    pub sum: Option<Value>,
    /// Number of elements that are NaN or infinite.
    pub not_finite: Option<usize>,
}

impl FillSpec {
    fn range(&self) -> FillRange {
        let integer =
            |number: &serde_json::Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
        match (integer(&self.lo), integer(&self.hi)) {
            (Some(low), Some(high)) => FillRange::Integer { low, high },
            _ => FillRange::Real {
                low: self.lo.as_f64().unwrap_or(f64::NAN),
                high: self.hi.as_f64().unwrap_or(f64::NAN),
            },
        }
    }
}

impl ModelSpec {
    /// Reads a description.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text = std::fs::read_to_string(path).map_err(|source| DataError::read(path, source))?;
        serde_json::from_str(&text).map_err(|error| DataError::data(path, format!("not a model description: {error}")))
    }

    /// The inputs of a device for a program with the given parameters (tuples flattened).
    pub fn inputs(&self, parameters: &[&ArrayShape], device: usize) -> Result<Vec<ArrayLiteral>, DataError> {
        if parameters.len() != self.parameters.len() {
            return Err(DataError::Usage(format!(
                "the description has {}, the program takes {}",
                counted(self.parameters.len(), "parameter"),
                counted(parameters.len(), "array")
            )));
        }
        let mut inputs = Vec::with_capacity(parameters.len());
        for (number, (spec, &shape)) in self.parameters.iter().zip(parameters).enumerate() {
            if spec.shape != shape.dimensions || spec.dtype != shape.element_type.name() {
                return Err(DataError::Usage(format!(
                    "the description says {}{:?} for parameter {number}, the program has {}",
                    spec.dtype,
                    spec.shape,
                    ArrayShape { layout: None, ..shape.clone() }
                )));
            }
            let skipped = if spec.shard { (shape.element_count() as u64).wrapping_mul(device as u64) } else { 0 };
            inputs.push(fill::fill_shard(number as u64, skipped, shape, spec.fill.range())?);
        }
        Ok(inputs)
    }

    /// Compares the leaves of a program's result with the recorded values; one comparison an output. `movements` are
    /// those of the outputs, where they were measured.
    pub fn check(
        &self,
        computes_in_floats: bool,
        found: &[&ArrayLiteral],
        tolerance: impl Fn(ElementType) -> Tolerance,
        movements: &[Movement],
    ) -> Result<Vec<ArrayComparison>, DataError> {
        if found.len() != self.outputs.len() {
            let (described, given) = (counted(self.outputs.len(), "output"), found.len());
            let message = format!("the description has {described}, the program gives {given}");
            return Err(DataError::Usage(message));
        }
        let sum_tolerance = if computes_in_floats { SUM_TOLERANCE } else { 0.0 };
        let outputs = self.outputs.iter().zip(found).enumerate();
        let check = |(number, (spec, array)): (usize, (&OutputSpec, &&ArrayLiteral))| {
            spec.check(array, &tolerance, movements.get(number), sum_tolerance)
        };
        Ok(outputs.map(check).collect())
    }
}

/// Whether any instruction of a program has a floating-point or complex result.
pub fn computes_in_floats(module: &Module) -> bool {
    module.functions.iter().any(has_floats)
}

fn has_floats(computation: &Computation) -> bool {
    computation
        .instructions
        .iter()
        .any(|instruction| has_floats_in(&instruction.shape) || instruction.computations.iter().any(has_floats))
}

/// Whether a shape has floating-point or complex arrays.
pub fn has_floats_in(shape: &Shape) -> bool {
    let arrays = shape.leaves().into_iter().filter_map(Shape::as_array);
    arrays
        .map(|array| array.element_type.class())
        .any(|class| matches!(class, ElementClass::Float | ElementClass::Complex))
}

impl OutputSpec {
    fn check(
        &self,
        found: &ArrayLiteral,
        tolerance: impl Fn(ElementType) -> Tolerance,
        movement: Option<&Movement>,
        sum_tolerance: f64,
    ) -> ArrayComparison {
        let element_type = found.element_type();
        if self.shape != found.shape().dimensions || self.dtype != element_type.name() {
            return ArrayComparison::mismatch(format!(
                "expected {}{:?}, got {}",
                self.dtype,
                self.shape,
                found.shape()
            ));
        }
        let tolerance = tolerance(element_type);
        let mut samples = Vec::with_capacity(self.samples.len());
        for sample in &self.samples {
            match read_sample(sample, element_type) {
                Some(sample) if sample.0 < found.shape().element_count() as usize => samples.push(sample),
                _ => return ArrayComparison::mismatch(format!("the description has an unreadable sample {sample:?}")),
            }
        }
        let magnitude =
            self.rms.unwrap_or_else(|| compare::root_mean_square(samples.iter().map(|(_, expected)| *expected)));
        let mut comparison = ArrayComparison::default();
        for (position, expected) in samples {
            let found = hlo::scalar::load(element_type, found.bytes(), position);
            comparison.add(position, element_type, [found, expected], magnitude, tolerance.at(movement, position));
        }
        comparison.mismatch = self.check_summary(found, tolerance, movement);
        if comparison.mismatch.is_none() {
            match self.check_sum(found, sum_tolerance) {
                Ok(note) => comparison.note = note,
                Err(mismatch) => comparison.mismatch = Some(mismatch),
            }
        }
        comparison
    }

    /// The summary guards the elements that were not sampled.
    fn check_summary(&self, found: &ArrayLiteral, tolerance: Tolerance, movement: Option<&Movement>) -> Option<String> {
        if let Some(expected) = self.not_finite {
            let count = compare::elements(found).filter(|value| !value.to_complex().is_finite()).count();
            return (count != expected)
                .then(|| format!("expected {expected} elements that are not finite, got {count}"));
        }
        let close = |found: f64, expected: f64, scale: f64, moved: fn(&Movement) -> f64| {
            let allowed = tolerance.absolute + tolerance.relative * scale;
            (found - expected).abs() <= allowed + movement.map_or(0.0, moved)
        };
        if let Some(rms) = self.rms {
            let found_rms = compare::root_mean_square(compare::elements(found));
            if !close(found_rms, rms, rms, |movement| movement.root_mean_square) {
                return Some(format!("expected a root mean square of {rms}, got {found_rms}"));
            }
            if let Some(mean) = self.mean {
                let found_mean = compare::mean(found);
                if !close(found_mean, mean, rms, |movement| movement.mean) {
                    return Some(format!("expected a mean of {mean}, got {found_mean}"));
                }
            }
        }
        None
    }

    /// Compares the sum of integers; a note when it is off by no more than `sum_tolerance`, as a part of itself.
    fn check_sum(&self, found: &ArrayLiteral, sum_tolerance: f64) -> Result<Option<String>, String> {
        // A sum beyond 64 bits is not exact in JSON; the samples must do then.
        let recorded = |sum: &Value| sum.as_i64().map(i128::from).or_else(|| sum.as_u64().map(i128::from));
        let Some(expected) = self.sum.as_ref().and_then(recorded) else { return Ok(None) };
        let wide = |value: Scalar| match value {
            Scalar::Unsigned(value) => i128::from(value),
            other => i128::from(other.to_bits() as i64),
        };
        let exact: i128 = compare::elements(found).map(wide).sum();
        let sum = if found.shape().element_count() < 1000 { exact } else { i128::from(exact as i64) };
        if sum == expected {
            return Ok(None);
        }
        let text = format!("expected a sum of {expected}, got {sum}");
        let is_close = (sum - expected).abs() as f64 <= sum_tolerance * (expected as f64).abs();
        if is_close { Ok(Some(format!("{text}: integers that follow from floats"))) } else { Err(text) }
    }
}

fn read_sample(sample: &[Value], element_type: ElementType) -> Option<(usize, Scalar)> {
    let position = usize::try_from(sample.first()?.as_u64()?).ok()?;
    let float = |value: &Value| match value {
        // "nan", "inf", "-inf"
        Value::String(text) => text.parse::<f64>().ok(),
        other => other.as_f64(),
    };
    let value = sample.get(1)?;
    let value = match element_type.class() {
        ElementClass::Predicate => Scalar::Predicate(value.as_bool().or_else(|| value.as_i64().map(|bit| bit != 0))?),
        ElementClass::Signed => Scalar::Signed(value.as_i64()?),
        ElementClass::Unsigned => Scalar::Unsigned(value.as_u64()?),
        ElementClass::Float => Scalar::Float(float(value)?),
        ElementClass::Complex => Scalar::Complex(Complex::new(float(value)?, float(sample.get(2)?)?)),
    };
    Some((position, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{
        "name": "m", "opcodes": {"add": 1},
        "parameters": [{"name": "[0]", "shape": [4], "dtype": "s32", "fill": {"lo": -1, "hi": 1}}],
        "outputs": [
            {"shape": [2], "dtype": "f32", "samples": [[0, 1.0], [1, 3.0]], "rms": 2.2360679, "mean": 2.0},
            {"shape": [3], "dtype": "u8", "samples": [[0, 7]], "sum": 24}
        ]
    }"#;

    fn check(floats: [f32; 2], bytes: [u8; 3]) -> Vec<bool> {
        let spec: ModelSpec = serde_json::from_str(SPEC).unwrap();
        let floats = ArrayLiteral::from_slice([2], &floats).unwrap();
        let bytes = ArrayLiteral::from_slice([3], &bytes).unwrap();
        spec.check(false, &[&floats, &bytes], Tolerance::default_for, &[])
            .unwrap()
            .iter()
            .map(ArrayComparison::agrees)
            .collect()
    }

    #[test]
    fn samples_and_summaries_are_checked() {
        assert_eq!(check([1.0, 3.0001], [7, 8, 9]), [true, true]);
        assert_eq!(check([1.0, 3.1], [7, 8, 8]), [false, false]);
        assert_eq!(check([f32::NAN, 3.0], [8, 7, 9]), [false, false]);
    }

    #[test]
    fn integers_that_follow_from_floats_may_differ_in_a_few_elements() {
        let spec: ModelSpec = serde_json::from_str(
            r#"{"parameters": [], "outputs": [{"shape": [3], "dtype": "s32", "samples": [[0, 7]], "sum": 20007}]}"#,
        )
        .unwrap();
        let check = |computes_in_floats: bool, values: [i32; 3]| {
            let array = ArrayLiteral::from_slice([3], &values).unwrap();
            let comparison = spec.check(computes_in_floats, &[&array], Tolerance::default_for, &[]).unwrap().remove(0);
            (comparison.agrees(), comparison.note.is_some())
        };
        assert_eq!(check(false, [7, 10_000, 10_000]), (true, false));
        assert_eq!(check(false, [7, 10_000, 10_001]), (false, false));
        assert_eq!(check(true, [7, 10_000, 10_001]), (true, true));
        assert_eq!(check(true, [7, 10_000, 10_003]), (false, false));
        assert_eq!(check(true, [8, 10_000, 9_999]), (false, false));
    }

    #[test]
    fn inputs_follow_the_ranges() {
        let spec: ModelSpec = serde_json::from_str(SPEC).unwrap();
        let shape = ArrayShape::new(ElementType::S32, [4]);
        let inputs = spec.inputs(&[&shape], 0).unwrap();
        assert!(inputs[0].as_slice::<i32>().unwrap().iter().all(|value| (-1..=1).contains(value)));
        assert!(spec.inputs(&[], 0).is_err());
        assert!(spec.inputs(&[&ArrayShape::new(ElementType::S32, [5])], 0).is_err());
    }
}
