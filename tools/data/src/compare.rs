//! Comparison of results with expected values.
//!
//! An element agrees when |found - expected| <= atol + rtol * max(|expected|, rms of the expected array); integers and
//! `pred` agree when equal, whatever the tolerance; NaN agrees with NaN and each infinity with itself.
//! The rms keeps elements near zero, where cancellation leaves no relative precision, from failing. An element of any
//! type may also differ by its [movement](crate::movement), where that was measured.

use std::fmt;

use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::scalar::{self, Scalar};

use crate::movement::Movement;
use crate::value_text::scalar_text;

/// Bounds on the difference of values; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Part of the expected magnitude.
    pub relative: f64,
    /// Absolute part.
    pub absolute: f64,
    /// What rounding alone does to the element, in the same units; for integers too.
    pub movement: f64,
}

impl Tolerance {
    /// What correct compilers may differ by: the rounding of a long computation in the type.
    pub fn default_for(element_type: ElementType) -> Self {
        let relative = match element_type.class() {
            ElementClass::Predicate | ElementClass::Signed | ElementClass::Unsigned => 0.0,
            ElementClass::Float | ElementClass::Complex => match element_type.real_part() {
                ElementType::F64 => 1e-10,
                ElementType::F32 => 1e-4,
                ElementType::F16 => 5e-3,
                // XLA's own logits of a network are an rms of 1.2e-2 from those of the same program in f32.
                ElementType::BF16 => 3e-2,
                // One step of a type with one bit of mantissa, and of one with none.
                ElementType::F4E2M1FN => 0.5,
                ElementType::F8E8M0FNU => 1.0,
                _ => 0.25,
            },
        };
        Tolerance { relative, absolute: 0.0, movement: 0.0 }
    }

    /// The default with the given parts in place of its own.
    pub fn with(self, relative: Option<f64>, absolute: Option<f64>) -> Self {
        Tolerance { relative: relative.unwrap_or(self.relative), absolute: absolute.unwrap_or(self.absolute), ..self }
    }

    /// The tolerance for one element of an output, whose movement may be known.
    pub fn at(self, movement: Option<&Movement>, position: usize) -> Self {
        Tolerance { movement: movement.map_or(0.0, |movement| movement.of(position)), ..self }
    }
}

/// The element of an array that is furthest off.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstElement {
    /// Row-major position.
    pub position: usize,
    /// Type of the elements.
    pub element_type: ElementType,
    /// The value found.
    pub found: Scalar,
    /// The value expected.
    pub expected: Scalar,
}

/// Outcome of comparing one array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArrayComparison {
    /// Elements compared.
    pub compared: usize,
    /// Elements out of tolerance.
    pub wrong: usize,
    /// Elements that differ by more than the tolerance, but by no more than rounding moves them.
    pub moved: usize,
    /// Greatest |found - expected| relative to max(|expected|, rms), over finite elements.
    pub worst: f64,
    /// The element with that difference, unless all are equal.
    pub worst_element: Option<WorstElement>,
    /// A difference that concerns the array as a whole.
    pub mismatch: Option<String>,
    /// A difference of the array as a whole that is allowed, but that the user should know of.
    pub note: Option<String>,
}

impl ArrayComparison {
    /// A comparison that failed before any element.
    pub fn mismatch(message: impl Into<String>) -> Self {
        ArrayComparison { mismatch: Some(message.into()), ..ArrayComparison::default() }
    }

    /// Whether everything agrees.
    pub fn agrees(&self) -> bool {
        self.wrong == 0 && self.mismatch.is_none()
    }

    /// Compares one element; `magnitude` is the rms of the expected array.
    pub fn add(
        &mut self,
        position: usize,
        element_type: ElementType,
        [found, expected]: [Scalar; 2],
        magnitude: f64,
        tolerance: Tolerance,
    ) {
        let distance = distance(found, expected);
        let norm = expected.to_complex().norm();
        let scale = if norm.is_finite() { norm.max(magnitude) } else { magnitude };
        let relative = if distance == 0.0 { 0.0 } else { distance / scale.max(f64::MIN_POSITIVE) };
        let allowed = match expected {
            Scalar::Float(_) | Scalar::Complex(_) => tolerance.absolute + tolerance.relative * scale,
            Scalar::Predicate(_) | Scalar::Signed(_) | Scalar::Unsigned(_) => 0.0,
        };
        self.compared += 1;
        if distance > allowed + tolerance.movement {
            self.wrong += 1;
        } else if distance > allowed {
            self.moved += 1;
        }
        if relative > self.worst {
            self.worst = relative;
            self.worst_element = Some(WorstElement { position, element_type, found, expected });
        }
    }
}

/// 0 for equal values, NaN and NaN included; infinite where only one is finite.
pub fn distance(found: Scalar, expected: Scalar) -> f64 {
    let part = |found: f64, expected: f64| {
        if found == expected || found.is_nan() && expected.is_nan() {
            0.0
        } else if found.is_finite() && expected.is_finite() {
            (found - expected).abs()
        } else {
            f64::INFINITY
        }
    };
    match (found, expected) {
        (Scalar::Signed(found), Scalar::Signed(expected)) => found.abs_diff(expected) as f64,
        (Scalar::Unsigned(found), Scalar::Unsigned(expected)) => found.abs_diff(expected) as f64,
        _ => {
            let (found, expected) = (found.to_complex(), expected.to_complex());
            part(found.re, expected.re).hypot(part(found.im, expected.im))
        }
    }
}

