//! QR factorisation with exchanges of columns, as LAPACK's `geqp3`.

use faer::{
    MatMut,
    traits::math_utils::{abs, conj, div, eps, max, mul, one, real, sqrt, sub, zero},
};

use crate::{
    Element, in_vectors,
    panel::{Panel, in_panel, inner_product},
    reflections::{make_reflection, reflect},
};

/// QR in place: column `j` of the product q r is column `order[j]` of `a`, counted from 1. The columns for which `fixed` is
/// not zero come first; of the others the one with the longest rest is next.
pub fn pivoted_qr<T: Element>(a: MatMut<'_, T>, fixed: &[i32], order: &mut [i32], taus: &mut [T]) {
    let (rows, columns) = a.shape();
    let taus = &mut taus[..rows.min(columns)];
    in_panel(a, |panel| in_vectors!(by_columns(panel, columns, fixed, order, taus)));
}

#[inline(always)]
fn by_columns<T: Element>(a: &mut Panel<T>, columns: usize, fixed: &[i32], order: &mut [i32], taus: &mut [T]) {
    order.iter_mut().zip(1..).for_each(|(place, number)| *place = number);
    let mut fixed_count = 0;
    for column in (0..columns).filter(|&column| fixed[column] != 0) {
        a.exchange(fixed_count, column);
        order.swap(fixed_count, column);
        fixed_count += 1;
    }
    let mut lengths = Vec::new();
    for (step, tau) in taus.iter_mut().enumerate() {
        if step == fixed_count {
            lengths = (0..columns).map(|column| Length::of(&a.column(column)[step..])).collect();
        }
        if step >= fixed_count {
            let longest = (step + 1..columns).fold(step, |longest, column| {
                if lengths[column].estimate > lengths[longest].estimate { column } else { longest }
            });
            a.exchange(step, longest);
            order.swap(step, longest);
            lengths.swap(step, longest);
        }
        *tau = make_reflection(&mut a.column(step)[step..]);
        for column in step + 1..columns {
            let (vector, column) = a.columns(step, column);
            reflect(&vector[step..], &mut column[step..], conj(tau));
        }
        for (column, length) in lengths.iter_mut().enumerate().skip(step + 1) {
            length.shorten(&a.column(column)[step..]);
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
    #[inline(always)]
    fn of(column: &[T]) -> Self {
        let exact = sqrt(&real(&inner_product(column, column)));
        Self { estimate: exact, exact }
    }

    /// Takes the first element of what remained away, by Pythagoras as long as that is accurate enough (LAPACK Working Note
    /// 176).
    #[inline(always)]
    fn shorten(&mut self, column: &[T]) {
        if self.estimate == zero::<T::Real>() {
            return;
        }
        let share = div(&abs(&column[0]), &self.estimate);
        let remaining = max(&zero::<T::Real>(), &sub(&one::<T::Real>(), &mul(&share, &share)));
        let ratio = div(&self.estimate, &self.exact);
        if mul(&remaining, &mul(&ratio, &ratio)) <= sqrt(&eps::<T::Real>()) {
            *self = Self::of(&column[1..]);
        } else {
            self.estimate = mul(&self.estimate, &sqrt(&remaining));
        }
    }
}
