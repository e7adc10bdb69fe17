//! Fourier transforms as sums of few terms: Stockham's form of the mixed-radix algorithm, and Bluestein's for lengths with large
//! prime factors.
//!
//! With n = n₁ L' + l and w(L) = exp(∓2πi/L), a transform of length L = r L' along x[n] is, for each k₁ < r, one of length L' of
//! y[l, k₁] = w(L)^(l k₁) Σ w(r)^(n₁ k₁) x[n₁, l], whose element k₂ is element k₁ + r k₂ of the whole. So a step is a reduction
//! of r terms, its index k₁ stands before those of the steps before, and after the last step all are in order. On a GPU a
//! step is a kernel, which reads and writes the array once.

use std::f64::consts::TAU;

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::FftType;
use hlo::ops::fft::FftAttributes;
use hlo::shape::ArrayShape;
use num_complex::Complex64;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Terms of a step that are not forced by a prime factor, at most.
const LARGEST_RADIX: i64 = 16;

/// Prime factors up to which a step has as many terms.
const LARGEST_PRIME: i64 = 61;

/// Factors of a step up to which they are one constant.
const LARGEST_TABLE: i64 = 4096;

/// Elements of the constants of Bluestein's algorithm, at most.
const LONGEST_CHIRP: i64 = 1 << 17;

pub(super) fn transform(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let FftAttributes { fft_type, fft_length: lengths } = instruction.attributes().ok()?;
    let result = instruction.shape.as_array()?;
    let operand = instruction.operands[0];
    let shape = builder.array(operand);
    let inner = shape.rank().checked_sub(lengths.len())?;
    let &length = lengths.last()?;
    if shape.is_dynamic() || shape.element_count() == 0 || result.element_count() == 0 {
        return None;
    }
    let last = shape.rank() - 1;
    let is_inverse = matches!(fft_type, FftType::Ifft | FftType::Irfft);
    let mut lines = Lines { builder, is_inverse };
    let mut value = operand;
    match fft_type {
        FftType::Rfft => {
            let zeros = lines.builder.filled(&shape, ConstantNumber::Integer(0));
            value = lines.builder.binary(OpKind::Complex, value, zeros);
            value = lines.along(value, last)?;
            value = lines.builder.slice(value, last, 0, length / 2 + 1);
        }
        FftType::Fft | FftType::Ifft => value = lines.along(value, last)?,
        FftType::Irfft => {}
    }
    for dimension in inner..last {
        value = lines.along(value, dimension)?;
    }
    if fft_type == FftType::Irfft {
        value = mirrored(lines.builder, value, last, length);
        value = lines.along(value, last)?;
        value = lines.builder.unary(OpKind::Real, value);
    }
    Some(value)
}

/// The frequencies of real numbers, of which the last ones are the conjugates of the first ones in reverse.
fn mirrored(builder: &mut GraphBuilder, half: InstructionId, dimension: usize, length: i64) -> InstructionId {
    let others = length - (length / 2 + 1);
    if others == 0 {
        return half;
    }
    let others = builder.slice(half, dimension, 1, 1 + others);
    let others = builder.conjugate(others);
    let others = builder.reverse(others, &[dimension as i64]);
    builder.concatenate(&[half, others], dimension)
}

/// Transforms along one dimension of an array.
struct Lines<'b> {
    builder: &'b mut GraphBuilder,
    is_inverse: bool,
}

