//! `geqp3`: QR factorisation with exchanges of columns.

use super::{
    matrices::{Matrices, Vectors},
    orthogonal::{make_reflection, reflect},
};
use crate::runtime::{RunContext, custom_call::CustomCall, linear_algebra::for_each_matrix};
use faer::{
    MatMut, MatRef,
    prelude::{Reborrow, ReborrowMut},
    traits::math_utils::{abs, abs2, add, conj, div, eps, max, mul, one, sqrt, sub, zero},
};
use linear_algebra::Element;

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
            factorise(output.write(index), &fixed, order.write(index), taus.write(index));
        }
    });
    Ok(())
}

fn exchange<T: Element>(a: MatMut<'_, T>, order: &mut [i32], one: usize, other: usize) {
    faer::perm::swap_cols_idx(a, one, other);
    order.swap(one, other);
}

fn factorise<T: Element>(mut a: MatMut<'_, T>, fixed: &[i32], order: &mut [i32], taus: &mut [T]) {
    let (rows, columns) = a.shape();
    order.iter_mut().zip(1..).for_each(|(place, number)| *place = number);
    let mut fixed_count = 0;
    for column in (0..columns).filter(|&column| fixed[column] != 0) {
        exchange(a.rb_mut(), order, fixed_count, column);
        fixed_count += 1;
    }
    let mut lengths = Vec::new();
    for (step, tau) in taus.iter_mut().enumerate().take(rows.min(columns)) {
        if step == fixed_count {
            lengths = (0..columns).map(|column| Length::of(a.rb(), step, column)).collect();
        }
        if step >= fixed_count {
            let longest = (step + 1..columns).fold(step, |longest, column| {
                if lengths[column].estimate > lengths[longest].estimate { column } else { longest }
            });
            exchange(a.rb_mut(), order, step, longest);
            lengths.swap(step, longest);
        }
        *tau = make_reflection(a.rb_mut(), step);
        for column in step + 1..columns {
            reflect(a.rb_mut(), step, column, conj(tau));
        }
        for (column, length) in lengths.iter_mut().enumerate().skip(step + 1) {
            length.shorten(a.rb(), step, column);
        }
    }
}

/// The length of what remains of a column.
#[derive(Clone, Copy)]
struct Length<T: Element> {
    estimate: T::Real,
    /// The last one that was computed from the elements.
    exact: T::Real,
}

impl<T: Element> Length<T> {
    /// The length of a column from `row` on.
    fn of(a: MatRef<'_, T>, row: usize, column: usize) -> Self {
        let squares = (row..a.nrows()).map(|row| abs2(&a[(row, column)]));
        let exact = sqrt(&squares.fold(zero(), |sum, square| add(&sum, &square)));
        Self { estimate: exact, exact }
    }

    /// Takes the element in row `step` away, by Pythagoras as long as that is accurate enough (LAPACK Working Note 176).
    fn shorten(&mut self, a: MatRef<'_, T>, step: usize, column: usize) {
        if self.estimate == zero::<T::Real>() {
            return;
        }
        let share = div(&abs(&a[(step, column)]), &self.estimate);
        let remaining = max(&zero::<T::Real>(), &sub(&one::<T::Real>(), &mul(&share, &share)));
        let ratio = div(&self.estimate, &self.exact);
        if mul(&remaining, &mul(&ratio, &ratio)) <= sqrt(&eps::<T::Real>()) {
            *self = Self::of(a, step + 1, column);
        } else {
            self.estimate = mul(&self.estimate, &sqrt(&remaining));
        }
    }
}
