//! Broadcasting of the operands of elementwise operations, as the broadcasting page has it and no further.
//!
//! - A scalar goes with any array.
//! - Arrays of different rank need `broadcast_dimensions`: `broadcast_dimensions[i]` is the dimension of the operand of
//!   higher rank that dimension i of the other one matches; the numbers increase strictly.
//! - Where dimensions that match differ in size, one of them is 1 ("degenerate") and is repeated.
//!
//! Both may be needed at once. Everything else is an error that names both shapes.

use super::{Draft, HloBuilder, Op};
use crate::op_kind::OpKind;
use crate::ops::broadcast::BroadcastAttributes;
use crate::shape::{ArrayShape, Shape};

/// Why two shapes do not broadcast to one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{lhs} and {rhs} do not broadcast: {reason}")]
pub struct BroadcastError {
    /// The left operand's shape.
    pub lhs: Shape,
    /// The right operand's shape.
    pub rhs: Shape,
    /// The rule, what was expected and what was found.
    pub reason: String,
}

/// How two operands become arrays of the same dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broadcasting {
    /// Dimensions of the result.
    pub dimensions: Vec<i64>,
    /// The dimension of the result that each dimension of the left operand matches.
    pub lhs: Vec<i64>,
    /// The dimension of the result that each dimension of the right operand matches.
    pub rhs: Vec<i64>,
}

/// How operands of these shapes broadcast.
///
/// # Errors
/// [`BroadcastError`] for what the page does not allow.
pub fn broadcast(
    lhs: &ArrayShape,
    rhs: &ArrayShape,
    broadcast_dimensions: &[i64],
) -> Result<Broadcasting, BroadcastError> {
    let failed = |reason: String| BroadcastError {
        lhs: Shape::from(lhs.clone()).without_layout(),
        rhs: Shape::from(rhs.clone()).without_layout(),
        reason,
    };
    let lhs_is_higher = lhs.rank() >= rhs.rank();
    let (higher, lower) = if lhs_is_higher { (lhs, rhs) } else { (rhs, lhs) };
    let identity: Vec<i64> = (0..higher.rank() as i64).collect();
    let matches = if higher.rank() == lower.rank() {
        if !broadcast_dimensions.is_empty() && broadcast_dimensions != identity {
            return Err(failed(format!(
                "broadcast_dimensions of operands of the same rank must be empty or {identity:?}, got {broadcast_dimensions:?}"
            )));
        }
        identity.clone()
    } else {
        check_dimensions(higher, lower, broadcast_dimensions).map_err(failed)?;
        broadcast_dimensions.to_vec()
    };
    let mut dimensions = higher.dimensions.clone();
    for (source, &target) in matches.iter().enumerate() {
        let (size, other) = (higher.dimensions[target as usize], lower.dimensions[source]);
        dimensions[target as usize] = match (size, other) {
            (size, other) if size == other => size,
            (1, other) => other,
            (size, 1) => size,
            _ => {
                return Err(failed(format!(
                    "dimension {target} of size {size} matches dimension {source} of size {other}; sizes must be equal or one of them 1"
                )));
            }
        };
    }
    let (lhs, rhs) = if lhs_is_higher { (identity, matches) } else { (matches, identity) };
    Ok(Broadcasting { dimensions, lhs, rhs })
}

/// Checks the dimensions that an operand of lower rank matches.
fn check_dimensions(higher: &ArrayShape, lower: &ArrayShape, broadcast_dimensions: &[i64]) -> Result<(), String> {
    if broadcast_dimensions.len() != lower.rank() {
        return Err(format!(
            "broadcast_dimensions must name the dimension of {higher} for each of the {} dimensions of {lower}, got {broadcast_dimensions:?}",
            lower.rank()
        ));
    }
    if let Some(number) = broadcast_dimensions.iter().find(|&&number| number < 0 || number >= higher.rank() as i64) {
        return Err(format!("broadcast_dimensions must be in 0..{}, got {number}", higher.rank()));
    }
    if broadcast_dimensions.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(format!("broadcast_dimensions must increase strictly, got {broadcast_dimensions:?}"));
    }
    Ok(())
}

