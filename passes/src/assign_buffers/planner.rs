//! Which leaves share storage, and when it is in use.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::arena::{Demand, Region, place};
use super::control::{NextState, result_sources};
use super::in_place::{Overwrite, Overwrites};
use super::reads::{TupleElements, forwards, last_leaf_reads};
use super::{Buffer, BufferAssignment, ComputationBuffers, Slice};
use crate::fuse::is_alias;

pub(super) type LeafId = u32;

/// One array value before placement.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub size: usize,
    /// Bytes that the storage's address is a multiple of.
    pub alignment: usize,
    /// First position at which the storage is written.
    pub start: u32,
    /// Last position at which it is read.
    pub end: u32,
    /// Storage outside the arena.
    pub fixed: Option<Buffer>,
    /// Union-find parent.
    pub parent: LeafId,
    /// Innermost loop the leaf was made in.
    pub home: usize,
}

/// A loop of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    pub parent: usize,
    pub end: u32,
}

/// Leaves of each instruction of a computation, with the nested ones.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub values: Vec<Vec<LeafId>>,
    pub nested: HashMap<InstructionId, Vec<Tree>>,
    pub exchange: HashMap<InstructionId, BTreeMap<usize, LeafId>>,
    pub alternating: HashMap<InstructionId, BTreeSet<usize>>,
    /// Instructions with code of their own, counted as often as their code is emitted.
    pub size: usize,
}

/// The state of a loop by the leaves of the body's instructions that are its next value.
pub(super) type NextOf = FxHashMap<(InstructionId, usize), LeafId>;

/// What is known of the computation that is planned.
#[derive(Default)]
struct Scope {
    /// Last instruction that reads a leaf, through whatever aliases.
    last_reads: FxHashMap<LeafId, u32>,
    next_of: NextOf,
    /// The storage of that state.
    state: FxHashSet<LeafId>,
}

pub(super) struct Planner<'a> {
    /// What instructions may write over.
    overwrites: &'a Overwrites<'a>,
    pub leaves: Vec<Leaf>,
    pub loops: Vec<Loop>,
    pub current_loop: usize,
    pub position: u32,
    constants: Vec<Literal>,
    /// Reads as (leaf, position, innermost loop), resolved when the loops' ends are known.
    pub reads: Vec<(LeafId, u32, usize)>,
    scope: Scope,
}

impl<'a> Planner<'a> {
    /// A planner of nothing yet.
    pub(super) fn new(overwrites: &'a Overwrites<'a>) -> Self {
        Planner {
            overwrites,
            leaves: Vec::new(),
            loops: Vec::new(),
            current_loop: 0,
            position: 0,
            constants: Vec::new(),
            reads: Vec::new(),
            scope: Scope::default(),
        }
    }

    /// Plans the entry computation; also returns where to keep results that another result's copy would overwrite.
    pub(super) fn entry(&mut self, entry: &Computation, aliases: &[Option<usize>]) -> (Tree, BTreeMap<usize, LeafId>) {
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
        // Arguments that results take the place of are like the state of a loop: the program may overwrite them.
        let all: Vec<LeafId> = parameters.concat();
        let overwritten = |number: &usize| Some((*number, *all.get((*aliases.get(*number)?)?)?));
        let outputs = entry.root().shape.leaves().len();
        let aliased: Vec<(usize, LeafId)> = (0..outputs).filter_map(|number| overwritten(&number)).collect();
        let places: Vec<Option<Buffer>> =
            aliased.iter().map(|&(_, leaf)| self.leaves[leaf as usize].fixed.take()).collect();
        let sources = result_sources(entry);
        let next_of = aliased.iter().rev().map(|&(number, leaf)| (sources[number], leaf)).collect();
        let tree = self.computation(entry, &parameters, next_of);
        self.position += 1;
        let results = &tree.values[entry.root.index()];
        for (number, &leaf) in results.iter().enumerate() {
            if aliased.binary_search_by_key(&number, |&(number, _)| number).is_err() {
                self.read(leaf);
            }
        }
        let state: Vec<LeafId> = aliased.iter().map(|&(_, leaf)| leaf).collect();
        let next: Vec<LeafId> = aliased.iter().map(|&(number, _)| results[number]).collect();
        let NextState { exchange, .. } = self.unite_results(&state, &next, 0, 0);
        let exchange = exchange.into_iter().map(|(place, leaf)| (aliased[place].0, leaf)).collect();
        for (&leaf, place) in state.iter().zip(places) {
            let class = self.find(leaf);
            self.leaves[class as usize].fixed = place;
        }
        for (number, &leaf) in results.iter().enumerate() {
            let class = self.find(leaf);
            let has_memory = aliases.get(number).copied().flatten().is_none();
            if has_memory && self.leaves[class as usize].fixed.is_none() {
                self.leaves[class as usize].fixed = Some(Buffer::Output(number as u32));
            }
        }
        (tree, exchange)
    }

