//! What a program's memory holds, and when: the arrays of the arena, how long each lives, and who holds the peak.

use std::fmt::Write;

use hlo::graph::{Computation, Instruction, InstructionId, SourceTables};
use hlo::op_kind::OpKind;
use passes::assign_buffers::{Buffer, BufferAssignment, ComputationBuffers, Slice};

use crate::error::ToolError;
use crate::kernels::{bytes_text, op_name};
use crate::source_line::source_line;

/// An array in the arena, from its first writing to its last reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Where it is.
    pub slice: Slice,
    /// Names of the instructions whose values it holds, in order: results that take over an operand's storage follow it.
    pub names: Vec<String>,
    /// Shape of the first of them.
    pub shape: String,
    /// The line of the user's program that the first came from, or the operation there.
    pub origin: Option<String>,
    /// First position, counted in instructions as they are executed, loops once.
    pub start: usize,
    /// Last position.
    pub end: usize,
}

/// The memory of a program.
#[derive(Clone, Debug, Default)]
pub struct MemoryMap {
    /// Bytes of the arena.
    pub arena_size: usize,
    /// The arrays in it, by their first position.
    pub lifetimes: Vec<Lifetime>,
    /// Names of the instructions by position.
    pub positions: Vec<String>,
    /// The position at which most bytes are alive, and how many.
    pub peak: (usize, usize),
    /// Bytes of the arguments, of the results and of constants.
    pub outside: [usize; 3],
}

impl MemoryMap {
    /// The memory of a program in the hlo dialect whose buffers are assigned. `sources` has its source tables.
    ///
    /// # Errors
    /// For programs without a buffer assignment.
    pub fn of(program: &melior::ir::Module<'_>, sources: &SourceTables) -> Result<MemoryMap, ToolError> {
        let function = hlo::dialect::entry_function(program.as_operation()).map_err(halo::Error::from)?;
        let (entry, assignment) = passes::assign_buffers::read_assignment(function).map_err(halo::Error::from)?;
        let mut builder = Builder { sources, map: MemoryMap::new(&assignment) };
        builder.computation(&entry, &assignment.entry);
        let mut map = builder.map;
        map.find_peak();
        Ok(map)
    }

    fn new(assignment: &BufferAssignment) -> MemoryMap {
        let bytes =
            |shapes: &[Option<hlo::shape::ArrayShape>]| shapes.iter().flatten().map(|shape| shape.byte_size()).sum();
        let constants = assignment.constants.iter().flat_map(|constant| constant.leaves());
        let constants = constants.filter_map(|leaf| leaf.as_array()).map(|array| array.bytes().len()).sum();
        MemoryMap {
            arena_size: assignment.arena_size,
            outside: [bytes(&assignment.parameters), bytes(&assignment.outputs), constants],
            ..MemoryMap::default()
        }
    }

    /// What is alive at a position, largest first.
    pub fn alive_at(&self, position: usize) -> Vec<&Lifetime> {
        let is_alive = |lifetime: &&Lifetime| (lifetime.start..=lifetime.end).contains(&position);
        let mut alive: Vec<&Lifetime> = self.lifetimes.iter().filter(is_alive).collect();
        alive.sort_by_key(|lifetime| (std::cmp::Reverse(lifetime.slice.size), lifetime.slice.offset));
        alive
    }

    fn find_peak(&mut self) {
        let mut changes = vec![0i64; self.positions.len() + 1];
        for lifetime in &self.lifetimes {
            changes[lifetime.start] += lifetime.slice.size as i64;
            changes[lifetime.end + 1] -= lifetime.slice.size as i64;
        }
        let mut alive = 0;
        for (position, change) in changes.into_iter().enumerate() {
            alive += change;
            if alive as usize > self.peak.1 {
                self.peak = (position, alive as usize);
            }
        }
    }

