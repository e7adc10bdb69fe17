//! From an operand of an instruction to its result, by operation.

use indexing::{Expr, IndexingMap, Interval, maps, variables_of_sizes};

use super::operations::{
    concatenated, convolution_numbers, dot_numbers, gather_numbers, indices, input_count, last_dimensions,
    scatter_numbers, window,
};
use super::{Analysis, LeafMap, ValueIndexing, leaf_array, leaves_before};
use crate::graph::{Computation, Instruction, InstructionId};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

impl<'a> Analysis<'a> {
    pub(super) fn input_to_output_in(
        &mut self,
        computation: usize,
        id: InstructionId,
        operand: usize,
    ) -> Vec<ValueIndexing> {
        let graph = self.computation(computation);
        let Some(instruction) = graph.instructions.get(id.index()) else { return Vec::new() };
        let leaves = instruction.shape.leaves().len();
        let known = match instruction.kind {
            OpKind::Fusion => self.fusion_input_to_output(instruction, operand),
            OpKind::Tuple => tuple(graph, instruction, operand),
            OpKind::GetTupleElement => element_of_tuple(graph, instruction),
            _ => self.forward(computation, graph, instruction, operand),
        };
        known.unwrap_or_else(|| vec![ValueIndexing::Unknown; leaves])
    }

