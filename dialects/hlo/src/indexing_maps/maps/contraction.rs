//! dot and convolution.

use indexing::{Constraint, Expr, IndexingMap, Variable, variables_of_sizes};
use melior::Context;

use super::window::{window_positions, windows_of};
use super::{place, strided};
use crate::attributes::WindowDimension;
use crate::ops::convolution::ConvolutionAttributes;
use crate::ops::dot::DotAttributes;
use crate::ops::ragged_dot::RaggedDotAttributes;

/// dot, to the left and to the right operand. The result has the batch dimensions, then the other dimensions
/// of the left, then those of the right operand. Contracted dimensions are range variables, in their order.
pub fn dot<'c>(
    context: &'c Context,
    lhs_sizes: &[i64],
    rhs_sizes: &[i64],
    output_sizes: &[i64],
    attributes: &DotAttributes<'_>,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let contracted: Vec<i64> = attributes
        .lhs_contracting_dims
        .iter()
        .map(|&d| place(d, lhs_sizes.len()).map_or(0, |d| lhs_sizes[d]))
        .collect();
    let free = |rank: usize, batch: &[i64], contracting: &[i64]| {
        (0..rank as i64).filter(|d| !batch.contains(d) && !contracting.contains(d)).count()
    };
    let lhs_start = attributes.lhs_batch_dims.len();
    let rhs_start = lhs_start + free(lhs_sizes.len(), attributes.lhs_batch_dims, attributes.lhs_contracting_dims);
    let operand = |rank: usize, batch: &[i64], contracting: &[i64], start: usize| {
        let mut next = start;
        let results = (0..rank as i64)
            .map(|d| {
                if let Some(i) = batch.iter().position(|&b| b == d) {
                    Expr::dim(context, i)
                } else if let Some(i) = contracting.iter().position(|&c| c == d) {
                    Expr::symbol(context, i)
                } else {
                    next += 1;
                    Expr::dim(context, next - 1)
                }
            })
            .collect();
        IndexingMap::from_sizes(context, output_sizes, &contracted, results)
    };
    (
        operand(lhs_sizes.len(), attributes.lhs_batch_dims, attributes.lhs_contracting_dims, lhs_start),
        operand(rhs_sizes.len(), attributes.rhs_batch_dims, attributes.rhs_contracting_dims, rhs_start),
    )
}

/// ragged-dot, to the left and to the right operand. Which group a row belongs to is a running sum of values of the
/// program: all groups of the right operand are named, and with a contracted ragged dimension all of it. The result
/// has the group first if the ragged dimension is contracted.
pub fn ragged_dot<'c>(
    context: &'c Context,
    lhs_sizes: &[i64],
    rhs_sizes: &[i64],
    output_sizes: &[i64],
    attributes: &RaggedDotAttributes<'_>,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let leading =
        usize::from(attributes.lhs_contracting_dims.contains(&attributes.lhs_ragged_dims.0)).min(output_sizes.len());
    let group = attributes.rhs_group_dims.first().and_then(|&d| place(d, rhs_sizes.len()));
    // The right operand without its group dimension.
    let mut sizes = rhs_sizes.to_vec();
    let renumbered = |dimensions: &[i64]| -> Vec<i64> {
        dimensions.iter().map(|&d| d - i64::from(group.is_some_and(|group| d > group as i64))).collect()
    };
    let (rhs_batch, rhs_contracting) =
        (renumbered(attributes.rhs_batch_dims), renumbered(attributes.rhs_contracting_dims));
    if let Some(group) = group {
        sizes.remove(group);
    }
    let inner =
        DotAttributes { rhs_batch_dims: &rhs_batch, rhs_contracting_dims: &rhs_contracting, ..attributes.dot() };
    let (lhs, rhs) = dot(context, lhs_sizes, &sizes, &output_sizes[leading..], &inner);
    let shifted: Vec<Expr<'c>> = (leading..output_sizes.len()).map(|d| Expr::dim(context, d)).collect();
    let over_output = |map: &IndexingMap<'c>, group: Option<usize>| {
        let mut results: Vec<Expr<'c>> = map.results().iter().map(|expr| expr.replace(&shifted, &[])).collect();
        let mut ranges = map.ranges().to_vec();
        if let Some(group) = group {
            results.insert(group, Expr::symbol(context, ranges.len()));
            ranges.push(Variable::of_size(rhs_sizes[group]));
        }
        IndexingMap::new(context, variables_of_sizes(output_sizes), ranges, Vec::new(), results, Vec::new())
    };
    (over_output(&lhs, None), over_output(&rhs, group))
}

