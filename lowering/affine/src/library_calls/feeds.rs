//! infeed, outfeed, send and recv: values from and to queues.
//!
//! Descriptors: the channel (0 for the feeds), the number of arrays, then element type, rank and dimensions of each.

use hlo::graph::{Computation, Instruction};
use hlo::ops::send_recv::ChannelAttributes;
use hlo::shape::ArrayShape;

use super::{Argument, Call, array_operands, arrays, attributes_of, shape_words};

/// The channel of the feeds, and of sends and receives that name none.
const UNNAMED: i64 = 0;

pub(super) fn infeed(instruction: &Instruction) -> Call {
    let descriptor = descriptor(UNNAMED, &arrays(&instruction.shape));
    Call::new("halo_infeed", descriptor, vec![Argument::Results])
}

pub(super) fn outfeed(computation: &Computation, instruction: &Instruction) -> Call {
    let descriptor = descriptor(UNNAMED, &array_operands(computation, instruction));
    Call::new("halo_outfeed", descriptor, vec![Argument::Operands])
}

/// The value is taken when `send` runs; `send-done` has nothing left to do.
pub(super) fn send(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let descriptor = descriptor(channel(instruction)?, &array_operands(computation, instruction));
    Ok(Call::new("halo_send", descriptor, vec![Argument::Operands]))
}

/// The value of a `recv` arrives at its `recv-done`.
pub(super) fn receive(instruction: &Instruction) -> Result<Call, String> {
    let descriptor = descriptor(channel(instruction)?, &arrays(&instruction.shape));
    Ok(Call::new("halo_receive", descriptor, vec![Argument::Results]))
}

/// The queue of a channel; programs that name none share one.
fn channel(instruction: &Instruction) -> Result<i64, String> {
    Ok(attributes_of::<ChannelAttributes>(instruction)?.channel_id.unwrap_or(UNNAMED))
}

fn descriptor(channel: i64, values: &[&ArrayShape]) -> Vec<i64> {
    let mut words = vec![channel, values.len() as i64];
    words.extend(values.iter().copied().flat_map(shape_words));
    words
}