    fn forward(
        &self,
        computation: usize,
        graph: &Computation,
        instruction: &Instruction,
        operand: usize,
    ) -> Option<Vec<ValueIndexing>> {
        let operands: Vec<Option<&ArrayShape>> =
            graph.operand_shapes(instruction).iter().map(|shape| leaf_array(shape, 0)).collect();
        let output = leaf_array(&instruction.shape, 0)?;
        let sizes = &output.dimensions;
        let input = operands.get(operand).copied().flatten()?;
        let from = &input.dimensions;
        let attributes = &instruction.attributes;
        let leaves = instruction.shape.leaves().len();
        // The same map to each leaf of a variadic operation.
        let every = |map: IndexingMap| Some(vec![ValueIndexing::of(map); leaves]);
        match instruction.kind {
            OpKind::Bitcast if input.element_type.bit_width() == output.element_type.bit_width() => {
                every(maps::bitcast(
                    sizes,
                    &output.layout_or_default().minor_to_major,
                    from,
                    &input.layout_or_default().minor_to_major,
                ))
            }
            OpKind::Bitcast | OpKind::BitcastConvert => every(maps::bitcast_convert(sizes, from)),
            OpKind::Broadcast => every(maps::broadcast_to_output(from, sizes, attributes.ints("dimensions"))),
            OpKind::Concatenate => {
                let (parts, dimension) = concatenated(&operands, attributes);
                every(maps::concatenate_to_output(from, dimension, parts.iter().take(operand).sum()))
            }
            OpKind::Cholesky => every(maps::whole_along_to_output(from, sizes, &last_dimensions(sizes, 2))),
            OpKind::Convolution if operand < 2 => {
                let (input, kernel) = (operands.first().copied().flatten()?, operands.get(1).copied().flatten()?);
                let dimensions = attributes.convolution_dimensions()?;
                let mut window = window(attributes.window());
                window.truncate(dimensions.input_spatial.len());
                let numbers = convolution_numbers(attributes, dimensions, &window);
                let (input, kernel) =
                    maps::convolution_to_output(&input.dimensions, &kernel.dimensions, sizes, &numbers)?;
                every(if operand == 0 { input } else { kernel })
            }
            OpKind::Fft => {
                let count = attributes.ints("fft_length").len();
                every(maps::whole_along_to_output(from, sizes, &last_dimensions(sizes, count)))
            }
            OpKind::Gather if operand < 2 => {
                let (source, indices) = (operands.first().copied().flatten()?, operands.get(1).copied().flatten()?);
                let value = self.runtime_value(computation, *instruction.operands.get(1)?);
                let numbers = gather_numbers(attributes);
                let (mut source, indices) =
                    maps::gather_to_output(&source.dimensions, &indices.dimensions, sizes, &numbers, value);
                self.fold(&mut source, computation);
                every(if operand == 0 { source } else { indices })
            }
            OpKind::Scatter if operand * 2 > instruction.operands.len() => {
                // The updates; the indices, in the middle, decide where and do not go anywhere themselves.
                let inputs = instruction.operands.len() / 2;
                let indices = operands.get(inputs).copied().flatten()?;
                let value = self.runtime_value(computation, *instruction.operands.get(inputs)?);
                let numbers = scatter_numbers(attributes);
                let mut map = maps::scatter_updates_to_output(sizes, &indices.dimensions, from, &numbers, value);
                self.fold(&mut map, computation);
                every(map)
            }
            OpKind::TopK => every(maps::whole_along_to_output(from, sizes, &last_dimensions(sizes, 1))),
            OpKind::Dot if operand < 2 => {
                let (lhs, rhs) = (operands.first().copied().flatten()?, operands.get(1).copied().flatten()?);
                let numbers = dot_numbers(attributes);
                let (lhs, rhs) = maps::dot_to_output(&lhs.dimensions, &rhs.dimensions, sizes, &numbers);
                every(if operand == 0 { lhs } else { rhs })
            }
            OpKind::DynamicSlice if operand == 0 => {
                let offsets = self.offsets(computation, &instruction.operands[1..]);
                every(self.dynamic_slice_to_output(computation, from, sizes, &offsets))
            }
            OpKind::DynamicUpdateSlice if operand == 0 => every(maps::identity(sizes)),
            OpKind::DynamicUpdateSlice if operand == 1 => {
                let offsets = self.offsets(computation, &instruction.operands[2..]);
                // An element of the update goes where a dynamic slice of the result would have taken it.
                let mut map = maps::dynamic_slice(sizes, from, &offsets);
                self.fold(&mut map, computation);
                every(map)
            }
            OpKind::DynamicReshape | OpKind::Reshape if operand == 0 => every(maps::reshape(sizes, from)),
            OpKind::Pad if operand == 0 => {
                let low: Vec<i64> = attributes.padding().iter().map(|p| p.low).collect();
                let interior: Vec<i64> = attributes.padding().iter().map(|p| p.interior).collect();
                every(maps::pad_to_output(from, sizes, &low, &interior))
            }
            OpKind::Reduce => {
                if operand >= input_count(instruction) {
                    return every(maps::reduce_init_to_output(sizes));
                }
                every(maps::reduce_to_output(from, attributes.ints("dimensions")))
            }
            OpKind::ReduceWindow => {
                if operand >= input_count(instruction) {
                    return every(maps::whole(sizes));
                }
                every(maps::reduce_window_to_output(from, sizes, &window(attributes.window())))
            }
            OpKind::Reverse => every(maps::reverse(sizes, attributes.ints("dimensions"))),
            OpKind::Scatter if operand * 2 + 1 < instruction.operands.len() => leafwise(leaves, operand, sizes),
            OpKind::SelectAndScatter if operand == 1 => {
                every(maps::select_and_scatter_source_to_output(sizes, from, &window(attributes.window())))
            }
            OpKind::Slice => {
                let starts: Vec<i64> = attributes.slice().iter().map(|s| s.start).collect();
                let strides: Vec<i64> = attributes.slice().iter().map(|s| s.stride).collect();
                every(maps::slice_to_output(from, sizes, &starts, &strides))
            }
            OpKind::Sort => every(maps::sort(sizes, *attributes.ints("dimensions").first()?)),
            OpKind::Transpose => {
                let permutation = attributes.ints("dimensions");
                let inverse = (0..permutation.len() as i64)
                    .map(|d| permutation.iter().position(|&p| p == d).map(|p| p as i64))
                    .collect::<Option<Vec<i64>>>()?;
                every(maps::transpose(sizes, &inverse))
            }
            OpKind::AllReduce | OpKind::AllReduceStart | OpKind::AllReduceDone | OpKind::OptimizationBarrier
                if matches!(instruction.shape, Shape::Tuple(_)) =>
            {
                leafwise(leaves, operand, from)
            }
            OpKind::BatchNormInference if operand > 0 => {
                let feature = attributes.int("feature_index")?;
                every(maps::broadcast_to_output(from, sizes, &[feature]))
            }
            OpKind::BatchNormInference | OpKind::SetDimensionSize if operand == 0 => every(maps::identity(sizes)),
            // A scalar offset or padding value reaches every element.
            OpKind::DynamicSlice | OpKind::DynamicUpdateSlice | OpKind::Pad if from.is_empty() => {
                every(maps::whole(sizes))
            }
            _ => {
                // Operations whose maps from the result are the identity, and scalars they use everywhere.
                let backwards = {
                    let mut analysis = Analysis { computations: self.computations.clone(), ..*self };
                    let id = graph.instructions.iter().position(|other| std::ptr::eq(other, instruction))?;
                    analysis.output_to_input_in(computation, InstructionId(id as u32), 0)
                };
                let ValueIndexing::Known(entries) = backwards.get(operand)? else { return None };
                let [LeafMap { leaf: 0, map }] = entries.as_slice() else { return None };
                if *map == maps::identity(from) && from == sizes {
                    return every(map.clone());
                }
                (from.is_empty() && map.results().is_empty()).then(|| every(maps::whole(sizes)))?
            }
        }
    }

