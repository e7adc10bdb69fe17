//! Programs for several devices: what a program's header and collectives say of how many run it together.
//!
//! Programs run on one device here. [`check_one_device`] refuses those of which one device's values would not be the
//! program's: where an instruction communicates with others, or asks which device it runs on.

use crate::attributes::{AttributeValue, ReplicaGroups};
use crate::graph::{Computation, Instruction, Module, TextPosition};
use crate::op_kind::OpKind;
use crate::ops::custom_call_targets::is_partitioning;
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
            annotation.and_then(|(_, text)| text.trim().parse().ok()).filter(|&count| count > 0).unwrap_or(1)
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
            if let Some(reason) = reason(computation, instruction, count) {
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
fn reason(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> Option<String> {
    let devices = |count: i64| (count > 1).then(|| format!("{count} devices"));
    match instruction.kind {
        OpKind::ReplicaId => devices(count.replicas),
        OpKind::PartitionId => devices(count.partitions),
        OpKind::AllGather
        | OpKind::AllGatherStart
        | OpKind::AllReduce
        | OpKind::AllReduceStart
        | OpKind::AllToAll
        | OpKind::CollectiveBroadcast
        | OpKind::RaggedAllToAll
        | OpKind::ReduceScatter => devices(participants(computation, instruction, count)),
        OpKind::CollectivePermute | OpKind::CollectivePermuteStart => {
            match instruction.attributes.get("source_target_pairs") {
                Some(AttributeValue::IntLists(pairs)) => {
                    let most = pairs.iter().flatten().max().map_or(1, |&number| number.saturating_add(1));
                    devices(most.max(crossed(instruction, count)))
                }
                _ => devices(crossed(instruction, count)),
            }
        }
        OpKind::Send | OpKind::Recv if !instruction.attributes.flag("is_host_transfer") => devices(count.total()),
        OpKind::CustomCall if instruction.attributes.word("custom_call_target").is_some_and(is_partitioning) => {
            let operand = &computation.get(*instruction.operands.first()?).shape;
            let dimensions = |shape: &Shape| shape.as_array().map(|array| array.dimensions.clone());
            (dimensions(operand) != dimensions(&instruction.shape))
                .then(|| format!("several devices, between {operand} and {}", instruction.shape))
        }
        _ => None,
    }
}

/// Devices among which an operation without replica groups communicates: with a channel the partitions, else the replicas.
fn crossed(instruction: &Instruction, count: DeviceCount) -> i64 {
    if instruction.attributes.int("channel_id").is_some() { count.partitions } else { count.replicas }
}

/// Devices that exchange data in the largest group of a collective.
fn participants(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> i64 {
    let has_channel = instruction.attributes.int("channel_id").is_some();
    let groups_number_devices = instruction.attributes.flag("use_global_device_ids");
    let groups = instruction.attributes.replica_groups().map(ReplicaGroups::largest).filter(|&size| size > 0);
    let of_groups = match (instruction.kind, groups) {
        (OpKind::AllToAll | OpKind::RaggedAllToAll | OpKind::CollectiveBroadcast, Some(size)) => size,
        (OpKind::AllToAll | OpKind::RaggedAllToAll | OpKind::CollectiveBroadcast, None) => crossed(instruction, count),
        (_, Some(size)) if groups_number_devices || !has_channel => size,
        (_, Some(size)) => size.saturating_mul(count.partitions),
        (_, None) if has_channel => count.total(),
        (_, None) => count.replicas,
    };
    of_groups.max(shards(computation, instruction))
}

/// Devices that the shapes of a collective speak of.
fn shards(computation: &Computation, instruction: &Instruction) -> i64 {
    let elements = |shape: &Shape| -> i64 {
        shape.leaves().into_iter().filter_map(Shape::as_array).map(|array| array.element_count()).sum()
    };
    let operands: i64 = instruction.operands.iter().map(|&operand| elements(&computation.get(operand).shape)).sum();
    match (instruction.kind, &instruction.shape) {
        (OpKind::AllToAll, _) if instruction.attributes.get("dimensions").is_none() => {
            instruction.operands.len() as i64
        }
        (OpKind::AllGather, result) => elements(result) / operands.max(1),
        (OpKind::AllGatherStart, Shape::Tuple(parts)) => parts.get(1).map_or(1, elements) / operands.max(1),
        (OpKind::ReduceScatter, result) => operands / elements(result).max(1),
        _ => 1,
    }
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
