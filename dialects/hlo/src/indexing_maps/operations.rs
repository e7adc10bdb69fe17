//! From the result of an instruction to its operands, by operation.

use indexing::maps::{self, Convolution, Dot, Gather, Offset, Scatter};
use indexing::{Expr, IndexingMap};

use super::{Analysis, LeafMap, ValueIndexing, leaf_array, leaves_before};
use crate::attributes::{Attributes, ConvolutionDimensions, WindowDimension};
use crate::graph::{Computation, Instruction, InstructionId};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

/// A window in the terms of the crate `indexing`.
pub(super) fn window(dimensions: &[WindowDimension]) -> Vec<maps::WindowDimension> {
    dimensions
        .iter()
        .map(|w| maps::WindowDimension {
            size: w.size,
            stride: w.stride,
            padding_low: w.padding_low,
            padding_high: w.padding_high,
            window_dilation: w.window_dilation,
            base_dilation: w.base_dilation,
            reversal: w.reversal,
        })
        .collect()
}

/// Sizes of the operands of a concatenate along its dimension, and the dimension.
pub(super) fn concatenated(operands: &[Option<&ArrayShape>], attributes: &Attributes) -> (Vec<i64>, i64) {
    let dimension = attributes.ints("dimensions").first().copied().unwrap_or(0);
    let size = |shape: &Option<&ArrayShape>| {
        let index = usize::try_from(dimension).ok()?;
        shape.as_ref()?.dimensions.get(index).copied()
    };
    (operands.iter().map(|shape| size(shape).unwrap_or(0)).collect(), dimension)
}

pub(super) fn gather_numbers<'a>(attributes: &'a Attributes) -> Gather<'a> {
    Gather {
        offset_dims: attributes.ints("offset_dims"),
        collapsed_slice_dims: attributes.ints("collapsed_slice_dims"),
        operand_batching_dims: attributes.ints("operand_batching_dims"),
        start_indices_batching_dims: attributes.ints("start_indices_batching_dims"),
        start_index_map: attributes.ints("start_index_map"),
        index_vector_dim: attributes.int("index_vector_dim").unwrap_or(0),
        slice_sizes: attributes.ints("slice_sizes"),
    }
}

pub(super) fn scatter_numbers(attributes: &Attributes) -> Scatter<'_> {
    Scatter {
        update_window_dims: attributes.ints("update_window_dims"),
        inserted_window_dims: attributes.ints("inserted_window_dims"),
        input_batching_dims: attributes.ints("input_batching_dims"),
        scatter_indices_batching_dims: attributes.ints("scatter_indices_batching_dims"),
        scatter_dims_to_operand_dims: attributes.ints("scatter_dims_to_operand_dims"),
        index_vector_dim: attributes.int("index_vector_dim").unwrap_or(0),
    }
}

pub(super) fn convolution_numbers<'a>(
    attributes: &Attributes,
    dimensions: &'a ConvolutionDimensions,
    window: &'a [maps::WindowDimension],
) -> Convolution<'a> {
    Convolution {
        window,
        input_batch: dimensions.input_batch,
        input_feature: dimensions.input_feature,
        input_spatial: &dimensions.input_spatial,
        kernel_input_feature: dimensions.kernel_input_feature,
        kernel_output_feature: dimensions.kernel_output_feature,
        kernel_spatial: &dimensions.kernel_spatial,
        output_batch: dimensions.output_batch,
        output_feature: dimensions.output_feature,
        output_spatial: &dimensions.output_spatial,
        feature_group_count: attributes.int("feature_group_count").unwrap_or(1),
        batch_group_count: attributes.int("batch_group_count").unwrap_or(1),
    }
}

pub(super) fn dot_numbers(attributes: &Attributes) -> Dot<'_> {
    Dot {
        lhs_batch: attributes.ints("lhs_batch_dims"),
        rhs_batch: attributes.ints("rhs_batch_dims"),
        lhs_contracting: attributes.ints("lhs_contracting_dims"),
        rhs_contracting: attributes.ints("rhs_contracting_dims"),
    }
}

/// Number of reducing operands: half of them, the others are initial values.
pub(super) fn input_count(instruction: &Instruction) -> usize {
    instruction.operands.len() / 2
}

/// What an instruction looks like to the functions below.
struct View<'a> {
    instruction: &'a Instruction,
    operand_shapes: Vec<&'a Shape>,
    operands: Vec<Option<&'a ArrayShape>>,
    output: &'a ArrayShape,
    leaf: usize,
}

