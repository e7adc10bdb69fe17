//! Collectives of several devices, in terms of exchanges of whole blocks, which the runtime has.
//!
//! What is left is `all-gather` and `all-to-all` along the first dimension, `collective-permute`, `collective-broadcast` and `ragged-all-to-all`. Operands are brought into that form before and
//! results out of it after; a reduction combines the blocks that were gathered, in the order of the group.

use hlo::attributes::{Attributes, ReplicaGroups};
use hlo::devices::{self, DeviceCount};
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::all_gather::AllGatherAttributes;
use hlo::ops::all_to_all::AllToAllAttributes;
use hlo::ops::dynamic_slice::DynamicSliceAttributes;
use hlo::ops::enumerations::{CollectiveMode, ComparisonDirection};
use hlo::ops::map::MapAttributes;
use hlo::ops::reduce_scatter::ReduceScatterAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::shape::{ArrayShape, Shape};

use super::collectives::started;
use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Bytes that an `all-reduce` gathers from which each device rather reduces a part, and the parts are gathered. Below,
/// to meet once is worth more than to compute less.
const LARGE: i64 = 1 << 18;

/// Replaces a collective among several devices; `None` where it has the form that the runtime knows.
pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    count: DeviceCount,
) -> Option<InstructionId> {
    match instruction.kind {
        OpKind::AllReduce | OpKind::AllReduceStart => {
            let combiner = instruction.computations.first()?;
            let reduced: Vec<InstructionId> = match Group::of(instruction, count)? {
                Some(group) => operands.iter().map(|&operand| group.reduced(builder, operand, combiner)).collect(),
                None => {
                    let groups = devices::groups(instruction, count).ok()??;
                    let of_any_size = |&operand| reduced_in_groups(builder, operand, combiner, &groups, count);
                    operands.iter().map(of_any_size).collect::<Option<_>>()?
                }
            };
            Some(as_result(builder, &instruction.shape, &reduced))
        }
        OpKind::AllGather => {
            let AllGatherAttributes { dimensions, .. } = instruction.attributes().ok()?;
            if dimensions.0 == 0 {
                return None;
            }
            let gathered = all_gather(builder, instruction, operands, count)?;
            Some(as_result(builder, &instruction.shape, &gathered))
        }
        OpKind::AllGatherStart => {
            let gathered = all_gather(builder, instruction, operands, count)?;
            let result = as_result(builder, instruction.shape.as_tuple()?.get(1)?, &gathered);
            started(builder, instruction, operands, result)
        }
        OpKind::AllToAll => {
            let group = Group::of(instruction, count)??;
            let AllToAllAttributes { dimensions, .. } = instruction.attributes().ok()?;
            match (dimensions, operands) {
                (None, operands) => {
                    let blocks: Vec<InstructionId> =
                        operands.iter().map(|&operand| with_first_dimension(builder, operand)).collect();
                    let all = builder.concatenate(&blocks, 0);
                    let received = group.exchange(builder, all);
                    let sizes = builder.dimensions(*operands.first()?);
                    let blocks: Vec<InstructionId> =
                        (0..group.size).map(|number| block(builder, received, number, &sizes)).collect();
                    Some(as_result(builder, &instruction.shape, &blocks))
                }
                (Some(Dimension(0)), _) => None,
                (Some(dimension), &[operand]) => {
                    let split = split(builder, operand, dimension.index(), group.size);
                    let received = group.exchange(builder, split);
                    let result = join(builder, received, dimension.index());
                    Some(as_result(builder, &instruction.shape, &[result]))
                }
                _ => None,
            }
        }
        OpKind::ReduceScatter => {
            let group = Group::of(instruction, count)??;
            let ReduceScatterAttributes { dimensions, .. } = instruction.attributes().ok()?;
            let combiner = instruction.computations.first()?;
            let results: Vec<InstructionId> = operands
                .iter()
                .map(|&operand| {
                    let split = split(builder, operand, dimensions.index(), group.size);
                    let received = group.exchange(builder, split);
                    combined(builder, received, combiner)
                })
                .collect();
            Some(as_result(builder, &instruction.shape, &results))
        }
        OpKind::CollectivePermuteStart => {
            let shape = instruction.shape.as_tuple()?.get(1)?;
            let result =
                builder.add(OpKind::CollectivePermute, shape.clone(), operands, instruction.attributes.clone());
            started(builder, instruction, operands, result)
        }
        _ => None,
    }
}

/// The groups of devices of a collective, all of one size.
struct Group {
    channel_id: Option<i64>,
    groups: ReplicaGroups,
    /// Members of each group.
    size: i64,
}

