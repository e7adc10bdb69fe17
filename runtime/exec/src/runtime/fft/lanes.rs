//! Fourier transforms of several signals at once, one in each lane of vectors.
//!
//! Data is interleaved by position: `LANES` complex numbers, one of each signal, stand together (64 bytes). Between passes
//! their real parts stand before the imaginary ones, so that arithmetic permutes nothing. All lanes do the same with the same
//! factors, for any length whose prime factors have a [`butterfly`] or a [`PrimePlan`].

use super::primes::{PrimePlan, PrimeStep};
use aligned_vec::AVec;
use num_complex::Complex;
use pulp::{NullaryFnOnce, Scalar128b, Simd};
use rustfft::FftNum;
use std::{
    array::from_fn,
    f64::consts::{FRAC_1_SQRT_2, TAU},
    iter::repeat_n,
    slice,
};

/// A float type in vectors.
pub(super) trait Lane: FftNum + Default {
    /// Signals side by side.
    const LANES: usize;
    /// A vector of real numbers, of at most `LANES`.
    type Vector<S: Simd>: Copy;

    /// The nearest number.
    fn rounded(value: f64) -> Self;
    fn vectors<S: Simd>(data: &[Self]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(data: &mut [Self]) -> &mut [Self::Vector<S>];
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn difference<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn product<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * b + c`.
    fn mul_add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    fn negative<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// From complex numbers to their real parts and imaginary parts, in some order of the signals.
    fn separate<S: Simd>(simd: S, pair: [Self::Vector<S>; 2]) -> [Self::Vector<S>; 2];
    /// The inverse of [`Lane::separate`].
    fn join<S: Simd>(simd: S, parts: [Self::Vector<S>; 2]) -> [Self::Vector<S>; 2];
    /// Stores as many of the first lanes as there is room for.
    fn store_first<S: Simd>(simd: S, room: &mut [Self], value: Self::Vector<S>);
}

macro_rules! lane {
    ($float:ident, $lanes:literal, $floats:ident, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $add:ident, $sub:ident,
     $mul:ident, $mul_add:ident, $neg:ident, $separate:ident, $join:ident, $store_first:ident) => {
        impl Lane for $float {
            const LANES: usize = $lanes;
            type Vector<S: Simd> = S::$floats;

            fn rounded(value: f64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn vectors<S: Simd>(data: &[Self]) -> &[S::$floats] {
                S::$as_simd(data).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(data: &mut [Self]) -> &mut [S::$floats] {
                S::$as_mut_simd(data).0
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$floats {
                simd.$splat(value)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: S::$floats, b: S::$floats) -> S::$floats {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn difference<S: Simd>(simd: S, a: S::$floats, b: S::$floats) -> S::$floats {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn product<S: Simd>(simd: S, a: S::$floats, b: S::$floats) -> S::$floats {
                simd.$mul(a, b)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, a: S::$floats, b: S::$floats, c: S::$floats) -> S::$floats {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn negative<S: Simd>(simd: S, a: S::$floats) -> S::$floats {
                simd.$neg(a)
            }
            #[inline(always)]
            fn separate<S: Simd>(simd: S, pair: [S::$floats; 2]) -> [S::$floats; 2] {
                simd.$separate(pair)
            }
            #[inline(always)]
            fn join<S: Simd>(simd: S, parts: [S::$floats; 2]) -> [S::$floats; 2] {
                simd.$join(parts)
            }
            #[inline(always)]
            fn store_first<S: Simd>(simd: S, room: &mut [Self], value: S::$floats) {
                simd.$store_first(room, value)
            }
        }
    };
}

lane!(
    f32,
    8,
    f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    add_f32s,
    sub_f32s,
    mul_f32s,
    mul_add_f32s,
    neg_f32s,
    deinterleave_shfl_f32s,
    interleave_shfl_f32s,
    partial_store_f32s
);
lane!(
    f64,
    4,
    f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    add_f64s,
    sub_f64s,
    mul_f64s,
    mul_add_f64s,
    neg_f64s,
    deinterleave_shfl_f64s,
    interleave_shfl_f64s,
    partial_store_f64s
);

/// Vectors of the real and of the imaginary parts of complex numbers.
pub(super) struct Parts<S: Simd, T: Lane> {
    re: T::Vector<S>,
    im: T::Vector<S>,
}

impl<S: Simd, T: Lane> Clone for Parts<S, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Simd, T: Lane> Copy for Parts<S, T> {}

impl<S: Simd, T: Lane> Parts<S, T> {
    #[inline(always)]
    pub(super) fn sum(self, simd: S, b: Self) -> Self {
        Self { re: T::sum(simd, self.re, b.re), im: T::sum(simd, self.im, b.im) }
    }

    #[inline(always)]
    fn difference(self, simd: S, b: Self) -> Self {
        Self { re: T::difference(simd, self.re, b.re), im: T::difference(simd, self.im, b.im) }
    }

    /// `self - i * b`.
    #[inline(always)]
    fn plus_turned(self, simd: S, b: Self) -> Self {
        Self { re: T::sum(simd, self.re, b.im), im: T::difference(simd, self.im, b.re) }
    }

    /// `self + i * b`.
    #[inline(always)]
    fn minus_turned(self, simd: S, b: Self) -> Self {
        Self { re: T::difference(simd, self.re, b.im), im: T::sum(simd, self.im, b.re) }
    }

    /// `self + factor * b`.
    #[inline(always)]
    fn plus_scaled(self, simd: S, factor: T::Vector<S>, b: Self) -> Self {
        Self { re: T::mul_add(simd, factor, b.re, self.re), im: T::mul_add(simd, factor, b.im, self.im) }
    }

    #[inline(always)]
    pub(super) fn scaled(self, simd: S, factor: T::Vector<S>) -> Self {
        Self { re: T::product(simd, self.re, factor), im: T::product(simd, self.im, factor) }
    }

    #[inline(always)]
    pub(super) fn product(self, simd: S, factor: Complex<T>) -> Self {
        let (re, im) = (T::splat(simd, factor.re), T::splat(simd, factor.im));
        Self {
            re: T::mul_add(simd, self.re, re, T::negative(simd, T::product(simd, self.im, im))),
            im: T::mul_add(simd, self.re, im, T::product(simd, self.im, re)),
        }
    }

    #[inline(always)]
    fn conjugate(self, simd: S) -> Self {
        Self { re: self.re, im: T::negative(simd, self.im) }
    }
}

/// How signals of one length are transformed.
#[derive(Debug)]
pub(super) struct LanePlan<T> {
    length: usize,
    passes: Vec<Pass<T>>,
}

/// One pass of Stockham's algorithm: butterflies of `radix` points.
#[derive(Debug)]
pub(super) struct Pass<T> {
    pub(super) radix: usize,
    /// Butterflies between which the factors differ.
    pub(super) groups: usize,
    /// Butterflies with the same factors.
    pub(super) stride: usize,
    /// `radix - 1` factors for each group.
    pub(super) twiddles: Vec<Complex<T>>,
    /// Of odd radices: cosine and sine for each pair of an output and a pair of inputs.
    rotations: Vec<(T, T)>,
    /// Of primes that have no butterfly.
    prime: Option<Box<PrimePlan<T>>>,
}

const PRIMES: [usize; 8] = [3, 5, 7, 11, 13, 17, 19, 23];

/// Multiplications of vectors for each point up to which a prime number of points is transformed faster here than a row at a time.
const MOST_PRODUCTS: usize = 72;

/// Factors of a length; none where one of them takes too long.
fn radices(length: usize) -> Option<Vec<usize>> {
    let mut rest = length;
    let mut result = Vec::new();
    while rest > 0 && rest.is_multiple_of(2) {
        // As few passes as there can be, and no more of two points than needed.
        let radix = match rest.trailing_zeros() {
            1 => 2,
            2 | 4 => 4,
            _ => 8,
        };
        result.push(radix);
        rest /= radix;
    }
    for radix in PRIMES {
        while rest > 0 && rest.is_multiple_of(radix) {
            result.push(radix);
            rest /= radix;
        }
    }
    let mut prime = PRIMES[PRIMES.len() - 1] + 2;
    while rest > 1 {
        if prime * prime > rest {
            prime = rest;
        }
        if rest.is_multiple_of(prime) {
            result.push(prime);
            rest /= prime;
        } else {
            prime += 2;
        }
    }
    (rest == 1 && products(&result).is_some()).then_some(result)
}

/// About how many multiplications of vectors passes of these factors take for each point.
fn products(factors: &[usize]) -> Option<usize> {
    let of_factor = |&factor: &usize| match has_butterfly(factor) {
        true => Some(factor + 1),
        false => Some(2 * products(&radices(factor - 1)?)? + 4).filter(|&products| products <= MOST_PRODUCTS),
    };
    factors.iter().map(of_factor).sum()
}

fn has_butterfly(radix: usize) -> bool {
    radix <= 8 || PRIMES.contains(&radix)
}

/// `exp(-2 pi i numerator / denominator)`.
pub(super) fn root(numerator: usize, denominator: usize) -> Complex<f64> {
    Complex::from_polar(1.0, -TAU * (numerator % denominator) as f64 / denominator as f64)
}

pub(super) fn rounded<T: Lane>(value: Complex<f64>) -> Complex<T> {
    Complex::new(T::rounded(value.re), T::rounded(value.im))
}

impl<T: Lane> LanePlan<T> {
    /// None where the length has no factor, or large ones that take too long.
    pub(super) fn new(length: usize) -> Option<Self> {
        let (mut rest, mut stride, mut passes) = (length, 1, Vec::new());
        for radix in radices(length)? {
            let groups = rest / radix;
            let twiddles = (0..groups).flat_map(|p| (1..radix).map(move |j| rounded(root(p * j, rest)))).collect();
            let half = if PRIMES.contains(&radix) { radix / 2 } else { 0 };
            let rotations = (1..=half)
                .flat_map(|j| (1..=half).map(move |k| root(j * k, radix)))
                .map(|root| (T::rounded(root.re), T::rounded(-root.im)))
                .collect();
            let prime = if has_butterfly(radix) { None } else { Some(Box::new(PrimePlan::new(radix)?)) };
            passes.push(Pass { radix, groups, stride, twiddles, rotations, prime });
            (rest, stride) = (groups, stride * radix);
        }
        (length > 1).then_some(Self { length, passes })
    }

    /// Transforms the signals of `buffers`, and multiplies the results.
    pub(super) fn forward(&self, buffers: &mut Buffers<T>, scale: T) {
        in_vectors(Forward::of(self, buffers, scale));
    }

    /// As [`LanePlan::forward`], from one place to another, which may be the same.
    ///
    /// # Safety
    /// Both must hold the signals, and nothing else may use them meanwhile.
    pub(super) unsafe fn forward_between(&self, source: Rows<T>, target: Rows<T>, buffers: &mut Buffers<T>, scale: T) {
        in_vectors(Forward { source: Some(source), target: Some(target), ..Forward::of(self, buffers, scale) });
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

    /// The elements of a position.
    #[inline(always)]
    pub(super) fn at(self, position: usize) -> *mut Complex<T> {
        self.start.wrapping_add(position * self.stride)
    }

    /// The elements of a butterfly's result, where results stand `step` positions apart from `first` on, of `length` positions.
    #[inline(always)]
    pub(super) fn place(self, first: usize, result: usize, step: usize, length: usize) -> *mut Complex<T> {
        let position = first + result * step;
        // The first position is the first in the opposite order too.
        if self.reversed && position > 0 { self.at(length - position) } else { self.at(position) }
    }

    /// The elements of one of `length` positions, and the distance to those of the position that is `step` further on.
    #[inline(always)]
    fn from(self, position: usize, step: usize, length: usize) -> (*mut Complex<T>, isize) {
        let distance = (step * self.stride) as isize;
        if self.reversed { (self.at(length - position), -distance) } else { (self.at(position), distance) }
    }
}

/// Pair `pair` of the vectors of a position.
///
/// # Safety
/// The position's elements must be there, and nothing may write them meanwhile.
#[inline(always)]
pub(super) unsafe fn load<S: Simd, T: Lane>(elements: *const Complex<T>, pair: usize) -> Parts<S, T> {
    // SAFETY: the caller's promise; a complex number is its two parts.
    let vectors = T::vectors::<S>(unsafe { slice::from_raw_parts(elements.cast(), 2 * T::LANES) });
    Parts { re: vectors[2 * pair], im: vectors[2 * pair + 1] }
}

/// # Safety
/// As for [`load`], and nothing may read them meanwhile.
#[inline(always)]
pub(super) unsafe fn store<S: Simd, T: Lane>(elements: *mut Complex<T>, pair: usize, value: Parts<S, T>) {
    // SAFETY: as above.
    let vectors = T::vectors_mut::<S>(unsafe { slice::from_raw_parts_mut(elements.cast(), 2 * T::LANES) });
    (vectors[2 * pair], vectors[2 * pair + 1]) = (value.re, value.im);
}

/// Pairs of vectors that a position has.
#[inline(always)]
pub(super) fn pairs<S: Simd, T: Lane>() -> usize {
    T::LANES * size_of::<T>() / size_of::<T::Vector<S>>()
}

/// The parts of complex numbers.
#[inline(always)]
pub(super) fn separate<S: Simd, T: Lane>(simd: S, numbers: Parts<S, T>) -> Parts<S, T> {
    let [re, im] = T::separate(simd, [numbers.re, numbers.im]);
    Parts { re, im }
}

/// The inverse of [`separate`].
#[inline(always)]
pub(super) fn join<S: Simd, T: Lane>(simd: S, parts: Parts<S, T>) -> Parts<S, T> {
    let [re, im] = T::join(simd, [parts.re, parts.im]);
    Parts { re, im }
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
        in_vectors(Forward { planar: [false, true], ..Forward::of(&self.half, buffers, T::one()) });
        in_vectors(Separate { plan: self, buffers, inverse: false });
    }

    /// From the first halves of spectra to pairs of neighbours of real signals times the length and a scale, in the opposite
    /// order.
    pub(super) fn inverse(&self, buffers: &mut Buffers<T>, scale: T) {
        in_vectors(Separate { plan: self, buffers, inverse: true });
        in_vectors(Forward { planar: [true, false], ..Forward::of(&self.half, buffers, scale) });
    }
}

/// Something to do with vectors that the processor has.
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

    // A position's real parts fill a vector of 256 bits.
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
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
        let input = Rows::of(&mut self.buffers.data);
        let output = Rows::of(&mut self.buffers.scratch);
        // Going forward, the spectrum repeats after its end.
        let (end, one) = if self.inverse { (half + 1, T::rounded(1.0)) } else { (half, T::rounded(0.5)) };
        let one = T::splat(simd, one);
        for (k, &factor) in self.plan.factors.iter().enumerate() {
            let factor = if self.inverse { (factor * T::rounded(2.0)).conj() } else { factor };
            for pair in 0..pairs::<S, T>() {
                // SAFETY: both are positions of the signals, which are used here alone.
                let [value, opposite] =
                    [k % end, (half - k) % end].map(|position| unsafe { load::<S, T>(input.at(position), pair) });
                let spectra = |numbers| if self.inverse { separate(simd, numbers) } else { numbers };
                let (value, opposite) = (spectra(value), spectra(opposite).conjugate(simd));
                let odd = value.difference(simd, opposite).product(simd, factor);
                let result = odd.plus_scaled(simd, one, value.sum(simd, opposite));
                let result = if self.inverse { result } else { join(simd, result) };
                // SAFETY: as above.
                unsafe { store::<S, T>(output.at(k), pair, result) };
            }
        }
        std::mem::swap(&mut self.buffers.data, &mut self.buffers.scratch);
    }
}

pub(super) struct Forward<'a, T> {
    plan: &'a LanePlan<T>,
    buffers: &'a mut Buffers<T>,
    scale: T,
    /// Instead of the buffers.
    source: Option<Rows<T>>,
    target: Option<Rows<T>>,
    /// Whether the real and imaginary parts of what is read and of what is written stand apart, as between passes.
    planar: [bool; 2],
}

impl<'a, T> Forward<'a, T> {
    /// Of complex numbers, in the buffers.
    pub(super) fn of(plan: &'a LanePlan<T>, buffers: &'a mut Buffers<T>, scale: T) -> Self {
        Self { plan, buffers, scale, source: None, target: None, planar: [false; 2] }
    }

    /// Of parts that stand apart, before and after.
    pub(super) fn apart(self) -> Self {
        Self { planar: [true; 2], ..self }
    }
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
            let planar = [self.planar[0] || !is_first, self.planar[1] || !is_last];
            let step = Places { pass, input, output, length, scale, planar };
            match (&pass.prime, pass.radix) {
                (Some(prime), _) => simd.vectorize(PrimeStep(simd, step, prime)),
                (None, 2) => simd.vectorize(Step::<S, T, 2>(simd, step)),
                (None, 3) => simd.vectorize(Step::<S, T, 3>(simd, step)),
                (None, 4) => simd.vectorize(Step::<S, T, 4>(simd, step)),
                (None, 5) => simd.vectorize(Step::<S, T, 5>(simd, step)),
                (None, 7) => simd.vectorize(Step::<S, T, 7>(simd, step)),
                (None, 8) => simd.vectorize(Step::<S, T, 8>(simd, step)),
                (None, 11) => simd.vectorize(Step::<S, T, 11>(simd, step)),
                (None, 13) => simd.vectorize(Step::<S, T, 13>(simd, step)),
                (None, 17) => simd.vectorize(Step::<S, T, 17>(simd, step)),
                (None, 19) => simd.vectorize(Step::<S, T, 19>(simd, step)),
                (None, _) => simd.vectorize(Step::<S, T, 23>(simd, step)),
            }
            if target.is_none() {
                std::mem::swap(&mut self.buffers.data, &mut self.buffers.scratch);
            }
        }
    }
}

/// What a pass reads and writes.
pub(super) struct Places<'a, T> {
    pub(super) pass: &'a Pass<T>,
    pub(super) input: Rows<T>,
    pub(super) output: Rows<T>,
    /// Positions of both.
    pub(super) length: usize,
    /// What results are multiplied by.
    pub(super) scale: Option<T>,
    pub(super) planar: [bool; 2],
}

struct Step<'a, S: Simd, T: Lane, const R: usize>(S, Places<'a, T>);

impl<S: Simd, T: Lane, const R: usize> NullaryFnOnce for Step<'_, S, T, R> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(simd, Places { pass, input, output, length, scale, planar: [reads_planar, writes_planar] }) = self;
        let scale = scale.map(|scale| T::splat(simd, scale));
        // Positions between the inputs of a butterfly, and between its outputs.
        let (input_step, output_step) = (pass.groups * pass.stride, pass.stride);
        for (group, twiddles) in pass.twiddles.chunks_exact(R - 1).enumerate() {
            let (from, to) = (group * output_step, group * R * output_step);
            for (place, pair) in (0..output_step).flat_map(|place| (0..pairs::<S, T>()).map(move |pair| (place, pair)))
            {
                let at = |k: usize| input.at(from + place + k * input_step);
                // SAFETY: all are positions of the signals, which are used here alone.
                let mut x: [Parts<S, T>; R] = from_fn(|k| unsafe { load::<S, T>(at(k), pair) });
                if !reads_planar {
                    x = x.map(|numbers| separate(simd, numbers));
                }
                let mut y = butterfly::<S, T, R>(simd, x, &pass.rotations);
                // The first group's factors are 1.
                if group > 0 {
                    y[1..].iter_mut().zip(twiddles).for_each(|(y, &factor)| *y = y.product(simd, factor));
                }
                if let Some(scale) = scale {
                    y = y.map(|y| y.scaled(simd, scale));
                }
                if !writes_planar {
                    y = y.map(|parts| join(simd, parts));
                }
                let (start, distance) = output.from(to + place, output_step, length);
                for (j, &y) in y.iter().enumerate() {
                    // The first position is the first in the opposite order too.
                    let is_first = j == 0 && to + place == 0;
                    let elements = if is_first { output.at(0) } else { start.wrapping_offset(j as isize * distance) };
                    // SAFETY: as above; a butterfly's inputs are all read before.
                    unsafe { store::<S, T>(elements, pair, y) };
                }
            }
        }
    }
}

/// Outputs that are added up together, so that each input is loaded once for them.
const OUTPUTS: usize = 4;

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "iterators over the arrays are not unrolled, and take twice the time")]
fn butterfly<S: Simd, T: Lane, const R: usize>(simd: S, x: [Parts<S, T>; R], rotations: &[(T, T)]) -> [Parts<S, T>; R] {
    let mut y = x;
    match R {
        2 => (y[0], y[1]) = (x[0].sum(simd, x[1]), x[0].difference(simd, x[1])),
        4 => [y[0], y[1], y[2], y[3]] = four(simd, [x[0], x[1], x[2], x[3]]),
        8 => {
            let even = four(simd, [x[0], x[2], x[4], x[6]]);
            let odd = four(simd, [x[1], x[3], x[5], x[7]]);
            let half = T::splat(simd, T::rounded(FRAC_1_SQRT_2));
            let minus_half = T::splat(simd, T::rounded(-FRAC_1_SQRT_2));
            (y[0], y[4]) = (even[0].sum(simd, odd[0]), even[0].difference(simd, odd[0]));
            (y[2], y[6]) = (even[2].plus_turned(simd, odd[2]), even[2].minus_turned(simd, odd[2]));
            // Times (1 - i) / sqrt(2), and (-1 - i) / sqrt(2).
            let one = odd[1].plus_turned(simd, odd[1]);
            (y[1], y[5]) = (even[1].plus_scaled(simd, half, one), even[1].plus_scaled(simd, minus_half, one));
            let three = odd[3].minus_turned(simd, odd[3]);
            (y[3], y[7]) = (even[3].plus_scaled(simd, minus_half, three), even[3].plus_scaled(simd, half, three));
        }
        _ => {
            // y_j and y_(R-j) from the sums and differences of x_k and x_(R-k).
            let half = R / 2;
            let (mut sums, mut differences) = (x, x);
            for k in 1..=half {
                (sums[k], differences[k]) = (x[k].sum(simd, x[R - k]), x[k].difference(simd, x[R - k]));
                y[0] = y[0].sum(simd, sums[k]);
            }
            let rotations = &rotations[..half * half];
            for block in (0..half).step_by(OUTPUTS) {
                let outputs = OUTPUTS.min(half - block);
                let factors = |j: usize, k: usize| rotations[(block + j) * half + k - 1];
                let mut even = [x[0]; OUTPUTS];
                for k in 1..=half {
                    for (j, even) in even.iter_mut().enumerate().take(outputs) {
                        *even = even.plus_scaled(simd, T::splat(simd, factors(j, k).0), sums[k]);
                    }
                }
                let mut odd = even;
                for (j, odd) in odd.iter_mut().enumerate().take(outputs) {
                    *odd = differences[1].scaled(simd, T::splat(simd, factors(j, 1).1));
                }
                for k in 2..=half {
                    for (j, odd) in odd.iter_mut().enumerate().take(outputs) {
                        *odd = odd.plus_scaled(simd, T::splat(simd, factors(j, k).1), differences[k]);
                    }
                }
                for j in 0..outputs {
                    y[block + j + 1] = even[j].plus_turned(simd, odd[j]);
                    y[R - 1 - block - j] = even[j].minus_turned(simd, odd[j]);
                }
            }
        }
    }
    y
}

#[inline(always)]
fn four<S: Simd, T: Lane>(simd: S, x: [Parts<S, T>; 4]) -> [Parts<S, T>; 4] {
    let (a, b) = (x[0].sum(simd, x[2]), x[0].difference(simd, x[2]));
    let (c, d) = (x[1].sum(simd, x[3]), x[1].difference(simd, x[3]));
    [a.sum(simd, c), b.plus_turned(simd, d), a.difference(simd, c), b.minus_turned(simd, d)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of half the size, as other processors have, give what those of this one give.
    #[test]
    fn vectors_of_any_size_are_alike() {
        for length in [2, 8, 30, 68, 91, 142, 272, 1024] {
            let Some(plan) = LanePlan::<f32>::new(length) else { panic!("{length} has no plan") };
            let numbers = |index: usize| Complex::new((index * 7 % 11) as f32 - 5.0, (index * 5 % 13) as f32 - 6.0);
            let [mut own, mut narrow] = [(); 2].map(|()| Buffers::new(length));
            for buffers in [&mut own, &mut narrow] {
                buffers.data().iter_mut().enumerate().for_each(|(index, value)| *value = numbers(index));
            }
            plan.forward(&mut own, 0.5);
            Forward::of(&plan, &mut narrow, 0.5).run(Scalar128b);
            let difference = own.data().iter().zip(narrow.data()).map(|(a, b)| (*a - *b).norm()).fold(0.0, f32::max);
            assert!(difference < 1e-3, "{length}: {difference}");
        }
    }
}
