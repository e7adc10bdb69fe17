//! Collectives among several devices, in the forms that `hlo-expand` leaves: exchanges of whole blocks of bytes.

use hlo::devices::{self, DeviceCount};
use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::ops::all_gather::AllGatherAttributes;
use hlo::ops::all_to_all::AllToAllAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::shape::ArrayShape;

use super::{Argument, Call, array_operands, arrays, attributes_of};

/// The byte that zeros consist of; NaN in the type that has no zero.
fn fill_byte(element_type: ElementType) -> i64 {
    if element_type.has_zero() { 0 } else { 0xff }
}

/// Bytes and fill byte of each array.
fn sizes(arrays: &[&ArrayShape]) -> Vec<i64> {
    let words = |array: &&ArrayShape| [array.byte_size() as i64, fill_byte(array.element_type)];
    [arrays.len() as i64].into_iter().chain(arrays.iter().flat_map(words)).collect()
}

/// Number of groups, then size and members of each.
fn group_words(groups: &[Vec<usize>]) -> Vec<i64> {
    let of_one = |group: &Vec<usize>| std::iter::once(group.len()).chain(group.iter().copied()).collect::<Vec<_>>();
    let words = std::iter::once(groups.len()).chain(groups.iter().flat_map(of_one));
    words.map(|word| word as i64).collect()
}

/// For each device the other one of its pair, -1 where there is none: the source of each target, or the other way round.
fn partners(pairs: &[[usize; 2]], count: DeviceCount, of_targets: bool) -> Vec<i64> {
    let mut partners = vec![-1; count.total() as usize];
    for &[source, target] in pairs {
        let (device, partner) = if of_targets { (target, source) } else { (source, target) };
        if let Some(place) = partners.get_mut(device) {
            *place = partner as i64;
        }
    }
    [partners.len() as i64].into_iter().chain(partners).collect()
}

/// What all members of a meeting are known by: those of one channel meet, and those of one instruction without a channel.
fn meeting(instruction: &Instruction) -> Result<String, String> {
    Ok(match devices::channel(instruction).map_err(|error| error.to_string())? {
        Some(channel) => format!("{} on channel {channel}", instruction.kind),
        None => instruction.name.clone(),
    })
}

/// Groups of a collective.
fn groups(instruction: &Instruction, count: DeviceCount) -> Result<Vec<Vec<usize>>, String> {
    if count.total() == 1 {
        return Err("among several devices, of which the module's header names one".into());
    }
    devices::groups(instruction, count)?.ok_or_else(|| "without groups".to_string())
}

/// Blocks are whole only along the first dimension.
fn along_first(dimension: Option<Dimension>) -> Result<(), String> {
    match dimension {
        Some(Dimension(0)) => Ok(()),
        _ => Err("along another dimension than the first".into()),
    }
}

/// Descriptors are those of the runtime's `halo_exchange`.
pub(super) fn exchange(
    computation: &Computation,
    instruction: &Instruction,
    count: DeviceCount,
) -> Result<Call, String> {
    let mut sources = vec![0];
    let (form, groups) = match instruction.kind {
        OpKind::AllGather => {
            along_first(Some(attributes_of::<AllGatherAttributes>(instruction)?.dimensions))?;
            (0, groups(instruction, count)?)
        }
        OpKind::AllToAll => {
            along_first(attributes_of::<AllToAllAttributes>(instruction)?.dimensions)?;
            (1, groups(instruction, count)?)
        }
        OpKind::CollectiveBroadcast => (2, groups(instruction, count)?),
        _ => {
            let pairs = devices::pairs(instruction, count)?;
            sources = partners(&pairs, count, true);
            let mut members: Vec<usize> = pairs.into_iter().flatten().collect();
            members.sort_unstable();
            members.dedup();
            (3, vec![members])
        }
    };
    let name = meeting(instruction)?;
    let mut descriptor = vec![form, name.len() as i64];
    descriptor.extend(group_words(&groups));
    descriptor.extend(sources);
    descriptor.extend(sizes(&array_operands(computation, instruction)));
    let arguments = vec![Argument::Text(name), Argument::Operands, Argument::Results];
    Ok(Call::new("halo_exchange", descriptor, arguments))
}

/// The descriptor is that of the runtime's `halo_ragged_all_to_all`.
pub(super) fn ragged_all_to_all(
    computation: &Computation,
    instruction: &Instruction,
    count: DeviceCount,
) -> Result<Call, String> {
    let groups = groups(instruction, count)?;
    let operands = array_operands(computation, instruction);
    let &[input, output, offsets, ..] = &operands[..] else { return Err("without its six operands".into()) };
    let (Some(&input_rows), Some(&output_rows)) = (input.dimensions.first(), output.dimensions.first()) else {
        return Err("of scalars".into());
    };
    let row: i64 = output.dimensions[1..].iter().product();
    let name = meeting(instruction)?;
    let mut descriptor = vec![name.len() as i64];
    descriptor.extend(group_words(&groups));
    descriptor.extend([input_rows, output_rows, row * output.element_type.byte_width() as i64]);
    descriptor.extend([offsets.element_type.primitive_type(), offsets.element_count()]);
    let arguments = vec![Argument::Text(name), Argument::Operands, Argument::Results];
    Ok(Call::new("halo_ragged_all_to_all", descriptor, arguments))
}

/// Descriptor: 0 for the number among the replicas, 1 among the partitions.
pub(super) fn number(instruction: &Instruction) -> Call {
    let descriptor = vec![i64::from(instruction.kind == OpKind::PartitionId)];
    Call::new("halo_device_number", descriptor, vec![Argument::Result(0)])
}

/// Descriptors: the channel, for each device its partner, the arrays.
fn channel(instruction: &Instruction, count: DeviceCount, values: &[&ArrayShape]) -> Result<Vec<i64>, String> {
    let pairs = devices::pairs(instruction, count)?;
    let channel = devices::channel(instruction).map_err(|error| error.to_string())?;
    // Numbers of channels are not negative: this one stands for none.
    let mut descriptor = vec![channel.unwrap_or(-1)];
    descriptor.extend(partners(&pairs, count, instruction.kind == OpKind::RecvDone));
    descriptor.extend(sizes(values));
    Ok(descriptor)
}

/// `send` to another device.
pub(super) fn send(computation: &Computation, instruction: &Instruction, count: DeviceCount) -> Result<Call, String> {
    let descriptor = channel(instruction, count, &array_operands(computation, instruction))?;
    Ok(Call::new("halo_send_to_device", descriptor, vec![Argument::Operands]))
}

/// `recv` from another device.
pub(super) fn receive(instruction: &Instruction, count: DeviceCount) -> Result<Call, String> {
    let descriptor = channel(instruction, count, &arrays(&instruction.shape))?;
    Ok(Call::new("halo_receive_from_device", descriptor, vec![Argument::Results]))
}