/// The batch group of a convolution that an element of the result uses, as an expression of its index; `None` if there
/// is one group. It is the value of the last range variable of the map to the input, see [`convolution`].
pub fn batch_group<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    attributes: &ConvolutionAttributes<'_>,
) -> Option<Expr<'c>> {
    let groups = attributes.batch_group_count;
    let feature = place(attributes.dim_labels.output_feature, output_sizes.len()).filter(|_| groups > 1)?;
    Some(Expr::dim(context, feature).floordiv((output_sizes[feature] / groups).max(1)))
}

/// The window of a convolution: a verified one has an entry for each spatial dimension, and without such dimensions
/// may have any that has no effect.
fn spatial_window<'a>(attributes: &ConvolutionAttributes<'a>) -> &'a [WindowDimension] {
    let spatial = attributes.dim_labels.input_spatial.len();
    &attributes.window[..attributes.window.len().min(spatial)]
}

/// convolution, to the input and to the kernel. Range variables: the places in the window, then the input
/// features of a group, then (input, with more than one batch group) the batch groups. Simplified;
/// variables with a single value stay, so that range variables mean the same in both maps.
///
/// With several batch groups an output feature uses the part of the batch of its own group; the map names all
/// of them, as the reference does, so that it does not depend on how features are dealt to groups.
pub fn convolution<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    kernel_sizes: &[i64],
    output_sizes: &[i64],
    attributes: &ConvolutionAttributes<'_>,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let rank = output_sizes.len();
    let (labels, window) = (attributes.dim_labels, spatial_window(attributes));
    let pick = |sizes: &[i64], dimensions: &[i64]| -> Vec<i64> {
        dimensions.iter().map(|&d| place(d, sizes.len()).map_or(0, |d| sizes[d])).collect()
    };
    let size = |sizes: &[i64], dimension: i64| place(dimension, sizes.len()).map_or(0, |d| sizes[d]);
    let dim = |dimension: i64| place(dimension, rank).map_or(Expr::constant(context, 0), |d| Expr::dim(context, d));
    let set = |results: &mut Vec<Expr<'c>>, dimension: i64, expr: Expr<'c>| {
        if let Some(d) = place(dimension, rank) {
            results[d] = expr;
        }
    };
    let spatial = window_positions(
        context,
        &pick(input_sizes, &labels.input_spatial),
        &pick(output_sizes, &labels.output_spatial),
        window,
    );
    let window_rank = window.len();
    let in_output: Vec<Expr<'c>> = labels.output_spatial.iter().map(|&d| dim(d)).collect();
    let group_features = size(kernel_sizes, labels.kernel_input_feature);

    let mut input = vec![Expr::constant(context, 0); rank];
    for (&dimension, expr) in labels.input_spatial.iter().zip(spatial.results()) {
        set(&mut input, dimension, expr.replace(&in_output, &[]));
    }
    let mut feature = Expr::symbol(context, window_rank);
    if attributes.feature_group_count > 1 {
        let outputs_per_group = (size(output_sizes, labels.output_feature) / attributes.feature_group_count).max(1);
        feature = dim(labels.output_feature).floordiv(outputs_per_group) * group_features + feature;
    }
    set(&mut input, labels.input_feature, feature);
    let mut input_ranges = spatial.ranges().to_vec();
    input_ranges.push(Variable::of_size(group_features));
    let mut batch = dim(labels.output_batch);
    if attributes.batch_group_count > 1 {
        batch = Expr::symbol(context, input_ranges.len()) * size(output_sizes, labels.output_batch) + batch;
        input_ranges.push(Variable::of_size(attributes.batch_group_count));
    }
    set(&mut input, labels.input_batch, batch);
    let constraints =
        spatial.constraints().iter().map(|c| Constraint::new(c.expr.replace(&in_output, &[]), c.interval)).collect();
    let mut dims = variables_of_sizes(output_sizes);
    for (&dimension, bounds) in labels.output_spatial.iter().zip(spatial.dims()) {
        // A constraint on a single dimension has become its bounds.
        if let Some(d) = place(dimension, rank) {
            dims[d].bounds = dims[d].bounds.intersect(bounds.bounds);
        }
    }
    let input = IndexingMap::new(context, dims, input_ranges, Vec::new(), input, constraints);

    let mut kernel = vec![Expr::constant(context, 0); rank];
    for (i, (&dimension, w)) in labels.kernel_spatial.iter().zip(window).enumerate() {
        let place = Expr::symbol(context, i);
        set(&mut kernel, dimension, if w.reversal { -place + (w.size - 1) } else { place });
    }
    set(&mut kernel, labels.kernel_output_feature, dim(labels.output_feature));
    set(&mut kernel, labels.kernel_input_feature, Expr::symbol(context, window_rank));
    let mut kernel_ranges: Vec<i64> = window.iter().map(|w| w.size).collect();
    kernel_ranges.push(group_features);
    let kernel = IndexingMap::from_sizes(context, output_sizes, &kernel_ranges, kernel);
    (input.simplified_in_all_variables(), kernel.simplified_in_all_variables())
}

