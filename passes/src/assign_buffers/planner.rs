//! Which leaves share storage, and when it is in use.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};

use super::arena::{Demand, place};
use super::reads::{TupleElements, forwards, last_leaf_reads};
use super::{Buffer, BufferAssignment, ComputationBuffers, Slice};
use crate::fuse::is_alias;

type LeafId = u32;

/// One array value before placement.
#[derive(Clone, Debug)]
struct Leaf {
    size: usize,
    /// First position at which the storage is written.
    start: u32,
    /// Last position at which it is read.
    end: u32,
    /// Storage outside the arena.
    fixed: Option<Buffer>,
    /// Union-find parent.
    parent: LeafId,
    /// Innermost loop the leaf was made in.
    home: usize,
}

/// A loop of the program.
#[derive(Clone, Copy, Debug)]
struct Loop {
    parent: usize,
    end: u32,
}

/// Leaves of each instruction of a computation, with the nested ones.
#[derive(Debug, Default)]
pub(super) struct Tree {
    values: Vec<Vec<LeafId>>,
    nested: HashMap<InstructionId, Vec<Tree>>,
    exchange: HashMap<InstructionId, BTreeMap<usize, LeafId>>,
}

#[derive(Default)]
pub(super) struct Planner {
    leaves: Vec<Leaf>,
    loops: Vec<Loop>,
    current_loop: usize,
    position: u32,
    constants: Vec<Literal>,
    /// Reads as (leaf, position, innermost loop), resolved when the loops' ends are known.
    reads: Vec<(LeafId, u32, usize)>,
    /// Last instruction of the current computation that reads a leaf, through whatever aliases.
    last_read_here: HashMap<LeafId, u32>,
}

impl Planner {
    pub(super) fn entry(&mut self, entry: &Computation) -> Tree {
        self.loops.push(Loop { parent: 0, end: u32::MAX });
        let mut parameters = Vec::new();
        let mut number = 0;
        for &parameter in &entry.parameters {
            let leaves = self.new_leaves(&entry.get(parameter).shape);
            for &leaf in &leaves {
                self.leaves[leaf as usize].fixed = Some(Buffer::Parameter(number));
                number += 1;
            }
            parameters.push(leaves);
        }
        let tree = self.computation(entry, &parameters);
        self.position += 1;
        for (number, &leaf) in tree.values[entry.root.index()].iter().enumerate() {
            self.read(leaf);
            let class = self.find(leaf);
            if self.leaves[class as usize].fixed.is_none() {
                self.leaves[class as usize].fixed = Some(Buffer::Output(number as u32));
            }
        }
        tree
    }

    fn new_leaf(&mut self, shape: &Shape) -> LeafId {
        let id = self.leaves.len() as LeafId;
        self.leaves.push(Leaf {
            size: shape.as_array().map_or(0, ArrayShape::byte_size),
            start: self.position,
            end: self.position,
            fixed: None,
            parent: id,
            home: self.current_loop,
        });
        id
    }

    fn new_leaves(&mut self, shape: &Shape) -> Vec<LeafId> {
        shape.leaves().into_iter().map(|leaf| self.new_leaf(leaf)).collect()
    }

    fn find(&mut self, mut leaf: LeafId) -> LeafId {
        while self.leaves[leaf as usize].parent != leaf {
            let grandparent = self.leaves[self.leaves[leaf as usize].parent as usize].parent;
            self.leaves[leaf as usize].parent = grandparent;
            leaf = grandparent;
        }
        leaf
    }

