//! Programs for several devices: what a program's header and collectives say of how many run it together.
//!
//! Programs run on one device here. [`check_one_device`] refuses those of which one device's values would not be the
//! program's: where an instruction communicates with others, or asks which device it runs on.

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
use crate::ops::ragged_all_to_all::RaggedAllToAllAttributes;
use crate::ops::reduce_scatter::ReduceScatterAttributes;
use crate::ops::send_recv::ChannelAttributes;
use crate::shape::Shape;

/// An instruction that several devices take part in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{instruction}` ({kind}) is for {reason}; programs run on one device")]
pub struct SeveralDevices {
    /// Name of the instruction.
    pub instruction: String,
    /// Its operation.
    pub kind: OpKind,
    /// Where it stands in its text, if it was read from one.
    pub position: Option<TextPosition>,
    /// How many devices, and why.
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
    /// What the header of a module says.
    pub fn of(module: &Module) -> Self {
        let number = |name: &str| {
            let annotation = module.annotations.iter().find(|(key, _)| key == name);
            annotation
                .and_then(|(_, text)| text.trim().parse().ok())
                .filter(|&count| count > 0)
                .map_or(1, |count| count)
        };
        DeviceCount { replicas: number("replica_count"), partitions: number("num_partitions") }
    }

    /// All devices.
    pub fn total(self) -> i64 {
        self.replicas.saturating_mul(self.partitions)
    }
}

/// Checks that one device computes what the program means.
///
/// # Errors
/// For the first instruction that needs other devices, those of nested computations included.
pub fn check_one_device(module: &Module) -> Result<(), SeveralDevices> {
    let count = DeviceCount::of(module);
    let mut open: Vec<&Computation> = module.functions.iter().collect();
    while let Some(computation) = open.pop() {
        for instruction in &computation.instructions {
            let reason = reason(computation, instruction, count)
                .unwrap_or_else(|error| Some(format!("devices that its attributes do not tell: {error}")));
            if let Some(reason) = reason {
                return Err(SeveralDevices {
                    instruction: instruction.name.clone(),
                    kind: instruction.kind,
                    position: instruction.position,
                    reason,
                });
            }
            open.extend(&instruction.computations);
        }
    }
    Ok(())
}

/// Why an instruction needs other devices, if it does.
fn reason(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> Result<Option<String>, OpError> {
    let devices = |count: i64| (count > 1).then(|| format!("{count} devices"));
    if let Some(collective) = Collective::of(instruction)? {
        return Ok(devices(collective.participants(instruction.kind, count).max(shards(computation, instruction)?)));
    }
    Ok(match instruction.kind {
        OpKind::ReplicaId => devices(count.replicas),
        OpKind::PartitionId => devices(count.partitions),
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => {
            let attributes: CollectivePermuteAttributes = instruction.attributes()?;
            let numbers = attributes.source_target_pairs.iter().flatten();
            let most = numbers.max().map_or(1, |&number| number.saturating_add(1));
            devices(most.max(crossed(attributes.channel_id.is_some(), count)))
        }
        OpKind::Send | OpKind::Recv => {
            let ChannelAttributes { is_host_transfer, .. } = instruction.attributes()?;
            devices(count.total()).filter(|_| !is_host_transfer)
        }
        OpKind::CustomCall => {
            let CustomCallAttributes { custom_call_target, .. } = instruction.attributes()?;
            match instruction.operands.first() {
                Some(&operand) if is_partitioning(custom_call_target) => {
                    let operand = &computation.get(operand).shape;
                    let dimensions = |shape: &Shape| shape.as_array().map(|array| array.dimensions.clone());
                    (dimensions(operand) != dimensions(&instruction.shape))
                        .then(|| format!("several devices, between {operand} and {}", instruction.shape))
                }
                _ => None,
            }
        }
        _ => None,
    })
}

/// Devices among which an operation without replica groups communicates: with a channel the partitions, else the replicas.
fn crossed(has_channel: bool, count: DeviceCount) -> i64 {
    if has_channel { count.partitions } else { count.replicas }
}

/// What the attributes of collectives with replica groups have in common.
struct Collective<'i> {
    has_channel: bool,
    groups: Option<&'i ReplicaGroups>,
    groups_number_devices: bool,
}

