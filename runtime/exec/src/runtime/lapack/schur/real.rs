//! The real Schur form by Francis' double-shift iteration (LAPACK `lahqr` and `lanv2`).

use super::{Precision, STALLED, is_negligible};
use faer::{
    MatMut, MatRef, c64,
    prelude::{Reborrow, ReborrowMut},
};
use linear_algebra::in_vectors;

/// Turns a Hessenberg matrix into upper triangular form but for blocks of 2 by 2 with a conjugate pair of eigenvalues and equal
/// diagonal elements each; every transformation is applied to the columns of `z` as well. An error is the number of leading
/// rows that have not converged.
pub(super) fn iterate(mut h: MatMut<'_, f64>, mut z: MatMut<'_, f64>, precision: Precision) -> Result<(), usize> {
    let size = h.nrows();
    let limit = 30 * size.max(10);
    // Rows from `end` on have converged, so has what is left of `start`.
    let (mut end, mut steps, mut stalled) = (size, 0, 0);
    while end > 0 {
        let start = active_start(h.rb(), end, precision);
        if start > 0 {
            h[(start, start - 1)] = 0.0;
        }
        if start + 2 >= end {
            if start + 2 == end {
                split(h.rb_mut(), z.rb_mut(), start);
            }
            (end, steps, stalled) = (start, 0, 0);
            continue;
        }
        if steps > limit {
            return Err(end);
        }
        steps += 1;
        stalled += 1;
        let shifts = shifts(h.rb(), start, end, stalled);
        let first = first_row(h.rb(), start, end, shifts, precision);
        sweep(h.rb_mut(), z.rb_mut(), start, first, end, shifts);
    }
    Ok(())
}

/// The first row of the last block that does not split at a negligible element.
fn active_start(h: MatRef<'_, f64>, end: usize, precision: Precision) -> usize {
    let element = |row, column| c64::new(h[(row, column)], 0.0);
    (1..end).rev().find(|&row| is_negligible(element, row, end, precision)).unwrap_or(0)
}

/// The eigenvalues of the last 2 by 2 block, two equal ones if they are real; others when the iteration makes no progress.
fn shifts(h: MatRef<'_, f64>, start: usize, end: usize, stalled: usize) -> [c64; 2] {
    let last = end - 1;
    let exceptional = |scale: f64, corner: f64| {
        let diagonal = 0.75 * scale + corner;
        [diagonal, -0.4375 * scale, scale, diagonal]
    };
    let [a, b, c, d] = if stalled.is_multiple_of(2 * STALLED) {
        exceptional(h[(last, last - 1)].abs() + h[(last - 1, last - 2)].abs(), h[(last, last)])
    } else if stalled.is_multiple_of(STALLED) {
        exceptional(h[(start + 1, start)].abs() + h[(start + 2, start + 1)].abs(), h[(start, start)])
    } else {
        [h[(last - 1, last - 1)], h[(last - 1, last)], h[(last, last - 1)], h[(last, last)]]
    };
    let scale = a.abs() + b.abs() + c.abs() + d.abs();
    if scale == 0.0 {
        return [c64::new(0.0, 0.0); 2];
    }
    let [a, b, c, d] = [a, b, c, d].map(|value| value / scale);
    let middle = (a + d) / 2.0;
    let determinant = (a - middle) * (d - middle) - b * c;
    let root = determinant.abs().sqrt();
    if determinant >= 0.0 {
        return [c64::new(middle * scale, root * scale), c64::new(middle * scale, -root * scale)];
    }
    let (upper, lower) = (middle + root, middle - root);
    let nearer = if (upper - d).abs() <= (lower - d).abs() { upper } else { lower };
    [c64::new(nearer * scale, 0.0); 2]
}

/// A multiple of the first column of (h - s₁)(h - s₂), h taken from row `row` on.
fn first_column(h: MatRef<'_, f64>, row: usize, [s1, s2]: [c64; 2]) -> [f64; 3] {
    let (diagonal, below) = (h[(row, row)], h[(row + 1, row)]);
    let scale = (diagonal - s2.re).abs() + s2.im.abs() + below.abs();
    let below = below / scale;
    let v = [
        below * h[(row, row + 1)] + (diagonal - s1.re) * ((diagonal - s2.re) / scale) - s1.im * (s2.im / scale),
        below * (diagonal + h[(row + 1, row + 1)] - s1.re - s2.re),
        below * h[(row + 2, row + 1)],
    ];
    let scale: f64 = v.iter().map(|value| value.abs()).sum();
    v.map(|value| value / scale)
}