impl Group {
    /// `None` for groups of several sizes.
    fn of(instruction: &Instruction, count: DeviceCount) -> Option<Option<Self>> {
        let groups = devices::groups(instruction, count).ok()??;
        let size = groups.first()?.len();
        if groups.iter().any(|group| group.len() != size) {
            return Some(None);
        }
        let numbers = groups.iter().map(|group| group.iter().map(|&device| device as i64).collect()).collect();
        let channel_id = devices::channel(instruction).ok()?;
        Some(Some(Group { channel_id, groups: ReplicaGroups::Explicit(numbers), size: size as i64 }))
    }

    /// The operands of all members along a new first dimension.
    fn gather(&self, builder: &mut GraphBuilder, operand: InstructionId) -> InstructionId {
        let block = with_first_dimension(builder, operand);
        let mut shape = builder.array(block);
        shape.dimensions[0] = self.size;
        let attributes = AllGatherAttributes {
            channel_id: self.channel_id,
            replica_groups: Some(&self.groups),
            mode: Some(CollectiveMode::FlattenedId),
            ..AllGatherAttributes::new(Dimension(0))
        };
        builder.add(OpKind::AllGather, shape, &[block], attributes)
    }

    /// Of an array with a block for each member along its first dimension: the blocks that are for this one.
    fn exchange(&self, builder: &mut GraphBuilder, operand: InstructionId) -> InstructionId {
        let attributes = AllToAllAttributes {
            channel_id: self.channel_id,
            replica_groups: Some(&self.groups),
            mode: Some(CollectiveMode::FlattenedId),
            dimensions: Some(Dimension(0)),
            ..AllToAllAttributes::new()
        };
        let shape = builder.array(operand);
        builder.add(OpKind::AllToAll, shape, &[operand], attributes)
    }

    /// The operands of all members combined.
    fn reduced(&self, builder: &mut GraphBuilder, operand: InstructionId, combiner: &Computation) -> InstructionId {
        let shape = builder.array(operand);
        if (shape.byte_size() as i64).saturating_mul(self.size) < LARGE {
            let gathered = self.gather(builder, operand);
            return combined(builder, gathered, combiner);
        }
        let elements = shape.element_count();
        let part = (elements + self.size - 1) / self.size;
        let flat = builder.reshape(operand, &[elements]);
        let zero = builder.scalar(shape.element_type, ConstantNumber::Integer(0));
        let missing = part * self.size - elements;
        let padded = if missing == 0 { flat } else { builder.pad_high(flat, zero, 0, missing) };
        let parts = builder.reshape(padded, &[self.size, part]);
        let received = self.exchange(builder, parts);
        let own = combined(builder, received, combiner);
        let gathered = self.gather(builder, own);
        let whole = builder.reshape(gathered, &[part * self.size]);
        let whole = if missing == 0 { whole } else { builder.slice(whole, 0, 0, elements) };
        builder.reshape(whole, &shape.dimensions)
    }
}

/// `all-gather` along any dimension.
fn all_gather(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
    count: DeviceCount,
) -> Option<Vec<InstructionId>> {
    let group = Group::of(instruction, count)??;
    let AllGatherAttributes { dimensions, .. } = instruction.attributes().ok()?;
    let gathered = |&operand: &InstructionId| {
        let blocks = group.gather(builder, operand);
        join(builder, blocks, dimensions.index())
    };
    Some(operands.iter().map(gathered).collect())
}

/// An `all-reduce` among groups of several sizes: every device gets what all have, and combines that of its group.
fn reduced_in_groups(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    combiner: &Computation,
    groups: &[Vec<usize>],
    count: DeviceCount,
) -> Option<InstructionId> {
    let total = count.total() as usize;
    let largest = groups.iter().map(Vec::len).max()?;
    let mut sizes = vec![0i32; total];
    let mut members = vec![0i32; total * largest];
    for group in groups {
        for &device in group {
            *sizes.get_mut(device)? = group.len() as i32;
            for (place, &member) in group.iter().enumerate() {
                *members.get_mut(device * largest + place)? = member as i32;
            }
        }
    }
    let everyone = Group {
        channel_id: None,
        groups: ReplicaGroups::Explicit(vec![(0..total as i64).collect()]),
        size: total as i64,
    };
    let gathered = everyone.gather(builder, operand);
    let device = device_number(builder, count);
    let zero = builder.scalar(ElementType::S32, ConstantNumber::Integer(0));
    let sizes = table(builder, &[total as i64], &sizes)?;
    let size = dynamic_slice(builder, sizes, &[device], &[1]);
    let size = builder.reshape(size, &[]);
    let members = table(builder, &[total as i64, largest as i64], &members)?;
    let shape = builder.array(operand);
    let mut result = None;
    for place in 0..largest as i64 {
        let position = builder.scalar(ElementType::S32, ConstantNumber::Integer(place));
        let member = dynamic_slice(builder, members, &[device, position], &[1, 1]);
        let member = builder.reshape(member, &[]);
        let mut starts = vec![member];
        starts.resize(shape.rank() + 1, zero);
        let block_sizes: Vec<i64> = [1].into_iter().chain(shape.dimensions.iter().copied()).collect();
        let next = dynamic_slice(builder, gathered, &starts, &block_sizes);
        let next = builder.reshape(next, &shape.dimensions);
        result = Some(match result {
            None => next,
            Some(before) => {
                let both = combine(builder, before, next, combiner);
                let is_member = builder.compare(ComparisonDirection::Lt, position, size);
                let is_member = builder.broadcast(is_member, &shape.dimensions, &[]);
                builder.select(is_member, both, before)
            }
        });
    }
    result
}