impl Lines<'_> {
    /// The transform along a dimension; the inverse is divided by its length.
    fn along(&mut self, value: InstructionId, dimension: usize) -> Option<InstructionId> {
        let sizes = self.builder.dimensions(value);
        let length = sizes[dimension];
        let product = |sizes: &[i64]| sizes.iter().product::<i64>();
        let (before, behind) = (product(&sizes[..dimension]), product(&sizes[dimension + 1..]));
        let lines = self.builder.reshape(value, &[before, length, behind]);
        let scale = if self.is_inverse { 1.0 / length as f64 } else { 1.0 };
        let transformed = match radices(length) {
            Some(radices) => self.steps(lines, &radices, self.is_inverse, scale),
            None => self.by_chirps(lines, scale)?,
        };
        Some(self.builder.reshape(transformed, &sizes))
    }

    /// The steps for a length that is the product of the radices, of lines along the second of three dimensions.
    fn steps(&mut self, lines: InstructionId, radices: &[i64], is_inverse: bool, scale: f64) -> InstructionId {
        let whole = self.builder.dimensions(lines);
        let &[before, mut length, mut behind] = &whole[..] else { return lines };
        let mut value = lines;
        for (step, &radix) in radices.iter().enumerate() {
            let rest = length / radix;
            let scale = if step == 0 { scale } else { 1.0 };
            let factors =
                (0..radix * radix).map(|place| scale * root(place / radix * (place % radix), radix, is_inverse));
            let factors = self.table(value, &[radix, radix], factors.collect());
            let sizes = [before, radix, rest, radix, behind];
            let factors = self.builder.broadcast(factors, &sizes, &[1, 3]);
            let terms = self.builder.reshape(value, &[before, radix, rest, behind]);
            let terms = self.builder.broadcast(terms, &sizes, &[0, 1, 2, 4]);
            let terms = self.builder.binary(OpKind::Multiply, terms, factors);
            value = self.builder.reduce(terms, ConstantNumber::Integer(0), &[1], OpKind::Add);
            if rest > 1 {
                let turned = self.turns(value, &radices[step + 1..], radix, is_inverse);
                let turned = self.builder.broadcast(turned, &[before, rest, radix, behind], &[1, 2]);
                value = self.builder.binary(OpKind::Multiply, value, turned);
            }
            (length, behind) = (rest, behind * radix);
            value = self.builder.reshape(value, &[before, length, behind]);
        }
        self.builder.reshape(value, &whole)
    }

    /// w(L)^(l k) for each l below the product of the radices to come and each k below this step's.
    fn turns(&mut self, like: InstructionId, radices: &[i64], radix: i64, is_inverse: bool) -> InstructionId {
        let rest: i64 = radices.iter().product();
        let length = rest * radix;
        let mut table = |count: i64, stride: i64| {
            let turns =
                (0..count * radix).map(|place| root(place / radix * stride * (place % radix), length, is_inverse));
            self.table(like, &[count, radix], turns.collect())
        };
        if length <= LARGEST_TABLE || radices.len() < 2 {
            return table(rest, 1);
        }
        // With l = a c + b, the product of that of a c and that of b.
        let near: i64 = radices[..radices.len() / 2].iter().product();
        let far = rest / near;
        let (coarse, fine) = (table(far, near), table(near, 1));
        let sizes = [far, near, radix];
        let (coarse, fine) =
            (self.builder.broadcast(coarse, &sizes, &[0, 2]), self.builder.broadcast(fine, &sizes, &[1, 2]));
        let turns = self.builder.binary(OpKind::Multiply, coarse, fine);
        self.builder.reshape(turns, &[rest, radix])
    }

    /// Bluestein's algorithm: with c[n] = w(2N)^(n²), the transform is c times the convolution of c x with the conjugate of c,
    /// which transforms of a power of two compute.
    fn by_chirps(&mut self, lines: InstructionId, scale: f64) -> Option<InstructionId> {
        let whole = self.builder.dimensions(lines);
        let &[_, length, _] = &whole[..] else { return None };
        if length > LONGEST_CHIRP / 2 {
            return None;
        }
        let padded = (2 * length as u64 - 1).next_power_of_two() as i64;
        let chirp: Vec<Complex64> =
            (0..length).map(|n| root(n * n % (2 * length), 2 * length, self.is_inverse)).collect();
        let mut filter = vec![Complex64::default(); padded as usize];
        for (n, chirp) in chirp.iter().enumerate() {
            filter[n] = chirp.conj();
            filter[(padded as usize - n) % padded as usize] = chirp.conj();
        }
        let spectrum = self.table(lines, &[padded], spectrum(&filter));
        let scaled = self.table(lines, &[length], chirp.iter().map(|chirp| scale * chirp).collect());
        let chirp = self.table(lines, &[length], chirp);
        let powers = radices(padded)?;
        let mut value = self.times(lines, chirp);
        let element_type = self.builder.element_type(lines);
        let zero = self.builder.scalar(element_type, ConstantNumber::Integer(0));
        value = self.builder.pad_high(value, zero, 1, padded - length);
        value = self.steps(value, &powers, false, 1.0);
        value = self.times(value, spectrum);
        value = self.steps(value, &powers, true, 1.0 / padded as f64);
        value = self.builder.slice(value, 1, 0, length);
        Some(self.times(value, scaled))
    }

    /// Lines times a constant one.
    fn times(&mut self, lines: InstructionId, factors: InstructionId) -> InstructionId {
        let sizes = self.builder.dimensions(lines);
        let factors = self.builder.broadcast(factors, &sizes, &[1]);
        self.builder.binary(OpKind::Multiply, lines, factors)
    }

    /// A constant of the element type of another value.
    fn table(&mut self, like: InstructionId, sizes: &[i64], values: Vec<Complex64>) -> InstructionId {
        let shape = ArrayShape::new(self.builder.element_type(like), sizes);
        self.builder.numbers(shape, &values)
    }
}

