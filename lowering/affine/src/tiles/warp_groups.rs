//! Tiles by the matrix instructions of four warps together (`wgmma`), which read both operands from shared memory themselves.
//!
//! There, rows of 128 bytes lie behind each other, 1024 bytes for each eight, and the chunks of a row are in another order in
//! each of the eight (swizzled), so that neither rows nor columns of chunks meet in a bank. An operand whose neighbours in
//! memory are across the contracted positions lies there as it does in memory: rows of 64 neighbours, one for each position.

use indexing::{Expr, Interval, ceil_div};
use mlir_ext::builder::{Body, Machine, Value};
use mlir_ext::gpu::{FENCE_FOR_UNITS, WarpGroupProduct};

use super::boxes::{self, BoxCopies};
use super::chunks::{CHUNK, Chunks};
use super::fragments::FragmentRows;
use super::pipeline::{Product, emit_steps, stages_of};
use super::tensor_types::TensorOperands;
use super::{Result, Tile};
use crate::elemental::Elemental;
use crate::memory::ArrayRef;
use crate::scalar::{self, register_type};
use crate::scope::Binding;
use crate::team::{SharedValues, WARP};

/// Rows and columns of a tile.
pub(super) const SIDE: i64 = 128;

/// Threads that multiply together, and the rows that they compute, of all columns.
const GROUP: i64 = 128;
const ROWS: i64 = 64;

/// Sums of a thread.
const SUMS: i64 = ROWS * SIDE / GROUP;

/// Bytes of contracted positions of an instruction, and of a step: a row in shared memory.
const DEPTH: i64 = 32;
pub(super) const STEP: i64 = 128;

/// Rows in shared memory whose chunks are in orders of their own.
const EIGHT: i64 = 8;

/// Eights of columns of which a row is stored at once.
const STORED: i64 = 4;

/// Bytes that a stage in shared memory has of each operand.
pub(super) const BYTES: i64 = SIDE * STEP;

/// Whether a tile is computed so; of two types, only newer versions of PTX make products.
pub(super) fn suit(tile: &Tile<'_, '_, '_>, operands: TensorOperands, machine: Machine) -> bool {
    let [left, right] = operands.0;
    machine.warp_group_matrices && tile.side() == SIDE && left == right && left.width() <= 2
}

/// Emits the part of a fusion that a tile is.
///
/// Where there are descriptions of the operands' boxes, these are copied so.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    (operands, descriptions): (TensorOperands, Option<[Value<'c>; 2]>),
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let builder = emitter.builder;
    let chunks = Chunks::of_operands(tile, emitter, operands, STEP)?;
    let stages = if descriptions.is_some() { boxes::STAGES } else { stages_of(&chunks) };
    let zero = scalar::constant(builder, operands.0[0].bits(), &[], None);
    let shared = SharedValues::new(builder, function, &zero, &[stages * 2 * BYTES / operands.0[0].width()]);
    let address = shared.address(builder);
    let copies = descriptions.map(|descriptions| {
        let are_along_depth = [&chunks[0], &chunks[1]].map(|own| own.is_along_depth);
        BoxCopies::new(builder, function, descriptions, (are_along_depth, operands.0[0].width(), address))
    });
    let group = emitter.emit_symbol(tile.thread.floordiv(GROUP), super::THREADS / GROUP)?;
    let [left, right] = chunks;
    let slabs = [Slab::new(emitter, left)?, Slab::new(emitter, right)?];
    WarpGroups { tile, operands, slabs, copies, shared, address, group }.emit(emitter, stages, outputs)
}

/// One operand in shared memory.
struct Slab<'c> {
    chunks: Chunks<'c>,
    /// The number of each of the thread's chunks in a stage.
    places: Vec<Expr<'c>>,
}

impl<'c> Slab<'c> {
    fn new(emitter: &mut Elemental<'_, 'c>, chunks: Chunks<'c>) -> Result<Self> {
        let builder = emitter.builder;
        let mut places = Vec::with_capacity(chunks.places.len());
        for &[row, chunk] in &chunks.places {
            let orders = [row.modulo(EIGHT), chunk.modulo(EIGHT)].map(|expr| emitter.scope.simplify(expr));
            let orders = [emitter.scope.emit(builder, orders[0])?, emitter.scope.emit(builder, orders[1])?];
            let place = builder.value("arith.xori", &orders, builder.index_type, &[]);
            let place = emitter.scope.add_variable(Interval::of_size(EIGHT), Binding::Symbol(place));
            // Behind all rows, those of the next neighbours.
            let of_eight = chunk.floordiv(EIGHT) * (chunks.rows * EIGHT);
            let place = emitter.scope.simplify(of_eight + row * EIGHT + place);
            places.push(emitter.emit_symbol(place, BYTES / CHUNK)?);
        }
        Ok(Slab { chunks, places })
    }

    /// What a descriptor says beside the address: that chunks are swizzled by 128 bytes, and in units of 16 bytes how far
    /// eight rows are from the next eight, and 64 neighbours across the contracted positions from the next.
    fn layout(&self) -> i64 {
        let of_neighbours = if self.chunks.is_along_depth { 1 } else { self.chunks.rows * EIGHT };
        1 << 62 | (EIGHT * EIGHT) << 32 | of_neighbours << 16
    }

