//! `potrf`, `trsm` and `getrf`: factorisation into triangular matrices, and solving with those.

use super::{
    letter,
    matrices::{Matrices, Vectors},
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    MatMut,
    prelude::{Reborrow, ReborrowMut},
    traits::math_utils::{abs1, is_nan, mul, recip, sub, zero},
};
use linear_algebra::{Element, TriangularSystem};

/// (a) -> (factor, info): Cholesky; `uplo` says which triangle is read and written. `info` is the order of the first leading
/// minor that is not positive definite.
pub(super) fn potrf<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let lower = letter(call, "uplo")? == 'L';
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let info = Vectors::<i32>::new(&call.results, 1, input.count)?;
    for_each_matrix(context, input.count, input.rows.pow(3) / 6, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            let before = input.read(index).to_owned();
            output.copy_from(&input, index);
            let mut matrix = output.write(index);
            let mut triangle = if lower { matrix.rb_mut() } else { matrix.rb_mut().transpose_mut() };
            let result = T::cholesky(triangle.rb_mut());
            info.set(index, result.err().map_or(0, |order| order as i32));
            let before = if lower { before.as_ref() } else { before.transpose() };
            for column in 0..triangle.ncols() {
                for row in 0..column.min(triangle.nrows()) {
                    triangle[(row, column)] = before[(row, column)];
                }
            }
        }
    });
    Ok(())
}

/// (a, b) -> x with op(a) x = b or x op(a) = b.
pub(super) fn trsm<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let transpose = letter(call, "trans_x")?;
    let system = TriangularSystem {
        left_side: letter(call, "side")? == 'L',
        lower: letter(call, "uplo")? == 'L',
        unit_diagonal: letter(call, "diag")? == 'U',
        transposed: transpose != 'N',
        conjugated: transpose == 'C',
    };
    let (a, b) = (Matrices::<T>::new(&call.operands, 0)?, Matrices::<T>::new(&call.operands, 1)?);
    let output = Matrices::<T>::new(&call.results, 0)?.like(&b)?;
    let size = if system.left_side { b.rows } else { b.columns };
    if (a.count, a.rows, a.columns) != (b.count, size, size) {
        return Err("the matrices do not fit".into());
    }
    for_each_matrix(context, b.count, size * b.rows * b.columns / 4, |index| {
        // SAFETY: this thread alone handles these matrices.
        unsafe {
            output.copy_from(&b, index);
            T::solve_triangular(a.read(index), output.write(index), system);
        }
    });
    Ok(())
}

/// (a) -> (lu, pivots, info): LU with row exchanges; row `i` was exchanged with row `pivots[i]`, counted from 1.
pub(super) fn getrf<T: Element>(call: &CustomCall, context: &RunContext) -> Result<(), String> {
    let input = Matrices::<T>::new(&call.operands, 0)?;
    let output = Matrices::<T>::new(&call.results, 0)?.like(&input)?;
    let pivots = Vectors::<i32>::new(&call.results, 1, input.count)?;
    let info = Vectors::<i32>::new(&call.results, 2, input.count)?;
    let steps = input.rows.min(input.columns);
    if input.count > 0 && pivots.length < steps {
        return Err("too few pivots".into());
    }
    for_each_matrix(context, input.count, steps * input.rows * input.columns / 2, |index| {
        // SAFETY: this thread alone handles this matrix.
        unsafe {
            output.copy_from(&input, index);
            let failed = lu(output.write(index), pivots.write(index));
            info.set(index, failed);
        }
    });
    Ok(())
}

/// Columns up to which a matrix is factorised column by column.
const FEW_COLUMNS: usize = 16;

/// LU in place; the place of the first zero on the diagonal counted from 1, or 0. The left half of the columns first, as
/// LAPACK's `getrf2`, so that most of the work is a product.
fn lu<T: Element>(mut a: MatMut<'_, T>, pivots: &mut [i32]) -> i32 {
    let (rows, columns) = a.shape();
    if columns <= FEW_COLUMNS || rows <= 1 {
        return lu_by_columns(a, pivots);
    }
    let half = rows.min(columns) / 2;
    let (mut left, mut right) = a.rb_mut().split_at_col_mut(half);
    let first = lu(left.rb_mut(), pivots);
    exchange_rows(right.rb_mut(), &pivots[..half], 0);
    let (upper_left, lower_left) = left.rb().split_at_row(half);
    let (mut upper_right, mut lower_right) = right.split_at_row_mut(half);
    let system =
        TriangularSystem { left_side: true, lower: true, unit_diagonal: true, transposed: false, conjugated: false };
    T::solve_triangular(upper_left, upper_right.rb_mut(), system);
    T::subtract_product(lower_right.rb_mut(), lower_left, false, upper_right.rb());
    let steps = rows.min(columns);
    let second = lu(lower_right, &mut pivots[half..steps]);
    exchange_rows(left, &pivots[half..steps], half);
    pivots[half..steps].iter_mut().for_each(|pivot| *pivot += half as i32);
    match (first, second) {
        (0, 0) => 0,
        (0, second) => second + half as i32,
        (first, _) => first,
    }
}

/// Exchanges each row from `begin` on with its pivot, counted from 1 behind `begin`.
fn exchange_rows<T: Element>(mut a: MatMut<'_, T>, pivots: &[i32], begin: usize) {
    for column in 0..a.ncols() {
        let mut column = a.rb_mut().col_mut(column);
        for (step, &pivot) in pivots.iter().enumerate() {
            let (row, pivot) = (begin + step, begin + pivot as usize - 1);
            (column[row], column[pivot]) = (column[pivot], column[row]);
        }
    }
}

/// As [`lu`], a column at a time as LAPACK's `getf2`.
fn lu_by_columns<T: Element>(mut a: MatMut<'_, T>, pivots: &mut [i32]) -> i32 {
    let (rows, columns) = a.shape();
    let mut failed = 0;
    for step in 0..rows.min(columns) {
        let mut pivot = step;
        for row in step + 1..rows {
            if abs1(&a[(row, step)]) > abs1(&a[(pivot, step)]) {
                pivot = row;
            }
        }
        pivots[step] = pivot as i32 + 1;
        let value = a[(pivot, step)];
        if value == zero::<T>() || is_nan(&value) {
            if failed == 0 && !is_nan(&value) {
                failed = step as i32 + 1;
            }
            continue;
        }
        if pivot != step {
            for column in 0..columns {
                let upper = a[(step, column)];
                a[(step, column)] = a[(pivot, column)];
                a[(pivot, column)] = upper;
            }
        }
        let inverse = recip(&value);
        for row in step + 1..rows {
            a[(row, step)] = mul(&a[(row, step)], &inverse);
        }
        for column in step + 1..columns {
            let factor = a[(step, column)];
            if factor == zero::<T>() {
                continue;
            }
            let (done, open) = a.rb_mut().split_at_col_mut(column);
            let below = done.rb().col(step).subrows(step + 1, rows - step - 1);
            let target = open.col_mut(0).subrows_mut(step + 1, rows - step - 1);
            target.iter_mut().zip(below.iter()).for_each(|(value, below)| *value = sub(value, &mul(below, &factor)));
        }
    }
    failed
}
