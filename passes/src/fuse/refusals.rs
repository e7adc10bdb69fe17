//! Why a group may not compute an instruction, or not write it.

use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use hlo::shape::ArrayShape;

use super::decisions::Refusal;
use super::grouping::{
    GroupId, Grouping, MAX_EVALUATIONS, MAX_GROUP_INPUTS, MAX_GROUP_SIZE, MOST_CACHED_BYTES, SMALL_PART,
};
use super::roles::{changes_index, is_alias, is_expensive, is_function, reads_at_same_index, update_of};

/// How often the body of an expensive instruction may be repeated in one group, if no element is computed twice.
const MOST_COPIES: u32 = 4;

/// Uses of each element from which on a value of some work is better written once.
const MANY_REPEATS: i64 = 16;

/// Simple operations, roughly, that are some work.
const SOME_WORK: u32 = 3;

/// Bytes of an array up to which windows may divide indices: memory for it would be more than what they read.
const MOST_BYTES_DIVIDED: usize = 1 << 12;

/// Simple operations, roughly, that a loop which scatters elements, in their order, does for each of them at most: more are shared by threads.
const MOST_WORK_OF_SCATTERED: u32 = 16;

/// Instructions that are looked at, at most, for what an instruction is computed from.
const MOST_FOLLOWED: usize = 32;

