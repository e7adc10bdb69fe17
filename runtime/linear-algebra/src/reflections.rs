//! QR factorisation and reduction to Hessenberg form by Householder reflections, in LAPACK's packed form and with its signs.
//!
//! Reflection `k` is I - τ v vᴴ, with v zero above row `k` and one there; the rest of v stands below the diagonal of column `k`.

use faer::{
    Mat, MatMut,
    prelude::{Reborrow, ReborrowMut},
    traits::math_utils::{
        add, conj, from_real, imag, max, min_positive, mul, mul_real, neg, one, real, recip, sqrt, sqrt_max_positive,
        sqrt_min_positive, sub, zero,
    },
};

use crate::{
    Element, in_vectors,
    panel::{Panel, in_panel, inner_product, largest, scale, subtract_multiple},
};

/// Reflections that are applied at once.
const BLOCK: usize = 16;

/// QR factorisation in place; the scalars of the reflections go to `taus`.
pub fn qr<T: Element>(mut a: MatMut<'_, T>, taus: &mut [T]) {
    let (rows, columns) = a.shape();
    let steps = rows.min(columns);
    for begin in (0..steps).step_by(BLOCK) {
        let end = steps.min(begin + BLOCK);
        let mut lower = a.rb_mut().submatrix_mut(begin, begin, rows - begin, columns - begin);
        let (mut block, open) = lower.rb_mut().split_at_col_mut(end - begin);
        let mut panel = Panel::of(block.rb());
        let taus = &mut taus[begin..end];
        in_vectors!(qr_by_columns(&mut panel, taus));
        panel.write_to(block.rb_mut());
        if open.ncols() > 0 {
            Reflections::new(panel, taus).apply(open, true);
        }
    }
}

#[inline(always)]
fn qr_by_columns<T: Element>(panel: &mut Panel<T>, taus: &mut [T]) {
    for step in 0..taus.len() {
        let tau = make_reflection(&mut panel.column(step)[step..]);
        taus[step] = tau;
        for column in step + 1..taus.len() {
            let (vector, column) = panel.columns(step, column);
            // The adjoint of the reflection.
            reflect(&vector[step..], &mut column[step..], conj(&tau));
        }
    }
}

/// Replaces packed reflections by the leading columns of their product: from the last to the first, each is applied to the
/// columns right of it, then its own column becomes its product with a unit vector.
pub fn multiply_out<T: Element>(mut q: MatMut<'_, T>, taus: &[T]) {
    let (rows, columns) = q.shape();
    for column in taus.len()..columns {
        for row in 0..rows {
            q[(row, column)] = if row == column { one() } else { zero() };
        }
    }
    for begin in (0..taus.len()).step_by(BLOCK).rev() {
        let end = taus.len().min(begin + BLOCK);
        let (mut above, lower) = q.rb_mut().split_at_row_mut(begin);
        above.rb_mut().subcols_mut(begin, end - begin).fill(zero());
        let (block, open) = lower.subcols_mut(begin, columns - begin).split_at_col_mut(end - begin);
        let taus = &taus[begin..end];
        if open.ncols() > 0 {
            Reflections::new(Panel::of(block.rb()), taus).apply(open, false);
        }
        in_panel(block, |panel| in_vectors!(multiply_out_by_columns(panel, taus)));
    }
}

#[inline(always)]
fn multiply_out_by_columns<T: Element>(panel: &mut Panel<T>, taus: &[T]) {
    for (step, tau) in taus.iter().enumerate().rev() {
        for column in step + 1..taus.len() {
            let (vector, column) = panel.columns(step, column);
            reflect(&vector[step..], &mut column[step..], *tau);
        }
        let column = panel.column(step);
        column[..step].fill(zero());
        column[step] = sub(&one::<T>(), tau);
        scale(&mut column[step + 1..], neg(tau));
    }
}

/// Similarity transformation to Hessenberg form by reflections, one a column: that of column `k` changes the rows below `k`.
pub fn reduce<T: Element>(a: MatMut<'_, T>, taus: &mut [T]) {
    let steps = a.nrows().saturating_sub(1);
    in_panel(a, |panel| in_vectors!(reduce_by_columns(panel, &mut taus[..steps])));
}