    /// The map as a table.
    pub fn table(&self) -> String {
        let [arguments, results, constants] = self.outside.map(|bytes| bytes_text(bytes as f64));
        let (position, peak) = self.peak;
        let mut text = format!(
            "arguments {arguments}, results {results}, constants {constants}, arena {}\n",
            bytes_text(self.arena_size as f64)
        );
        if self.lifetimes.is_empty() {
            return text;
        }
        let at = self.positions.get(position).map_or("", String::as_str);
        let _ = writeln!(
            text,
            "peak {} at `{at}`, {position} of {} ({} arrays):",
            bytes_text(peak as f64),
            self.positions.len(),
            self.alive_at(position).len()
        );
        let heading = format!("{:>10} {:>10} {:>12}  {:<24} what, origin", "bytes", "offset", "alive", "array");
        let _ = writeln!(text, "{heading}");
        let row = |text: &mut String, lifetime: &Lifetime| {
            let alive = format!("{}-{}", lifetime.start, lifetime.end);
            let taken_over = match &lifetime.names[1..] {
                [] => String::new(),
                [.., last] => format!(" … {last}"),
            };
            let origin = lifetime.origin.as_ref().map(|origin| format!(", {origin}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "{:>10} {:>10} {alive:>12}  {:<24} {}{origin}",
                bytes_text(lifetime.slice.size as f64),
                lifetime.slice.offset,
                format!("{}{taken_over}", lifetime.names[0]),
                lifetime.shape,
            );
        };
        self.alive_at(position).into_iter().for_each(|lifetime| row(&mut text, lifetime));
        let _ = writeln!(text, "all {} arrays in the arena:\n{heading}", self.lifetimes.len());
        self.lifetimes.iter().for_each(|lifetime| row(&mut text, lifetime));
        text
    }
}

struct Builder<'m> {
    sources: &'m SourceTables,
    map: MemoryMap,
}

impl Builder<'_> {
    /// Numbers the instructions of a computation, and notes when what they write is read.
    fn computation(&mut self, computation: &Computation, buffers: &ComputationBuffers) {
        for (id, instruction) in computation.iter() {
            if let Some(nested) = buffers.nested.get(&id) {
                let before = self.map.positions.len();
                // What a loop reads is alive until its end.
                for (computation, buffers) in instruction.computations.iter().zip(nested) {
                    self.computation(computation, buffers);
                }
                self.keep_alive(computation, buffers, id, before);
            }
            let position = self.map.positions.len();
            self.map.positions.push(instruction.name.clone());
            for &operand in &instruction.operands {
                for slice in &buffers.values[operand.index()] {
                    self.read(*slice, position);
                }
            }
            if !matches!(instruction.kind, OpKind::Tuple | OpKind::GetTupleElement) {
                self.write(instruction, &buffers.values[id.index()], position);
            }
        }
        let last = self.map.positions.len().saturating_sub(1);
        for slice in &buffers.values[computation.root.index()] {
            self.read(*slice, last);
        }
    }

    /// Values from outside of a loop that are read in it are read until its last position.
    fn keep_alive(&mut self, computation: &Computation, buffers: &ComputationBuffers, id: InstructionId, first: usize) {
        let last = self.map.positions.len();
        for &operand in &computation.get(id).operands {
            for slice in &buffers.values[operand.index()] {
                self.read(*slice, last);
            }
        }
        for lifetime in self.map.lifetimes.iter_mut().filter(|lifetime| lifetime.start < first && lifetime.end >= first)
        {
            lifetime.end = lifetime.end.max(last);
        }
    }

    fn read(&mut self, slice: Slice, position: usize) {
        if let Some(lifetime) = self.map.lifetimes.iter_mut().rev().find(|lifetime| lifetime.slice == slice) {
            lifetime.end = lifetime.end.max(position);
        }
    }

    fn write(&mut self, instruction: &Instruction, slices: &[Slice], position: usize) {
        for (leaf, &slice) in instruction.shape.leaves().into_iter().zip(slices) {
            if slice.buffer != Buffer::Arena || slice.size == 0 {
                continue;
            }
            let same = self.map.lifetimes.iter_mut().rev().find(|lifetime| lifetime.slice == slice);
            if let Some(lifetime) = same.filter(|lifetime| lifetime.end >= position) {
                lifetime.end = position;
                if lifetime.names.last() != Some(&instruction.name) {
                    lifetime.names.push(instruction.name.clone());
                }
                continue;
            }
            let origin =
                |instruction: &Instruction| source_line(self.sources, instruction).or_else(|| op_name(instruction));
            let fused = instruction.computations.iter().flat_map(|fused| fused.instructions.iter().rev());
            self.map.lifetimes.push(Lifetime {
                slice,
                names: vec![instruction.name.clone()],
                shape: leaf.without_layout().to_string(),
                origin: origin(instruction).or_else(|| fused.into_iter().find_map(origin)),
                start: position,
                end: position,
            });
        }
    }
}