    /// dynamic-slice, from the elements of the operand that are taken.
    fn dynamic_slice_to_output(
        &self,
        computation: usize,
        from: &[i64],
        sizes: &[i64],
        offsets: &[maps::Offset],
    ) -> IndexingMap {
        let taken = maps::dynamic_slice(from, sizes, offsets);
        let results: Vec<Expr> =
            indices(from.len()).into_iter().enumerate().map(|(i, d)| d - Expr::runtime(i)).collect();
        let mut map = IndexingMap::new(
            variables_of_sizes(from),
            Vec::new(),
            taken.runtimes().to_vec(),
            results.clone(),
            Vec::new(),
        );
        for (result, &size) in results.into_iter().zip(sizes) {
            map.add_constraint(result, Interval::of_size(size));
        }
        self.fold(&mut map, computation);
        map
    }

    /// Forwards through the cluster, operands before users.
    fn fusion_input_to_output(&mut self, fusion: &'a Instruction, operand: usize) -> Option<Vec<ValueIndexing>> {
        let fused = fusion.computations.first()?;
        let number = self.number(fused);
        let parameter = *fused.parameters.get(operand)?;
        let array = leaf_array(&fused.get(parameter).shape, 0)?;
        // For each instruction and leaf of it, the maps from the parameter.
        let mut groups: Vec<Vec<ValueIndexing>> =
            fused.instructions.iter().map(|i| vec![ValueIndexing::none(); i.shape.leaves().len()]).collect();
        groups[parameter.index()] = vec![ValueIndexing::of(maps::identity(&array.dimensions))];
        for (id, instruction) in fused.iter() {
            for (place, &used) in instruction.operands.iter().enumerate() {
                let sources = groups[used.index()].clone();
                if sources.iter().all(|source| *source == ValueIndexing::none()) {
                    continue;
                }
                let steps = self.input_to_output_in(number, id, place);
                for (target, step) in steps.into_iter().enumerate() {
                    let mut group = std::mem::replace(&mut groups[id.index()][target], ValueIndexing::Unknown);
                    for (leaf, source) in sources.iter().enumerate() {
                        self.join(&mut group, source, &step, leaf);
                    }
                    groups[id.index()][target] = group;
                }
            }
        }
        groups.into_iter().nth(fused.root.index())
    }
}

impl Analysis<'_> {
    /// Adds the maps through one leaf of a value.
    fn join(&self, group: &mut ValueIndexing, source: &ValueIndexing, step: &ValueIndexing, leaf: usize) {
        let (ValueIndexing::Known(before), ValueIndexing::Known(after)) = (source, step) else {
            *group = ValueIndexing::Unknown;
            return;
        };
        for first in before {
            for second in after.iter().filter(|second| second.leaf == leaf) {
                match self.composed(&first.map, &second.map) {
                    Some(map) => group.add(LeafMap { leaf: 0, map }),
                    None => *group = ValueIndexing::Unknown,
                }
            }
        }
    }
}

/// Operand number `operand` goes into leaf number `operand`, at the same index.
fn leafwise(leaves: usize, operand: usize, sizes: &[i64]) -> Option<Vec<ValueIndexing>> {
    let mut all = vec![ValueIndexing::none(); leaves];
    *all.get_mut(operand)? = ValueIndexing::of(maps::identity(sizes));
    Some(all)
}

/// tuple: the leaves of an operand are leaves of the result.
fn tuple(graph: &Computation, instruction: &Instruction, operand: usize) -> Option<Vec<ValueIndexing>> {
    let shape = &graph.get(*instruction.operands.get(operand)?).shape;
    let first = leaves_before(&instruction.shape, operand);
    let mut all = vec![ValueIndexing::none(); instruction.shape.leaves().len()];
    for leaf in 0..shape.leaves().len() {
        let map = maps::identity(&leaf_array(shape, leaf)?.dimensions);
        *all.get_mut(first + leaf)? = ValueIndexing::Known(vec![LeafMap { leaf, map }]);
    }
    Some(all)
}

/// get-tuple-element: the leaves of the element.
fn element_of_tuple(graph: &Computation, instruction: &Instruction) -> Option<Vec<ValueIndexing>> {
    let tuple = &graph.get(*instruction.operands.first()?).shape;
    let first = leaves_before(tuple, usize::try_from(instruction.attributes.int("index")?).ok()?);
    let count = instruction.shape.leaves().len();
    (first..first + count)
        .map(|leaf| {
            let map = maps::identity(&leaf_array(tuple, leaf)?.dimensions);
            Some(ValueIndexing::Known(vec![LeafMap { leaf, map }]))
        })
        .collect()
}
