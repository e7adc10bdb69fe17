//! Lanes of the vectors of a loop.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use hlo::shape::Shape;

use super::{CpuTarget, Loop};
use crate::mapping::{combines, lanes_of_small_integers, register_bits};
use crate::side_by_side::{repeats_few, vectors_of_functions};

/// Vectors of columns that are reduced side by side.
const VECTORS_OF_COLUMNS: u32 = 4;

/// Vectors of columns that are summed side by side where little is done with each element: the more of a row is read at once,
/// the fewer lines does a processor fetch ahead that are gone before they are read, as are those of rows whose length is a
/// multiple of a page.
const VECTORS_OF_PLAIN_COLUMNS: u32 = 16;

/// Elementwise operations of each term up to which that many vectors stay in registers.
const FEW_OPERATIONS_OF_TERMS: usize = 2;

/// Elementwise operations up to which several vectors of columns, or of codes, are worth their code, although registers may not
/// hold all that they need.
const FEW_OPERATIONS: usize = 16;

/// Steps of a loop that threads share, at least.
pub(super) const STEPS_OF_THREADS: i64 = 8;

/// Bytes that a shuffle of small elements takes at once on every processor.
const BYTES_OF_SHUFFLE: u32 = 16;

/// Rows from which on that is worth its code.
const MANY_ROWS: i64 = 8;

/// Lanes for the element types of arrays: as many as fit a register of the widest float or index-like type used.
pub(super) fn vector_lanes<'a>(shapes: impl IntoIterator<Item = &'a Shape>, vector_bits: u32) -> u32 {
    let mut narrow = false;
    let mut wide = false;
    for array in shapes.into_iter().filter_map(Shape::as_array) {
        if array.rank() == 0 || array.element_count() <= 1 {
            continue;
        }
        match array.element_type.real_part().bit_width() {
            64 => wide = true,
            _ => narrow = true,
        }
    }
    let bits = if wide && !narrow { 64 } else { 32 };
    (vector_bits / bits).max(1)
}

/// Lanes of vectors that are mostly shuffled: of small elements as many as every processor shuffles at once.
pub(super) fn lanes_of_shuffles(computation: &Computation, lanes: u32) -> u32 {
    let bits = register_bits(computation);
    if bits < 32 { lanes.max(8 * BYTES_OF_SHUFFLE / bits) } else { lanes }
}

/// Lanes of a loop that takes vectors, which may end with one that overlaps the one before it. Small integers fill
/// registers with more lanes. A reduction along columns, of windows, or of products in windows takes several vectors at once, so
/// that it reads whole pieces of rows and does not wait for one sum; not where lanes read elements apart from each other.
pub(super) fn lanes_of_loop(
    computation: &Computation,
    vector_loop: &Loop,
    sizes: &[i64],
    lanes: u32,
    (overlap, reads_neighbours): (bool, bool),
    target: CpuTarget,
) -> u32 {
    let fits = |lanes: u32| vector_loop.is_as_long_as(lanes) && (overlap || vector_loop.divides_into(lanes));
    let mut lanes = lanes;
    while !vector_loop.is_as_long_as(lanes) {
        lanes /= 2;
    }
    let elementwise = |instruction: &&Instruction| definition(instruction.kind).fusion == FusionRole::Elementwise;
    let reduces_columns = computation.instructions.iter().any(|instruction| {
        let operand = instruction.operands.first().map(|&operand| computation.get(operand));
        let elements = operand.and_then(|operand| Some(operand.shape.as_array()?.element_count()));
        let columns: i64 = sizes.iter().product();
        match instruction.kind {
            OpKind::Reduce => elements >= Some(columns * MANY_ROWS),
            kind => matches!(kind, OpKind::ReduceWindow | OpKind::Convolution),
        }
    });
    let operations = computation.instructions.iter().filter(elementwise).count();
    let narrow = lanes_of_small_integers(computation, lanes);
    if narrow > lanes && fits(narrow) {
        return narrow;
    }
    if !reads_neighbours {
        return lanes;
    }
    if let Some(most) = vectors_of_functions(computation.instructions.iter())
        && !computation.instructions.iter().any(combines)
    {
        // Where vectors do not overlap, one that leaves out lanes ends the loop.
        let several = vectors_side_by_side(vector_loop, lanes, [most, most / 2], target);
        return several.filter(|&wide| vector_loop.is_as_long_as(wide)).unwrap_or(lanes);
    }
    if operations > FEW_OPERATIONS {
        return lanes;
    }
    if !reduces_columns {
        return if is_of_codes(computation) && fits(2 * lanes) { 2 * lanes } else { lanes };
    }
    let is_plain = operations <= FEW_OPERATIONS_OF_TERMS && reduces_one_array(computation);
    // Those have at most half of the registers.
    let most = if target.vector_bits >= 512 { VECTORS_OF_PLAIN_COLUMNS } else { VECTORS_OF_PLAIN_COLUMNS / 2 };
    let plain = is_plain.then(|| vectors_side_by_side(vector_loop, lanes, [most, most / 2], target)).flatten();
    let several = [VECTORS_OF_COLUMNS, VECTORS_OF_COLUMNS / 2].map(|vectors| lanes * vectors);
    plain.into_iter().chain(several).find(|&wide| fits(wide)).unwrap_or(lanes)
}

