//! infeed, outfeed, send and recv: values from and to queues.
//!
//! Descriptors: the channel (0 for the feeds), the number of arrays, then element type, rank and dimensions of each.

use hlo::graph::{Computation, Instruction};
use hlo::shape::ArrayShape;

use super::{Argument, Call, array_operands, arrays, shape_words};

pub(super) fn infeed(instruction: &Instruction) -> Call {
    let descriptor = descriptor(0, &arrays(&instruction.shape));
    Call { symbol: "halo_infeed", descriptor, arguments: vec![Argument::Results] }
}

pub(super) fn outfeed(computation: &Computation, instruction: &Instruction) -> Call {
    let descriptor = descriptor(0, &array_operands(computation, instruction));
    Call { symbol: "halo_outfeed", descriptor, arguments: vec![Argument::Operands] }
}

/// The value is taken when `send` runs; `send-done` has nothing left to do.
pub(super) fn send(computation: &Computation, instruction: &Instruction) -> Call {
    let descriptor = descriptor(channel(instruction), &array_operands(computation, instruction));
    Call { symbol: "halo_send", descriptor, arguments: vec![Argument::Operands] }
}

/// The value of a `recv` arrives at its `recv-done`.
pub(super) fn receive(instruction: &Instruction) -> Call {
    let descriptor = descriptor(channel(instruction), &arrays(&instruction.shape));
    Call { symbol: "halo_receive", descriptor, arguments: vec![Argument::Results] }
}

fn channel(instruction: &Instruction) -> i64 {
    instruction.attributes.int("channel_id").unwrap_or(0)
}

fn descriptor(channel: i64, values: &[&ArrayShape]) -> Vec<i64> {
    let mut words = vec![channel, values.len() as i64];
    words.extend(values.iter().copied().flat_map(shape_words));
    words
}
