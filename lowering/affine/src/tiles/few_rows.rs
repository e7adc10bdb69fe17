//! Products of few rows, or few columns: what is read of the larger operand is multiplied with all of them.
//!
//! The threads of a block divide the larger operand's columns (or rows) among each other, and the terms. Each has the sums of
//! its columns with all of the few rows in registers; then those of all parts of the terms are added up in an order that does not change.
//!
//! ```text
//!                larger operand          thread
//!  along terms   neighbours are terms    vectors of terms, of some columns; a warp, or a block, divides the terms
//!  across        neighbours are columns  vectors of columns, of some terms; groups of threads have parts of the terms
//! ```

use hlo::graph::Computation;
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use indexing::{Expr, IndexingMap, Interval, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, Value};

use super::{
    BUSY_BLOCKS, LEAST_SIDE, Product, Result, THREADS, Tile, is_near_along_depth, tile, vectors_of, where_inside,
};
use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::map_to_gpu::widest_lanes;
use crate::mapping::invalid;
use crate::memory::ArrayRef;
use crate::operand_maps::result_shape;
use crate::scalar::combiner::Combiner;
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::team::{SharedValues, WARP, barrier, exchange, is_term};
use crate::walk::{Choice, Visitor};

/// Terms from which on it is worth dividing them.
const LEAST_TERMS: i64 = 32;

/// Terms that are worth a block, where columns alone keep no GPU busy.
const LEAST_TERMS_OF_BLOCK: i64 = 2048;

/// Terms that a thread has at least, of columns that lie abreast.
const LEAST_TERMS_OF_THREAD: i64 = 8;

/// Neighbouring terms that a thread takes of columns that lie abreast.
const TERMS_ABREAST: i64 = 4;

/// Parts of the terms of columns that lie abreast: no fewer columns side by side than fill a sector of memory.
const MOST_PARTS_ABREAST: i64 = 64;

/// Words of the sums of a thread, at most.
const MOST_SUMS: i64 = 32;

/// Columns of which a thread takes vectors of terms.
const MOST_COLUMNS: i64 = 4;

/// How the threads of a block divide a product.
struct Division {
    /// The operand of many columns (or rows).
    many: usize,
    /// Whether its neighbours are terms.
    is_along_terms: bool,
    /// Parts of the terms.
    parts: i64,
    /// Columns of a thread.
    columns: i64,
    /// Neighbouring terms that it takes at once.
    terms: i64,
}

impl Division {
    /// That of a product, from whose work `map` leads to its result.
    fn of<'c>(computation: &Computation, product: &Product<'_, 'c>, map: &IndexingMap<'c>) -> Result<Self> {
        let ([batch, rows, columns], depth) = product.sizes();
        let many = usize::from(columns >= rows);
        let (few, columns) = (rows.min(columns), rows.max(columns));
        let words = i64::from(product.accumulator(computation)?.bit_width() / 32).max(1);
        let fits = |columns: i64| columns * few * words <= MOST_SUMS;
        let is_along_terms = is_near_along_depth(computation, product.instruction, &product.maps, many)?;
        let lanes = i64::from(widest_lanes(computation));
        let widest = |operand: usize, direction: usize, most: i64, suits: &dyn Fn(i64) -> bool| -> Result<i64> {
            let mut count = most;
            while count > 1 {
                if suits(count) && vectors_of(product, map, computation, (operand, direction), count)?.is_some() {
                    return Ok(count);
                }
                count /= 2;
            }
            Ok(1)
        };
        let blocks = |of_block: i64| batch * ceil_div(columns, of_block);
        if is_along_terms {
            let terms = widest(many, 1, lanes, &|_| true)?;
            let warps = THREADS / WARP;
            if blocks(warps) < BUSY_BLOCKS && depth >= LEAST_TERMS_OF_BLOCK {
                return Ok(Division { many, is_along_terms, parts: THREADS, columns: 1, terms });
            }
            let mut own = MOST_COLUMNS;
            while own > 1 && (!fits(own) || blocks(own * warps) < 2 * BUSY_BLOCKS) {
                own /= 2;
            }
            return Ok(Division { many, is_along_terms, parts: WARP, columns: own, terms });
        }
        let own = widest(many, 0, lanes, &fits)?;
        let mut terms = TERMS_ABREAST;
        while depth % terms != 0 {
            terms /= 2;
        }
        let mut parts = 1;
        let is_wide = |parts: i64| THREADS / parts * own > columns || blocks(THREADS / parts * own) < 2 * BUSY_BLOCKS;
        while parts < MOST_PARTS_ABREAST && is_wide(parts) && depth >= 2 * parts * LEAST_TERMS_OF_THREAD {
            parts *= 2;
        }
        Ok(Division { many, is_along_terms, parts, columns: own, terms })
    }

    /// Threads side by side, each with columns of its own.
    fn members(&self) -> i64 {
        THREADS / self.parts
    }

    /// Columns of a block.
    fn of_block(&self) -> i64 {
        self.columns * self.members()
    }

    /// Rows and columns of a block, where there are so many in all.
    fn tiles(&self, sizes: [i64; 2]) -> [i64; 2] {
        let mut tiles = sizes;
        tiles[self.many] = self.of_block();
        tiles
    }
}

