//! Rows that are shorter than a vector, which vectors go through one after another, as they are in memory.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use indexing::Var;

use super::Loop;
use super::lanes::register_bits;
use crate::kernel::MOST_NEIGHBOURS;
use crate::mapping::combines;
use crate::trace::coefficient;
use crate::traced::Traced;

/// Bytes that a shuffle of small elements takes at once on every processor.
const BYTES_OF_SHUFFLE: u32 = 16;

/// Instructions up to which the vectors of a few rows, each of which has code of its own, are written out, of all vectors.
const MOST_INSTRUCTIONS: i64 = 256;

/// Lanes of the vectors that go through the rows of the last loop, if they are short and all that is read for a vector is near.
pub(super) fn crossing_lanes(
    computation: &Computation,
    loops: &[Loop],
    groups: &[(usize, usize)],
    traced: &Traced<'_>,
    lanes: u32,
) -> Option<u32> {
    let [.., rows, row] = loops else { return None };
    let &[.., (_, end), (last, _)] = groups else { return None };
    let &[size] = &row.sizes[..] else { return None };
    let bits = register_bits(computation);
    let lanes = if bits < 32 { lanes.max(8 * BYTES_OF_SHUFFLE / bits) } else { lanes };
    // A register holds fewer complex numbers than lanes.
    let parts = if has_complex(computation) { 2 } else { 1 };
    let is_short = (2..i64::from(lanes) / parts).contains(&size) && rows.is_as_long_as(lanes);
    let is_little = size * computation.instructions.len() as i64 <= MOST_INSTRUCTIONS;
    let is_open = !traced.found.lookups.is_empty() || !traced.found.window_conditions.is_empty();
    let is_taken = |own: &Instruction| own.kind == OpKind::ReduceWindow || !combines(own);
    if !is_short || !is_little || is_open || !computation.instructions.iter().all(is_taken) {
        return None;
    }
    let (row, along) = (traced.variables[end - 1].as_variable()?, traced.variables[last].as_variable()?);
    let decided = traced.found.conditions.iter().all(|condition| {
        let by_row = traced.scope.depends(condition.expr, row);
        !by_row || !rows.cuts.is_empty() && !traced.scope.depends(condition.expr, along)
    });
    // What is the same along a few neighbours is read and computed once for them, if these are taken together.
    let is_repeated =
        size <= MOST_NEIGHBOURS && !traced.found.loads.iter().any(|load| traced.scope.depends(load.1, along));
    (decided && !is_repeated && reads_near(traced, (row, along), size, lanes)).then_some(lanes)
}

fn has_complex(computation: &Computation) -> bool {
    let mut arrays = computation.instructions.iter().filter_map(|instruction| instruction.shape.as_array());
    arrays.any(|array| array.rank() > 0 && array.element_type.is_complex())
}

/// Whether two vectors hold all that so many lanes read of an array, which go through rows of some elements.
fn reads_near(traced: &Traced<'_>, (row, along): (Var, Var), size: i64, lanes: u32) -> bool {
    let lanes = i64::from(lanes);
    traced.found.addresses.iter().all(|&address| {
        let by_row = coefficient(&traced.scope, address, row);
        let within = coefficient(&traced.scope, address, along);
        by_row.zip(within).is_some_and(|(by_row, within)| {
            // From the beginning of a row on, and from anywhere in it: the vectors of as many rows as lanes.
            (0..size).all(|number| {
                let places =
                    (number * lanes..(number + 1) * lanes).map(|own| own / size * by_row + own % size * within);
                let (least, most) =
                    places.fold((i64::MAX, i64::MIN), |(least, most), place| (least.min(place), most.max(place)));
                most - least < 2 * lanes
            })
        })
    })
}
