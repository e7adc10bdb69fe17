//! Whether neighbours along the loops of a group are neighbours in memory, through what moves them on the way.

use std::iter;

use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use hlo::shape::ArrayShape;
use indexing::Expr;

use super::grouping::{GroupId, Grouping, MOST_CACHED_BYTES};
use super::roles::{changes_index, reads_at_same_index};

/// Instructions that are followed at most.
const MOST_STEPS: usize = 32;

/// Elements that a reduction combines at most: more are worth a kernel whose threads share them.
const MOST_COMBINED: i64 = 64;

impl Grouping<'_> {
    /// Whether a member to be, which one member reads, combines elements of memory that lie next to each other where those
    /// of the group's last loop do: of an array read transposed, whose reduction is transposed back.
    pub(super) fn combines_neighbours(&self, id: InstructionId, group: GroupId, users: &[InstructionId]) -> bool {
        let &[user] = users else { return false };
        if self.combined_elements(self.instruction(id)) > MOST_COMBINED {
            return false;
        }
        let members = &self.groups[group].members;
        let reader = |id: &InstructionId| {
            let mut readers = self.users[id.index()].iter().filter(|reader| members.contains_key(reader));
            readers.next().copied().filter(|_| readers.next().is_none())
        };
        let readers: Vec<InstructionId> = iter::successors(Some(user), reader).take(MOST_STEPS).collect();
        let Some(&output) = readers.last().filter(|last| self.groups[group].outputs == [**last]) else { return false };
        if !readers.iter().any(|reader| self.instruction(*reader).kind == OpKind::Transpose) {
            return false;
        }
        let mut dimension = self.rank(output).checked_sub(1);
        for (reader, read) in readers.iter().rev().zip(readers.iter().rev().skip(1).chain([&id])) {
            dimension = dimension.and_then(|dimension| self.followed(*reader, *read, dimension));
        }
        let mut read = id;
        for _ in 0..MOST_STEPS {
            let operands = self.instruction(read).operands.iter().copied();
            let largest = operands.rev().max_by_key(|operand| self.elements(*operand));
            let Some(operand) = largest else { break };
            dimension = dimension.and_then(|dimension| self.followed(read, operand, dimension));
            read = operand;
            if !matches!(self.role(read), FusionRole::Elementwise | FusionRole::View) {
                break;
            }
        }
        dimension.is_some_and(|dimension| dimension + 1 == self.rank(read))
    }

    /// The dimension of an operand that is gone along where one of its reader's is.
    fn followed(&self, reader: InstructionId, operand: InstructionId, dimension: usize) -> Option<usize> {
        let instruction = self.instruction(reader);
        if reads_at_same_index(instruction) {
            return Some(dimension);
        }
        let number = instruction.operands.iter().position(|&own| own == operand)?;
        let map = (self.map)(reader, number)?;
        map.results().iter().position(|result| *result == Expr::dim(map.context(), dimension))
    }

    /// Whether a reduction would read an array across its rows, which no cache nearby holds, beside another one along them.
    pub(super) fn is_read_across_rows(
        &self,
        id: InstructionId,
        group: GroupId,
        shape: &ArrayShape,
        users: &[InstructionId],
    ) -> bool {
        let is_along_rows = |other: &InstructionId| {
            let other = self.instruction(*other);
            let has_own_rows = !matches!(other.kind, OpKind::Transpose | OpKind::Broadcast | OpKind::Constant);
            has_own_rows && other.shape.as_array().is_some_and(|other| other.dimensions == shape.dimensions)
        };
        self.groups[group].has_reduction
            && self.instruction(id).kind == OpKind::Transpose
            && shape.byte_size() > MOST_CACHED_BYTES
            && users.iter().any(|&user| {
                self.role(user) == FusionRole::Elementwise && self.instruction(user).operands.iter().any(is_along_rows)
            })
            && self.reads_along_rows(id, 0) == Some(false)
    }

    /// Whether a transpose would read across the rows of arrays which are put together element by element, or row by row.
    pub(super) fn is_interleaved_across_rows(
        &self,
        id: InstructionId,
        shape: &ArrayShape,
        users: &[InstructionId],
    ) -> bool {
        let mut whole = self.instruction(id);
        if let (OpKind::Slice, &[operand]) = (whole.kind, &whole.operands[..]) {
            whole = self.instruction(operand);
        }
        let interleaves = || {
            whole.kind == OpKind::Reshape
                && whole.operands.iter().any(|&parts| self.instruction(parts).kind == OpKind::Concatenate)
                && changes_index(self.computation, whole)
        };
        let is_across = |user: &InstructionId| {
            self.instruction(*user).kind == OpKind::Transpose && self.reads_along_rows(*user, 0) == Some(false)
        };
        shape.byte_size() > MOST_CACHED_BYTES && users.iter().any(is_across) && interleaves()
    }

    /// Whether neighbours along the rows of an instruction are neighbours along those of an operand.
    pub(super) fn reads_along_rows(&self, user: InstructionId, number: usize) -> Option<bool> {
        let last = self.rank(user).checked_sub(1)?;
        let map = (self.map)(user, number)?;
        map.results().last().map(|result| *result == Expr::dim(map.context(), last))
    }

    fn rank(&self, id: InstructionId) -> usize {
        self.instruction(id).shape.as_array().map_or(0, ArrayShape::rank)
    }

    pub(super) fn elements(&self, id: InstructionId) -> i64 {
        self.instruction(id).shape.as_array().map_or(0, ArrayShape::element_count)
    }
}