/// The number of this device among all.
fn device_number(builder: &mut GraphBuilder, count: DeviceCount) -> InstructionId {
    let mut number = |kind: OpKind| {
        let number = builder.add(kind, Shape::scalar(ElementType::U32), &[], Attributes::new());
        builder.convert(number, ElementType::S32)
    };
    let (replica, partition) = (number(OpKind::ReplicaId), number(OpKind::PartitionId));
    let partitions = builder.scalar(ElementType::S32, ConstantNumber::Integer(count.partitions));
    let first = builder.binary(OpKind::Multiply, replica, partitions);
    builder.binary(OpKind::Add, first, partition)
}

fn table(builder: &mut GraphBuilder, sizes: &[i64], values: &[i32]) -> Option<InstructionId> {
    let array = ArrayLiteral::from_slice(sizes, values).ok()?;
    Some(builder.literal(Literal::Array(array)))
}

fn dynamic_slice(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    starts: &[InstructionId],
    sizes: &[i64],
) -> InstructionId {
    let shape = ArrayShape::new(builder.element_type(operand), sizes);
    let operands: Vec<InstructionId> = [operand].iter().chain(starts).copied().collect();
    builder.add(OpKind::DynamicSlice, shape, &operands, DynamicSliceAttributes { dynamic_slice_sizes: sizes })
}

/// The blocks of the first dimension combined, in order.
fn combined(builder: &mut GraphBuilder, blocks: InstructionId, combiner: &Computation) -> InstructionId {
    let dimensions = builder.dimensions(blocks);
    let (count, sizes) = dimensions.split_first().map_or((0, &[][..]), |(&count, sizes)| (count, sizes));
    let first = block(builder, blocks, 0, sizes);
    (1..count).fold(first, |before, number| {
        let next = block(builder, blocks, number, sizes);
        combine(builder, before, next, combiner)
    })
}

/// Two arrays combined, element by element.
fn combine(
    builder: &mut GraphBuilder,
    left: InstructionId,
    right: InstructionId,
    combiner: &Computation,
) -> InstructionId {
    let shape = builder.array(left);
    let dimensions: Vec<i64> = (0..shape.rank() as i64).collect();
    let attributes = MapAttributes { dimensions: &dimensions };
    builder.add_with(OpKind::Map, shape, &[left, right], attributes, vec![combiner.clone()])
}

/// Block `number` of the first dimension.
fn block(builder: &mut GraphBuilder, blocks: InstructionId, number: i64, sizes: &[i64]) -> InstructionId {
    let block = builder.slice(blocks, 0, number, number + 1);
    builder.reshape(block, sizes)
}

fn with_first_dimension(builder: &mut GraphBuilder, operand: InstructionId) -> InstructionId {
    let mut sizes = builder.dimensions(operand);
    sizes.insert(0, 1);
    builder.reshape(operand, &sizes)
}

/// The parts of a dimension along a new first one.
fn split(builder: &mut GraphBuilder, operand: InstructionId, dimension: usize, parts: i64) -> InstructionId {
    let mut sizes = builder.dimensions(operand);
    sizes[dimension] /= parts;
    sizes.insert(dimension, parts);
    let parted = builder.reshape(operand, &sizes);
    let mut order: Vec<i64> = (0..sizes.len() as i64).collect();
    order[..=dimension].rotate_right(1);
    builder.transpose(parted, &order)
}

/// The blocks of the first dimension one after another along another: the inverse of [`split`].
fn join(builder: &mut GraphBuilder, blocks: InstructionId, dimension: usize) -> InstructionId {
    let mut sizes = builder.dimensions(blocks);
    let mut order: Vec<i64> = (0..sizes.len() as i64).collect();
    order[..=dimension].rotate_left(1);
    let parted = builder.transpose(blocks, &order);
    let parts = sizes.remove(0);
    sizes[dimension] *= parts;
    builder.reshape(parted, &sizes)
}

/// The values bare or as a tuple, as the shape of the result says.
fn as_result(builder: &mut GraphBuilder, shape: &Shape, values: &[InstructionId]) -> InstructionId {
    match (shape, values) {
        (Shape::Array(_), &[single]) => single,
        _ => builder.tuple(values),
    }
}
