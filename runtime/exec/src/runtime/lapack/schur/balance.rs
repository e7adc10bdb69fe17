//! Balancing (LAPACK `gebal`, `gebak`): a similarity transformation by a permutation, which brings out eigenvalues that can be
//! read off, and by powers of two, which make rows and columns about equally long.

use super::{Side, Wide};
use faer::{
    MatMut,
    prelude::ReborrowMut,
    traits::math_utils::{abs, abs2, mul_real, zero},
};

/// Lengths are changed by this factor, which costs no precision.
const RADIX: f64 = 2.0;
/// A change that shortens row and column by less than this is not worth it.
const WORTHWHILE: f64 = 0.95;
/// No number may come nearer to the limits of `f64` than to these.
const LARGEST: f64 = 1e290;
const SMALLEST: f64 = 1e-290;

/// A similarity transformation.
pub(super) struct Balance {
    /// Rows and columns that were exchanged, in this order.
    exchanges: Vec<(usize, usize)>,
    /// After that, column `i` was multiplied by `scales[i]` and row `i` divided by it.
    scales: Vec<f64>,
}

impl Balance {
    /// Balances a square matrix.
    pub(super) fn new<T: Wide>(mut a: MatMut<'_, T>, with_scales: bool) -> Self {
        let size = a.nrows();
        let mut balance = Self { exchanges: Vec::new(), scales: vec![1.0; size] };
        let (first, end) = balance.permute(a.rb_mut());
        if with_scales {
            balance.scale(a, first, end);
        }
        balance
    }

    fn exchange<T: Wide>(&mut self, mut a: MatMut<'_, T>, one: usize, other: usize) {
        self.exchanges.push((one, other));
        faer::perm::swap_rows_idx(a.rb_mut(), one, other);
        faer::perm::swap_cols_idx(a, one, other);
    }

    /// Moves rows with nothing beside the diagonal to the end, and such columns to the front; what is between them remains.
    fn permute<T: Wide>(&mut self, mut a: MatMut<'_, T>) -> (usize, usize) {
        let (mut first, mut end) = (0, a.nrows());
        let mut found = true;
        while found {
            found = false;
            for row in (0..end).rev() {
                if row < end && (0..end).all(|column| column == row || a[(row, column)] == zero::<T>()) {
                    self.exchange(a.rb_mut(), row, end - 1);
                    end -= 1;
                    found = true;
                }
            }
        }
        found = true;
        while found {
            found = false;
            for column in 0..end {
                if column >= first && (first..end).all(|row| row == column || a[(row, column)] == zero::<T>()) {
                    self.exchange(a.rb_mut(), column, first);
                    first += 1;
                    found = true;
                }
            }
        }
        (first, end)
    }

    /// Scales rows and columns from `first` to `end`.
    fn scale<T: Wide>(&mut self, mut a: MatMut<'_, T>, first: usize, end: usize) {
        let size = a.nrows();
        let mut changed = true;
        while changed {
            changed = false;
            for place in first..end {
                let length = |squares: f64| squares.sqrt();
                let mut column = length((first..end).map(|row| abs2(&a[(row, place)])).sum());
                let mut row = length((first..end).map(|column| abs2(&a[(place, column)])).sum());
                let largest = (0..end).map(|row| abs(&a[(row, place)])).fold(0.0, f64::max);
                let largest = (first..size).map(|column| abs(&a[(place, column)])).fold(largest, f64::max);
                if column == 0.0 || row == 0.0 {
                    continue;
                }
                let before = column + row;
                let mut factor = 1.0f64;
                while column < row / RADIX && largest * factor < LARGEST && row > SMALLEST {
                    factor *= RADIX;
                    column *= RADIX;
                    row /= RADIX;
                }
                while column / RADIX >= row && largest / factor < LARGEST && column > SMALLEST {
                    factor /= RADIX;
                    column /= RADIX;
                    row *= RADIX;
                }
                let total = self.scales[place] * factor;
                if column + row >= WORTHWHILE * before || !(SMALLEST..LARGEST).contains(&total) {
                    continue;
                }
                self.scales[place] = total;
                changed = true;
                for column in first..size {
                    a[(place, column)] = mul_real(&a[(place, column)], &factor.recip());
                }
                for row in 0..end {
                    a[(row, place)] = mul_real(&a[(row, place)], &factor);
                }
            }
        }
    }

    /// Turns eigenvectors of the balanced matrix, in columns, into those of the original one; Schur vectors too, if nothing
    /// was scaled. Nothing happens to a matrix without rows.
    pub(super) fn undo<T: Wide>(&self, mut vectors: MatMut<'_, T>, side: Side) {
        if vectors.nrows() == 0 {
            return;
        }
        for (row, &scale) in self.scales.iter().enumerate().filter(|&(_, &scale)| scale != 1.0) {
            let factor = if side == Side::Left { scale.recip() } else { scale };
            for column in 0..vectors.ncols() {
                vectors[(row, column)] = mul_real(&vectors[(row, column)], &factor);
            }
        }
        for &(one, other) in self.exchanges.iter().rev() {
            faer::perm::swap_rows_idx(vectors.rb_mut(), one, other);
        }
    }
}