    /// How far the positions of an instruction are from those of the next one, in units of 16 bytes.
    fn distance(&self) -> i64 {
        if self.chunks.is_along_depth { DEPTH / CHUNK } else { DEPTH / self.chunks.r#type.width() * EIGHT }
    }
}

struct WarpGroups<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    operands: TensorOperands,
    slabs: [Slab<'c>; 2],
    /// Where a unit copies the operands.
    copies: Option<BoxCopies<'c>>,
    /// All stages, and their address.
    shared: SharedValues<'c>,
    address: Value<'c>,
    /// Which group the thread is in.
    group: Expr<'c>,
}

impl<'a, 'c> WarpGroups<'_, '_, 'a, 'c> {
    fn emit(&self, emitter: &mut Elemental<'a, 'c>, stages: i64, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let tile = self.tile;
        let steps = ceil_div(tile.depth * self.slabs[0].chunks.r#type.width(), STEP);
        let sums = vec![tile.zero.value; SUMS as usize];
        let sums = match &self.copies {
            Some(copies) => copies.emit_steps(tile, emitter, (steps, sums), &mut |emitter, stage, sums| {
                self.multiply(emitter, stage, sums)
            })?,
            None => emit_steps(self, tile, emitter, (steps, stages), sums)?,
        };
        // Of eight columns, a lane has two neighbours in a row, and two in that eight rows on.
        let lane = emitter.emit_symbol(tile.thread.modulo(WARP), WARP)?;
        let warp = emitter.emit_symbol(tile.thread.floordiv(WARP), super::THREADS / WARP)?;
        let (row, first) = (warp * (ROWS * WARP / GROUP) + lane.floordiv(4), emitter.scope.constant(0));
        let stored = FragmentRows::new(tile, emitter, lane, STORED)?;
        for half in 0..2 {
            let pairs = sums.chunks(4).map(|sums| [0, 1].map(|place| sums[2 * half as usize + place]));
            let pairs: Vec<[Value<'c>; 2]> = pairs.collect();
            for (number, pairs) in (0..).zip(pairs.chunks(STORED as usize)) {
                let place = (row + half * EIGHT, first + number * (STORED * EIGHT));
                stored.finish(tile, emitter, outputs, place, pairs.to_vec())?;
            }
        }
        Ok(())
    }
}

/// Where a stage of an operand begins, in bytes.
pub(super) fn stage_of(stage: Expr<'_>, operand: usize) -> Expr<'_> {
    stage * (2 * BYTES) + operand as i64 * BYTES
}

impl<'a, 'c> Product<'a, 'c> for WarpGroups<'_, '_, 'a, 'c> {
    fn operand(&self, number: usize) -> (&Chunks<'c>, &SharedValues<'c>, Value<'c>) {
        (&self.slabs[number].chunks, &self.shared, self.address)
    }

    fn place(&self, operand: usize, chunk: usize, stage: Expr<'c>) -> Expr<'c> {
        let slab = &self.slabs[operand];
        (stage_of(stage, operand) + slab.places[chunk] * CHUNK).floordiv(slab.chunks.r#type.width())
    }

    fn publish(&self, emitter: &Elemental<'a, 'c>) {
        let builder = emitter.builder;
        builder.define_once(FENCE_FOR_UNITS, |builder| builder.declare_function(FENCE_FOR_UNITS, &[], &[]));
        builder.call(FENCE_FOR_UNITS, &[], &[]);
    }

    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        stage: Expr<'c>,
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let word = builder.integer_type(64);
        let number = |value: i64| builder.constant_integer(word, value);
        let mut firsts = Vec::with_capacity(2);
        for operand in 0..2 {
            // A group has rows of its own, and all columns.
            let own = if operand == 0 { self.group * (ROWS * STEP) } else { emitter.scope.constant(0) };
            let byte = emitter.scope.emit(builder, emitter.scope.simplify(stage_of(stage, operand) + own))?;
            let address = builder.addi(self.address, byte);
            let address = builder.value("arith.index_cast", &[address], word, &[]);
            firsts.push(builder.shrui(address, number(CHUNK.ilog2().into())));
        }
        let mut operands = Vec::new();
        for part in 0..STEP / DEPTH {
            for (slab, &first) in self.slabs.iter().zip(&firsts) {
                let address = builder.addi(first, number(part * slab.distance()));
                let address = builder.value("arith.andi", &[address, number(ADDRESSES)], word, &[]);
                operands.push(builder.ori(address, number(slab.layout())));
            }
        }
        operands.extend(&sums);
        let [left, right] = self.operands.0;
        let result = if left.width() == 2 { "f32" } else { "s32" };
        let positions = DEPTH / left.width();
        let across = [0, 1].map(|operand: usize| !self.slabs[operand].chunks.is_along_depth);
        let product = WarpGroupProduct {
            variant: format!("m{ROWS}n{SIDE}k{positions}.{result}.{}.{}", left.name(), right.name()),
            across: (left.width() == 2).then_some(across),
        };
        let symbol = product.symbol();
        let results = vec![register_type(builder, self.tile.zero.element_type, None); sums.len()];
        builder.define_once(&symbol, |builder| {
            let types: Vec<_> = operands.iter().map(|operand| operand.r#type()).collect();
            builder.declare_function(&symbol, &types, &results);
        });
        Ok(builder.call(&symbol, &operands, &results).results())
    }
}

/// The bits of an address in a descriptor.
const ADDRESSES: i64 = (1 << 14) - 1;
