//! Reductions of short rows, several of which a vector has the results of: the rows are read as they are in memory, and their terms
//! combined in pairs of neighbours, until there is one number for each row. Rows that divide a vector fill it; of others, those of a
//! few vectors, each has vectors of its own, with neighbouring rows left out of them.
//!
//! To load the first terms of all rows, then the second ones, takes a shuffle for each vector of them, of which LLVM tries
//! to make fewer for long. Of 32,000 rows of 8 elements sums took 43 µs so, and 9 in pairs.

use std::collections::HashSet;
use std::ops::Range;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::{OpClass, definition};
use hlo::shape::ArrayShape;
use indexing::Expr;
use mlir_ext::builder::Value;

use crate::comparisons::combiner_of;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::mapping::{combines, has_functions};
use crate::operand_maps::operand_shape;
use crate::reduction::{CombineLoop, input_map};
use crate::scalar::combiner::Combiner;
use crate::scalar::{self, RegisterValue};
use crate::scope::LaneAccess;
use crate::walk::{Visitor, linear_address, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Terms of a row that divides a vector, at most.
const MOST_TERMS: i64 = 16;

/// Terms of other rows, at least: shorter ones are loaded, a term of all of them at a time, by fewer shuffles.
const LEAST_TERMS: i64 = 9;

/// Vectors of a row, at most, whose lanes are added, and of others, which lanes of a row are combined in more operations.
const MOST_VECTORS_ADDED: i64 = 2;
const MOST_VECTORS: i64 = 3;

/// Rows that are combined together, at most.
const MOST_ROWS: u32 = 16;

/// Bits of integers, at least.
const WHOLE_BITS: u32 = 32;

/// Elements of all rows from which on they are worth the code.
const LEAST_ELEMENTS: i64 = 1 << 12;

/// Lanes of a vector, at least.
const FEWEST_LANES: u32 = 4;

/// Instructions that are emitted for each vector of each row, at most.
const MOST_INSTRUCTIONS: usize = 8;

/// Whether rows of an array, of a computation that reduces them, have vectors of their own, which are combined for as many rows as
/// vectors have lanes.
fn have_own_vectors(computation: &Computation, rows: &ArrayShape, combiner: &Combiner, lanes: u32) -> bool {
    let most = if combiner.sums_floats() { MOST_VECTORS_ADDED } else { MOST_VECTORS };
    let Some(&terms) = rows.dimensions.last() else { return false };
    (LEAST_TERMS..=most * i64::from(lanes)).contains(&terms)
        && (FEWEST_LANES..=MOST_ROWS).contains(&lanes)
        && rows.element_count() >= LEAST_ELEMENTS
        // As many of small integers are combined by one operation for several rows.
        && (rows.element_type.is_float() || rows.element_type.bit_width() >= WHOLE_BITS)
        && computation.instructions.len() <= MOST_INSTRUCTIONS
        && !has_functions(computation)
}

/// Whether vectors of results of a computation are reduced from rows which each have vectors of their own.
pub(crate) fn reduces_rows_together(computation: &Computation, lanes: u32) -> bool {
    let is_of_rows = |reduce: &Instruction| {
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let read = operand_shape(computation, reduce, 0).ok()?;
        let &[dimension] = dimensions else { return None };
        let is_last = dimension as usize + 1 == read.rank() && reduce.operands.len() == 2;
        let combiner = combiner_of(computation, reduce).filter(|_| is_last)?;
        Some(have_own_vectors(computation, read, &combiner, lanes) && is_read_in_order(computation, reduce.operands[0]))
    };
    let mut reductions = computation.instructions.iter().filter(|own| combines(own)).peekable();
    reductions.peek().is_some() && reductions.all(|own| own.kind == OpKind::Reduce && is_of_rows(own) == Some(true))
}

/// A vector of a row: where it begins in the row, and which of its lanes are terms that no other vector has.
struct VectorOfRow {
    start: i64,
    lanes: Range<i64>,
}

/// The vectors of a row of so many terms. Those of a row that is shorter than a vector begin, or end, in neighbouring rows.
fn vectors_of_row(terms: i64, width: i64, ends_with_row: bool) -> Vec<VectorOfRow> {
    if terms < width {
        return vec![match ends_with_row {
            true => VectorOfRow { start: terms - width, lanes: width - terms..width },
            false => VectorOfRow { start: 0, lanes: 0..terms },
        }];
    }
    let whole = (0..terms / width).map(|number| VectorOfRow { start: number * width, lanes: 0..width });
    let rest = terms % width;
    let last = (rest > 0).then(|| VectorOfRow { start: terms - width, lanes: width - rest..width });
    whole.chain(last).collect()
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// Combines the terms of a row for each lane of a result; `None` where they are not one row after the other in memory.
    pub(crate) fn reduce_short_rows(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        loops: &[CombineLoop<'c>],
        combiner: &Combiner,
    ) -> Result<Option<RegisterValue<'c>>> {
        let ([row], Some((lane, lanes))) = (loops, self.scope.lane_variable()) else { return Ok(None) };
        let (terms, width) = (row.extent, i64::from(lanes));
        let divides = (2..=MOST_TERMS.min(width)).contains(&terms) && width % terms == 0;
        let divides = divides && (terms as u64).is_power_of_two();
        let rows = operand_shape(self.computation, instruction, 0)?;
        // All of a row is combined, which is the last dimension.
        let is_last = rows.dimensions.last() == Some(&terms);
        let has_own = is_last && have_own_vectors(self.computation, rows, combiner, lanes);
        let has_names = |&expr: &Expr<'c>| self.scope.depends_through_name(expr, lane);
        if !(divides || has_own) || self.team.is_some() || index.iter().any(has_names) {
            return Ok(None);
        }
        let operand = instruction.operands[0];
        if !is_read_in_order(self.computation, operand) {
            return Ok(None);
        }
        let map = input_map(self.scope.context(), self.computation, instruction)?.map;
        let dimensions = &rows.dimensions;
        // Elements from one on, of a row of so many from the first one on, where these are neighbours.
        let load = |emitter: &mut Self, row_number: i64, start: i64| {
            let vector = emitter.nested(|emitter| -> Result<Option<RegisterValue<'c>>> {
                let own = emitter.scope.add_lanes(lanes) + start;
                let of_row = own.floordiv(terms) + row_number;
                let place = |expr: &Expr<'c>| expr.substitute(&|variable| (variable == lane).then_some(of_row));
                let index: Vec<Expr<'c>> = index.iter().map(place).collect();
                let ranges = row.ranges(own.modulo(terms));
                let simplified = |&result| emitter.scope.simplify(substitute(result, &index, &ranges, &[]));
                let read: Vec<Expr<'c>> = map.results().iter().map(simplified).collect();
                let address = linear_address(emitter.scope.context(), dimensions, &read);
                if emitter.scope.lane_access(emitter.scope.simplify(address)) != LaneAccess::Strided(1) {
                    return Ok(None);
                }
                let element = emitter.evaluate(operand, &read)?;
                Ok(Some(combiner.widen(emitter.builder, &emitter.in_lanes(&element))))
            });
            emitter.scope.resume_lanes((lane, lanes));
            vector
        };
        let mut vectors = Vec::with_capacity(lanes as usize);
        if divides {
            for number in 0..terms {
                let Some(vector) = load(self, number * (width / terms), 0)? else { return Ok(None) };
                vectors.push(vector);
            }
        } else {
            for number in 0..width {
                let mut of_row: Option<RegisterValue<'c>> = None;
                for VectorOfRow { start, lanes: own } in vectors_of_row(terms, width, 2 * number >= width) {
                    let Some(mut vector) = load(self, number, start)? else { return Ok(None) };
                    let repeats = terms >= width && combiner.is_idempotent();
                    if own != (0..width) && !repeats {
                        vector = self.with_lanes(&vector, &own, &combiner.identity(self.builder, Some(lanes)));
                    }
                    of_row = Some(of_row.map_or(vector, |row| combiner.combine(self.builder, &row, &vector)));
                }
                vectors.extend(of_row);
            }
        }
        let every_second = |first: u32| -> Vec<u32> { (0..lanes).map(|lane| 2 * lane + first).collect() };
        let masks = [every_second(0), every_second(1)];
        while vectors.len() > 1 {
            let combined = vectors.chunks_exact(2).map(|pair| {
                let [even, odd] = masks.each_ref().map(|mask| {
                    let parts = pair[0].values().into_iter().zip(pair[1].values());
                    let parts: Vec<Value<'c>> = parts.map(|(a, b)| self.builder.shuffle(a, b, mask)).collect();
                    pair[0].with_values(&parts)
                });
                combiner.combine(self.builder, &even, &odd)
            });
            vectors = combined.collect();
        }
        Ok(vectors.pop())
    }

    /// A vector with the lanes of another one in place of those outside of a part, which is at an end.
    fn with_lanes(
        &self,
        vector: &RegisterValue<'c>,
        own: &Range<i64>,
        others: &RegisterValue<'c>,
    ) -> RegisterValue<'c> {
        let Some(lanes) = vector.lanes else { return *vector };
        let (count, [first, last]) = match own.start {
            0 => (own.end, [vector, others]),
            start => (start, [others, vector]),
        };
        scalar::select(self.builder, self.builder.constant_mask(lanes, count), first, last)
    }
}

