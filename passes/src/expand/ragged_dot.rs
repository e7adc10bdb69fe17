//! `ragged-dot`: a dot of every group with everything, of which the elements of the group are kept.
//!
//! Sizes of groups are counted from 0; what lies beyond the last group gives zeros.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::ragged_dot::{RaggedDotAttributes, RaggedMode, group_sizes_prefix, ragged_mode};
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let &[lhs, rhs, group_sizes] = operands else { return None };
    if let Some(shape) = instruction.shape.as_array().filter(|shape| !shape.element_type.has_zero()) {
        return widened(builder, instruction, shape, [lhs, rhs, group_sizes]);
    }
    let attributes: RaggedDotAttributes = instruction.attributes().ok()?;
    let ragged = attributes.lhs_ragged_dims.index();
    let result = instruction.shape.as_array()?;
    let result = ArrayShape::new(result.element_type, result.dimensions.clone());
    let (lhs_batch, rhs_batch) = (attributes.lhs_batch_dims, attributes.rhs_batch_dims);
    let (lhs_contracting, rhs_contracting) = (attributes.lhs_contracting_dims, attributes.rhs_contracting_dims);
    let numbers = DotAttributes {
        lhs_batch_dims: lhs_batch,
        lhs_contracting_dims: lhs_contracting,
        rhs_batch_dims: rhs_batch,
        rhs_contracting_dims: rhs_contracting,
        ..DotAttributes::new()
    };
    let sides = attributes.dot().dimensions();
    let mode = ragged_mode(&sides.lhs_batch, &sides.lhs_contracting, ragged);
    if mode == RaggedMode::Batch {
        return Some(builder.add(OpKind::Dot, result, &[lhs, rhs], numbers));
    }
    // The dimensions whose indices decide on the group, the ragged one last.
    let mut deciding = group_sizes_prefix(&sides.lhs_batch, &sides.lhs_contracting, ragged);
    deciding.push(ragged);
    let lhs_sizes = builder.dimensions(lhs);
    let extents: Vec<i64> = deciding.iter().map(|&d| lhs_sizes[d]).collect();
    let in_group = membership(builder, group_sizes, &extents)?;
    let groups = builder.dimensions(in_group)[0];
    if mode == RaggedMode::Contracting {
        // Each group has its own result: the group is a batch dimension, elements of other groups are zero.
        let partner = |d: usize| {
            let pairs = lhs_batch.iter().zip(rhs_batch).chain(lhs_contracting.iter().zip(rhs_contracting));
            pairs.into_iter().find(|(lhs, _)| **lhs == d as i64).map(|(_, &rhs)| rhs)
        };
        let rhs_deciding: Vec<i64> = deciding.iter().map(|&d| partner(d)).collect::<Option<_>>()?;
        let lhs_deciding: Vec<i64> = deciding.iter().map(|&d| d as i64).collect();
        let lhs = masked(builder, lhs, in_group, groups, &lhs_deciding);
        let rhs = masked(builder, rhs, in_group, groups, &rhs_deciding);
        let after = |dimensions: &[i64]| -> Vec<i64> { dimensions.iter().map(|d| d + 1).collect() };
        let with_group = |dimensions: &[i64]| -> Vec<i64> { [0].into_iter().chain(after(dimensions)).collect() };
        let numbers = DotAttributes {
            lhs_batch_dims: &with_group(lhs_batch),
            lhs_contracting_dims: &after(lhs_contracting),
            rhs_batch_dims: &with_group(rhs_batch),
            rhs_contracting_dims: &after(rhs_contracting),
            ..DotAttributes::new()
        };
        return Some(builder.add(OpKind::Dot, result, &[lhs, rhs], numbers));
    }
    // Each group has its own right matrix: its number is a free dimension of the right operand, of whose results
    // each element keeps that of its own group. The dimensions that decide come first in the result.
    let &[group_dim] = attributes.rhs_group_dims else { return None };
    let rhs_rank = builder.dimensions(rhs).len() as i64;
    let is_free = |d: i64| !rhs_batch.contains(&d) && !rhs_contracting.contains(&d);
    let rhs_free: Vec<i64> = (0..rhs_rank).filter(|&d| is_free(d)).collect();
    let rhs_first = result.rank() as i64 - (rhs_free.len() as i64 - 1);
    let group_place = rhs_first + rhs_free.iter().position(|&d| d == group_dim)? as i64;
    let mut all = result.clone();
    all.dimensions.insert(group_place as usize, groups);
    let products = builder.add(OpKind::Dot, all.clone(), &[lhs, rhs], numbers);
    let places: Vec<i64> = [group_place].into_iter().chain(0..deciding.len() as i64).collect();
    let in_group = builder.broadcast_in_dim(in_group, &all.dimensions, &places);
    let zero = builder.filled(&all, ConstantNumber::Integer(0));
    let kept = builder.select(in_group, products, zero);
    let is_predicate = result.element_type == ElementType::Pred;
    let sum = if is_predicate { OpKind::Or } else { OpKind::Add };
    Some(builder.reduce(kept, ConstantNumber::Integer(0), &[group_place], sum))
}

