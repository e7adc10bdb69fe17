//! From the result of an instruction to an operand, by operation.

use std::cmp::Ordering;

use indexing::IndexingMap;
use melior::Context;

use super::instruction_maps::InstructionMaps;
use super::{LeafMap, ValueIndexing, maps, tuples};
use crate::op_kind::OpKind;
use crate::ops::all_gather::AllGatherAttributes;
use crate::ops::all_to_all::AllToAllAttributes;
use crate::ops::batch_norm::BatchNormAttributes;
use crate::ops::broadcast::BroadcastAttributes;
use crate::ops::collective_permute::CollectivePermuteAttributes;
use crate::ops::fft::FftAttributes;
use crate::ops::pad::PadAttributes;
use crate::ops::reduce::ReduceAttributes;
use crate::ops::reduce_scatter::ReduceScatterAttributes;
use crate::ops::reduce_window::ReduceWindowAttributes;
use crate::ops::reverse::ReverseAttributes;
use crate::ops::select_and_scatter::SelectAndScatterAttributes;
use crate::ops::slice::SliceAttributes;
use crate::ops::sort::SortAttributes;
use crate::ops::transpose::TransposeAttributes;
use crate::ops::typed_attributes::Dimension;
use crate::shape::Shape;

impl<'c> InstructionMaps<'c, '_> {
    /// The maps from leaf `leaf` of the result to an operand; `None` if they are not known.
    pub(super) fn to_operand(&self, leaf: usize, operand: usize) -> Option<ValueIndexing<'c>> {
        let array = self.output(leaf)?;
        let output = array.dimensions.as_slice();
        let one = |map: IndexingMap<'c>| Some(ValueIndexing::of(map));
        let scalar = || one(maps::scalar(self.context, output));
        match self.instruction.kind {
            OpKind::Abs
            | OpKind::Acos
            | OpKind::Acosh
            | OpKind::Add
            | OpKind::And
            | OpKind::Asin
            | OpKind::Asinh
            | OpKind::Atan2
            | OpKind::Atanh
            | OpKind::Cbrt
            | OpKind::Ceil
            | OpKind::Clamp
            | OpKind::Compare
            | OpKind::Complex
            | OpKind::Convert
            | OpKind::Copy
            | OpKind::Cosh
            | OpKind::Cosine
            | OpKind::CountLeadingZeros
            | OpKind::Divide
            | OpKind::Domain
            | OpKind::Erf
            | OpKind::Exponential
            | OpKind::ExponentialMinusOne
            | OpKind::Floor
            | OpKind::Imag
            | OpKind::IsFinite
            | OpKind::Log
            | OpKind::LogPlusOne
            | OpKind::Logistic
            | OpKind::Map
            | OpKind::Maximum
            | OpKind::Minimum
            | OpKind::Multiply
            | OpKind::Negate
            | OpKind::Not
            | OpKind::Or
            | OpKind::PopulationCount
            | OpKind::Power
            | OpKind::Real
            | OpKind::ReducePrecision
            | OpKind::Remainder
            | OpKind::RoundNearestAfz
            | OpKind::RoundNearestEven
            | OpKind::Rsqrt
            | OpKind::Select
            | OpKind::ShiftLeft
            | OpKind::ShiftRightArithmetic
            | OpKind::ShiftRightLogical
            | OpKind::Sign
            | OpKind::Sine
            | OpKind::Sinh
            | OpKind::Sqrt
            | OpKind::StochasticConvert
            | OpKind::Subtract
            | OpKind::Tan
            | OpKind::Tanh
            | OpKind::Xor => self.elementwise(leaf, operand),
            OpKind::AllReduce
            | OpKind::AllReduceDone
            | OpKind::AllReduceStart
            | OpKind::CollectiveBroadcast
            | OpKind::OptimizationBarrier => self.leafwise(leaf, operand),
            // With slices, where they are is a value of the program.
            OpKind::CollectivePermute if self.permutes_whole()? => self.leafwise(leaf, operand),
            OpKind::AddDependency if operand == 0 => one(maps::identity(self.context, output)),
            OpKind::AddDependency => Some(ValueIndexing::none()),
            OpKind::AllGather => self.gathered(leaf, operand, leaf),
            // The tuple of a -start: operands, then results, then contexts.
            OpKind::AllGatherStart => match leaf.checked_sub(self.operand_count()) {
                None => self.leafwise(leaf, operand),
                Some(result) => self.gathered(leaf, operand, result),
            },
            OpKind::CollectivePermuteStart if self.permutes_whole()? => {
                let count = self.operand_count();
                if leaf >= 2 * count {
                    return Some(ValueIndexing::none());
                }
                Some(ValueIndexing::used(leaf % count == operand, maps::identity(self.context, output)))
            }
            OpKind::CopyStart => Some(ValueIndexing::used(leaf < 2, maps::identity(self.context, output))),
            OpKind::ReduceScatter => {
                let used = if self.is_leafwise() { leaf } else { 0 };
                let dimension = self.attributes::<ReduceScatterAttributes>()?.dimensions.index();
                let replicas = self.sizes(used)?.get(dimension)? / (*output.get(dimension)?).max(1);
                let map = maps::reduce_scatter(self.context, output, dimension as i64, replicas);
                Some(ValueIndexing::used(operand == used, map))
            }
            OpKind::AllToAll => match self.replicas_in_dimension() {
                Some((dimension, replicas)) => {
                    one(maps::all_to_all(self.context, output, dimension, dimension, replicas))
                }
                // One operand for each replica; which of them comes here depends on the replica.
                None => one(maps::identity(self.context, output)),
            },
            OpKind::BatchNormInference => {
                let feature = self.attributes::<BatchNormAttributes>()?.feature_index;
                one(if operand == 0 {
                    maps::identity(self.context, output)
                } else {
                    maps::one_dimension(self.context, output, feature)
                })
            }
            OpKind::BatchNormTraining => {
                let feature = self.attributes::<BatchNormAttributes>()?.feature_index;
                Some(match (leaf, operand) {
                    (0, 0) => with_statistics(self.context, output, feature),
                    (0, _) => ValueIndexing::of(maps::one_dimension(self.context, output, feature)),
                    (_, 0) => ValueIndexing::of(maps::reduced_keeping(self.context, self.sizes(0)?, &[feature])),
                    _ => ValueIndexing::none(),
                })
            }
            OpKind::BatchNormGrad => {
                let feature = self.attributes::<BatchNormAttributes>()?.feature_index;
                let reduced =
                    || Some(ValueIndexing::of(maps::reduced_keeping(self.context, self.sizes(0)?, &[feature])));
                // Operands: operand, scale, mean, variance, gradient of the output. Leaves: their gradients.
                Some(match (leaf, operand) {
                    (0, 0 | 4) => with_statistics(self.context, output, feature),
                    (0, _) => ValueIndexing::of(maps::one_dimension(self.context, output, feature)),
                    (1, 0 | 4) | (_, 4) => reduced()?,
                    (1, 2 | 3) => ValueIndexing::of(maps::identity(self.context, output)),
                    _ => ValueIndexing::none(),
                })
            }
            OpKind::Bitcast => {
                let input = self.array(operand)?;
                if input.element_type.bit_width() != array.element_type.bit_width() {
                    return one(maps::bitcast_convert(self.context, &input.dimensions, output));
                }
                one(maps::bitcast(
                    self.context,
                    &input.dimensions,
                    &input.layout_or_default().minor_to_major,
                    output,
                    &array.layout_or_default().minor_to_major,
                ))
            }
            OpKind::BitcastConvert => one(maps::bitcast_convert(self.context, self.sizes(operand)?, output)),
            OpKind::Broadcast => {
                one(maps::broadcast(self.context, output, self.attributes::<BroadcastAttributes>()?.dimensions))
            }
            OpKind::Cholesky => one(maps::whole_along(self.context, output, &last_dimensions(output, 2))),
            OpKind::Fft => {
                let transformed = self.attributes::<FftAttributes>()?.fft_length.len();
                one(self.whole_last_dimensions(output, operand, transformed)?)
            }
            OpKind::TopK => one(self.whole_last_dimensions(output, operand, 1)?),
            OpKind::Concatenate => {
                let (dimension, start, size) = self.concatenated(operand)?;
                one(maps::concatenate(self.context, output, dimension, start, size))
            }
            OpKind::Convolution | OpKind::Dot => {
                let maps = self.contraction()?;
                match operand {
                    0 => one(maps.lhs),
                    1 => one(maps.rhs),
                    // The indices of a sparse operand.
                    _ => None,
                }
            }
            OpKind::RaggedDot => one(self.ragged_dot(operand)?),
            OpKind::DynamicSlice if operand == 0 => {
                one(maps::dynamic_slice(self.context, self.sizes(0)?, output, &self.offsets(1)))
            }
            OpKind::DynamicUpdateSlice if operand == 0 => one(maps::identity(self.context, output)),
            OpKind::DynamicUpdateSlice if operand == 1 => {
                one(maps::dynamic_update_slice(self.context, output, self.sizes(1)?, &self.offsets(2)))
            }
            OpKind::DynamicReshape | OpKind::Reshape if operand == 0 => {
                one(maps::reshape(self.context, self.sizes(operand)?, output))
            }
            OpKind::SetDimensionSize if operand == 0 => one(maps::identity(self.context, output)),
            // Start indices: scalars, or all of one array.
            OpKind::DynamicSlice | OpKind::DynamicUpdateSlice => {
                one(maps::all_of(self.context, output, self.sizes(operand)?))
            }
            OpKind::DynamicReshape | OpKind::Reshape | OpKind::Rng | OpKind::SetDimensionSize => scalar(),
            // The size is no element.
            OpKind::GetDimensionSize => Some(ValueIndexing::none()),
            OpKind::Gather => {
                let (source, indices) = maps::gather(
                    self.context,
                    self.sizes(0)?,
                    self.sizes(1)?,
                    output,
                    &self.attributes()?,
                    self.value(1),
                );
                one(if operand == 0 { source } else { indices })
            }
            OpKind::Pad if operand == 0 => {
                let (low, interior) = self.attributes::<PadAttributes>()?.low_and_interior();
                one(maps::pad(self.context, output, self.sizes(0)?, &low, &interior))
            }
            OpKind::Reduce if operand < self.input_count() => {
                let dimensions = self.attributes::<ReduceAttributes>()?.dimensions;
                one(maps::reduce(self.context, self.sizes(operand)?, dimensions))
            }
            OpKind::ReduceWindow if operand < self.input_count() => {
                let window = self.attributes::<ReduceWindowAttributes>()?.window;
                one(maps::reduce_window(self.context, self.sizes(operand)?, output, window))
            }
            OpKind::Pad | OpKind::Reduce | OpKind::ReduceWindow => scalar(),
            OpKind::Reverse => {
                one(maps::reverse(self.context, output, self.attributes::<ReverseAttributes>()?.dimensions))
            }
            OpKind::RngBitGenerator => one(maps::all_of(self.context, output, self.sizes(operand)?)),
            OpKind::Scatter => {
                let (indices, updates) = self.scatter_operands()?;
                let (from_updates, from_indices) = maps::scatter(
                    self.context,
                    output,
                    self.sizes(indices)?,
                    self.sizes(updates)?,
                    &self.attributes()?,
                    self.value(indices),
                );
                one(match operand.cmp(&indices) {
                    Ordering::Less => maps::identity(self.context, output),
                    Ordering::Equal => from_indices,
                    Ordering::Greater => from_updates,
                })
            }
            OpKind::SelectAndScatter => {
                let window = self.attributes::<SelectAndScatterAttributes>()?.window;
                let source = self.sizes(1)?;
                one(match operand {
                    0 => maps::select_and_scatter_operand(self.context, output, source, window),
                    1 => maps::select_and_scatter_source(self.context, output, source, window),
                    _ => maps::scalar(self.context, output),
                })
            }
            OpKind::Slice => {
                let (starts, strides) = self.attributes::<SliceAttributes>()?.starts_and_strides();
                one(maps::slice(self.context, output, &starts, &strides))
            }
            OpKind::Sort => one(maps::sort(self.context, output, self.attributes::<SortAttributes>()?.dimensions.0)),
            OpKind::Transpose => {
                let permutation = self.attributes::<TransposeAttributes>()?.dimensions;
                one(maps::transpose(self.context, self.sizes(operand)?, permutation))
            }
            OpKind::AllGatherDone | OpKind::CollectivePermuteDone | OpKind::CopyDone | OpKind::GetTupleElement => {
                tuples::element_to_tuple(self, leaf)
            }
            OpKind::Tuple => tuples::to_operands(self, leaf)?.into_iter().nth(operand),
            // Where slices or rows go is a value of the program, and so is the replica they come from.
            OpKind::CollectivePermute | OpKind::CollectivePermuteStart | OpKind::RaggedAllToAll => None,
            // Unknown in the reference too: elements of the result are computed from each other.
            OpKind::TriangularSolve => None,
            // Computations of their own: fusions are composed by `Analysis`, calls are inlined before, and what a
            // loop, a branch or another program reads is decided when it runs.
            OpKind::AsyncDone
            | OpKind::AsyncStart
            | OpKind::AsyncUpdate
            | OpKind::Call
            | OpKind::Conditional
            | OpKind::CustomCall
            | OpKind::Fusion
            | OpKind::While => None,
            // No operands, or only tokens and what goes to and comes from outside of the program.
            OpKind::AfterAll
            | OpKind::Constant
            | OpKind::Infeed
            | OpKind::Iota
            | OpKind::Outfeed
            | OpKind::Parameter
            | OpKind::PartitionId
            | OpKind::Recv
            | OpKind::RecvDone
            | OpKind::ReplicaId
            | OpKind::RngGetAndUpdateState
            | OpKind::Send
            | OpKind::SendDone => None,
        }
    }

    /// The same index in each operand; scalars are used for all elements.
    fn elementwise(&self, leaf: usize, operand: usize) -> Option<ValueIndexing<'c>> {
        let output = &self.output(leaf)?.dimensions;
        let is_scalar = self.sizes(operand)?.is_empty();
        Some(ValueIndexing::of(if is_scalar {
            maps::scalar(self.context, output)
        } else {
            maps::identity(self.context, output)
        }))
    }

    /// The same index in the operand with the number of the result's leaf, none in the others.
    fn leafwise(&self, leaf: usize, operand: usize) -> Option<ValueIndexing<'c>> {
        let identity = maps::identity(self.context, &self.output(leaf)?.dimensions);
        // A single tuple-shaped operand has the leaves itself.
        if matches!(self.operand_shape(operand)?, Shape::Tuple(_)) {
            return Some(ValueIndexing::Known(vec![LeafMap { leaf, map: identity }]));
        }
        Some(ValueIndexing::used(!self.is_leafwise() || leaf == operand, identity))
    }

    /// All of the operand along its last dimensions: real transforms and top-k change the size of the last one.
    fn whole_last_dimensions(&self, output: &[i64], operand: usize, count: usize) -> Option<IndexingMap<'c>> {
        let input = self.sizes(operand)?;
        let dimensions = last_dimensions(input, count);
        let mut map = maps::whole_along(self.context, output, &dimensions);
        for (i, &dimension) in dimensions.iter().enumerate() {
            map.set_range_size(i, input[dimension as usize]);
        }
        Some(map)
    }

    /// Whether a collective-permute sends whole arrays, not slices of them.
    fn permutes_whole(&self) -> Option<bool> {
        Some(self.attributes::<CollectivePermuteAttributes>()?.slice_sizes.is_none())
    }

    /// all-gather: leaf `leaf`, which holds result number `result`.
    fn gathered(&self, leaf: usize, operand: usize, result: usize) -> Option<ValueIndexing<'c>> {
        let used = if self.is_leafwise() { result } else { 0 };
        let Dimension(dimension) = self.attributes::<AllGatherAttributes>()?.dimensions;
        let map = maps::all_gather(self.context, self.sizes(used)?, &self.output(leaf)?.dimensions, dimension).0;
        Some(ValueIndexing::used(operand == used, map))
    }

    /// Dimension and number of parts of an all-to-all of one array.
    pub(super) fn replicas_in_dimension(&self) -> Option<(i64, i64)> {
        let attributes: AllToAllAttributes = self.attributes()?;
        Some((attributes.dimensions?.0, attributes.replica_groups?.groups().first()?.len() as i64))
    }
}

/// From an element of a normalised array to itself and to all with the same index along `feature`, from which
/// mean and variance are computed.
fn with_statistics<'c>(context: &'c Context, sizes: &[i64], feature: i64) -> ValueIndexing<'c> {
    let others: Vec<i64> = (0..sizes.len() as i64).filter(|&d| d != feature).collect();
    let mut indexing = ValueIndexing::of(maps::identity(context, sizes));
    indexing.add(LeafMap { leaf: 0, map: maps::whole_along(context, sizes, &others) });
    indexing
}

/// The numbers of the last `count` dimensions.
fn last_dimensions(sizes: &[i64], count: usize) -> Vec<i64> {
    (sizes.len().saturating_sub(count)..sizes.len()).map(|d| d as i64).collect()
}