    pub fn new_leaf(&mut self, shape: &Shape) -> LeafId {
        let id = self.leaves.len() as LeafId;
        self.leaves.push(Leaf {
            size: shape.as_array().map_or(0, ArrayShape::byte_size),
            alignment: shape.as_array().map_or(1, |array| array.element_type.real_part().byte_width()),
            start: self.position,
            end: self.position,
            fixed: None,
            parent: id,
            home: self.current_loop,
        });
        id
    }

    pub fn new_leaves(&mut self, shape: &Shape) -> Vec<LeafId> {
        shape.leaves().into_iter().map(|leaf| self.new_leaf(leaf)).collect()
    }

    pub fn find(&mut self, mut leaf: LeafId) -> LeafId {
        while self.leaves[leaf as usize].parent != leaf {
            let grandparent = self.leaves[self.leaves[leaf as usize].parent as usize].parent;
            self.leaves[leaf as usize].parent = grandparent;
            leaf = grandparent;
        }
        leaf
    }

    /// Makes two leaves one piece of storage; at most one of them is fixed.
    pub fn unite(&mut self, a: LeafId, b: LeafId) {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        let absorbed = self.leaves[b as usize].clone();
        let kept = &mut self.leaves[a as usize];
        kept.alignment = kept.alignment.max(absorbed.alignment);
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

    pub fn read(&mut self, leaf: LeafId) {
        let class = self.find(leaf);
        let position = self.position;
        self.leaves[class as usize].end = self.leaves[class as usize].end.max(position);
        self.reads.push((leaf, position, self.current_loop));
    }

    /// Whether instruction `id` may overwrite the storage of a leaf that it reads.
    pub fn is_writable_by(&mut self, leaf: LeafId, id: InstructionId) -> bool {
        let class = self.find(leaf);
        let data = &self.leaves[class as usize];
        let is_last_read = self.scope.last_reads.get(&leaf).is_some_and(|&last| last <= id.0);
        data.fixed.is_none() && is_last_read && data.home == self.current_loop
    }

    /// Runs `body` in a scope of its own: leaves from outside it are not writable in it.
    pub fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.loops.len();
        self.loops.push(Loop { parent: self.current_loop, end: 0 });
        let outer = std::mem::replace(&mut self.current_loop, scope);
        let result = body(self);
        self.loops[scope].end = self.position;
        self.current_loop = outer;
        result
    }

