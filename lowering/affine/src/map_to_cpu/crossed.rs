//! Rows that are no whole number of vectors, through which vectors go one after another, as they are in memory.
//!
//! Of as few rows as are a whole number of vectors each vector has its own code: the places of its lanes in the rows are known, so
//! that what it reads is some vectors and a shuffle, and what conditions choose a blend.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use indexing::{Var, ceil_div};
use passes::fuse::is_function;

use super::Loop;
use super::lanes::lanes_of_shuffles;
use crate::kernel::are_together;
use crate::mapping::combines;
use crate::trace::coefficient;
use crate::traced::Traced;

/// Instructions up to which the vectors of a few rows, each of which has code of its own, are written out, of all vectors; and those
/// that a function and an array that is read count as.
const MOST_INSTRUCTIONS: i64 = 256;
const INSTRUCTIONS_OF_FUNCTION: i64 = 16;
const INSTRUCTIONS_OF_LOAD: i64 = 3;

/// Vectors of the longest rows.
const MOST_VECTORS: i64 = 4;

/// Of vectors that go along rows one in so many is to be saved, at least.
const VECTORS_FOR_ONE: i64 = 5;

/// How vectors go through rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    /// Rows that are a whole number of vectors.
    pub(super) rows: u32,
    pub(super) lanes: u32,
}

/// How vectors go through the rows of the last loop, if they are short and all that is read for a vector is near; `in_place` says
/// whether what vectors along a row share would be read just after it was written.
pub(super) fn crossing(
    computation: &Computation,
    loops: &[Loop],
    groups: &[(usize, usize)],
    traced: &Traced<'_>,
    (lanes, in_place): (u32, bool),
) -> Option<Crossing> {
    let [.., rows, row] = loops else { return None };
    let &[.., (_, end), (last, _)] = groups else { return None };
    let &[size] = &row.sizes[..] else { return None };
    let lanes = lanes_of_shuffles(computation, lanes);
    // A register holds fewer complex numbers than lanes.
    let width = i64::from(if has_complex(computation) { lanes / 2 } else { lanes });
    let vectors_along = ceil_div(size, width);
    let saves = VECTORS_FOR_ONE * (vectors_along * width - size) >= vectors_along * width || in_place;
    let is_short = size >= 2 && size < MOST_VECTORS * width && size % width != 0 && (size < width || saves);
    let together = 1 << (size | i64::from(lanes)).trailing_zeros();
    let crossing = Crossing { rows: lanes / together, lanes };
    let operations =
        computation.instructions.iter().map(|own| if is_function(own) { INSTRUCTIONS_OF_FUNCTION } else { 1 });
    let work = operations.sum::<i64>() + INSTRUCTIONS_OF_LOAD * traced.found.loads.len() as i64;
    let is_little = size / i64::from(together) * work <= MOST_INSTRUCTIONS && rows.is_as_long_as(lanes);
    let is_taken = |own: &Instruction| own.kind == OpKind::ReduceWindow || !combines(own);
    if !is_short || !is_little || !computation.instructions.iter().all(is_taken) {
        return None;
    }
    let (row, along) = (traced.variables[end - 1].as_variable()?, traced.variables[last].as_variable()?);
    // Where a row is looked up, or the same elements of each row, a loop along it finds more together than lanes that look up each.
    let lookups = &traced.found.lookups;
    let looks_up_by = |variable: Var| lookups.iter().any(|&lookup| traced.scope.depends(lookup, variable));
    let looks_up_each = looks_up_by(row) == looks_up_by(along);
    if !traced.found.window_conditions.is_empty() || !looks_up_each {
        return None;
    }
    let decided = traced.found.conditions.iter().all(|condition| {
        let by_row = traced.scope.depends(condition.expr, row);
        let is_cut = || !rows.cuts.is_empty() || traced.found.is_distance_from_start(&traced.scope, condition, row);
        !by_row || !traced.scope.depends(condition.expr, along) && is_cut()
    });
    // What is the same along a few neighbours is read and computed once for them, if these are taken together.
    let is_repeated =
        are_together(size, computation) && !traced.found.loads.iter().any(|load| traced.scope.depends(load.1, along));
    (decided && !is_repeated && reads_near(traced, (row, along), size, crossing)).then_some(crossing)
}

fn has_complex(computation: &Computation) -> bool {
    let mut arrays = computation.instructions.iter().filter_map(|instruction| instruction.shape.as_array());
    arrays.any(|array| array.rank() > 0 && array.element_type.is_complex())
}

/// Whether two vectors hold all that so many lanes read of an array, which go through rows of some elements.
fn reads_near(traced: &Traced<'_>, (row, along): (Var, Var), size: i64, crossing: Crossing) -> bool {
    let (rows, lanes) = (i64::from(crossing.rows), i64::from(crossing.lanes));
    traced.found.addresses.iter().all(|&address| {
        let by_row = coefficient(&traced.scope, address, row);
        let within = coefficient(&traced.scope, address, along);
        by_row.zip(within).is_some_and(|(by_row, within)| {
            (0..rows * size / lanes).all(|number| {
                let places =
                    (number * lanes..(number + 1) * lanes).map(|own| own / size * by_row + own % size * within);
                let (least, most) =
                    places.fold((i64::MAX, i64::MIN), |(least, most), place| (least.min(place), most.max(place)));
                most - least < 2 * lanes
            })
        })
    })
}
