//===- HloCommunicationOps.td - collectives, channels, infeed -------------===//

#ifndef HLO_COMMUNICATION_OPS
#define HLO_COMMUNICATION_OPS

include "HloOpBase.td"

//===----------------------------------------------------------------------===//
// Collectives: operations that all replicas of a group execute together
//===----------------------------------------------------------------------===//

defvar Hlo_CollectiveArguments = (ins
  Variadic<Hlo_Value>:$operands,
  OptionalAttr<I64Attr>:$channel_id,
  OptionalAttr<Hlo_ReplicaGroups>:$replica_groups,
  OptionalAttr<BoolAttr>:$constrain_layout
);

class Hlo_AllGatherBase<string mnemonic> : Hlo_Op<mnemonic> {
  let arguments = !con(Hlo_CollectiveArguments, (ins OptionalAttr<DenseI64ArrayAttr>:$dimensions,
                                                     OptionalAttr<BoolAttr>:$use_global_device_ids,
                                                     OptionalAttr<StrAttr>:$mode));
}
class Hlo_AllReduceBase<string mnemonic> : Hlo_RegionOp<mnemonic, []> {
  let arguments = !con(Hlo_CollectiveArguments, (ins OptionalAttr<BoolAttr>:$use_global_device_ids,
                                                     OptionalAttr<StrAttr>:$mode));
  let regions = (region Hlo_Computation:$to_apply);
}
class Hlo_CollectivePermuteBase<string mnemonic> : Hlo_Op<mnemonic> {
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<I64Attr>:$channel_id, ArrayAttr:$source_target_pairs,
                       OptionalAttr<ArrayAttr>:$slice_sizes);
}
class Hlo_DoneOp<string mnemonic> : Hlo_Op<mnemonic> {
  let arguments = (ins Hlo_Value:$operand);
}

def Hlo_AllGatherOp : Hlo_AllGatherBase<"all_gather"> {
  let summary = "concatenation over replicas";
  let description = [{
    The operands of all replicas of the group, in the group's order, one after the other along the dimension.
  }];
}
def Hlo_AllGatherStartOp : Hlo_AllGatherBase<"all_gather_start"> {
  let summary = "starts an all_gather";
  let description = [{Tuple of the operands and the result to be.}];
}
def Hlo_AllGatherDoneOp : Hlo_DoneOp<"all_gather_done"> {
  let summary = "waits for an all_gather";
  let description = [{The result of the `all_gather_start`.}];
}
def Hlo_AllReduceOp : Hlo_AllReduceBase<"all_reduce"> {
  let summary = "reduction over replicas";
  let description = [{Combines the operands of all replicas of the group, element by element, by `to_apply`.}];
}
def Hlo_AllReduceStartOp : Hlo_AllReduceBase<"all_reduce_start"> {
  let summary = "starts an all_reduce";
  let description = [{The result to be.}];
}
def Hlo_AllReduceDoneOp : Hlo_DoneOp<"all_reduce_done"> {
  let summary = "waits for an all_reduce";
  let description = [{The result of the `all_reduce_start`.}];
}
def Hlo_AllToAllOp : Hlo_Op<"all_to_all"> {
  let summary = "exchange of parts between all replicas";
  let description = [{
    Each replica cuts its operand along the dimension into as many parts as the group has members, sends part `i` to
    member `i`, and concatenates what it gets. With several operands, these are the parts and the result is a tuple.
  }];
  let arguments = !con(Hlo_CollectiveArguments, (ins OptionalAttr<DenseI64ArrayAttr>:$dimensions,
                                                     OptionalAttr<StrAttr>:$mode));
}
def Hlo_CollectiveBroadcastOp : Hlo_Op<"collective_broadcast"> {
  let summary = "value of the first replica of the group";
  let description = [{Every replica gets the operand of the first member of its group; those in no group get zeros.}];
  let arguments = !con(Hlo_CollectiveArguments, (ins OptionalAttr<StrAttr>:$mode));
}
def Hlo_CollectivePermuteOp : Hlo_CollectivePermuteBase<"collective_permute"> {
  let summary = "exchange of values along pairs";
  let description = [{
    For each pair in `source_target_pairs`, the target gets the source's operand; replicas that are no target get
    zeros.
  }];
}
def Hlo_CollectivePermuteStartOp : Hlo_CollectivePermuteBase<"collective_permute_start"> {
  let summary = "starts a collective_permute";
  let description = [{Tuple of the operand, the result to be, and contexts.}];
}
def Hlo_CollectivePermuteDoneOp : Hlo_Op<"collective_permute_done"> {
  let summary = "waits for a collective_permute";
  let description = [{The result of the `collective_permute_start`.}];
  let arguments = (ins Hlo_Value:$operand, OptionalAttr<I64Attr>:$channel_id);
}
def Hlo_RaggedAllToAllOp : Hlo_Op<"ragged_all_to_all"> {
  let summary = "exchange of parts of different sizes";
  let description = [{
    The operands are the input, the output to write into, the offsets and sizes of the parts sent, and the offsets
    and sizes of the parts received.
  }];
  let arguments = !con(Hlo_CollectiveArguments, (ins OptionalAttr<DenseI64ArrayAttr>:$dimensions,
                                                     OptionalAttr<StrAttr>:$mode));
}
def Hlo_ReduceScatterOp : Hlo_RegionOp<"reduce_scatter", []> {
  let summary = "reduction over replicas of which each keeps a part";
  let description = [{
    Combines the operands as `all_reduce` does, cuts the result along the dimension, and gives member `i` part `i`.
  }];
  let arguments = !con(Hlo_CollectiveArguments, (ins OptionalAttr<BoolAttr>:$use_global_device_ids,
                                                     DenseI64ArrayAttr:$dimensions, OptionalAttr<StrAttr>:$mode));
  let regions = (region Hlo_Computation:$to_apply);
}

