//! Fusions of groups. Reductions that read the same array in the same loops, such as the mean and the mean of squares of
//! columns, become one, which reads it once; so do loops over elements. Groups of which one reads, element by element, what the
//! other one writes for it alone become one too, and the array goes: two results of the same arithmetic, none of which is computed
//! from the other.

use std::collections::{BTreeMap, HashSet};

use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::FusionRole;
use hlo::shape::ArrayShape;
use indexing::IndexingMap;

use super::grouping::{Group, GroupId, Grouping, MAX_GROUP_INPUTS, MAX_GROUP_SIZE};
use super::order::Order;
use super::roles::is_function;

/// Bytes of an array from which on it is worth it: smaller ones stay in the first cache.
const LEAST_BYTES: usize = 1 << 14;

/// Reductions of one group at most: each has its sums in registers.
const MOST_REDUCTIONS: usize = 4;

/// Arrays that a loop writes at most for being one loop.
const MOST_OUTPUTS: usize = 16;

/// Groups tried at most for another one to become one with, and readers of what is written for few.
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
        let reducing = reduced.iter().enumerate().filter_map(|(group, own)| Some((group, own.as_ref()?)));
        let readers = self.readers_of_large(reducing.map(|(group, own)| {
            let terms: i64 = own.dimensions.iter().product();
            (group, Some(terms))
        }));
        for siblings in readers {
            for (number, &group) in siblings.iter().enumerate() {
                for &other in siblings[number + 1..].iter().take(MOST_TRIED) {
                    let (Some(own), Some(sibling)) = (&reduced[group], &reduced[other]) else { continue };
                    let count = own.count + sibling.count;
                    let fits = own.dimensions == sibling.dimensions && own.map == sibling.map;
                    if fits && count <= MOST_REDUCTIONS && self.merge([group, other], order, false) {
                        reduced[other] = None;
                        reduced[group].iter_mut().for_each(|own| own.count = count);
                    }
                }
            }
        }
    }

    /// Makes one group of those that compute element by element, in the same loops, what the same array is read for.
    pub(super) fn merge_readers(&mut self, order: &mut Order) {
        let plain = (0..self.groups.len()).filter(|&group| self.is_plain(group) && self.takes_others(group));
        for readers in self.readers_of_large(plain.map(|group| (group, None))) {
            for (number, &group) in readers.iter().enumerate() {
                for &other in readers[number + 1..].iter().take(2 * MOST_TRIED) {
                    let [own, sibling] = [group, other].map(|group| &self.groups[group]);
                    let is_empty = own.members.is_empty() || sibling.members.is_empty();
                    let outputs = own.outputs.len() + sibling.outputs.len();
                    let fits = own.dimensions == sibling.dimensions
                        && self.has_transpose(group) == self.has_transpose(other)
                        && outputs <= MOST_OUTPUTS;
                    if !is_empty && fits {
                        self.merge([group, other], order, false);
                    }
                }
            }
        }
    }

    /// The groups of some that read the same large array, of as many elements as is given with a group, if that matters; by array.
    fn readers_of_large(&self, groups: impl Iterator<Item = (GroupId, Option<i64>)>) -> Vec<Vec<GroupId>> {
        let mut readers: BTreeMap<InstructionId, Vec<GroupId>> = BTreeMap::new();
        for (group, elements) in groups {
            let has_elements = |input: &InstructionId| {
                let count = self.instruction(*input).shape.as_array().map(ArrayShape::element_count);
                elements.is_none() || count == elements
            };
            let inputs = self.inputs_of(&self.groups[group]).into_iter();
            inputs
                .filter(|input| self.is_large(*input) && has_elements(input))
                .for_each(|input| readers.entry(input).or_default().push(group));
        }
        readers.into_values().collect()
    }

    /// Whether a loop over elements has room for what others compute: it takes no longer than memory does.
    fn takes_others(&self, group: GroupId) -> bool {
        !self.groups[group].members.keys().any(|&id| is_function(self.instruction(id)))
    }

    /// Whether a group goes through arrays in another order than its loops.
    fn has_transpose(&self, group: GroupId) -> bool {
        self.groups[group].members.keys().any(|&id| self.instruction(id).kind == OpKind::Transpose)
    }

    /// Whether an array does not stay in the first cache.
    fn is_large(&self, id: InstructionId) -> bool {
        self.instruction(id).shape.as_array().is_some_and(|shape| shape.byte_size() >= LEAST_BYTES)
    }

    /// Makes one group of two where one writes an array that only the other one reads, in the same loops.
    pub(super) fn merge_producers(&mut self, order: &mut Order) {
        for reader in 0..self.groups.len() {
            let mut tried: HashSet<GroupId> = HashSet::from([reader]);
            while self.is_plain(reader) {
                let inputs = self.inputs_of(&self.groups[reader]);
                let mut writers = inputs.iter().filter_map(|input| self.written_by[input.index()]);
                let Some(writer) = writers.find(|writer| !tried.contains(writer)) else { break };
                tried.insert(writer);
                if self.writes_only_for(writer, (reader, &inputs)) && self.merge([reader, writer], order, true) {
                    // What the writer read may be written for the reader alone now.
                    tried = HashSet::from([reader]);
                }
            }
        }
    }

    /// Whether all that a group writes are the elements of its loops, one after the other.
    fn is_plain(&self, group: GroupId) -> bool {
        let data = &self.groups[group];
        let is_of_loops = |&output: &InstructionId| {
            self.instruction(output).shape.as_array().is_some_and(|shape| shape.dimensions == data.dimensions)
        };
        // Those of joined arrays are divided by their parts.
        let is_joined = |&id: &InstructionId| matches!(self.instruction(id).kind, OpKind::Concatenate | OpKind::Pad);
        let stands_out = data.has_reduction || data.has_update || data.is_attention || data.rows.is_some();
        let stands_out = stands_out || data.members.keys().any(is_joined);
        !stands_out && !data.members.is_empty() && data.outputs.iter().all(is_of_loops)
    }

    /// Whether a group reads what another one writes in the same loops at the same place, and nobody else reads some of it.
    fn writes_only_for(&self, writer: GroupId, (reader, inputs): (GroupId, &[InstructionId])) -> bool {
        let [from, to] = [writer, reader].map(|group| &self.groups[group]);
        let is_read_in_place = |output: &InstructionId| {
            let users = &self.users[output.index()];
            let here: Vec<InstructionId> = users.iter().copied().filter(|user| to.members.contains_key(user)).collect();
            users.len() <= MOST_TRIED
                && here.iter().all(|&user| self.reads_at_loop_index(user, *output, reader))
                && self.indices_in(*output, reader, &here).count() == 1
        };
        let read = || from.outputs.iter().filter(|output| inputs.binary_search(output).is_ok());
        self.is_plain(writer)
            && from.dimensions == to.dimensions
            && read().all(is_read_in_place)
            && read().any(|output| self.is_large(*output) && self.is_known_to(*output, [writer, reader]))
    }

    /// Whether only members of two groups read an instruction.
    fn is_known_to(&self, id: InstructionId, groups: [GroupId; 2]) -> bool {
        let is_inside = |user: &InstructionId| {
            let of = &self.member_of[user.index()];
            !of.is_empty() && !self.stands_alone[user.index()] && of.iter().all(|group| groups.contains(group))
        };
        !self.is_root(id) && self.users[id.index()].iter().all(is_inside)
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

    /// Moves the members of the second group to the first one, if neither needs what the other one writes, but, if
    /// `may_read`, itself. Whether they are moved.
    fn merge(&mut self, [group, other]: [GroupId; 2], order: &mut Order, may_read: bool) -> bool {
        let [own, sibling] = [group, other].map(|group| &self.groups[group]);
        let inputs = [own, sibling].map(|group| self.inputs_of(group).len());
        let is_large = own.members.len() + sibling.members.len() > MAX_GROUP_SIZE;
        if is_large
            || inputs[0] + inputs[1] > MAX_GROUP_INPUTS
            || !order.merge(self, [own, sibling].map(|group| group.outputs[0]), may_read)
        {
            return false;
        }
        let sibling = std::mem::take(&mut self.groups[other]);
        for &id in sibling.members.keys() {
            let groups = &mut self.member_of[id.index()];
            groups.retain(|&own| own != other && own != group);
            groups.push(group);
        }
        let (inside, outputs): (Vec<InstructionId>, Vec<InstructionId>) =
            sibling.outputs.iter().partition(|&&output| self.is_known_to(output, [group, group]));
        inside.iter().for_each(|output| self.written_by[output.index()] = None);
        outputs.iter().for_each(|output| self.written_by[output.index()] = Some(group));
        let own = &mut self.groups[group];
        for (id, member) in sibling.members {
            own.members.entry(id).or_insert(member);
        }
        own.outputs.extend(outputs);
        own.opaque_inputs.extend(sibling.opaque_inputs);
        true
    }
}
