//! An order of the entry computation's instructions in which less memory is in use at once.
//!
//! An instruction that is the last to read more bytes than it makes comes as soon as what it needs is there; then one that makes
//! more bytes than it is the last to read comes right before its first user. Parameters and constants are where the program has
//! them, or wherever they are read. The order with the smallest arena is taken, the program's own if none has a smaller one.
//! What is written in its place in the program's own order has been read by others before in both, so there are no more copies.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{self, Effects};
use hlo::shape::ArrayShape;

use super::BufferAssignment;
use super::control::result_sources;
use super::reads::{TupleElements, forwards};
use crate::fuse::is_update;

/// Instructions of a computation that is put in order, at most: of more, arrays are placed as they come.
const MAX_INSTRUCTIONS: usize = 4096;

/// Bytes of an arena that is left as it is.
const SMALL_ARENA: usize = 4096;

/// The assignment of the program's own order, or of one with a smaller arena, and that order. `assign` makes an assignment.
pub(super) fn with_less_memory(
    computation: &mut Computation,
    aliases: &[Option<usize>],
    assign: impl Fn(&Computation) -> BufferAssignment,
) -> (BufferAssignment, Option<Vec<InstructionId>>) {
    let assignment = assign(computation);
    if assignment.arena_size <= SMALL_ARENA || computation.instructions.len() > MAX_INSTRUCTIONS {
        return (assignment, None);
    }
    let constraints = Constraints::of(computation, aliases);
    let own: Vec<u32> = (0..computation.instructions.len() as u32).collect();
    let mut best = (assignment, None);
    let mut arranged = Arranged { computation, order: own.clone() };
    let mut tried = vec![own.clone()];
    for has_sources in [false, true] {
        let order = constraints.late(&constraints.early(&own, has_sources));
        if tried.contains(&order) {
            continue;
        }
        arranged.rearrange(&order);
        let other = assign(arranged.computation);
        if other.arena_size < best.0.arena_size {
            best = (other, Some(order.iter().copied().map(InstructionId).collect()));
        }
        tried.push(order);
    }
    arranged.rearrange(&own);
    best
}

/// Puts the instructions of a computation in another order.
pub(super) fn rearrange(computation: &mut Computation, order: &[InstructionId]) {
    let own = (0..order.len() as u32).collect();
    let order: Vec<u32> = order.iter().map(|id| id.0).collect();
    Arranged { computation, order: own }.rearrange(&order);
}

/// A computation whose instructions are in some order.
struct Arranged<'a> {
    computation: &'a mut Computation,
    /// What stood at which place at first, in the order that holds now.
    order: Vec<u32>,
}

impl Arranged<'_> {
    fn rearrange(&mut self, order: &[u32]) {
        let mut places = vec![InstructionId(0); order.len()];
        for (place, &number) in order.iter().enumerate() {
            places[number as usize] = InstructionId(place as u32);
        }
        let old = &self.order;
        let moved = |id: InstructionId| places[old[id.index()] as usize];
        let mut instructions: Vec<Option<Instruction>> = order.iter().map(|_| None).collect();
        for (mut instruction, &number) in self.computation.instructions.drain(..).zip(old) {
            for operand in &mut instruction.operands {
                *operand = moved(*operand);
            }
            instructions[places[number as usize].index()] = Some(instruction);
        }
        self.computation.instructions = instructions.into_iter().flatten().collect();
        for parameter in &mut self.computation.parameters {
            *parameter = moved(*parameter);
        }
        self.computation.root = moved(self.computation.root);
        self.order = order.to_vec();
    }
}

/// What holds in every order.
struct Constraints {
    /// What comes behind each instruction.
    successors: Vec<Vec<u32>>,
    /// Numbers of instructions before each one.
    predecessors: Vec<u32>,
    /// Bytes that each instruction makes.
    made: Vec<i64>,
    /// Bytes of the arrays that are no results, and who reads them.
    arrays: Vec<(i64, Vec<u32>)>,
    /// The numbers of those that each instruction reads.
    reads: Vec<Vec<u32>>,
    /// Whether an instruction makes nothing of its own.
    is_free: Vec<bool>,
    /// Whether an instruction is a parameter or a constant.
    is_source: Vec<bool>,
    /// The parameters and constants that each instruction reads: these are there from the begin.
    sources: Vec<Vec<u32>>,
}

