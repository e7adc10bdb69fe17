//! Tiles by the multiply-adds of threads: each has some rows and columns of the tile in registers.
//!
//! Step by step (`ahead`), slabs of both operands come into shared memory, in stages that are in turns: what a parameter has as it is
//! is copied behind the threads' back, some steps ahead, anything else is brought in registers, one step ahead.

use indexing::{Expr, ceil_div};
use mlir_ext::builder::{Body, Value};

use super::ahead::{Parts, emit_ahead};
use super::chunks::{CHUNK, copy_elements, is_only_moved};
use super::pipeline::commit_copies;
use super::{Result, THREADS, Tile, is_near_along_depth, vectors_of};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{ArrayRef, shared_pointer};
use crate::scalar::{self, RegisterValue};
use crate::team::{SharedValues, WARP};
use crate::walk::Visitor;

/// Threads of a block, along rows and along columns.
const SIDE: i64 = 16;

/// Those of a warp. So many along each load few different vectors of both operands.
const WARP_ROWS: i64 = 4;
const WARP_COLUMNS: i64 = WARP / WARP_ROWS;

/// Rows and columns of the smallest tile, and of those for numbers of 32 bits, the largest first.
pub(super) const SMALLEST_TILE: i64 = 2 * SIDE;
pub(super) const TILES: [[i64; 2]; 3] = [[256, 128], [128, 128], [64, 64]];

/// Blocks of a multiprocessor that registers must suffice for, where tiles are large.
pub(super) fn blocks(sides: [i64; 2]) -> Option<i64> {
    match sides {
        [256, 128] => Some(1),
        [128, 128] => Some(2),
        _ => None,
    }
}

/// Elements of the shorter side of a slab that a thread brings in each step.
const LOADS: i64 = 4;

/// Rows, and columns, that a thread has side by side: a vector in shared memory.
const VECTOR: i64 = 4;

/// Elements between the rows of shared memory beyond their own, so that columns lie in different banks.
const PADDING: i64 = 4;

/// Stages where something is copied, and where all is brought.
const STAGES_OF_COPIES: i64 = 4;
const STAGES: i64 = 2;

/// Bytes of a word, which can be copied alone.
const WORD: i64 = CHUNK / VECTOR;

/// Emits the part of a fusion that a tile is.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    MultiplyAdds::new(tile, emitter, function)?.emit(emitter, outputs)
}