impl HloBuilder {
    /// Both operands with the dimensions they broadcast to; `None` where they do not, which is noted.
    #[track_caller]
    pub(super) fn broadcast_operands<'b>(
        &'b self,
        method: &'static str,
        lhs: Op<'b>,
        rhs: Op<'b>,
        broadcast_dimensions: &[i64],
    ) -> Option<[Op<'b>; 2]> {
        let (lhs_shape, rhs_shape) = (self.array_of(method, lhs)?, self.array_of(method, rhs)?);
        match broadcast(&lhs_shape, &rhs_shape, broadcast_dimensions) {
            Ok(common) => Some([
                self.expand(lhs, &lhs_shape, &common.dimensions, &common.lhs),
                self.expand(rhs, &rhs_shape, &common.dimensions, &common.rhs),
            ]),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Repeats an array along the dimensions it does not have, or has with size 1: its dimension i is `matches[i]` of
    /// the result.
    #[track_caller]
    pub(super) fn expand<'b>(
        &'b self,
        operand: Op<'b>,
        shape: &ArrayShape,
        dimensions: &[i64],
        matches: &[i64],
    ) -> Op<'b> {
        if shape.dimensions == dimensions {
            return operand;
        }
        let kept: Vec<usize> = (0..shape.rank())
            .filter(|&source| shape.dimensions[source] == dimensions[matches[source] as usize])
            .collect();
        let source = crate::ops::transpose::permuted(shape, &kept);
        let operand = if kept.len() < shape.rank() {
            self.push(Draft::new(OpKind::Reshape, &[operand]).declared(source.clone()))
        } else {
            operand
        };
        let targets: Vec<i64> = kept.iter().map(|&source| matches[source]).collect();
        let result = ArrayShape::new(shape.element_type, dimensions);
        self.push(
            Draft::new(OpKind::Broadcast, &[operand])
                .with_attributes(BroadcastAttributes { dimensions: &targets })
                .declared(result),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element_type::ElementType::F32;

    fn sizes(lhs: &[i64], rhs: &[i64], broadcast_dimensions: &[i64]) -> Result<Vec<i64>, String> {
        broadcast(&ArrayShape::new(F32, lhs), &ArrayShape::new(F32, rhs), broadcast_dimensions)
            .map(|common| common.dimensions)
            .map_err(|error| error.to_string())
    }

    // The page: "Broadcasting a lower-rank array onto a higher-rank array".
    #[test]
    fn scalars_go_with_anything() {
        assert_eq!(sizes(&[2, 3], &[], &[]), Ok(vec![2, 3]));
        assert_eq!(sizes(&[], &[2, 3], &[]), Ok(vec![2, 3]));
        assert_eq!(sizes(&[], &[], &[]), Ok(vec![]));
        assert_eq!(sizes(&[0, 3], &[], &[]), Ok(vec![0, 3]));
    }

    #[test]
    fn a_vector_needs_its_dimension() {
        let message = sizes(&[2, 3], &[3], &[]).unwrap_err();
        assert!(message.starts_with("f32[2,3] and f32[3] do not broadcast"), "{message}");
        assert_eq!(sizes(&[2, 3], &[3], &[1]), Ok(vec![2, 3]));
        assert_eq!(sizes(&[3], &[2, 3], &[1]), Ok(vec![2, 3]));
        assert!(sizes(&[2, 3], &[3], &[0]).unwrap_err().contains("dimension 0 of size 2"));
        assert_eq!(sizes(&[3, 3], &[3], &[0]), Ok(vec![3, 3]));
        assert_eq!(sizes(&[3, 3], &[3], &[1]), Ok(vec![3, 3]));
    }

    #[test]
    fn a_matrix_on_a_cuboid() {
        assert_eq!(sizes(&[2, 3, 4], &[3, 4], &[1, 2]), Ok(vec![2, 3, 4]));
    }

    // The page: "Formal definition", MxNxPxQ with T and TxV.
    #[test]
    fn dimensions_match_in_increasing_order() {
        let whole = [5, 6, 7, 8];
        for (dimension, size) in whole.iter().enumerate() {
            assert_eq!(sizes(&whole, &[*size], &[dimension as i64]), Ok(whole.to_vec()));
        }
        for pair in [[2, 3], [1, 2], [0, 3]] {
            let lower = pair.map(|dimension: i64| whole[dimension as usize]);
            assert_eq!(sizes(&whole, &lower, &pair), Ok(whole.to_vec()));
        }
        assert!(sizes(&whole, &[7, 6], &[2, 1]).unwrap_err().contains("increase strictly"));
        assert!(sizes(&whole, &[7, 7], &[2, 2]).unwrap_err().contains("increase strictly"));
        assert!(sizes(&whole, &[8], &[4]).unwrap_err().contains("0..4"));
        assert!(sizes(&whole, &[8], &[-1]).unwrap_err().contains("0..4"));
    }

    // The page: "Broadcasting similar-rank arrays with degenerate dimensions".
    #[test]
    fn degenerate_dimensions_are_repeated() {
        assert_eq!(sizes(&[2, 1], &[2, 3], &[]), Ok(vec![2, 3]));
        assert_eq!(sizes(&[1, 2, 5], &[7, 2, 5], &[]), Ok(vec![7, 2, 5]));
        assert_eq!(sizes(&[7, 2, 5], &[7, 1, 5], &[]), Ok(vec![7, 2, 5]));
        let message = sizes(&[7, 2, 5], &[7, 2, 6], &[]).unwrap_err();
        assert!(message.contains("f32[7,2,5]") && message.contains("f32[7,2,6]"), "{message}");
        assert_eq!(sizes(&[2, 1], &[1, 3], &[]), Ok(vec![2, 3]));
        assert_eq!(sizes(&[1, 2], &[0, 2], &[]), Ok(vec![0, 2]));
    }

    #[test]
    fn the_same_rank_takes_no_other_order() {
        assert_eq!(sizes(&[2, 3], &[2, 3], &[0, 1]), Ok(vec![2, 3]));
        assert!(sizes(&[3, 3], &[3, 3], &[1, 0]).unwrap_err().contains("same rank"));
    }

    // The page: "Broadcast composition".
    #[test]
    fn both_at_once() {
        assert_eq!(sizes(&[4], &[1, 2], &[0]), Ok(vec![4, 2]));
        assert_eq!(sizes(&[4, 3, 1], &[1, 2], &[1, 2]), Ok(vec![4, 3, 2]));
    }
}
