//! Programs for several devices: how many run a program together, and which of them take part in a collective.
//!
//! A module's header says how many replicas and partitions there are; replica `r` of partition `p` is device
//! `r * partitions + p`. Every device runs the whole program on arguments of its own. [`groups`] and [`pairs`] are
//! the devices that an instruction brings together. [`check`] refuses programs whose instructions name others than the
//! header's.

use crate::attributes::ReplicaGroups;
use crate::graph::{Computation, Instruction, Module, TextPosition};
use crate::op_kind::OpKind;
use crate::ops::OpError;
use crate::ops::all_gather::AllGatherAttributes;
use crate::ops::all_reduce::AllReduceAttributes;
use crate::ops::all_to_all::AllToAllAttributes;
use crate::ops::collective_broadcast::CollectiveBroadcastAttributes;
use crate::ops::collective_permute::CollectivePermuteAttributes;
use crate::ops::custom_call::CustomCallAttributes;
use crate::ops::custom_call_targets::is_partitioning;
use crate::ops::enumerations::CollectiveMode;
use crate::ops::ragged_all_to_all::RaggedAllToAllAttributes;
use crate::ops::reduce_scatter::ReduceScatterAttributes;
use crate::ops::send_recv::ChannelAttributes;
use crate::shape::{ArrayShape, Shape};

/// Devices that a program may be for.
pub const MOST_DEVICES: i64 = 1024;

/// Key of the annotation that pairs senders and receivers of a channel.
const CHANNEL_PAIRS: &str = "_xla_send_recv_source_target_pairs";

/// An instruction that the devices of its program cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{instruction}` ({kind}) {reason}")]
pub struct WrongDevices {
    /// Name of the instruction.
    pub instruction: String,
    /// Its operation.
    pub kind: OpKind,
    /// Where it stands in its text, if it was read from one.
    pub position: Option<TextPosition>,
    /// What is wrong.
    pub reason: String,
}

/// Replicas and partitions that a module's header names; one each where it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCount {
    /// `replica_count`.
    pub replicas: i64,
    /// `num_partitions`.
    pub partitions: i64,
}

impl DeviceCount {
    /// One device.
    pub const ONE: DeviceCount = DeviceCount { replicas: 1, partitions: 1 };

    /// What the header of a module says.
    pub fn of(module: &Module) -> Self {
        Self::of_annotations(&module.annotations)
    }

    /// What the annotations of a module say.
    pub fn of_annotations(annotations: &[(String, String)]) -> Self {
        let number = |name: &str| {
            let annotation = annotations.iter().find(|(key, _)| key == name);
            annotation
                .and_then(|(_, text)| text.trim().parse().ok())
                .filter(|&count| count > 0)
                .map_or(1, |count| count)
        };
        DeviceCount { replicas: number(REPLICA_COUNT), partitions: number("num_partitions") }
    }

    /// All devices.
    pub fn total(self) -> i64 {
        self.replicas.saturating_mul(self.partitions)
    }

    fn device(self, replica: i64, partition: i64) -> usize {
        (replica * self.partitions + partition) as usize
    }
}

/// Name of the header's entry with the number of replicas.
pub const REPLICA_COUNT: &str = "replica_count";

/// Checks that the devices of the module's header can run its instructions.
///
/// # Errors
/// For the first instruction that needs others, those of nested computations included.
pub fn check(module: &Module) -> Result<(), WrongDevices> {
    let count = DeviceCount::of(module);
    for_each(module, |computation, instruction| {
        let reason = if count.total() == 1 {
            needs_several(computation, instruction)
                .unwrap_or_else(|error| Some(format!("is for devices that its attributes do not tell: {error}")))
        } else {
            refusal(computation, instruction, count)
        };
        match reason {
            Some(reason) => Err(WrongDevices {
                instruction: instruction.name.clone(),
                kind: instruction.kind,
                position: instruction.position,
                reason,
            }),
            None => Ok(()),
        }
    })
}