/// exp(-2πi k / n), or its conjugate.
fn root(k: i64, n: i64, is_inverse: bool) -> Complex64 {
    let k = k % n;
    let root = match (4 * k / n, 4 * k % n) {
        (0, 0) => Complex64::new(1.0, 0.0),
        (1, 0) => Complex64::new(0.0, -1.0),
        (2, 0) => Complex64::new(-1.0, 0.0),
        (3, 0) => Complex64::new(0.0, 1.0),
        _ => Complex64::from_polar(1.0, -TAU * k as f64 / n as f64),
    };
    if is_inverse { root.conj() } else { root }
}

/// The transform of as many numbers as a power of two.
fn spectrum(values: &[Complex64]) -> Vec<Complex64> {
    if values.len() <= 1 {
        return values.to_vec();
    }
    let every_second = |first: usize| values.iter().skip(first).step_by(2).copied().collect::<Vec<_>>();
    let [even, odd] = [0, 1].map(|first| spectrum(&every_second(first)));
    let odd: Vec<Complex64> = odd.iter().zip(0..).map(|(odd, k)| odd * root(k, values.len() as i64, false)).collect();
    let pairs = || even.iter().zip(&odd);
    pairs().map(|(even, odd)| even + odd).chain(pairs().map(|(even, odd)| even - odd)).collect()
}

/// Factors of a length, one for each step: as few as can be, and of these the least; nothing where a prime factor is large.
fn radices(length: i64) -> Option<Vec<i64>> {
    let mut forced = Vec::new();
    let mut rest = length;
    for prime in (LARGEST_RADIX + 1..=LARGEST_PRIME).filter(|&number| (2..number).all(|factor| number % factor != 0)) {
        while rest % prime == 0 {
            forced.push(prime);
            rest /= prime;
        }
    }
    let mut radices = smallest_steps(rest, LARGEST_RADIX)?;
    radices.extend(forced);
    radices.sort_unstable_by(|a, b| b.cmp(a));
    Some(radices)
}

/// A number as a product of factors up to `largest`.
fn smallest_steps(rest: i64, largest: i64) -> Option<Vec<i64>> {
    if rest == 1 {
        return Some(Vec::new());
    }
    let divisors = (2..=largest.min(rest)).filter(|divisor| rest % divisor == 0);
    let found = divisors.filter_map(|divisor| {
        let mut steps = smallest_steps(rest / divisor, divisor)?;
        steps.push(divisor);
        Some(steps)
    });
    found.min_by_key(|steps| (steps.len(), steps.iter().sum::<i64>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_divided_into_few_steps() {
        assert_eq!(radices(1), Some(vec![]));
        assert_eq!(radices(4096), Some(vec![16, 16, 16]));
        assert_eq!(radices(1000), Some(vec![10, 10, 10]));
        assert_eq!(radices(360), Some(vec![9, 8, 5]));
        assert_eq!(radices(2 * 61), Some(vec![61, 2]));
        assert_eq!(radices(67), None);
        assert_eq!(radices(1 << 40).map(|radices| radices.len()), Some(10));
    }

    #[test]
    fn a_transform_of_a_power_of_two_is_its_definition() {
        let values: Vec<Complex64> = (0..8).map(|n| Complex64::new(f64::from(n * n % 5), f64::from(n % 3))).collect();
        for (k, found) in spectrum(&values).iter().enumerate() {
            let terms = values.iter().enumerate().map(|(n, value)| value * root((n * k) as i64, 8, false));
            assert!((found - terms.sum::<Complex64>()).norm() < 1e-12);
        }
    }
}
