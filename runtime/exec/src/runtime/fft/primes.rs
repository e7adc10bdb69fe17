//! Fourier transforms of a prime number of points, several signals at once: as a cyclic convolution with one point less, which is
//! two transforms of that length (C. M. Rader, "Discrete Fourier transforms when the number of data samples is prime", 1968).

use super::lanes::{
    Buffers, Forward, InVectors, Lane, LanePlan, Parts, Places, join, load, pairs, root, rounded, separate, store,
};
use num_complex::Complex;
use pulp::{NullaryFnOnce, Simd};
use rustfft::FftPlanner;

/// How a prime number of points is transformed.
#[derive(Debug)]
pub(super) struct PrimePlan<T> {
    /// The transform of one point less.
    shorter: LanePlan<T>,
    /// The powers of a primitive root: the points that the convolution takes in turn.
    inputs: Vec<usize>,
    /// The powers of its inverse: where the results of the convolution go.
    outputs: Vec<usize>,
    /// The transform of the roots of unity that the points are convolved with, divided by its length.
    spectrum: Vec<Complex<T>>,
}

impl<T: Lane> PrimePlan<T> {
    /// None where there is no plan for one point less.
    pub(super) fn new(prime: usize) -> Option<Self> {
        let shorter = LanePlan::new(prime - 1)?;
        let generator = primitive_root(prime);
        let inputs: Vec<usize> = (0..prime - 1).map(|exponent| power(generator, exponent, prime)).collect();
        let outputs: Vec<usize> = (0..prime - 1).map(|exponent| inputs[(prime - 1 - exponent) % (prime - 1)]).collect();
        let scale = 1.0 / (prime - 1) as f64;
        let mut spectrum: Vec<Complex<f64>> = outputs.iter().map(|&place| root(place, prime) * scale).collect();
        FftPlanner::new().plan_fft_forward(prime - 1).process(&mut spectrum);
        Some(Self { shorter, inputs, outputs, spectrum: spectrum.into_iter().map(rounded).collect() })
    }
}

fn power(base: usize, mut exponent: usize, modulus: usize) -> usize {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result * square % modulus;
        }
        (square, exponent) = (square * square % modulus, exponent / 2);
    }
    result
}

/// The least number whose powers are all numbers from 1 on below a prime.
fn primitive_root(prime: usize) -> usize {
    let order = prime - 1;
    let factors: Vec<usize> = (2..=order).filter(|&factor| order.is_multiple_of(factor)).collect();
    let is_primitive = |&base: &usize| factors.iter().all(|factor| power(base, order / factor, prime) != 1);
    (2..prime).find(is_primitive).unwrap_or(1)
}

/// A pass with butterflies of so many points.
pub(super) struct PrimeStep<'a, S: Simd, T: Lane>(pub(super) S, pub(super) Places<'a, T>, pub(super) &'a PrimePlan<T>);

impl<S: Simd, T: Lane> NullaryFnOnce for PrimeStep<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(simd, Places { pass, input, output, length, scale, planar: [reads_planar, writes_planar] }, plan) =
            self;
        let scale = scale.map(|scale| T::splat(simd, scale));
        let (points, output_step) = (plan.inputs.len(), pass.stride);
        let input_step = pass.groups * output_step;
        let mut own = Buffers::<T>::new(points);
        let transform = |own: &mut Buffers<T>| {
            Forward::of(&plan.shorter, own, T::one()).apart().run(simd);
        };
        let places = (0..pass.groups).flat_map(|group| (0..output_step).map(move |place| (group, place)));
        for (group, place) in places {
            let (from, to) = (group * output_step + place, group * pass.radix * output_step + place);
            let read = |point: usize, pair: usize| {
                // SAFETY: it is a position of the signals, which are used here alone.
                let numbers = unsafe { load::<S, T>(input.at(from + point * input_step), pair) };
                if reads_planar { numbers } else { separate(simd, numbers) }
            };
            let write = |result: usize, pair: usize, value: Parts<S, T>| {
                let scaled = scale.map_or(value, |scale| value.scaled(simd, scale));
                let numbers = if writes_planar { scaled } else { join(simd, scaled) };
                // SAFETY: as above; a butterfly's inputs are all read before.
                unsafe { store::<S, T>(output.place(to, result, output_step, length), pair, numbers) };
            };
            let position = |data: &mut [Complex<T>], point: usize| data[point * T::LANES..].as_mut_ptr();
            for (point, &place) in plan.inputs.iter().enumerate() {
                let to = position(own.data(), point);
                // SAFETY: it is a position of the buffer.
                (0..pairs::<S, T>()).for_each(|pair| unsafe { store::<S, T>(to, pair, read(place, pair)) });
            }
            transform(&mut own);
            for pair in 0..pairs::<S, T>() {
                let first = read(0, pair);
                for (point, &factor) in plan.spectrum.iter().enumerate() {
                    let there = position(own.data(), point);
                    // SAFETY: as above.
                    let value = unsafe { load::<S, T>(there, pair) };
                    let mut product = value.product(simd, factor);
                    if point == 0 {
                        write(0, pair, first.sum(simd, value));
                        product = product.sum(simd, first);
                    }
                    // SAFETY: as above.
                    unsafe { store::<S, T>(there, pair, product) };
                }
            }
            transform(&mut own);
            let twiddles = &pass.twiddles[group * points..][..points];
            for (point, &result) in plan.outputs.iter().enumerate() {
                // The inverse transform is this one in the opposite order.
                let there = position(own.data(), (points - point) % points);
                for pair in 0..pairs::<S, T>() {
                    // SAFETY: as above.
                    let mut value = unsafe { load::<S, T>(there, pair) };
                    if group > 0 {
                        value = value.product(simd, twiddles[result - 1]);
                    }
                    write(result, pair, value);
                }
            }
        }
    }
}
