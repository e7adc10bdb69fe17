//===- HloControlOps.td - constants, tuples, control flow, calls ----------===//

#ifndef HLO_CONTROL_OPS
#define HLO_CONTROL_OPS

include "HloOpBase.td"

//===----------------------------------------------------------------------===//
// Constants, tuples, tokens
//===----------------------------------------------------------------------===//

def Hlo_ConstantOp : Hlo_PureOp<"constant"> {
  let summary = "constant";
  let description = [{
    `value` is an elements attribute for an array, a list for a tuple and `unit` for a token. An array whose value the
    text left out is `dense_resource<__elided__>`.
  }];
  let arguments = (ins AnyAttr:$value);
  let assemblyFormat = "$value attr-dict `->` type($result)";
}
def Hlo_TupleOp : Hlo_PureOp<"tuple"> {
  let summary = "tuple of values";
  let description = [{The operands as a tuple, without copying them.}];
  let arguments = (ins Variadic<Hlo_Value>:$operands);
}
def Hlo_GetTupleElementOp : Hlo_PureOp<"get_tuple_element"> {
  let summary = "element of a tuple";
  let description = [{Element `index` of the operand.}];
  let arguments = (ins Hlo_Value:$operand, I64Attr:$index);
}
def Hlo_AfterAllOp : Hlo_PureOp<"after_all"> {
  let summary = "joins tokens";
  let description = [{A token that comes after all of the operands; without operands, a new one.}];
  let arguments = (ins Variadic<Hlo_Value>:$operands);
}
def Hlo_AddDependencyOp : Hlo_PureOp<"add_dependency"> {
  let summary = "orders a value after a token";
  let description = [{The operand, available only after `token`.}];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$token);
}
def Hlo_OptimizationBarrierOp : Hlo_PureOp<"opt_barrier"> {
  let summary = "hides where values come from";
  let description = [{
    The operand (or the tuple of the operands), which no simplification may look through.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands);
}
def Hlo_DomainOp : Hlo_PureOp<"domain"> {
  let summary = "boundary between parts with different annotations";
  let description = [{The operand; `domain` names the kind and the two sides.}];
  let arguments = (ins Hlo_Value:$operand, StrAttr:$domain);
}
def Hlo_ReplicaIdOp : Hlo_PureOp<"replica_id"> {
  let summary = "number of this replica";
  let description = [{The replica's number as a `u32` scalar.}];
}
def Hlo_PartitionIdOp : Hlo_PureOp<"partition_id"> {
  let summary = "number of this partition";
  let description = [{The partition's number as a `u32` scalar.}];
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

def Hlo_ReturnOp : Op<Hlo_Dialect, "return", [Pure, Terminator]> {
  let summary = "result of a computation";
  let description = [{
    Ends a computation. Its location is the computation's name; `hlo.parameter_positions` and
    `hlo.parameter_annotations` keep what block arguments cannot.
  }];
  let arguments = (ins Hlo_Value:$operand);
  let assemblyFormat = "$operand attr-dict `:` type($operand)";
}
def Hlo_WhileOp
    : Hlo_RegionOp<"while", [RecursiveMemoryEffects], "custom<Computation>($condition) `,` custom<Computation>($body)"> {
  let summary = "loop";
  let description = [{
    Applies `body` to the value as long as `condition` of it holds; the result is the last value.
  }];
  let arguments = (ins Hlo_Value:$init);
  let regions = (region Hlo_Computation:$condition, Hlo_Computation:$body);
}
def Hlo_ConditionalOp
    : Hlo_RegionOp<"conditional", [RecursiveMemoryEffects], "custom<Computations>($branch_computations)"> {
  let summary = "one of several branches";
  let description = [{
    The first operand chooses the branch: a `pred` the first if true and the second if false, an `s32` the branch of
    that number, or the last when there is none. Branch `i` is applied to operand `i + 1`.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands);
  let regions = (region VariadicRegion<Hlo_Computation>:$branch_computations);
}
def Hlo_FusionOp : Hlo_RegionOp<"fusion", [RecursiveMemoryEffects], "custom<Computation>($calls)"> {
  let summary = "operations compiled as one";
  let description = [{
    Applies `calls` to the operands. `kind` (kLoop, kInput, kOutput, kCustom) says how it is meant to be compiled.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, StrAttr:$kind,
                       OptionalAttr<StrAttr>:$output_to_operand_aliasing);
  let regions = (region Hlo_Computation:$calls);
}
def Hlo_CallOp : Hlo_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "call of a function";
  let description = [{Applies the function `to_apply` to the operands.}];
  let arguments = (ins Variadic<Hlo_Value>:$operands, FlatSymbolRefAttr:$to_apply, OptionalAttr<BoolAttr>:$is_composite,
                       OptionalAttr<StrAttr>:$output_to_operand_aliasing);
  let assemblyFormat = "$to_apply `(` $operands `)` attr-dict `:` functional-type(operands, results)";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::mlir::success(); }
    ::llvm::LogicalResult $cppClass::verifySymbolUses(::mlir::SymbolTableCollection &symbols) {
      return ::halo::hlo::verifyCall(getOperation(), getToApplyAttr(), symbols);
    }
  }];
}
def Hlo_CustomCallOp
    : Hlo_RegionOp<"custom_call", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>],
                   "custom<Computations>($called_computations)"> {
  let summary = "call of a function outside of the program";
  let description = [{
    Calls `custom_call_target` with the operands. It may be removed and merged unless
    `custom_call_has_side_effect`. The other attributes describe it to whoever provides the target.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<Hlo_Window>:$window,
                       OptionalAttr<Hlo_ConvolutionDimensions>:$dim_labels,
                       OptionalAttr<I64Attr>:$feature_group_count, OptionalAttr<I64Attr>:$batch_group_count,
                       OptionalAttr<StrArrayAttr>:$operand_precision, OptionalAttr<StrAttr>:$padding_type,
                       StrAttr:$custom_call_target, OptionalAttr<TypeArrayAttr>:$operand_layout_constraints,
                       OptionalAttr<BoolAttr>:$custom_call_has_side_effect, OptionalAttr<StrAttr>:$literal,
                       OptionalAttr<StrAttr>:$output_to_operand_aliasing, OptionalAttr<StrAttr>:$schedule,
                       OptionalAttr<StrAttr>:$api_version);
  let regions = (region VariadicRegion<Hlo_Computation>:$called_computations);
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return ::halo::hlo::verifyOperation(getOperation()); }
    void $cppClass::getEffects(
        ::llvm::SmallVectorImpl<::mlir::SideEffects::EffectInstance<::mlir::MemoryEffects::Effect>> &effects) {
      if (getCustomCallHasSideEffect().value_or(false))
        effects.emplace_back(::mlir::MemoryEffects::Write::get());
    }
  }];
}

//===----------------------------------------------------------------------===//
// Asynchronous operations
//===----------------------------------------------------------------------===//

class Hlo_AsyncOp<string mnemonic> : Hlo_RegionOp<mnemonic, [], "custom<Computations>($calls)"> {
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<StrAttr>:$async_execution_thread,
                       OptionalAttr<StrAttr>:$output_to_operand_aliasing);
  let regions = (region VariadicRegion<Hlo_Computation>:$calls);
}

def Hlo_AsyncStartOp : Hlo_AsyncOp<"async_start"> {
  let summary = "starts an operation";
  let description = [{
    Starts `calls` on the operands. The result is a tuple of the operands as a tuple, the operation's result, and
    state.
  }];
}
def Hlo_AsyncUpdateOp : Hlo_AsyncOp<"async_update"> {
  let summary = "passes on a started operation";
  let description = [{The operand: an operation that still runs.}];
}
def Hlo_AsyncDoneOp : Hlo_AsyncOp<"async_done"> {
  let summary = "waits for a started operation";
  let description = [{The result of the operation that `async_start` started.}];
}
def Hlo_CopyStartOp : Hlo_PureOp<"copy_start"> {
  let summary = "starts a copy";
  let description = [{Tuple of the destination, the source and a context.}];
  let arguments = (ins Hlo_Value:$operand, OptionalAttr<I64Attr>:$cross_program_prefetch_index);
}
def Hlo_CopyDoneOp : Hlo_PureOp<"copy_done"> {
  let summary = "waits for a copy";
  let description = [{The destination of the copy that `copy_start` started.}];
  let arguments = (ins Hlo_Value:$operand);
}

#endif // HLO_CONTROL_OPS
