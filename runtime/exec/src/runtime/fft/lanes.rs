//! Fourier transforms of several signals at once, one in each lane of vectors.
//!
//! Data is interleaved by position: `LANES` complex numbers, one of each signal, stand together (64 bytes). All lanes do the
//! same with the same factors, so that nothing is permuted but real and imaginary parts, for any length whose prime
//! factors have a [`butterfly`](LanePlan::new).

use aligned_vec::AVec;
use num_complex::Complex;
use pulp::{NullaryFnOnce, Scalar128b, Simd};
use rustfft::FftNum;
use std::{
    f64::consts::{FRAC_1_SQRT_2, TAU},
    iter::repeat_n,
    slice,
};

/// A float type in vectors of complex numbers.
pub(super) trait Lane: FftNum + Default {
    /// Signals side by side.
    const LANES: usize;
    /// A vector of complex numbers.
    type Vector<S: Simd>: Copy;

    /// The nearest number.
    fn rounded(value: f64) -> Self;
    fn vectors<S: Simd>(data: &[Complex<Self>]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(data: &mut [Complex<Self>]) -> &mut [Self::Vector<S>];
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn difference<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * factor + b`.
    fn mul_add_real<S: Simd>(simd: S, a: Self::Vector<S>, factor: Self, b: Self::Vector<S>) -> Self::Vector<S>;
    fn mul_real<S: Simd>(simd: S, a: Self::Vector<S>, factor: Self) -> Self::Vector<S>;
    fn product<S: Simd>(simd: S, a: Self::Vector<S>, factor: Complex<Self>) -> Self::Vector<S>;
    fn conjugate<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// `-i * a`.
    fn mul_minus_i<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
}

macro_rules! lane {
    ($float:ident, $lanes:literal, $complexes:ident, $floats:ident, $as_simd:ident, $as_mut_simd:ident, $add:ident, $sub:ident,
     $mul:ident, $mul_add:ident, $splat:ident, $splat_complex:ident, $mul_complex:ident, $conj:ident, $swap:ident) => {
        impl Lane for $float {
            const LANES: usize = $lanes;
            type Vector<S: Simd> = S::$complexes;

            fn rounded(value: f64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn vectors<S: Simd>(data: &[Complex<Self>]) -> &[S::$complexes] {
                S::$as_simd(data).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(data: &mut [Complex<Self>]) -> &mut [S::$complexes] {
                S::$as_mut_simd(data).0
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: S::$complexes, b: S::$complexes) -> S::$complexes {
                pulp::cast(simd.$add(pulp::cast(a), pulp::cast(b)))
            }
            #[inline(always)]
            fn difference<S: Simd>(simd: S, a: S::$complexes, b: S::$complexes) -> S::$complexes {
                pulp::cast(simd.$sub(pulp::cast(a), pulp::cast(b)))
            }
            #[inline(always)]
            fn mul_add_real<S: Simd>(simd: S, a: S::$complexes, factor: Self, b: S::$complexes) -> S::$complexes {
                pulp::cast(simd.$mul_add(pulp::cast(a), simd.$splat(factor), pulp::cast(b)))
            }
            #[inline(always)]
            fn mul_real<S: Simd>(simd: S, a: S::$complexes, factor: Self) -> S::$complexes {
                pulp::cast(simd.$mul(pulp::cast(a), simd.$splat(factor)))
            }
            #[inline(always)]
            fn product<S: Simd>(simd: S, a: S::$complexes, factor: Complex<Self>) -> S::$complexes {
                simd.$mul_complex(simd.$splat_complex(factor), a)
            }
            #[inline(always)]
            fn conjugate<S: Simd>(simd: S, a: S::$complexes) -> S::$complexes {
                simd.$conj(a)
            }
            #[inline(always)]
            fn mul_minus_i<S: Simd>(simd: S, a: S::$complexes) -> S::$complexes {
                simd.$conj(simd.$swap(a))
            }
        }
    };
}

lane!(
    f32,
    8,
    c32s,
    f32s,
    as_simd_c32s,
    as_mut_simd_c32s,
    add_f32s,
    sub_f32s,
    mul_f32s,
    mul_add_f32s,
    splat_f32s,
    splat_c32s,
    mul_c32s,
    conj_c32s,
    swap_re_im_c32s
);
lane!(
    f64,
    4,
    c64s,
    f64s,
    as_simd_c64s,
    as_mut_simd_c64s,
    add_f64s,
    sub_f64s,
    mul_f64s,
    mul_add_f64s,
    splat_f64s,
    splat_c64s,
    mul_c64s,
    conj_c64s,
    swap_re_im_c64s
);

/// How signals of one length are transformed.
#[derive(Debug)]
pub(super) struct LanePlan<T> {
    length: usize,
    passes: Vec<Pass<T>>,
}

/// One pass of Stockham's algorithm: butterflies of `radix` points.
#[derive(Debug)]
struct Pass<T> {
    radix: usize,
    /// Butterflies between which the factors differ.
    groups: usize,
    /// Butterflies with the same factors.
    stride: usize,
    /// `radix - 1` factors for each group.
    twiddles: Vec<Complex<T>>,
    /// Of odd radices: cosine and sine for each pair of an output and a pair of inputs.
    rotations: Vec<(T, T)>,
}

const RADICES: [usize; 9] = [8, 4, 2, 3, 5, 7, 11, 13, 17];

/// `exp(-2 pi i numerator / denominator)`.
pub(super) fn root(numerator: usize, denominator: usize) -> Complex<f64> {
    Complex::from_polar(1.0, -TAU * (numerator % denominator) as f64 / denominator as f64)
}

pub(super) fn rounded<T: Lane>(value: Complex<f64>) -> Complex<T> {
    Complex::new(T::rounded(value.re), T::rounded(value.im))
}

impl<T: Lane> LanePlan<T> {
    /// None where the length has a prime factor above 17, or none at all.
    pub(super) fn new(length: usize) -> Option<Self> {
        let (mut rest, mut stride, mut passes) = (length, 1, Vec::new());
        for radix in RADICES {
            while rest % radix == 0 && rest > 1 {
                let groups = rest / radix;
                let twiddles = (0..groups).flat_map(|p| (1..radix).map(move |j| rounded(root(p * j, rest)))).collect();
                let half = if radix % 2 == 1 { radix / 2 } else { 0 };
                let rotations = (1..=half)
                    .flat_map(|j| (1..=half).map(move |k| root(j * k, radix)))
                    .map(|root| (T::rounded(root.re), T::rounded(-root.im)))
                    .collect();
                passes.push(Pass { radix, groups, stride, twiddles, rotations });
                (rest, stride) = (groups, stride * radix);
            }
        }
        (rest == 1 && length > 1).then_some(Self { length, passes })
    }

    /// Transforms the signals of `buffers`, and multiplies the results.
    pub(super) fn forward(&self, buffers: &mut Buffers<T>, scale: T) {
        in_vectors(Forward { plan: self, buffers, scale, source: None, target: None });
    }

    /// As [`LanePlan::forward`], from one place to another, which may be the same.
    ///
    /// # Safety
    /// Both must hold the signals, and nothing else may use them meanwhile.
    pub(super) unsafe fn forward_between(&self, source: Rows<T>, target: Rows<T>, buffers: &mut Buffers<T>, scale: T) {
        in_vectors(Forward { plan: self, buffers, scale, source: Some(source), target: Some(target) });
    }
}

/// Where signals stand side by side.
#[derive(Clone, Copy)]
pub(super) struct Rows<T> {
    /// The first element of the first signal.
    pub(super) start: *mut Complex<T>,
    /// Elements between positions.
    pub(super) stride: usize,
    /// All positions but the first are in the opposite order.
    pub(super) reversed: bool,
}

impl<T: Lane> Rows<T> {
    fn of(data: &mut [Complex<T>]) -> Self {
        Self { start: data.as_mut_ptr(), stride: T::LANES, reversed: false }
    }

    /// Vector `part` of a position.
    ///
    /// # Safety
    /// The place must have the position, and nothing may write it meanwhile.
    #[inline(always)]
    unsafe fn load<S: Simd>(self, position: usize, part: usize) -> T::Vector<S> {
        // SAFETY: the caller's promise.
        let row = unsafe { slice::from_raw_parts(self.start.add(position * self.stride), T::LANES) };
        T::vectors::<S>(row)[part]
    }

    /// Stores vector `part` of one of `length` positions.
    ///
    /// # Safety
    /// The place must have the position, and nothing else may use it meanwhile.
    #[inline(always)]
    unsafe fn store<S: Simd>(self, position: usize, length: usize, part: usize, value: T::Vector<S>) {
        let position = if self.reversed && position > 0 { length - position } else { position };
        // SAFETY: the caller's promise.
        let row = unsafe { slice::from_raw_parts_mut(self.start.add(position * self.stride), T::LANES) };
        T::vectors_mut::<S>(row)[part] = value;
    }
}

/// Signals side by side, and as much room again.
pub(super) struct Buffers<T> {
    data: AVec<Complex<T>>,
    scratch: AVec<Complex<T>>,
}

impl<T: Lane> Buffers<T> {
    pub(super) fn new(positions: usize) -> Self {
        let zeros = || AVec::from_iter(64, repeat_n(Complex::default(), positions * T::LANES));
        Self { data: zeros(), scratch: zeros() }
    }

    pub(super) fn data(&mut self) -> &mut [Complex<T>] {
        &mut self.data
    }
}

/// How real signals of one even length are transformed: as complex ones of half the length.
#[derive(Debug)]
pub(super) struct RealLanePlan<T> {
    half: LanePlan<T>,
    /// `-i / 2` times the roots of unity of the whole length, `half.length + 1` of them.
    factors: Vec<Complex<T>>,
}

impl<T: Lane> RealLanePlan<T> {
    /// None for an odd length, and where [`LanePlan`] has none.
    pub(super) fn new(length: usize) -> Option<Self> {
        let half = LanePlan::new(length / 2).filter(|_| length.is_multiple_of(2))?;
        let minus_half_i = Complex::new(0.0, -0.5);
        let factors = (0..=length / 2).map(|k| rounded(minus_half_i * root(k, length))).collect();
        Some(Self { half, factors })
    }

    /// From pairs of neighbours of real signals to the first halves of their spectra, one position more.
    pub(super) fn forward(&self, buffers: &mut Buffers<T>) {
        self.half.forward(buffers, T::one());
        in_vectors(Separate { plan: self, buffers, inverse: false });
    }

    /// From the first halves of spectra to pairs of neighbours of real signals times the length and a scale, in the opposite
    /// order.
    pub(super) fn inverse(&self, buffers: &mut Buffers<T>, scale: T) {
        in_vectors(Separate { plan: self, buffers, inverse: true });
        self.half.forward(buffers, scale);
    }
}

/// Something to do with vectors of whatever size the processor has.
pub(super) trait InVectors {
    fn run<S: Simd>(self, simd: S);
}

pub(super) fn in_vectors(what: impl InVectors) {
    struct With<S, F>(S, F);

    impl<S: Simd, F: InVectors> NullaryFnOnce for With<S, F> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            self.1.run(self.0);
        }
    }

    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V4::try_new() {
        return simd.vectorize(With(simd, what));
    } else if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(With(simd, what));
    }
    Scalar128b.vectorize(With(Scalar128b, what));
}

/// Between the spectrum of a signal's pairs of neighbours, as complex numbers, and the first half of the spectrum of the
/// signal: sums and differences with the conjugates in the opposite order.
struct Separate<'a, T> {
    plan: &'a RealLanePlan<T>,
    buffers: &'a mut Buffers<T>,
    inverse: bool,
}

impl<T: Lane> InVectors for Separate<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let half = self.plan.half.length;
        let input = T::vectors::<S>(&self.buffers.data);
        let output = T::vectors_mut::<S>(&mut self.buffers.scratch);
        let width = input.len() * T::LANES / self.buffers.data.len();
        // Going forward, the spectrum repeats after its end.
        let (end, one) = if self.inverse { (half + 1, T::rounded(1.0)) } else { (half, T::rounded(0.5)) };
        for (k, &factor) in self.plan.factors.iter().enumerate() {
            let factor = if self.inverse { (factor * T::rounded(2.0)).conj() } else { factor };
            for place in 0..width {
                let value = input[k % end * width + place];
                let opposite = T::conjugate(simd, input[(half - k) % end * width + place]);
                let even = T::sum(simd, value, opposite);
                let odd = T::product(simd, T::difference(simd, value, opposite), factor);
                output[k * width + place] = T::mul_add_real(simd, even, one, odd);
            }
        }
        std::mem::swap(&mut self.buffers.data, &mut self.buffers.scratch);
    }
}

struct Forward<'a, T> {
    plan: &'a LanePlan<T>,
    buffers: &'a mut Buffers<T>,
    scale: T,
    /// Instead of the buffers.
    source: Option<Rows<T>>,
    target: Option<Rows<T>>,
}

impl<T: Lane> InVectors for Forward<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let length = self.plan.length;
        for (index, pass) in self.plan.passes.iter().enumerate() {
            let (is_first, is_last) = (index == 0, index + 1 == self.plan.passes.len());
            let end = length * T::LANES;
            let input = self.source.filter(|_| is_first).unwrap_or(Rows::of(&mut self.buffers.data[..end]));
            let target = self.target.filter(|_| is_last);
            let output = target.unwrap_or(Rows::of(&mut self.buffers.scratch[..end]));
            let scale = Some(self.scale).filter(|&scale| is_last && scale != T::one());
            let step = Places { pass, input, output, length, scale };
            match pass.radix {
                2 => simd.vectorize(Step::<S, T, 2>(simd, step)),
                3 => simd.vectorize(Step::<S, T, 3>(simd, step)),
                4 => simd.vectorize(Step::<S, T, 4>(simd, step)),
                5 => simd.vectorize(Step::<S, T, 5>(simd, step)),
                7 => simd.vectorize(Step::<S, T, 7>(simd, step)),
                8 => simd.vectorize(Step::<S, T, 8>(simd, step)),
                11 => simd.vectorize(Step::<S, T, 11>(simd, step)),
                13 => simd.vectorize(Step::<S, T, 13>(simd, step)),
                _ => simd.vectorize(Step::<S, T, 17>(simd, step)),
            }
            if target.is_none() {
                std::mem::swap(&mut self.buffers.data, &mut self.buffers.scratch);
            }
        }
    }
}

/// What a pass reads and writes.
struct Places<'a, T> {
    pass: &'a Pass<T>,
    input: Rows<T>,
    output: Rows<T>,
    /// Positions of both.
    length: usize,
    /// What results are multiplied by.
    scale: Option<T>,
}

struct Step<'a, S: Simd, T: Lane, const R: usize>(S, Places<'a, T>);

impl<S: Simd, T: Lane, const R: usize> NullaryFnOnce for Step<'_, S, T, R> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(simd, Places { pass, input, output, length, scale }) = self;
        let parts = T::LANES * size_of::<Complex<T>>() / size_of::<T::Vector<S>>();
        // Positions between the inputs of a butterfly, and between its outputs.
        let (input_step, output_step) = (pass.groups * pass.stride, pass.stride);
        for (group, twiddles) in pass.twiddles.chunks_exact(R - 1).enumerate() {
            let (from, to) = (group * output_step, group * R * output_step);
            for (place, part) in (0..output_step).flat_map(|place| (0..parts).map(move |part| (place, part))) {
                let at = |k: usize| from + place + k * input_step;
                // SAFETY: all are positions of the signals, which are used here alone.
                let x: [T::Vector<S>; R] = std::array::from_fn(|k| unsafe { input.load::<S>(at(k), part) });
                let y = butterfly::<S, T, R>(simd, x, &pass.rotations);
                for (j, &y) in y.iter().enumerate() {
                    // The first group's factors are 1.
                    let turned = if j == 0 || group == 0 { y } else { T::product(simd, y, twiddles[j - 1]) };
                    let result = scale.map_or(turned, |scale| T::mul_real(simd, turned, scale));
                    // SAFETY: as above; a butterfly's inputs are all read before.
                    unsafe { output.store::<S>(to + place + j * output_step, length, part, result) };
                }
            }
        }
    }
}

#[inline(always)]
fn butterfly<S: Simd, T: Lane, const R: usize>(
    simd: S,
    x: [T::Vector<S>; R],
    rotations: &[(T, T)],
) -> [T::Vector<S>; R] {
    let add = |a, b| T::sum(simd, a, b);
    let sub = |a, b| T::difference(simd, a, b);
    let mut y = x;
    match R {
        2 => (y[0], y[1]) = (add(x[0], x[1]), sub(x[0], x[1])),
        4 => [y[0], y[1], y[2], y[3]] = four::<S, T>(simd, [x[0], x[1], x[2], x[3]]),
        8 => {
            let even = four::<S, T>(simd, [x[0], x[2], x[4], x[6]]);
            let odd = four::<S, T>(simd, [x[1], x[3], x[5], x[7]]);
            let half = T::rounded(FRAC_1_SQRT_2);
            let (one, three) = (T::mul_minus_i(simd, odd[1]), T::mul_minus_i(simd, odd[3]));
            let turned = [
                odd[0],
                T::mul_real(simd, add(odd[1], one), half),
                T::mul_minus_i(simd, odd[2]),
                T::mul_real(simd, sub(three, odd[3]), half),
            ];
            for j in 0..4 {
                (y[j], y[j + 4]) = (add(even[j], turned[j]), sub(even[j], turned[j]));
            }
        }
        _ => {
            // y_j and y_(R-j) from the sums and differences of x_k and x_(R-k).
            let half = R / 2;
            let (mut sums, mut differences) = (x, x);
            for k in 1..=half {
                (sums[k], differences[k]) = (add(x[k], x[R - k]), sub(x[k], x[R - k]));
                y[0] = add(y[0], sums[k]);
            }
            let rotations = &rotations[..half * half];
            for j in 0..half {
                let row = &rotations[j * half..][..half];
                let mut even = T::mul_add_real(simd, sums[1], row[0].0, x[0]);
                let mut odd = T::mul_real(simd, differences[1], row[0].1);
                for k in 1..half {
                    even = T::mul_add_real(simd, sums[k + 1], row[k].0, even);
                    odd = T::mul_add_real(simd, differences[k + 1], row[k].1, odd);
                }
                let odd = T::mul_minus_i(simd, odd);
                (y[j + 1], y[R - 1 - j]) = (add(even, odd), sub(even, odd));
            }
        }
    }
    y
}

#[inline(always)]
fn four<S: Simd, T: Lane>(simd: S, x: [T::Vector<S>; 4]) -> [T::Vector<S>; 4] {
    let (a, b) = (T::sum(simd, x[0], x[2]), T::difference(simd, x[0], x[2]));
    let (c, d) = (T::sum(simd, x[1], x[3]), T::mul_minus_i(simd, T::difference(simd, x[1], x[3])));
    [T::sum(simd, a, c), T::sum(simd, b, d), T::difference(simd, a, c), T::difference(simd, b, d)]
}
