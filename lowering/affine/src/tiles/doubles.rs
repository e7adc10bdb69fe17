//! Tiles of `f64` by matrix instructions: every warp multiplies fragments of 8 or 16 rows, 8 columns and 4 or 8 contracted positions.
//! Of each 8 rows, or columns, and 4 positions a lane has one element.

use indexing::{Expr, ceil_div};
use mlir_ext::builder::{Body, Machine, Value};

use super::ahead::{Parts, emit_ahead};
use super::chunks::{CHUNK, Chunks};
use super::pipeline::{Pipeline, Staged, stages_of};
use super::tensor_cores::{EIGHT, SIXTEEN, WARPS, results};
use super::tensor_types::{TensorOperands, TensorType};
use super::{Result, THREADS, Tile};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar::RegisterValue;
use crate::team::{SharedValues, WARP};

/// The operands.
const OPERANDS: TensorOperands = TensorOperands([TensorType::F64; 2]);

/// Rows and columns of the large tiles.
pub(super) const TILES: [[i64; 2]; 1] = [[128, 128]];

/// Blocks of a multiprocessor that registers must suffice for, where tiles are large.
pub(super) fn blocks(sides: [i64; 2]) -> Option<i64> {
    (sides == TILES[0]).then_some(1)
}

/// What an instruction multiplies: rows, and contracted positions of them and of 8 columns.
#[derive(Clone, Copy)]
struct Form {
    rows: i64,
    depth: i64,
    intrinsic: &'static str,
}

const EIGHT_ROWS: Form = Form { rows: EIGHT, depth: FOUR, intrinsic: "llvm.nvvm.mma.m8n8k4.row.col.f64" };

/// Only from `sm_90` on, which needs it to be as fast as it can.
const SIXTEEN_ROWS: Form = Form { rows: SIXTEEN, depth: EIGHT, intrinsic: "llvm.nvvm.mma.m16n8k8.row.col.f64" };

impl Form {
    fn of(machine: Machine) -> Self {
        if machine.warp_group_matrices { SIXTEEN_ROWS } else { EIGHT_ROWS }
    }

    /// A thread's sums of a fragment.
    fn sums(self) -> i64 {
        self.rows * EIGHT / WARP
    }
}

/// Lanes that have the neighbouring positions of a row, or of a column.
const FOUR: i64 = 4;

/// Bytes of the contracted positions of a step.
const STEP: i64 = 128;

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
    let sizes = [tile.side() / WARPS[0], tile.columns() / WARPS[1]];
    let firsts = [warp.floordiv(WARPS[1]) * sizes[0], warp.modulo(WARPS[1]) * sizes[1]];
    let chunks = Chunks::of_operands(tile, emitter, OPERANDS, STEP)?;
    let stages = stages_of(&chunks);
    let mut slabs = Vec::with_capacity(2);
    for (chunks, first) in chunks.into_iter().zip(firsts) {
        let row = chunks.row + PADDING;
        let shared = SharedValues::new(emitter.builder, function, &tile.zero, &[stages * chunks.rows * row]);
        let address = shared.address(emitter.builder);
        let (along, depth) = (first + lane.floordiv(FOUR), lane.modulo(FOUR));
        let place = if chunks.is_along_depth { along * row + depth } else { depth * row + along };
        let place = emitter.scope.simplify(place);
        let first = emitter.emit_symbol(place, chunks.rows * row)?;
        slabs.push(Slab { chunks, shared, address, first });
    }
    let slabs: [Slab<'c>; 2] = slabs.try_into().map_err(|_| LoweringError::bug("a product has two operands"))?;
    let form = Form::of(emitter.builder.machine());
    Doubles { tile, form, slabs, stages, sizes, firsts, lane }.emit(emitter, outputs)
}

struct Doubles<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    form: Form,
    slabs: [Slab<'c>; 2],
    stages: i64,
    /// Rows and columns of a warp, and the first of its own.
    sizes: [i64; 2],
    firsts: [Expr<'c>; 2],
    lane: Expr<'c>,
}

impl<'m, 'a, 'c> Doubles<'_, 'm, 'a, 'c> {
    fn emit(&self, emitter: &mut Elemental<'a, 'c>, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let tile = self.tile;
        let [rows, columns] = self.fragments();
        let sums = vec![tile.zero.value; (rows * columns * self.form.sums()) as usize];
        let sums = emit_ahead(self, emitter, ceil_div(tile.depth * WIDTH, STEP), sums)?;
        // Of every eight rows of a fragment, a lane has two neighbours in a row.
        let are_vectors = tile.has_vectors(emitter.computation, 2)?;
        for (fragment, sums) in (0..).zip(sums.chunks(self.form.sums() as usize)) {
            let row = self.firsts[0] + self.lane.floordiv(FOUR) + fragment / columns * self.form.rows;
            let column = self.firsts[1] + self.lane.modulo(FOUR) * 2 + fragment % columns * EIGHT;
            for (eight, sums) in (0..).zip(sums.chunks(2)) {
                tile.finish_row(emitter, outputs, (row + eight * EIGHT, column), (sums, are_vectors))?;
            }
        }
        Ok(())
    }

    fn pipeline(&self) -> Pipeline<'_, 'm, 'a, 'c, Self> {
        Pipeline { product: self, tile: self.tile, stages: self.stages }
    }

    /// Fragments of a warp's result, along rows and along columns.
    fn fragments(&self) -> [i64; 2] {
        [self.sizes[0] / self.form.rows, self.sizes[1] / EIGHT]
    }
}