impl Constraints {
    fn of(computation: &Computation, aliases: &[Option<usize>]) -> Self {
        let count = computation.instructions.len();
        let mut constraints = Constraints {
            successors: vec![Vec::new(); count],
            predecessors: vec![0; count],
            made: vec![0; count],
            arrays: Vec::new(),
            reads: vec![Vec::new(); count],
            is_free: computation.instructions.iter().map(is_free).collect(),
            is_source: computation.instructions.iter().map(is_source).collect(),
            sources: vec![Vec::new(); count],
        };
        for (id, instruction) in computation.iter() {
            for operand in &instruction.operands {
                constraints.add(operand.0, id.0);
                if is_source(computation.get(*operand)) {
                    constraints.sources[id.index()].push(operand.0);
                }
            }
        }
        let effects = computation.iter().filter(|(_, instruction)| may_have_effect(instruction));
        let effects: Vec<u32> = effects.map(|(id, _)| id.0).collect();
        for pair in effects.windows(2) {
            constraints.add(pair[0], pair[1]);
        }
        let leaves = Leaves::of(computation);
        let mut is_result = vec![false; leaves.sizes.len()];
        for &leaf in &leaves.of_instructions[computation.root.index()] {
            is_result[leaf as usize] = true;
        }
        for (leaf, readers) in leaves.readers.iter().enumerate() {
            let Some((&last, others)) = readers.split_last() else { continue };
            if is_result[leaf] {
                continue;
            }
            // What would be copied elsewhere is read by others before.
            if writes_over(computation.get(InstructionId(last))) {
                for &other in others {
                    constraints.add(other, last);
                }
            }
            let (maker, size) = (leaves.makers[leaf] as usize, leaves.sizes[leaf] as i64);
            if !constraints.is_free[maker] {
                constraints.made[maker] += size;
                for &reader in readers {
                    constraints.reads[reader as usize].push(constraints.arrays.len() as u32);
                }
                constraints.arrays.push((size, readers.clone()));
            }
        }
        // An argument is read before its next value is written over it.
        let arguments: Vec<u32> =
            computation.parameters.iter().flat_map(|id| &leaves.of_instructions[id.index()]).copied().collect();
        let sources = if aliases.iter().any(Option::is_some) { result_sources(computation) } else { Vec::new() };
        for (&(source, _), argument) in sources.iter().zip(aliases) {
            let Some(&leaf) = argument.and_then(|argument| arguments.get(argument)) else { continue };
            for &reader in leaves.readers[leaf as usize].iter().take_while(|&&reader| reader < source.0) {
                constraints.add(reader, source.0);
            }
        }
        constraints
    }

    fn add(&mut self, before: u32, after: u32) {
        self.successors[before as usize].push(after);
        self.predecessors[after as usize] += 1;
    }

    /// An order in which what frees memory comes as soon as it can: before the parameters and constants that it reads have their
    /// turn, if these are there from the begin.
    fn early(&self, order: &[u32], has_sources: bool) -> Vec<u32> {
        let none = Vec::new();
        let sources = |id: u32| if has_sources { &self.sources[id as usize] } else { &none };
        let counts = self.predecessors.iter().zip(0..);
        let mut missing: Vec<usize> = counts.map(|(&all, id)| all as usize - sources(id).len()).collect();
        let mut readers: Vec<usize> = self.arrays.iter().map(|(_, readers)| readers.len()).collect();
        let mut growth = self.made.clone();
        for (size, readers) in &self.arrays {
            if let [only] = readers[..] {
                growth[only as usize] -= size;
            }
        }
        let mut is_done = vec![false; order.len()];
        let mut result = Vec::with_capacity(order.len());
        let mut ready = BinaryHeap::new();
        for &next in order {
            ready.push(Reverse((i64::MIN, next)));
            while let Some(Reverse((_, id))) = ready.pop() {
                if is_done[id as usize] {
                    continue;
                }
                for &id in sources(id).iter().chain([&id]) {
                    if !std::mem::replace(&mut is_done[id as usize], true) {
                        result.push(id);
                    }
                }
                let mut changed = Vec::new();
                let is_known = has_sources && self.is_source[id as usize];
                for &successor in self.successors[id as usize].iter().filter(|_| !is_known) {
                    missing[successor as usize] -= 1;
                    changed.push(successor);
                }
                for &array in &self.reads[id as usize] {
                    readers[array as usize] -= 1;
                    let (size, all) = &self.arrays[array as usize];
                    if readers[array as usize] != 1 {
                        continue;
                    }
                    if let Some(&last) = all.iter().find(|&&reader| !is_done[reader as usize]) {
                        growth[last as usize] -= size;
                        changed.push(last);
                    }
                }
                let is_wanted =
                    |id: u32| missing[id as usize] == 0 && (growth[id as usize] < 0 || self.is_free[id as usize]);
                changed.retain(|&id| is_wanted(id));
                ready.extend(changed.into_iter().map(|id| Reverse((growth[id as usize], id))));
            }
        }
        result
    }

