//! Sorting within a block: rows that fit into the memory that its threads share, or parts of rows, in one kernel.
//!
//! Runs are merged as in [`super::sort`], but from one half of shared memory into the other. A block has a number of places, of
//! which each thread takes some in turn; a part of a row, or several short rows, lie in these.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, InstructionId};
use indexing::{Expr, Interval, ceil_div};
use mlir_ext::builder::{Body, Value};
use mlir_ext::control::AffineConditions;

use super::sort_order::{Merged, SortOrder};
use super::{Result, thread_numbers};
use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::map_to_gpu::BLOCK_SIZE;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::team::{SharedValues, barrier};
use crate::trace::split_merged;
use crate::walk::Visitor;

/// Places of a block, at most.
const MOST_PLACES: i64 = 1 << 10;

/// Bytes of the memory that the threads of a block share for both halves.
const SHARED_BYTES: i64 = 32 << 10;

/// How a sort is divided between blocks.
pub(super) struct BlockSort<'s> {
    pub sizes: &'s [i64],
    pub along: usize,
    /// Elements of a part of a row: a power of two.
    pub part: i64,
    /// Parts of a row.
    parts: i64,
    /// Places of a block: a multiple of a part's.
    places: i64,
}

impl<'s> BlockSort<'s> {
    /// For rows of more than one element, unless these take too much memory.
    pub fn of(sort: &'s Computation, sizes: &'s [i64], along: usize) -> Option<Self> {
        let arrays =
            sort.parameters.iter().map(|&id| Some(register_bytes(sort.get(id).shape.as_array()?.element_type)));
        let bytes = arrays.sum::<Option<i64>>()?;
        let most = SHARED_BYTES / (2 * bytes.max(1));
        let length = *sizes.get(along)?;
        if most < 2 || length < 2 {
            return None;
        }
        let places = (1 << most.ilog2()).min(MOST_PLACES);
        let part = (length as u64).next_power_of_two().min(places as u64) as i64;
        // Few elements have no more threads than these.
        let all = (sizes.iter().product::<i64>() / length).saturating_mul(part);
        let places = places.min((all as u64).next_power_of_two() as i64);
        Some(BlockSort { sizes, along, part, parts: ceil_div(length, part), places })
    }

    /// Doublings of the length of sorted runs that the kernel makes.
    pub fn doublings(&self) -> u32 {
        self.part.ilog2()
    }

    /// Parts of all rows.
    fn all_parts(&self) -> i64 {
        self.rows() * self.parts
    }

    fn rows(&self) -> i64 {
        self.sizes.iter().product::<i64>() / self.sizes[self.along]
    }

    /// Blocks and threads of a block.
    pub fn grid(&self) -> (u64, u32) {
        let blocks = ceil_div(self.all_parts(), self.places / self.part);
        (blocks as u64, self.threads() as u32)
    }

    fn threads(&self) -> i64 {
        self.places.min(BLOCK_SIZE)
    }