/// In f32, where the result's type has no zero for what other groups have.
fn widened(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    shape: &ArrayShape,
    [lhs, rhs, group_sizes]: [InstructionId; 3],
) -> Option<InstructionId> {
    let wide = Instruction { shape: shape.with_element_type(ElementType::F32).into(), ..instruction.clone() };
    let operands = [builder.convert(lhs, ElementType::F32), builder.convert(rhs, ElementType::F32), group_sizes];
    let result = expand(builder, &wide, &operands)?;
    Some(builder.convert(result, shape.element_type))
}

/// `pred[groups, extents…]`: whether an index, whose last part is that of the ragged dimension, is in a group.
/// The group sizes are given for every index before the ragged dimension, or once for all.
fn membership(builder: &mut GraphBuilder, group_sizes: InstructionId, extents: &[i64]) -> Option<InstructionId> {
    let (_, prefix) = extents.split_last()?;
    let shape = builder.dimensions(group_sizes);
    let groups = *shape.last()?;
    let sizes = builder.convert(group_sizes, ElementType::S64);
    let zero = builder.filled(&builder.array(sizes), ConstantNumber::Integer(0));
    let sizes = builder.binary(OpKind::Maximum, sizes, zero);
    // ends[…, i] = the sum of the sizes up to i
    let rank = shape.len();
    let square: Vec<i64> = shape.iter().copied().chain([groups]).collect();
    let (row, column) =
        (builder.iota(ElementType::S64, &square, rank - 1), builder.iota(ElementType::S64, &square, rank));
    let counts = builder.compare(ComparisonDirection::Le, column, row);
    let others: Vec<i64> = (0..rank as i64 - 1).chain([rank as i64]).collect();
    let copies = builder.broadcast(sizes, &square, &others);
    let nothing = builder.filled(&ArrayShape::new(ElementType::S64, square), ConstantNumber::Integer(0));
    let counted = builder.select(counts, copies, nothing);
    let ends = builder.reduce(counted, ConstantNumber::Integer(0), &[rank as i64], OpKind::Add);
    let starts = builder.binary(OpKind::Subtract, ends, sizes);
    let all: Vec<i64> = [groups].into_iter().chain(extents.iter().copied()).collect();
    let position = builder.iota(ElementType::S64, &all, extents.len());
    let places: Vec<i64> = match rank {
        1 => vec![0],
        _ => (1..=prefix.len() as i64).chain([0]).collect(),
    };
    let (starts, ends) =
        (builder.broadcast_in_dim(starts, &all, &places), builder.broadcast_in_dim(ends, &all, &places));
    let is_after = builder.compare(ComparisonDirection::Ge, position, starts);
    let is_before = builder.compare(ComparisonDirection::Lt, position, ends);
    Some(builder.binary(OpKind::And, is_after, is_before))
}

/// A copy of the operand for each group, with zeros where an index of `dimensions` is in another one.
fn masked(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    in_group: InstructionId,
    groups: i64,
    dimensions: &[i64],
) -> InstructionId {
    // Every number of the type without zero is one of bf16, which has it.
    let operand = match builder.element_type(operand).has_zero() {
        true => operand,
        false => builder.convert(operand, ElementType::BF16),
    };
    let mut shape = builder.array(operand);
    let kept: Vec<i64> = (1..=shape.rank() as i64).collect();
    shape.dimensions.insert(0, groups);
    let copies = builder.broadcast(operand, &shape.dimensions, &kept);
    let places: Vec<i64> = [0].into_iter().chain(dimensions.iter().map(|d| d + 1)).collect();
    let in_group = builder.broadcast_in_dim(in_group, &shape.dimensions, &places);
    let zero = builder.filled(&shape, ConstantNumber::Integer(0));
    builder.select(in_group, copies, zero)
}
