//! Comparing results by the table of tolerances.

use hlo::literal::ArrayLiteral;
use hlo::scalar::Scalar;

use super::tolerance::{self, Measure};
use crate::compare::elements;
use crate::value_text::scalar_text;

/// What differs, or nothing. With `flushed`, an expected zero may stand for any denormal value.
pub(super) fn difference(
    found: &ArrayLiteral,
    expected: &ArrayLiteral,
    measure: Measure,
    flushed: bool,
) -> Option<String> {
    let (found_shape, expected_shape) = (found.shape(), expected.shape());
    let same_shape =
        found_shape.element_type == expected_shape.element_type && found_shape.dimensions == expected_shape.dimensions;
    if !same_shape {
        return Some(format!("expected {expected_shape}, got {found_shape}"));
    }
    if found.bytes() == expected.bytes() {
        return None;
    }
    let element_type = expected.element_type();
    let finite = |value: Scalar| Some(value.to_complex().norm()).filter(|norm| norm.is_finite());
    let largest = elements(expected).filter_map(finite).fold(0.0, f64::max);
    let step = tolerance::step(element_type);
    let smallest = tolerance::smallest_normal(element_type);
    let (mut wrong, mut first, mut count) = (0usize, None, 0usize);
    let mut worst = 0.0f64;
    for (position, (found, expected)) in elements(found).zip(elements(expected)).enumerate() {
        count += 1;
        let norm = finite(expected).unwrap_or(0.0);
        let allowed = match measure {
            Measure::Exact => 0.0,
            Measure::Element(steps) => steps * step * norm.max(smallest),
            Measure::Array(steps) => steps * step * largest.max(smallest),
        };
        let rule = PartRule {
            allowed,
            flushed: if flushed { smallest } else { 0.0 },
            signs: !matches!(measure, Measure::Array(_)) && !element_type.is_complex(),
        };
        let (agrees, distance) = agrees(found, expected, rule);
        worst = worst.max(distance / (step * norm.max(smallest)));
        if !agrees {
            wrong += 1;
            first.get_or_insert((position, found, expected));
        }
    }
    let (position, found, expected) = first?;
    let text = |value| scalar_text(element_type, value);
    Some(format!(
        "{wrong} of {count} elements differ, by up to {worst:.1} steps; first at {position}: expected {}, got {}",
        text(expected),
        text(found)
    ))
}

/// What one real number may differ by.
#[derive(Clone, Copy)]
struct PartRule {
    allowed: f64,
    /// Magnitudes below this may be expected as zero.
    flushed: f64,
    /// Whether zeros have signs. Those of complex numbers have none: XLA:CPU loses them in functions.
    signs: bool,
}

/// Whether two values agree, and how far they are apart.
fn agrees(found: Scalar, expected: Scalar, rule: PartRule) -> (bool, f64) {
    match (found, expected) {
        (Scalar::Float(found), Scalar::Float(expected)) => part_agrees(found, expected, rule),
        (Scalar::Complex(found), Scalar::Complex(expected)) => {
            let re = part_agrees(found.re, expected.re, rule);
            let im = part_agrees(found.im, expected.im, rule);
            (re.0 && im.0, re.1.max(im.1))
        }
        _ => (found == expected, if found == expected { 0.0 } else { f64::INFINITY }),
    }
}

fn part_agrees(found: f64, expected: f64, rule: PartRule) -> (bool, f64) {
    if found.is_nan() || expected.is_nan() {
        let both = found.is_nan() && expected.is_nan();
        return (both, if both { 0.0 } else { f64::INFINITY });
    }
    let same_sign = !rule.signs || found.is_sign_negative() == expected.is_sign_negative();
    if expected == 0.0 && found.abs() < rule.flushed {
        return (same_sign, 0.0);
    }
    if found == expected {
        return (found != 0.0 || same_sign, 0.0);
    }
    let distance = (found - expected).abs();
    (distance <= rule.allowed, distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(found: &[f32], expected: &[f32], measure: Measure, flushed: bool) -> bool {
        let array = |values: &[f32]| ArrayLiteral::from_slice([values.len() as i64], values).unwrap();
        difference(&array(found), &array(expected), measure, flushed).is_some()
    }

    #[test]
    fn steps_are_of_each_element_or_of_the_largest() {
        let next = f32::from_bits(1f32.to_bits() + 1);
        assert!(differs(&[next], &[1.0], Measure::Exact, false));
        assert!(!differs(&[next], &[1.0], Measure::Element(1.0), false));
        assert!(differs(&[1e-6, 1000.0], &[0.0, 1000.0], Measure::Element(9.0), false));
        assert!(!differs(&[1e-6, 1000.0], &[0.0, 1000.0], Measure::Array(9.0), false));
    }

    #[test]
    fn zeros_have_signs_and_stand_for_denormals_where_those_are_flushed() {
        assert!(differs(&[-0.0], &[0.0], Measure::Exact, false));
        assert!(differs(&[1e-40], &[0.0], Measure::Exact, false));
        assert!(!differs(&[1e-40], &[0.0], Measure::Exact, true));
        assert!(differs(&[-1e-40], &[0.0], Measure::Exact, true));
    }

    #[test]
    fn nan_agrees_with_nan_only() {
        let nan = f32::NAN;
        assert!(!differs(&[nan, -nan], &[-nan, nan], Measure::Exact, false));
        assert!(differs(&[nan], &[1.0], Measure::Array(1e9), true));
        assert!(differs(&[f32::INFINITY], &[f32::MAX], Measure::Array(1e9), true));
    }
}
