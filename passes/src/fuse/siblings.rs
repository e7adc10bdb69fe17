//! Fusions of siblings: reductions that read the same array in the same loops, such as the mean and the mean of squares of
//! columns, become one, which reads it once.

use std::collections::BTreeMap;

use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use hlo::shape::ArrayShape;
use indexing::IndexingMap;

use super::grouping::{Group, GroupId, Grouping, MAX_GROUP_INPUTS, MAX_GROUP_SIZE};
use super::order::Order;

/// Bytes of an array from which on it is worth it: smaller ones stay in the first cache.
const LEAST_BYTES: usize = 1 << 14;

/// Reductions of one group at most: each has its sums in registers.
const MOST_REDUCTIONS: usize = 4;

/// Groups tried at most for another one to become one with.
const MOST_TRIED: usize = 8;

/// What the reductions of a group reduce.
struct Reduced<'a> {
    /// Dimensions of what they reduce.
    dimensions: &'a [i64],
    /// From their results to that.
    map: IndexingMap<'a>,
    count: usize,
}

impl<'a> Grouping<'a> {
    /// Makes one group of those that reduce the same array.
    pub(super) fn merge_siblings(&mut self, order: &mut Order) {
        let mut reduced: Vec<Option<Reduced<'a>>> =
            (0..self.groups.len()).map(|group| self.reduced_by(group)).collect();
        let mut readers: BTreeMap<InstructionId, Vec<GroupId>> = BTreeMap::new();
        for (group, own) in reduced.iter().enumerate() {
            let Some(own) = own else { continue };
            for input in self.inputs_of(&self.groups[group]) {
                let shape = self.instruction(input).shape.as_array();
                let is_reduced = |shape: &ArrayShape| {
                    shape.element_count() == own.dimensions.iter().product::<i64>() && shape.byte_size() >= LEAST_BYTES
                };
                if shape.is_some_and(is_reduced) {
                    readers.entry(input).or_default().push(group);
                }
            }
        }
        for siblings in readers.into_values() {
            for (number, &group) in siblings.iter().enumerate() {
                for &other in siblings[number + 1..].iter().take(MOST_TRIED) {
                    let (Some(own), Some(sibling)) = (&reduced[group], &reduced[other]) else { continue };
                    let count = own.count + sibling.count;
                    let fits = own.dimensions == sibling.dimensions && own.map == sibling.map;
                    if fits && count <= MOST_REDUCTIONS && self.merge(group, other, order) {
                        reduced[other] = None;
                        reduced[group].iter_mut().for_each(|own| own.count = count);
                    }
                }
            }
        }
    }

    /// The reductions of a group all of whose results are computed from them element by element.
    fn reduced_by(&self, group: GroupId) -> Option<Reduced<'a>> {
        let data = &self.groups[group];
        let has_loop_dimensions = |id: InstructionId| {
            self.instruction(id).shape.as_array().is_some_and(|shape| shape.dimensions == data.dimensions)
        };
        let may_have = data.has_reduction && !data.has_update && !data.is_attention && data.rows.is_none();
        if !may_have || !data.outputs.iter().all(|&output| has_loop_dimensions(output)) {
            return None;
        }
        let mut reduced: Option<Reduced<'a>> = None;
        let mut reductions: Vec<InstructionId> = data.members.keys().copied().collect();
        reductions.retain(|&id| self.role(id) == FusionRole::Reduction);
        for &id in &reductions {
            let reduce = self.instruction(id);
            let is_simple = reduce.kind == OpKind::Reduce && reduce.operands.len() == 2 && has_loop_dimensions(id);
            let is_here = data.members.get(&id).is_some_and(|member| member.is_at_loop_index);
            if !is_simple || !is_here {
                return None;
            }
            let dimensions = &self.instruction(reduce.operands[0]).shape.as_array()?.dimensions[..];
            let map = (self.map)(id, 0)?;
            match &reduced {
                Some(own) if own.dimensions != dimensions || own.map != map => return None,
                _ => reduced = Some(Reduced { dimensions, map, count: reductions.len() }),
            }
        }
        reduced
    }

    /// What a group reads from memory.
    fn inputs_of(&self, group: &Group) -> Vec<InstructionId> {
        let operands = group.members.keys().flat_map(|&member| self.instruction(member).operands.iter().copied());
        let mut inputs: Vec<InstructionId> = operands.filter(|operand| !group.members.contains_key(operand)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// Moves the members of a group to another one, if neither needs what the other one writes. Whether they are moved.
    fn merge(&mut self, group: GroupId, other: GroupId, order: &mut Order) -> bool {
        let [own, sibling] = [group, other].map(|group| &self.groups[group]);
        let inputs = [own, sibling].map(|group| self.inputs_of(group).len());
        let is_large = own.members.len() + sibling.members.len() > MAX_GROUP_SIZE;
        if is_large
            || inputs[0] + inputs[1] > MAX_GROUP_INPUTS
            || !order.merge(self, [own, sibling].map(|group| group.outputs[0]))
        {
            return false;
        }
        let sibling = std::mem::take(&mut self.groups[other]);
        for &id in sibling.members.keys() {
            let groups = &mut self.member_of[id.index()];
            groups.retain(|&own| own != other && own != group);
            groups.push(group);
        }
        for &output in &sibling.outputs {
            self.written_by[output.index()] = Some(group);
        }
        let own = &mut self.groups[group];
        for (id, member) in sibling.members {
            own.members.entry(id).or_insert(member);
        }
        own.outputs.extend(sibling.outputs);
        own.opaque_inputs.extend(sibling.opaque_inputs);
        true
    }
}
