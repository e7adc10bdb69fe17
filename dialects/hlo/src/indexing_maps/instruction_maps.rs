//! The maps of one instruction as it stands: nothing composed, no run-time variable folded.
//!
//! This is what the lowering applies, and what [`super::Analysis`] puts together for fusions.

use indexing::{Expr, IndexingMap};
use melior::Context;

use super::maps::{self, Offset};
use super::{RuntimeValue, ValueIndexing, leaf_array};
use crate::graph::{Computation, Instruction};
use crate::op_kind::OpKind;
use crate::ops::concatenate::ConcatenateAttributes;
use crate::ops::reduce_window::ReduceWindowAttributes;
use crate::ops::typed_attributes::{Dimension, OperationAttributes};
use crate::shape::{ArrayShape, Shape};

/// How run-time variables name the operand whose elements they are, in [`indexing::RuntimeSource::value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// By the operand's number.
    Operands,
    /// By the instruction, as a [`RuntimeValue`] of this computation of an [`super::Analysis`].
    Instructions(u32),
}

/// The maps of one instruction, each made when it is asked for.
#[derive(Clone)]
pub struct InstructionMaps<'c, 'a> {
    pub(super) context: &'c Context,
    pub(super) computation: &'a Computation,
    pub(super) instruction: &'a Instruction,
    numbering: Numbering,
}

/// The maps from the result of a dot or convolution to its two operands.
#[derive(Clone, Debug)]
pub struct ContractionIndexing<'c> {
    /// To the left operand or the input.
    pub lhs: IndexingMap<'c>,
    /// To the right operand or the kernel. Its range variables are the first of the left map's.
    pub rhs: IndexingMap<'c>,
    /// The value of the left map's last range variable where a convolution has several batch groups, as an
    /// expression of the result's index.
    pub batch_group: Option<Expr<'c>>,
}

impl<'c, 'a> InstructionMaps<'c, 'a> {
    /// The maps of an instruction of a checked computation.
    pub fn new(
        context: &'c Context,
        computation: &'a Computation,
        instruction: &'a Instruction,
        numbering: Numbering,
    ) -> Self {
        InstructionMaps { context, computation, instruction, numbering }
    }