impl<'a, 'c> Staged<'a, 'c> for Doubles<'_, '_, 'a, 'c> {
    fn operand(&self, number: usize) -> (&Chunks<'c>, &SharedValues<'c>, Value<'c>) {
        let slab = &self.slabs[number];
        (&slab.chunks, &slab.shared, slab.address)
    }

    fn place(&self, operand: usize, chunk: usize, stage: Expr<'c>) -> Expr<'c> {
        let slab = &self.slabs[operand];
        let [row, number] = slab.chunks.places[chunk];
        (stage * slab.chunks.rows + row) * slab.row() + number * (CHUNK / WIDTH)
    }
}

impl<'a, 'c> Parts<'a, 'c> for Doubles<'_, '_, 'a, 'c> {
    fn stages(&self) -> (i64, bool) {
        (self.stages, self.pipeline().has_copies())
    }

    fn copy(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, stage: Expr<'c>) -> Result<()> {
        let pipeline = self.pipeline();
        if pipeline.has_copies() { pipeline.copy(emitter, step, stage) } else { Ok(()) }
    }

    fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<Vec<RegisterValue<'c>>> {
        Ok(self.pipeline().bring(emitter, step)?.concat())
    }

    fn keep(&self, emitter: &Elemental<'a, 'c>, step: Expr<'c>, brought: &[RegisterValue<'c>]) -> Result<()> {
        let left = &self.slabs[0].chunks;
        let (left, right) = brought.split_at(if left.is_copied { 0 } else { left.places.len() });
        self.pipeline().keep(emitter, step, &[left.to_vec(), right.to_vec()])
    }

    fn parts(&self) -> i64 {
        STEP / WIDTH / self.form.depth
    }

    /// Fragments of the left operand, then of the right one: of every four positions a number of each eight rows, or of the columns.
    fn load(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>, part: i64) -> Result<Vec<Value<'c>>> {
        let (builder, [rows, columns]) = (emitter.builder, self.fragments());
        let mut loaded = Vec::new();
        for (slab, fragments, size) in [(&self.slabs[0], rows, self.form.rows), (&self.slabs[1], columns, EIGHT)] {
            let first = slab.first + step.modulo(self.stages) * (slab.chunks.rows * slab.row());
            for fragment in 0..fragments {
                for four in (0..self.form.depth).step_by(FOUR as usize) {
                    for eight in (0..size).step_by(EIGHT as usize) {
                        let distance = slab.distance(fragment * size + eight, part * self.form.depth + four);
                        let place = emitter.scope.emit(builder, emitter.scope.simplify(first + distance))?;
                        loaded.push(slab.shared.load(builder, &[place]).value);
                    }
                }
            }
        }
        Ok(loaded)
    }

    fn multiply(&self, emitter: &Elemental<'a, 'c>, factors: &[Value<'c>], sums: &mut [Value<'c>]) -> Result<()> {
        let (builder, form, [rows, columns]) = (emitter.builder, self.form, self.fragments());
        let sizes = [form.rows, EIGHT].map(|rows| (rows * form.depth / WARP) as usize);
        let (left, right) = factors.split_at(rows as usize * sizes[0]);
        let right: Vec<&[Value<'c>]> = right.chunks(sizes[1]).collect();
        debug_assert_eq!(right.len() as i64, columns);
        let pairs = left.chunks(sizes[0]).flat_map(|left| right.iter().map(move |&right| (left, right)));
        for ((left, right), sums) in pairs.zip(sums.chunks_mut(form.sums() as usize)) {
            let (operands, r#type) = ([left, right, &*sums].concat(), sums[0].r#type());
            match sums {
                [_, _] => sums.copy_from_slice(&results::<2>(builder, form.intrinsic, &operands, r#type)),
                _ => sums.copy_from_slice(&results::<4>(builder, form.intrinsic, &operands, r#type)),
            }
        }
        Ok(())
    }
}
