//! Collectives: values exchanged between the devices that run one program.
//!
//! The compiler brings every collective into one of four forms (`Exchange`) on whole blocks of bytes; what combines or
//! rearranges elements is ordinary code around the exchange. Lists of groups in descriptors are their number, then the size
//! and the devices of each.

use super::{
    RunContext,
    context::context_at,
    devices::{Contribution, Devices},
    primitive_type,
};
use std::{ptr, slice};

/// How members of a group exchange blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchange {
    /// The operands of all, one after another.
    Gather,
    /// From each operand the block with the receiver's number.
    Transpose,
    /// The operand of the first.
    Broadcast,
    /// The operand of the device that sends to this one.
    Permute,
}

impl Exchange {
    fn of(word: i64) -> Result<Self, String> {
        Ok(match word {
            0 => Exchange::Gather,
            1 => Exchange::Transpose,
            2 => Exchange::Broadcast,
            3 => Exchange::Permute,
            other => return Err(format!("there is no exchange {other}")),
        })
    }
}

/// The words of a descriptor, in order.
struct Words {
    address: *const i64,
    read: Vec<i64>,
}

impl Words {
    /// # Safety
    /// The address must be that of as many words as will be read.
    unsafe fn at(address: *const i64) -> Self {
        Words { address, read: Vec::new() }
    }

    fn next(&mut self) -> i64 {
        // SAFETY: words are read in the order in which they were written.
        let word = unsafe { self.address.add(self.read.len()).read() };
        self.read.push(word);
        word
    }

    fn size(&mut self) -> Result<usize, String> {
        usize::try_from(self.next()).map_err(|error| error.to_string())
    }

    fn sizes(&mut self) -> Result<Vec<usize>, String> {
        let count = self.size()?;
        (0..count).map(|_| self.size()).collect()
    }

    /// The group of a device among a list of groups, and its place there.
    fn group_with(&mut self, device: usize) -> Result<Option<(Vec<usize>, usize)>, String> {
        let count = self.size()?;
        let mut found = None;
        for _ in 0..count {
            let group = self.sizes()?;
            if let Some(place) = group.iter().position(|&member| member == device) {
                found = Some((group, place));
            }
        }
        Ok(found)
    }
}

/// The name of an instruction.
///
/// # Safety
/// The address must be that of so many bytes.
unsafe fn name_at<'a>(address: *const u8, length: usize) -> Result<&'a str, String> {
    // SAFETY: the caller's promise.
    std::str::from_utf8(unsafe { slice::from_raw_parts(address, length) }).map_err(|error| error.to_string())
}

/// Runs `body` for the device of a context; an error fails the execution.
///
/// # Safety
/// `context` must be null or live.
unsafe fn on_device(context: *const RunContext, what: &str, body: impl FnOnce(&Devices, usize) -> Result<(), String>) {
    // SAFETY: the caller's promise.
    let Some(context) = (unsafe { context_at(context) }) else { return };
    context.guard(what, || {
        let (devices, number) = context.device().ok_or("the program runs on one device")?;
        body(devices, number)
    });
}

