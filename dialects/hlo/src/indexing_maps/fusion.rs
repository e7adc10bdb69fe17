//! Fusions: the maps of a cluster's instructions composed, grouped by operand, without duplicates.

use indexing::IndexingMap;

use super::{Analysis, LeafMap, ValueIndexing, leaf_array, maps};
use crate::graph::{Computation, Instruction, InstructionId};
use crate::op_kind::OpKind;

impl<'c, 'a> Analysis<'c, 'a> {
    /// The maps from an element of `start` (leaf `leaf`) to every instruction it is computed from, by
    /// position in computation `number`. Instructions that do not take part have no maps.
    ///
    /// Instructions are taken once each, users before operands, so the time is linear in the cluster as long
    /// as the number of different accesses to one value is bounded.
    pub fn grouped_from(&mut self, number: u32, start: InstructionId, leaf: usize) -> Vec<ValueIndexing<'c>> {
        let Some(&graph) = self.computations.get(number as usize) else { return Vec::new() };
        self.grouped(number as usize, graph, start, leaf, &|_| true)
    }

    /// As [`Analysis::grouped_from`] in computation 0, going on only from instructions inside a cluster.
    pub fn grouped_within(
        &mut self,
        start: InstructionId,
        leaf: usize,
        inside: &dyn Fn(InstructionId) -> bool,
    ) -> Vec<ValueIndexing<'c>> {
        let graph = self.computation(0);
        self.grouped(0, graph, start, leaf, inside)
    }

    fn grouped(
        &mut self,
        number: usize,
        graph: &'a Computation,
        start: InstructionId,
        leaf: usize,
        inside: &dyn Fn(InstructionId) -> bool,
    ) -> Vec<ValueIndexing<'c>> {
        let mut groups = vec![ValueIndexing::none(); graph.instructions.len()];
        let Some(first) = graph.instructions.get(start.index()) else { return groups };
        groups[start.index()] = match leaf_array(&first.shape, leaf) {
            Some(array) => {
                ValueIndexing::Known(vec![LeafMap { leaf, map: maps::identity(self.context, &array.dimensions) }])
            }
            None => ValueIndexing::Unknown,
        };
        for position in (0..=start.index()).rev() {
            let id = InstructionId(position as u32);
            let instruction = &graph.instructions[position];
            if instruction.operands.is_empty() || !inside(id) {
                continue;
            }
            match groups[position].clone() {
                ValueIndexing::Unknown => {
                    for operand in &instruction.operands {
                        groups[operand.index()] = ValueIndexing::Unknown;
                    }
                }
                ValueIndexing::Known(entries) => {
                    for entry in entries {
                        let steps = self.output_to_input_in(number, id, entry.leaf);
                        for (&operand, step) in instruction.operands.iter().zip(steps) {
                            self.extend(&mut groups[operand.index()], &entry.map, step);
                        }
                    }
                }
            }
        }
        groups
    }

    pub(super) fn fusion_output_to_input(
        &mut self,
        fusion: &'a Instruction,
        leaf: usize,
    ) -> Option<Vec<ValueIndexing<'c>>> {
        let fused = fusion.computations.first()?;
        let number = self.number(fused);
        let groups = self.grouped(number, fused, fused.root, leaf, &|_| true);
        let parameter = |&id: &InstructionId| groups.get(id.index()).cloned().unwrap_or(ValueIndexing::Unknown);
        Some(fused.parameters.iter().map(parameter).collect())
    }

    /// Forwards through the cluster, operands before users.
    pub(super) fn fusion_input_to_output(
        &mut self,
        fusion: &'a Instruction,
        operand: usize,
    ) -> Option<Vec<ValueIndexing<'c>>> {
        let fused = fusion.computations.first()?;
        let number = self.number(fused);
        let parameter = *fused.parameters.get(operand)?;
        let array = leaf_array(&fused.get(parameter).shape, 0)?;
        // For each instruction and leaf of it, the maps from the parameter.
        let mut groups: Vec<Vec<ValueIndexing<'c>>> =
            fused.instructions.iter().map(|i| vec![ValueIndexing::none(); i.shape.leaves().len()]).collect();
        groups[parameter.index()] = vec![ValueIndexing::of(maps::identity(self.context, &array.dimensions))];
        for (id, instruction) in fused.iter() {
            for (place, &used) in instruction.operands.iter().enumerate() {
                let sources = groups[used.index()].clone();
                if sources.iter().all(|source| *source == ValueIndexing::none()) {
                    continue;
                }
                let steps = self.input_to_output_in(number, id, place);
                for (target, step) in steps.into_iter().enumerate() {
                    let mut group = std::mem::replace(&mut groups[id.index()][target], ValueIndexing::Unknown);
                    for (leaf, source) in sources.iter().enumerate() {
                        self.join(&mut group, source, &step, leaf);
                    }
                    groups[id.index()][target] = group;
                }
            }
        }
        groups.into_iter().nth(fused.root.index())
    }

    /// The map from an element of `from` to the elements of `to` it goes into along the first chain of
    /// users, in computation `number` (the epilogue of a fusion). `None` if there is no chain, or a step has
    /// no single map.
    pub fn along_users(&mut self, number: u32, from: InstructionId, to: InstructionId) -> Option<IndexingMap<'c>> {
        let graph = *self.computations.get(number as usize)?;
        let chain = use_chain(graph, from, to)?;
        let mut map = maps::identity(self.context, &leaf_array(&graph.get(from).shape, 0)?.dimensions);
        for step in chain.windows(2) {
            let [producer, user] = step else { continue };
            let operand = graph.get(*user).operands.iter().position(|operand| operand == producer)?;
            let outputs = self.input_to_output_in(number as usize, *user, operand);
            let [only] = outputs.first()?.maps() else { return None };
            map = self.composed(&map, &only.map)?;
        }
        Some(map)
    }

    /// Number of a computation nested in instruction `instruction` of computation 0.
    pub fn nested(&mut self, instruction: InstructionId) -> Option<u32> {
        let fused = self.computation(0).instructions.get(instruction.index())?;
        if fused.kind != OpKind::Fusion {
            return None;
        }
        let number = self.number(fused.computations.first()?);
        Some(number as u32)
    }
}

