//! Tiles by the multiply-adds of threads: each has some rows and columns of the tile in registers.

use indexing::{Expr, Interval, ceil_div};
use mlir_ext::builder::{Body, Value};

use super::{Result, THREADS, Tile, is_near_along_depth};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue, register_type};
use crate::scope::Binding;
use crate::team::{SharedValues, barrier};
use crate::walk::Visitor;

/// Threads of a block, along rows and along columns.
const SIDE: i64 = 16;

/// Rows and columns of the smallest tile.
pub(super) const SMALLEST_TILE: i64 = 2 * SIDE;

/// Elements of each operand that a thread brings in each step.
const LOADS: i64 = 4;

/// Columns that a thread computes side by side, as a vector.
const VECTOR: i64 = 4;

/// Elements between the rows of shared memory beyond their own, so that columns lie in different banks.
const PADDING: i64 = 4;

/// One operand's part of the product.
struct Slab<'c> {
    operand: usize,
    /// Where the thread's elements are in a tile and in a step.
    places: Vec<[Expr<'c>; 2]>,
    shared: SharedValues<'c>,
}

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
    /// Where the thread's first row and first columns are in the tile.
    row: Expr<'c>,
    column: Expr<'c>,
    /// Contracted positions of a step.
    step: i64,
}

impl<'t, 'm, 'a, 'c> MultiplyAdds<'t, 'm, 'a, 'c> {
    fn new(tile: &'t Tile<'m, 'a, 'c>, emitter: &mut Elemental<'a, 'c>, function: &Body<'c>) -> Result<Self> {
        let builder = emitter.builder;
        let (side, thread) = (tile.side(), tile.thread);
        let row = emitter.emit_symbol(thread.floordiv(SIDE), SIDE)?;
        let column = emitter.emit_symbol(thread.modulo(SIDE), SIDE)?;
        let step = THREADS * LOADS / side;
        let mut slabs = Vec::with_capacity(2);
        for operand in 0..2 {
            let is_along_depth =
                is_near_along_depth(emitter.computation, tile.product.instruction, &tile.product.maps, operand)?;
            let mut places = Vec::new();
            for number in 0..LOADS {
                // Neighbouring threads bring neighbouring elements.
                let (inner, inner_size) = if is_along_depth { (step, side) } else { (side, step) };
                let fast = emitter.emit_symbol(thread.modulo(inner), inner)?;
                let slow = emitter.emit_symbol(thread.floordiv(inner), THREADS / inner)? + number * (THREADS / inner);
                debug_assert_eq!(THREADS / inner * LOADS, inner_size);
                places.push(if is_along_depth { [slow, fast] } else { [fast, slow] });
            }
            let shared = SharedValues::new(builder, function, &tile.zero, &[step, side + PADDING]);
            slabs.push(Slab { operand, places, shared });
        }
        let slabs: [Slab<'c>; 2] = slabs.try_into().map_err(|_| LoweringError::bug("a product has two operands"))?;
        Ok(MultiplyAdds { tile, slabs, row, column, step })
    }

    fn emit(&self, emitter: &mut Elemental<'a, 'c>, outputs: &[ArrayRef<'c>]) -> Result<()> {
        let builder = emitter.builder;
        let steps = ceil_div(self.tile.depth, self.step);
        let side = self.tile.side();
        let (rows, vectors) = (side / SIDE, (side / SIDE / VECTOR).max(1));
        let width = (side / SIDE).min(VECTOR);
        let zero = builder.zero(register_type(builder, self.tile.zero.element_type, Some(width as u32)));
        let first = self.bring(emitter, emitter.scope.constant(0))?;
        let mut state = vec![zero; (rows * vectors) as usize];
        let sums = state.len();
        state.extend(first.iter().flat_map(RegisterValue::values));
        let state = emitter.loop_in(Interval::of_size(steps), None, state, &mut |emitter, step, state| {
            let (sums, brought) = state.split_at(sums);
            let mut brought = brought.iter();
            for slab in &self.slabs {
                for place in &slab.places {
                    let value = brought.next().map_or(self.tile.zero, |value| self.tile.zero.with_values(&[*value]));
                    let [along, depth] = *place;
                    let place = [emitter.scope.emit(builder, depth)?, emitter.scope.emit(builder, along)?];
                    slab.shared.store(builder, &value, &place);
                }
            }
            barrier(builder);
            // In the last step nobody needs what comes: it is the last slab again.
            let next = emitter.scope.emit_min(builder, &[step + 1, emitter.scope.constant(steps - 1)])?;
            let next = emitter.scope.add_variable(Interval::of_size(steps), Binding::Index(next));
            let brought = self.bring(emitter, next)?;
            let mut next: Vec<Value<'c>> = self.multiply(emitter, sums, (rows, vectors, width))?;
            barrier(builder);
            next.extend(brought.iter().flat_map(RegisterValue::values));
            Ok(next)
        })?;
        let are_vectors = self.tile.has_vectors(emitter.computation, width)?;
        for row in 0..rows {
            for vector in 0..vectors {
                let sum = state[(row * vectors + vector) as usize];
                let sums: Vec<Value<'c>> = (0..width).map(|lane| builder.extract_lane(sum, lane as u32)).collect();
                let place = (self.row_of(row, rows), self.column_of(vector, width));
                self.tile.finish_row(emitter, outputs, place, (&sums, are_vectors))?;
            }
        }
        Ok(())
    }

    /// The place in the tile of one of a thread's rows: groups of neighbours, each group of all threads next to each other.
    fn row_of(&self, row: i64, rows: i64) -> Expr<'c> {
        let group = rows.min(VECTOR);
        self.row * group + (row / group * group * SIDE + row % group)
    }

    /// The place in the tile of the first column of one of a thread's vectors.
    fn column_of(&self, vector: i64, width: i64) -> Expr<'c> {
        self.column * width + vector * width * SIDE
    }