/// convolution, from the input and from the kernel. Simplified. `None` if a dimension number is none.
///
/// From the input, range variables are the places in the window, then the output features of the group; from
/// the kernel the spatial dimensions of the result, then its batch.
pub fn convolution_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    kernel_sizes: &[i64],
    output_sizes: &[i64],
    attributes: &ConvolutionAttributes<'_>,
) -> Option<(IndexingMap<'c>, IndexingMap<'c>)> {
    let rank = output_sizes.len();
    let (labels, window) = (attributes.dim_labels, spatial_window(attributes));
    let pick = |sizes: &[i64], dimensions: &[i64]| -> Option<Vec<i64>> {
        dimensions.iter().map(|&d| Some(sizes[place(d, sizes.len())?])).collect()
    };
    let places = |dimensions: &[i64]| -> Option<Vec<usize>> { dimensions.iter().map(|&d| place(d, rank)).collect() };
    let [input_batch, input_feature, output_batch, output_feature, kernel_output] = places(&[
        labels.input_batch,
        labels.input_feature,
        labels.output_batch,
        labels.output_feature,
        labels.kernel_output_feature,
    ])?[..] else {
        return None;
    };
    let input_spatial = places(&labels.input_spatial)?;
    let output_spatial = places(&labels.output_spatial)?;
    let kernel_spatial = places(&labels.kernel_spatial)?;
    let output_spatial_sizes = pick(output_sizes, &labels.output_spatial)?;

    let windows = windows_of(context, &pick(input_sizes, &labels.input_spatial)?, &output_spatial_sizes, window);
    let in_input: Vec<Expr<'c>> = input_spatial.iter().map(|&d| Expr::dim(context, d)).collect();
    let mut results = vec![Expr::constant(context, 0); rank];
    for (&d, expr) in output_spatial.iter().zip(windows.results()) {
        results[d] = expr.replace(&in_input, &[]);
    }
    // Features are split or the batch is, never both.
    let (batch_groups, feature_groups) = (attributes.batch_group_count.max(1), attributes.feature_group_count.max(1));
    let outputs_per_group = output_sizes[output_feature] / (batch_groups * feature_groups);
    let inputs_per_group = (input_sizes[input_feature] / feature_groups).max(1);
    let batch_of_group = (input_sizes[input_batch] / batch_groups).max(1);
    results[output_batch] = Expr::dim(context, input_batch);
    let mut group = Expr::constant(context, 0);
    if batch_groups > 1 {
        results[output_batch] = Expr::dim(context, input_batch).modulo(batch_of_group);
        group = Expr::dim(context, input_batch).floordiv(batch_of_group);
    } else if feature_groups > 1 {
        group = Expr::dim(context, input_feature).floordiv(inputs_per_group);
    }
    results[output_feature] = group * outputs_per_group + Expr::symbol(context, window.len());
    let mut ranges = windows.ranges().to_vec();
    ranges.push(Variable::of_size(outputs_per_group));
    let constraints =
        windows.constraints().iter().map(|c| Constraint::new(c.expr.replace(&in_input, &[]), c.interval)).collect();
    let mut dims = variables_of_sizes(input_sizes);
    for (&d, bounds) in input_spatial.iter().zip(windows.dims()) {
        dims[d].bounds = dims[d].bounds.intersect(bounds.bounds);
    }
    let input = IndexingMap::new(context, dims, ranges, Vec::new(), results, constraints);

    let mut results = vec![Expr::constant(context, 0); rank];
    for (i, &d) in output_spatial.iter().enumerate() {
        results[d] = Expr::symbol(context, i);
    }
    results[output_batch] = Expr::symbol(context, window.len());
    results[output_feature] = Expr::dim(context, kernel_output);
    let mut ranges = output_spatial_sizes;
    ranges.push(output_sizes[output_batch]);
    let mut constraints = Vec::with_capacity(2 * window.len());
    for (i, w) in window.iter().enumerate() {
        // Windows that have this place in the padding or between dilated elements do not use the kernel's element.
        let reach = Expr::dim(context, kernel_spatial[i]);
        let reach = if w.reversal { -reach + (w.size - 1) } else { reach };
        let base = Expr::symbol(context, i) * w.stride + reach * w.window_dilation - w.padding_low;
        constraints.extend(strided(base, 0, w.base_dilation.max(1), input_sizes[input_spatial[i]]));
    }
    let (dims, ranges) = (variables_of_sizes(kernel_sizes), variables_of_sizes(&ranges));
    let kernel = IndexingMap::new(context, dims, ranges, Vec::new(), results, constraints);
    Some((input.simplified(), kernel.simplified()))
}