struct MultiplyAdds<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    slabs: [Slab<'c>; 2],
    /// Where the thread is among those along rows and along columns.
    member: [Expr<'c>; 2],
    /// Rows and columns of a thread.
    own: [i64; 2],
    /// Contracted positions of a step, and stages.
    step: i64,
    stages: i64,
}

impl<'t, 'm, 'a, 'c> MultiplyAdds<'t, 'm, 'a, 'c> {
    fn new(tile: &'t Tile<'m, 'a, 'c>, emitter: &mut Elemental<'a, 'c>, function: &Body<'c>) -> Result<Self> {
        let sides = [tile.side(), tile.columns()];
        let (lane, warp) = (tile.thread.modulo(WARP), tile.thread.floordiv(WARP));
        let warps = SIDE / WARP_COLUMNS;
        let row = warp.floordiv(warps) * WARP_ROWS + lane.floordiv(WARP_COLUMNS);
        let column = warp.modulo(warps) * WARP_COLUMNS + lane.modulo(WARP_COLUMNS);
        let member = [emitter.emit_symbol(row, SIDE)?, emitter.emit_symbol(column, SIDE)?];
        let step = THREADS * LOADS / sides[1];
        let ways = [Way::of(tile, emitter, 0)?, Way::of(tile, emitter, 1)?];
        let stages = if ways.iter().any(|way| way.is_copied()) { STAGES_OF_COPIES } else { STAGES };
        let mut slab = |operand: usize| {
            let form = (operand, ways[operand], sides[operand]);
            Slab::new(tile, emitter, form, [step, stages], function)
        };
        let slabs = [slab(0)?, slab(1)?];
        Ok(MultiplyAdds { tile, slabs, member, own: sides.map(|side| side / SIDE), step, stages })
    }

    fn emit(&self, emitter: &mut Elemental<'a, 'c>, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let zeros = vec![self.tile.zero.value; (self.own[0] * self.own[1]) as usize];
        let sums = emit_ahead(self, emitter, ceil_div(self.tile.depth, self.step), zeros)?;
        let columns = self.own[1];
        let width = columns.min(VECTOR);
        let are_vectors = self.tile.has_vectors(emitter.computation, width)?;
        for (number, sums) in (0..).step_by(width as usize).zip(sums.chunks(width as usize)) {
            let place = (self.place(0, number / columns), self.place(1, number % columns));
            self.tile.finish_row(emitter, outputs, place, (sums, are_vectors))?;
        }
        Ok(())
    }

    fn are_copied(&self) -> bool {
        self.slabs.iter().any(|slab| slab.way.is_copied())
    }

    /// The place in the tile of one of a thread's rows, or columns: groups of neighbours, each group of all threads next to each
    /// other.
    fn place(&self, operand: usize, own: i64) -> Expr<'c> {
        let group = self.group(operand);
        self.member[operand] * group + (own / group * group * SIDE + own % group)
    }

    /// Rows, or columns, of a group.
    fn group(&self, operand: usize) -> i64 {
        self.own[operand].min(VECTOR)
    }

    /// The element of an operand's shared memory at a row (or column) and a position, in the stage of a step.
    fn element(&self, slab: &Slab<'c>, step: Expr<'c>, [along, depth]: [Expr<'c>; 2]) -> Expr<'c> {
        (step.modulo(self.stages) * self.step + depth) * slab.row + along
    }
}

impl<'a, 'c> Parts<'a, 'c> for MultiplyAdds<'_, '_, 'a, 'c> {
    fn stages(&self) -> (i64, bool) {
        (self.stages, self.are_copied())
    }

    fn parts(&self) -> i64 {
        self.step
    }

    fn copy(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, stage: Expr<'c>) -> Result<()> {
        if !self.are_copied() {
            return Ok(());
        }
        let builder = emitter.builder;
        for slab in &self.slabs {
            let Way::Copied { bytes } = slab.way else { continue };
            for &[along, depth] in &slab.places {
                let byte = emitter.scope.simplify(self.element(slab, stage, [along, depth]) * WORD);
                let goal = shared_pointer(builder, slab.address, emitter.scope.emit(builder, byte)?);
                let first = [self.tile.firsts[slab.operand] + along, step * self.step + depth];
                copy_elements(self.tile, emitter, (slab.operand, first), (goal, bytes))?;
            }
        }
        commit_copies(builder);
        Ok(())
    }

    fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<Vec<RegisterValue<'c>>> {
        let zero = self.tile.zero;
        let mut brought = Vec::new();
        for slab in self.slabs.iter().filter(|slab| !slab.way.is_copied()) {
            for &[along, depth] in &slab.places {
                let place = [self.tile.firsts[slab.operand] + along, step * self.step + depth];
                let value = emitter.nested(|emitter| {
                    self.tile.element(emitter, slab.operand, (place, place), zero, &mut |emitter, id, index| {
                        let value = emitter.evaluate(id, index)?;
                        let wide = scalar::convert::convert(emitter.builder, &value, zero.element_type);
                        wide.ok_or_else(|| LoweringError::bug("an operand that cannot be summed"))
                    })
                })?;
                brought.push(value);
            }
        }
        Ok(brought)
    }

    fn keep(&self, emitter: &Elemental<'a, 'c>, step: Expr<'c>, brought: &[RegisterValue<'c>]) -> Result<()> {
        let builder = emitter.builder;
        let slabs = self.slabs.iter().filter(|slab| !slab.way.is_copied());
        let places = slabs.flat_map(|slab| slab.places.iter().map(move |&place| (slab, place)));
        for ((slab, place), value) in places.zip(brought) {
            let place = emitter.scope.simplify(self.element(slab, step, place));
            slab.shared.store(builder, value, &[emitter.scope.emit(builder, place)?]);
        }
        Ok(())
    }

    /// Of a position: elements of the thread's rows, then of its columns.
    fn load(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, position: i64) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let mut loaded = Vec::new();
        for (operand, slab) in self.slabs.iter().enumerate() {
            let lanes = self.group(operand);
            for own in (0..self.own[operand]).step_by(lanes as usize) {
                let place = [self.place(operand, own), emitter.scope.constant(position)];
                let place = emitter.scope.simplify(self.element(slab, step, place));
                let place = emitter.scope.emit(builder, place)?;
                let vector = slab.shared.load_vector(builder, &[place], lanes as u32);
                loaded.extend((0..lanes as u32).map(|lane| scalar::registers::extract(builder, &vector, lane).value));
            }
        }
        Ok(loaded)
    }

    /// One row after another, and back and forth along them: two neighbours have a factor in common, which is read from the
    /// registers once.
    fn multiply(&self, emitter: &Elemental<'a, 'c>, factors: &[Value<'c>], sums: &mut [Value<'c>]) -> Result<()> {
        let [rows, columns] = self.own.map(|own| own as usize);
        let number = |value: Value<'c>| self.tile.zero.with_values(&[value]);
        for row in 0..rows {
            for turn in 0..columns {
                let column = if row % 2 == 0 { turn } else { columns - 1 - turn };
                let sum = &mut sums[row * columns + column];
                let (left, right) = (number(factors[row]), number(factors[rows + column]));
                *sum = emitter.multiply_add(self.tile.product.instruction, &left, &right, &number(*sum))?.value;
            }
        }
        Ok(())
    }
}