impl View<'_> {
    fn sizes(&self) -> &[i64] {
        &self.output.dimensions
    }

    fn operand(&self, i: usize) -> Option<&[i64]> {
        Some(&self.operands.get(i).copied().flatten()?.dimensions)
    }

    fn scalar(&self) -> ValueIndexing {
        ValueIndexing::of(maps::scalar(self.sizes()))
    }

    /// One known map to each operand.
    fn each(&self, map: impl Fn(usize) -> Option<IndexingMap>) -> Option<Vec<ValueIndexing>> {
        (0..self.operands.len()).map(|i| Some(ValueIndexing::of(map(i)?))).collect()
    }

    /// The same index in the operand with the number of the result's leaf, none in the others.
    fn leafwise(&self) -> Option<Vec<ValueIndexing>> {
        let identity = maps::identity(self.sizes());
        // A single tuple-shaped operand has the leaves itself.
        if let [Shape::Tuple(_)] = self.operand_shapes[..] {
            return Some(vec![ValueIndexing::Known(vec![LeafMap { leaf: self.leaf, map: identity }])]);
        }
        if !matches!(self.instruction.shape, Shape::Tuple(_)) {
            return self.elementwise();
        }
        let used = |i: usize| if i == self.leaf { ValueIndexing::of(identity.clone()) } else { ValueIndexing::none() };
        Some((0..self.operands.len()).map(used).collect())
    }

    /// The same index in each operand; scalars are used for all elements.
    fn elementwise(&self) -> Option<Vec<ValueIndexing>> {
        self.each(|i| {
            let operand = self.operand(i)?;
            Some(if operand.is_empty() { maps::scalar(self.sizes()) } else { maps::identity(self.sizes()) })
        })
    }
}

impl<'a> Analysis<'a> {
    pub(super) fn output_to_input_in(
        &mut self,
        computation: usize,
        id: InstructionId,
        leaf: usize,
    ) -> Vec<ValueIndexing> {
        let graph = self.computation(computation);
        let Some(instruction) = graph.instructions.get(id.index()) else { return Vec::new() };
        if matches!(instruction.kind, OpKind::Parameter | OpKind::Constant | OpKind::Iota) {
            return Vec::new();
        }
        let known = match instruction.kind {
            OpKind::Fusion => self.fusion_output_to_input(computation, instruction, leaf),
            OpKind::GetTupleElement => element_of_tuple(graph, instruction, leaf),
            OpKind::Tuple => tuple(graph, instruction, leaf),
            _ => self.operation(computation, graph, instruction, leaf),
        };
        known.unwrap_or_else(|| vec![ValueIndexing::Unknown; instruction.operands.len()])
    }

