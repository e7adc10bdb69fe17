//! The Schur form a = z t zᴴ of a square matrix by implicitly shifted QR steps. A real matrix takes two shifts at a time and
//! stays real: t then has blocks of 2 by 2 where there is a conjugate pair of eigenvalues.

use num_complex::Complex64;

use super::condensed::reduce;
use super::orthogonal::{Matrix, multiply_out, reflection};

const ZERO: Complex64 = Complex64::new(0.0, 0.0);
const ONE: Complex64 = Complex64::new(1.0, 0.0);

/// Steps for one eigenvalue before it is given up; every tenth one takes other shifts, in case the right ones lead nowhere.
const STEPS: usize = 300;

/// a = `scale` z t zᴴ, matrices by rows.
pub(super) struct Schur {
    pub(super) t: Vec<Complex64>,
    pub(super) z: Vec<Complex64>,
    pub(super) scale: f64,
    n: usize,
}

impl Schur {
    /// Decomposes an n × n matrix; an error is the number of eigenvalues that were not found.
    pub(super) fn new(matrix: &[Complex64], n: usize, is_real: bool) -> Result<Schur, usize> {
        if !matrix.iter().all(|value| value.is_finite()) {
            return Err(n);
        }
        // Sums and squares of extreme numbers would not be numbers.
        let largest = matrix.iter().map(|value| value.l1_norm()).fold(0.0, f64::max);
        let is_extreme = largest > 0.0 && !(1e-100..1e100).contains(&largest);
        let scale = if is_extreme { largest } else { 1.0 };
        let mut t: Vec<Complex64> = matrix.iter().map(|value| value / scale).collect();
        let taus = reduce(&mut t, n);
        let mut z = vec![ZERO; n * n];
        (0..n).for_each(|i| z[i * n + i] = ONE);
        // The reflections stand one row below the diagonal: they make all of z but its first row and column.
        let inner = n.saturating_sub(1);
        let mut packed: Vec<Complex64> = (0..inner * inner).map(|p| t[(p / inner + 1) * n + p % inner]).collect();
        multiply_out(&mut Matrix { data: &mut packed, rows: inner, columns: inner }, &taus);
        packed.iter().enumerate().for_each(|(p, &value)| z[(p / inner + 1) * n + p % inner + 1] = value);
        for row in 2..n {
            t[row * n..row * n + row - 1].fill(ZERO);
        }
        let mut schur = Schur { t, z, scale, n };
        schur.iterate(is_real)?;
        Ok(schur)
    }

    fn at(&self, row: usize, column: usize) -> Complex64 {
        self.t[row * self.n + column]
    }

    /// Whether rows `row` and `row + 1` are a block.
    pub(super) fn is_block(&self, row: usize) -> bool {
        row + 1 < self.n && self.at(row + 1, row) != ZERO
    }

    fn iterate(&mut self, is_real: bool) -> Result<(), usize> {
        let (mut end, mut steps) = (self.n, 0);
        while end > 0 {
            let mut start = end - 1;
            while start > 0 && !self.splits_before(start) {
                start -= 1;
            }
            if start > 0 {
                self.t[start * self.n + start - 1] = ZERO;
            }
            if start + 1 == end || (is_real && start + 2 == end) {
                if start + 2 == end {
                    self.standardize(start);
                }
                (end, steps) = (start, 0);
                continue;
            }
            steps += 1;
            if steps > STEPS {
                return Err(end);
            }
            self.step(start, end, &self.shifts(end, steps, is_real), is_real);
        }
        Ok(())
    }

    /// Whether the element left of the diagonal is no more than the rounding error of its neighbours.
    fn splits_before(&self, row: usize) -> bool {
        let neighbours = self.at(row - 1, row - 1).norm() + self.at(row, row).norm();
        self.at(row, row - 1).norm() <= (f64::EPSILON * neighbours).max(f64::MIN_POSITIVE)
    }

    /// Eigenvalues of the last 2 by 2 block: the one nearer to the corner, or for real matrices both, but twice the nearer
    /// one if they are real.
    fn shifts(&self, end: usize, steps: usize, is_real: bool) -> Vec<Complex64> {
        let corner = self.at(end - 1, end - 1);
        if steps.is_multiple_of(10) {
            return vec![corner + 0.75 * self.at(end - 1, end - 2).norm(); if is_real { 2 } else { 1 }];
        }
        let (one, other) =
            eigenvalues([self.at(end - 2, end - 2), self.at(end - 2, end - 1), self.at(end - 1, end - 2), corner]);
        let nearer = if (one - corner).norm() <= (other - corner).norm() { one } else { other };
        match is_real {
            true if one.im != 0.0 => vec![one, other],
            true => vec![nearer; 2],
            false => vec![nearer],
        }
    }