/// Devices that a program must run on together: those of its header, but one where no instruction tells one device from
/// another, so that each computes the same from the same arguments. For modules that passed [`check`].
pub fn devices_of(module: &Module) -> usize {
    let count = DeviceCount::of(module);
    let is_alone = for_each(module, |_, instruction| if communicates(instruction, count) { Err(()) } else { Ok(()) });
    if is_alone.is_ok() { 1 } else { count.total().clamp(1, MOST_DEVICES) as usize }
}

/// Calls `visit` with every instruction of a module, those of nested computations included, until it fails.
fn for_each<E>(module: &Module, mut visit: impl FnMut(&Computation, &Instruction) -> Result<(), E>) -> Result<(), E> {
    let mut open: Vec<&Computation> = module.functions.iter().collect();
    while let Some(computation) = open.pop() {
        for instruction in &computation.instructions {
            visit(computation, instruction)?;
            open.extend(&instruction.computations);
        }
    }
    Ok(())
}

/// Whether an instruction gives another value on another device, or exchanges values with it.
pub fn communicates(instruction: &Instruction, count: DeviceCount) -> bool {
    if count.total() == 1 {
        return false;
    }
    // More are refused: which ones a group has does not matter, and a list of them may be too long for any memory.
    let count = match count.total() > MOST_DEVICES {
        true => DeviceCount { replicas: count.replicas.min(2), partitions: count.partitions.min(2) },
        false => count,
    };
    match instruction.kind {
        OpKind::ReplicaId => count.replicas > 1,
        OpKind::PartitionId => count.partitions > 1,
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => true,
        OpKind::Send | OpKind::RecvDone => {
            !instruction.attributes::<ChannelAttributes>().is_ok_and(|attributes| attributes.is_host_transfer)
        }
        _ => match groups(instruction, count) {
            Ok(None) => false,
            Ok(Some(groups)) => groups.iter().any(|group| group.len() > 1) || groups.len() < count.total() as usize,
            Err(_) => true,
        },
    }
}