/// A chain of users from one instruction to another, both included.
fn use_chain(graph: &Computation, from: InstructionId, to: InstructionId) -> Option<Vec<InstructionId>> {
    // Backwards from `to`: the operands of an instruction that `from` reaches.
    let mut reached = vec![false; graph.instructions.len()];
    *reached.get_mut(from.index())? = true;
    for (id, instruction) in graph.iter() {
        if instruction.operands.iter().any(|operand| reached[operand.index()]) {
            reached[id.index()] = true;
        }
    }
    let mut chain = vec![to];
    let mut current = to;
    while current != from {
        current = *graph.instructions.get(current.index())?.operands.iter().find(|o| reached[o.index()])?;
        chain.push(current);
    }
    chain.reverse();
    Some(chain)
}

impl<'c> Analysis<'c, '_> {
    /// Adds the maps of a value's operand, given one map to the value.
    fn extend(&self, group: &mut ValueIndexing<'c>, to_value: &IndexingMap<'c>, step: ValueIndexing<'c>) {
        match step {
            ValueIndexing::Unknown => *group = ValueIndexing::Unknown,
            ValueIndexing::Known(entries) => {
                for entry in entries {
                    match self.composed(to_value, &entry.map) {
                        Some(map) => group.add(LeafMap { leaf: entry.leaf, map }),
                        None => *group = ValueIndexing::Unknown,
                    }
                }
            }
        }
    }

    /// Adds the maps through one leaf of a value.
    fn join(&self, group: &mut ValueIndexing<'c>, source: &ValueIndexing<'c>, step: &ValueIndexing<'c>, leaf: usize) {
        let (ValueIndexing::Known(before), ValueIndexing::Known(after)) = (source, step) else {
            *group = ValueIndexing::Unknown;
            return;
        };
        for first in before {
            for second in after.iter().filter(|second| second.leaf == leaf) {
                match self.composed(&first.map, &second.map) {
                    Some(map) => group.add(LeafMap { leaf: 0, map }),
                    None => *group = ValueIndexing::Unknown,
                }
            }
        }
    }

    /// The second map after the first, simplified.
    fn composed(&self, first: &IndexingMap<'c>, second: &IndexingMap<'c>) -> Option<IndexingMap<'c>> {
        let map = first.compose(second).ok()?;
        Some(if self.simplify { map.simplified() } else { map })
    }
}
