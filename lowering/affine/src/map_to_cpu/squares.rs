//! Which loops of a kernel go by squares of elements that are read transposed ([`crate::transposed`]), and how many squares at once.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use passes::fuse::first_result;

use super::Loop;
use crate::access::MAX_SHUFFLED_STRIDE;
use crate::kernel::only_moves;
use crate::mapping::combines;
use crate::trace::coefficient;
use crate::traced::Traced;

/// Bytes, and elements, from row to row at whose multiples lines of many rows meet in few sets of a cache.
const PART_OF_PAGE: [i64; 2] = [2048, 512];

/// Bytes of a line of a cache.
const BYTES_OF_LINE: u32 = 64;

/// Bytes of an array most of which stays in the last cache.
const BYTES_IN_LAST_CACHE: i64 = 16 << 20;

/// Whether the rows of a result are so far from each other that lines of few of them stay in a cache, and yet most of the
/// result stays in the last one: of what does not, lines are better read two at a time.
pub(super) fn are_pages_apart(root: &Instruction, row_distance: i64) -> bool {
    let Some(result) = first_result(root) else { return false };
    let width = result.element_type.byte_width() as i64;
    let bytes = result.element_count().saturating_mul(width);
    let [far_bytes, far_elements] = PART_OF_PAGE;
    row_distance % far_elements == 0 && row_distance * width % far_bytes == 0 && bytes <= BYTES_IN_LAST_CACHE
}

/// Rows that squares of so many lanes are taken from at once: of arrays that only move those of two squares, as caches get
/// the lines that both are read from together.
pub(super) fn rows_together(computation: &Computation, rows: &Loop, lanes: u32, overlap: bool) -> u32 {
    let pair = 2 * i64::from(lanes);
    let repeated = |length: i64| (pair - length % pair) % pair;
    let is_cheap = |length: i64| length >= pair && (repeated(length) == 0 || overlap && length >= 8 * repeated(length));
    if only_moves(computation) && rows.lengths().into_iter().all(is_cheap) { 2 * lanes } else { lanes }
}

/// Whether two by two squares of so many lanes are taken at once, for which the runtime has a function: of arrays that only move,
/// where they are lines of a cache wide and nothing is left over.
pub(super) fn takes_blocks(computation: &Computation, loops: [&Loop; 2], lanes: u32) -> bool {
    let width = first_result(computation.root()).map_or(0, |result| result.element_type.byte_width() as u32);
    2 * lanes * width == BYTES_OF_LINE && only_moves(computation) && loops.iter().all(|own| own.divides_into(2 * lanes))
}

/// Lanes of the smallest squares that are better than elements by themselves.
const FEWEST_LANES_OF_SQUARE: u32 = 4;

/// The lanes that squares may have, the most first: of arrays that only move, rows may be shorter than a vector.
pub(super) fn lanes_of_squares(computation: &Computation, lanes: u32) -> impl Iterator<Item = u32> {
    let half = (lanes / 2 >= FEWEST_LANES_OF_SQUARE && only_moves(computation)).then_some(lanes / 2);
    std::iter::once(lanes).chain(half)
}

/// The loop around that over vectors of which as many iterations as lanes are best taken at once ([`crate::transposed`]): what
/// lanes read far from each other, it reads together.
pub(super) fn transposed_loop(
    computation: &Computation,
    loops: &[Loop],
    groups: &[(usize, usize)],
    traced: &Traced<'_>,
    (lanes, overlap): (u32, bool),
) -> Option<usize> {
    let Traced { scope, found, .. } = traced;
    let last = loops.len().checked_sub(1)?;
    let is_simple = |instruction: &Instruction| {
        let is_complex = instruction.shape.as_array().is_none_or(|array| array.element_type.is_complex());
        let is_tuple = instruction.kind == OpKind::Tuple;
        (is_tuple || !is_complex) && !combines(instruction)
    };
    let fits = |number: usize| loops[number].is_as_long_as(lanes) && (overlap || loops[number].divides_into(lanes));
    let is_decided = cuts_decide(loops, groups, traced) && found.lookups.is_empty() && found.windows.is_empty();
    let is_taken = is_decided && lanes.is_power_of_two() && fits(last);
    if !is_taken || !computation.instructions.iter().all(is_simple) {
        return None;
    }
    let variable = |number: usize| traced.innermost_variable(groups[number]);
    let along = |number: usize, address| variable(number).and_then(|own| coefficient(scope, address, own));
    let mut far = found
        .loads
        .iter()
        .map(|&(_, address)| address)
        .filter(|&address| along(last, address) > Some(MAX_SHUFFLED_STRIDE));
    let first = far.next()?;
    let row = (0..last).find(|&number| along(number, first) == Some(1) && fits(number))?;
    far.all(|address| along(row, address) == Some(1)).then_some(row)
}

/// Whether the pieces of the loops decide all conditions.
fn cuts_decide(loops: &[Loop], groups: &[(usize, usize)], Traced { scope, variables, found, .. }: &Traced<'_>) -> bool {
    found.conditions.iter().all(|condition| {
        let depends_on = |d: usize| variables[d].as_variable().is_some_and(|own| scope.depends(condition.expr, own));
        loops.iter().zip(groups).all(|(own, &(first, end))| !own.cuts.is_empty() || !(first..end).any(depends_on))
    })
}

/// An outer loop over few elements that are neighbours, while vectors along the last loop read at a distance: as the innermost one, what
/// is read together is read once and not by each of its iterations again.
pub(super) fn transposed_narrow_loop(
    computation: &Computation,
    loops: &[Loop],
    groups: &[(usize, usize)],
    traced: &Traced<'_>,
) -> Option<usize> {
    let Traced { scope, found, .. } = traced;
    let last = loops.len().checked_sub(1)?;
    if computation.instructions.iter().any(combines) {
        return None;
    }
    let variable = |number: usize| traced.innermost_variable(groups[number]);
    let along = |number: usize, address| variable(number).and_then(|own| coefficient(scope, address, own));
    let is_narrow =
        |number: &usize| loops[*number].lengths().iter().all(|length| (2..=MAX_SHUFFLED_STRIDE).contains(length));
    let mut loads = found.loads.iter().map(|&(_, address)| address);
    let far = loads.find(|&address| along(last, address).is_some_and(|distance| distance > 1))?;
    (0..last).filter(is_narrow).find(|&number| along(number, far) == Some(1))
}