/// Whether bytes are reduced in rows or windows of no power of two, where no shuffle but the most recent ones brings those of more lanes
/// together: what takes their place is ten times the code, and no faster.
pub(super) fn reduces_bytes_apart(computation: &Computation, sizes: &[i64]) -> bool {
    let elements = sizes.iter().product::<i64>().max(1);
    let is_apart = |own: &Instruction| {
        let read = own.operands.first().and_then(|&operand| computation.get(operand).shape.as_array());
        let terms = read.map_or(1, |read| read.element_count() / elements);
        matches!(own.kind, OpKind::Reduce | OpKind::ReduceWindow) && terms.count_ones() > 1
    };
    register_bits(computation) == 8 && computation.instructions.iter().any(is_apart)
}

/// Whether arrays are of `bf16`, of which pairs are read and stored at once, and maybe of `f32`, and none is reduced.
fn is_of_codes(computation: &Computation) -> bool {
    use ElementType::{BF16, F32, Pred};
    let arrays =
        || computation.instructions.iter().filter_map(|own| own.shape.as_array()).filter(|array| array.rank() > 0);
    arrays().any(|array| array.element_type == BF16)
        && arrays().all(|array| matches!(array.element_type, BF16 | F32 | Pred))
        && !computation.instructions.iter().any(combines)
}

/// Whether one value a column is all that a computation reduces.
fn reduces_one_array(computation: &Computation) -> bool {
    let of_kind = |kind: OpKind| computation.instructions.iter().filter(move |own| own.kind == kind);
    of_kind(OpKind::ReduceWindow).next().is_none() && {
        let mut reductions = of_kind(OpKind::Reduce);
        reductions.next().is_some_and(|reduce| reduce.operands.len() == 2) && reductions.next().is_none()
    }
}

/// Lanes of the first of these numbers of vectors that repeats few elements at the end of a loop, and leaves threads something
/// to share.
fn vectors_side_by_side(elements: &Loop, lanes: u32, vectors: [u32; 2], target: CpuTarget) -> Option<u32> {
    let is_good = |length: i64, wide: i64| {
        repeats_few(length, wide) && (!target.parallel || indexing::ceil_div(length, wide) >= STEPS_OF_THREADS)
    };
    let is_taken = |&wide: &u32| elements.lengths().into_iter().all(|length| is_good(length, i64::from(wide)));
    vectors.map(|vectors| lanes * vectors).into_iter().find(is_taken)
}
