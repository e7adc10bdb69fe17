//! `ragged-dot`: a dot whose left operand is cut into groups along one dimension, of run-time sizes.

use std::borrow::Cow;

use super::EvalFailure;
use super::convert::convert;
use super::data::{build, for_each_index, row_major_strides, sizes};
use super::dot::dot;
use super::movement::read_strided;
use super::strided::Side;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::ops::dot::DotDimensions;
use hlo::ops::ragged_dot::{RaggedDotAttributes, RaggedMode, group_sizes_prefix, ragged_mode};
use hlo::scalar::load;
use hlo::shape::ArrayShape;

/// One index of a dimension, which disappears.
fn without(operand: &ArrayLiteral, along: usize, index: i64) -> Result<ArrayLiteral, EvalFailure> {
    let mut from = Side::dense(&sizes(&operand.shape().dimensions));
    from.base = from.strides.remove(along) * index as isize;
    let mut dimensions = operand.shape().dimensions.clone();
    dimensions.remove(along);
    read_strided(operand, &from, &ArrayShape::new(operand.element_type(), dimensions))
}

/// Dimension numbers after dimension `removed` has gone.
fn renumbered(numbers: &[usize], removed: usize) -> Vec<usize> {
    numbers.iter().map(|&d| if d > removed { d - 1 } else { d }).collect()
}

/// The group of every index along some dimensions, the last of which is the ragged one.
struct Groups {
    strides: Vec<usize>,
    /// Row-major; none beyond the last group.
    groups: Vec<Option<usize>>,
}

impl Groups {
    /// `group_sizes` has the dimensions before the ragged one first, or only the groups, which then are the same
    /// everywhere. `extents` are the sizes of the dimensions.
    fn new(group_sizes: &ArrayLiteral, extents: &[usize]) -> Groups {
        let count = group_sizes.shape().dimensions.last().map_or(0, |&count| count as usize);
        let Some((&length, outer)) = extents.split_last() else {
            return Groups { strides: Vec::new(), groups: Vec::new() };
        };
        let rows: usize = outer.iter().product();
        let is_shared = group_sizes.shape().rank() == 1;
        let mut groups = Vec::with_capacity(rows * length);
        for row in 0..rows {
            let end = groups.len() + length;
            for group in 0..count {
                let position = if is_shared { group } else { row * count + group };
                let size = load(group_sizes.element_type(), group_sizes.bytes(), position).to_index();
                let size = size.clamp(0, (end - groups.len()) as i64) as usize;
                groups.extend(std::iter::repeat_n(Some(group), size));
            }
            groups.resize(end, None);
        }
        Groups { strides: row_major_strides(extents), groups }
    }

    /// The operand, whose dimensions `dimensions` are those of the groups, with zeros outside of a group.
    fn part(&self, operand: &ArrayLiteral, dimensions: &[usize], group: usize) -> Result<ArrayLiteral, EvalFailure> {
        let width = operand.element_type().byte_width();
        build::<u8>(operand.shape(), |target| {
            let mut elements = target.chunks_exact_mut(width).zip(operand.bytes().chunks_exact(width));
            for_each_index(&sizes(&operand.shape().dimensions), |index| {
                let place: usize = dimensions.iter().zip(&self.strides).map(|(&d, stride)| index[d] * stride).sum();
                if let (Some((to, from)), true) = (elements.next(), self.groups[place] == Some(group)) {
                    to.copy_from_slice(from);
                }
                Ok(())
            })
        })
    }
}

/// The same numbers in a type that has a zero.
fn with_zero(operand: &ArrayLiteral) -> Result<Cow<'_, ArrayLiteral>, EvalFailure> {
    if operand.element_type().has_zero() {
        return Ok(Cow::Borrowed(operand));
    }
    convert(operand, &operand.shape().with_element_type(ElementType::F32)).map(Cow::Owned)
}

/// Operands: left, right, group sizes.
pub(super) fn ragged_dot(
    [lhs, rhs, group_sizes]: [&ArrayLiteral; 3],
    attributes: &RaggedDotAttributes<'_>,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let numbers = attributes.dot().dimensions();
    let ragged = attributes.lhs_ragged_dims.index();
    if ragged >= lhs.shape().rank() {
        return Err(EvalFailure::malformed("the ragged dimension does not exist"));
    }
    let mode = ragged_mode(&numbers.lhs_batch, &numbers.lhs_contracting, ragged);
    if mode == RaggedMode::Batch {
        return dot(lhs, rhs, &numbers, result);
    }
    let mut dimensions = group_sizes_prefix(&numbers.lhs_batch, &numbers.lhs_contracting, ragged);
    dimensions.push(ragged);
    let extents: Vec<usize> = dimensions.iter().map(|&d| lhs.shape().dimensions[d] as usize).collect();
    let groups = Groups::new(group_sizes, &extents);
    let count = group_sizes.shape().dimensions.last().map_or(0, |&count| count as usize);
    let width = result.element_type.byte_width();
    if mode == RaggedMode::Contracting {
        // Each group has its own result.
        let pairs = [(&numbers.lhs_batch, &numbers.rhs_batch), (&numbers.lhs_contracting, &numbers.rhs_contracting)];
        let rhs_of: Vec<(usize, usize)> =
            pairs.into_iter().flat_map(|(lhs, rhs)| lhs.iter().copied().zip(rhs.iter().copied())).collect();
        let rhs_dimensions = dimensions.iter().map(|d| rhs_of.iter().find(|pair| pair.0 == *d).map(|pair| pair.1));
        let rhs_dimensions: Option<Vec<usize>> = rhs_dimensions.collect();
        let rhs_dimensions = rhs_dimensions.ok_or_else(|| EvalFailure::malformed("a dimension without a partner"))?;
        let shape = ArrayShape::new(result.element_type, result.dimensions.get(1..).unwrap_or(&[]));
        let (lhs, rhs) = (&with_zero(lhs)?, &with_zero(rhs)?);
        return build::<u8>(result, |target| {
            let parts = target.chunks_exact_mut(shape.byte_size().max(1));
            for (group, part) in (0..count).zip(parts) {
                let (lhs, rhs) = (groups.part(lhs, &dimensions, group)?, groups.part(rhs, &rhs_dimensions, group)?);
                part.copy_from_slice(dot(&lhs, &rhs, &numbers, &shape)?.bytes());
            }
            Ok(())
        });
    }
    // Each group has its own right matrix. The dimensions of the groups come first in the result.
    let &[group_dim] = &sizes(attributes.rhs_group_dims)[..] else {
        return Err(EvalFailure::malformed("the group dimension is missing"));
    };
    let numbers = DotDimensions {
        rhs_batch: renumbered(&numbers.rhs_batch, group_dim),
        rhs_contracting: renumbered(&numbers.rhs_contracting, group_dim),
        ..numbers
    };
    let row = result.dimensions[dimensions.len()..].iter().product::<i64>() as usize * width;
    build::<u8>(result, |target| {
        for group in 0..count {
            if row == 0 || !groups.groups.contains(&Some(group)) {
                continue;
            }
            let product = dot(lhs, &without(rhs, group_dim, group as i64)?, &numbers, result)?;
            let rows = target.chunks_exact_mut(row).zip(product.bytes().chunks_exact(row));
            for ((to, from), own) in rows.zip(&groups.groups) {
                if *own == Some(group) {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(())
    })
}