/// What several devices cannot run of an instruction.
fn refusal(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> Option<String> {
    if count.total() > MOST_DEVICES {
        let may_need = groups(instruction, DeviceCount::ONE).is_ok_and(|groups| groups.is_some());
        let needs = may_need || communicates(instruction, DeviceCount { replicas: 2, partitions: 2 });
        return needs.then(|| format!("is for {} devices; programs run on at most {MOST_DEVICES}", count.total()));
    }
    let result = match instruction.kind {
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => check_permute(instruction, count),
        OpKind::Send | OpKind::Recv | OpKind::RecvDone => check_channel(computation, instruction, count),
        OpKind::CustomCall => between_shards(computation, instruction)
            .map_or_else(|error| Err(error.to_string()), |reason| reason.map_or(Ok(()), Err)),
        _ => check_groups(computation, instruction, count),
    };
    let reason = result.err();
    if reason.is_none() && communicates(instruction, count) {
        let is_dynamic =
            |shape: &Shape| shape.leaves().into_iter().filter_map(Shape::as_array).any(ArrayShape::is_dynamic);
        let operands = instruction.operands.iter().map(|&operand| &computation.get(operand).shape);
        return operands
            .chain([&instruction.shape])
            .any(is_dynamic)
            .then(|| "has run-time sizes, which several devices do not exchange".to_string());
    }
    reason
}

fn check_permute(instruction: &Instruction, count: DeviceCount) -> Result<(), String> {
    let attributes: CollectivePermuteAttributes = instruction.attributes().map_err(|error| error.to_string())?;
    if attributes.slice_sizes.is_some() {
        return Err("exchanges slices, which only one device does with itself".into());
    }
    pairs(instruction, count)?;
    Ok(())
}

fn check_channel(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> Result<(), String> {
    let attributes: ChannelAttributes = instruction.attributes().map_err(|error| error.to_string())?;
    if attributes.is_host_transfer {
        return Err(format!("exchanges values with the host of {} devices, which is for one device", count.total()));
    }
    if instruction.kind == OpKind::RecvDone {
        let start = instruction.operands.first().map(|&operand| computation.get(operand).kind);
        if start != Some(OpKind::Recv) && pairs(instruction, count).is_err() {
            return Err("must stand beside its recv in programs for several devices".into());
        }
        return Ok(());
    }
    pairs(instruction, count).map(|_| ())
}

fn check_groups(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> Result<(), String> {
    let Some(groups) = groups(instruction, count)? else { return Ok(()) };
    let mut seen = vec![false; count.total() as usize];
    for &device in groups.iter().flatten() {
        match seen.get_mut(device) {
            Some(seen) if !*seen => *seen = true,
            Some(_) => return Err(format!("has device {device} in two groups")),
            None => return Err(format!("names device {device} of {}", count.total())),
        }
    }
    if let Some(device) = seen.iter().position(|&seen| !seen)
        && instruction.kind != OpKind::CollectiveBroadcast
    {
        return Err(format!("has device {device} of {} in no group", count.total()));
    }
    let sizes: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
    let is_whole = matches!(instruction.kind, OpKind::CollectiveBroadcast | OpKind::AllReduce | OpKind::AllReduceStart);
    let Some(&size) = sizes.first().filter(|_| !is_whole) else { return Ok(()) };
    if sizes.iter().any(|&other| other != size) {
        return Err("has groups of several sizes".into());
    }
    let shown = match instruction.kind {
        OpKind::RaggedAllToAll => {
            let offsets = instruction.operands.get(2).map(|&operand| elements(&computation.get(operand).shape));
            return match offsets {
                Some(offsets) if offsets % size == 0 => Ok(()),
                _ => Err(format!("is for {size} devices, its offsets are not a multiple of that")),
            };
        }
        OpKind::AllToAll if !is_divided_by(computation, instruction, size) => {
            return Err(format!("does not divide its dimension among {size} devices"));
        }
        _ => shards(computation, instruction).map_err(|error| error.to_string())?,
    };
    match shown.filter(|&shown| shown != size) {
        Some(shown) => Err(format!("is for {shown} devices by its shapes, for {size} by its groups")),
        None => Ok(()),
    }
}

/// Whether the dimension that an `all-to-all` exchanges parts of has as many; those of operands always are.
fn is_divided_by(computation: &Computation, instruction: &Instruction, count: i64) -> bool {
    let dimension = instruction.attributes::<AllToAllAttributes>().ok().and_then(|attributes| attributes.dimensions);
    let operand = instruction.operands.first().and_then(|&operand| computation.get(operand).shape.as_array());
    match (dimension, operand) {
        (Some(dimension), Some(operand)) => {
            let size = usize::try_from(dimension.0).ok().and_then(|dimension| operand.dimensions.get(dimension));
            size.is_some_and(|size| size % count == 0)
        }
        _ => true,
    }
}

/// The devices of each group of a collective, in the order of the group; `None` for other operations, and for those
/// that have [`pairs`].
///
/// # Errors
/// For attributes of other operations, and groups that are too many.
pub fn groups(instruction: &Instruction, count: DeviceCount) -> Result<Option<Vec<Vec<usize>>>, String> {
    let Some(collective) = Collective::of(instruction).map_err(|error| error.to_string())? else { return Ok(None) };
    let DeviceCount { replicas, partitions } = count;
    let mode = collective.mode();
    let ids = match mode {
        CollectiveMode::CrossReplica | CollectiveMode::CrossReplicaAndPartition => replicas,
        CollectiveMode::CrossPartition => partitions,
        CollectiveMode::FlattenedId => count.total(),
    };
    let written = match collective.groups {
        Some(groups) if groups.members() > ids => {
            return Err(format!("names {} of {ids} in its groups", groups.members()));
        }
        Some(groups) => groups.groups().into_iter().filter(|group| !group.is_empty()).collect(),
        None => Vec::new(),
    };
    let written = if written.is_empty() { vec![(0..ids).collect()] } else { written };
    if let Some(id) = written.iter().flatten().find(|&&id| id < 0 || id >= ids) {
        return Err(format!("names number {id} of {ids} in its groups"));
    }
    let device = |replica: i64, partition: i64| count.device(replica, partition);
    Ok(Some(match mode {
        CollectiveMode::CrossReplica => across(&written, partitions, device),
        CollectiveMode::CrossPartition => across(&written, replicas, |partition, replica| device(replica, partition)),
        CollectiveMode::CrossReplicaAndPartition => written
            .iter()
            .map(|group| {
                let replicas = group.iter().copied();
                replicas.flat_map(|replica| (0..partitions).map(move |partition| device(replica, partition))).collect()
            })
            .collect(),
        CollectiveMode::FlattenedId => {
            written.iter().map(|group| group.iter().map(|&id| id as usize).collect()).collect()
        }
    }))
}

/// The channel that a collective, `send` or `recv` is known by; `None` without one, and of other operations.
///
/// # Errors
/// For attributes of other operations.
pub fn channel(instruction: &Instruction) -> Result<Option<i64>, OpError> {
    Ok(match instruction.kind {
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => {
            instruction.attributes::<CollectivePermuteAttributes>()?.channel_id
        }
        OpKind::Send | OpKind::Recv | OpKind::SendDone | OpKind::RecvDone => {
            instruction.attributes::<ChannelAttributes>()?.channel_id
        }
        _ => Collective::of(instruction)?.and_then(|collective| collective.channel),
    })
}

/// Each group once for each of the `others`, that is the partitions of replicas or the replicas of partitions.
fn across(groups: &[Vec<i64>], others: i64, device: impl Fn(i64, i64) -> usize) -> Vec<Vec<usize>> {
    let of_one = |group: &Vec<i64>, other: i64| group.iter().map(|&id| device(id, other)).collect();
    groups.iter().flat_map(|group| (0..others).map(|other| of_one(group, other)).collect::<Vec<_>>()).collect()
}

/// The devices that send and those that receive from them, of a `collective-permute`, `send` or `recv`.
///
/// # Errors
/// For numbers beyond the devices, and channels that do not tell who sends to whom.
pub fn pairs(instruction: &Instruction, count: DeviceCount) -> Result<Vec<[usize; 2]>, String> {
    let (written, has_channel) = match instruction.kind {
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => {
            let attributes: CollectivePermuteAttributes =
                instruction.attributes().map_err(|error| error.to_string())?;
            let pair = |pair: &Vec<i64>| <[i64; 2]>::try_from(pair.as_slice()).ok();
            let written: Option<Vec<_>> = attributes.source_target_pairs.iter().map(pair).collect();
            (written.ok_or("has source_target_pairs that are no pairs")?, attributes.channel_id.is_some())
        }
        _ => {
            let attributes: ChannelAttributes = instruction.attributes().map_err(|error| error.to_string())?;
            let annotation = instruction.annotation("frontend_attributes").unwrap_or_default();
            let written = channel_pairs(annotation)
                .ok_or_else(|| format!("lacks the pairs of senders and receivers, `{CHANNEL_PAIRS}={{{{0,1}}}}`"))?;
            (written, attributes.channel_id.is_some_and(|channel| channel > 0))
        }
    };
    let (ids, others) =
        if has_channel { (count.partitions, count.replicas) } else { (count.replicas, count.partitions) };
    if let Some(id) = written.iter().flatten().find(|&&id| id < 0 || id >= ids) {
        return Err(format!("names number {id} of {ids} in its pairs"));
    }
    let device = |id: i64, other: i64| {
        if has_channel { count.device(other, id) } else { count.device(id, other) }
    };
    let of_all = |pair: &[i64; 2]| (0..others).map(|other| pair.map(|id| device(id, other))).collect::<Vec<_>>();
    Ok(written.iter().flat_map(of_all).collect())
}

/// The pairs in the frontend attributes of a `send` or `recv`, bare or quoted: `"{{0,1},{1,2}}"`.
fn channel_pairs(annotation: &str) -> Option<Vec<[i64; 2]>> {
    let (_, rest) = annotation.split_once(CHANNEL_PAIRS)?;
    let rest = rest.trim_start_matches(['"', '\\', '=', ' ']).strip_prefix('{')?;
    let (list, _) = rest.split_once("}}").unwrap_or(("", rest));
    let pairs = list.split('}').map(|pair| pair.trim_matches([',', ' ', '{']));
    pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (source, target) = pair.split_once(',')?;
            Some([source.trim().parse().ok()?, target.trim().parse().ok()?])
        })
        .collect()
}

/// Why one device does not compute what an instruction means, if it does not.
fn needs_several(computation: &Computation, instruction: &Instruction) -> Result<Option<String>, OpError> {
    let devices = |count: i64| (count > 1).then(|| format!("is for {count} devices, the module's header says one"));
    if let Some(collective) = Collective::of(instruction)? {
        let largest = collective.groups.map_or(0, ReplicaGroups::largest);
        let shown = shards(computation, instruction)?;
        return Ok(devices(shown.map_or(largest, |shown| largest.max(shown))));
    }
    Ok(match instruction.kind {
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => {
            let attributes: CollectivePermuteAttributes = instruction.attributes()?;
            let numbers = attributes.source_target_pairs.iter().flatten();
            devices(numbers.max().map_or(1, |&number| number.saturating_add(1)))
        }
        OpKind::CustomCall => between_shards(computation, instruction)?,
        _ => None,
    })
}

/// Why a custom call between an array and its shards has no meaning here: partitioning replaces it.
fn between_shards(computation: &Computation, instruction: &Instruction) -> Result<Option<String>, OpError> {
    let CustomCallAttributes { custom_call_target, .. } = instruction.attributes()?;
    let Some(&operand) = instruction.operands.first().filter(|_| is_partitioning(custom_call_target)) else {
        return Ok(None);
    };
    let operand = &computation.get(operand).shape;
    let dimensions = |shape: &Shape| shape.as_array().map(|array| array.dimensions.clone());
    Ok((dimensions(operand) != dimensions(&instruction.shape))
        .then(|| format!("is for several devices, between {operand} and {}", instruction.shape)))
}

/// What the attributes of collectives with replica groups have in common.
struct Collective<'i> {
    channel: Option<i64>,
    groups: Option<&'i ReplicaGroups>,
    /// Where the operation may say so: whether the groups number devices.
    use_global_device_ids: Option<bool>,
    mode: Option<CollectiveMode>,
}

