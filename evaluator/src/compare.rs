//! Comparison, selection and clamping.

use std::cmp::Ordering;

use super::EvalFailure;
use super::binary::{maximum, minimum};
use super::data::{build, view, with_width};
use super::element_loops::zip;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::{ComparisonDirection, ComparisonType};
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// Whether a relation holds between values of this order; `None` for values without one.
fn holds(direction: ComparisonDirection, ordering: Option<Ordering>) -> bool {
    match direction {
        ComparisonDirection::Eq => ordering == Some(Ordering::Equal),
        ComparisonDirection::Ne => ordering != Some(Ordering::Equal),
        ComparisonDirection::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        ComparisonDirection::Gt => ordering == Some(Ordering::Greater),
        ComparisonDirection::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        ComparisonDirection::Lt => ordering == Some(Ordering::Less),
    }
}

/// A relation and whether floats are compared in the total order
/// -NaN < -Inf < -Finite < -0 < +0 < +Finite < +Inf < +NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    direction: ComparisonDirection,
    total_order: bool,
}

impl Comparison {
    /// Less than, in the total order.
    pub(super) const TOTAL_LESS: Comparison = Comparison { direction: ComparisonDirection::Lt, total_order: true };

    /// The comparison that an instruction's `direction` and `type` describe.
    pub(super) fn of(attributes: CompareAttributes) -> Comparison {
        let total_order = attributes.r#type == Some(ComparisonType::TotalOrder);
        Comparison { direction: attributes.direction, total_order }
    }

    /// Whether the relation holds.
    #[inline]
    pub(super) fn compare(self, lhs: Scalar, rhs: Scalar) -> bool {
        let ordering = match (lhs, rhs) {
            (Scalar::Predicate(a), Scalar::Predicate(b)) => a.partial_cmp(&b),
            (Scalar::Signed(a), Scalar::Signed(b)) => a.partial_cmp(&b),
            (Scalar::Unsigned(a), Scalar::Unsigned(b)) => a.partial_cmp(&b),
            (Scalar::Float(a), Scalar::Float(b)) if self.total_order => Some(a.total_cmp(&b)),
            (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
            // Complex numbers can only be equal or not.
            (Scalar::Complex(a), Scalar::Complex(b)) => (a == b).then_some(Ordering::Equal),
            _ => None,
        };
        holds(self.direction, ordering)
    }

    /// Compares each pair of elements.
    pub(super) fn evaluate(
        self,
        lhs: &ArrayLiteral,
        rhs: &ArrayLiteral,
        result: &ArrayShape,
    ) -> Result<ArrayLiteral, EvalFailure> {
        macro_rules! native {
            ($t:ty) => {
                match self.direction {
                    ComparisonDirection::Eq => zip::<$t, u8>(lhs, rhs, result, |a, b| (a == b).into()),
                    ComparisonDirection::Ne => zip::<$t, u8>(lhs, rhs, result, |a, b| (a != b).into()),
                    ComparisonDirection::Ge => zip::<$t, u8>(lhs, rhs, result, |a, b| (a >= b).into()),
                    ComparisonDirection::Gt => zip::<$t, u8>(lhs, rhs, result, |a, b| (a > b).into()),
                    ComparisonDirection::Le => zip::<$t, u8>(lhs, rhs, result, |a, b| (a <= b).into()),
                    ComparisonDirection::Lt => zip::<$t, u8>(lhs, rhs, result, |a, b| (a < b).into()),
                }
            };
        }
        match lhs.element_type() {
            // In their own type: a conversion would make signalling NaN quiet.
            ElementType::F32 if self.total_order => {
                zip::<f32, u8>(lhs, rhs, result, |a, b| holds(self.direction, Some(a.total_cmp(&b))).into())
            }
            ElementType::F32 => native!(f32),
            ElementType::F64 if !self.total_order => native!(f64),
            ElementType::S32 => native!(i32),
            ElementType::U32 => native!(u32),
            ElementType::S64 => native!(i64),
            element_type => {
                let count = lhs.shape().element_count() as usize;
                build::<u8>(result, |target| {
                    for (index, target) in target.iter_mut().enumerate().take(count) {
                        let a = load(element_type, lhs.bytes(), index);
                        let b = load(element_type, rhs.bytes(), index);
                        *target = self.compare(a, b).into();
                    }
                    Ok(())
                })
            }
        }
    }
}

/// Takes each element from one of two arrays ("Select"), `predicate` having their shape.
pub(super) fn select(
    predicate: &ArrayLiteral,
    on_true: &ArrayLiteral,
    on_false: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let predicates = predicate.bytes();
    with_width!(result.element_type.byte_width(), T => {
        let (on_true, on_false) = (view::<T>(on_true), view::<T>(on_false));
        build::<T>(result, |target| {
            for ((target, predicate), (&yes, &no)) in
                target.iter_mut().zip(predicates).zip(on_true.iter().zip(on_false))
            {
                *target = if *predicate != 0 { yes } else { no };
            }
            Ok(())
        })
    })
}

/// min(max(x, low), high) of one element ("Clamp").
#[inline]
pub(super) fn clamp_scalar(low: Scalar, x: Scalar, high: Scalar) -> Scalar {
    match (low, x, high) {
        (Scalar::Signed(low), Scalar::Signed(x), Scalar::Signed(high)) => Scalar::Signed(x.max(low).min(high)),
        (Scalar::Unsigned(low), Scalar::Unsigned(x), Scalar::Unsigned(high)) => Scalar::Unsigned(x.max(low).min(high)),
        (Scalar::Float(low), Scalar::Float(x), Scalar::Float(high)) => Scalar::Float(minimum(maximum(x, low), high)),
        (Scalar::Predicate(low), Scalar::Predicate(x), Scalar::Predicate(high)) => Scalar::Predicate((x | low) & high),
        _ => x,
    }
}

/// Clamps each element; the bounds are scalars or of the operand's shape.
pub(super) fn clamp(
    low: &ArrayLiteral,
    operand: &ArrayLiteral,
    high: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let element_type = operand.element_type();
    let count = operand.shape().element_count() as usize;
    let bound = |array: &ArrayLiteral, index: usize| {
        load(element_type, array.bytes(), if array.shape().rank() == 0 { 0 } else { index })
    };
    build::<u8>(result, |target| {
        for index in 0..count {
            let x = load(element_type, operand.bytes(), index);
            store(element_type, target, index, clamp_scalar(bound(low, index), x, bound(high, index)));
        }
        Ok(())
    })
}