/// The mapping of a fusion with a product of few rows or columns.
pub(crate) fn few_rows_of<'c>(
    context: &'c Context,
    computation: &Computation,
    sizes: &[i64],
) -> Result<Option<WorkMapping<'c>>> {
    let Some(product) = Product::of(context, computation)? else { return Ok(None) };
    let accumulator = product.accumulator(computation)?;
    let ([batch, rows, columns], depth) = product.sizes();
    let is_sum = !accumulator.is_complex() && accumulator.bit_width() >= 32;
    // Less is a part of any block's work.
    let is_large = batch * rows * columns > WARP && depth >= LEAST_TERMS;
    if sizes != result_shape(product.instruction)?.dimensions || !is_sum || !is_large || rows.min(columns) >= LEAST_SIDE
    {
        return Ok(None);
    }
    let index = product.index(context)?;
    let map = IndexingMap::from_sizes(context, &[batch, rows, columns], &[], index.clone());
    let division = Division::of(computation, &product, &map)?;
    if rows.max(columns) < division.members() {
        return Ok(None);
    }
    let tiles = division.tiles([rows, columns]);
    let team = WorkDimension { kind: WorkKind::Team, ..WorkDimension::sequential() };
    Ok(Some(WorkMapping {
        map: IndexingMap::from_sizes(context, &[batch, rows, columns, division.parts], &[], index),
        dimensions: vec![tile(1), tile(tiles[0]), tile(tiles[1]), team],
        inner_lanes: 1,
        overlap: false,
        rows: None,
    }))
}

/// Whether a mapping is one of a product of few rows.
pub(super) fn are_few(mapping: &WorkMapping<'_>) -> bool {
    let kinds = mapping.dimensions.iter().map(|own| own.kind);
    kinds.eq([WorkKind::Tile, WorkKind::Tile, WorkKind::Tile, WorkKind::Team])
}

/// Emits the part of a fusion that a block computes.
pub(super) fn emit<'a, 'c>(
    tile: &Tile<'_, 'a, 'c>,
    emitter: &mut Elemental<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let division = Division::of(emitter.computation, &tile.product, &tile.mapping.map)?;
    let ([_, rows, columns], _) = tile.product.sizes();
    if division.tiles([rows, columns]) != [tile.side(), tile.columns()]
        || division.parts != tile.mapping.bounds(3).upper + 1
    {
        return Err(invalid("a product of few rows is not divided so".into()));
    }
    FewRows::new(tile, division, emitter)?.emit(emitter, outputs, function)
}

/// What a thread takes at once of an operand.
#[derive(Clone, Copy)]
struct Neighbours {
    operand: usize,
    /// 1 along the terms, 0 across them.
    direction: usize,
    count: i64,
    /// Whether they are a vector in memory.
    are_vector: bool,
}

struct FewRows<'t, 'm, 'a, 'c> {
    tile: &'t Tile<'m, 'a, 'c>,
    division: Division,
    /// The few rows.
    few: i64,
    /// The part of the terms that the thread has, and its number among those with other columns.
    part: Expr<'c>,
    member: Expr<'c>,
    /// Where the thread's columns begin that are taken together.
    columns: Vec<Expr<'c>>,
    /// What it takes of the few rows, and of the many columns.
    of_few: Neighbours,
    of_many: Neighbours,
}

