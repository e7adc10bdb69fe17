//! Operations that slide a window: reduce-window, select-and-scatter, and the spatial part of convolution.

use indexing::{Expr, IndexingMap, variables_of_sizes};
use melior::Context;

use super::{dims, strided};
use crate::attributes::WindowDimension;

/// reduce-window (also variadic), to an input: each element of the window is a value of a range variable.
/// Simplified; the domain leaves out padding and holes between dilated elements.
pub fn reduce_window<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    window_positions(context, input_sizes, output_sizes, window).simplified()
}

/// As [`reduce_window`], with one range variable for each window dimension, in the order in which the window's
/// elements are combined.
pub fn reduce_window_in_order<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    let element = |i, w: &WindowDimension| match w.reversal {
        true => Expr::constant(context, w.size - 1) - Expr::symbol(context, i),
        false => Expr::symbol(context, i),
    };
    positions(context, input_sizes, output_sizes, window, element).simplified_in_all_variables()
}

/// As [`reduce_window`], not simplified: one range variable for each window dimension.
pub(super) fn window_positions<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    positions(context, input_sizes, output_sizes, window, |i, _| Expr::symbol(context, i))
}

/// The places in the input of a window's elements, whose number along each dimension is `element`.
fn positions<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    window: &[WindowDimension],
    element: impl Fn(usize, &WindowDimension) -> Expr<'c>,
) -> IndexingMap<'c> {
    let sizes: Vec<i64> = window.iter().map(|w| w.size).collect();
    let padded: Vec<Expr<'c>> = window
        .iter()
        .enumerate()
        .map(|(i, w)| Expr::dim(context, i) * w.stride + element(i, w) * w.window_dilation)
        .collect();
    let dilation = |w: &WindowDimension| w.base_dilation.max(1);
    let results = padded.iter().zip(window).map(|(&index, w)| (index - w.padding_low).floordiv(dilation(w))).collect();
    let elements = padded.iter().zip(window).zip(input_sizes);
    let constraints =
        elements.flat_map(|((&index, w), &size)| strided(index, w.padding_low, dilation(w), size)).collect();
    let (dims, ranges) = (variables_of_sizes(output_sizes), variables_of_sizes(&sizes));
    IndexingMap::new(context, dims, ranges, Vec::new(), results, constraints)
}

/// reduce-window, from an input: the windows an element is in. Simplified.
pub fn reduce_window_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    windows_of(context, input_sizes, output_sizes, window).simplified()
}

/// As [`reduce_window_to_output`], not simplified: one range variable for each window dimension.
pub(super) fn windows_of<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    let sizes: Vec<i64> = window.iter().map(|w| w.size).collect();
    let starts: Vec<Expr<'c>> = window
        .iter()
        .enumerate()
        .map(|(i, w)| {
            Expr::dim(context, i) * w.base_dilation.max(1) - Expr::symbol(context, i) * w.window_dilation
                + w.padding_low
        })
        .collect();
    windows_from(context, input_sizes, &sizes, output_sizes, starts, window)
}

/// The windows that start at the given places of the padded area, if there are such.
fn windows_from<'c>(
    context: &'c Context,
    sizes: &[i64],
    range_sizes: &[i64],
    output_sizes: &[i64],
    starts: Vec<Expr<'c>>,
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    let stride = |w: &WindowDimension| w.stride.max(1);
    let results = starts.iter().zip(window).map(|(start, w)| start.floordiv(stride(w))).collect();
    let windows = starts.iter().zip(window).zip(output_sizes);
    let constraints = windows.flat_map(|((&start, w), &size)| strided(start, 0, stride(w), size)).collect();
    let (dims, ranges) = (variables_of_sizes(sizes), variables_of_sizes(range_sizes));
    IndexingMap::new(context, dims, ranges, Vec::new(), results, constraints)
}

/// select-and-scatter, from the source: the elements of its window, one of which it is added to. Simplified.
pub fn select_and_scatter_source_to_output<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    source_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    reduce_window(context, operand_sizes, source_sizes, window)
}

/// The windows of `select-and-scatter` that hold result element `d`: window number `(d + low - s) / stride`
/// for places `s` in the window. Range variables are the places.
fn windows_over<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    source_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    let sizes: Vec<i64> = window.iter().map(|w| w.size).collect();
    let starts: Vec<Expr<'c>> = window
        .iter()
        .enumerate()
        .map(|(i, w)| Expr::dim(context, i) - Expr::symbol(context, i) * w.window_dilation + w.padding_low)
        .collect();
    windows_from(context, operand_sizes, &sizes, source_sizes, starts, window)
}

/// select-and-scatter, to the source: the values that may be added to an element of the result.
pub fn select_and_scatter_source<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    source_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    windows_over(context, operand_sizes, source_sizes, window).simplified()
}

/// select-and-scatter, to the operand: all elements of the windows that hold the element of the result, since
/// the selection among them decides where the source's value goes.
pub fn select_and_scatter_operand<'c>(
    context: &'c Context,
    operand_sizes: &[i64],
    source_sizes: &[i64],
    window: &[WindowDimension],
) -> IndexingMap<'c> {
    let windows = windows_over(context, operand_sizes, source_sizes, window);
    let elements = window_positions(context, operand_sizes, source_sizes, window);
    windows
        .compose(&elements)
        .unwrap_or_else(|_| IndexingMap::from_sizes(context, operand_sizes, &[], dims(context, operand_sizes.len())))
        .simplified()
}