    /// One step: the reflection that the first column of (t - s₁) (t - s₂) … asks for, then those that make t a Hessenberg
    /// matrix again.
    fn step(&mut self, start: usize, end: usize, shifts: &[Complex64], is_real: bool) {
        for row in start..end - 1 {
            let rows = row..(row + shifts.len() + 1).min(end);
            let mut column: Vec<Complex64> = if row > start {
                rows.clone().map(|i| self.at(i, row - 1)).collect()
            } else {
                let mut column = vec![ZERO; rows.len()];
                column[0] = ONE;
                for shift in shifts {
                    column = rows
                        .clone()
                        .zip(&column)
                        .map(|(i, own)| {
                            let products = rows.clone().zip(&column).map(|(j, value)| self.at(i, j) * value);
                            products.sum::<Complex64>() - shift * own
                        })
                        .collect();
                }
                column
            };
            if is_real {
                // The product of conjugate shifts is real but for rounding.
                column.iter_mut().for_each(|value| value.im = 0.0);
            }
            let (beta, tau, tail) = reflection(column[0], &column[1..]);
            let v: Vec<Complex64> = std::iter::once(ONE).chain(tail).collect();
            self.reflect(row, &v, tau);
            if row > start {
                rows.for_each(|i| self.t[i * self.n + row - 1] = ZERO);
                self.t[row * self.n + row - 1] = Complex64::new(beta, 0.0);
            }
        }
    }

    /// t becomes hᴴ t h and z becomes z h with h = 1 - τ v vᴴ, v from row `first` on.
    fn reflect(&mut self, first: usize, v: &[Complex64], tau: Complex64) {
        let n = self.n;
        for column in 0..n {
            let product: Complex64 = v.iter().zip(first..).map(|(v, row)| v.conj() * self.t[row * n + column]).sum();
            v.iter().zip(first..).for_each(|(v, row)| self.t[row * n + column] -= tau.conj() * v * product);
        }
        for matrix in [&mut self.t, &mut self.z] {
            for row in matrix.chunks_mut(n) {
                let product: Complex64 = v.iter().zip(&row[first..]).map(|(v, value)| v * value).sum();
                v.iter().zip(&mut row[first..]).for_each(|(v, value)| *value -= tau * product * v.conj());
            }
        }
    }

    /// t becomes gᴴ t g and z becomes z g with g = [[c, -s̄], [s, c]] in rows and columns `first` and the next.
    pub(super) fn rotate(&mut self, first: usize, cosine: f64, sine: Complex64) {
        let n = self.n;
        for column in 0..n {
            let (x, y) = (self.t[first * n + column], self.t[(first + 1) * n + column]);
            self.t[first * n + column] = cosine * x + sine.conj() * y;
            self.t[(first + 1) * n + column] = cosine * y - sine * x;
        }
        for matrix in [&mut self.t, &mut self.z] {
            for row in matrix.chunks_mut(n) {
                let (x, y) = (row[first], row[first + 1]);
                row[first] = cosine * x + sine * y;
                row[first + 1] = cosine * y - sine.conj() * x;
            }
        }
    }

    /// Makes a real 2 by 2 block triangular, or gives it equal diagonal elements if its eigenvalues are not real.
    fn standardize(&mut self, first: usize) {
        let next = first + 1;
        let [a, b, c, d] = [self.at(first, first), self.at(first, next), self.at(next, first), self.at(next, next)]
            .map(|value| value.re);
        let half = (a - d) / 2.0;
        let discriminant = half * half + b * c;
        if c == 0.0 {
            // Triangular already.
        } else if discriminant >= 0.0 {
            // (d + root) has the eigenvector (root, c).
            let root = half + discriminant.sqrt().copysign(half);
            let length = root.hypot(c);
            self.rotate(first, root / length, Complex64::new(c / length, 0.0));
            self.t[next * self.n + first] = ZERO;
        } else if half != 0.0 {
            let angle = -0.5 * ((a - d) / (b + c)).atan();
            self.rotate(first, angle.cos(), Complex64::new(angle.sin(), 0.0));
            let middle = Complex64::new((a + d) / 2.0, 0.0);
            self.t[first * self.n + first] = middle;
            self.t[next * self.n + next] = middle;
            if self.at(first, next).re * self.at(next, first).re >= 0.0 {
                // Rounding made them real.
                self.standardize(first);
            }
        }
    }

    /// Makes all blocks triangular, the eigenvalue with positive imaginary part first.
    pub(super) fn into_triangular(mut self) -> Schur {
        for first in 0..self.n {
            if !self.is_block(first) {
                continue;
            }
            let (a, b) = (self.at(first, first), self.at(first, first + 1).re);
            let imaginary = self.block_imaginary(first);
            // (b, i · imaginary) is the eigenvector.
            let length = b.hypot(imaginary);
            self.rotate(first, b / length, Complex64::new(0.0, imaginary / length));
            self.t[(first + 1) * self.n + first] = ZERO;
            self.t[first * self.n + first] = a + Complex64::new(0.0, imaginary);
            self.t[(first + 1) * self.n + first + 1] = a - Complex64::new(0.0, imaginary);
        }
        self
    }

    fn block_imaginary(&self, first: usize) -> f64 {
        self.at(first, first + 1).norm().sqrt() * self.at(first + 1, first).norm().sqrt()
    }

    /// The eigenvalues of t.
    pub(super) fn eigenvalues(&self) -> Vec<Complex64> {
        let mut values: Vec<Complex64> = (0..self.n).map(|i| self.at(i, i)).collect();
        for first in (0..self.n).filter(|&first| self.is_block(first)) {
            let imaginary = self.block_imaginary(first);
            (values[first].im, values[first + 1].im) = (imaginary, -imaginary);
        }
        values
    }
}

/// Eigenvalues of [[a, b], [c, d]].
fn eigenvalues([a, b, c, d]: [Complex64; 4]) -> (Complex64, Complex64) {
    let (middle, half) = ((a + d) / 2.0, (a - d) / 2.0);
    let root = (half * half + b * c).sqrt();
    (middle + root, middle - root)
}