/// Writes the number of this device: descriptor 0 among the replicas, 1 among the partitions.
///
/// # Safety
/// `context` must be null or live, `result` the address of a `u32`.
pub unsafe extern "C" fn halo_device_number(context: *const RunContext, descriptor: *const i64, result: *mut u32) {
    let write = |devices: &Devices, device| {
        // SAFETY: the caller's promise.
        let number =
            if unsafe { descriptor.read() } == 0 { devices.replica(device) } else { devices.partition(device) };
        // SAFETY: the caller's promise.
        unsafe { result.write(number as u32) };
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { on_device(context, "replica-id or partition-id", write) };
}

/// Whether a loop may go on: not in an execution that has failed.
///
/// # Safety
/// `context` must be null or live.
pub unsafe extern "C" fn halo_goes_on(context: *const RunContext) -> u8 {
    // SAFETY: the caller's promise.
    let device = unsafe { context_at(context) }.and_then(RunContext::device);
    device.is_none_or(|(devices, _)| devices.failure().is_none()).into()
}

/// Exchanges arrays among a group. Descriptor: the form, the length of the name, the groups, for each device the one it
/// receives from (-1 for none; a list that only `Permute` has), the number of arrays, then bytes of each operand and the
/// byte of what nobody sends.
///
/// # Safety
/// `context` must be null or live, `name` that of so many bytes, `operands` and `results` tables of buffers as the
/// descriptor says.
pub unsafe extern "C" fn halo_exchange(
    context: *const RunContext,
    descriptor: *const i64,
    name: *const u8,
    operands: *const *const u8,
    results: *const *mut u8,
) {
    let exchange = |devices: &Devices, device: usize| {
        // SAFETY: the caller's promise.
        let mut words = unsafe { Words::at(descriptor) };
        let form = Exchange::of(words.next())?;
        // SAFETY: the caller's promise.
        let name = unsafe { name_at(name, words.size()?)? };
        let group = words.group_with(device)?;
        let count = words.size()?;
        let sources: Vec<i64> = (0..count).map(|_| words.next()).collect();
        let source = sources.get(device).and_then(|&source| usize::try_from(source).ok());
        let count = words.size()?;
        let arrays = (0..count).map(|_| Ok((words.size()?, words.next() as u8))).collect::<Result<Vec<_>, String>>()?;
        // SAFETY: the caller's promise.
        let result = |number: usize| unsafe { *results.add(number) };
        let nothing = || {
            for (number, &(size, fill)) in arrays.iter().enumerate() {
                // SAFETY: a result is as large as its operand.
                unsafe { result(number).write_bytes(fill, size) };
            }
        };
        let Some((group, place)) = group else {
            nothing();
            return Ok(());
        };
        // SAFETY: the caller's promise.
        let addresses = (0..arrays.len()).map(|number| unsafe { *operands.add(number) } as usize).collect();
        let contribution = Contribution { operands: addresses, descriptor: words.read };
        devices.meet(name, device, &group, contribution, |all| {
            let from = match form {
                Exchange::Gather | Exchange::Transpose => 0..all.len(),
                Exchange::Broadcast => 0..1,
                Exchange::Permute => match source.and_then(|source| group.iter().position(|&other| other == source)) {
                    Some(sender) => sender..sender + 1,
                    None => {
                        nothing();
                        return Ok(());
                    }
                },
            };
            let parts = if form == Exchange::Transpose { all.len() } else { 1 };
            for (number, &(size, _)) in arrays.iter().enumerate() {
                let block = size / parts;
                let skipped = if form == Exchange::Transpose { place * block } else { 0 };
                for (position, member) in from.clone().enumerate() {
                    let operand = *all[member].operands.get(number).ok_or("an operand is missing")? as *const u8;
                    // SAFETY: members stay until all have copied; operands have `size` bytes, and a result one block for
                    // each member it is from.
                    unsafe { ptr::copy(operand.add(skipped), result(number).add(position * block), block) };
                }
            }
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { on_device(context, "collective", exchange) };
}

/// Exchanges rows of arrays among a group. Descriptor: the length of the name, the groups, rows of the input and of the
/// output, bytes of a row, element type and number of the offsets. Operands: input, output, offsets in the sender's input,
/// numbers of rows, offsets in the receiver's output, numbers of rows received; of the offsets, as many for each receiver.
///
/// # Safety
/// As for [`halo_exchange`].
pub unsafe extern "C" fn halo_ragged_all_to_all(
    context: *const RunContext,
    descriptor: *const i64,
    name: *const u8,
    operands: *const *const u8,
    results: *const *mut u8,
) {
    let exchange = |devices: &Devices, device: usize| {
        // SAFETY: the caller's promise.
        let mut words = unsafe { Words::at(descriptor) };
        // SAFETY: the caller's promise.
        let name = unsafe { name_at(name, words.size()?)? };
        let (group, place) = words.group_with(device)?.ok_or("the device is in no group")?;
        let [input_rows, output_rows, row] = [words.size()?, words.size()?, words.size()?];
        let (offset_type, offset_count) = (words.next(), words.size()?);
        // SAFETY: the caller's promise: six operands, one result.
        let (operand, result) = (|number: usize| unsafe { *operands.add(number) }, unsafe { *results });
        if operand(1) != result.cast_const() {
            // SAFETY: output and result have the same shape.
            unsafe { ptr::copy(operand(1), result, output_rows * row) };
        }
        let addresses = [0, 2, 3, 4].map(|number| operand(number) as usize).to_vec();
        let contribution = Contribution { operands: addresses, descriptor: words.read };
        devices.meet(name, device, &group, contribution, |all| {
            let each = offset_count / group.len();
            for (sender, member) in all.iter().enumerate() {
                let [input, offsets, counts, targets] = member.operands[..] else {
                    return Err("an operand is missing".to_string());
                };
                for number in place * each..(place + 1) * each {
                    let read = |address: usize| {
                        // SAFETY: members stay until all have copied; the numbers are below the offsets' own.
                        unsafe { index_at(address as *const u8, offset_type, number) }
                    };
                    let (first, count, target) = (read(offsets)?, read(counts)?, read(targets)?);
                    let rows = |first: i64, limit: usize| {
                        let (first, count) = (usize::try_from(first).ok()?, usize::try_from(count).ok()?);
                        first.checked_add(count).filter(|&end| end <= limit).map(|_| first * row)
                    };
                    let (Some(from), Some(to)) = (rows(first, input_rows), rows(target, output_rows)) else {
                        return Err(format!(
                            "rows outside the input or the output: {count} from {first} of device {} to {target} of {output_rows}",
                            group[sender]
                        ));
                    };
                    // SAFETY: both ranges are inside their arrays. Nobody reads results while members copy.
                    unsafe { ptr::copy((input as *const u8).add(from), result.add(to), count as usize * row) };
                }
            }
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { on_device(context, "ragged-all-to-all", exchange) };
}

/// An integer of an array.
///
/// # Safety
/// The address must be that of an array of this type with more elements than `number`.
unsafe fn index_at(address: *const u8, element_type: i64, number: usize) -> Result<i64, String> {
    // SAFETY: the caller's promise.
    unsafe {
        Ok(match element_type {
            primitive_type::S8 => address.cast::<i8>().add(number).read().into(),
            primitive_type::U8 => address.add(number).read().into(),
            primitive_type::S16 => address.cast::<i16>().add(number).read().into(),
            primitive_type::U16 => address.cast::<u16>().add(number).read().into(),
            primitive_type::S32 => address.cast::<i32>().add(number).read().into(),
            primitive_type::U32 => address.cast::<u32>().add(number).read().into(),
            primitive_type::S64 => address.cast::<i64>().add(number).read(),
            primitive_type::U64 => i64::try_from(address.cast::<u64>().add(number).read()).unwrap_or(i64::MAX),
            other => return Err(format!("offsets of element type {other}")),
        })
    }
}

/// What a channel among devices is to one of them.
struct ChannelEnd {
    channel: i64,
    partner: Option<usize>,
    /// Bytes of each array, and the byte of what nobody sends.
    arrays: Vec<(usize, u8)>,
}

/// What the descriptor of a channel among devices says: channel, for each device its partner (-1 for none), bytes of each
/// array and the byte of what nobody sends.
///
/// # Safety
/// The address must be that of a descriptor.
unsafe fn channel_at(descriptor: *const i64, device: usize) -> Result<ChannelEnd, String> {
    // SAFETY: the caller's promise.
    let mut words = unsafe { Words::at(descriptor) };
    let channel = words.next();
    let count = words.size()?;
    let partners: Vec<i64> = (0..count).map(|_| words.next()).collect();
    let partner = partners.get(device).and_then(|&partner| usize::try_from(partner).ok());
    let count = words.size()?;
    let arrays = (0..count).map(|_| Ok((words.size()?, words.next() as u8))).collect::<Result<_, String>>()?;
    Ok(ChannelEnd { channel, partner, arrays })
}

/// Sends arrays to the device that is this one's partner on a channel, if it has one.
///
/// # Safety
/// `context` must be null or live, `operands` a table of buffers as the descriptor says (see `channel_at`).
pub unsafe extern "C" fn halo_send_to_device(
    context: *const RunContext,
    descriptor: *const i64,
    operands: *const *const u8,
) {
    let send = |devices: &Devices, device: usize| {
        // SAFETY: the caller's promise.
        let ChannelEnd { channel, partner: target, arrays } = unsafe { channel_at(descriptor, device)? };
        if let Some(target) = target {
            let bytes = |(number, &(size, _)): (usize, &(usize, u8))| {
                // SAFETY: the caller's promise.
                unsafe { slice::from_raw_parts(*operands.add(number), size) }.to_vec()
            };
            devices.send(channel, device, target, arrays.iter().enumerate().map(bytes).collect());
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { on_device(context, "send", send) };
}

/// Waits for arrays of the device that is this one's partner on a channel; zeros if it has none.
///
/// # Safety
/// As for [`halo_send_to_device`], with `results`.
pub unsafe extern "C" fn halo_receive_from_device(
    context: *const RunContext,
    descriptor: *const i64,
    results: *const *mut u8,
) {
    let receive = |devices: &Devices, device: usize| {
        // SAFETY: the caller's promise.
        let ChannelEnd { channel, partner: source, arrays } = unsafe { channel_at(descriptor, device)? };
        let value = source.map(|source| devices.receive(channel, source, device)).transpose()?;
        for (number, &(size, fill)) in arrays.iter().enumerate() {
            // SAFETY: the caller's promise.
            let result = unsafe { slice::from_raw_parts_mut(*results.add(number), size) };
            match &value {
                None => result.fill(fill),
                Some(value) => match value.get(number).filter(|bytes| bytes.len() == size) {
                    Some(bytes) => result.copy_from_slice(bytes),
                    None => return Err("the value sent has another shape".to_string()),
                },
            }
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { on_device(context, "recv", receive) };
}
