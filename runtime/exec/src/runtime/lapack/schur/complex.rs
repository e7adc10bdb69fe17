//! The complex Schur form by single-shift iteration (LAPACK `lahqr`).

use super::{Precision, STALLED, is_negligible};
use faer::{
    MatMut, MatRef, c64,
    prelude::{Reborrow, ReborrowMut},
};

/// Turns a Hessenberg matrix into upper triangular form; every transformation is applied to the columns of `z` as well. An
/// error is the number of leading rows that have not converged.
pub(super) fn iterate(mut h: MatMut<'_, c64>, mut z: MatMut<'_, c64>, precision: Precision) -> Result<(), usize> {
    let size = h.nrows();
    for row in 1..size {
        make_real(h.rb_mut(), z.rb_mut(), row);
    }
    let limit = 30 * size.max(10);
    // Rows from `end` on have converged.
    let (mut end, mut steps, mut stalled) = (size, 0, 0);
    while end > 0 {
        let start = active_start(h.rb(), end, precision);
        if start > 0 {
            h[(start, start - 1)] = c64::new(0.0, 0.0);
        }
        if start + 1 >= end {
            (end, steps, stalled) = (start, 0, 0);
            continue;
        }
        if steps > limit {
            return Err(end);
        }
        steps += 1;
        stalled += 1;
        let shift = shift(h.rb(), start, end, stalled);
        let first = first_row(h.rb(), start, end, shift, precision);
        sweep(h.rb_mut(), z.rb_mut(), start, first, end, shift);
    }
    Ok(())
}

/// The first row of the last block that does not split at a negligible element.
fn active_start(h: MatRef<'_, c64>, end: usize, precision: Precision) -> usize {
    (1..end).rev().find(|&row| is_negligible(|row, column| h[(row, column)], row, end, precision)).unwrap_or(0)
}

/// Multiplies row `row` by `phase` and the column of that number by its conjugate; both have absolute value 1.
fn turn(mut h: MatMut<'_, c64>, mut z: MatMut<'_, c64>, row: usize, phase: c64) {
    let size = h.nrows();
    for column in row + 1..size {
        h[(row, column)] *= phase;
    }
    for above in 0..row {
        h[(above, row)] *= phase.conj();
    }
    for place in 0..z.nrows() {
        z[(place, row)] *= phase.conj();
    }
}

/// Makes the element left of the diagonal real.
fn make_real(mut h: MatMut<'_, c64>, z: MatMut<'_, c64>, row: usize) {
    let value = h[(row, row - 1)];
    if value.im == 0.0 {
        return;
    }
    let length = value.norm();
    h[(row, row - 1)] = c64::new(length, 0.0);
    let phase = (value / length).conj();
    if row + 1 < h.nrows() {
        h[(row + 1, row)] *= phase.conj();
    }
    turn(h, z, row, phase);
}

/// The eigenvalue of the last 2 by 2 block nearer to the last element; others when the iteration makes no progress.
fn shift(h: MatRef<'_, c64>, start: usize, end: usize, stalled: usize) -> c64 {
    let last = end - 1;
    let corner = h[(last, last)];
    if stalled.is_multiple_of(2 * STALLED) {
        return corner + 0.75 * h[(last, last - 1)].re.abs();
    }
    if stalled.is_multiple_of(STALLED) {
        return h[(start, start)] + 0.75 * h[(start + 1, start)].re.abs();
    }
    let product = h[(last - 1, last)].sqrt() * h[(last, last - 1)].sqrt();
    let scale = product.l1_norm();
    if scale == 0.0 {
        return corner;
    }
    let half = (h[(last - 1, last - 1)] - corner) / 2.0;
    let scale = scale.max(half.l1_norm());
    let mut root = scale * ((half / scale).powu(2) + (product / scale).powu(2)).sqrt();
    if half.re * root.re + half.im * root.im < 0.0 {
        root = -root;
    }
    corner - product * (product / (half + root))
}

/// A multiple of the first column of h - shift, h taken from row `row` on.
fn first_column(h: MatRef<'_, c64>, row: usize, shift: c64) -> [c64; 2] {
    let (diagonal, below) = (h[(row, row)] - shift, h[(row + 1, row)].re);
    let scale = diagonal.l1_norm() + below.abs();
    [diagonal / scale, c64::new(below / scale, 0.0)]
}

/// Where a step begins: below the first row of the block if two elements in a row are small there.
fn first_row(h: MatRef<'_, c64>, start: usize, end: usize, shift: c64, precision: Precision) -> usize {
    let is_small = |row: usize| {
        let [diagonal, below] = first_column(h, row, shift);
        let beside = h[(row, row)].l1_norm() + h[(row + 1, row + 1)].l1_norm();
        h[(row, row - 1)].re.abs() * below.re.abs() <= precision.epsilon * diagonal.l1_norm() * beside
    };
    (start + 1..end - 1).rev().find(|&row| is_small(row)).unwrap_or(start)
}

/// One step on the block from `start` to `end`, beginning in row `first`.
fn sweep(mut h: MatMut<'_, c64>, mut z: MatMut<'_, c64>, start: usize, first: usize, end: usize, shift: c64) {
    let size = h.nrows();
    let mut v = first_column(h.rb(), first, shift);
    for step in first..end - 1 {
        if step > first {
            v = [h[(step, step - 1)], h[(step + 1, step - 1)]];
        }
        let (beta, tau, below) = reflection(v);
        if step > first {
            h[(step, step - 1)] = beta;
            h[(step + 1, step - 1)] = c64::new(0.0, 0.0);
        }
        for column in step..size {
            let product = tau.conj() * (h[(step, column)] + below.conj() * h[(step + 1, column)]);
            h[(step, column)] -= product;
            h[(step + 1, column)] -= product * below;
        }
        reflect_columns(h.rb_mut().subrows_mut(0, (step + 3).min(end)), step, below, tau);
        reflect_columns(z.rb_mut(), step, below, tau);
        if step == first && first > start {
            // The element left of the block was multiplied by 1 - τ and must stay real.
            let left = c64::new(1.0, 0.0) - tau;
            let phase = left / left.norm();
            h[(first + 1, first)] *= phase.conj();
            if first + 2 < end {
                h[(first + 2, first + 1)] *= phase;
            }
            for row in (first..end).filter(|&row| row != first + 1) {
                turn(h.rb_mut(), z.rb_mut(), row, phase);
            }
        }
    }
    make_real(h, z, end - 1);
}

/// (β, τ, w) with (1 - τ (1, w) (1, w)ᴴ)ᴴ v = (β, 0).
fn reflection([alpha, below]: [c64; 2]) -> (c64, c64, c64) {
    if below == c64::new(0.0, 0.0) && alpha.im == 0.0 {
        return (alpha, below, below);
    }
    let beta = -alpha.norm().hypot(below.norm()).copysign(alpha.re);
    let tau = c64::new((beta - alpha.re) / beta, -alpha.im / beta);
    (c64::new(beta, 0.0), tau, below / (alpha - beta))
}

/// Multiplies column `first` and the next by 1 - τ (1, w) (1, w)ᴴ from the right.
fn reflect_columns(mut a: MatMut<'_, c64>, first: usize, below: c64, tau: c64) {
    for row in 0..a.nrows() {
        let product = tau * (a[(row, first)] + below * a[(row, first + 1)]);
        a[(row, first)] -= product;
        a[(row, first + 1)] -= product * below.conj();
    }
}
