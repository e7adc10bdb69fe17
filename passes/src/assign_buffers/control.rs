//! Storage of control flow: the state of loops and the results of branches.

use std::collections::{BTreeMap, BTreeSet};

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::shape::Shape;
use rustc_hash::{FxHashMap, FxHashSet};

use super::planner::{LeafId, Loop, NextOf, Planner, Tree};
use super::reads::{TupleElements, source_of};

/// Bytes of state from which a loop is unrolled rather than copying them.
const MIN_ALTERNATING_BYTES: usize = 256;

/// Instructions with code of their own in a body that is unrolled, at most.
const MAX_UNROLLED_SIZE: usize = 128;

/// How the results of a body get to the state.
#[derive(Default)]
pub(super) struct NextState {
    /// Where results that are other leaves of the state are kept while the copies are made.
    pub exchange: BTreeMap<usize, LeafId>,
    /// Leaves of the state that are still read when their next value is written elsewhere.
    elsewhere: BTreeSet<usize>,
}

impl Planner<'_> {
    pub(super) fn while_loop(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        initial: &[LeafId],
        tree: &mut Tree,
    ) -> Vec<LeafId> {
        let [condition_computation, body_computation] = &instruction.computations[..] else { return initial.to_vec() };
        // The initial values are copied into the state, or are the state from the start.
        for &leaf in initial {
            self.read(leaf);
        }
        let sources = result_sources(body_computation);
        let mut taken: BTreeSet<LeafId> = BTreeSet::new();
        let shapes = instruction.shape.leaves();
        let mut state = Vec::with_capacity(shapes.len());
        for (number, (shape, &source)) in shapes.into_iter().zip(&sources).enumerate() {
            let is_unchanged = is_unchanged(body_computation, source, number);
            state.push(if is_unchanged { initial[number] } else { self.new_leaf(shape) });
            if is_unchanged {
                taken.insert(self.find(initial[number]));
            }
        }
        for (&state_leaf, &initial_leaf) in state.iter().zip(initial) {
            let class = self.find(initial_leaf);
            if state_leaf != initial_leaf && taken.insert(class) && self.is_writable_by(initial_leaf, id) {
                self.unite(initial_leaf, state_leaf);
            }
        }
        let changed: Vec<usize> = (0..state.len()).filter(|&number| state[number] != initial[number]).collect();
        let loop_index = self.loops.len();
        let loop_start = self.position;
        self.loops.push(Loop { parent: self.current_loop, end: 0 });
        let outer_loop = std::mem::replace(&mut self.current_loop, loop_index);
        // Inside, the state belongs to the loop: the body may overwrite it.
        let homes: Vec<usize> = changed
            .iter()
            .map(|&number| {
                let class = self.find(state[number]);
                std::mem::replace(&mut self.leaves[class as usize].home, loop_index)
            })
            .collect();

        let condition = self.scoped(|planner| {
            let condition = planner.computation(condition_computation, std::slice::from_ref(&state), NextOf::default());
            planner.position += 1;
            for &leaf in &condition.values[condition_computation.root.index()] {
                planner.read(leaf);
            }
            condition
        });
        let reads_before_body = self.reads.len();
        let body_start = self.position;
        let next_of = changed.iter().rev().map(|&number| (sources[number], state[number])).collect();
        let body = self.computation(body_computation, std::slice::from_ref(&state), next_of);
        self.position += 1;
        let results = body.values[body_computation.root.index()].clone();
        let NextState { exchange, elsewhere } = self.unite_results(&state, &results, reads_before_body, body_start);
        let alternating = self.alternating(elsewhere, &state, &condition, &body);
        let mut size = condition.size + body.size;
        if !alternating.is_empty() {
            size = condition.size + 2 * size;
        }

        self.position += 1;
        self.loops[loop_index].end = self.position;
        self.current_loop = outer_loop;
        // Both places hold the state in turns, so nothing else may in any part of the loop.
        for &number in &alternating {
            let class = self.find(results[number]);
            let leaf = &mut self.leaves[class as usize];
            leaf.start = leaf.start.min(loop_start);
            leaf.end = leaf.end.max(self.position);
        }
        for (&number, home) in changed.iter().zip(homes) {
            let class = self.find(state[number]);
            self.leaves[class as usize].home = home;
            self.leaves[class as usize].end = self.leaves[class as usize].end.max(self.position);
        }
        tree.size += size;
        tree.nested.insert(id, vec![condition, body]);
        tree.exchange.insert(id, exchange);
        tree.alternating.insert(id, alternating);
        state
    }

    /// The leaves of the state that two places hold in turns: those that would be copied, if that is worth two bodies.
    fn alternating(
        &self,
        elsewhere: BTreeSet<usize>,
        state: &[LeafId],
        condition: &Tree,
        body: &Tree,
    ) -> BTreeSet<usize> {
        let bytes: usize = elsewhere.iter().map(|&number| self.leaves[state[number] as usize].size).sum();
        let is_worth_it = bytes >= MIN_ALTERNATING_BYTES && condition.size + body.size <= MAX_UNROLLED_SIZE;
        if is_worth_it { elsewhere } else { BTreeSet::new() }
    }

    /// Unites the body's results with the state where no read of the old state comes too late.
    pub(super) fn unite_results(
        &mut self,
        state: &[LeafId],
        results: &[LeafId],
        reads_before_body: usize,
        body_start: u32,
    ) -> NextState {
        let mut next = NextState::default();
        let state_classes: Vec<LeafId> = state.iter().map(|&leaf| self.find(leaf)).collect();
        let all_state: FxHashSet<LeafId> = state_classes.iter().copied().collect();
        // The copies at the end read every result that is not already in place.
        for (number, &result) in results.iter().enumerate() {
            let class = self.find(result);
            if class == state_classes[number] {
                continue;
            }
            self.read(result);
            if all_state.contains(&class) {
                let size = self.leaves[class as usize].size;
                let temporary = self.new_leaf(&Shape::Token);
                self.leaves[temporary as usize].size = size;
                self.reads.push((temporary, self.position + 1, self.current_loop));
                self.leaves[temporary as usize].end = self.position + 1;
                next.exchange.insert(number, temporary);
            }
        }
        let mut last_state_read: FxHashMap<LeafId, u32> = FxHashMap::default();
        for index in reads_before_body..self.reads.len() {
            let (leaf, position, _) = self.reads[index];
            let class = self.find(leaf);
            let last = last_state_read.entry(class).or_insert(body_start);
            *last = (*last).max(position);
        }
        let mut united: BTreeSet<LeafId> = BTreeSet::new();
        for (number, &result) in results.iter().enumerate() {
            let class = self.find(result);
            let state_class = self.find(state[number]);
            if class == state_class || next.exchange.contains_key(&number) || !united.insert(class) {
                continue;
            }
            let data = &self.leaves[class as usize];
            let made_in_body = data.home == self.current_loop && data.start > body_start && data.fixed.is_none();
            let old_is_dead = last_state_read.get(&state_class).is_none_or(|&read| read < data.start);
            if !made_in_body || data.size != self.leaves[state_class as usize].size {
                continue;
            }
            if old_is_dead {
                self.unite(state_class, class);
            } else {
                next.elsewhere.insert(number);
            }
        }
        next
    }

    pub(super) fn conditional(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        operands: &[Vec<LeafId>],
        tree: &mut Tree,
    ) -> Vec<LeafId> {
        for &leaf in operands.iter().flatten() {
            self.read(leaf);
        }
        let results = self.new_leaves(&instruction.shape);
        let start = self.position;
        let mut nested = Vec::new();
        for (number, branch) in instruction.computations.iter().enumerate() {
            let argument = operands.get(number + 1).cloned().unwrap_or_default();
            let parameters: Vec<Vec<LeafId>> =
                if branch.parameters.is_empty() { Vec::new() } else { vec![argument.clone()] };
            let branch_tree = self.scoped(|planner| {
                let branch_tree = planner.computation(branch, &parameters, NextOf::default());
                planner.position += 1;
                planner.unite_branch(&results, &branch_tree.values[branch.root.index()], start);
                branch_tree
            });
            tree.size += branch_tree.size;
            nested.push(branch_tree);
        }
        // The branches' operands stay until the end: the result may be written while a branch still reads them.
        for &leaf in operands.iter().flatten() {
            self.read(leaf);
        }
        self.position += 1;
        for &leaf in &results {
            let class = self.find(leaf);
            self.leaves[class as usize].end = self.leaves[class as usize].end.max(self.position);
        }
        tree.nested.insert(id, nested);
        results
    }

    /// Unites the results of a branch with those of its `conditional` where the branch makes them.
    fn unite_branch(&mut self, results: &[LeafId], branch_results: &[LeafId], start: u32) {
        let mut united: BTreeSet<LeafId> = BTreeSet::new();
        for (&result, &branch_result) in results.iter().zip(branch_results) {
            self.read(branch_result);
            let class = self.find(branch_result);
            let result_class = self.find(result);
            let data = &self.leaves[class as usize];
            let made_here = data.start > start && data.home == self.current_loop && data.fixed.is_none();
            if made_here && united.insert(class) && data.size == self.leaves[result_class as usize].size {
                self.unite(result_class, class);
            }
        }
    }
}

/// The instruction and leaf of it that each leaf of a computation's result is.
pub(super) fn result_sources(computation: &Computation) -> Vec<(InstructionId, usize)> {
    let elements = TupleElements::of(computation);
    let leaves = computation.root().shape.leaves().len();
    (0..leaves).map(|leaf| source_of(computation, &elements, computation.root, leaf)).collect()
}

/// Whether leaf `number` of a body's result is that leaf of its parameter.
fn is_unchanged(body: &Computation, (id, leaf): (InstructionId, usize), number: usize) -> bool {
    body.get(id).parameter_number().is_some() && leaf == number
}