    fn operation(
        &self,
        computation: usize,
        graph: &'a Computation,
        instruction: &'a Instruction,
        leaf: usize,
    ) -> Option<Vec<ValueIndexing>> {
        let operand_shapes = graph.operand_shapes(instruction);
        let view = View {
            instruction,
            operands: operand_shapes.iter().map(|shape| leaf_array(shape, 0)).collect(),
            operand_shapes,
            output: leaf_array(&instruction.shape, leaf)?,
            leaf,
        };
        let attributes = &instruction.attributes;
        let output = view.sizes();
        let one = |map: IndexingMap| Some(vec![ValueIndexing::of(map)]);
        match instruction.kind {
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
            | OpKind::CollectiveBroadcast
            | OpKind::CollectivePermute
            | OpKind::CollectivePermuteDone
            | OpKind::Compare
            | OpKind::Complex
            | OpKind::Convert
            | OpKind::Copy
            | OpKind::CopyDone
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
            | OpKind::Xor => view.elementwise(),
            OpKind::AllReduce | OpKind::AllReduceStart | OpKind::AllReduceDone | OpKind::OptimizationBarrier => {
                view.leafwise()
            }
            OpKind::AddDependency => Some(vec![ValueIndexing::of(maps::identity(output)), ValueIndexing::none()]),
            OpKind::AllGather => {
                let dimension = *attributes.ints("dimensions").first()?;
                let operand = if matches!(instruction.shape, Shape::Tuple(_)) { leaf } else { 0 };
                let map = maps::all_gather(view.operand(operand)?, output, dimension).0;
                let used = |i| if i == operand { ValueIndexing::of(map.clone()) } else { ValueIndexing::none() };
                Some((0..instruction.operands.len()).map(used).collect())
            }
            OpKind::ReduceScatter => {
                let dimension = usize::try_from(*attributes.ints("dimensions").first()?).ok()?;
                let operand = if matches!(instruction.shape, Shape::Tuple(_)) { leaf } else { 0 };
                let replicas = view.operand(operand)?.get(dimension)? / (*output.get(dimension)?).max(1);
                let map = maps::reduce_scatter(output, dimension as i64, replicas);
                let used = |i| if i == operand { ValueIndexing::of(map.clone()) } else { ValueIndexing::none() };
                Some((0..instruction.operands.len()).map(used).collect())
            }
            OpKind::AllToAll => {
                // The tuple form takes element i of every replica; which replica is not an index.
                if matches!(instruction.shape, Shape::Tuple(_)) {
                    return None;
                }
                let dimension = *attributes.ints("dimensions").first()?;
                let groups = attributes.replica_groups().map(|groups| groups.groups())?;
                let count = groups.first()?.len() as i64;
                one(maps::all_to_all(output, dimension, dimension, count))
            }
            OpKind::BatchNormInference => {
                let feature = attributes.int("feature_index")?;
                view.each(|i| Some(if i == 0 { maps::identity(output) } else { maps::one_dimension(output, feature) }))
            }
            OpKind::BatchNormTraining => {
                let feature = attributes.int("feature_index")?;
                let operand = view.operand(0)?;
                if leaf == 0 {
                    let mut input = ValueIndexing::of(maps::identity(output));
                    input.add(LeafMap { leaf: 0, map: statistics(output, feature) });
                    let scale = ValueIndexing::of(maps::one_dimension(output, feature));
                    return Some(vec![input, scale.clone(), scale]);
                }
                let input = ValueIndexing::of(maps::reduced_keeping(operand, &[feature]));
                Some(vec![input, ValueIndexing::none(), ValueIndexing::none()])
            }
            OpKind::BatchNormGrad => {
                let feature = attributes.int("feature_index")?;
                let operand = view.operand(0)?;
                let reduced = ValueIndexing::of(maps::reduced_keeping(operand, &[feature]));
                let same = ValueIndexing::of(maps::one_dimension(output, feature));
                let unused = ValueIndexing::none();
                // Operands: operand, scale, mean, variance, gradient of the output.
                Some(match leaf {
                    0 => {
                        let mut input = ValueIndexing::of(maps::identity(output));
                        input.add(LeafMap { leaf: 0, map: statistics(output, feature) });
                        vec![input.clone(), same.clone(), same.clone(), same, input]
                    }
                    1 => {
                        let statistic = ValueIndexing::of(maps::identity(output));
                        vec![reduced.clone(), unused, statistic.clone(), statistic, reduced]
                    }
                    _ => vec![unused.clone(), unused.clone(), unused.clone(), unused, reduced],
                })
            }
            OpKind::Bitcast => {
                let input = view.operands.first().copied().flatten()?;
                if input.element_type.bit_width() != view.output.element_type.bit_width() {
                    return one(maps::bitcast_convert(&input.dimensions, output));
                }
                one(maps::bitcast(
                    &input.dimensions,
                    &input.layout_or_default().minor_to_major,
                    output,
                    &view.output.layout_or_default().minor_to_major,
                ))
            }
            OpKind::BitcastConvert => one(maps::bitcast_convert(view.operand(0)?, output)),
            OpKind::Broadcast => one(maps::broadcast(output, attributes.ints("dimensions"))),
            OpKind::Cholesky => one(maps::whole_along(output, &last_dimensions(output, 2))),
            OpKind::Fft => {
                let input = view.operand(0)?;
                let count = attributes.ints("fft_length").len();
                let transformed = last_dimensions(input, count);
                let results: Vec<i64> = transformed.iter().map(|&d| input[d as usize]).collect();
                // Real transforms change the size of the last dimension: all of the operand's is needed.
                let mut map = maps::whole_along(output, &transformed);
                for (i, &size) in results.iter().enumerate() {
                    map.set_range_size(i, size);
                }
                one(map)
            }
            OpKind::Concatenate => {
                let (sizes, dimension) = concatenated(&view.operands, attributes);
                view.each(|i| Some(maps::concatenate(output, &sizes, dimension, i)))
            }
            OpKind::Convolution => {
                let (input, kernel) = (view.operand(0)?, view.operand(1)?);
                let dimensions = attributes.convolution_dimensions()?;
                let mut window = window(attributes.window());
                // A window without spatial dimensions may be left out.
                window.truncate(dimensions.input_spatial.len());
                let numbers = convolution_numbers(attributes, dimensions, &window);
                let (input, kernel) = maps::convolution(input, kernel, output, &numbers);
                Some(vec![ValueIndexing::of(input), ValueIndexing::of(kernel)])
            }
            OpKind::Dot => {
                let (lhs, rhs) = maps::dot(view.operand(0)?, view.operand(1)?, output, &dot_numbers(attributes));
                let mut all = vec![ValueIndexing::of(lhs), ValueIndexing::of(rhs)];
                all.resize(instruction.operands.len(), ValueIndexing::Unknown);
                Some(all)
            }
            OpKind::DynamicSlice => {
                let offsets = self.offsets(computation, &instruction.operands[1..]);
                let mut map = maps::dynamic_slice(view.operand(0)?, output, &offsets);
                self.fold(&mut map, computation);
                let mut all = vec![view.scalar(); instruction.operands.len()];
                all[0] = ValueIndexing::of(map);
                Some(all)
            }
            OpKind::DynamicUpdateSlice => {
                let offsets = self.offsets(computation, &instruction.operands[2..]);
                let mut map = maps::dynamic_update_slice(output, view.operand(1)?, &offsets);
                self.fold(&mut map, computation);
                let mut all = vec![view.scalar(); instruction.operands.len()];
                all[0] = ValueIndexing::of(maps::identity(output));
                all[1] = ValueIndexing::of(map);
                Some(all)
            }
            OpKind::DynamicReshape => {
                let mut all = vec![view.scalar(); instruction.operands.len()];
                all[0] = ValueIndexing::of(maps::reshape(view.operand(0)?, output));
                Some(all)
            }
            OpKind::SetDimensionSize => Some(vec![ValueIndexing::of(maps::identity(output)), view.scalar()]),
            OpKind::Gather => {
                let value = self.runtime_value(computation, *instruction.operands.get(1)?);
                let numbers = gather_numbers(attributes);
                let (mut operand, indices) = maps::gather(view.operand(0)?, view.operand(1)?, output, &numbers, value);
                self.fold(&mut operand, computation);
                Some(vec![ValueIndexing::of(operand), ValueIndexing::of(indices)])
            }
            OpKind::Pad => {
                let low: Vec<i64> = attributes.padding().iter().map(|p| p.low).collect();
                let interior: Vec<i64> = attributes.padding().iter().map(|p| p.interior).collect();
                let map = maps::pad(output, view.operand(0)?, &low, &interior);
                Some(vec![ValueIndexing::of(map), view.scalar()])
            }
            OpKind::Reduce => {
                let inputs = input_count(instruction);
                view.each(|i| {
                    if i >= inputs {
                        return Some(maps::scalar(output));
                    }
                    Some(maps::reduce(view.operand(i)?, attributes.ints("dimensions")))
                })
            }
            OpKind::ReduceWindow => {
                let inputs = input_count(instruction);
                let window = window(attributes.window());
                view.each(|i| {
                    if i >= inputs {
                        return Some(maps::scalar(output));
                    }
                    Some(maps::reduce_window(view.operand(i)?, output, &window))
                })
            }
            OpKind::Reshape => one(maps::reshape(view.operand(0)?, output)),
            OpKind::Reverse => one(maps::reverse(output, attributes.ints("dimensions"))),
            OpKind::Rng => view.each(|_| Some(maps::scalar(output))),
            OpKind::Scatter => {
                let inputs = (instruction.operands.len().checked_sub(1)?) / 2;
                let value = self.runtime_value(computation, *instruction.operands.get(inputs)?);
                let (indices, updates) = (view.operand(inputs)?, view.operand(inputs + 1)?);
                let numbers = scatter_numbers(attributes);
                let (mut updates, indices) = maps::scatter(output, indices, updates, &numbers, value);
                self.fold(&mut updates, computation);
                view.each(|i| {
                    Some(match i.cmp(&inputs) {
                        std::cmp::Ordering::Less => maps::identity(output),
                        std::cmp::Ordering::Equal => indices.clone(),
                        std::cmp::Ordering::Greater => updates.clone(),
                    })
                })
            }
            OpKind::SelectAndScatter => {
                let window = window(attributes.window());
                let source = view.operand(1)?;
                Some(vec![
                    ValueIndexing::of(maps::select_and_scatter_operand(output, source, &window)),
                    ValueIndexing::of(maps::select_and_scatter_source(output, source, &window)),
                    view.scalar(),
                ])
            }
            OpKind::Slice => {
                let starts: Vec<i64> = attributes.slice().iter().map(|s| s.start).collect();
                let strides: Vec<i64> = attributes.slice().iter().map(|s| s.stride).collect();
                one(maps::slice(output, &starts, &strides))
            }
            OpKind::Sort => {
                let dimension = *attributes.ints("dimensions").first()?;
                view.each(|_| Some(maps::sort(output, dimension)))
            }
            OpKind::TopK => {
                let input = view.operand(0)?;
                let mut map = maps::whole_along(output, &last_dimensions(output, 1));
                map.set_range_size(0, *input.last()?);
                one(map)
            }
            OpKind::Transpose => one(maps::transpose(view.operand(0)?, attributes.ints("dimensions"))),
            // Which elements these need is not an affine function of the index, or there is no array to index.
            OpKind::AfterAll
            | OpKind::AllGatherDone
            | OpKind::AllGatherStart
            | OpKind::AsyncDone
            | OpKind::AsyncStart
            | OpKind::AsyncUpdate
            | OpKind::Call
            | OpKind::CollectivePermuteStart
            | OpKind::Conditional
            | OpKind::Constant
            | OpKind::CopyStart
            | OpKind::CustomCall
            | OpKind::Fusion
            | OpKind::GetDimensionSize
            | OpKind::GetTupleElement
            | OpKind::Infeed
            | OpKind::Iota
            | OpKind::Outfeed
            | OpKind::Parameter
            | OpKind::PartitionId
            | OpKind::RaggedAllToAll
            | OpKind::RaggedDot
            | OpKind::Recv
            | OpKind::RecvDone
            | OpKind::ReplicaId
            | OpKind::RngBitGenerator
            | OpKind::RngGetAndUpdateState
            | OpKind::Send
            | OpKind::SendDone
            | OpKind::TriangularSolve
            | OpKind::Tuple
            | OpKind::While => None,
        }
    }

