//! Indexing maps of instructions: which elements of an operand an element of the result needs, and which
//! elements of the result an element of an operand goes into.
//!
//! [`maps`] has the maps of operations from sizes and attributes alone; here attributes and shapes are taken from
//! the graph, fusions are composed and run-time variables with known values are folded. Source: document "Indexing analysis". Arrays are looked at without their layouts, see [`layouts`].
//!
//! Tuples: the arrays of a tuple-shaped value are its *leaves*, numbered in the order of [`Shape::leaves`].

mod fusion;
mod instruction_maps;
pub mod layouts;
pub mod maps;
mod runtime_values;
mod to_operand;
mod to_result;
mod tuples;

use indexing::IndexingMap;
use melior::Context;

use crate::graph::{Computation, Instruction, InstructionId};
use crate::op_kind::OpKind;
use crate::shape::{ArrayShape, Shape};

pub use instruction_maps::{ContractionIndexing, InstructionMaps, Numbering};
pub use runtime_values::{Outside, fold_runtime_values};

/// Different accesses to one value that are kept apart. Real fusions have a few; sums of shifted copies of
/// shifted copies can have exponentially many.
const MAX_MAPS: usize = 256;

/// A map to or from one leaf of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafMap<'c> {
    /// The leaf; 0 for an array.
    pub leaf: usize,
    /// The map.
    pub map: IndexingMap<'c>,
}

/// How one value is used: all the maps, or that they are not known.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueIndexing<'c> {
    /// Nothing is known; any element may be needed.
    Unknown,
    /// Exactly these. No map twice.
    Known(Vec<LeafMap<'c>>),
}

impl<'c> ValueIndexing<'c> {
    /// One map of an array.
    pub fn of(map: IndexingMap<'c>) -> ValueIndexing<'c> {
        ValueIndexing::Known(vec![LeafMap { leaf: 0, map }])
    }

    /// One map of an array if it is used, else none.
    fn used(is_used: bool, map: IndexingMap<'c>) -> ValueIndexing<'c> {
        if is_used { ValueIndexing::of(map) } else { ValueIndexing::none() }
    }

    /// Not used at all.
    pub fn none() -> ValueIndexing<'c> {
        ValueIndexing::Known(Vec::new())
    }

    /// The maps; none if they are not known.
    pub fn maps(&self) -> &[LeafMap<'c>] {
        match self {
            ValueIndexing::Unknown => &[],
            ValueIndexing::Known(maps) => maps,
        }
    }

    /// Adds a map unless it is there. Too many count as not known.
    fn add(&mut self, entry: LeafMap<'c>) {
        if let ValueIndexing::Known(maps) = self {
            if maps.contains(&entry) {
                return;
            }
            if maps.len() == MAX_MAPS {
                *self = ValueIndexing::Unknown;
            } else {
                maps.push(entry);
            }
        }
    }
}

/// The instruction that computes a run-time variable: computation and position in it, as
/// [`indexing::RuntimeSource::value`] holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuntimeValue {
    /// Number of the computation in the [`Analysis`].
    pub computation: u32,
    /// The instruction.
    pub instruction: InstructionId,
}

impl From<RuntimeValue> for u64 {
    fn from(value: RuntimeValue) -> u64 {
        (u64::from(value.computation) << 32) | u64::from(value.instruction.0)
    }
}

impl From<u64> for RuntimeValue {
    fn from(number: u64) -> RuntimeValue {
        RuntimeValue { computation: (number >> 32) as u32, instruction: InstructionId(number as u32) }
    }
}

/// Computes maps of the instructions of one computation and of those nested in its fusions.
///
/// The computation has been checked ([`crate::graph::Module::check`]).
pub struct Analysis<'c, 'a> {
    context: &'c Context,
    computations: Vec<&'a Computation>,
    simplify: bool,
}

impl<'c, 'a> Analysis<'c, 'a> {
    /// An analysis of a computation, which gets number 0.
    pub fn new(context: &'c Context, computation: &'a Computation) -> Self {
        Analysis { context, computations: vec![computation], simplify: true }
    }

    /// Leaves the maps of fusions as they are composed.
    pub fn without_simplification(self) -> Self {
        Analysis { simplify: false, ..self }
    }

