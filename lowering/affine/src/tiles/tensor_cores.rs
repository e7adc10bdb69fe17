//! Tiles by matrix instructions: warps multiply fragments of 16-bit floats, and of 8-bit integers.
//!
//! Both operands lie in shared memory as rows of 16-byte chunks, from which `ldmatrix` takes the fragments: elements of 8 rows
//! (or columns) and 16 bytes of contracted positions each. An operand whose neighbours in memory are across the contracted
//! positions lies there as it does in memory, and is transposed on the way to registers; 8-bit ones cannot be.

use indexing::{Expr, ceil_div};
use melior::ir::Type;
use melior::ir::attribute::DenseI64ArrayAttribute;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{Body, OpBuilder, Value};

use super::chunks::{CHUNK, Chunks};
use super::fragments::FragmentRows;
use super::pipeline::{Product, Staged, emit_steps, stages_of};
use super::tensor_types::{TensorOperands, TensorType};
use super::{Result, THREADS, Tile};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{ArrayRef, shared_pointer};
use crate::scalar;
use crate::team::{SharedValues, WARP};

/// Rows and columns of the smallest tile.
pub(super) const SMALLEST_TILE: i64 = 64;

/// Warps of a block, along rows and along columns.
pub(super) const WARPS: [i64; 2] = [2, 4];

/// Bytes of contracted positions of an instruction, and of a step.
const DEPTH: i64 = 32;
const STEP: i64 = 2 * DEPTH;

/// Rows of a matrix that `ldmatrix` loads, and columns of a fragment of the result.
pub(super) const EIGHT: i64 = 8;

/// Rows of a fragment of the result, and rows or columns for which one `ldmatrix` loads.
pub(super) const SIXTEEN: i64 = 16;

/// One operand in shared memory.
struct Slab<'c> {
    chunks: Chunks<'c>,
    shared: SharedValues<'c>,
    /// The address of the shared memory, and the byte in it from which the thread has `ldmatrix` load.
    address: Value<'c>,
    first: Expr<'c>,
}

