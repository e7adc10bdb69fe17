//! Maps of HLO operations, from sizes and attributes alone.
//!
//! A function named after an operation returns the map from the operation's result to an operand; the map in
//! the other direction has the suffix `_to_output`, or is [`IndexingMap::converse`](indexing::IndexingMap::converse) where indices are only
//! chosen. Sources: document "Indexing analysis", section "Indexing
//! maps for unfused ops", and "Operation semantics" for the operations it leaves out. Operations without an
//! operand to index (constant, iota, parameter, rng) have no map.
//!
//! Arguments are those of a verified instruction. Others give a map that is wrong or fails to evaluate, but
//! never a panic.

mod collective;
mod contraction;
mod dynamic;
mod elementwise;
mod reduction;
mod shape;
mod slicing;
mod window;

pub use collective::{
    all_gather, all_gather_to_output, all_to_all, all_to_all_to_output, reduce_scatter, reduce_scatter_to_output,
};
pub use contraction::{batch_group, convolution, convolution_to_output, dot, ragged_dot};
pub use dynamic::{
    Offset, dynamic_slice, dynamic_slice_to_output, dynamic_update_slice, dynamic_update_slice_window, gather,
    gather_to_output, scatter, scatter_updates_to_output,
};
pub use elementwise::{all_of, identity, one_dimension, scalar, whole};
pub use reduction::{reduce, reduced_keeping, sort, whole_along};
pub use shape::{
    bitcast, bitcast_convert, broadcast, logical_to_physical, physical_sizes, physical_to_logical, reshape, transpose,
};
pub use slicing::{concatenate, concatenate_to_output, pad, pad_to_output, reverse, slice, slice_to_output};
pub use window::{
    reduce_window, reduce_window_in_order, reduce_window_to_output, select_and_scatter_operand,
    select_and_scatter_source, select_and_scatter_source_to_output,
};

use indexing::{Constraint, Expr, Interval};
use melior::Context;

/// `d_0, d_1, …`
fn dims<'c>(context: &'c Context, rank: usize) -> Vec<Expr<'c>> {
    (0..rank).map(|d| Expr::dim(context, d)).collect()
}

/// Says that an index is one of `count`, of which `first` is the first and that are `step` apart.
fn strided<'c>(index: Expr<'c>, first: i64, step: i64, count: i64) -> [Constraint<'c>; 2] {
    let last = count.saturating_sub(1).saturating_mul(step).saturating_add(first);
    let is_between = Constraint::new(index, Interval::new(first, last));
    [is_between, Constraint::new((index - first).modulo(step), Interval::point(0))]
}

/// The dimension number as a place in a list of `rank`, if it is one.
fn place(dimension: i64, rank: usize) -> Option<usize> {
    usize::try_from(dimension).ok().filter(|&d| d < rank)
}
