//! `sort` ("Sort") and `topk`.
//!
//! Sorting is a merge sort of positions: stable, and safe with comparators that are no order at all.

use std::cmp::Ordering;

use super::compare::Comparison;
use super::data::{build, row_major_strides, sizes};
use super::scalar_function::ScalarFunction;
use super::{EvalFailure, Evaluator};
use hlo::literal::ArrayLiteral;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// Sorts the operands together along a dimension.
pub(super) fn sort(
    evaluator: &mut Evaluator<'_, '_, '_>,
    operands: &[&ArrayLiteral],
    along: i64,
    comparator: &mut ScalarFunction<'_>,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let Some(first) = operands.first() else {
        return Err(EvalFailure::malformed("a sort needs an operand"));
    };
    let array_sizes = sizes(&first.shape().dimensions);
    let strides = row_major_strides(&array_sizes);
    let along = usize::try_from(along).ok().filter(|&d| d < array_sizes.len());
    let along = along.ok_or_else(|| EvalFailure::malformed("the sorted dimension does not exist"))?;
    let (length, stride) = (array_sizes[along], strides[along]);
    let mut outputs: Vec<Vec<usize>> = Vec::new();
    let rows: usize = array_sizes.iter().enumerate().filter(|&(d, _)| d != along).map(|(_, &size)| size).product();
    let mut arguments = Vec::with_capacity(2 * operands.len());
    let mut values = Vec::with_capacity(1);
    for row in 0..if length == 0 { 0 } else { rows } {
        // First position of the row: its number written in the sizes of the other dimensions.
        let base = row / stride * stride * length + row % stride;
        let columns: Vec<Vec<Scalar>> = operands
            .iter()
            .map(|operand| {
                (0..length).map(|i| load(operand.element_type(), operand.bytes(), base + i * stride)).collect()
            })
            .collect();
        let order = merge_sort(length, |a, b| {
            arguments.clear();
            columns.iter().for_each(|column| arguments.extend([column[a], column[b]]));
            comparator.holds(evaluator, &arguments, &mut values)
        })?;
        outputs.push(order);
    }
    operands
        .iter()
        .zip(results)
        .map(|(operand, result)| {
            let element_type = operand.element_type();
            build::<u8>(result, |target| {
                for (row, order) in outputs.iter().enumerate() {
                    let base = row / stride * stride * length + row % stride;
                    for (place, &source) in order.iter().enumerate() {
                        let value = load(element_type, operand.bytes(), base + source * stride);
                        store(element_type, target, base + place * stride, value);
                    }
                }
                Ok(())
            })
        })
        .collect()
}

/// The positions 0..count in an order where no element is before one that is less; equal ones keep their order.
fn merge_sort(
    count: usize,
    mut less: impl FnMut(usize, usize) -> Result<bool, EvalFailure>,
) -> Result<Vec<usize>, EvalFailure> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut merged = Vec::with_capacity(count);
    let mut run = 1;
    while run < count {
        merged.clear();
        for pair in order.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let (Some((&l, left_rest)), Some((&r, right_rest))) = (left.split_first(), right.split_first()) {
                if less(r, l)? {
                    merged.push(r);
                    right = right_rest;
                } else {
                    merged.push(l);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        run *= 2;
    }
    Ok(order)
}

/// The k largest (or smallest) elements of each row of the last dimension, in order, and their positions.
/// Equal elements: the one at the lower position first. Floats compare in the total order.
pub(super) fn top_k(
    operand: &ArrayLiteral,
    largest: bool,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let (&length, [values, indices]) = (operand.shape().dimensions.last().unwrap_or(&1), results) else {
        return Err(EvalFailure::malformed("topk has two results"));
    };
    let length = length.max(0) as usize;
    let k = values.dimensions.last().map_or(1, |&k| k.max(0) as usize);
    let element_type = operand.element_type();
    let rows = match length {
        0 => 0,
        length => operand.shape().element_count() as usize / length,
    };
    if k > length || values.element_count() as usize != rows * k {
        return Err(EvalFailure::malformed("k is larger than the dimension"));
    }
    let mut chosen = Vec::with_capacity(rows * k);
    for row in 0..rows {
        let element = |position: usize| load(element_type, operand.bytes(), row * length + position);
        let mut order: Vec<usize> = (0..length).collect();
        order.sort_by(|&a, &b| {
            let ordering = total_order(element(a), element(b));
            if largest { ordering.reverse() } else { ordering }
        });
        chosen.extend(order.into_iter().take(k).map(|position| (row, position)));
    }
    let values = build::<u8>(values, |target| {
        for (place, &(row, position)) in chosen.iter().enumerate() {
            store(element_type, target, place, load(element_type, operand.bytes(), row * length + position));
        }
        Ok(())
    })?;
    let indices = build::<u8>(indices, |target| {
        for (place, &(_, position)) in chosen.iter().enumerate() {
            store(indices.element_type, target, place, Scalar::Signed(position as i64));
        }
        Ok(())
    })?;
    Ok(vec![values, indices])
}

fn total_order(a: Scalar, b: Scalar) -> Ordering {
    let less = Comparison::TOTAL_LESS;
    match (less.compare(a, b), less.compare(b, a)) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_sort_is_stable_and_survives_senseless_comparators() {
        let keys = [3, 1, 2, 1, 3, 0, 2];
        let order = merge_sort(keys.len(), |a, b| Ok(keys[a] < keys[b])).unwrap();
        assert_eq!(order, [5, 1, 3, 2, 6, 0, 4]);
        let mut flip = false;
        let mut order = merge_sort(100, |_, _| {
            flip = !flip;
            Ok(flip)
        })
        .unwrap();
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