//===----------------------------------------------------------------------===//
// Channels, infeed and outfeed
//===----------------------------------------------------------------------===//

defvar Hlo_ChannelAttributes = (ins OptionalAttr<I64Attr>:$channel_id, OptionalAttr<BoolAttr>:$is_host_transfer);

def Hlo_SendOp : Hlo_Op<"send"> {
  let summary = "starts to send a value";
  let description = [{Tuple of the operand, a context and a token.}];
  let arguments = !con((ins Hlo_Value:$operand, Hlo_Value:$token), Hlo_ChannelAttributes);
}
def Hlo_SendDoneOp : Hlo_Op<"send_done"> {
  let summary = "waits until a value is sent";
  let description = [{A token.}];
  let arguments = !con((ins Hlo_Value:$operand), Hlo_ChannelAttributes);
}
def Hlo_RecvOp : Hlo_Op<"recv"> {
  let summary = "starts to receive a value";
  let description = [{Tuple of the value to be, a context and a token.}];
  let arguments = !con((ins Hlo_Value:$token), Hlo_ChannelAttributes);
}
def Hlo_RecvDoneOp : Hlo_Op<"recv_done"> {
  let summary = "waits until a value is received";
  let description = [{Tuple of the value and a token.}];
  let arguments = !con((ins Hlo_Value:$operand), Hlo_ChannelAttributes);
}
def Hlo_InfeedOp : Hlo_Op<"infeed"> {
  let summary = "next value that the host feeds";
  let description = [{Tuple of the value and a token.}];
  let arguments = (ins Hlo_Value:$token, OptionalAttr<StrAttr>:$infeed_config);
}
def Hlo_OutfeedOp : Hlo_Op<"outfeed"> {
  let summary = "hands a value to the host";
  let description = [{A token. The operands are the value, which may be missing, and a token.}];
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<TypeAttr>:$outfeed_shape,
                       OptionalAttr<StrAttr>:$outfeed_config);
}

#endif // HLO_COMMUNICATION_OPS
