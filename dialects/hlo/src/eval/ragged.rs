//! `ragged-dot`: a dot whose left operand is cut into groups along one dimension, of run-time sizes.

use super::Failure;
use super::data::{build, sizes, view};
use super::dot::dot;
use super::movement::{read_strided, slice};
use super::scalar::load;
use super::strided::{self, Side};
use crate::attributes::{AttributeValue, Attributes, SliceDimension};
use crate::literal::ArrayLiteral;
use crate::shape::ArrayShape;

/// Part of an array along one dimension.
fn part(operand: &ArrayLiteral, along: usize, start: i64, size: i64) -> Result<ArrayLiteral, Failure> {
    let slices: Vec<SliceDimension> = operand
        .shape()
        .dimensions
        .iter()
        .enumerate()
        .map(|(d, &limit)| match d == along {
            true => SliceDimension { start, limit: start + size, stride: 1 },
            false => SliceDimension { start: 0, limit, stride: 1 },
        })
        .collect();
    let mut shape = ArrayShape::new(operand.element_type(), operand.shape().dimensions.clone());
    shape.dimensions[along] = size;
    slice(operand, &slices, &shape)
}

/// One index of a dimension, which disappears.
fn without(operand: &ArrayLiteral, along: usize, index: i64) -> Result<ArrayLiteral, Failure> {
    let mut from = Side::dense(&sizes(&operand.shape().dimensions));
    from.base = from.strides.remove(along) * index as isize;
    let mut dimensions = operand.shape().dimensions.clone();
    dimensions.remove(along);
    read_strided(operand, &from, &ArrayShape::new(operand.element_type(), dimensions))
}

/// Dimension numbers after dimension `removed` has gone.
fn renumbered(numbers: &[i64], removed: i64) -> Vec<i64> {
    numbers.iter().map(|&d| if d > removed { d - 1 } else { d }).collect()
}

/// Where the groups lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A free dimension of the left operand: each group has its own right matrix.
    Free,
    /// A contracted dimension: each group has its own result.
    Contracted,
    /// A batch dimension: the groups change nothing.
    Batch,
}

/// Operands: left, right, group sizes (rank 1).
pub(super) fn ragged_dot(
    lhs: &ArrayLiteral,
    rhs: &ArrayLiteral,
    group_sizes: &ArrayLiteral,
    attributes: &Attributes,
    result: &ArrayShape,
) -> Result<ArrayLiteral, Failure> {
    let ragged = attributes.ints("lhs_ragged_dims").first().copied().unwrap_or(-1);
    let along = usize::try_from(ragged).ok().filter(|&d| d < lhs.shape().rank());
    let along = along.ok_or_else(|| Failure::malformed("the ragged dimension does not exist"))?;
    let contracting = attributes.ints("lhs_contracting_dims");
    let batch = attributes.ints("lhs_batch_dims");
    let mode = match () {
        () if contracting.contains(&ragged) => Mode::Contracted,
        () if batch.contains(&ragged) => Mode::Batch,
        () => Mode::Free,
    };
    if mode == Mode::Batch {
        return dot(lhs, rhs, attributes, result);
    }
    if group_sizes.shape().rank() != 1 {
        return Err(Failure::Unsupported("ragged-dot with group sizes by batch".into()));
    }
    let count = group_sizes.shape().element_count() as usize;
    let length = lhs.shape().dimensions[along];
    let width = result.element_type.byte_width();
    let result_sizes = sizes(&result.dimensions);
    let to = Side::dense(&result_sizes);
    build::<u8>(result, |target| {
        let mut start = 0i64;
        for group in 0..count {
            let size = load(group_sizes.element_type(), group_sizes.bytes(), group).to_index();
            let size = size.clamp(0, length - start);
            let lhs_part = part(lhs, along, start, size)?;
            let mut numbers = attributes.clone();
            let (rhs_part, place, shape) = match mode {
                Mode::Contracted => {
                    let position = contracting.iter().position(|&d| d == ragged).unwrap_or(0);
                    let rhs_along = attributes.ints("rhs_contracting_dims").get(position).copied().unwrap_or(0);
                    let mut shape = ArrayShape::new(result.element_type, result.dimensions.clone());
                    shape.dimensions.remove(0);
                    (part(rhs, rhs_along as usize, start, size)?, to.strides[0] * group as isize, shape)
                }
                _ => {
                    let group_dim = attributes.ints("rhs_group_dims").first().copied().unwrap_or(0);
                    for name in ["rhs_batch_dims", "rhs_contracting_dims"] {
                        numbers.set(name, AttributeValue::Ints(renumbered(attributes.ints(name), group_dim)));
                    }
                    // The ragged dimension's place in the result: after the batch, among the free ones.
                    let free_before = (0..ragged).filter(|d| !batch.contains(d) && !contracting.contains(d)).count();
                    let place = batch.len() + free_before;
                    let mut shape = ArrayShape::new(result.element_type, result.dimensions.clone());
                    *shape.dimensions.get_mut(place).ok_or_else(|| Failure::malformed("the result's rank"))? = size;
                    (without(rhs, group_dim as usize, group as i64)?, to.strides[place] * start as isize, shape)
                }
            };
            let product = dot(&lhs_part, &rhs_part, &numbers, &shape)?;
            let box_sizes = sizes(&shape.dimensions);
            let side = Side {
                base: place,
                strides: if mode == Mode::Contracted { to.strides[1..].to_vec() } else { to.strides.clone() },
            };
            strided::copy(width, &box_sizes, view::<u8>(&product), &Side::dense(&box_sizes), target, &side);
            start += size;
        }
        Ok(())
    })
}
