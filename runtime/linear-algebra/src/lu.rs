//! LU factorisation with row exchanges.

use faer::{
    MatMut,
    prelude::{Reborrow, ReborrowMut},
    traits::math_utils::{is_nan, recip, zero},
};

use crate::{
    Element, TriangularSystem, in_vectors,
    panel::{FEW_COLUMNS, Panel, in_panel, place_of_largest, scale},
};

/// LU in place; row `i` was exchanged with row `pivots[i]`, counted from 1. The result is the place of the first zero on the
/// diagonal counted from 1, or 0. The left half of the columns comes first, as in LAPACK's `getrf2`, so that most of the work
/// is a product.
pub fn lu<T: Element>(mut a: MatMut<'_, T>, pivots: &mut [i32]) -> i32 {
    let (rows, columns) = a.shape();
    if columns <= FEW_COLUMNS || rows <= 1 {
        return in_panel(a, |panel| in_vectors!(lu_by_columns(panel, rows, columns, pivots)));
    }
    let half = rows.min(columns) / 2;
    let half = if half > FEW_COLUMNS { half.next_multiple_of(FEW_COLUMNS) } else { half };
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
    let places = pivots.iter().enumerate().map(|(step, &pivot)| (begin + step, begin + pivot as usize - 1));
    let exchanges: Vec<(usize, usize)> = places.filter(|(row, pivot)| row != pivot).collect();
    if exchanges.is_empty() {
        return;
    }
    for column in 0..a.ncols() {
        let mut column = a.rb_mut().col_mut(column);
        match column.rb_mut().try_as_col_major_mut() {
            Some(column) => {
                let column = column.as_slice_mut();
                exchanges.iter().for_each(|&(row, pivot)| column.swap(row, pivot));
            }
            None => {
                for &(row, pivot) in &exchanges {
                    (column[row], column[pivot]) = (column[pivot], column[row]);
                }
            }
        }
    }
}

/// As [`lu`], a column at a time as LAPACK's `getf2`.
#[inline(always)]
fn lu_by_columns<T: Element>(a: &mut Panel<T>, rows: usize, columns: usize, pivots: &mut [i32]) -> i32 {
    let mut failed = 0;
    let mut below = vec![zero::<T>(); a.stride()];
    for step in 0..rows.min(columns) {
        a.copy_below(step, step, &mut below);
        // NaN on the diagonal stays there.
        let pivot = if is_nan(&below[step]) { step } else { place_of_largest(&below, step) };
        pivots[step] = pivot as i32 + 1;
        let value = below[pivot];
        if value == zero::<T>() || is_nan(&value) {
            if failed == 0 && !is_nan(&value) {
                failed = step as i32 + 1;
            }
            continue;
        }
        if pivot != step {
            (0..columns).for_each(|column| a.column(column).swap(step, pivot));
        }
        scale(&mut a.column(step)[step + 1..], recip(&value));
        a.copy_below(step, step + 1, &mut below);
        a.subtract_multiples(step, &below);
    }
    failed
}
