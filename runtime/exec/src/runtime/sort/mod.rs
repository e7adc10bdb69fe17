//! HLO's sort: several arrays of one shape, rearranged together along one dimension by a comparator.
//!
//! Comparators that the compiler recognised as an order of one operand run on integer keys; any other is called as
//! compiled code, once for each comparison. Every sort here is stable, so equal elements keep their order whether the
//! program asks for that or not. Rows are sorted in parallel, and so are the halves of a single long row.

mod keys;
mod lanes;
mod merge;
mod radix;
mod rows;
mod short_rows;

use super::{RunContext, context::context_at};
use crate::thread_pool::{for_each_chunk, grain_for_cost};
pub(super) use keys::{KeyCoder, KeyType, WordCoder};
use rows::{Row, Rows};
pub(super) use short_rows::ShortRows;
use std::slice;

/// What to sort, and by which order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SortDescriptor {
    /// Arrays that are sorted together; at least 1. Their element sizes in bytes follow the descriptor, one `i64` each.
    pub operands: i64,
    /// Product of the dimensions before the sorted one, in the memory order of the arrays.
    pub outer: i64,
    /// The sorted dimension.
    pub length: i64,
    /// Product of the dimensions after it.
    pub inner: i64,
    /// A [`SortOrder`].
    pub order: i64,
    /// Whether the order is reversed. Not used with a comparator.
    pub descending: i64,
    /// The operand whose elements are compared. Not used with a comparator.
    pub key_operand: i64,
    /// Type of its elements, as XLA's `PrimitiveType`. Not used with a comparator.
    pub key_type: i64,
}

/// Which elements come first.
#[repr(i64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// The comparator decides.
    Comparator = 0,
    /// `<`: both zeros are equal; rows with NaN go to the comparator.
    Less = 1,
    /// IEEE 754 total order: -NaN, -∞, … -0, +0, … ∞, NaN. The same as `<` for integers.
    Total = 2,
    /// Total order once zeros and NaNs have been replaced by +0 and one positive NaN.
    TotalCanonical = 3,
}

/// A compiled comparator: gets the addresses of the left and right element of the first operand, then of the second, and
/// so on; the lowest bit of the result says whether left comes before right.
pub type Comparator = unsafe extern "C" fn(elements: *const *const u8) -> u8;

/// Sorts `inputs` into `outputs`, which may be the same buffers.
///
/// # Safety
/// `context` must be null or live. `descriptor` must be followed by its element sizes; `inputs` and `outputs` must hold one
/// address for each operand, of buffers of `outer * length * inner` elements that overlap only in being equal. The comparator
/// must be sound to call on several threads, and must not unwind; it may only be absent if the order does not need it.
pub unsafe extern "C" fn halo_sort(
    context: *const RunContext,
    descriptor: *const SortDescriptor,
    comparator: Option<Comparator>,
    inputs: *const *const u8,
    outputs: *const *mut u8,
) {
    // SAFETY: the caller's promise.
    let (context, descriptor) = unsafe { (context_at(context), &*descriptor) };
    let count = usize::try_from(descriptor.operands).unwrap_or(0);
    // SAFETY: the caller's promise.
    let (sizes, inputs, outputs) = unsafe {
        (
            slice::from_raw_parts((&raw const *descriptor).add(1).cast::<i64>(), count),
            slice::from_raw_parts(inputs, count),
            slice::from_raw_parts(outputs, count),
        )
    };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("sort", || {
        let rows = Rows::new(descriptor, comparator, sizes, inputs, outputs)?;
        sort_rows(context, &rows);
        Ok(())
    });
}

fn sort_rows(context: &RunContext, rows: &Rows) {
    let groups = rows.count().div_ceil(rows.together());
    let threads = context.threads();
    match threads {
        // About 40 ns for each element of a row, or of rows that are sorted at once.
        Some(threads) if groups > 1 => {
            let grain = grain_for_cost(40 * rows.length() as u64) as usize;
            for_each_chunk(threads, groups, grain, |begin, end| {
                // Nothing in here panics but on a failed allocation.
                let mut row = Row::new(rows, None);
                (begin..end).for_each(|index| row.sort_group(index));
            });
        }
        _ => {
            let mut row = Row::new(rows, threads);
            (0..groups).for_each(|index| row.sort_group(index));
        }
    }
}