/// Root of the mean squared magnitude of the finite elements; 0 when there are none.
pub fn root_mean_square(values: impl Iterator<Item = Scalar>) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for norm in values.map(|value| value.to_complex().norm_sqr()).filter(|norm| norm.is_finite()) {
        sum += norm;
        count += 1;
    }
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}

/// Mean of the elements, real parts of complex ones; 0 when there are none.
pub fn mean(array: &ArrayLiteral) -> f64 {
    let sum: f64 = elements(array).map(Scalar::to_float).sum();
    sum / (array.shape().element_count() as f64).max(1.0)
}

/// The elements of an array in row-major order.
pub fn elements(array: &ArrayLiteral) -> impl Iterator<Item = Scalar> + '_ {
    let element_type = array.element_type();
    let count = array.bytes().len() / element_type.byte_width();
    (0..count).map(move |index| scalar::load(element_type, array.bytes(), index))
}

/// Compares an array with the expected one, element by element.
pub fn compare_arrays(
    found: &ArrayLiteral,
    expected: &ArrayLiteral,
    tolerance: Tolerance,
    movement: Option<&Movement>,
) -> ArrayComparison {
    let shapes_agree =
        found.element_type() == expected.element_type() && found.shape().dimensions == expected.shape().dimensions;
    if !shapes_agree {
        return ArrayComparison::mismatch(format!("expected an array of {}, got {}", expected.shape(), found.shape()));
    }
    let mut comparison = ArrayComparison::default();
    // Equal bytes agree whatever they mean; most integer outputs end here.
    if found.bytes() == expected.bytes() {
        comparison.compared = found.shape().element_count() as usize;
        return comparison;
    }
    let magnitude = root_mean_square(elements(expected));
    let expected_type = expected.element_type();
    let pairs = elements(found).zip(elements(expected));
    for (position, (found_element, expected_element)) in pairs.enumerate() {
        let tolerance = tolerance.at(movement, position);
        comparison.add(position, expected_type, [found_element, expected_element], magnitude, tolerance);
    }
    comparison
}

/// Compares any value with the expected one; `tolerance` gives the bounds for an element type.
pub fn compare_literals(
    found: &Literal,
    expected: &Literal,
    tolerance: impl Fn(ElementType) -> Tolerance,
) -> ArrayComparison {
    let (found_leaves, expected_leaves) = (found.leaves(), expected.leaves());
    if !found.shape().compatible(&expected.shape()) {
        return ArrayComparison::mismatch(format!(
            "expected a value of shape {}, got {}",
            expected.shape(),
            found.shape()
        ));
    }
    let mut total = ArrayComparison::default();
    for (found, expected) in found_leaves.into_iter().zip(expected_leaves) {
        if let (Some(found), Some(expected)) = (found.as_array(), expected.as_array()) {
            let comparison = compare_arrays(found, expected, tolerance(expected.element_type()), None);
            let earlier = total.worst;
            total = ArrayComparison {
                compared: total.compared + comparison.compared,
                wrong: total.wrong + comparison.wrong,
                moved: total.moved + comparison.moved,
                worst: earlier.max(comparison.worst),
                worst_element: if comparison.worst > earlier { comparison.worst_element } else { total.worst_element },
                mismatch: total.mismatch.or(comparison.mismatch),
                note: total.note.or(comparison.note),
            };
        }
    }
    total
}

impl fmt::Display for ArrayComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mismatch) = &self.mismatch {
            return f.write_str(mismatch);
        }
        write!(f, "{} of {} elements differ", self.wrong, self.compared)?;
        if let Some(WorstElement { position, element_type, found, expected }) = &self.worst_element {
            let text = |value: &Scalar| scalar_text(*element_type, *value);
            write!(f, "; worst at {position}: expected {}, got {}", text(expected), text(found))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(found: &[f32], expected: &[f32]) -> ArrayComparison {
        let array = |values: &[f32]| ArrayLiteral::from_slice([values.len() as i64], values).unwrap();
        compare_arrays(&array(found), &array(expected), Tolerance::default_for(ElementType::F32), None)
    }

    #[test]
    fn small_elements_are_measured_against_the_rms() {
        assert!(compare(&[1e-6, 1.0], &[0.0, 1.0]).agrees());
        let comparison = compare(&[1e-3, 1.0], &[0.0, 1.0]);
        assert_eq!((comparison.wrong, comparison.compared), (1, 2));
        assert!((comparison.worst - 1e-3 * 2f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn values_that_are_not_finite_agree_with_their_own_kind_only() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        assert!(compare(&[nan, infinity, 1.0], &[nan, infinity, 1.0]).agrees());
        assert_eq!(compare(&[nan, -infinity, nan], &[1.0, infinity, infinity]).wrong, 3);
        assert_eq!(compare(&[0.0], &[nan]).wrong, 1);
    }

    #[test]
    fn integers_must_be_equal() {
        let array = |values: &[i64]| ArrayLiteral::from_slice([2], values).unwrap();
        let loose = Tolerance { relative: 1.0, absolute: 9.0, ..Tolerance::default() };
        assert_eq!(compare_arrays(&array(&[1, 2]), &array(&[1, 3]), loose, None).wrong, 1);
    }

    #[test]
    fn other_shapes_do_not_agree() {
        assert!(!compare(&[1.0], &[1.0, 1.0]).agrees());
    }
}
