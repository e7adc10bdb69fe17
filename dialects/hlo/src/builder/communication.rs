//! Values from and to the host, other computations and other replicas.

use super::{Draft, HloBuilder, Op};
use crate::attributes::ReplicaGroups;
use crate::op_kind::OpKind;
use crate::ops::all_gather::AllGatherAttributes;
use crate::ops::all_reduce::AllReduceAttributes;
use crate::ops::all_to_all::AllToAllAttributes;
use crate::ops::collective_broadcast::CollectiveBroadcastAttributes;
use crate::ops::collective_permute::CollectivePermuteAttributes;
use crate::ops::infeed_outfeed::OutfeedAttributes;
use crate::ops::reduce_scatter::ReduceScatterAttributes;
use crate::ops::send_recv::ChannelAttributes;
use crate::ops::typed_attributes::Dimension;
use crate::shape::Shape;

fn explicit(groups: &[Vec<i64>]) -> ReplicaGroups {
    ReplicaGroups::Explicit(groups.to_vec())
}

fn channel(number: i64) -> ChannelAttributes {
    ChannelAttributes { channel_id: Some(number), ..ChannelAttributes::new() }
}

impl HloBuilder {
    /// The token that orders this computation's infeeds and outfeeds.
    #[track_caller]
    fn feed_token<'b>(&'b self) -> Op<'b> {
        let token = self.parts.borrow().feed_token;
        token.map_or_else(|| self.after_all(&[]), |id| Op::new(self, Some(id)))
    }

    fn set_feed_token(&self, token: Op<'_>) {
        self.parts.borrow_mut().feed_token = token.id();
    }

    /// The next value, of the given shape, from the host's queue. Infeeds and outfeeds of a computation happen in the
    /// order of their calls.
    #[track_caller]
    pub fn infeed<'b>(&'b self, shape: impl Into<Shape>) -> Op<'b> {
        let result = self.infeed_with_token(self.feed_token(), shape);
        self.set_feed_token(self.get_tuple_element(result, 1));
        self.get_tuple_element(result, 0)
    }

    /// The next value from the host's queue after a token: a tuple of the value and a token.
    #[track_caller]
    pub fn infeed_with_token<'b>(&'b self, token: Op<'b>, shape: impl Into<Shape>) -> Op<'b> {
        self.push(Draft::new(OpKind::Infeed, &[token]).declared(Shape::Tuple(vec![shape.into(), Shape::Token])))
    }

    /// Hands a value to the host's queue.
    #[track_caller]
    pub fn outfeed<'b>(&'b self, operand: Op<'b>) {
        let Some(shape) = self.shape_of(operand) else { return };
        self.set_feed_token(self.outfeed_with_token(operand, self.feed_token(), shape));
    }

    /// Hands a value to the host's queue after a token; a token.
    #[track_caller]
    pub fn outfeed_with_token<'b>(&'b self, operand: Op<'b>, token: Op<'b>, shape: impl Into<Shape>) -> Op<'b> {
        let attributes = OutfeedAttributes { outfeed_shape: Some(&shape.into()), ..OutfeedAttributes::new() };
        self.push(Draft::new(OpKind::Outfeed, &[operand, token]).with_attributes(attributes))
    }

    /// Sends a value over a channel, and waits until it is sent.
    #[track_caller]
    pub fn send<'b>(&'b self, operand: Op<'b>, channel: i64) -> Op<'b> {
        self.send_with_token(operand, self.after_all(&[]), channel)
    }

    /// Sends a value over a channel after a token; a token that is there when it is sent.
    #[track_caller]
    pub fn send_with_token<'b>(&'b self, operand: Op<'b>, token: Op<'b>, channel: i64) -> Op<'b> {
        let attributes = self::channel(channel);
        let sending = self.push(Draft::new(OpKind::Send, &[operand, token]).with_attributes(attributes));
        self.push(Draft::new(OpKind::SendDone, &[sending]).with_attributes(attributes))
    }

    /// The value, of the given shape, that is sent over a channel.
    #[track_caller]
    pub fn recv<'b>(&'b self, shape: impl Into<Shape>, channel: i64) -> Op<'b> {
        self.get_tuple_element(self.recv_with_token(self.after_all(&[]), shape, channel), 0)
    }

    /// The value that is sent over a channel, received after a token: a tuple of the value and a token.
    #[track_caller]
    pub fn recv_with_token<'b>(&'b self, token: Op<'b>, shape: impl Into<Shape>, channel: i64) -> Op<'b> {
        let attributes = self::channel(channel);
        let declared = Shape::Tuple(vec![shape.into()]);
        let receiving = self.push(Draft::new(OpKind::Recv, &[token]).with_attributes(attributes).declared(declared));
        self.push(Draft::new(OpKind::RecvDone, &[receiving]).with_attributes(attributes))
    }

    /// The operands of all replicas of a group joined along a dimension; `shard_count` is the size of the groups.
    #[track_caller]
    pub fn all_gather<'b>(
        &'b self,
        operand: Op<'b>,
        dimension: i64,
        shard_count: i64,
        groups: &[Vec<i64>],
        channel: Option<i64>,
    ) -> Op<'b> {
        let Some(mut result) = self.array_of("all_gather", operand) else { return self.nothing() };
        let position = usize::try_from(dimension).ok().filter(|&position| position < result.rank());
        let size = position.and_then(|position| result.dimensions[position].checked_mul(shard_count));
        let (Some(position), Some(size)) = (position, size) else {
            let message =
                format!("takes a dimension of {result} and a group size that fit, got {dimension} and {shard_count}");
            return self.fail_rule("all_gather", message);
        };
        result.dimensions[position] = size;
        let attributes = AllGatherAttributes {
            channel_id: channel,
            replica_groups: Some(&explicit(groups)),
            ..AllGatherAttributes::new(Dimension(dimension))
        };
        self.push(Draft::new(OpKind::AllGather, &[operand]).with_attributes(attributes).declared(result))
    }

    /// The operands (an array, or a tuple of arrays) of all replicas of a group combined; without groups, of all
    /// replicas.
    #[track_caller]
    pub fn all_reduce<'b>(
        &'b self,
        operand: Op<'b>,
        combine: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
        groups: &[Vec<i64>],
        channel: Option<i64>,
    ) -> Op<'b> {
        let Some(shape) = self.shape_of(operand) else { return self.nothing() };
        let operands: Vec<Op<'b>> = match &shape {
            Shape::Tuple(elements) => {
                let count = elements.len() as i64;
                let mut operands = Vec::with_capacity(elements.len());
                for index in 0..count {
                    operands.push(self.get_tuple_element(operand, index));
                }
                operands
            }
            _ => vec![operand],
        };
        let Some(&first) = operands.first() else { return operand };
        let Some(array) = self.array_of("all_reduce", first) else { return self.nothing() };
        let scalars = vec![Shape::scalar(array.element_type); 2];
        let combiner = self.nested("all_reduce", &scalars, |b, values| combine(b, values[0], values[1]));
        let attributes = AllReduceAttributes {
            channel_id: channel,
            replica_groups: Some(&explicit(groups)),
            ..AllReduceAttributes::new()
        };
        let draft = Draft::new(OpKind::AllReduce, &operands).with_attributes(attributes);
        self.push(draft.computation(combiner).declared(shape))
    }

    /// The sum over all replicas.
    #[track_caller]
    pub fn cross_replica_sum<'b>(&'b self, operand: Op<'b>) -> Op<'b> {
        self.all_reduce(operand, |_, a, b| a + b, &[], None)
    }

    /// The operand split along one dimension, its parts exchanged among the replicas of a group, and joined along another.
    #[track_caller]
    pub fn all_to_all<'b>(
        &'b self,
        operand: Op<'b>,
        split_dimension: i64,
        concat_dimension: i64,
        split_count: i64,
        groups: &[Vec<i64>],
    ) -> Op<'b> {
        let Some(array) = self.array_of("all_to_all", operand) else { return self.nothing() };
        let position = usize::try_from(split_dimension).ok().filter(|&position| position < array.rank());
        let size = position.map_or(0, |position| array.dimensions[position]);
        if position.is_none() || split_count < 1 || split_count > size.max(1) || size % split_count != 0 {
            let message = format!(
                "takes a dimension of {array} that divides into {split_count} equal parts, got {split_dimension}"
            );
            return self.fail_rule("all_to_all", message);
        }
        let part = size / split_count;
        let mut parts = Vec::new();
        for number in 0..split_count {
            parts.push(self.slice_in_dim(operand, number * part, (number + 1) * part, 1, split_dimension));
        }
        let attributes = AllToAllAttributes { replica_groups: Some(&explicit(groups)), ..AllToAllAttributes::new() };
        let exchanged = self.push(Draft::new(OpKind::AllToAll, &parts).with_attributes(attributes));
        if split_count == 1 {
            return exchanged;
        }
        let mut received = Vec::new();
        for number in 0..split_count {
            received.push(self.get_tuple_element(exchanged, number));
        }
        self.concat_in_dim(&received, concat_dimension)
    }

    /// Values sent from replica to replica, by (source, target) pairs; zeros where none arrives.
    #[track_caller]
    pub fn collective_permute<'b>(&'b self, operand: Op<'b>, pairs: &[(i64, i64)], channel: Option<i64>) -> Op<'b> {
        let pairs: Vec<Vec<i64>> = pairs.iter().map(|&(source, target)| vec![source, target]).collect();
        let attributes =
            CollectivePermuteAttributes { channel_id: channel, ..CollectivePermuteAttributes::new(&pairs) };
        self.push(Draft::new(OpKind::CollectivePermute, &[operand]).with_attributes(attributes))
    }

    /// The operand of the first replica of each group.
    #[track_caller]
    pub fn collective_broadcast<'b>(&'b self, operand: Op<'b>, groups: &[Vec<i64>], channel: Option<i64>) -> Op<'b> {
        let attributes = CollectiveBroadcastAttributes {
            channel_id: channel,
            replica_groups: Some(&explicit(groups)),
            ..CollectiveBroadcastAttributes::new()
        };
        self.push(Draft::new(OpKind::CollectiveBroadcast, &[operand]).with_attributes(attributes))
    }

    /// The operands of all replicas of a group combined and split along a dimension, one part for each of `shard_count`
    /// replicas.
    #[track_caller]
    pub fn reduce_scatter<'b>(
        &'b self,
        operand: Op<'b>,
        combine: impl for<'s> FnOnce(&'s HloBuilder, Op<'s>, Op<'s>) -> Op<'s>,
        dimension: i64,
        shard_count: i64,
        groups: &[Vec<i64>],
        channel: Option<i64>,
    ) -> Op<'b> {
        let Some(array) = self.array_of("reduce_scatter", operand) else { return self.nothing() };
        let position = usize::try_from(dimension).ok().filter(|&position| position < array.rank());
        let Some(position) = position.filter(|_| shard_count > 0) else {
            let message =
                format!("takes a dimension of {array} and a positive group size, got {dimension} and {shard_count}");
            return self.fail_rule("reduce_scatter", message);
        };
        let scalars = vec![Shape::scalar(array.element_type); 2];
        let combiner = self.nested("reduce_scatter", &scalars, |b, values| combine(b, values[0], values[1]));
        let mut result = array;
        result.dimensions[position] /= shard_count;
        let attributes = ReduceScatterAttributes {
            channel_id: channel,
            replica_groups: Some(&explicit(groups)),
            ..ReduceScatterAttributes::new(Dimension(dimension))
        };
        let draft = Draft::new(OpKind::ReduceScatter, &[operand]).with_attributes(attributes);
        self.push(draft.computation(combiner).declared(result))
    }

    /// The number of the replica that runs.
    #[track_caller]
    pub fn replica_id(&self) -> Op<'_> {
        self.push(Draft::new(OpKind::ReplicaId, &[]))
    }

    /// The number of the partition that runs.
    #[track_caller]
    pub fn partition_id(&self) -> Op<'_> {
        self.push(Draft::new(OpKind::PartitionId, &[]))
    }
}