    /// The thread's elements of both operands in a step.
    fn bring(&self, emitter: &mut Elemental<'a, 'c>, step: Expr<'c>) -> Result<Vec<RegisterValue<'c>>> {
        let mut brought = Vec::new();
        for slab in &self.slabs {
            for &[along, depth] in &slab.places {
                let position = step * self.step + depth;
                let place = [self.tile.firsts[slab.operand] + along, position];
                brought.push(emitter.nested(|emitter| self.element(emitter, slab.operand, place))?);
            }
        }
        Ok(brought)
    }

    /// The element of an operand at a row (or column) and a contracted position; zero where there is none.
    fn element(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        operand: usize,
        place: [Expr<'c>; 2],
    ) -> Result<RegisterValue<'c>> {
        let zero = self.tile.zero;
        self.tile.element(emitter, operand, (place, place), zero, &mut |emitter, id, index| {
            let value = emitter.evaluate(id, index)?;
            let wide = scalar::convert::convert(emitter.builder, &value, zero.element_type);
            wide.ok_or_else(|| LoweringError::bug("an operand that cannot be summed"))
        })
    }

    /// Adds the products of what is in shared memory to the sums.
    fn multiply(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        sums: &[Value<'c>],
        (rows, vectors, width): (i64, i64, i64),
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let [left, right] = &self.slabs;
        let lanes = Some(width as u32);
        let group = rows.min(VECTOR);
        let firsts = |expr: Expr<'c>, emitter: &Elemental<'_, 'c>| emitter.scope.emit(builder, expr);
        let row_places: Vec<Value<'c>> =
            (0..rows / group).map(|own| firsts(self.row_of(own * group, rows), emitter)).collect::<Result<_>>()?;
        let column_places: Vec<Value<'c>> =
            (0..vectors).map(|own| firsts(self.column_of(own, width), emitter)).collect::<Result<_>>()?;
        let like = scalar::splat(builder, &self.tile.zero, lanes);
        let mut sums: Vec<RegisterValue<'c>> = sums.iter().map(|&sum| like.with_values(&[sum])).collect();
        for position in 0..self.step {
            let position = builder.constant_index(position);
            let load = |slab: &Slab<'c>, place: Value<'c>, lanes: i64| {
                slab.shared.load_vector(builder, &[position, place], lanes as u32)
            };
            let own_rows: Vec<RegisterValue<'c>> = row_places
                .iter()
                .flat_map(|&place| {
                    let rows = load(left, place, group);
                    (0..group)
                        .map(move |row| scalar::registers::extract(builder, &rows, row as u32))
                        .collect::<Vec<_>>()
                })
                .collect();
            let own_columns: Vec<RegisterValue<'c>> =
                column_places.iter().map(|&place| load(right, place, width)).collect();
            for (row, left) in own_rows.iter().enumerate() {
                for (vector, right) in own_columns.iter().enumerate() {
                    let sum = &mut sums[row * vectors as usize + vector];
                    *sum = emitter.multiply_add(self.tile.product.instruction, left, right, sum)?;
                }
            }
        }
        Ok(sums.iter().map(|sum| sum.value).collect())
    }
}
