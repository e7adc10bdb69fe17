//! Tiles by the matrix instructions of four warps together (`wgmma`), which read both operands from shared memory themselves.
//!
//! There, rows of 128 bytes lie behind each other, 1024 bytes for each eight, and the chunks of a row are in another order in
//! each of the eight (swizzled), so that neither rows nor columns of chunks meet in a bank. An operand whose neighbours in
//! memory are across the contracted positions lies there as it does in memory: rows of 64 neighbours, one for each position.

use hlo::element_type::ElementType;
use indexing::{Expr, Interval, ceil_div};
use mlir_ext::builder::{Body, Machine, OpBuilder, Value};
use mlir_ext::gpu::{FENCE_FOR_UNITS, WarpGroupProduct, WarpGroupWait};

use super::chunks::{CHUNK, Chunks};
use super::fragments::FragmentRows;
use super::pipeline::{Product, Staged, emit_steps, stages_of};
use super::rings::address_at;
use super::tensor_types::{TensorOperands, TensorType};
use super::{Result, Tile};
use crate::elemental::Elemental;
use crate::memory::ArrayRef;
use crate::scalar::{self, register_type};
use crate::scope::Binding;
use crate::team::{SharedValues, WARP};

/// Rows and columns of a tile.
const SIDE: i64 = 128;

/// Threads that multiply together, and the rows that they compute, of all columns.
pub(super) const GROUP: i64 = 128;
pub(super) const ROWS: i64 = 64;

/// Bytes of contracted positions of an instruction, and of a step: a row in shared memory.
pub(super) const DEPTH: i64 = 32;
pub(super) const STEP: i64 = 128;

/// Rows in shared memory whose chunks are in orders of their own.
pub(super) const EIGHT: i64 = 8;

/// Eights of columns of which a row is stored at once.
const STORED: i64 = 4;

/// Bytes that a stage in shared memory has of each operand.
const BYTES: i64 = SIDE * STEP;

/// Whether a tile is computed so; of two types, only newer versions of PTX make products.
pub(super) fn suit(tile: &Tile<'_, '_, '_>, operands: TensorOperands, machine: Machine) -> bool {
    let [left, right] = operands.0;
    machine.warp_group_matrices && tile.side() == SIDE && left == right && left.width() <= 2
}

