//! From an operand of an instruction to its result, by operation.
//!
//! Most maps are the converse of those from the result. Here are the operations with arithmetic on indices.

use indexing::IndexingMap;

use super::instruction_maps::InstructionMaps;
use super::{LeafMap, ValueIndexing, maps, tuples};
use crate::op_kind::OpKind;
use crate::ops::all_gather::AllGatherAttributes;
use crate::ops::pad::PadAttributes;
use crate::ops::reduce_scatter::ReduceScatterAttributes;
use crate::ops::reduce_window::ReduceWindowAttributes;
use crate::ops::reverse::ReverseAttributes;
use crate::ops::select_and_scatter::SelectAndScatterAttributes;
use crate::ops::slice::SliceAttributes;
use crate::ops::typed_attributes::Dimension;

impl<'c> InstructionMaps<'c, '_> {
    /// The maps from an operand to each leaf of the result; `None` if none is known.
    pub(super) fn to_result(&self, operand: usize) -> Option<Vec<ValueIndexing<'c>>> {
        let kind = self.instruction.kind;
        if matches!(
            kind,
            OpKind::Tuple
                | OpKind::GetTupleElement
                | OpKind::AllGatherDone
                | OpKind::CollectivePermuteDone
                | OpKind::CopyDone
        ) {
            return tuples::to_result(self, operand);
        }
        let leaves = self.instruction.shape.leaves().len();
        if let Some(map) = self.indexed_to_result(operand) {
            // A variadic operation treats its results alike.
            return Some(vec![ValueIndexing::of(map); leaves]);
        }
        Some((0..leaves).map(|leaf| self.converse(leaf, operand).unwrap_or(ValueIndexing::Unknown)).collect())
    }

    /// The converse of the maps from a leaf.
    fn converse(&self, leaf: usize, operand: usize) -> Option<ValueIndexing<'c>> {
        let ValueIndexing::Known(entries) = self.to_operand(leaf, operand)? else { return None };
        let converse = |entry: LeafMap<'c>| {
            let map = entry.map.converse().or_else(|| self.collective_to_result(leaf, operand))?;
            Some(LeafMap { map, ..entry })
        };
        Some(ValueIndexing::Known(entries.into_iter().map(converse).collect::<Option<_>>()?))
    }

    /// The map of a collective whose parts go to places that depend on the replica, to the leaf it goes to.
    fn collective_to_result(&self, leaf: usize, operand: usize) -> Option<IndexingMap<'c>> {
        let (from, sizes) = (self.sizes(operand)?, &self.output(leaf)?.dimensions);
        match self.instruction.kind {
            OpKind::AllGather | OpKind::AllGatherStart => {
                let Dimension(dimension) = self.attributes::<AllGatherAttributes>()?.dimensions;
                Some(maps::all_gather_to_output(self.context, from, sizes, dimension))
            }
            OpKind::ReduceScatter => {
                let Dimension(dimension) = self.attributes::<ReduceScatterAttributes>()?.dimensions;
                Some(maps::reduce_scatter_to_output(self.context, from, sizes, dimension))
            }
            _ => None,
        }
    }

    /// The map of an operation with one map from this operand that is no converse of a plain choice of indices.
    fn indexed_to_result(&self, operand: usize) -> Option<IndexingMap<'c>> {
        let output = self.output(0)?;
        let (input, sizes) = (self.array(operand)?, output.dimensions.as_slice());
        let from = input.dimensions.as_slice();
        match self.instruction.kind {
            OpKind::Bitcast if input.element_type.bit_width() == output.element_type.bit_width() => {
                Some(maps::bitcast(
                    self.context,
                    sizes,
                    &output.layout_or_default().minor_to_major,
                    from,
                    &input.layout_or_default().minor_to_major,
                ))
            }
            OpKind::Bitcast | OpKind::BitcastConvert => Some(maps::bitcast_convert(self.context, sizes, from)),
            OpKind::Concatenate => {
                let (dimension, start, _) = self.concatenated(operand)?;
                Some(maps::concatenate_to_output(self.context, from, dimension, start))
            }
            OpKind::Convolution if operand < 2 => {
                let (from, kernel) = (self.sizes(0)?, self.sizes(1)?);
                let (input, kernel) =
                    maps::convolution_to_output(self.context, from, kernel, sizes, &self.attributes()?)?;
                Some(if operand == 0 { input } else { kernel })
            }
            OpKind::Gather if operand < 2 => {
                let (source, indices) = maps::gather_to_output(
                    self.context,
                    self.sizes(0)?,
                    self.sizes(1)?,
                    sizes,
                    &self.attributes()?,
                    self.value(1),
                );
                Some(if operand == 0 { source } else { indices })
            }
            OpKind::Scatter => {
                let (indices, updates) = self.scatter_operands()?;
                if operand < updates {
                    return None;
                }
                let attributes = self.attributes()?;
                let (value, indices) = (self.value(indices), self.sizes(indices)?);
                Some(maps::scatter_updates_to_output(self.context, sizes, indices, from, &attributes, value))
            }
            OpKind::AllToAll => {
                let (dimension, replicas) = self.replicas_in_dimension()?;
                Some(maps::all_to_all_to_output(self.context, from, dimension, dimension, replicas))
            }
            OpKind::DynamicSlice if operand == 0 => {
                Some(maps::dynamic_slice_to_output(self.context, from, sizes, &self.offsets(1)))
            }
            // An element of the update goes where a dynamic slice of the result would have taken it.
            OpKind::DynamicUpdateSlice if operand == 1 => {
                Some(maps::dynamic_slice(self.context, sizes, from, &self.offsets(2)))
            }
            OpKind::DynamicReshape | OpKind::Reshape if operand == 0 => Some(maps::reshape(self.context, sizes, from)),
            OpKind::Pad if operand == 0 => {
                let (low, interior) = self.attributes::<PadAttributes>()?.low_and_interior();
                Some(maps::pad_to_output(self.context, from, sizes, &low, &interior))
            }
            OpKind::ReduceWindow if operand < self.input_count() => {
                let window = self.attributes::<ReduceWindowAttributes>()?.window;
                Some(maps::reduce_window_to_output(self.context, from, sizes, window))
            }
            OpKind::Reverse => {
                Some(maps::reverse(self.context, sizes, self.attributes::<ReverseAttributes>()?.dimensions))
            }
            OpKind::SelectAndScatter if operand < 2 => {
                let window = self.attributes::<SelectAndScatterAttributes>()?.window;
                // An element takes part where it shares a window, which goes both ways.
                Some(match operand {
                    0 => maps::select_and_scatter_operand(self.context, from, self.sizes(1)?, window),
                    _ => maps::select_and_scatter_source_to_output(self.context, sizes, from, window),
                })
            }
            OpKind::Slice => {
                let (starts, strides) = self.attributes::<SliceAttributes>()?.starts_and_strides();
                Some(maps::slice_to_output(self.context, from, sizes, &starts, &strides))
            }
            _ => None,
        }
    }
}
