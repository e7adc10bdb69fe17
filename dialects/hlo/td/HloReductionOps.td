//===- HloReductionOps.td - reductions, contractions, library operations --===//

#ifndef HLO_REDUCTION_OPS
#define HLO_REDUCTION_OPS

include "HloOpBase.td"

//===----------------------------------------------------------------------===//
// Reductions and windows
//===----------------------------------------------------------------------===//

def Hlo_ReduceOp : Hlo_RegionOp<"reduce"> {
  let summary = "combines elements along dimensions";
  let description = [{
    Combines the elements along `dimensions` by `to_apply`, starting from the initial values, in any order. The
    operands are N arrays, then N initial values; `to_apply` takes N accumulators and N elements. With N > 1 the result
    is a tuple.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<DenseI64ArrayAttr>:$dimensions);
  let regions = (region Hlo_Computation:$to_apply);
}
def Hlo_ReduceWindowOp : Hlo_RegionOp<"reduce_window"> {
  let summary = "combines the elements of each window";
  let description = [{
    Each element of the result combines, by `to_apply` and starting from the initial value, the elements that the
    window covers at that place; padding counts as the initial value. The operands are N arrays, then N initial values.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, OptionalAttr<Hlo_Window>:$window);
  let regions = (region Hlo_Computation:$to_apply);
}
def Hlo_SelectAndScatterOp
    : Hlo_RegionOp<"select_and_scatter", [RecursiveMemoryEffects],
                   "custom<Computation>($select) `,` custom<Computation>($scatter)"> {
  let summary = "scatters values to the element each window selects";
  let description = [{
    For each window over `operand`, `select` chooses one element (it keeps the first argument where it returns true);
    the element of `source` for that window is combined by `scatter` into the result at the chosen place. The result
    starts as `init_value` everywhere.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$source, Hlo_Value:$init_value,
                       OptionalAttr<Hlo_Window>:$window);
  let regions = (region Hlo_Computation:$select, Hlo_Computation:$scatter);
}

class Hlo_BatchNormOp<string mnemonic> : Hlo_PureOp<mnemonic>;

def Hlo_BatchNormTrainingOp : Hlo_BatchNormOp<"batch_norm_training"> {
  let summary = "normalises over a batch";
  let description = [{
    Tuple of the normalised array `scale * (operand - mean) / sqrt(variance + epsilon) + offset`, the mean and the
    variance, both taken over all dimensions but `feature_index`.
  }];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$scale, Hlo_Value:$offset, F64Attr:$epsilon,
                       I64Attr:$feature_index);
}
def Hlo_BatchNormInferenceOp : Hlo_BatchNormOp<"batch_norm_inference"> {
  let summary = "normalises by given statistics";
  let description = [{`scale * (operand - mean) / sqrt(variance + epsilon) + offset` along `feature_index`.}];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$scale, Hlo_Value:$offset, Hlo_Value:$mean, Hlo_Value:$variance,
                       F64Attr:$epsilon, I64Attr:$feature_index);
}
def Hlo_BatchNormGradOp : Hlo_BatchNormOp<"batch_norm_grad"> {
  let summary = "gradient of batch_norm_training";
  let description = [{Tuple of the gradients of the operand, the scale and the offset for `grad_output`.}];
  let arguments = (ins Hlo_Value:$operand, Hlo_Value:$scale, Hlo_Value:$mean, Hlo_Value:$variance,
                       Hlo_Value:$grad_output, F64Attr:$epsilon, I64Attr:$feature_index);
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

def Hlo_DotOp : Hlo_PureOp<"dot"> {
  let summary = "sums of products";
  let description = [{
    Multiplies elements whose batch and contracting indices agree and sums over the contracting dimensions. The
    result's dimensions are the batch dimensions, the rest of the left side, the rest of the right side. Further
    operands describe sparse sides.
  }];
  let arguments = (ins Hlo_Value:$lhs, Hlo_Value:$rhs, Variadic<Hlo_Value>:$sparsity_operands,
                       OptionalAttr<DenseI64ArrayAttr>:$lhs_batch_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$lhs_contracting_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$rhs_batch_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$rhs_contracting_dims, OptionalAttr<StrAttr>:$sparsity,
                       OptionalAttr<StrArrayAttr>:$operand_precision, OptionalAttr<StrAttr>:$algorithm);
}
def Hlo_RaggedDotOp : Hlo_PureOp<"ragged_dot"> {
  let summary = "dot with groups of different sizes";
  let description = [{
    A dot in which the ragged dimension of the left side is cut into groups of sizes `group_sizes`, each of which
    meets its own slice of the right side along `rhs_group_dims`.
  }];
  let arguments = (ins Hlo_Value:$lhs, Hlo_Value:$rhs, Hlo_Value:$group_sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$lhs_batch_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$lhs_contracting_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$rhs_batch_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$rhs_contracting_dims, DenseI64ArrayAttr:$lhs_ragged_dims,
                       OptionalAttr<DenseI64ArrayAttr>:$rhs_group_dims,
                       OptionalAttr<StrArrayAttr>:$operand_precision);
}
def Hlo_ConvolutionOp : Hlo_PureOp<"convolution"> {
  let summary = "convolution";
  let description = [{
    At each place of `window` over the spatial dimensions, the sum of products of the kernel and the elements the
    window covers, over the input features. `dim_labels` says which dimension is which. `feature_group_count` splits
    the features, `batch_group_count` the batch, into groups that do not meet.
    `convolution_kind` and `sparsity_config` are carried for backends that know them.
  }];
  let arguments = (ins Hlo_Value:$lhs, Hlo_Value:$rhs, OptionalAttr<Hlo_Window>:$window,
                       Hlo_ConvolutionDimensions:$dim_labels, OptionalAttr<I64Attr>:$feature_group_count,
                       OptionalAttr<I64Attr>:$batch_group_count, OptionalAttr<StrArrayAttr>:$operand_precision,
                       OptionalAttr<StrAttr>:$convolution_kind, OptionalAttr<StrAttr>:$sparsity_config);
}

//===----------------------------------------------------------------------===//
// Sorting, factorisations, transforms, random numbers
//===----------------------------------------------------------------------===//

def Hlo_SortOp : Hlo_RegionOp<"sort"> {
  let summary = "sorts along a dimension";
  let description = [{
    Sorts the N operands together along the one dimension in `dimensions`. The comparator `to_apply` takes two elements
    of each operand and says whether the first of each come before the second. With `is_stable`, equal ones keep their
    order. With N > 1 the result is a tuple.
  }];
  let arguments = (ins Variadic<Hlo_Value>:$operands, DenseI64ArrayAttr:$dimensions,
                       OptionalAttr<BoolAttr>:$is_stable);
  let regions = (region Hlo_Computation:$to_apply);
}
def Hlo_TopKOp : Hlo_PureOp<"topk"> {
  let summary = "largest or smallest elements and their places";
  let description = [{
    Tuple of the `k` largest (or smallest) elements along the last dimension, in order, and their indices.
  }];
  let arguments = (ins Hlo_Value:$operand, I64Attr:$k, OptionalAttr<BoolAttr>:$largest);
}
def Hlo_CholeskyOp : Hlo_PureOp<"cholesky"> {
  let summary = "Cholesky factor";
  let description = [{
    The triangular factor of each symmetric (Hermitian) positive definite matrix in the last two dimensions: lower or
    upper; only that triangle is read, and the other of the result is unspecified.
  }];
  let arguments = (ins Hlo_Value:$operand, OptionalAttr<BoolAttr>:$lower);
}
def Hlo_TriangularSolveOp : Hlo_PureOp<"triangular_solve"> {
  let summary = "solves triangular systems";
  let description = [{
    Solves `op(a) x = b` (`left_side`) or `x op(a) = b` for each pair of matrices in the last two dimensions. `op` is
    `transpose_a`: NO_TRANSPOSE, TRANSPOSE or ADJOINT. Only the triangle `lower` of `a` is read; with `unit_diagonal`
    its diagonal counts as ones.
  }];
  let arguments = (ins Hlo_Value:$a, Hlo_Value:$b, OptionalAttr<BoolAttr>:$left_side, OptionalAttr<BoolAttr>:$lower,
                       OptionalAttr<BoolAttr>:$unit_diagonal, OptionalAttr<StrAttr>:$transpose_a);
}
def Hlo_FftOp : Hlo_PureOp<"fft"> {
  let summary = "discrete Fourier transform";
  let description = [{
    Transforms the last one to three dimensions, of sizes `fft_length`. `fft_type` is FFT, IFFT, RFFT (real input, half
    of the spectrum) or IRFFT (its inverse).
  }];
  let arguments = (ins Hlo_Value:$operand, StrAttr:$fft_type, DenseI64ArrayAttr:$fft_length);
}
def Hlo_RngOp : Hlo_Op<"rng"> {
  let summary = "random numbers from hidden state";
  let description = [{
    `distribution` rng_uniform: uniform in `[a, b)`; rng_normal: normal with mean `a` and standard deviation `b`.
  }];
  let arguments = (ins Hlo_Value:$a, Hlo_Value:$b, StrAttr:$distribution);
}
def Hlo_RngBitGeneratorOp : Hlo_PureOp<"rng_bit_generator"> {
  let summary = "random bits from explicit state";
  let description = [{
    Tuple of the new state and random bits, which are a function of `initial_state` and `algorithm` alone: rng_default,
    rng_three_fry or rng_philox.
  }];
  let arguments = (ins Hlo_Value:$initial_state, StrAttr:$algorithm);
}
def Hlo_RngGetAndUpdateStateOp : Hlo_Op<"rng_get_and_update_state"> {
  let summary = "reads and advances the hidden random state";
  let description = [{The state before it is advanced by `delta`.}];
  let arguments = (ins I64Attr:$delta);
}

#endif // HLO_REDUCTION_OPS
