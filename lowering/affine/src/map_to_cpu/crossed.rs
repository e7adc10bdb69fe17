//! Rows that are no whole number of vectors, through which vectors go one after another, as they are in memory.
//!
//! Of as few rows as are a whole number of vectors each vector has its own code: the places of its lanes in the rows are known, so
//! that what it reads is some vectors and a shuffle, and what conditions choose a blend.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use indexing::{Var, ceil_div};
use passes::fuse::is_function;

use super::lanes::lanes_of_shuffles;
use super::{Loop, terms};
use crate::kernel::are_together;
use crate::mapping::combines;
use crate::trace::coefficient;
use crate::traced::Traced;

/// Instructions up to which the vectors of a few rows, each of which has code of its own, are written out, of all vectors; and those
/// that a function and an array that is read count as.
const MOST_INSTRUCTIONS: i64 = 288;
const INSTRUCTIONS_OF_FUNCTION: i64 = 16;
const INSTRUCTIONS_OF_LOAD: i64 = 3;

/// Vectors of the longest rows.
const MOST_VECTORS: i64 = 4;

/// Elements of the largest matrices that lanes go through one after another, and products that are summed for one at most.
const MOST_ELEMENTS_OF_MATRIX: i64 = 16;
const MOST_TERMS: i64 = 4;

/// Registers that hold all that the lanes of a vector read of an array, at most.
const REGISTERS_READ: i64 = 4;

/// Runs of neighbours that they are, at most, where these are further from each other.
const MOST_RUNS: usize = 6;

/// Of vectors that go along rows one in so many is to be saved, at least.
const VECTORS_FOR_ONE: i64 = 5;

/// How vectors go through rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    /// Rows that are a whole number of vectors.
    pub(super) rows: u32,
    pub(super) lanes: u32,
}

/// The groups of a nest whose innermost two loops go through a small matrix each, as one, if elements are sums of a few products: lanes
/// that go through one matrix after another find their factors near each other, where those along a row are too few.
pub(super) fn small_matrices(
    computation: &Computation,
    groups: &[(usize, usize)],
    sizes: &[i64],
) -> Option<Vec<(usize, usize)>> {
    let &[.., _, (first, middle), (last, end)] = groups else { return None };
    let is_one_each = middle == first + 1 && end == last + 1 && end == sizes.len();
    let elements = sizes[first..].iter().product::<i64>();
    let is_small = sizes[first..].iter().all(|&size| size >= 2) && elements <= MOST_ELEMENTS_OF_MATRIX;
    let has_sums = computation.instructions.iter().any(|own| sums_few(computation, own));
    (is_one_each && is_small && has_sums).then(|| {
        let mut joined = groups[..groups.len() - 2].to_vec();
        joined.push((first, end));
        joined
    })
}

/// Whether an instruction reduces one array, and few of its elements to each.
fn sums_few(computation: &Computation, own: &Instruction) -> bool {
    own.kind == OpKind::Reduce && own.operands.len() == 2 && terms(computation, own) <= MOST_TERMS
}