    pub fn computation(&mut self, computation: &Computation, parameters: &[Vec<LeafId>], next_of: NextOf) -> Tree {
        let elements = TupleElements::of(computation);
        let last_reads = last_leaf_reads(computation, &elements);
        let state = next_of.values().map(|&leaf| self.find(leaf)).collect();
        // Positions count within a computation: those of the caller hold again after this one.
        let outer = std::mem::replace(&mut self.scope, Scope { last_reads: FxHashMap::default(), next_of, state });
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
                OpKind::While => {
                    self.while_loop(id, instruction, operands.first().map_or(&[], Vec::as_slice), &mut tree)
                }
                OpKind::Conditional => self.conditional(id, instruction, &operands, &mut tree),
                _ => self.computed(instruction, id, &operands),
            };
            if !forwards(instruction) {
                tree.size += 1;
                for (&leaf, &read) in leaves.iter().zip(&last_reads[id.index()]) {
                    // A loop's result may be a leaf of its operand.
                    let last = self.scope.last_reads.entry(leaf).or_default();
                    *last = (*last).max(read);
                }
            }
            tree.values.push(leaves);
        }
        self.scope = outer;
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
        self.write_over_operands(instruction, id, operands, &leaves);
        leaves
    }

    /// Lets the results of an instruction take over the storage of operands that it is the last to read.
    fn write_over_operands(
        &mut self,
        instruction: &Instruction,
        id: InstructionId,
        operands: &[Vec<LeafId>],
        results: &[LeafId],
    ) {
        let all = self.overwrites.of(instruction);
        // The next state goes where the state is, before others may.
        let is_next =
            |planner: &mut Self, it: &Overwrite| planner.is_next_of(id, it.output, operands[it.operand].first());
        let (next, others): (Vec<Overwrite>, Vec<Overwrite>) = all.iter().partition(|it| is_next(self, it));
        let mut written: HashSet<usize> = HashSet::new();
        let mut overwritten: HashSet<LeafId> = HashSet::new();
        for (it, is_next) in next.iter().map(|it| (it, true)).chain(others.iter().map(|it| (it, false))) {
            let &[base] = &operands[it.operand][..] else { continue };
            let is_read_as = |other: usize| {
                let other = Overwrite { operand: other, ..*it };
                other.operand == it.operand || !it.is_update && all.contains(&other)
            };
            let is_read_otherwise =
                operands.iter().enumerate().any(|(other, leaves)| leaves.contains(&base) && !is_read_as(other));
            let same_size = self.leaves[base as usize].size == self.leaves[results[it.output] as usize].size;
            if !same_size
                || is_read_otherwise
                || written.contains(&it.output)
                || overwritten.contains(&base)
                || !self.is_writable_by(base, id)
                || !is_next && !it.is_update && self.is_kept_for_state(id, it.output, base)
            {
                continue;
            }
            written.insert(it.output);
            overwritten.insert(base);
            self.unite(base, results[it.output]);
        }
    }

    /// Whether a leaf of an instruction is the next value of the state that is in the storage of `base`.
    fn is_next_of(&mut self, id: InstructionId, output: usize, base: Option<&LeafId>) -> bool {
        match (self.scope.next_of.get(&(id, output)).copied(), base) {
            (Some(state), Some(&base)) => self.find(state) == self.find(base),
            _ => false,
        }
    }

    /// Whether a result should not be written over `base` because of a loop's state: the next state is to be written
    /// there, or the result itself is a next state whose place is free.
    fn is_kept_for_state(&mut self, id: InstructionId, output: usize, base: LeafId) -> bool {
        let class = self.find(base);
        let is_dead = |planner: &Self, state| planner.scope.last_reads.get(&state).is_none_or(|&last| last < id.0);
        self.scope.state.contains(&class)
            || self.scope.next_of.get(&(id, output)).is_some_and(|&state| is_dead(self, state))
    }

    /// Resolves the reads, places the arena's leaves and turns leaves into slices.
    pub(super) fn finish(
        mut self,
        tree: &Tree,
        entry: &Computation,
        aliases: &[Option<usize>],
        exchange: &BTreeMap<usize, LeafId>,
    ) -> BufferAssignment {
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
        let (places, arena_size) = self.place(tree, entry, aliases);
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
            places: Vec::new(),
            exchange: exchange.iter().map(|(&number, &leaf)| (number, self.slice(leaf, &places))).collect(),
        };
        assignment.places = result_places(&assignment.outputs, aliases);
        assignment.entry = self.slices(tree, &places);
        assignment
    }

    /// Places of the classes that have none yet, and the size of the arena. Results that are not written yet are room for
    /// others.
    fn place(
        &mut self,
        tree: &Tree,
        entry: &Computation,
        aliases: &[Option<usize>],
    ) -> (HashMap<LeafId, (Buffer, usize)>, usize) {
        let mut classes: Vec<LeafId> =
            (0..self.leaves.len() as LeafId).filter(|&leaf| self.find(leaf) == leaf).collect();
        classes.retain(|&leaf| self.leaves[leaf as usize].fixed.is_none() && self.leaves[leaf as usize].size > 0);
        let demands: Vec<Demand> = classes
            .iter()
            .map(|&leaf| &self.leaves[leaf as usize])
            .map(|leaf| Demand { size: leaf.size, alignment: leaf.alignment, start: leaf.start, end: leaf.end })
            .collect();
        let results = &tree.values[entry.root.index()];
        let mut regions = Vec::with_capacity(results.len());
        for (number, &leaf) in results.iter().enumerate() {
            let class = self.find(leaf);
            let written = &self.leaves[class as usize];
            let is_made_there = written.fixed == Some(Buffer::Output(number as u32));
            // Other results are copied when all is done.
            let until = if is_made_there { written.start } else { self.position };
            let Leaf { size, alignment, .. } = self.leaves[leaf as usize];
            // The result is in an argument's place instead: there is no memory of its own.
            let size = if aliases.get(number).is_some_and(Option::is_some) { 0 } else { size };
            regions.push(Region { size, alignment, until });
        }
        let (places, arena_size) = place(&demands, &regions);
        let buffer = |region: Option<usize>| region.map_or(Buffer::Arena, |number| Buffer::Output(number as u32));
        let places = places.into_iter().map(|place| (buffer(place.region), place.offset));
        (classes.into_iter().zip(places).collect(), arena_size)
    }

    fn slices(&mut self, tree: &Tree, places: &HashMap<LeafId, (Buffer, usize)>) -> ComputationBuffers {
        let values =
            tree.values.iter().map(|leaves| leaves.iter().map(|&leaf| self.slice(leaf, places)).collect()).collect();
        let exchange = tree
            .exchange
            .iter()
            .map(|(&id, leaves)| {
                (id, leaves.iter().map(|(&number, &leaf)| (number, self.slice(leaf, places))).collect())
            })
            .collect();
        let nested = tree
            .nested
            .iter()
            .map(|(&id, trees)| (id, trees.iter().map(|tree| self.slices(tree, places)).collect()))
            .collect();
        ComputationBuffers { values, nested, exchange, alternating: tree.alternating.clone() }
    }

    fn slice(&mut self, leaf: LeafId, places: &HashMap<LeafId, (Buffer, usize)>) -> Slice {
        let class = self.find(leaf);
        let size = self.leaves[leaf as usize].size;
        let (buffer, offset) = match self.leaves[class as usize].fixed {
            Some(buffer) => (buffer, 0),
            None => places.get(&class).copied().unwrap_or((Buffer::Arena, 0)),
        };
        Slice { buffer, offset, size }
    }
}

/// Where the leaves of a program's result are to be, given the parameter leaves whose place they take.
pub(super) fn result_places(outputs: &[Option<ArrayShape>], aliases: &[Option<usize>]) -> Vec<Slice> {
    let place = |(number, shape): (usize, &Option<ArrayShape>)| {
        let buffer = match aliases.get(number).copied().flatten() {
            Some(parameter) => Buffer::Parameter(parameter as u32),
            None => Buffer::Output(number as u32),
        };
        Slice { buffer, offset: 0, size: shape.as_ref().map_or(0, ArrayShape::byte_size) }
    };
    outputs.iter().enumerate().map(place).collect()
}
