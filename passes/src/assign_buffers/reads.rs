//! When the leaves of a computation are read for the last time.

use std::collections::HashMap;
use std::ops::Range;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::shape::Shape;

use crate::fuse::is_alias;

/// The leaves of each element of the tuples that a computation makes or takes apart.
pub(super) struct TupleElements {
    /// Number of the first leaf of each element, and of all leaves.
    starts: HashMap<InstructionId, Vec<usize>>,
}

impl TupleElements {
    pub(super) fn of(computation: &Computation) -> Self {
        let mut starts = HashMap::new();
        for (id, instruction) in computation.iter() {
            let tuple = match instruction.kind {
                OpKind::Tuple => id,
                OpKind::GetTupleElement => instruction.operands[0],
                _ => continue,
            };
            starts.entry(tuple).or_insert_with(|| {
                let mut starts = vec![0];
                let mut count = 0;
                if let Shape::Tuple(elements) = &computation.get(tuple).shape {
                    starts.extend(elements.iter().map(|element| {
                        element.for_each_leaf(&mut |_| count += 1);
                        count
                    }));
                }
                starts
            });
        }
        TupleElements { starts }
    }

    /// The element of a tuple that has a leaf, and the number of the leaf there.
    fn element_with(&self, tuple: InstructionId, leaf: usize) -> Option<(usize, usize)> {
        let starts = self.starts.get(&tuple)?;
        let element = starts.partition_point(|&start| start <= leaf).checked_sub(1)?;
        Some((element, leaf - starts[element]))
    }

    /// The tuple of a `get-tuple-element` and the numbers of the leaves that it takes; `None` for other instructions.
    pub(super) fn read_by(&self, instruction: &Instruction) -> Option<(InstructionId, Range<usize>)> {
        if instruction.kind != OpKind::GetTupleElement {
            return None;
        }
        let tuple = *instruction.operands.first()?;
        let index = usize::try_from(instruction.attributes::<GetTupleElementAttributes>().ok()?.index).ok()?;
        let starts = self.starts.get(&tuple)?;
        Some((tuple, *starts.get(index)?..*starts.get(index + 1)?))
    }
}

/// Whether the instruction's leaves are its operands' leaves.
pub(super) fn forwards(instruction: &Instruction) -> bool {
    matches!(
        instruction.kind,
        OpKind::Tuple | OpKind::GetTupleElement | OpKind::OptimizationBarrier | OpKind::Domain | OpKind::AddDependency
    ) || is_alias(instruction)
}

/// For each leaf of each instruction, the last instruction that reads it, through whatever aliases.
pub(super) fn last_leaf_reads(computation: &Computation, elements: &TupleElements) -> Vec<Vec<u32>> {
    let mut last: Vec<Vec<u32>> =
        computation.instructions.iter().map(|instruction| vec![0; instruction.shape.leaves().len()]).collect();
    last[computation.root.index()].fill(u32::MAX);
    for (position, instruction) in computation.instructions.iter().enumerate().rev() {
        let own = if forwards(instruction) { Some(std::mem::take(&mut last[position])) } else { None };
        if let Some((tuple, range)) = elements.read_by(instruction) {
            for (read, own) in last[tuple.index()][range].iter_mut().zip(own.iter().flatten()) {
                *read = (*read).max(*own);
            }
            last[position] = own.unwrap_or_default();
            continue;
        }
        let mut first = 0;
        for operand in &instruction.operands {
            for read in &mut last[operand.index()] {
                let reader = match &own {
                    Some(own) => own.get(first).copied().unwrap_or(0),
                    None => position as u32,
                };
                *read = (*read).max(reader);
                first += 1;
            }
        }
        if let Some(own) = own {
            last[position] = own;
        }
    }
    last
}

/// The instruction that makes a leaf of a value, through whatever aliases, and the number of the leaf there.
pub(super) fn source_of(
    computation: &Computation,
    elements: &TupleElements,
    mut id: InstructionId,
    mut leaf: usize,
) -> (InstructionId, usize) {
    loop {
        let instruction = computation.get(id);
        if let Some((tuple, range)) = elements.read_by(instruction) {
            (id, leaf) = (tuple, range.start + leaf);
            continue;
        }
        if !forwards(instruction) {
            return (id, leaf);
        }
        // Others than tuples have the leaves of their first operand.
        let (operand, inner) = match instruction.kind {
            OpKind::Tuple => elements.element_with(id, leaf).unwrap_or((0, leaf)),
            _ => (0, leaf),
        };
        let Some(&owner) = instruction.operands.get(operand) else { return (id, leaf) };
        (id, leaf) = (owner, inner);
    }
}