    /// An order in which what takes memory comes as late as it can.
    fn late(&self, order: &[u32]) -> Vec<u32> {
        let mut places = vec![0; order.len()];
        for (place, &id) in order.iter().enumerate() {
            places[id as usize] = place;
        }
        let mut growth = self.made.clone();
        for (size, readers) in &self.arrays {
            if let Some(&last) = readers.iter().max_by_key(|&&reader| places[reader as usize]) {
                growth[last as usize] -= size;
            }
        }
        let is_late = |id: u32| growth[id as usize] > 0 || self.is_free[id as usize];
        let mut predecessors = vec![Vec::new(); order.len()];
        for (before, successors) in self.successors.iter().enumerate() {
            for &after in successors {
                predecessors[after as usize].push(before as u32);
            }
        }
        let mut missing: Vec<usize> = self.successors.iter().map(Vec::len).collect();
        let mut backwards = Vec::with_capacity(order.len());
        let mut ready = Vec::new();
        for &next in order.iter().rev() {
            if !is_late(next) || self.successors[next as usize].is_empty() {
                ready.push(next);
            }
            while let Some(id) = ready.pop() {
                backwards.push(id);
                for &before in &predecessors[id as usize] {
                    missing[before as usize] -= 1;
                    if missing[before as usize] == 0 && is_late(before) {
                        ready.push(before);
                    }
                }
            }
        }
        backwards.reverse();
        backwards
    }
}

/// Whether an operand would be copied if others read it later.
fn writes_over(instruction: &Instruction) -> bool {
    match instruction.kind {
        OpKind::DynamicUpdateSlice | OpKind::Scatter | OpKind::While => true,
        OpKind::Fusion => instruction.computations.iter().any(is_update),
        _ => false,
    }
}

/// Whether an instruction writes no memory of the arena.
fn is_free(instruction: &Instruction) -> bool {
    forwards(instruction) || is_source(instruction)
}

/// Whether an instruction gives what there is before the first one.
fn is_source(instruction: &Instruction) -> bool {
    matches!(instruction.kind, OpKind::Parameter | OpKind::Constant)
}

/// Whether an instruction may have an effect besides its result, or its computations may.
fn may_have_effect(instruction: &Instruction) -> bool {
    let mut stack = vec![instruction];
    while let Some(instruction) = stack.pop() {
        if ops::definition(instruction.kind).effects != Effects::None {
            return true;
        }
        stack.extend(instruction.computations.iter().flat_map(|computation| &computation.instructions));
    }
    false
}

/// The arrays of a computation, through whatever aliases.
#[derive(Default)]
struct Leaves {
    /// By instruction.
    of_instructions: Vec<Vec<u32>>,
    /// The instruction that makes a leaf.
    makers: Vec<u32>,
    /// Bytes.
    sizes: Vec<usize>,
    /// Instructions that read a leaf, in order.
    readers: Vec<Vec<u32>>,
}

impl Leaves {
    fn of(computation: &Computation) -> Self {
        let elements = TupleElements::of(computation);
        let mut leaves = Leaves::default();
        for (id, instruction) in computation.iter() {
            let own = if let Some((tuple, range)) = elements.read_by(instruction) {
                leaves.of_instructions[tuple.index()][range].to_vec()
            } else if forwards(instruction) {
                let is_tuple = !matches!(instruction.kind, OpKind::AddDependency);
                let operands = instruction.operands.iter().take(if is_tuple { usize::MAX } else { 1 });
                operands.flat_map(|operand| leaves.of_instructions[operand.index()].clone()).collect()
            } else {
                for operand in &instruction.operands {
                    for &leaf in &leaves.of_instructions[operand.index()] {
                        let readers = &mut leaves.readers[leaf as usize];
                        if readers.last() != Some(&id.0) {
                            readers.push(id.0);
                        }
                    }
                }
                let shapes = instruction.shape.leaves();
                let first = leaves.sizes.len() as u32;
                leaves.makers.extend(shapes.iter().map(|_| id.0));
                leaves.sizes.extend(shapes.iter().map(|leaf| leaf.as_array().map_or(0, ArrayShape::byte_size)));
                leaves.readers.resize(leaves.sizes.len(), Vec::new());
                (first..leaves.sizes.len() as u32).collect()
            };
            leaves.of_instructions.push(own);
        }
        leaves
    }
}