#[inline(always)]
fn reduce_by_columns<T: Element>(panel: &mut Panel<T>, taus: &mut [T]) {
    let size = taus.len() + 1;
    for (step, slot) in taus.iter_mut().enumerate() {
        let below = step + 1..size;
        let tau = make_reflection(&mut panel.column(step)[below.clone()]);
        *slot = tau;
        let mut vector = panel.column(step)[below.clone()].to_vec();
        vector[0] = one();
        // The columns' product with the vector.
        let mut product = vec![zero::<T>(); size];
        for (column, value) in below.clone().zip(&vector) {
            subtract_multiple(&mut product, neg(value), panel.column(column));
        }
        for (column, value) in below.clone().zip(&vector) {
            subtract_multiple(panel.column(column), mul(&tau, &conj(value)), &product);
            reflect(&vector, &mut panel.column(column)[below.clone()], conj(&tau));
        }
    }
}

/// The product of consecutive reflections: I - V T Vᴴ.
struct Reflections<T: Element> {
    vectors: Panel<T>,
    /// An upper triangle.
    factor: Mat<T>,
}

impl<T: Element> Reflections<T> {
    /// Of packed reflections, the first of which changes all rows.
    fn new(mut vectors: Panel<T>, taus: &[T]) -> Self {
        let count = taus.len();
        for step in 0..count {
            let column = vectors.column(step);
            column[..step].fill(zero());
            column[step] = one();
        }
        // The negative of the vectors' products with each other.
        let mut products = Mat::zeros(count, count);
        T::subtract_product(products.rb_mut(), vectors.matrix(), true, vectors.matrix());
        let mut factor = Mat::zeros(count, count);
        for (column, tau) in taus.iter().enumerate() {
            factor[(column, column)] = *tau;
            for row in 0..column {
                let terms = (row..column).map(|k| mul(&factor[(row, k)], &products[(k, column)]));
                let sum = terms.fold(zero(), |sum: T, term| add(&sum, &term));
                factor[(row, column)] = mul(&sum, tau);
            }
        }
        Self { vectors, factor }
    }

    /// Multiplies `c` by the product, or by its adjoint, from the left.
    fn apply(&self, mut c: MatMut<'_, T>, adjoint: bool) {
        let (count, columns) = (self.factor.nrows(), c.ncols());
        // Both are subtracted from zero: the signs cancel.
        let (mut products, mut combined) = (Mat::zeros(count, columns), Mat::zeros(count, columns));
        T::subtract_product(products.rb_mut(), self.vectors.matrix(), true, c.rb());
        T::subtract_product(combined.rb_mut(), self.factor.rb(), adjoint, products.rb());
        T::subtract_product(c.rb_mut(), self.vectors.matrix(), false, combined.rb());
    }
}

/// Puts the reflection that clears a column below its first element there, the remaining entry first; returns τ.
#[inline(always)]
pub(crate) fn make_reflection<T: Element>(column: &mut [T]) -> T {
    let (most, before) = (largest(column), column.first().copied());
    // Numbers whose squares are no numbers are scaled; others keep their bits.
    let is_ordinary = most > sqrt_min_positive() && most < sqrt_max_positive();
    let unit: T::Real = if is_ordinary { one() } else { max(&most, &min_positive()) };
    if !is_ordinary {
        scale(column, from_real(&recip(&unit)));
    }
    let Some((first, below)) = column.split_first_mut() else { return zero() };
    let (alpha, square) = (*first, real(&inner_product(below, below)));
    if square == zero::<T::Real>() && imag(&alpha) == zero::<T::Real>() {
        *first = before.unwrap_or(alpha);
        return zero();
    }
    let norm = sqrt(&add(&real(&mul(&alpha, &conj(&alpha))), &square));
    let beta: T = from_real(&if real(&alpha) >= zero::<T::Real>() { neg(&norm) } else { norm });
    scale(below, recip(&sub(&alpha, &beta)));
    *first = mul_real(&beta, &unit);
    mul(&sub(&beta, &alpha), &recip(&beta))
}

/// Applies I - τ v vᴴ to a column, where the first element of v counts as one.
#[inline(always)]
pub(crate) fn reflect<T: Element>(vector: &[T], column: &mut [T], tau: T) {
    let Some((first, below)) = column.split_first_mut() else { return };
    let vector = &vector[1..];
    let factor = mul(&tau, &add(first, &inner_product(vector, below)));
    *first = sub(first, &factor);
    subtract_multiple(below, factor, vector);
}