impl<'c> Slab<'c> {
    /// Bytes of some rows. From a row to the next one it is an odd number of chunks, so that rows lie in different banks.
    fn bytes(&self, rows: i64) -> i64 {
        rows * (self.chunks.row * self.chunks.r#type.width() + CHUNK)
    }
}

/// Emits the part of a fusion that a tile is.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    operands: TensorOperands,
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let lane = tile.thread.modulo(WARP);
    let lane = emitter.emit_symbol(lane, WARP)?;
    let warp = emitter.emit_symbol(tile.thread.floordiv(WARP), THREADS / WARP)?;
    let warp_row = emitter.emit_symbol(warp.floordiv(WARPS[1]), WARPS[0])?;
    let warp_column = emitter.emit_symbol(warp.modulo(WARPS[1]), WARPS[1])?;
    let sizes = WARPS.map(|warps| tile.side() / warps);
    let firsts = [warp_row * sizes[0], warp_column * sizes[1]];
    let chunks = Chunks::of_operands(tile, emitter, operands, STEP)?;
    let stages = stages_of(&chunks);
    let mut slabs = Vec::with_capacity(2);
    for (operand, (chunks, first)) in chunks.into_iter().zip(firsts).enumerate() {
        slabs.push(slab(emitter, (operand, chunks), stages, (first, lane), function)?);
    }
    let slabs: [Slab<'c>; 2] = slabs.try_into().map_err(|_| LoweringError::bug("a product has two operands"))?;
    Matrices { tile, operands, slabs, sizes, firsts, lane }.emit(emitter, stages, outputs)
}

/// The place of an operand in shared memory, and of a thread's part in it.
fn slab<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    (operand, chunks): (usize, Chunks<'c>),
    stages: i64,
    (first, lane): (Expr<'c>, Expr<'c>),
    function: &Body<'c>,
) -> Result<Slab<'c>> {
    let (builder, r#type) = (emitter.builder, chunks.r#type);
    let width = r#type.width();
    let (is_along_depth, rows) = (chunks.is_along_depth, chunks.rows);
    let zero = scalar::constant(builder, r#type.bits(), &[], None);
    let shared = SharedValues::new(builder, function, &zero, &[stages * rows * (chunks.row + CHUNK / width)]);
    let address = shared.address(builder);
    let mut slab = Slab { chunks, shared, address, first: emitter.scope.constant(0) };
    // Lanes say where the rows of four matrices begin, eight each: which of both along the rows (or columns), which along the
    // contracted positions. In the left operand's fragments the former come first.
    let (half, quarter) = (lane.floordiv(EIGHT).modulo(2), lane.floordiv(SIXTEEN));
    let (along, depth) = if operand == 0 { (half, quarter) } else { (quarter, half) };
    let (own, chunk, first_row, first_byte) = match is_along_depth {
        true => (along, depth, first, emitter.scope.constant(0)),
        false => (depth, along, emitter.scope.constant(0), first * width),
    };
    let byte = (own * EIGHT + lane.modulo(EIGHT) + first_row) * slab.bytes(1) + chunk * CHUNK + first_byte;
    let byte = emitter.scope.simplify(byte);
    slab.first = emitter.emit_symbol(byte, slab.bytes(stages * rows))?;
    Ok(slab)
}

struct Matrices<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    operands: TensorOperands,
    slabs: [Slab<'c>; 2],
    /// Rows and columns of a warp, and the first of its own.
    sizes: [i64; 2],
    firsts: [Expr<'c>; 2],
    lane: Expr<'c>,
}

impl<'a, 'c> Matrices<'_, '_, 'a, 'c> {
    fn emit(&self, emitter: &mut Elemental<'a, 'c>, stages: i64, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let tile = self.tile;
        let steps = ceil_div(tile.depth * self.slabs[0].chunks.r#type.width(), STEP);
        let [rows, columns] = self.fragments();
        let sums = vec![tile.zero.value; (rows * columns * 4) as usize];
        let sums = emit_steps(self, tile, emitter, (steps, stages), sums)?;
        // Of a fragment, a lane has two neighbours in a row, and two in that eight rows on.
        let stored = FragmentRows::new(tile, emitter, self.lane, columns)?;
        for (number, sums) in (0..).zip(sums.chunks((columns * 4) as usize)) {
            for half in 0..2 {
                let row = self.firsts[0] + self.lane.floordiv(4) + (number * SIXTEEN + half * EIGHT);
                let pairs = sums.chunks(4).map(|sums| [0, 1].map(|place| sums[2 * half as usize + place]));
                stored.finish(tile, emitter, outputs, (row, self.firsts[1]), pairs.collect())?;
            }
        }
        Ok(())
    }

    /// What instructions multiply of some words: these, or numbers of 32 bits rounded, what is left of them, and the first of these
    /// with nothing for infinities, which have no rest.
    fn parts(&self, builder: &OpBuilder<'c>, words: [Value<'c>; 4]) -> Vec<[Value<'c>; 4]> {
        let (word, float) = (builder.integer_type(32), Type::float32(builder.context()));
        let rounded = |value: Value<'c>| builder.intrinsic("llvm.nvvm.f2tf32.rna", &[value], word);
        match self.operands.0[0] {
            TensorType::Tf32 => vec![words.map(|word| rounded(builder.bitcast(word, float)))],
            TensorType::TwoTf32 => {
                let is_infinite = |bits: Value<'c>| {
                    let magnitude = builder.andi(bits, builder.integer_like(bits, 0x7fff_ffff));
                    builder.cmpi(CmpiPredicate::Eq, magnitude, builder.integer_like(bits, 0x7f80_0000))
                };
                let mut parts = [words; 3];
                for (place, bits) in words.into_iter().enumerate() {
                    let number = builder.bitcast(bits, float);
                    let nearest = rounded(number);
                    // What would be rounded to infinity is cut off instead.
                    let cut = builder.andi(bits, builder.integer_like(bits, !0x1fff));
                    let large = builder.select(is_infinite(nearest), cut, nearest);
                    let rest = rounded(builder.subf(number, builder.bitcast(large, float)));
                    let (has_no_rest, zero) = (is_infinite(bits), builder.integer_like(bits, 0));
                    parts[0][place] = large;
                    parts[1][place] = builder.select(has_no_rest, zero, rest);
                    parts[2][place] = builder.select(has_no_rest, zero, large);
                }
                parts.to_vec()
            }
            _ => vec![words],
        }
    }

    /// Fragments of a warp's result, along rows and along columns.
    fn fragments(&self) -> [i64; 2] {
        [self.sizes[0] / SIXTEEN, self.sizes[1] / EIGHT]
    }
}

impl<'a, 'c> Staged<'a, 'c> for Matrices<'_, '_, 'a, 'c> {
    fn operand(&self, number: usize) -> (&Chunks<'c>, &SharedValues<'c>, Value<'c>) {
        let slab = &self.slabs[number];
        (&slab.chunks, &slab.shared, slab.address)
    }

    fn place(&self, operand: usize, chunk: usize, stage: Expr<'c>) -> Expr<'c> {
        let chunks = &self.slabs[operand].chunks;
        let of_chunk = CHUNK / chunks.r#type.width();
        let [row, number] = chunks.places[chunk];
        (stage * chunks.rows + row) * (chunks.row + of_chunk) + number * of_chunk
    }
}

impl<'a, 'c> Product<'a, 'c> for Matrices<'_, '_, 'a, 'c> {
    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        stage: Expr<'c>,
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let mut firsts = Vec::with_capacity(2);
        for slab in &self.slabs {
            let byte = slab.first + stage * slab.bytes(slab.chunks.rows);
            let byte = emitter.scope.emit(builder, emitter.scope.simplify(byte))?;
            firsts.push(builder.addi(slab.address, byte));
        }
        let [rows, columns] = self.fragments();
        let mut sums = sums;
        for part in 0..STEP / DEPTH {
            let words = |operand: usize, number: i64| {
                let slab = &self.slabs[operand];
                let (is_along_depth, width) = (slab.chunks.is_along_depth, slab.chunks.r#type.width());
                let offset = match is_along_depth {
                    true => part * DEPTH + slab.bytes(number * SIXTEEN),
                    false => slab.bytes(part * DEPTH / width) + number * SIXTEEN * width,
                };
                let loaded = load_matrices(builder, firsts[operand], offset, !is_along_depth);
                self.parts(builder, loaded)
            };
            let left: Vec<_> = (0..rows).map(|number| words(0, number)).collect();
            // Columns of two fragments at once.
            let right: Vec<_> = (0..ceil_div(columns, 2)).map(|number| words(1, number)).collect();
            for row in 0..rows {
                for column in 0..columns {
                    let first = ((row * columns + column) * 4) as usize;
                    let (right, half) = (&right[column as usize / 2], column as usize % 2 * 2);
                    let left = &left[row as usize];
                    // The small parts first; the product of both is too small.
                    let products: &[[usize; 2]] = if left.len() > 1 { &[[1, 2], [2, 1], [0, 0]] } else { &[[0, 0]] };
                    for &[own, other] in products {
                        let (right, sums) = (&right[other][half..half + 2], &mut sums[first..first + 4]);
                        let product = multiply(builder, self.operands, &left[own], right, sums);
                        sums.copy_from_slice(&product);
                    }
                }
            }
        }
        Ok(sums)
    }
}

/// The instruction: a fragment of sums with products more.
pub(super) fn multiply<'c>(
    builder: &OpBuilder<'c>,
    types: TensorOperands,
    left: &[Value<'c>],
    right: &[Value<'c>],
    sums: &[Value<'c>],
) -> [Value<'c>; 4] {
    let operands = [left, right].concat().into_iter().map(|word| match types.0[0] {
        TensorType::F16 => {
            let pair = builder.vector_type(2, Type::float16(builder.context()));
            builder.value("llvm.bitcast", &[word], pair, &[])
        }
        _ => word,
    });
    let operands: Vec<Value<'c>> = operands.chain(sums.iter().copied()).collect();
    results(builder, types.intrinsic(), &operands, sums[0].r#type())
}

/// What `ldmatrix` gives a lane of four matrices, whose rows begin at addresses in shared memory.
pub(super) fn load_matrices<'c>(
    builder: &OpBuilder<'c>,
    address: Value<'c>,
    offset: i64,
    transposed: bool,
) -> [Value<'c>; 4] {
    let address = shared_pointer(builder, address, builder.constant_index(offset));
    let name = match transposed {
        true => "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3",
        false => "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3",
    };
    results(builder, name, &[address], builder.integer_type(32))
}

/// The results of an intrinsic with some of a type.
pub(super) fn results<'c, const COUNT: usize>(
    builder: &OpBuilder<'c>,
    name: &str,
    operands: &[Value<'c>],
    r#type: Type<'c>,
) -> [Value<'c>; COUNT] {
    let all = melior::dialect::llvm::r#type::r#struct(builder.context(), &[r#type; COUNT], false);
    let all = builder.intrinsic(name, operands, all);
    std::array::from_fn(|number| {
        let position = DenseI64ArrayAttribute::new(builder.context(), &[number as i64]).into();
        builder.value("llvm.extractvalue", &[all], r#type, &[("position", position)])
    })
}
