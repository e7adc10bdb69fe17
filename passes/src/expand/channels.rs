//! `send` and `recv` within one program: what is sent on a channel is what the next `recv-done` of it gets.
//!
//! A `recv-done` before its `send`, or in another computation, cannot be served here and stays.

use std::collections::{BTreeMap, VecDeque};

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::Shape;

use super::asynchronous::with_contexts;
use crate::graph_builder::GraphBuilder;

/// Values sent and not yet received, by channel; transfers from and to the host are not among them.
#[derive(Debug, Default)]
pub(super) struct Channels {
    sent: BTreeMap<i64, VecDeque<InstructionId>>,
}

/// Whether the operation belongs to a channel.
pub(super) fn is_channel(kind: OpKind) -> bool {
    matches!(kind, OpKind::Send | OpKind::SendDone | OpKind::Recv | OpKind::RecvDone)
}

impl Channels {
    /// Expands an operation on a channel.
    pub(super) fn expand(
        &mut self,
        builder: &mut GraphBuilder,
        instruction: &Instruction,
        operands: &[InstructionId],
    ) -> Option<InstructionId> {
        if instruction.attributes.flag("is_host_transfer") {
            return None;
        }
        let channel = instruction.attributes.int("channel_id").unwrap_or(0);
        match instruction.kind {
            OpKind::Send => {
                let value = *operands.first()?;
                self.sent.entry(channel).or_default().push_back(value);
                with_contexts(builder, instruction, &[value])
            }
            OpKind::SendDone => Some(builder.zeros(&Shape::Token)),
            OpKind::Recv => with_contexts(builder, instruction, &[]),
            OpKind::RecvDone => {
                let value = self.sent.get_mut(&channel)?.pop_front()?;
                let token = builder.zeros(&Shape::Token);
                Some(builder.tuple(&[value, token]))
            }
            _ => None,
        }
    }
}