    /// The instruction a run-time variable stands for.
    pub fn runtime_instruction(&self, value: u64) -> Option<&'a Instruction> {
        let value = RuntimeValue::from(value);
        self.computations.get(value.computation as usize)?.instructions.get(value.instruction.index())
    }

    /// The maps from leaf `output` of an instruction's result to each of its operands.
    pub fn output_to_input(&mut self, instruction: InstructionId, output: usize) -> Vec<ValueIndexing<'c>> {
        self.output_to_input_in(0, instruction, output)
    }

    /// The maps from operand number `operand` of an instruction to each leaf of its result. A tuple-shaped
    /// operand is looked at as a whole: its leaves' maps are the entries' `leaf`.
    pub fn input_to_output(&mut self, instruction: InstructionId, operand: usize) -> Vec<ValueIndexing<'c>> {
        self.input_to_output_in(0, instruction, operand)
    }

    fn output_to_input_in(&mut self, computation: usize, id: InstructionId, leaf: usize) -> Vec<ValueIndexing<'c>> {
        let graph = self.computation(computation);
        let Some(instruction) = graph.instructions.get(id.index()) else { return Vec::new() };
        let maps = InstructionMaps::new(self.context, graph, instruction, Numbering::Instructions(computation as u32));
        let known = match instruction.kind {
            OpKind::Fusion => self.fusion_output_to_input(instruction, leaf),
            OpKind::Tuple => tuples::to_operands(&maps, leaf),
            _ => {
                let indexing = |operand| maps.to_operand(leaf, operand).unwrap_or(ValueIndexing::Unknown);
                Some((0..instruction.operands.len()).map(indexing).collect())
            }
        };
        let known = known.unwrap_or_else(|| vec![ValueIndexing::Unknown; instruction.operands.len()]);
        known.into_iter().map(|indexing| self.folded(indexing, computation)).collect()
    }

    fn input_to_output_in(&mut self, computation: usize, id: InstructionId, operand: usize) -> Vec<ValueIndexing<'c>> {
        let graph = self.computation(computation);
        let Some(instruction) = graph.instructions.get(id.index()) else { return Vec::new() };
        let maps = InstructionMaps::new(self.context, graph, instruction, Numbering::Instructions(computation as u32));
        let known = match instruction.kind {
            OpKind::Fusion => self.fusion_input_to_output(instruction, operand),
            _ => maps.to_result(operand),
        };
        let known = known.unwrap_or_else(|| vec![ValueIndexing::Unknown; instruction.shape.leaves().len()]);
        known.into_iter().map(|indexing| self.folded(indexing, computation)).collect()
    }

    /// The maps with run-time variables of known value replaced.
    fn folded(&self, mut indexing: ValueIndexing<'c>, computation: usize) -> ValueIndexing<'c> {
        if let ValueIndexing::Known(entries) = &mut indexing {
            for entry in entries {
                if entry.map.runtimes().iter().any(|variable| variable.source.is_some()) {
                    let graph = self.computation(computation);
                    fold_runtime_values(&mut entry.map, graph, computation as u32, Outside::Clamped);
                }
            }
        }
        indexing
    }

    fn computation(&self, number: usize) -> &'a Computation {
        self.computations[number]
    }

    /// The number of a computation, a new one if it has none.
    fn number(&mut self, computation: &'a Computation) -> usize {
        match self.computations.iter().position(|&known| std::ptr::eq(known, computation)) {
            Some(number) => number,
            None => {
                self.computations.push(computation);
                self.computations.len() - 1
            }
        }
    }
}

/// A leaf of a shape as an array of static or bounded sizes.
fn leaf_array(shape: &Shape, leaf: usize) -> Option<&ArrayShape> {
    let array = shape.leaves().get(leaf)?.as_array()?;
    array.dimensions.iter().all(|&size| size >= 0).then_some(array)
}

/// The number of leaves before element `index` of a tuple shape.
fn leaves_before(shape: &Shape, index: usize) -> usize {
    shape.as_tuple().unwrap_or(&[]).iter().take(index).map(|element| element.leaves().len()).sum()
}