/// Where a step begins: below the first row of the block if two elements in a row are small there.
fn first_row(h: MatRef<'_, f64>, start: usize, end: usize, shifts: [c64; 2], precision: Precision) -> usize {
    let is_small = |row: usize| {
        let v = first_column(h, row, shifts);
        let beside: f64 = (row - 1..=row + 1).map(|place| h[(place, place)].abs()).sum();
        h[(row, row - 1)].abs() * (v[1].abs() + v[2].abs()) <= precision.epsilon * v[0].abs() * beside
    };
    (start + 1..end - 2).rev().find(|&row| is_small(row)).unwrap_or(start)
}

/// One double step on the block from `start` to `end`, beginning in row `first`.
fn sweep(mut h: MatMut<'_, f64>, mut z: MatMut<'_, f64>, start: usize, first: usize, end: usize, shifts: [c64; 2]) {
    let (last, size) = (end - 1, h.ncols());
    let mut v = first_column(h.rb(), first, shifts);
    for step in first..last {
        let count = (end - step).min(3);
        if step > first {
            for place in 0..count {
                v[place] = h[(step + place, step - 1)];
            }
        }
        let v = &mut v[..count];
        let tau = make_reflection(v);
        if step > first {
            h[(step, step - 1)] = v[0];
            for row in step + 1..step + count {
                h[(row, step - 1)] = 0.0;
            }
        } else if first > start {
            h[(step, step - 1)] *= 1.0 - tau;
        }
        v[0] = 1.0;
        reflect_columns(h.rb_mut().transpose_mut().subrows_mut(step, size - step), step, v, tau);
        reflect_columns(h.rb_mut().subrows_mut(0, (step + 4).min(end)), step, v, tau);
        reflect_columns(z.rb_mut(), step, v, tau);
    }
}

/// Replaces v by β and the rest of the w with w₀ = 1 and (1 - τ w wᵀ) v = (β, 0, …); returns τ.
fn make_reflection(v: &mut [f64]) -> f64 {
    let rest = v[1..].iter().fold(0.0, |length: f64, value| length.hypot(*value));
    if rest == 0.0 {
        return 0.0;
    }
    let (alpha, beta) = (v[0], -v[0].hypot(rest).copysign(v[0]));
    v[1..].iter_mut().for_each(|value| *value /= alpha - beta);
    v[0] = beta;
    (beta - alpha) / beta
}

/// Multiplies the columns from `first` on by 1 - τ v vᵀ from the right.
fn reflect_columns(a: MatMut<'_, f64>, first: usize, v: &[f64], tau: f64) {
    let columns = a.subcols_mut(first, v.len());
    match *v {
        [v0, v1] => in_vectors!(reflect(columns, [v0, v1], tau)),
        [v0, v1, v2] => in_vectors!(reflect(columns, [v0, v1, v2], tau)),
        _ => {}
    }
}

/// The same with two or three columns, or rows that lie as columns: by slices, as this is nearly all of the work.
#[inline(always)]
fn reflect<const COUNT: usize>(mut a: MatMut<'_, f64>, v: [f64; COUNT], tau: f64) {
    let reflected = |row: [f64; COUNT]| {
        let product: f64 = row.iter().zip(v).map(|(element, v)| element * v).sum();
        std::array::from_fn(|place| row[place] - product * tau * v[place])
    };
    if let Some(rows) = a.rb_mut().try_as_row_major_mut() {
        for row in rows.row_iter_mut() {
            if let Ok(row) = <&mut [f64; COUNT]>::try_from(row.as_slice_mut()) {
                *row = reflected(*row);
            }
        }
    } else if let Some(columns) = a.try_as_col_major_mut() {
        let count = columns.nrows();
        let mut columns = columns.col_iter_mut().map(|column| column.as_slice_mut());
        let mut columns: [&mut [f64]; COUNT] =
            std::array::from_fn(|_| columns.next().and_then(|column| column.get_mut(..count)).unwrap_or_default());
        for number in 0..count {
            let row = reflected(std::array::from_fn(|place| columns[place][number]));
            for (column, element) in columns.iter_mut().zip(row) {
                column[number] = element;
            }
        }
    }
}