    /// The one map from the result (its first leaf) to an operand; `None` if there is not exactly one.
    pub fn operand_map(&self, operand: usize) -> Option<IndexingMap<'c>> {
        only_map(self.to_operand(0, operand)?)
    }

    /// The one map from an operand to the result (its first leaf); `None` if there is not exactly one.
    pub fn result_map(&self, operand: usize) -> Option<IndexingMap<'c>> {
        only_map(self.to_result(operand)?.into_iter().next()?)
    }

    /// The map of reduce-window to its inputs, with a range variable for each dimension of the window in the order in
    /// which its elements are combined.
    pub fn window_in_order(&self) -> Option<IndexingMap<'c>> {
        let (input, output) = (self.sizes(0)?, &self.output(0)?.dimensions);
        Some(maps::reduce_window_in_order(
            self.context,
            input,
            output,
            self.attributes::<ReduceWindowAttributes>()?.window,
        ))
    }

    /// The maps of a dot or convolution; `None` for other operations.
    pub fn contraction(&self) -> Option<ContractionIndexing<'c>> {
        let (lhs, rhs, output) = (self.sizes(0)?, self.sizes(1)?, &self.output(0)?.dimensions);
        match self.instruction.kind {
            OpKind::Dot => {
                let (lhs, rhs) = maps::dot(self.context, lhs, rhs, output, &self.attributes()?);
                Some(ContractionIndexing { lhs, rhs, batch_group: None })
            }
            OpKind::Convolution => {
                let attributes = self.attributes()?;
                let batch_group = maps::batch_group(self.context, output, &attributes);
                let (lhs, rhs) = maps::convolution(self.context, lhs, rhs, output, &attributes);
                Some(ContractionIndexing { lhs, rhs, batch_group })
            }
            _ => None,
        }
    }

    /// ragged-dot, to an operand.
    pub(super) fn ragged_dot(&self, operand: usize) -> Option<IndexingMap<'c>> {
        let output = &self.output(0)?.dimensions;
        let (lhs, rhs) = maps::ragged_dot(self.context, self.sizes(0)?, self.sizes(1)?, output, &self.attributes()?);
        Some(match operand {
            0 => lhs,
            1 => rhs,
            // Where a group starts depends on the sizes of those before it.
            _ => maps::all_of(self.context, output, self.sizes(operand)?),
        })
    }

    /// The attributes of the instruction, which has been checked.
    pub(super) fn attributes<T: OperationAttributes<'a>>(&self) -> Option<T> {
        self.instruction.attributes().ok()
    }

    pub(super) fn operand_shape(&self, operand: usize) -> Option<&'a Shape> {
        Some(&self.computation.get(*self.instruction.operands.get(operand)?).shape)
    }

    /// An operand as an array (the first leaf of a tuple).
    pub(super) fn array(&self, operand: usize) -> Option<&'a ArrayShape> {
        leaf_array(self.operand_shape(operand)?, 0)
    }

    pub(super) fn sizes(&self, operand: usize) -> Option<&'a [i64]> {
        Some(&self.array(operand)?.dimensions)
    }

    pub(super) fn output(&self, leaf: usize) -> Option<&'a ArrayShape> {
        leaf_array(&self.instruction.shape, leaf)
    }

    pub(super) fn operand_count(&self) -> usize {
        self.instruction.operands.len()
    }

    /// Number of reducing operands: half of them, the others are initial values.
    pub(super) fn input_count(&self) -> usize {
        self.operand_count() / 2
    }

    /// Operand numbers of the indices and the first updates of a scatter.
    pub(super) fn scatter_operands(&self) -> Option<(usize, usize)> {
        let inputs = self.operand_count().checked_sub(1)? / 2;
        Some((inputs, inputs + 1))
    }

    /// Whether the result is a tuple with one leaf for each operand (a collective over several arrays).
    pub(super) fn is_leafwise(&self) -> bool {
        matches!(self.instruction.shape, Shape::Tuple(_))
    }

    /// Where an operand of a concatenate is in the result: the dimension, and start and size along it.
    pub(super) fn concatenated(&self, operand: usize) -> Option<(i64, i64, i64)> {
        let Dimension(dimension) = self.attributes::<ConcatenateAttributes>()?.dimensions;
        let place = usize::try_from(dimension).ok()?;
        let size = |operand| self.sizes(operand)?.get(place).copied();
        let start = (0..operand).map(size).sum::<Option<i64>>()?;
        Some((dimension, start, size(operand)?))
    }

    /// What a run-time variable that is an element of an operand stands for.
    pub(super) fn value(&self, operand: usize) -> u64 {
        match self.numbering {
            Numbering::Operands => operand as u64,
            Numbering::Instructions(computation) => {
                RuntimeValue { computation, instruction: self.instruction.operands[operand] }.into()
            }
        }
    }

    /// The start indices of a dynamic-slice or dynamic-update-slice, its operands from number `first` on.
    pub(super) fn offsets(&self, first: usize) -> Vec<Offset> {
        if let Some(&[count]) = self.sizes(first) {
            return (0..count).map(|place| Offset::Element(self.value(first), place)).collect();
        }
        (first..self.operand_count()).map(|operand| Offset::Value(self.value(operand))).collect()
    }
}

/// The map of a value that is used in one way.
fn only_map(indexing: ValueIndexing<'_>) -> Option<IndexingMap<'_>> {
    match indexing {
        ValueIndexing::Unknown => None,
        ValueIndexing::Known(mut entries) => {
            let entry = entries.pop()?;
            entries.is_empty().then_some(entry.map)
        }
    }
}