/// How vectors go through the rows of the last loop, if they are short and all that is read for a vector is near; `in_place` says
/// whether what vectors along a row share would be read just after it was written. A row may be a small matrix.
pub(super) fn crossing(
    computation: &Computation,
    loops: &[Loop],
    groups: &[(usize, usize)],
    traced: &Traced<'_>,
    (lanes, in_place): (u32, bool),
) -> Option<Crossing> {
    let [.., rows, row] = loops else { return None };
    let &[.., (_, end), (first, _)] = groups else { return None };
    let size = row.sizes.iter().product::<i64>();
    let is_matrix = row.sizes.len() > 1;
    if is_matrix && !computation.instructions.iter().any(|own| sums_few(computation, own)) {
        return None;
    }
    let lanes = lanes_of_shuffles(computation, lanes);
    // A register holds fewer complex numbers than lanes.
    let width = i64::from(if has_complex(computation) { lanes / 2 } else { lanes });
    let vectors_along = ceil_div(size, width);
    let saves = VECTORS_FOR_ONE * (vectors_along * width - size) >= vectors_along * width || in_place;
    let is_uneven = size % width != 0 && (size < width || saves);
    let is_short = size >= 2 && size < MOST_VECTORS * width && (is_uneven || is_matrix);
    let together = 1 << (size | i64::from(lanes)).trailing_zeros();
    let crossing = Crossing { rows: lanes / together, lanes };
    let operations =
        computation.instructions.iter().map(|own| if is_function(own) { INSTRUCTIONS_OF_FUNCTION } else { 1 });
    let sums = computation.instructions.iter().filter(|own| own.kind == OpKind::Reduce);
    let most_terms = sums.fold(1, |most, own| terms(computation, own).max(most));
    let work = operations.sum::<i64>() + INSTRUCTIONS_OF_LOAD * most_terms * traced.found.loads.len() as i64;
    let is_little = size / i64::from(together) * work <= MOST_INSTRUCTIONS && rows.is_as_long_as(lanes);
    let is_taken = |own: &Instruction| {
        own.kind == OpKind::ReduceWindow || !combines(own) || is_matrix && sums_few(computation, own)
    };
    if !is_short || !is_little || !computation.instructions.iter().all(is_taken) {
        return None;
    }
    let row_variable = traced.variables[end - 1].as_variable()?;
    let along: Vec<Var> =
        (first..first + row.sizes.len()).map(|own| traced.variables[own].as_variable()).collect::<Option<_>>()?;
    let depends_along = |expr| along.iter().any(|&along| traced.scope.depends(expr, along));
    // Where a row is looked up, or the same elements of each row, a loop along it finds more together than lanes that look up each.
    let lookups = &traced.found.lookups;
    let looks_up_by_row = traced.found.looks_up_by(&traced.scope, row_variable);
    let looks_up_each = looks_up_by_row == lookups.iter().any(|&lookup| depends_along(lookup));
    if !traced.found.window_conditions.is_empty() || !looks_up_each {
        return None;
    }
    let decided = traced.found.conditions.iter().all(|condition| {
        let by_row = traced.scope.depends(condition.expr, row_variable);
        let is_cut =
            || !rows.cuts.is_empty() || traced.found.is_distance_from_start(&traced.scope, condition, row_variable);
        !by_row || !depends_along(condition.expr) && is_cut()
    });
    // What is the same along a few neighbours is read and computed once for them, if these are taken together.
    let is_repeated = are_together(size, computation) && !traced.found.loads.iter().any(|load| depends_along(load.1));
    (decided && !is_repeated && reads_near(traced, (row_variable, &along), &row.sizes, crossing)).then_some(crossing)
}

fn has_complex(computation: &Computation) -> bool {
    let mut arrays = computation.instructions.iter().filter_map(|instruction| instruction.shape.as_array());
    arrays.any(|array| array.rank() > 0 && array.element_type.is_complex())
}

/// Whether a few vectors hold all that so many lanes read of an array, which go through rows of some elements.
fn reads_near(traced: &Traced<'_>, (row, along): (Var, &[Var]), sizes: &[i64], crossing: Crossing) -> bool {
    let (rows, lanes) = (i64::from(crossing.rows), i64::from(crossing.lanes));
    let size = sizes.iter().product::<i64>();
    traced.found.addresses.iter().all(|&address| {
        let by_row = coefficient(&traced.scope, address, row);
        let within: Option<Vec<i64>> = along.iter().map(|&own| coefficient(&traced.scope, address, own)).collect();
        by_row.zip(within).is_some_and(|(by_row, within)| {
            let place = |own: i64| {
                let (mut rest, mut place) = (own % size, own / size * by_row);
                for (&size, &within) in sizes.iter().zip(&within).rev() {
                    place += rest % size * within;
                    rest /= size;
                }
                place
            };
            (0..rows * size / lanes).all(|number| {
                let places: Vec<i64> = (number * lanes..(number + 1) * lanes).map(place).collect();
                let (least, most) =
                    places.iter().fold((i64::MAX, i64::MIN), |(least, most), &own| (least.min(own), most.max(own)));
                let runs = 1 + places.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
                most - least < REGISTERS_READ * lanes || runs <= MOST_RUNS
            })
        })
    })
}
