//! When the leaves of a computation are read for the last time.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;

use super::leaf_range;
use crate::fuse::is_alias;

/// Whether the instruction's leaves are its operands' leaves.
pub(super) fn forwards(instruction: &Instruction) -> bool {
    matches!(
        instruction.kind,
        OpKind::Tuple | OpKind::GetTupleElement | OpKind::OptimizationBarrier | OpKind::Domain | OpKind::AddDependency
    ) || is_alias(instruction)
}

/// For each leaf of each instruction, the last instruction that reads it, through whatever aliases.
pub(super) fn last_leaf_reads(computation: &Computation) -> Vec<Vec<u32>> {
    let mut last: Vec<Vec<u32>> =
        computation.instructions.iter().map(|instruction| vec![0; instruction.shape.leaves().len()]).collect();
    last[computation.root.index()].fill(u32::MAX);
    for (position, instruction) in computation.instructions.iter().enumerate().rev() {
        let own = if forwards(instruction) { Some(std::mem::take(&mut last[position])) } else { None };
        let mut first = match instruction.kind {
            OpKind::GetTupleElement => {
                let index = instruction.attributes.int("index").unwrap_or(0) as usize;
                let operand = instruction.operands[0];
                let range = leaf_range(&computation.get(operand).shape, index);
                for (read, own) in last[operand.index()][range].iter_mut().zip(own.iter().flatten()) {
                    *read = (*read).max(*own);
                }
                last[position] = own.unwrap_or_default();
                continue;
            }
            _ => 0,
        };
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
