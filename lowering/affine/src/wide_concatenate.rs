//! Concatenates of very many operands: one kernel for each group of operands that are neighbours.
//!
//! A kernel's code and the choice of its loops take time for all that its computation has. So each kernel of a wide
//! concatenate gets a computation of its own, with the operands of its group, what these are made of and the parameters
//! that they read; together they are as large as the fusion, not each.

use std::borrow::Cow;
use std::collections::BTreeSet;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use indexing::{Interval, RangeEvaluator};

use crate::error::LoweringError;
use crate::operand_maps::result_shape;
use crate::walk::{ConcatenatedPart, concatenated};

type Result<T> = std::result::Result<T, LoweringError>;

/// Operands of a concatenate that one kernel writes: as many as its loops can be cut for.
const OPERANDS_PER_KERNEL: usize = 24;

/// A computation whose root concatenates more operands than one kernel writes.
pub(crate) struct WideConcatenate<'b> {
    computation: &'b Computation,
    /// The dimension along which the operands stand.
    pub(crate) dimension: usize,
    parts: Vec<ConcatenatedPart>,
    shape: &'b ArrayShape,
}

/// What a kernel computes: a computation, and the numbers of the arrays that are its parameters, where those are not all.
pub(crate) struct KernelPart<'b> {
    pub(crate) body: Cow<'b, Computation>,
    inputs: Option<Vec<usize>>,
}

impl<'b> KernelPart<'b> {
    /// All of a computation.
    pub(crate) fn whole(body: &'b Computation) -> Self {
        KernelPart { body: Cow::Borrowed(body), inputs: None }
    }

    /// Those of the inputs that the computation has as parameters.
    pub(crate) fn inputs_of<'i, T: Copy>(&self, inputs: &'i [T]) -> Cow<'i, [T]> {
        match &self.inputs {
            None => Cow::Borrowed(inputs),
            Some(own) => own.iter().filter_map(|&number| inputs.get(number).copied()).collect(),
        }
    }
}

/// What a mapping computes of a computation, which may be a wide concatenate.
pub(crate) fn part_of_mapping<'b>(
    computation: &'b Computation,
    wide: Option<&WideConcatenate<'b>>,
    mapping: &WorkMapping<'_>,
) -> KernelPart<'b> {
    // The steps of rows are instructions of the whole.
    let wide = wide.filter(|_| mapping.rows.is_none());
    let position = wide.and_then(|wide| mapping.map.results().get(wide.dimension));
    wide.zip(position).map_or_else(
        || KernelPart::whole(computation),
        |(wide, &position)| wide.part(RangeEvaluator::without_constraints(&mapping.map).range(position)),
    )
}

impl<'b> WideConcatenate<'b> {
    /// The wide concatenate that a computation is, if it is one.
    pub(crate) fn of(computation: &'b Computation) -> Result<Option<Self>> {
        let root = computation.root();
        if root.kind != OpKind::Concatenate || root.operands.len() <= OPERANDS_PER_KERNEL {
            return Ok(None);
        }
        let (dimension, parts) = concatenated(computation, root)?;
        let shape = result_shape(root)?;
        if shape.dimensions.get(dimension).is_none() {
            return Err(LoweringError::bug("a concatenate beyond its dimensions"));
        }
        Ok((parts.len() > OPERANDS_PER_KERNEL).then_some(WideConcatenate { computation, dimension, parts, shape }))
    }

    /// The positions along the dimension that kernels of their own compute.
    pub(crate) fn pieces(&self) -> Vec<Interval> {
        let starts = || self.parts.iter().step_by(OPERANDS_PER_KERNEL).map(|part| part.start);
        let ends = starts().skip(1).chain([self.size()]);
        starts().zip(ends).map(|(start, end)| Interval::new(start, end - 1)).collect()
    }

    fn size(&self) -> i64 {
        self.shape.dimensions[self.dimension]
    }

    /// The computation of the elements at some positions: instead of the operands elsewhere it has parameters that no
    /// array is given for.
    pub(crate) fn part(&self, positions: Interval) -> KernelPart<'b> {
        let first = self.parts.partition_point(|part| part.start <= positions.lower).saturating_sub(1);
        let end = self.parts.partition_point(|part| part.start <= positions.upper);
        let root = self.computation.root();
        let operands: Vec<InstructionId> =
            self.parts[first..end.max(first)].iter().map(|part| root.operands[part.operand]).collect();
        let mut part = Extract { computation: self.computation, inputs: Vec::new(), instructions: Vec::new() };
        let own = part.extract(&operands);
        let start = self.parts.get(first).map_or(0, |part| part.start);
        let behind = self.parts.get(end).map_or(0, |part| self.size() - part.start);
        let before = part.elsewhere("before", self.shape, (self.dimension, start));
        let behind = part.elsewhere("behind", self.shape, (self.dimension, behind));
        let operands: Vec<InstructionId> = before.into_iter().chain(own).chain(behind).collect();
        let id = part.add(Instruction { operands, ..root.clone() });
        let Extract { inputs, instructions, .. } = part;
        let parameters = instructions.iter().enumerate().filter(|(_, own)| own.kind == OpKind::Parameter);
        let parameters = parameters.map(|(position, _)| InstructionId(position as u32)).collect();
        let name = self.computation.name.clone();
        let body = Computation { name, instructions, parameters, root: id, annotations: Vec::new() };
        KernelPart { body: Cow::Owned(body), inputs: Some(inputs) }
    }
}

/// A computation in the making, of some of the instructions of another.
struct Extract<'b> {
    computation: &'b Computation,
    /// The numbers that its parameters have in the other.
    inputs: Vec<usize>,
    instructions: Vec<Instruction>,
}

impl Extract<'_> {
    fn add(&mut self, instruction: Instruction) -> InstructionId {
        self.instructions.push(instruction);
        InstructionId(self.instructions.len() as u32 - 1)
    }

    /// Takes over values and what they are made of; returns where they are.
    fn extract(&mut self, values: &[InstructionId]) -> Vec<InstructionId> {
        let mut needed: BTreeSet<InstructionId> = BTreeSet::new();
        let mut pending = values.to_vec();
        while let Some(id) = pending.pop() {
            if needed.insert(id) {
                pending.extend_from_slice(&self.computation.get(id).operands);
            }
        }
        let needed: Vec<InstructionId> = needed.into_iter().collect();
        // Their positions are in the order of their numbers.
        let place = |id: &InstructionId| InstructionId(needed.partition_point(|other| other < id) as u32);
        for &id in &needed {
            let mut own = self.computation.get(id).clone();
            own.operands = own.operands.iter().map(place).collect();
            if let Some(number) = own.parameter_number() {
                own = Instruction::parameter(own.name, own.shape, self.inputs.len());
                self.inputs.push(number);
            }
            self.add(own);
        }
        values.iter().map(place).collect()
    }

    /// A parameter in the place of operands whose elements nobody asks for, of so many positions along a dimension.
    fn elsewhere(&mut self, name: &str, shape: &ArrayShape, (dimension, size): (usize, i64)) -> Option<InstructionId> {
        let mut dimensions = shape.dimensions.clone();
        dimensions[dimension] = size;
        let shape = ArrayShape::new(shape.element_type, dimensions);
        let parameters = self.instructions.iter().filter(|own| own.kind == OpKind::Parameter).count();
        (size > 0).then(|| self.add(Instruction::parameter(name, Shape::Array(shape), parameters)))
    }
}