impl<'i> Collective<'i> {
    fn of(instruction: &'i Instruction) -> Result<Option<Self>, OpError> {
        let (channel, groups, groups_number_devices) = match instruction.kind {
            OpKind::AllGather | OpKind::AllGatherStart => {
                let attributes: AllGatherAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, attributes.use_global_device_ids)
            }
            OpKind::AllReduce | OpKind::AllReduceStart => {
                let attributes: AllReduceAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, attributes.use_global_device_ids)
            }
            OpKind::ReduceScatter => {
                let attributes: ReduceScatterAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, attributes.use_global_device_ids)
            }
            OpKind::AllToAll => {
                let attributes: AllToAllAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, false)
            }
            OpKind::RaggedAllToAll => {
                let attributes: RaggedAllToAllAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, false)
            }
            OpKind::CollectiveBroadcast => {
                let attributes: CollectiveBroadcastAttributes = instruction.attributes()?;
                (attributes.channel_id, attributes.replica_groups, false)
            }
            _ => return Ok(None),
        };
        Ok(Some(Collective { has_channel: channel.is_some(), groups, groups_number_devices }))
    }

    /// Devices that exchange data in the largest group.
    fn participants(&self, kind: OpKind, count: DeviceCount) -> i64 {
        let largest = self.groups.map(ReplicaGroups::largest).filter(|&size| size > 0);
        match (kind, largest) {
            (OpKind::AllToAll | OpKind::RaggedAllToAll | OpKind::CollectiveBroadcast, Some(size)) => size,
            (OpKind::AllToAll | OpKind::RaggedAllToAll | OpKind::CollectiveBroadcast, None) => {
                crossed(self.has_channel, count)
            }
            (_, Some(size)) if self.groups_number_devices || !self.has_channel => size,
            (_, Some(size)) => size.saturating_mul(count.partitions),
            (_, None) if self.has_channel => count.total(),
            (_, None) => count.replicas,
        }
    }
}

/// Devices that the shapes of a collective speak of.
fn shards(computation: &Computation, instruction: &Instruction) -> Result<i64, OpError> {
    let elements = |shape: &Shape| -> i64 {
        shape.leaves().into_iter().filter_map(Shape::as_array).map(|array| array.element_count()).sum()
    };
    let operands: i64 = instruction.operands.iter().map(|&operand| elements(&computation.get(operand).shape)).sum();
    Ok(match (instruction.kind, &instruction.shape) {
        (OpKind::AllToAll, _) => match instruction.attributes::<AllToAllAttributes>()?.dimensions {
            Some(_) => 1,
            None => instruction.operands.len() as i64,
        },
        (OpKind::AllGather, result) => elements(result) / operands.max(1),
        (OpKind::AllGatherStart, Shape::Tuple(parts)) => parts.get(1).map_or(1, elements) / operands.max(1),
        (OpKind::ReduceScatter, result) => operands / elements(result).max(1),
        _ => 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_without_counts_is_for_one_device() {
        let mut module = Module {
            name: "m".into(),
            annotations: Vec::new(),
            entry_layout: None,
            input_output_aliases: Vec::new(),
            sources: Default::default(),
            functions: Vec::new(),
            entry: crate::graph::FunctionId(0),
        };
        assert_eq!(DeviceCount::of(&module), DeviceCount { replicas: 1, partitions: 1 });
        module.annotations = vec![("replica_count".into(), "2".into()), ("num_partitions".into(), "4".into())];
        assert_eq!(DeviceCount::of(&module).total(), 8);
    }
}