impl<'i> Collective<'i> {
    fn of(instruction: &'i Instruction) -> Result<Option<Self>, OpError> {
        let (channel, groups, use_global_device_ids, mode) = match instruction.kind {
            OpKind::AllGather | OpKind::AllGatherStart => {
                let attributes: AllGatherAttributes = instruction.attributes()?;
                (
                    attributes.channel_id,
                    attributes.replica_groups,
                    Some(attributes.use_global_device_ids),
                    attributes.mode,
                )
            }
            OpKind::AllReduce | OpKind::AllReduceStart => {
                let attributes: AllReduceAttributes = instruction.attributes()?;
                (
                    attributes.channel_id,
                    attributes.replica_groups,
                    Some(attributes.use_global_device_ids),
                    attributes.mode,
                )
            }
            OpKind::ReduceScatter => {
                let attributes: ReduceScatterAttributes = instruction.attributes()?;
                (
                    attributes.channel_id,
                    attributes.replica_groups,
                    Some(attributes.use_global_device_ids),
                    attributes.mode,
                )
            }
            OpKind::AllToAll => {
                let attributes: AllToAllAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, None, attributes.mode)
            }
            OpKind::RaggedAllToAll => {
                let attributes: RaggedAllToAllAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, None, attributes.mode)
            }
            OpKind::CollectiveBroadcast => {
                let attributes: CollectiveBroadcastAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, None, attributes.mode)
            }
            _ => return Ok(None),
        };
        Ok(Some(Collective { channel, groups, use_global_device_ids, mode }))
    }

    /// What the numbers in the groups are.
    fn mode(&self) -> CollectiveMode {
        match (self.mode, self.channel.is_some(), self.use_global_device_ids) {
            (Some(mode), ..) => mode,
            (None, false, _) => CollectiveMode::CrossReplica,
            (None, true, None) => CollectiveMode::CrossPartition,
            (None, true, Some(false)) => CollectiveMode::CrossReplicaAndPartition,
            (None, true, Some(true)) => CollectiveMode::FlattenedId,
        }
    }
}

