//===- HloDataMovementOps.td - operations that move elements --------------===//

#ifndef HLO_DATA_MOVEMENT_OPS
#define HLO_DATA_MOVEMENT_OPS

include "HloOpBase.td"

def Hlo_BitcastOp : Hlo_PureOp<"bitcast"> {
  let summary = "same bytes under another shape";
  let description = [{Reads the operand's buffer, in its layout, as the result's shape in the result's layout.}];
  let arguments = (ins Hlo_Value:$operand);
}
def Hlo_BitcastConvertOp : Hlo_PureOp<"bitcast_convert"> {
  let summary = "same bits as another element type";
  let description = [{
    Reinterprets the bits of the elements. Where the widths differ, the last dimension of the shape with the narrower
    type holds the parts of one wider element, least significant first.
  }];
  let arguments = (ins Hlo_Value:$operand);
}
def Hlo_BroadcastOp : Hlo_PureOp<"broadcast"> {
  let summary = "repeats an array along new dimensions";
  let description = [{
    Dimension `i` of the operand becomes dimension `dimensions[i]` of the result, with the same size; along all other
    dimensions the operand is repeated.
  }];
  let arguments = (ins Hlo_Value:$operand, OptionalAttr<DenseI64ArrayAttr>:$dimensions);
}
def Hlo_ConcatenateOp : Hlo_PureOp<"concatenate"> {
  let summary = "joins arrays along a dimension";
  let description = [{The operands one after the other along the one dimension in `dimensions`; all others agree.}];
  let arguments = (ins Variadic<Hlo_Value>:$operands, DenseI64ArrayAttr:$dimensions);
}
def Hlo_DynamicReshapeOp : Hlo_PureOp<"dynamic_reshape"> {
  let summary = "reshape to sizes known at run time";
  let description = [{
    Reshapes `operand`; `sizes` holds one scalar for each dimension of the result, within its bound.
  }];
  let arguments = (ins Hlo_Value:$operand, Variadic<Hlo_Value>:$sizes);
}
def Hlo_DynamicSliceOp : Hlo_PureOp<"dynamic_slice"> {
  let summary = "part of an array from a start known at run time";
  let description = [{
    The part of size `dynamic_slice_sizes` that begins at `start_indices`: one scalar for each dimension, or all in one
    vector. Starts are clamped so that the part lies inside the operand.
  }];
  let arguments = (ins Hlo_Value:$operand, Variadic<Hlo_Value>:$start_indices, DenseI64ArrayAttr:$dynamic_slice_sizes);
}
def Hlo_DynamicUpdateSliceOp : Hlo_PureOp<"dynamic_update_slice"> {
  let summary = "replaces a part of an array from a start known at run time";
  let description = [{
    `operand` with the part that begins at `start_indices` replaced by `update`. Starts are clamped as in
    `dynamic_slice`.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$update, Variadic<Hlo_Value>:$start_indices);
}
def Hlo_GatherOp : Hlo_PureOp<"gather"> {
  let summary = "collects slices from several places";
  let description = [{
    For each index vector in `start_indices` (along `index_vector_dim`), takes the slice of size `slice_sizes` of
    `operand` whose start in dimension `start_index_map[k]` is component `k`, clamped so that it lies inside.
    Dimensions `collapsed_slice_dims` and `operand_batching_dims` have size 1 and are dropped; the others become the
    dimensions `offset_dims` of the result, whose remaining dimensions are those of `start_indices`.
    `operand_batching_dims` runs with `start_indices_batching_dims`.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$start_indices, DenseI64ArrayAttr:$offset_dims,
                       DenseI64ArrayAttr:$collapsed_slice_dims, DenseI64ArrayAttr:$start_index_map,
                       OptionalAttr<DenseI64ArrayAttr>:$operand_batching_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$start_indices_batching_dims, I64Attr:$index_vector_dim,
                       DenseI64ArrayAttr:$slice_sizes, OptionalAttr<BoolAttr>:$indices_are_sorted);
}
def Hlo_GetDimensionSizeOp : Hlo_PureOp<"get_dimension_size"> {
  let summary = "size of a dimension at run time";
  let description = [{The size of the one dimension in `dimensions` as an `s32` scalar.}];
  let arguments = (ins Hlo_Value:$operand, DenseI64ArrayAttr:$dimensions);
}
def Hlo_SetDimensionSizeOp : Hlo_PureOp<"set_dimension_size"> {
  let summary = "sets the size of a dimension at run time";
  let description = [{
    The operand with the one dimension in `dimensions` made dynamic and of size `size`; elements beyond it are
    padding.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$size, DenseI64ArrayAttr:$dimensions);
}
def Hlo_IotaOp : Hlo_PureOp<"iota"> {
  let summary = "counts along a dimension";
  let description = [{Each element is its index along `iota_dimension`.}];
  let arguments = (ins I64Attr:$iota_dimension);
}
def Hlo_PadOp : Hlo_PureOp<"pad"> {
  let summary = "adds or removes elements at the edges and between neighbours";
  let description = [{
    Puts `interior` copies of `padding_value` between neighbours, then `low` before the first and `high` after the last
    element of each dimension; negative `low` and `high` remove elements.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$padding_value, Hlo_Padding:$padding);
}
def Hlo_ReshapeOp : Hlo_PureOp<"reshape"> {
  let summary = "same elements in another shape";
  let description = [{
    The elements in row-major order under the result's dimensions. `inferred_dimension` is the dynamic dimension
    whose size follows from the others.
  }];
  let arguments = (ins Hlo_Value:$operand, OptionalAttr<I64Attr>:$inferred_dimension);
}
def Hlo_ReverseOp : Hlo_PureOp<"reverse"> {
  let summary = "reverses the order of elements";
  let description = [{Reverses each dimension in `dimensions`.}];
  let arguments = (ins Hlo_Value:$operand, DenseI64ArrayAttr:$dimensions);
}
def Hlo_ScatterOp : Hlo_RegionOp<"scatter"> {
  let summary = "combines slices into several places";
  let description = [{
    The inverse of `gather`: for each index vector in the indices, combines the update slice by `to_apply` into the
    operand at that place; slices that do not fit inside are skipped. The operands are the arrays, the indices, and
    as many updates as arrays. Where indices repeat, the order is that of the indices.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, DenseI64ArrayAttr:$update_window_dims,
                       DenseI64ArrayAttr:$inserted_window_dims, DenseI64ArrayAttr:$scatter_dims_to_operand_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$input_batching_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$scatter_indices_batching_dims, I64Attr:$index_vector_dim,
                       OptionalAttr<BoolAttr>:$indices_are_sorted, OptionalAttr<BoolAttr>:$unique_indices);
  let regions = (region Hlo_Computation:$to_apply);
}
def Hlo_SliceOp : Hlo_PureOp<"slice"> {
  let summary = "part of an array";
  let description = [{In each dimension the elements from `start` to before `limit` in steps of `stride`.}];
  let arguments = (ins Hlo_Value:$operand, Hlo_Slice:$slice);
}
def Hlo_TransposeOp : Hlo_PureOp<"transpose"> {
  let summary = "permutes the dimensions";
  let description = [{Dimension `i` of the result is dimension `dimensions[i]` of the operand.}];
  let arguments = (ins Hlo_Value:$operand, DenseI64ArrayAttr:$dimensions);
}

#endif // HLO_DATA_MOVEMENT_OPS