/// Emits the part of a fusion that a tile is.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    operands: TensorOperands,
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let builder = emitter.builder;
    let chunks = Chunks::of_operands(tile, emitter, operands, STEP)?;
    let count = stages_of(&chunks);
    let [left, right] = chunks;
    let r#type = operands.0[0];
    let zero = scalar::constant(builder, r#type.bits(), &[], None);
    let shared = SharedValues::new(builder, function, &zero, &[count * 2 * BYTES / r#type.width()]);
    let matrix = |chunks: &Chunks<'c>| Matrix { r#type, is_along_depth: chunks.is_along_depth, side: SIDE };
    let matrices = [matrix(&left), matrix(&right)];
    let member = Member::new(emitter, tile.thread)?;
    let stages = Stages { matrices, address: shared.address(builder), group: member.group, is_pending: false };
    let slabs = [Slab::new(emitter, left)?, Slab::new(emitter, right)?];
    let steps = ceil_div(tile.depth * r#type.width(), STEP);
    let product = WarpGroups { tile, slabs, shared, stages };
    let sums = emit_steps(&product, tile, emitter, (steps, count), stages.zeros(tile))?;
    member.finish(tile, emitter, sums, outputs)
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
}

/// An operand in a stage.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    pub r#type: TensorType,
    /// Whether its rows lie along the contracted positions, rather than across them.
    pub is_along_depth: bool,
    /// Rows of the tile, or columns.
    pub side: i64,
}

impl Matrix {
    /// Rows of 128 bytes, of each 128 bytes across them.
    pub fn rows(self) -> i64 {
        if self.is_along_depth { self.side } else { STEP / self.r#type.width() }
    }

    pub fn bytes(self) -> i64 {
        self.side * STEP
    }

    /// How far 64 neighbours across the contracted positions are from the next, in units of 16 bytes.
    fn distance_of_neighbours(self) -> i64 {
        if self.is_along_depth { 1 } else { self.rows() * EIGHT }
    }

    /// How far the positions of an instruction are from those of the next one, in units of 16 bytes.
    fn distance(self) -> i64 {
        if self.is_along_depth { DEPTH / CHUNK } else { DEPTH / self.r#type.width() * EIGHT }
    }
}

/// The operands of a product in the stages of shared memory, and which group of warps multiplies them.
#[derive(Clone, Copy)]
pub(super) struct Stages<'c> {
    pub matrices: [Matrix; 2],
    pub address: Value<'c>,
    pub group: Expr<'c>,
    /// Whether threads go on while their products are made, and wait for them by themselves ([`wait_for_products`]).
    pub is_pending: bool,
}

impl<'c> Stages<'c> {
    /// Bytes of a stage.
    pub fn bytes(&self) -> i64 {
        self.matrices.iter().map(|matrix| matrix.bytes()).sum()
    }

    /// Where a stage of an operand begins, in bytes.
    pub fn place(&self, stage: Expr<'c>, operand: usize) -> Expr<'c> {
        stage * self.bytes() + if operand == 0 { 0 } else { self.matrices[0].bytes() }
    }

    /// A thread's sums of nothing.
    pub fn zeros(&self, tile: &Tile<'_, '_, 'c>) -> Vec<Value<'c>> {
        vec![tile.zero.value; self.sums()]
    }

    /// How many sums a thread has.
    fn sums(&self) -> usize {
        (ROWS * self.matrices[1].side / GROUP) as usize
    }

    /// Adds the products of what is in a stage to a thread's sums of a type, or to none.
    pub fn multiply(
        &self,
        emitter: &Elemental<'_, 'c>,
        stage: Expr<'c>,
        (sums, sum_type): (&[Value<'c>], ElementType),
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let mut firsts = Vec::with_capacity(2);
        for operand in 0..2 {
            // A group has rows of its own, and all columns.
            let own = if operand == 0 { self.group * (ROWS * STEP) } else { emitter.scope.constant(0) };
            firsts.push(chunk_at(emitter, self.address, self.place(stage, operand) + own)?);
        }
        let mut operands = Vec::new();
        for part in 0..STEP / DEPTH {
            for (matrix, &first) in self.matrices.iter().zip(&firsts) {
                operands.push(descriptor(builder, first, part * matrix.distance(), matrix.distance_of_neighbours()));
            }
        }
        operands.extend(sums);
        let [left, right] = self.matrices;
        let result = if left.r#type.sums() == ElementType::F32 { "f32" } else { "s32" };
        let positions = DEPTH / left.r#type.width();
        let across = [left, right].map(|matrix| !matrix.is_along_depth);
        let (columns, names) = (right.side, [left.r#type.name(), right.r#type.name()]);
        let product = WarpGroupProduct {
            variant: format!("m{ROWS}n{columns}k{positions}.{result}.{}.{}", names[0], names[1]),
            parts: (STEP / DEPTH) as usize,
            across: (left.r#type.width() == 2).then_some(across),
            is_first: sums.is_empty(),
            is_pending: self.is_pending,
            ..WarpGroupProduct::default()
        };
        Ok(call(builder, &product.symbol(), &operands, (sum_type, self.sums())))
    }
}

/// Where a byte of shared memory is, in units of chunks.
pub(super) fn chunk_at<'c>(emitter: &Elemental<'_, 'c>, address: Value<'c>, byte: Expr<'c>) -> Result<Value<'c>> {
    let builder = emitter.builder;
    let address = address_at(emitter, address, byte)?;
    Ok(builder.shrui(address, builder.integer_like(address, CHUNK.ilog2().into())))
}

/// What says where a matrix begins, so many chunks behind another, and how it lies: that chunks are swizzled by 128 bytes, and in
/// units of 16 bytes how far eight rows are from the next eight, and 64 neighbours across the contracted positions from the next.
pub(super) fn descriptor<'c>(
    builder: &OpBuilder<'c>,
    first: Value<'c>,
    distance: i64,
    of_neighbours: i64,
) -> Value<'c> {
    // Parts are a sum of words from each other: nothing carries over from the address, which takes instructions between products.
    let word = builder.integer_type(32);
    let low = builder.value("arith.trunci", &[first], word, &[]);
    let low = builder.andi(low, builder.integer_like(low, ADDRESSES));
    let low = builder.ori(low, builder.integer_like(low, of_neighbours << 16));
    let low = builder.addi(low, builder.integer_like(low, distance));
    let low = builder.value("arith.extui", &[low], first.r#type(), &[]);
    builder.ori(low, builder.integer_like(low, 1 << 62 | (EIGHT * EIGHT) << 32))
}

/// Calls a function that stands for an instruction, and gives so many numbers of a type.
pub(super) fn call<'c>(
    builder: &OpBuilder<'c>,
    symbol: &str,
    operands: &[Value<'c>],
    (r#type, count): (ElementType, usize),
) -> Vec<Value<'c>> {
    let results = vec![register_type(builder, r#type, None); count];
    builder.define_once(symbol, |builder| {
        let types: Vec<_> = operands.iter().map(|operand| operand.r#type()).collect();
        builder.declare_function(symbol, &types, &results);
    });
    builder.call(symbol, operands, &results).results()
}

/// Waits until no more than so many products are pending, and gives sums of some type that come of others; until then words are
/// kept.
pub(super) fn wait_for_products<'c>(
    builder: &OpBuilder<'c>,
    pending: u32,
    (sums, sum_type): (&[Value<'c>], ElementType),
    words: &[Value<'c>],
) -> Vec<Value<'c>> {
    let are_integers = sum_type.is_integer();
    let wait = WarpGroupWait { pending, sums: sums.len(), words: words.len(), are_integers };
    call(builder, &wait.symbol(), &[sums, words].concat(), (sum_type, sums.len()))
}

/// Where a thread is among those that multiply.
#[derive(Clone, Copy)]
pub(super) struct Member<'c> {
    pub group: Expr<'c>,
    warp: Expr<'c>,
    pub lane: Expr<'c>,
}

impl<'c> Member<'c> {
    /// That of a thread, which is a symbol of the function.
    pub fn new(emitter: &mut Elemental<'_, 'c>, thread: Expr<'c>) -> Result<Self> {
        Ok(Member {
            group: emitter.emit_symbol(thread.floordiv(GROUP), super::THREADS / GROUP)?,
            warp: emitter.emit_symbol(thread.floordiv(WARP), super::THREADS / WARP)?,
            lane: emitter.emit_symbol(thread.modulo(WARP), WARP)?,
        })
    }

    /// Goes on with a thread's sums.
    pub fn finish<'a>(
        self,
        tile: &Tile<'_, 'a, 'c>,
        emitter: &mut Elemental<'a, 'c>,
        sums: Vec<Value<'c>>,
        outputs: &[ArrayRef<'c>],
    ) -> Result<()> {
        // Of eight columns, a lane has two neighbours in a row, and two in that eight rows on.
        let row = self.warp * (ROWS * WARP / GROUP) + self.lane.floordiv(4);
        let first = emitter.scope.constant(0);
        let stored = FragmentRows::new(tile, emitter, self.lane, STORED)?;
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

struct WarpGroups<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    slabs: [Slab<'c>; 2],
    shared: SharedValues<'c>,
    stages: Stages<'c>,
}

impl<'a, 'c> Staged<'a, 'c> for WarpGroups<'_, '_, 'a, 'c> {
    fn operand(&self, number: usize) -> (&Chunks<'c>, &SharedValues<'c>, Value<'c>) {
        (&self.slabs[number].chunks, &self.shared, self.stages.address)
    }

    fn place(&self, operand: usize, chunk: usize, stage: Expr<'c>) -> Expr<'c> {
        let slab = &self.slabs[operand];
        (self.stages.place(stage, operand) + slab.places[chunk] * CHUNK).floordiv(slab.chunks.r#type.width())
    }
}

impl<'a, 'c> Product<'a, 'c> for WarpGroups<'_, '_, 'a, 'c> {
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
        self.stages.multiply(emitter, stage, (&sums, self.tile.zero.element_type))
    }
}

/// The bits of an address in a descriptor.
const ADDRESSES: i64 = (1 << 14) - 1;