/// Elements of all arrays of a shape.
fn elements(shape: &Shape) -> i64 {
    shape.leaves().into_iter().filter_map(Shape::as_array).map(ArrayShape::element_count).sum()
}

/// Devices that the shapes of a collective speak of, where they do.
fn shards(computation: &Computation, instruction: &Instruction) -> Result<Option<i64>, OpError> {
    let operands: i64 = instruction.operands.iter().map(|&operand| elements(&computation.get(operand).shape)).sum();
    let ratio = |whole: i64, part: i64| (part > 0).then(|| whole / part);
    Ok(match (instruction.kind, &instruction.shape) {
        (OpKind::AllToAll, _) => match instruction.attributes::<AllToAllAttributes>()?.dimensions {
            Some(_) => None,
            None => Some(instruction.operands.len() as i64),
        },
        (OpKind::AllGather, result) => ratio(elements(result), operands),
        (OpKind::AllGatherStart, Shape::Tuple(parts)) => {
            parts.get(1).and_then(|whole| ratio(elements(whole), operands))
        }
        (OpKind::ReduceScatter, result) => ratio(operands, elements(result)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::{AttributeValue, Attributes};

    const SIX: DeviceCount = DeviceCount { replicas: 2, partitions: 3 };

    #[test]
    fn a_header_without_counts_is_for_one_device() {
        assert_eq!(DeviceCount::of_annotations(&[]), DeviceCount::ONE);
        let annotations = [("replica_count".into(), "2".into()), ("num_partitions".into(), "4".into())];
        assert_eq!(DeviceCount::of_annotations(&annotations).total(), 8);
    }

    fn all_reduce(groups: &[&[i64]], attributes: &[(&'static str, AttributeValue)]) -> Vec<Vec<usize>> {
        let explicit = ReplicaGroups::Explicit(groups.iter().map(|group| group.to_vec()).collect());
        let mut all = Attributes::new().with("replica_groups", AttributeValue::ReplicaGroups(explicit));
        for &(name, ref value) in attributes {
            all = all.with(name, value.clone());
        }
        let mut instruction = Instruction::new("r", OpKind::AllReduce, Shape::Token, []);
        instruction.attributes = all;
        super::groups(&instruction, SIX).unwrap().unwrap()
    }

    #[test]
    fn groups_number_replicas_or_devices() {
        let channel = ("channel_id", AttributeValue::Int(1));
        let global = ("use_global_device_ids", AttributeValue::Bool(true));
        assert_eq!(all_reduce(&[], &[]), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(all_reduce(&[&[1, 0]], &[]), [[3, 0], [4, 1], [5, 2]]);
        assert_eq!(all_reduce(&[], std::slice::from_ref(&channel)), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(all_reduce(&[&[1], &[0]], std::slice::from_ref(&channel)), [[3, 4, 5], [0, 1, 2]]);
        assert_eq!(all_reduce(&[&[0, 5], &[1, 4], &[2, 3]], &[channel, global]), [[0, 5], [1, 4], [2, 3]]);
    }

    #[test]
    fn pairs_stand_in_frontend_attributes() {
        let parsed = channel_pairs("{_xla_send_recv_source_target_pairs=\"{{0,1},{1, 2}}\",other=\"{{3,4}}\"}");
        assert_eq!(parsed, Some(vec![[0, 1], [1, 2]]));
        assert_eq!(channel_pairs("{_xla_send_recv_source_target_pairs={{0,3}}}"), Some(vec![[0, 3]]));
        assert_eq!(channel_pairs("{_xla_send_recv_source_target_pairs={}}"), Some(vec![]));
        assert_eq!(channel_pairs("{}"), None);
    }
}