    pub(super) fn offsets(&self, computation: usize, operands: &[InstructionId]) -> Vec<Offset> {
        operands.iter().map(|&operand| Offset::Value(self.runtime_value(computation, operand))).collect()
    }
}

/// From an element of an array to all with the same index along `feature`.
fn statistics(sizes: &[i64], feature: i64) -> IndexingMap {
    let others: Vec<i64> = (0..sizes.len() as i64).filter(|&d| d != feature).collect();
    maps::whole_along(sizes, &others)
}

/// The numbers of the last `count` dimensions.
pub(super) fn last_dimensions(sizes: &[i64], count: usize) -> Vec<i64> {
    (sizes.len().saturating_sub(count)..sizes.len()).map(|d| d as i64).collect()
}

/// get-tuple-element: the same index in a leaf of the tuple.
fn element_of_tuple(graph: &Computation, instruction: &Instruction, leaf: usize) -> Option<Vec<ValueIndexing>> {
    let output = leaf_array(&instruction.shape, leaf)?;
    let tuple = &graph.get(*instruction.operands.first()?).shape;
    let element = usize::try_from(instruction.attributes.int("index")?).ok()?;
    let leaf = leaves_before(tuple, element) + leaf;
    Some(vec![ValueIndexing::Known(vec![LeafMap { leaf, map: maps::identity(&output.dimensions) }])])
}

/// tuple: the same index in a leaf of one operand.
fn tuple(graph: &Computation, instruction: &Instruction, leaf: usize) -> Option<Vec<ValueIndexing>> {
    let output = leaf_array(&instruction.shape, leaf)?;
    let mut first = 0;
    let mut all = Vec::with_capacity(instruction.operands.len());
    for shape in graph.operand_shapes(instruction) {
        let leaves = shape.leaves().len();
        all.push(if (first..first + leaves).contains(&leaf) {
            let map = maps::identity(&output.dimensions);
            ValueIndexing::Known(vec![LeafMap { leaf: leaf - first, map }])
        } else {
            ValueIndexing::none()
        });
        first += leaves;
    }
    Some(all)
}

/// The dimension variables as expressions.
pub(super) fn indices(rank: usize) -> Vec<Expr> {
    (0..rank).map(Expr::dim).collect()
}