/// How a thread's elements of an operand come into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Copied, so many bytes at once.
    Copied {
        /// A chunk, or a word.
        bytes: i64,
    },
    /// In registers.
    Brought,
}

impl Way {
    fn of<'a, 'c>(tile: &Tile<'_, 'a, 'c>, emitter: &Elemental<'a, 'c>, operand: usize) -> Result<Self> {
        let (product, computation, sums) = (&tile.product, emitter.computation, tile.zero.element_type);
        let number = product.instruction.operands[operand];
        if sums.byte_width() as i64 != WORD || !is_only_moved(computation, number, sums) {
            return Ok(Way::Brought);
        }
        let vectors = vectors_of(product, &tile.mapping.map, computation, (operand, 0), VECTOR)?;
        Ok(Way::Copied { bytes: if vectors.is_some_and(|source| source.is_of_chunks(emitter)) { CHUNK } else { WORD } })
    }

    fn is_copied(self) -> bool {
        self != Way::Brought
    }
}

/// One operand's part of the product.
struct Slab<'c> {
    operand: usize,
    way: Way,
    /// Where the thread's elements, or the first ones of its chunks, are in a tile and in a step.
    places: Vec<[Expr<'c>; 2]>,
    shared: SharedValues<'c>,
    /// The address of the shared memory, and elements in it from a position of a step to the next one.
    address: Value<'c>,
    row: i64,
}

impl<'c> Slab<'c> {
    fn new<'a>(
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        (operand, way, side): (usize, Way, i64),
        [step, stages]: [i64; 2],
        function: &Body<'c>,
    ) -> Result<Self> {
        let product = &tile.product;
        let is_along_depth = is_near_along_depth(emitter.computation, product.instruction, &product.maps, operand)?;
        // Neighbouring threads have neighbouring elements, or chunks, which lie across the contracted positions.
        let at_once = if way == (Way::Copied { bytes: CHUNK }) { VECTOR } else { 1 };
        let inner = if is_along_depth { step } else { side / at_once };
        let fast = emitter.emit_symbol(emitter.scope.simplify(tile.thread.modulo(inner)), inner)?;
        let slow = emitter.emit_symbol(emitter.scope.simplify(tile.thread.floordiv(inner)), THREADS / inner)?;
        let place = |number: i64| {
            let slow = slow + number * (THREADS / inner);
            if is_along_depth { [slow * at_once, fast] } else { [fast * at_once, slow] }
        };
        let places = (0..side * step / at_once / THREADS).map(place).collect();
        let row = side + PADDING;
        let shared = SharedValues::new(emitter.builder, function, &tile.zero, &[stages * step * row]);
        let address = shared.address(emitter.builder);
        Ok(Slab { operand, way, places, shared, address, row })
    }
}
