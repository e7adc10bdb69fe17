//! `geqp3`: QR factorisation with exchanges of columns.

use super::matrices::{Matrices, Vectors};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use linear_algebra::{Element, pivoted_qr};

/// (a, columns) -> (packed, columns, taus): column `j` of the product q r is column `columns[j]` of `a`, counted from 1. The
/// columns whose operand is not zero come first; of the others the one with the longest rest is next.
pub(super) fn geqp3<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let fixed = Vectors::<i32>::new(&call.operands, 1, input.count)?;
    let order = Vectors::<i32>::new(&call.results, 1, input.count)?;
    let taus = Vectors::<T>::new(&call.results, 2, input.count)?;
    let steps = input.rows.min(input.columns);
    let fits = fixed.length == input.columns && order.length == input.columns && taus.length >= steps;
    if input.count > 0 && !fits {
        return Err("the permutation or the scalars do not fit".into());
    }
    for_each_matrix(context, input.count, 4 * steps * input.rows * input.columns, |index| {
        // SAFETY: this thread alone handles this matrix; the operand is copied before the result is written.
        unsafe {
            output.copy_from(&input, index);
            let fixed = fixed.write(index).to_vec();
            pivoted_qr(output.write(index), &fixed, order.write(index), taus.write(index));
        }
    });
    Ok(())
}
