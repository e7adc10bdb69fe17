//! An order of what will be in memory, kept while groups grow: each node before those that read what it writes.
//!
//! A node is a group, named by the instruction that it was made for, or an instruction that stands by itself. Nodes are
//! made from the end of the computation to its beginning, so a new one comes before all others by its place in the text.
//! Only a further output of a group adds a reader to a node that is there already; if the reader comes before the
//! group, nodes in between change places, or there is a cycle. In the end, groups may become one. (D. J. Pearce and P. H. J. Kelly, "A dynamic
//! topological sort algorithm for directed acyclic graphs", 2007.)

use std::collections::HashSet;

use hlo::graph::InstructionId;

use super::grouping::{GroupId, Grouping, reads_from_memory};

/// Nodes looked at for one output at most; a search that goes on longer counts as one that has found a cycle.
const MAX_SEARCH_STEPS: usize = 512;

/// The order.
pub(super) struct Order {
    /// By instruction: the place of the node of that name.
    place: Vec<u32>,
}

impl Order {
    /// The order of the text.
    pub(super) fn new(count: usize) -> Self {
        Order { place: (0..count as u32).collect() }
    }

    fn place(&self, node: InstructionId) -> u32 {
        self.place[node.index()]
    }

    /// Lets a group write a value, if its readers elsewhere can come after the group. Whether they can.
    pub(super) fn add_output(&mut self, grouping: &Grouping<'_>, value: InstructionId, group: GroupId) -> bool {
        let node = grouping.groups[group].outputs[0];
        let readers: Vec<InstructionId> = readers_of(grouping, value).filter(|&reader| reader != node).collect();
        let Some(first) = readers.iter().map(|&reader| self.place(reader)).min() else { return true };
        if first > self.place(node) {
            return true;
        }
        let early = readers.into_iter().filter(|&reader| self.place(reader) < self.place(node)).collect();
        let last = self.place(node);
        let Some(after) = self
            .closure(early, |reached| successors(grouping, reached).filter(|&next| self.place(next) <= last).collect())
        else {
            return false;
        };
        if after.contains(&node) {
            return false;
        }
        let Some(before) = self.closure(vec![node], |reached| {
            predecessors(grouping, reached, Some(value)).filter(|&next| self.place(next) >= first).collect()
        }) else {
            return false;
        };
        self.put_in_order([before, after]);
        true
    }

    /// Lets two nodes become one, if neither needs what the other one writes, but, if `may_read`, itself. Whether they can.
    pub(super) fn merge(&mut self, grouping: &Grouping<'_>, mut nodes: [InstructionId; 2], may_read: bool) -> bool {
        nodes.sort_unstable_by_key(|&node| self.place(node));
        let [first, last] = nodes;
        let places = self.place(first)..=self.place(last);
        let is_between = |node: &InstructionId| places.contains(&self.place(*node));
        let needs_not = |node: InstructionId, next: InstructionId| may_read && [node, next] == [first, last];
        let after = self.closure(vec![first], |node| {
            successors(grouping, node).filter(|next| is_between(next) && !needs_not(node, *next)).collect()
        });
        let Some(mut after) = after.filter(|after| !after.contains(&last)) else { return false };
        let before = self.closure(vec![last], |node| predecessors(grouping, node, None).filter(is_between).collect());
        let Some(mut before) = before else { return false };
        after.remove(&first);
        before.retain(|node| !nodes.contains(node));
        self.put_in_order([before, nodes.into(), after]);
        true
    }

    /// Puts nodes into each other's places: sets one after the other, each in the order that it has.
    fn put_in_order<const N: usize>(&mut self, sets: [HashSet<InstructionId>; N]) {
        let sorted = sets.map(|nodes| {
            let mut nodes: Vec<InstructionId> = nodes.into_iter().collect();
            nodes.sort_unstable_by_key(|&node| self.place(node));
            nodes
        });
        let nodes = sorted.concat();
        let mut places: Vec<u32> = nodes.iter().map(|&node| self.place(node)).collect();
        places.sort_unstable();
        for (node, place) in nodes.into_iter().zip(places) {
            self.place[node.index()] = place;
        }
    }

    /// All nodes that are reached from some; `None` if there are too many.
    fn closure(
        &self,
        start: Vec<InstructionId>,
        next: impl Fn(InstructionId) -> Vec<InstructionId>,
    ) -> Option<HashSet<InstructionId>> {
        let mut found: HashSet<InstructionId> = start.iter().copied().collect();
        let mut pending = start;
        while let Some(node) = pending.pop() {
            if found.len() > MAX_SEARCH_STEPS {
                return None;
            }
            pending.extend(next(node).into_iter().filter(|&next| found.insert(next)));
        }
        Some(found)
    }
}

/// The nodes that read a value, or compute with its elements.
fn readers_of(grouping: &Grouping<'_>, value: InstructionId) -> impl Iterator<Item = InstructionId> {
    grouping.users[value.index()].iter().flat_map(|&user| {
        let groups = &grouping.member_of[user.index()];
        let itself = (groups.is_empty() || grouping.stands_alone[user.index()]).then_some(user);
        groups.iter().map(|&group| grouping.groups[group].outputs[0]).chain(itself)
    })
}

/// The nodes that read what a node writes.
fn successors(grouping: &Grouping<'_>, node: InstructionId) -> impl Iterator<Item = InstructionId> {
    let outputs = match grouping.written_by[node.index()] {
        Some(group) => grouping.groups[group].outputs.clone(),
        None => vec![node],
    };
    outputs.into_iter().flat_map(|output| readers_of(grouping, output)).filter(move |&reader| reader != node)
}

/// The nodes, where asked for only those behind `first` in the text, that write what a node reads.
fn predecessors(
    grouping: &Grouping<'_>,
    node: InstructionId,
    first: Option<InstructionId>,
) -> impl Iterator<Item = InstructionId> {
    let group = grouping.written_by[node.index()];
    let members: Vec<InstructionId> = match group {
        Some(group) => grouping.groups[group].members.keys().copied().collect(),
        None => vec![node],
    };
    let is_read = move |user: InstructionId, operand: InstructionId| {
        let is_computed = group.is_some_and(|group| grouping.groups[group].members.contains_key(&operand));
        first.is_none_or(|first| operand > first)
            && (!is_computed || reads_from_memory(grouping.instruction(user), operand))
    };
    members.into_iter().flat_map(move |member| {
        let operands = grouping.instruction(member).operands.iter().copied();
        operands.filter(move |&operand| is_read(member, operand)).map(|operand| {
            match grouping.written_by[operand.index()] {
                Some(group) => grouping.groups[group].outputs[0],
                None => operand,
            }
        })
    })
}