impl Grouping<'_> {
    /// Whether members broadcast a small array that takes some work to many rows, each of which would compute it again.
    fn is_repeated_in_rows(&self, id: InstructionId, shape: &ArrayShape, users: &[InstructionId]) -> bool {
        let repeats_it = |user: &InstructionId| {
            let user = self.instruction(*user);
            let rows = || user.shape.as_array().map_or(0, ArrayShape::element_count) / shape.element_count().max(1);
            user.kind == OpKind::Broadcast && rows() >= MANY_REPEATS
        };
        // What is broadcast along rows is computed once for each of them.
        let goes_along_rows = |user: &InstructionId| {
            let number = self.instruction(*user).operands.iter().position(|&operand| operand == id);
            number.and_then(|number| self.reads_along_rows(*user, number)) == Some(true)
        };
        shape.rank() > 0
            && self.work[id.index()] >= SOME_WORK
            && shape.byte_size() <= MOST_CACHED_BYTES
            && users.iter().any(|user| repeats_it(user) && goes_along_rows(user))
    }

    /// Whether windows would choose between arrays, or divide indices, for each of their elements.
    fn divides_in_windows(&self, id: InstructionId, group: GroupId) -> bool {
        let view = self.instruction(id);
        let divides =
            view.kind == OpKind::Concatenate || view.kind == OpKind::Reshape && changes_index(self.computation, view);
        let is_large = || view.shape.as_array().is_some_and(|shape| shape.byte_size() > MOST_BYTES_DIVIDED);
        divides && is_large() && self.has_window(&self.groups[group])
    }

    /// Whether each lookup would choose between so many places of a concatenation that it is better written once: that takes a load
    /// and a store for each of its elements, which follow each other.
    fn is_better_written(&self, id: InstructionId, total: i64, users: &[InstructionId]) -> bool {
        let view = self.instruction(id);
        let elements = || view.shape.as_array().map_or(0, ArrayShape::element_count);
        view.kind == OpKind::Concatenate
            && self.is_looked_up(id, users, &[OpKind::Gather, OpKind::DynamicSlice])
            && total.saturating_mul(self.places[id.index()] - 1) > 2 * elements()
    }

    /// Why a group that ends with an update in place may not compute the instruction.
    fn refusal_to_update(&self, id: InstructionId, group: GroupId, users: &[InstructionId]) -> Option<Refusal> {
        let update = self.groups[group].outputs[0];
        let is_for_loops = || users.iter().all(|&user| self.reads_at_loop_index(user, id, group));
        if self.reads_what_is_updated(id, update) && !is_for_loops() {
            return Some(Refusal::ReadsBase);
        }
        let instruction = self.instruction(id);
        let divides = match instruction.kind {
            OpKind::Concatenate | OpKind::Pad => users.iter().any(|&user| self.reads_at_loop_index(user, id, group)),
            OpKind::Reshape => changes_index(self.computation, instruction),
            _ => false,
        };
        if divides && self.instruction(update).kind == OpKind::Scatter {
            return Some(Refusal::Scattered);
        }
        self.refusal_of_part(id, update)
    }

    /// Whether an instruction reads what an update in place writes, of the same array: elements are read before they are written.
    fn reads_what_is_updated(&self, id: InstructionId, update: InstructionId) -> bool {
        let [instruction, update] = [id, update].map(|id| self.instruction(id));
        instruction.kind == OpKind::DynamicSlice
            && update.kind == OpKind::DynamicUpdateSlice
            && instruction.operands[0] == update.operands[0]
            && instruction.operands[1..] == update.operands[2..]
            && instruction.shape == self.instruction(update.operands[1]).shape
    }

    /// Whether an instruction reads the base of an update, which would be copied first, though little of it is updated.
    fn keeps_base(&self, id: InstructionId, update: InstructionId) -> bool {
        let updated = update_of(self.instruction(update)).map_or(0, |updated| self.elements(updated));
        let base = self.memory_of(self.instruction(update).operands[0]);
        updated * 2 < self.elements(base)
            && self.instruction(id).operands.iter().any(|&operand| self.memory_of(operand) == base)
            && !self.reads_what_is_updated(id, update)
    }

    /// Why what an instruction is computed from is not computed with an update: the rest would be one more array.
    fn refusal_of_part(&self, id: InstructionId, update: InstructionId) -> Option<Refusal> {
        let is_scatter = self.instruction(update).kind == OpKind::Scatter;
        let refusal = |id: InstructionId| {
            let takes_a_while = || is_function(self.instruction(id)) || self.work[id.index()] > MOST_WORK_OF_SCATTERED;
            match self.keeps_base(id, update) {
                true => Some(Refusal::ReadsBase),
                false => (is_scatter && takes_a_while()).then_some(Refusal::Scattered),
            }
        };
        let mut seen = vec![id];
        let mut next = 0;
        while let Some(&id) = seen.get(next).filter(|_| next < MOST_FOLLOWED) {
            if let Some(refusal) = refusal(id) {
                return Some(refusal);
            }
            next += 1;
            for &operand in &self.instruction(id).operands {
                let is_fused =
                    matches!(self.role(operand), FusionRole::Elementwise | FusionRole::View | FusionRole::Lookup);
                if is_fused && self.elements(operand) * SMALL_PART > self.elements(id) && !seen.contains(&operand) {
                    seen.push(operand);
                }
            }
        }
        None
    }

    /// The instruction whose buffer holds a value.
    fn memory_of(&self, mut id: InstructionId) -> InstructionId {
        while is_alias(self.instruction(id)) {
            id = self.instruction(id).operands[0];
        }
        id
    }

    /// Why a group may not compute the instruction where these members read it.
    pub(super) fn refusal_to_compute(
        &self,
        id: InstructionId,
        group: GroupId,
        users: &[InstructionId],
    ) -> Option<Refusal> {
        let group_data = &self.groups[group];
        let instruction = self.instruction(id);
        let Some(shape) = instruction.shape.as_array() else {
            return Some(Refusal::ProducerStandsAlone(instruction.kind));
        };
        if group_data.members.len() >= MAX_GROUP_SIZE {
            return Some(Refusal::GroupIsLarge);
        }
        if group_data.opaque_inputs.len() + instruction.operands.len() > MAX_GROUP_INPUTS {
            return Some(Refusal::ManyInputs);
        }
        if group_data.has_update
            && let Some(refusal) = self.refusal_to_update(id, group, users)
        {
            return Some(refusal);
        }
        let (evaluations, total) = self.counts_in(id, group, users);
        let user_is_window = users.iter().any(|&user| self.instruction(user).kind == OpKind::ReduceWindow);
        let elements = shape.element_count();
        if self.is_repeated_in_rows(id, shape, users) {
            return Some(Refusal::Recomputed { evaluations });
        }
        if self.made_with_gaps[id.index()] && self.are_between_gaps(group, users) {
            return Some(Refusal::Gaps);
        }
        let ways = self.ways_in(id, group, users).count();
        if ways > MAX_EVALUATIONS {
            return Some(Refusal::ManyEvaluations { evaluations: ways });
        }
        match self.role(id) {
            FusionRole::Opaque => Some(Refusal::ProducerStandsAlone(instruction.kind)),
            FusionRole::Update => Some(Refusal::Update),
            FusionRole::View if self.divides_in_windows(id, group) => Some(Refusal::Window),
            FusionRole::View if self.is_better_written(id, total, users) => Some(Refusal::GatheredFromSeveral),
            FusionRole::View if self.is_read_across_rows(id, group, shape, users) => Some(Refusal::AcrossRows),
            FusionRole::View if self.is_interleaved_across_rows(id, shape, users) => Some(Refusal::Interleaved),
            FusionRole::View => (evaluations > MAX_EVALUATIONS).then_some(Refusal::ManyEvaluations { evaluations }),
            role @ (FusionRole::Elementwise | FusionRole::Lookup) => {
                let recomputed = total > elements.max(1);
                if is_expensive(instruction) || role == FusionRole::Lookup {
                    let is_recomputed = recomputed && (elements != 1 || total > 64);
                    // The loops of a reduction are not divided where parts meet.
                    let most_copies = if group_data.has_reduction { 1 } else { MOST_COPIES };
                    if evaluations > most_copies || is_recomputed {
                        Some(Refusal::Recomputed { evaluations })
                    } else {
                        user_is_window.then_some(Refusal::Window)
                    }
                } else if recomputed && self.is_gathered(id, users) && self.arrays_read(id).len() > 1 {
                    Some(Refusal::GatheredFromSeveral)
                } else if evaluations > 4 {
                    Some(Refusal::ManyEvaluations { evaluations })
                } else {
                    (user_is_window && evaluations > 1).then_some(Refusal::Window)
                }
            }
            FusionRole::Reduction if group_data.is_attention => Some(Refusal::Reduction),
            FusionRole::Reduction => {
                let may_join = evaluations == 1
                    // Not where all that another reduction combines reads it.
                    && total <= elements
                    && !group_data.has_update
                    // Windows compute what they read several times.
                    && !self.has_window(group_data)
                    && instruction.kind == OpKind::Reduce;
                let has_loops = shape.dimensions == group_data.dimensions
                    // Further loops over contiguous rows find the data in cache, and short ones need none.
                    && ((self.reduces_rows)(id) || self.combined_elements(instruction) <= self.short_reductions)
                    && users.iter().all(|&user| reads_at_same_index(self.instruction(user)));
                let is_one_of_each = group_data.dimensions.iter().product::<i64>() == elements;
                let joins = may_join && (has_loops || is_one_of_each && self.combines_neighbours(id, group, users));
                let joins_rows = || {
                    instruction.kind == OpKind::Reduce
                        && (self.reduces_rows)(id)
                        && self.row_rank_in(id, group, users).is_some()
                };
                (!joins && !joins_rows()).then_some(Refusal::Reduction)
            }
        }
    }

    /// Why a group cannot write the instruction's value too: its loops must visit each element once.
    pub(super) fn refusal_to_write(
        &self,
        id: InstructionId,
        group: GroupId,
        users: &[InstructionId],
    ) -> Option<Refusal> {
        let group_data = &self.groups[group];
        let shape = self.instruction(id).shape.as_array();
        // What belongs to a row is not written beside several arrays of one reduction.
        let are_arrays =
            || group_data.outputs.iter().all(|&output| self.instruction(output).shape.as_array().is_some());
        if let (Some(rows), Some(shape)) = (&group_data.rows, shape)
            && self.prefix_in(id, &rows.prefixes, users) >= rows.rank
            && (shape.dimensions == group_data.dimensions
                || are_arrays() && self.row_rank_in(id, group, users).is_some())
        {
            return None;
        }
        if group_data.is_attention
            || group_data.has_update
            || group_data.has_reduction && self.role(id) != FusionRole::Reduction
        {
            return Some(Refusal::OneOutput);
        }
        let visits_once = shape.is_some_and(|shape| shape.dimensions == group_data.dimensions)
            && self.indices_in(id, group, users).count() == 1
            && users.iter().all(|&user| self.reads_at_loop_index(user, id, group));
        (!visits_once).then_some(Refusal::OtherLoops)
    }
}