impl<'t, 'm, 'a, 'c> FewRows<'t, 'm, 'a, 'c> {
    fn new(tile: &'t Tile<'m, 'a, 'c>, division: Division, emitter: &mut Elemental<'a, 'c>) -> Result<Self> {
        let (thread, members) = (tile.thread, division.members());
        let Division { many, is_along_terms, parts, columns, terms } = division;
        let (part, member) = match is_along_terms {
            true => (thread.modulo(parts), thread.floordiv(parts)),
            false => (thread.floordiv(members), thread.modulo(members)),
        };
        let (part, member) = (emitter.emit_symbol(part, parts)?, emitter.emit_symbol(member, members)?);
        // Beyond the last columns are these once more: nobody stores them.
        let mut first_of = |number: Expr<'c>, width: i64| -> Result<Expr<'c>> {
            let count = tile.sizes[many] / width;
            let wanted = emitter.scope.simplify(tile.firsts[many].floordiv(width) + number);
            let last = emitter.scope.constant(count - 1);
            let kept = emitter.builder.as_symbols(|builder| emitter.scope.emit_min(builder, &[wanted, last]))?;
            Ok(emitter.scope.add_variable(Interval::of_size(count), Binding::Symbol(kept)) * width)
        };
        let columns = match is_along_terms {
            true => (0..columns).map(|own| first_of(member * columns + own, 1)).collect::<Result<_>>()?,
            false => vec![first_of(member, columns)?],
        };
        let map = &tile.mapping.map;
        let neighbours = |operand: usize, direction: usize, count: i64| -> Result<Neighbours> {
            let found = vectors_of(&tile.product, map, emitter.computation, (operand, direction), count)?;
            Ok(Neighbours { operand, direction, count, are_vector: count > 1 && found.is_some() })
        };
        let of_few = neighbours(1 - many, 1, terms)?;
        let of_many = match is_along_terms {
            true => neighbours(many, 1, terms)?,
            false => neighbours(many, 0, division.columns)?,
        };
        let few = tile.sizes[1 - many];
        Ok(FewRows { tile, division, few, part, member, columns, of_few, of_many })
    }