/// Whether elements of a value that are next to each other are made of elements next to each other, or of places alone.
fn is_read_in_order(computation: &Computation, value: InstructionId) -> bool {
    let is_scalar =
        |&operand: &InstructionId| computation.get(operand).shape.as_array().is_some_and(|shape| shape.rank() == 0);
    is_made_of(computation, value, |id, own| match own.kind {
        OpKind::Parameter | OpKind::Constant | OpKind::Iota => Some(Source::Itself),
        OpKind::Broadcast if own.operands.iter().all(is_scalar) => Some(Source::Operands),
        OpKind::Broadcast => is_made_of_places(computation, id).then_some(Source::Itself),
        kind => is_element_by_element(kind).then_some(Source::Operands),
    })
}

/// Whether nothing is read for the elements of a value.
fn is_made_of_places(computation: &Computation, value: InstructionId) -> bool {
    is_made_of(computation, value, |_, own| match own.kind {
        OpKind::Iota => Some(Source::Itself),
        OpKind::Constant => own.shape.as_array().filter(|shape| shape.rank() == 0).map(|_| Source::Itself),
        OpKind::Broadcast | OpKind::Reverse => Some(Source::Operands),
        kind => is_element_by_element(kind).then_some(Source::Operands),
    })
}

/// Whether all that a value is computed from has a source that will do.
pub(crate) fn is_made_of(
    computation: &Computation,
    value: InstructionId,
    source: impl Fn(InstructionId, &Instruction) -> Option<Source>,
) -> bool {
    let (mut open, mut seen) = (vec![value], HashSet::from([value]));
    while let Some(id) = open.pop() {
        let own = computation.get(id);
        match source(id, own) {
            None => return false,
            Some(Source::Itself) => {}
            Some(Source::Operands) => open.extend(own.operands.iter().copied().filter(|&next| seen.insert(next))),
        }
    }
    true
}

/// What the elements of a value are made of.
pub(crate) enum Source {
    /// Of nothing that need be looked at.
    Itself,
    Operands,
}

/// Whether elements have the order of those that they are computed from.
fn is_element_by_element(kind: OpKind) -> bool {
    kind == OpKind::Reshape || definition(kind).class == OpClass::Elementwise
}