    /// Makes two leaves one piece of storage; at most one of them is fixed.
    fn unite(&mut self, a: LeafId, b: LeafId) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        let absorbed = self.leaves[b as usize].clone();
        let kept = &mut self.leaves[a as usize];
        kept.start = kept.start.min(absorbed.start);
        kept.end = kept.end.max(absorbed.end);
        kept.fixed = kept.fixed.or(absorbed.fixed);
        if self.is_inside(self.leaves[a as usize].home, absorbed.home) {
            self.leaves[a as usize].home = absorbed.home;
        }
        self.leaves[b as usize].parent = a;
    }

    /// Whether loop `inner` is `outer` or inside it.
    fn is_inside(&self, mut inner: usize, outer: usize) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            if inner == 0 {
                return false;
            }
            inner = self.loops[inner].parent;
        }
    }

    fn read(&mut self, leaf: LeafId) {
        let class = self.find(leaf);
        let position = self.position;
        self.leaves[class as usize].end = self.leaves[class as usize].end.max(position);
        self.reads.push((leaf, position, self.current_loop));
    }

    /// Whether instruction `id` may overwrite the storage of a leaf that it reads.
    fn is_writable_by(&mut self, leaf: LeafId, id: InstructionId) -> bool {
        let class = self.find(leaf);
        let data = &self.leaves[class as usize];
        let is_last_read = self.last_read_here.get(&leaf).is_some_and(|&last| last <= id.0);
        data.fixed.is_none() && is_last_read && data.home == self.current_loop
    }

    /// Runs `body` in a scope of its own: leaves from outside it are not writable in it.
    fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.loops.len();
        self.loops.push(Loop { parent: self.current_loop, end: 0 });
        let outer = std::mem::replace(&mut self.current_loop, scope);
        let result = body(self);
        self.loops[scope].end = self.position;
        self.current_loop = outer;
        result
    }

    fn computation(&mut self, computation: &Computation, parameters: &[Vec<LeafId>]) -> Tree {
        let elements = TupleElements::of(computation);
        let last_reads = last_leaf_reads(computation, &elements);
        // Positions count within a computation: those of the caller hold again after this one.
        let reads_by_caller = std::mem::take(&mut self.last_read_here);
        let mut tree = Tree { values: Vec::with_capacity(computation.instructions.len()), ..Tree::default() };
        for (id, instruction) in computation.iter() {
            self.position += 1;
            if let Some((tuple, range)) = elements.read_by(instruction) {
                let leaves = tree.values[tuple.index()][range].to_vec();
                tree.values.push(leaves);
                continue;
            }
            let operands: Vec<Vec<LeafId>> =
                instruction.operands.iter().map(|operand| tree.values[operand.index()].clone()).collect();
            let leaves = match instruction.kind {
                OpKind::Parameter => instruction
                    .parameter_number()
                    .and_then(|number| parameters.get(number).cloned())
                    .unwrap_or_default(),
                OpKind::Constant => self.constant(instruction),
                OpKind::Tuple => operands.concat(),
                OpKind::OptimizationBarrier | OpKind::Domain => operands.concat(),
                OpKind::AddDependency => operands.first().cloned().unwrap_or_default(),
                _ if is_alias(instruction) => operands.first().cloned().unwrap_or_default(),
                OpKind::While => self.while_loop(id, instruction, &operands[0], &mut tree),
                OpKind::Conditional => self.conditional(id, instruction, &operands, &mut tree),
                _ => self.computed(instruction, id, &operands),
            };
            if !forwards(instruction) {
                self.last_read_here.extend(leaves.iter().copied().zip(last_reads[id.index()].iter().copied()));
            }
            tree.values.push(leaves);
        }
        self.last_read_here = reads_by_caller;
        tree
    }

    fn constant(&mut self, instruction: &Instruction) -> Vec<LeafId> {
        let leaves = self.new_leaves(&instruction.shape);
        let literals = instruction.literal().map(Literal::leaves).unwrap_or_default();
        for (&leaf, literal) in leaves.iter().zip(literals) {
            self.leaves[leaf as usize].fixed = Some(Buffer::Constant(self.constants.len() as u32));
            self.constants.push(literal.clone());
        }
        leaves
    }

    /// An instruction that computes new arrays.
    fn computed(&mut self, instruction: &Instruction, id: InstructionId, operands: &[Vec<LeafId>]) -> Vec<LeafId> {
        for &leaf in operands.iter().flatten() {
            self.read(leaf);
        }
        let leaves = self.new_leaves(&instruction.shape);
        for (output, operand) in in_place_pairs(instruction) {
            let Some(&[base]) = operands.get(operand).map(Vec::as_slice) else { continue };
            let read_twice =
                operands.iter().enumerate().any(|(other, leaves)| other != operand && leaves.contains(&base));
            let same_size = self.leaves[base as usize].size == self.leaves[leaves[output] as usize].size;
            if same_size && !read_twice && self.is_writable_by(base, id) {
                self.unite(base, leaves[output]);
            }
        }
        leaves
    }

    fn while_loop(
        &mut self,
        id: InstructionId,
        instruction: &Instruction,
        initial: &[LeafId],
        tree: &mut Tree,
    ) -> Vec<LeafId> {
        // The initial values are copied into the state, or are the state from the start.
        for &leaf in initial {
            self.read(leaf);
        }
        let state = self.new_leaves(&instruction.shape);
        let mut taken: BTreeSet<LeafId> = BTreeSet::new();
        for (&state_leaf, &initial_leaf) in state.iter().zip(initial) {
            let class = self.find(initial_leaf);
            if taken.insert(class) && self.is_writable_by(initial_leaf, id) {
                self.unite(initial_leaf, state_leaf);
            }
        }
        let loop_index = self.loops.len();
        self.loops.push(Loop { parent: self.current_loop, end: 0 });
        let outer_loop = std::mem::replace(&mut self.current_loop, loop_index);
        // Inside, the state belongs to the loop: the body may overwrite it.
        let homes: Vec<usize> = state
            .iter()
            .map(|&leaf| {
                let class = self.find(leaf);
                std::mem::replace(&mut self.leaves[class as usize].home, loop_index)
            })
            .collect();

        let mut nested = Vec::new();
        let condition_computation = &instruction.computations[0];
        let condition = self.scoped(|planner| {
            let condition = planner.computation(condition_computation, std::slice::from_ref(&state));
            planner.position += 1;
            for &leaf in &condition.values[condition_computation.root.index()] {
                planner.read(leaf);
            }
            condition
        });
        nested.push(condition);
        let reads_before_body = self.reads.len();
        let body_computation = &instruction.computations[1];
        let body_start = self.position;
        let body = self.computation(body_computation, std::slice::from_ref(&state));
        self.position += 1;
        let results = body.values[body_computation.root.index()].clone();
        let exchange = self.unite_results(&state, &results, reads_before_body, body_start);
        nested.push(body);

        self.position += 1;
        self.loops[loop_index].end = self.position;
        self.current_loop = outer_loop;
        for (&leaf, home) in state.iter().zip(homes) {
            let class = self.find(leaf);
            self.leaves[class as usize].home = home;
            self.leaves[class as usize].end = self.leaves[class as usize].end.max(self.position);
        }
        tree.nested.insert(id, nested);
        tree.exchange.insert(id, exchange);
        state
    }

    /// Unites the body's results with the state where no read of the old state comes too late; returns where to
    /// keep results that are other leaves of the state while the copies are made.
    fn unite_results(
        &mut self,
        state: &[LeafId],
        results: &[LeafId],
        reads_before_body: usize,
        body_start: u32,
    ) -> BTreeMap<usize, LeafId> {
        let mut exchange = BTreeMap::new();
        let state_classes: Vec<LeafId> = state.iter().map(|&leaf| self.find(leaf)).collect();
        let all_state: HashSet<LeafId> = state_classes.iter().copied().collect();
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
                exchange.insert(number, temporary);
            }
        }
        let mut last_state_read: HashMap<LeafId, u32> = HashMap::new();
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
            if class == state_class || exchange.contains_key(&number) || !united.insert(class) {
                continue;
            }
            let data = &self.leaves[class as usize];
            let made_in_body = data.home == self.current_loop && data.start > body_start && data.fixed.is_none();
            let old_is_dead = last_state_read.get(&state_class).is_none_or(|&read| read < data.start);
            if made_in_body && old_is_dead && data.size == self.leaves[state_class as usize].size {
                self.unite(state_class, class);
            }
        }
        exchange
    }

    fn conditional(
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
                let branch_tree = planner.computation(branch, &parameters);
                planner.position += 1;
                planner.unite_branch(&results, &branch_tree.values[branch.root.index()], start);
                branch_tree
            });
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

    /// Resolves the reads, places the arena's leaves and turns leaves into slices.
    pub(super) fn finish(mut self, tree: &Tree, entry: &Computation) -> BufferAssignment {
        for (leaf, position, mut reading_loop) in std::mem::take(&mut self.reads) {
            let class = self.find(leaf);
            let home = self.leaves[class as usize].home;
            let mut end = position;
            while reading_loop != home && reading_loop != 0 && !self.is_inside(home, reading_loop) {
                end = end.max(self.loops[reading_loop].end);
                reading_loop = self.loops[reading_loop].parent;
            }
            let data = &mut self.leaves[class as usize];
            data.end = data.end.max(end);
        }
        let (offsets, arena_size) = self.place_in_arena();
        let mut assignment = BufferAssignment {
            arena_size,
            parameters: entry
                .parameters
                .iter()
                .flat_map(|&parameter| entry.get(parameter).shape.leaves())
                .map(|leaf| leaf.as_array().cloned())
                .collect(),
            outputs: entry.root().shape.leaves().iter().map(|leaf| leaf.as_array().cloned()).collect(),
            constants: std::mem::take(&mut self.constants),
            entry: ComputationBuffers::default(),
        };
        assignment.entry = self.slices(tree, &offsets);
        assignment
    }

    /// Offsets of the classes that live in the arena, and its size.
    fn place_in_arena(&mut self) -> (HashMap<LeafId, usize>, usize) {
        let mut classes: Vec<LeafId> =
            (0..self.leaves.len() as LeafId).filter(|&leaf| self.find(leaf) == leaf).collect();
        classes.retain(|&leaf| self.leaves[leaf as usize].fixed.is_none() && self.leaves[leaf as usize].size > 0);
        let demands: Vec<Demand> = classes
            .iter()
            .map(|&leaf| &self.leaves[leaf as usize])
            .map(|leaf| Demand { size: leaf.size, start: leaf.start, end: leaf.end })
            .collect();
        let (offsets, arena_size) = place(&demands);
        (classes.into_iter().zip(offsets).collect(), arena_size)
    }
    fn slices(&mut self, tree: &Tree, offsets: &HashMap<LeafId, usize>) -> ComputationBuffers {
        let values =
            tree.values.iter().map(|leaves| leaves.iter().map(|&leaf| self.slice(leaf, offsets)).collect()).collect();
        let exchange = tree
            .exchange
            .iter()
            .map(|(&id, leaves)| {
                (id, leaves.iter().map(|(&number, &leaf)| (number, self.slice(leaf, offsets))).collect())
            })
            .collect();
        let nested = tree
            .nested
            .iter()
            .map(|(&id, trees)| (id, trees.iter().map(|tree| self.slices(tree, offsets)).collect()))
            .collect();
        ComputationBuffers { values, nested, exchange }
    }

    fn slice(&mut self, leaf: LeafId, offsets: &HashMap<LeafId, usize>) -> Slice {
        let class = self.find(leaf);
        let size = self.leaves[leaf as usize].size;
        match self.leaves[class as usize].fixed {
            Some(buffer) => Slice { buffer, offset: 0, size },
            None => Slice { buffer: Buffer::Arena, offset: offsets.get(&class).copied().unwrap_or(0), size },
        }
    }
}
/// Pairs (output leaf, operand) of a fusion whose output may be written over the operand while it is read.
fn in_place_pairs(instruction: &Instruction) -> Vec<(usize, usize)> {
    match instruction.kind {
        OpKind::DynamicUpdateSlice | OpKind::Scatter if instruction.shape.as_array().is_some() => vec![(0, 0)],
        OpKind::Fusion => {
            let body = &instruction.computations[0];
            let root = body.root();
            if root.kind != OpKind::DynamicUpdateSlice {
                return Vec::new();
            }
            let base = root.operands[0];
            // The base must be read by the update alone: its other reads would see what was written.
            let reads =
                body.instructions.iter().flat_map(|inner| &inner.operands).filter(|operand| **operand == base).count();
            match body.get(base).parameter_number() {
                Some(number) if reads == 1 => vec![(0, number)],
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}