    /// The kernel.
    pub fn emit<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        order: &SortOrder<'_>,
        (inputs, outputs): (usize, &[ArrayRef<'c>]),
        function: &'a Body<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let positions = self.all_parts() * self.part;
        let (block, thread) = thread_numbers(emitter, positions, self.places, self.threads())?;
        let memory: Vec<SharedValues<'c>> = outputs
            .iter()
            .map(|output| {
                let like = scalar::constant(builder, output.element_type, &[], None);
                SharedValues::new(builder, function, &like, &[2, self.places])
            })
            .collect();
        let load = |turn: Value<'c>, place: Value<'c>| -> Vec<RegisterValue<'c>> {
            memory.iter().map(|own| own.load(builder, &[turn, place])).collect()
        };
        let store = |turn: Value<'c>, place: Value<'c>, values: &[RegisterValue<'c>]| {
            memory.iter().zip(values).for_each(|(own, value)| own.store(builder, value, &[turn, place]));
        };
        let zero = builder.constant_index(0);
        self.each_place(emitter, block, thread, &mut |emitter, own| {
            let index = own.index(emitter, self)?;
            let values = (0..inputs).map(|operand| emitter.evaluate(InstructionId(operand as u32), &index));
            store(zero, own.slot, &values.collect::<Result<Vec<_>>>()?);
            Ok(())
        })?;
        barrier(builder);
        let doublings = Interval::of_size(self.doublings().into());
        let one = builder.constant_index(1);
        emitter.loop_in(doublings, None, vec![one], &mut |emitter, doubling, state| {
            let run = state[0];
            let both = builder.addi(run, run);
            let turn = emitter.scope.emit(builder, doubling.modulo(2))?;
            let next_turn = builder.subi(one, turn);
            self.each_place(emitter, block, thread, &mut |emitter, own| {
                let element = load(turn, own.slot);
                let position = emitter.scope.emit(builder, own.position)?;
                // Where the part begins in the block, and where it ends.
                let base = builder.subi(own.slot, position);
                let rest = emitter.scope.constant(self.sizes[self.along]) - own.start;
                let end = emitter.scope.emit_min(builder, &[rest, emitter.scope.constant(self.part)])?;
                let first = builder.muli(builder.divui(position, both), both);
                let middle = builder.minsi(builder.addi(first, run), end);
                let end = builder.minsi(builder.addi(first, both), end);
                let merged = Merged { position, first, middle, end };
                let place = merged
                    .place(emitter, order, &element, &mut |_, other| Ok(load(turn, builder.addi(base, other))))?;
                store(next_turn, builder.addi(base, place), &element);
                Ok(())
            })?;
            barrier(builder);
            Ok(vec![both])
        })?;
        let turn = builder.constant_index(i64::from(self.doublings() % 2));
        self.each_place(emitter, block, thread, &mut |emitter, own| {
            let index = own.index(emitter, self)?;
            let values = load(turn, own.slot);
            values.iter().zip(outputs).try_for_each(|(value, output)| emitter.store(output, &index, value))
        })
    }

    /// The places of a thread that elements have.
    fn each_place<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        block: Expr<'c>,
        thread: Expr<'c>,
        body: &mut dyn FnMut(&mut Elemental<'a, 'c>, &Place<'c>) -> Result<()>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let turns = Interval::of_size(self.places / self.threads());
        emitter.loop_in(turns, None, Vec::new(), &mut |emitter, turn, _| {
            let slot = turn * self.threads() + thread;
            let number = block * (self.places / self.part) + slot.floordiv(self.part);
            let position = slot.modulo(self.part);
            let start = number.modulo(self.parts) * self.part;
            let length = self.sizes[self.along];
            let guards = [-number + (self.all_parts() - 1), -start - position + (length - 1)];
            let values = emitter.scope.affine_bounds(&guards)?;
            let conditions = AffineConditions { values, equalities: vec![false; guards.len()] };
            builder.affine_if_then(&conditions, |_| {
                emitter.nested(|emitter| {
                    let slot = emitter.scope.emit(builder, slot)?;
                    body(emitter, &Place { slot, position, start, row: number.floordiv(self.parts) })
                })
            })?;
            Ok(Vec::new())
        })?;
        Ok(())
    }
}

/// A place of a block.
struct Place<'c> {
    /// Its number in the block.
    slot: Value<'c>,
    /// Its position in its part.
    position: Expr<'c>,
    /// Where the part begins in its row.
    start: Expr<'c>,
    row: Expr<'c>,
}

impl<'c> Place<'c> {
    /// The index of its element.
    fn index(&self, emitter: &mut Elemental<'_, 'c>, sort: &BlockSort<'_>) -> Result<Vec<Expr<'c>>> {
        let mut variable = |expr: Expr<'c>, count: i64| {
            let value = emitter.scope.emit(emitter.builder, expr)?;
            let binding: Binding<'c> = index_binding(emitter.builder, value);
            Ok::<_, LoweringError>(emitter.scope.add_variable(Interval::of_size(count), binding))
        };
        let row = variable(self.row, sort.rows())?;
        let place = variable(self.start + self.position, sort.sizes[sort.along])?;
        let mut others = sort.sizes.to_vec();
        others.remove(sort.along);
        let mut index = if others.is_empty() { Vec::new() } else { split_merged(row, &others) };
        index.insert(sort.along, place);
        Ok(index)
    }
}

/// Bytes that an element takes in shared memory.
fn register_bytes(element_type: ElementType) -> i64 {
    match element_type.class() {
        // Small floats are `f32` in registers.
        ElementClass::Float => (element_type.byte_width() as i64).max(4),
        _ => element_type.byte_width() as i64,
    }
}
