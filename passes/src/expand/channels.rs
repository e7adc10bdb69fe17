//! `send` and `recv`: what one sends on a channel is what the other gets next.
//!
//! Where a program of one device does both in one computation, each `recv-done` is simply what was sent. Otherwise the
//! value goes through the channel's queue at run time, and only `send` and `recv-done` are left, which then has the pairs of
//! devices that its `recv` names. Tokens stay, as they order these.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hlo::attributes::Attributes;
use hlo::devices::DeviceCount;
use hlo::dialect;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::send_recv::ChannelAttributes;
use hlo::shape::Shape;
use melior::ir::BlockRef;
use melior::ir::operation::OperationLike;
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::GraphBuilder;
use crate::registry::PassError;

/// Whether the operation belongs to a channel.
pub(super) fn is_channel(kind: OpKind) -> bool {
    matches!(kind, OpKind::Send | OpKind::SendDone | OpKind::Recv | OpKind::RecvDone)
}

/// The attributes of an operation on a channel. Operations without a channel share one.
fn channel_attributes(instruction: &Instruction) -> Result<ChannelAttributes, PassError> {
    instruction.attributes().map_err(|error| PassError::bug(format!("`{}`: {error}", instruction.name)))
}

/// How a program uses a channel.
struct Usage<'c, 'r> {
    /// The block that was the first to use it.
    block: Option<BlockRef<'c, 'r>>,
    /// Sent and not received.
    waiting: usize,
    /// Whether all values are received where they are sent.
    is_local: bool,
}

/// The channels of a program.
pub(super) struct Channels {
    local: BTreeSet<Option<i64>>,
    /// Whether values go from one device to another.
    among_devices: bool,
}

impl Channels {
    pub(super) fn of(rewriter: &Rewriter<'_, '_>, count: DeviceCount) -> Result<Self, PassError> {
        if count.total() > 1 {
            return Ok(Channels { local: BTreeSet::new(), among_devices: true });
        }
        let mut usages: BTreeMap<Option<i64>, Usage> = BTreeMap::new();
        for operation in rewriter.operations() {
            let kind = dialect::kind_of(operation);
            let Some(kind @ (OpKind::Send | OpKind::RecvDone)) = kind else { continue };
            let instruction = dialect::operation_to_instruction(operation)?;
            let is_send = kind == OpKind::Send;
            let block = operation.block();
            let attributes = channel_attributes(&instruction)?;
            let usage = usages.entry(attributes.channel_id).or_insert(Usage { block, waiting: 0, is_local: true });
            usage.is_local &= usage.block == block && !attributes.is_host_transfer;
            match usage.waiting.checked_sub(1) {
                _ if is_send => usage.waiting += 1,
                Some(waiting) => usage.waiting = waiting,
                None => usage.is_local = false,
            }
        }
        let is_local = |(_, usage): &(Option<i64>, Usage)| usage.is_local && usage.waiting == 0;
        let local = usages.into_iter().filter(is_local).map(|(channel, _)| channel).collect();
        Ok(Channels { local, among_devices: false })
    }

    fn is_local(&self, channel: Option<i64>) -> bool {
        self.local.contains(&channel)
    }
}

/// What is under way in one computation.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Values sent and not yet received, by local channel.
    values: BTreeMap<Option<i64>, VecDeque<InstructionId>>,
    /// Annotations of each `recv`, by its value.
    receives: BTreeMap<InstructionId, Vec<(String, String)>>,
    /// Tokens of the `send`s so far that go through a queue.
    tokens: Vec<InstructionId>,
}

impl Sent {
    /// Expands an operation on a channel.
    pub(super) fn expand(
        &mut self,
        channels: &Channels,
        builder: &mut GraphBuilder,
        instruction: &Instruction,
        operands: &[InstructionId],
    ) -> Option<InstructionId> {
        let channel = channel_attributes(instruction).ok()?.channel_id;
        let is_local = channels.is_local(channel);
        match (instruction.kind, operands) {
            (OpKind::Send, &[value, token]) if is_local => {
                self.values.entry(channel).or_default().push_back(value);
                in_flight(builder, instruction, value, token)
            }
            (OpKind::Send, &[value, _]) => {
                let sent = builder.push(instruction.clone());
                let token = builder.element(sent, 2);
                self.tokens.push(token);
                in_flight(builder, instruction, value, token)
            }
            (OpKind::SendDone, &[sent]) => Some(builder.element(sent, 2)),
            (OpKind::Recv, &[token]) => {
                let value = instruction.shape.as_tuple()?.first()?;
                let value = builder.zeros(value);
                let received = in_flight(builder, instruction, value, token)?;
                self.receives.insert(received, instruction.annotations.clone());
                Some(received)
            }
            (OpKind::RecvDone, &[received]) if is_local => {
                let value = self.values.get_mut(&channel)?.pop_front()?;
                let token = builder.element(received, 2);
                Some(builder.tuple(&[value, token]))
            }
            (OpKind::RecvDone, &[received]) if channels.among_devices => {
                let annotations = self.receives.remove(&received)?;
                let [value, context, token] = [0, 1, 2].map(|index| builder.element(received, index));
                // What another device waits for is sent before this one waits, whatever order passes choose.
                let tokens: Vec<InstructionId> = [token].iter().chain(&self.tokens).copied().collect();
                let token = builder.add(OpKind::AfterAll, Shape::Token, &tokens, Attributes::new());
                let received = builder.tuple(&[value, context, token]);
                Some(builder.push(Instruction { annotations, operands: vec![received], ..instruction.clone() }))
            }
            _ => None,
        }
    }
}

/// (value, context, token): what a start hands to its done.
fn in_flight(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    value: InstructionId,
    token: InstructionId,
) -> Option<InstructionId> {
    let context = builder.zeros(instruction.shape.as_tuple()?.get(1)?);
    Some(builder.tuple(&[value, context, token]))
}
