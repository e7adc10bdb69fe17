//! Tiles of `f64` by matrix instructions: every warp multiplies fragments of 8 rows or columns and 4 contracted positions, of
//! which each lane has one element.

use indexing::{Expr, ceil_div};
use mlir_ext::builder::{Body, Value};

use super::chunks::{CHUNK, Chunks};
use super::pipeline::{Product, emit_steps, stages_of};
use super::tensor_cores::{EIGHT, WARPS, results};
use super::tensor_types::{TensorOperands, TensorType};
use super::{Result, THREADS, Tile};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::team::{SharedValues, WARP};

/// The operands.
const OPERANDS: TensorOperands = TensorOperands([TensorType::F64; 2]);

/// Contracted positions of an instruction, and bytes of those of a step.
const DEPTH: i64 = 4;
const STEP: i64 = 64;

/// Bytes of an element.
const WIDTH: i64 = 8;

/// Elements from a row to the next one beyond its own: the 16 that half a warp loads at once lie in different banks.
const PADDING: i64 = 2 * CHUNK / WIDTH;

/// One operand in shared memory.
struct Slab<'c> {
    chunks: Chunks<'c>,
    shared: SharedValues<'c>,
    address: Value<'c>,
    /// The element that the thread has of the first fragment of the first stage.
    first: Expr<'c>,
}

impl Slab<'_> {
    /// Elements from a row to the next one.
    fn row(&self) -> i64 {
        self.chunks.row + PADDING
    }

    /// The distance of places from the first one, by rows (or columns) and by contracted positions.
    fn distance(&self, along: i64, depth: i64) -> i64 {
        match self.chunks.is_along_depth {
            true => along * self.row() + depth,
            false => depth * self.row() + along,
        }
    }
}

/// Emits the part of a fusion that a tile is.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let lane = emitter.emit_symbol(tile.thread.modulo(WARP), WARP)?;
    let warp = emitter.emit_symbol(tile.thread.floordiv(WARP), THREADS / WARP)?;
    let sizes = WARPS.map(|warps| tile.side() / warps);
    let firsts = [warp.floordiv(WARPS[1]) * sizes[0], warp.modulo(WARPS[1]) * sizes[1]];
    let chunks = Chunks::of_operands(tile, emitter, OPERANDS, STEP)?;
    let stages = stages_of(&chunks);
    let mut slabs = Vec::with_capacity(2);
    for (chunks, first) in chunks.into_iter().zip(firsts) {
        let row = chunks.row + PADDING;
        let shared = SharedValues::new(emitter.builder, function, &tile.zero, &[stages * chunks.rows * row]);
        let address = shared.address(emitter.builder);
        let (along, depth) = (first + lane.floordiv(DEPTH), lane.modulo(DEPTH));
        let place = if chunks.is_along_depth { along * row + depth } else { depth * row + along };
        let place = emitter.scope.simplify(place);
        let first = emitter.emit_symbol(place, chunks.rows * row)?;
        slabs.push(Slab { chunks, shared, address, first });
    }
    let slabs: [Slab<'c>; 2] = slabs.try_into().map_err(|_| LoweringError::bug("a product has two operands"))?;
    Doubles { tile, slabs, sizes, firsts, lane }.emit(emitter, stages, outputs)
}

struct Doubles<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    slabs: [Slab<'c>; 2],
    /// Rows and columns of a warp, and the first of its own.
    sizes: [i64; 2],
    firsts: [Expr<'c>; 2],
    lane: Expr<'c>,
}

impl<'a, 'c> Doubles<'_, '_, 'a, 'c> {
    fn emit(&self, emitter: &mut Elemental<'a, 'c>, stages: i64, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let tile = self.tile;
        let [rows, columns] = self.fragments();
        let sums = vec![tile.zero.value; (rows * columns * 2) as usize];
        let sums = emit_steps(self, tile, emitter, (ceil_div(tile.depth * WIDTH, STEP), stages), sums)?;
        // Of a fragment, a lane has two neighbours in a row.
        let are_vectors = tile.has_vectors(emitter.computation, 2)?;
        for (fragment, sums) in (0..).zip(sums.chunks(2)) {
            let row = self.firsts[0] + self.lane.floordiv(4) + fragment / columns * EIGHT;
            let column = self.firsts[1] + self.lane.modulo(4) * 2 + fragment % columns * EIGHT;
            tile.finish_row(emitter, outputs, (row, column), (sums, are_vectors))?;
        }
        Ok(())
    }

    /// Fragments of a warp's result, along rows and along columns.
    fn fragments(&self) -> [i64; 2] {
        self.sizes.map(|size| size / EIGHT)
    }
}

impl<'a, 'c> Product<'a, 'c> for Doubles<'_, '_, 'a, 'c> {
    fn operand(&self, number: usize) -> (&Chunks<'c>, &SharedValues<'c>, Value<'c>) {
        let slab = &self.slabs[number];
        (&slab.chunks, &slab.shared, slab.address)
    }

    fn place(&self, operand: usize, chunk: usize, stage: Expr<'c>) -> Expr<'c> {
        let slab = &self.slabs[operand];
        let [row, number] = slab.chunks.places[chunk];
        (stage * slab.chunks.rows + row) * slab.row() + number * (CHUNK / WIDTH)
    }

    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        stage: Expr<'c>,
        mut sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let firsts = [0, 1].map(|operand: usize| {
            let slab = &self.slabs[operand];
            slab.first + stage * (slab.chunks.rows * slab.row())
        });
        let [rows, columns] = self.fragments();
        for depth in (0..STEP / WIDTH).step_by(DEPTH as usize) {
            let element = |operand: usize, fragment: i64| {
                let slab = &self.slabs[operand];
                let place = firsts[operand] + slab.distance(fragment * EIGHT, depth);
                let place = emitter.scope.emit(builder, emitter.scope.simplify(place))?;
                Ok(slab.shared.load(builder, &[place]).value)
            };
            let left: Vec<Value<'c>> = (0..rows).map(|row| element(0, row)).collect::<Result<_>>()?;
            let right: Vec<Value<'c>> = (0..columns).map(|column| element(1, column)).collect::<Result<_>>()?;
            let pairs = left.iter().flat_map(|left| right.iter().map(move |right| [*left, *right]));
            for (pair, sums) in pairs.zip(sums.chunks_mut(2)) {
                let operands = [&pair[..], &*sums].concat();
                let products: [Value<'c>; 2] = results(builder, OPERANDS.intrinsic(), &operands, sums[0].r#type());
                sums.copy_from_slice(&products);
            }
        }
        Ok(sums)
    }
}