    fn emit(&self, emitter: &mut Elemental<'a, 'c>, outputs: &[ArrayRef<'c>], function: &Body<'c>) -> Result<()> {
        let Division { parts, columns, terms, .. } = self.division;
        let zero = self.tile.zero;
        let chunks = self.tile.depth / terms;
        let sums = vec![zero.value; (self.few * columns) as usize];
        let mut sums =
            emitter.loop_in(Interval::of_size(chunks / parts), None, sums, &mut |emitter, round, sums| {
                self.step(emitter, round * parts + self.part, &sums)
            })?;
        if chunks % parts > 0 {
            let (wanted, last) = (self.part + chunks / parts * parts, emitter.scope.constant(chunks - 1));
            let condition = [is_term(wanted, chunks)];
            let types = vec![zero.element_type; sums.len()];
            let choice = Choice { conditions: &condition, types: &types, index: &[], sizes: &[] };
            let last_sums = emitter.choose(
                &choice,
                &mut |emitter, _| {
                    let kept = emitter.scope.emit_min(emitter.builder, &[wanted, last])?;
                    let kept = index_binding(emitter.builder, kept);
                    let kept = emitter.scope.add_variable(Interval::of_size(chunks), kept);
                    Ok(self.typed(&self.step(emitter, kept, &sums)?))
                },
                &mut |_| Ok(self.typed(&sums)),
            )?;
            sums = last_sums.iter().map(|sum| sum.value).collect();
        }
        self.finish(emitter, outputs, function, &sums)
    }

    fn typed(&self, sums: &[Value<'c>]) -> Vec<RegisterValue<'c>> {
        sums.iter().map(|&sum| self.tile.zero.with_values(&[sum])).collect()
    }

    /// The sums with the products at some neighbouring terms more.
    fn step(&self, emitter: &mut Elemental<'a, 'c>, chunk: Expr<'c>, sums: &[Value<'c>]) -> Result<Vec<Value<'c>>> {
        let Division { many, is_along_terms, columns, terms, .. } = self.division;
        let first = chunk * terms;
        // Of the larger operand, by columns and terms.
        let mut larger = Vec::new();
        match is_along_terms {
            true => {
                for &column in &self.columns {
                    larger.push(self.neighbours(emitter, self.of_many, [column, first])?);
                }
            }
            false => {
                let mut rows = Vec::new();
                for term in 0..terms {
                    rows.push(self.neighbours(emitter, self.of_many, [self.columns[0], first + term])?);
                }
                let of_column = |own: i64| rows.iter().map(|row| row[own as usize]).collect();
                larger.extend((0..columns).map(of_column));
            }
        }
        let mut sums = self.typed(sums);
        for row in 0..self.few {
            let row_expr = emitter.scope.constant(row);
            let own = self.neighbours(emitter, self.of_few, [row_expr, first])?;
            for (column, other) in larger.iter().enumerate() {
                let sum = &mut sums[row as usize * columns as usize + column];
                for (own, other) in own.iter().zip(other) {
                    let (lhs, rhs) = if many == 1 { (own, other) } else { (other, own) };
                    *sum = emitter.multiply_add(self.tile.product.instruction, lhs, rhs, sum)?;
                }
            }
        }
        Ok(sums.iter().map(|sum| sum.value).collect())
    }

    /// Neighbouring elements of an operand, from a column (or row) and a term on, as what is summed.
    fn neighbours(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        Neighbours { operand, direction, count, are_vector }: Neighbours,
        first: [Expr<'c>; 2],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let zero = self.tile.zero;
        let element = |emitter: &mut Elemental<'a, 'c>, distance: Expr<'c>| {
            let mut place = first;
            place[direction] = place[direction] + distance;
            self.tile.element(emitter, operand, (place, first), zero, &mut |emitter, id, index| {
                let value = emitter.evaluate(id, index)?;
                let wide = scalar::convert::convert(emitter.builder, &value, zero.element_type);
                wide.ok_or_else(|| LoweringError::bug("an operand that cannot be summed"))
            })
        };
        if are_vector {
            let lanes = count as u32;
            let vector = emitter.nested(|emitter| {
                let lane = emitter.scope.add_lanes(lanes);
                element(emitter, lane)
            })?;
            let vector = scalar::splat(emitter.builder, &vector, Some(lanes));
            return Ok((0..lanes).map(|lane| scalar::registers::extract(emitter.builder, &vector, lane)).collect());
        }
        let mut elements = Vec::with_capacity(count as usize);
        for number in 0..count {
            elements.push(emitter.nested(|emitter| {
                let distance = emitter.scope.constant(number);
                element(emitter, distance)
            })?);
        }
        Ok(elements)
    }

    /// Adds up what the parts have, and stores what becomes of it: each thread that of some elements.
    fn finish(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outputs: &[ArrayRef<'c>],
        function: &Body<'c>,
        sums: &[Value<'c>],
    ) -> Result<()> {
        let (builder, zero, few) = (emitter.builder, self.tile.zero, self.few);
        let Division { many, is_along_terms, parts, columns, .. } = self.division;
        let combiner = Combiner::sum(zero.element_type);
        let mut sums = self.typed(sums);
        // The lanes of a warp exchange theirs; what is left has several parts, a warp each, or a group of threads each.
        let of_warp = if is_along_terms { WARP } else { 1 };
        let mut distance = of_warp / 2;
        while distance > 0 {
            for sum in &mut sums {
                let other = zero.with_values(&[exchange(builder, sum.value, distance)]);
                *sum = combiner.combine(builder, sum, &other);
            }
            distance /= 2;
        }
        let (left, of_block) = (parts / of_warp, self.division.of_block());
        let shared = SharedValues::new(builder, function, &zero, &[left, few, of_block]);
        let emit =
            |emitter: &Elemental<'a, 'c>, expr: Expr<'c>| emitter.scope.emit(builder, emitter.scope.simplify(expr));
        emitter.where_not_negative(&[-self.part.modulo(of_warp)], |emitter| {
            let part = emit(emitter, self.part.floordiv(of_warp))?;
            for (number, sum) in (0..).zip(&sums) {
                let column = emit(emitter, self.member * columns + number % columns)?;
                shared.store(builder, sum, &[part, builder.constant_index(number / columns), column]);
            }
            Ok(())
        })?;
        barrier(builder);
        let rounds = ceil_div(few * of_block, THREADS);
        emitter.loop_in(Interval::of_size(rounds), None, Vec::new(), &mut |emitter, round, _| {
            let number = round * THREADS + self.tile.thread;
            let (row, column) = (number.floordiv(of_block), number.modulo(of_block));
            let (row, column) = (emitter.scope.simplify(row), emitter.scope.simplify(column));
            let along = self.tile.firsts[many] + column;
            let place = if many == 1 { [row, along] } else { [along, row] };
            where_inside(emitter, place, self.tile.sizes, |emitter| {
                let at = [emit(emitter, row)?, emit(emitter, column)?];
                let value = |part: i64| shared.load(builder, &[builder.constant_index(part), at[0], at[1]]);
                let total = (1..left).fold(value(0), |total, part| combiner.combine(builder, &total, &value(part)));
                self.tile.store(emitter, outputs, &[self.tile.batch, place[0], place[1]], &total)
            })?;
            Ok(Vec::new())
        })?;
        Ok(())
    }
}
