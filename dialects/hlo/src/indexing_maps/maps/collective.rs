//! Collectives within one replica group. The other operations among replicas are elementwise per replica.

use indexing::{Constraint, Expr, IndexingMap, Interval, Variable, variables_of_sizes};
use melior::Context;

use super::{dims, place};

/// all-gather along `dimension`: the operand's index, and the place in the group of the replica it is on.
pub fn all_gather<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    dimension: i64,
) -> (IndexingMap<'c>, IndexingMap<'c>) {
    let mut index = dims(context, output_sizes.len());
    let mut replica = Expr::constant(context, 0);
    if let Some(d) = place(dimension, output_sizes.len().min(input_sizes.len())) {
        index[d] = Expr::dim(context, d).modulo(input_sizes[d]);
        replica = Expr::dim(context, d).floordiv(input_sizes[d]);
    }
    let map = IndexingMap::from_sizes(context, output_sizes, &[], index).simplified_in_all_variables();
    (map, IndexingMap::from_sizes(context, output_sizes, &[], vec![replica]))
}

/// reduce-scatter along `dimension` in a group of `replicas`: the element of every replica's operand. The
/// run-time variable is this replica's place in the group.
pub fn reduce_scatter<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    dimension: i64,
    replicas: i64,
) -> IndexingMap<'c> {
    let mut index = dims(context, output_sizes.len());
    let mut runtimes = Vec::new();
    if let Some(d) = place(dimension, output_sizes.len()).filter(|_| replicas > 1) {
        index[d] = Expr::symbol(context, 0) * output_sizes[d] + Expr::dim(context, d);
        runtimes.push(Variable::new(Interval::of_size(replicas)));
    }
    IndexingMap::new(context, variables_of_sizes(output_sizes), Vec::new(), runtimes, index, Vec::new())
}

/// all-to-all in its array form: `split_count` parts along `split` come from as many replicas and are put
/// together along `concat`. The run-time variable is this replica's place in the group.
pub fn all_to_all<'c>(
    context: &'c Context,
    output_sizes: &[i64],
    split: i64,
    concat: i64,
    split_count: i64,
) -> IndexingMap<'c> {
    let rank = output_sizes.len();
    let mut index = dims(context, rank);
    let mut runtimes = Vec::new();
    if let (Some(split), Some(concat), true) = (place(split, rank), place(concat, rank), split_count > 1) {
        // The result is split_count times longer along `concat` and shorter along `split`.
        let part = output_sizes[concat] / split_count;
        index[concat] = Expr::dim(context, concat).modulo(part.max(1));
        let length = if split == concat { part } else { output_sizes[split] };
        index[split] = index[split] + Expr::symbol(context, 0) * length;
        runtimes.push(Variable::new(Interval::of_size(split_count)));
    }
    IndexingMap::new(context, variables_of_sizes(output_sizes), Vec::new(), runtimes, index, Vec::new())
}

/// all-gather along `dimension`, from the operand. The run-time variable is this replica's place in the group.
pub fn all_gather_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    dimension: i64,
) -> IndexingMap<'c> {
    let mut index = dims(context, input_sizes.len());
    let mut runtimes = Vec::new();
    if let Some(d) = place(dimension, output_sizes.len().min(input_sizes.len())) {
        index[d] = Expr::symbol(context, 0) * input_sizes[d] + Expr::dim(context, d);
        runtimes.push(Variable::new(Interval::of_size(output_sizes[d] / input_sizes[d].max(1))));
    }
    IndexingMap::new(context, variables_of_sizes(input_sizes), Vec::new(), runtimes, index, Vec::new())
}

/// reduce-scatter along `dimension`, from the operand: the part that comes to this replica. The run-time variable is
/// its place in the group.
pub fn reduce_scatter_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    output_sizes: &[i64],
    dimension: i64,
) -> IndexingMap<'c> {
    let mut index = dims(context, input_sizes.len());
    let mut runtimes = Vec::new();
    let mut part = Vec::new();
    if let Some(d) = place(dimension, output_sizes.len().min(input_sizes.len())) {
        index[d] = Expr::dim(context, d) - Expr::symbol(context, 0) * output_sizes[d];
        runtimes.push(Variable::new(Interval::of_size(input_sizes[d] / output_sizes[d].max(1))));
        part.push(Constraint::new(index[d], Interval::of_size(output_sizes[d])));
    }
    IndexingMap::new(context, variables_of_sizes(input_sizes), Vec::new(), runtimes, index, part)
}

/// all-to-all in its array form, from the operand of the replica whose place in the group is the run-time variable
/// to the results of all replicas: which of them it is follows from the index along `split`.
pub fn all_to_all_to_output<'c>(
    context: &'c Context,
    input_sizes: &[i64],
    split: i64,
    concat: i64,
    split_count: i64,
) -> IndexingMap<'c> {
    let rank = input_sizes.len();
    let mut index = dims(context, rank);
    let mut runtimes = Vec::new();
    if let (Some(split), Some(concat), true) = (place(split, rank), place(concat, rank), split_count > 1) {
        let length = (input_sizes[split] / split_count).max(1);
        index[split] = Expr::dim(context, split).modulo(length);
        let part = if split == concat { length } else { input_sizes[concat] };
        index[concat] = index[concat] + Expr::symbol(context, 0) * part;
        runtimes.push(Variable::new(Interval::of_size(split_count)));
    }
    IndexingMap::new(context, variables_of_sizes(input_sizes), Vec::new(), runtimes, index, Vec::new())
}