/// Brings a 2 by 2 block to standard form: triangular, or with equal diagonal elements and others of opposite sign.
fn split(mut h: MatMut<'_, f64>, mut z: MatMut<'_, f64>, start: usize) {
    let next = start + 1;
    let size = h.ncols();
    let block = [h[(start, start)], h[(start, next)], h[(next, start)], h[(next, next)]];
    let ([a, b, c, d], rotation) = standardise(block);
    rotate_columns(h.rb_mut().transpose_mut().subrows_mut(next + 1, size - next - 1), start, rotation);
    rotate_columns(h.rb_mut().subrows_mut(0, start), start, rotation);
    rotate_columns(z.rb_mut(), start, rotation);
    (h[(start, start)], h[(start, next)], h[(next, start)], h[(next, next)]) = (a, b, c, d);
}

/// Turns columns `first` and the next by an angle of this (cosine, sine).
fn rotate_columns(mut a: MatMut<'_, f64>, first: usize, (cosine, sine): (f64, f64)) {
    for row in 0..a.nrows() {
        let (x, y) = (a[(row, first)], a[(row, first + 1)]);
        a[(row, first)] = cosine * x + sine * y;
        a[(row, first + 1)] = cosine * y - sine * x;
    }
}

/// The standard form of [[a, b], [c, d]] and the rotation that leads there, as (cosine, sine).
fn standardise([a, b, c, d]: [f64; 4]) -> ([f64; 4], (f64, f64)) {
    if c == 0.0 {
        return ([a, b, c, d], (1.0, 0.0));
    }
    if b == 0.0 {
        return ([d, -c, 0.0, a], (0.0, 1.0));
    }
    let difference = a - d;
    if difference == 0.0 && b.signum() != c.signum() {
        return ([a, b, c, d], (1.0, 0.0));
    }
    let half = difference / 2.0;
    let (larger, smaller) = (b.abs().max(c.abs()), b.abs().min(c.abs()) * b.signum() * c.signum());
    let scale = half.abs().max(larger);
    let discriminant = half / scale * half + larger / scale * smaller;
    if discriminant >= 4.0 * f64::EPSILON {
        // Two real eigenvalues.
        let root = half + (scale.sqrt() * discriminant.sqrt()).copysign(half);
        let length = c.hypot(root);
        return ([d + root, b - c, 0.0, d - larger / root * smaller], (root / length, c / length));
    }
    // Complex ones, or real ones so near to each other that equal diagonal elements must show what they are.
    let sigma = b + c;
    let length = sigma.hypot(difference);
    let cosine = (0.5 * (1.0 + sigma.abs() / length)).sqrt();
    let sine = -(half / (length * cosine)) * 1f64.copysign(sigma);
    let [ac, bc] = [a * cosine + b * sine, b * cosine - a * sine];
    let [cc, dc] = [c * cosine + d * sine, d * cosine - c * sine];
    let [a, b, c, d] =
        [ac * cosine + cc * sine, bc * cosine + dc * sine, cc * cosine - ac * sine, dc * cosine - bc * sine];
    let middle = (a + d) / 2.0;
    if c == 0.0 {
        return ([middle, b, c, middle], (cosine, sine));
    }
    if b == 0.0 {
        return ([middle, -c, 0.0, middle], (-sine, cosine));
    }
    if b.signum() != c.signum() {
        return ([middle, b, c, middle], (cosine, sine));
    }
    let (root_b, root_c) = (b.abs().sqrt(), c.abs().sqrt());
    let distance = (root_b * root_c).copysign(c);
    let factor = (b + c).abs().sqrt().recip();
    let (cosine2, sine2) = (root_b * factor, root_c * factor);
    let rotation = (cosine * cosine2 - sine * sine2, cosine * sine2 + sine * cosine2);
    ([middle + distance, b - c, 0.0, middle - distance], rotation)
}
