//! Random bits and numbers: HLO's `rng-bit-generator`, `rng` and `rng-get-and-update-state`.
//!
//! Philox4x32-10 and Threefry2x32-20 are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3". How
//! counters are numbered over an array follows XLA, whose bits these are; the default generator is Philox, as on XLA:CPU.

use super::{RunContext, context::context_at, primitive_type};
use crate::thread_pool::{for_each_chunk, grain_for_cost};
use std::{f64::consts::TAU, slice};

/// Blocks of Philox that are computed side by side, in the lanes of vectors.
const LANES: usize = 16;

/// Words that one thread makes at a time, at least; a multiple of what [`LANES`] blocks have.
const CHUNK_WORDS: usize = 1 << 12;

/// Blocks of Threefry that are computed before their words are stored.
const THREEFRY_BLOCKS: usize = 256;

/// A key and a 128-bit counter: where a sequence of random words starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    /// The key.
    pub key: u64,
    /// The counter of the first block.
    pub counter: u128,
}

impl Philox {
    /// Ten rounds on [`LANES`] blocks that follow each other; word `w` of block `b` is `[w][b]`.
    #[inline(always)]
    fn blocks(self, first: u128) -> [[u32; LANES]; 4] {
        let mut words = [[0u32; LANES]; 4];
        for (word, lanes) in words.iter_mut().enumerate() {
            for (block, lane) in lanes.iter_mut().enumerate() {
                let counter = self.counter.wrapping_add(first).wrapping_add(block as u128);
                *lane = (counter >> (32 * word)) as u32;
            }
        }
        let [mut low, mut high] = [self.key as u32, (self.key >> 32) as u32];
        let [a, b, c, d] = &mut words;
        for _ in 0..10 {
            for (((a, b), c), d) in a.iter_mut().zip(&mut *b).zip(&mut *c).zip(&mut *d) {
                let (first, second) = (u64::from(*a) * 0xD251_1F53, u64::from(*c) * 0xCD9E_8D57);
                *a = (second >> 32) as u32 ^ *b ^ low;
                *b = second as u32;
                *c = (first >> 32) as u32 ^ *d ^ high;
                *d = first as u32;
            }
            low = low.wrapping_add(0x9E37_79B9);
            high = high.wrapping_add(0xBB67_AE85);
        }
        words
    }

    /// Words `4 * first_block ..` of the sequence.
    #[inline(always)]
    fn fill_words(self, first_block: u128, words: &mut [u32]) {
        for (group, words) in words.chunks_mut(4 * LANES).enumerate() {
            let blocks = self.blocks(first_block.wrapping_add((group * LANES) as u128));
            for (position, word) in words.iter_mut().enumerate() {
                *word = blocks[position % 4][position / 4];
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn fill_words_avx2(self, first_block: u128, words: &mut [u32]) {
        self.fill_words(first_block, words);
    }

    /// Fills `words` with the sequence.
    pub fn fill(self, first_block: u128, words: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has what the function uses.
            return unsafe { self.fill_words_avx2(first_block, words) };
        }
        self.fill_words(first_block, words);
    }
}

/// Twenty rounds of Threefry2x32 on [`LANES`] blocks that follow each other; word `w` of block `b` is `[w][b]`.
#[inline(always)]
fn threefry(counter: u64, key: u64) -> [[u32; LANES]; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let (key_low, key_high) = (key as u32, (key >> 32) as u32);
    let keys = [key_low, key_high, key_low ^ key_high ^ 0x1BD1_1BDA];
    let (mut x, mut y) = ([0u32; LANES], [0u32; LANES]);
    for (block, (x, y)) in x.iter_mut().zip(&mut y).enumerate() {
        let counter = counter.wrapping_add(block as u64);
        *x = (counter as u32).wrapping_add(key_low);
        *y = ((counter >> 32) as u32).wrapping_add(key_high);
    }
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            for (x, y) in x.iter_mut().zip(&mut y) {
                *x = x.wrapping_add(*y);
                *y = y.rotate_left(rotation) ^ *x;
            }
        }
        let added = [keys[(group + 1) % 3], keys[(group + 2) % 3].wrapping_add(group as u32 + 1)];
        x.iter_mut().for_each(|x| *x = x.wrapping_add(added[0]));
        y.iter_mut().for_each(|y| *y = y.wrapping_add(added[1]));
    }
    [x, y]
}

/// Threefry's first and second words of the blocks from a counter on.
fn fill_threefry(counter: u64, key: u64, first: &mut [u32], second: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the CPU has what the functions use.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            return fill_threefry_avx512(counter, key, first, second);
        }
        if is_x86_feature_detected!("avx2") {
            return fill_threefry_avx2(counter, key, first, second);
        }
    }
    fill_threefry_lanes(counter, key, first, second);
}

#[inline(always)]
fn fill_threefry_lanes(counter: u64, key: u64, first: &mut [u32], second: &mut [u32]) {
    for (group, (first, second)) in first.chunks_mut(LANES).zip(second.chunks_mut(LANES)).enumerate() {
        let [x, y] = threefry(counter.wrapping_add((group * LANES) as u64), key);
        first.copy_from_slice(&x[..first.len()]);
        second.copy_from_slice(&y[..second.len()]);
    }
}

/// There is an instruction that rotates.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn fill_threefry_avx512(counter: u64, key: u64, first: &mut [u32], second: &mut [u32]) {
    fill_threefry_lanes(counter, key, first, second);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_threefry_avx2(counter: u64, key: u64, first: &mut [u32], second: &mut [u32]) {
    fill_threefry_lanes(counter, key, first, second);
}

/// Addresses that threads write disjoint parts of.
#[derive(Clone, Copy)]
struct Shared(*mut u8);

// SAFETY: every use takes disjoint ranges.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// The elements must exist, and nothing else may use them meanwhile.
    unsafe fn elements<'a, T>(&self, first: usize, count: usize) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.0.cast::<T>().add(first), count) }
    }
}

/// Runs `body` on ranges that make up `0..count`, at `cost` nanoseconds an item; ranges start at multiples of `unit`.
fn in_chunks(context: &RunContext, count: usize, unit: usize, cost: u64, body: impl Fn(usize, usize) + Sync) {
    match context.threads() {
        Some(threads) => {
            let units = count.div_ceil(unit);
            for_each_chunk(threads, units, grain_for_cost(cost * unit as u64) as usize, |begin, end| {
                body(begin * unit, (end * unit).min(count));
            });
        }
        None => body(0, count),
    }
}

/// Random bits for an array.
struct Bits<'a> {
    context: &'a RunContext<'a>,
    target: Shared,
    bytes: usize,
    /// Bits of an element that are used: fewer than its bytes have for the smallest types.
    width: u32,
    dimensions: Vec<usize>,
}

impl Bits<'_> {
    fn count(&self) -> usize {
        self.dimensions.iter().product()
    }

    /// Element `position` from a word: its lowest bits.
    ///
    /// # Safety
    /// Elements have at most four bytes, and no other thread uses this one.
    unsafe fn put(&self, position: usize, word: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.bytes, self.width) {
                (4, _) => self.target.elements::<u32>(position, 1)[0] = word,
                (2, _) => self.target.elements::<u16>(position, 1)[0] = word as u16,
                (_, width) => self.target.elements::<u8>(position, 1)[0] = narrow(word as u8, width),
            }
        }
    }

    /// Elements from `position` on, each from a word.
    ///
    /// # Safety
    /// As of [`Bits::put`].
    unsafe fn put_all(&self, position: usize, words: &[u32]) {
        for (offset, &word) in words.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.put(position + offset, word) };
        }
    }

    /// Philox: words one after another. Returns how many blocks were used.
    fn philox(&self, generator: Philox) -> u64 {
        let count = self.count();
        if self.bytes >= 4 {
            // 64-bit elements are pairs of words, the low one first, which is how they lie in memory.
            let words = count * self.bytes / 4;
            in_chunks(self.context, words, CHUNK_WORDS, 1, |begin, end| {
                // SAFETY: chunks are disjoint; they start at multiples of a block.
                let words = unsafe { self.target.elements::<u32>(begin, end - begin) };
                generator.fill((begin / 4) as u128, words);
            });
            return words.div_ceil(4) as u64;
        }
        in_chunks(self.context, count, CHUNK_WORDS, 1, |begin, end| {
            let mut words = [0; CHUNK_WORDS];
            for first in (begin..end).step_by(CHUNK_WORDS) {
                let words = &mut words[..CHUNK_WORDS.min(end - first)];
                generator.fill((first / 4) as u128, words);
                // SAFETY: chunks are disjoint.
                unsafe { self.put_all(first, words) };
            }
        });
        count.div_ceil(4) as u64
    }

    /// Threefry: elements of 64 bits take a block each; of smaller ones, neighbours along the first even dimension (or
    /// the first of the largest) share a block. Returns how many blocks were used.
    fn threefry(&self, key: u64, counter: u64) -> u64 {
        // The words of a block are neighbours.
        let in_pairs = |blocks| {
            self.threefry_blocks(key, counter, blocks, |begin, low, high| {
                // SAFETY: chunks are disjoint.
                let pairs = unsafe { self.target.elements::<[u32; 2]>(begin, low.len()) };
                pairs.iter_mut().zip(low.iter().zip(high)).for_each(|(pair, (&low, &high))| *pair = [low, high]);
            })
        };
        if self.bytes == 8 {
            return in_pairs(self.count());
        }
        let split = self.dimensions.iter().position(|size| size % 2 == 0).or_else(|| {
            let largest = self.dimensions.iter().max()?;
            self.dimensions.iter().position(|size| size == largest)
        });
        let (outer, size, inner): (usize, usize, usize) = match split {
            Some(split) => (
                self.dimensions[..split].iter().product(),
                self.dimensions[split],
                self.dimensions[split + 1..].iter().product(),
            ),
            None => (1, 1, 1),
        };
        let half = size.div_ceil(2);
        if self.bytes == 4 && inner == 1 && size % 2 == 0 {
            return in_pairs(outer * half);
        }
        self.threefry_blocks(key, counter, outer * half * inner, |begin, even, odd| {
            let (row, mut place) = (begin / inner, begin % inner);
            let (mut outside, mut pair) = (row / half, row % half);
            let mut done = 0;
            while done < even.len() {
                let run = (inner - place).min(even.len() - done);
                let first = (outside * size + 2 * pair) * inner + place;
                // SAFETY: pairs of rows are disjoint; the last pair of an odd number has one.
                unsafe {
                    self.put_all(first, &even[done..done + run]);
                    if 2 * pair + 1 < size {
                        self.put_all(first + inner, &odd[done..done + run]);
                    }
                }
                (done, place, pair) = (done + run, 0, pair + 1);
                if pair == half {
                    (outside, pair) = (outside + 1, 0);
                }
            }
        })
    }

    /// Computes so many blocks of Threefry, some at a time: `body` gets the number of the first of them and their first and
    /// second words. Returns how many there were.
    fn threefry_blocks(
        &self,
        key: u64,
        counter: u64,
        count: usize,
        body: impl Fn(usize, &[u32], &[u32]) + Sync,
    ) -> u64 {
        in_chunks(self.context, count, THREEFRY_BLOCKS, 2, |begin, end| {
            let (mut first, mut second) = ([0; THREEFRY_BLOCKS], [0; THREEFRY_BLOCKS]);
            for block in (begin..end).step_by(THREEFRY_BLOCKS) {
                let words = THREEFRY_BLOCKS.min(end - block);
                let (first, second) = (&mut first[..words], &mut second[..words]);
                fill_threefry(counter.wrapping_add(block as u64), key, first, second);
                body(block, first, second);
            }
        });
        count as u64
    }
}

/// A byte that holds an element of 2, 4 or 8 bits: unsigned ones with zeros above, signed ones (negative widths) with
/// their sign.
fn narrow(byte: u8, width: u32) -> u8 {
    match width {
        SIGNED_4 => ((byte << 4) as i8 >> 4) as u8,
        SIGNED_2 => ((byte << 6) as i8 >> 6) as u8,
        2 => byte & 3,
        4 => byte & 15,
        _ => byte,
    }
}

/// [`Bits::width`] of `s4` and `s2`.
const SIGNED_4: u32 = 104;
const SIGNED_2: u32 = 102;

fn size(value: i64) -> Result<usize, String> {
    usize::try_from(value).map_err(|_| format!("size {value}"))
}

/// Writes random bits and the generator's next state. The descriptor holds the algorithm (0 Philox, 1 Threefry), the
/// 64-bit words of the state, then the element type, the rank and the dimensions of the bits. The state is a key and a
/// counter of 64 or, for Philox, 128 bits; with 64 bits the key is the counter's upper half too.
///
/// # Safety
/// `context` must be null or live; the buffers must hold what the descriptor says.
pub unsafe extern "C" fn halo_rng_bit_generator(
    context: *const RunContext,
    descriptor: *const i64,
    state: *const u64,
    next_state: *mut u64,
    bits: *mut u8,
) {
    // SAFETY: the caller's promise.
    let context = unsafe { context_at(context) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("rng-bit-generator", || {
        // SAFETY: the caller's promise.
        let (state, next, [algorithm, element_type], dimensions) = unsafe {
            let words = size(*descriptor.add(1))?;
            (
                slice::from_raw_parts(state, words).to_vec(),
                slice::from_raw_parts_mut(next_state, words),
                [*descriptor, *descriptor.add(2)],
                slice::from_raw_parts(descriptor.add(4), size(*descriptor.add(3))?),
            )
        };
        let bytes = primitive_type::byte_width(element_type).filter(|&bytes| bytes <= 8);
        let bytes = bytes.ok_or_else(|| format!("no random bits of type {element_type}"))?;
        let width = match element_type {
            primitive_type::S4 => SIGNED_4,
            primitive_type::S2 => SIGNED_2,
            primitive_type::U4 | primitive_type::F4E2M1FN => 4,
            primitive_type::U2 => 2,
            _ => 8 * bytes as u32,
        };
        let dimensions = dimensions.iter().map(|&dimension| size(dimension)).collect::<Result<_, _>>()?;
        let bits = Bits { context, target: Shared(bits), bytes, width, dimensions };
        next.copy_from_slice(&state);
        match (algorithm, &state[..]) {
            (_, _) if bits.count() == 0 => {}
            (0, &[key, low]) => {
                let counter = u128::from(low) | u128::from(key) << 64;
                next[1] = low.wrapping_add(bits.philox(Philox { key, counter }));
            }
            (0, &[key, low, high]) => {
                let counter = u128::from(low) | u128::from(high) << 64;
                let counter = counter.wrapping_add(bits.philox(Philox { key, counter }).into());
                (next[1], next[2]) = (counter as u64, (counter >> 64) as u64);
            }
            (1, &[key, counter]) => next[1] = counter.wrapping_add(bits.threefry(key, counter)),
            _ => return Err(format!("algorithm {algorithm} with a state of {} words", state.len())),
        }
        Ok(())
    });
}

/// The key of the generator behind `rng`, which kernels of GPUs have as a constant.
const GENERATOR_KEY: u64 = 0x7012_395A_7012_395A;

/// The state of the generator behind `rng` and `rng-get-and-update-state`; a program keeps it from run to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomState(Philox);

impl RandomState {
    /// A generator whose numbers depend on the seed alone.
    pub fn with_seed(seed: u64) -> Self {
        Self(Philox { key: GENERATOR_KEY, counter: u128::from(seed) << 64 })
    }

    /// `count` numbers uniform over 64 bits.
    fn draw(&mut self, count: usize) -> Vec<u64> {
        let mut words = vec![0; 4 * count.div_ceil(2)];
        self.0.fill(0, &mut words);
        self.0.counter = self.0.counter.wrapping_add(count.div_ceil(2) as u128);
        let pairs = words.chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
        pairs.take(count).collect()
    }
}

impl Default for RandomState {
    fn default() -> Self {
        Self::with_seed(0)
    }
}

/// In [0, 1), with 53 random bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// An element type of random floats.
trait Float: Copy {
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
}

macro_rules! float {
    ($($float:ty, $to:expr, $from:expr;)*) => {
        $(impl Float for $float {
            fn to_f64(self) -> f64 {
                $to(self)
            }

            fn from_f64(value: f64) -> Self {
                $from(value)
            }
        })*
    };
}

float! {
    f32, f64::from, |value| value as f32;
    f64, |value| value, |value| value;
    half::f16, half::f16::to_f64, half::f16::from_f64;
    half::bf16, half::bf16::to_f64, half::bf16::from_f64;
}

/// Uniform over [a, b); the mean a and the deviation b of a normal distribution.
fn floats<T: Float>(state: &mut RandomState, is_normal: bool, a: T, b: T, target: &mut [T]) {
    let (mean, deviation) = (a.to_f64(), b.to_f64());
    if !is_normal {
        let draws = state.draw(target.len());
        for (element, bits) in target.iter_mut().zip(draws) {
            let value = T::from_f64(mean + (deviation - mean) * unit(bits));
            // Rounding may reach b, which is outside.
            *element = if deviation > mean && value.to_f64() >= deviation { a } else { value };
        }
        return;
    }
    let bits = state.draw(target.len().next_multiple_of(2));
    for (elements, pair) in target.chunks_mut(2).zip(bits.chunks_exact(2)) {
        // Box-Muller; 1 - u is never 0.
        let radius = (-2.0 * (1.0 - unit(pair[0])).ln()).sqrt();
        let (sin, cos) = (TAU * unit(pair[1])).sin_cos();
        for (element, z) in elements.iter_mut().zip([radius * cos, radius * sin]) {
            *element = T::from_f64(mean + deviation * z);
        }
    }
}

/// An element type of random integers.
trait Integer: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integer {
    ($($integer:ty)*) => {
        $(impl Integer for $integer {
            fn to_bits(self) -> u64 {
                self as u64
            }

            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

integer!(u8 u16 u32 u64 i8 i16 i32 i64);

/// Uniform over [a, b).
fn integers<T: Integer>(state: &mut RandomState, a: T, b: T, target: &mut [T]) {
    let range = b.to_bits().wrapping_sub(a.to_bits());
    let draws = state.draw(target.len());
    for (element, bits) in target.iter_mut().zip(draws) {
        *element = T::from_bits(a.to_bits().wrapping_add(bits.checked_rem(range).unwrap_or(0)));
    }
}

/// Fills an array with random numbers. The descriptor holds the distribution (0 uniform, 1 normal), the element type and
/// the number of elements.
///
/// # Safety
/// `context` must be null or live; the buffers must hold what the descriptor says, `a` and `b` one element.
pub unsafe extern "C" fn halo_rng(
    context: *const RunContext,
    descriptor: *const i64,
    a: *const u8,
    b: *const u8,
    target: *mut u8,
) {
    // SAFETY: the caller's promise.
    let context = unsafe { context_at(context) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("rng", || {
        // SAFETY: the caller's promise.
        let [distribution, element_type, count] = unsafe { *descriptor.cast::<[i64; 3]>() };
        let count = size(count)?;
        let is_normal = distribution == 1;
        let state = &mut *context.random()?;
        macro_rules! fill {
            ($element:ty, $function:ident($($argument:expr),*)) => {
                // SAFETY: the caller's promise.
                unsafe {
                    let target = slice::from_raw_parts_mut(target.cast::<$element>(), count);
                    $function(state, $($argument,)* *a.cast::<$element>(), *b.cast::<$element>(), target)
                }
            };
        }
        match (element_type, is_normal) {
            (primitive_type::F16, _) => fill!(half::f16, floats(is_normal)),
            (primitive_type::BF16, _) => fill!(half::bf16, floats(is_normal)),
            (primitive_type::F32, _) => fill!(f32, floats(is_normal)),
            (primitive_type::F64, _) => fill!(f64, floats(is_normal)),
            (primitive_type::PRED, false) => fill!(u8, predicates()),
            (primitive_type::U2 | primitive_type::U4 | primitive_type::U8, false) => fill!(u8, integers()),
            (primitive_type::U16, false) => fill!(u16, integers()),
            (primitive_type::U32, false) => fill!(u32, integers()),
            (primitive_type::U64, false) => fill!(u64, integers()),
            (primitive_type::S2 | primitive_type::S4 | primitive_type::S8, false) => fill!(i8, integers()),
            (primitive_type::S16, false) => fill!(i16, integers()),
            (primitive_type::S32, false) => fill!(i32, integers()),
            (primitive_type::S64, false) => fill!(i64, integers()),
            _ => return Err(format!("no numbers of type {element_type} and distribution {distribution}")),
        }
        Ok(())
    });
}

/// Both values are equally likely, unless the bounds are equal.
fn predicates(state: &mut RandomState, a: u8, b: u8, target: &mut [u8]) {
    let draws = state.draw(target.len());
    for (element, bits) in target.iter_mut().zip(draws) {
        *element = if a == b { a } else { (bits & 1) as u8 };
    }
}

/// Writes the 128-bit state, low word first, and advances it by the descriptor's number.
///
/// # Safety
/// `context` must be null or live; `target` must have room for two words.
pub unsafe extern "C" fn halo_rng_get_and_update_state(
    context: *const RunContext,
    descriptor: *const i64,
    target: *mut u64,
) {
    // SAFETY: the caller's promise.
    let context = unsafe { context_at(context) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("rng-get-and-update-state", || {
        let mut state = context.random()?;
        let old = state.0.counter;
        // SAFETY: the caller's promise.
        let delta = unsafe {
            *target.cast::<[u64; 2]>() = [old as u64, (old >> 64) as u64];
            *descriptor
        };
        state.0.counter = old.wrapping_add_signed(delta.into());
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPool;

    /// Expected values are those of Random123.
    #[test]
    fn known_answers() {
        let mut words = [0; 4];
        Philox { key: 0, counter: 0 }.fill(0, &mut words);
        assert_eq!(words, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        Philox { key: u64::MAX, counter: u128::MAX }.fill(0, &mut words);
        assert_eq!(words, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let first_block = |counter, key| threefry(counter, key).map(|word| word[0]);
        assert_eq!(first_block(0, 0), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(first_block(u64::MAX, u64::MAX), [0x1cb9_96fc, 0xbb00_2be7]);
    }

    fn generate<T: Copy + Default>(
        context: &RunContext,
        algorithm: i64,
        state: &[u64],
        element_type: i64,
        dimensions: &[i64],
    ) -> (Vec<u64>, Vec<T>) {
        let mut descriptor = vec![algorithm, state.len() as i64, element_type, dimensions.len() as i64];
        descriptor.extend(dimensions);
        let mut next = vec![0; state.len()];
        let mut bits = vec![T::default(); dimensions.iter().product::<i64>() as usize];
        let target = bits.as_mut_ptr().cast();
        // SAFETY: the buffers have the described sizes.
        unsafe { halo_rng_bit_generator(context, descriptor.as_ptr(), state.as_ptr(), next.as_mut_ptr(), target) };
        assert_eq!(context.failure(), None);
        (next, bits)
    }

    /// Expected values are XLA:CPU's.
    #[test]
    fn bits_are_those_of_xla() {
        const STATE: [u64; 3] = [0x1234_5678_9abc_def0, 0xfedc_ba98_7654_3210, 77];
        let context = RunContext::new(None);
        let (state, values) = generate::<u32>(&context, 0, &STATE, primitive_type::U32, &[3, 3]);
        assert_eq!(state, [STATE[0], STATE[1] + 3, 77]);
        assert_eq!(values[..5], [4014753730, 3910883873, 4194286446, 743886260, 3209510574]);
        let (_, values) = generate::<u64>(&context, 0, &STATE, primitive_type::U64, &[3]);
        assert_eq!(values, [16797118337003571138, 3194967162838039406, 8958478587758722734]);
        let (state, values) = generate::<u16>(&context, 0, &STATE[..2], primitive_type::U16, &[2, 3]);
        assert_eq!(state, [STATE[0], STATE[1] + 2]);
        assert_eq!(values, [2987, 16003, 44313, 52165, 64095, 31580]);
        let (state, values) = generate::<u32>(&context, 1, &STATE[..2], primitive_type::U32, &[3, 3]);
        assert_eq!(state, [STATE[0], STATE[1] + 6]);
        assert_eq!(
            values,
            [2454742025, 1300334949, 3928822841, 2188719829, 576655657, 2537638704, 2239108488, 1181862949, 3747687101]
        );
        let (_, values) = generate::<u8>(&context, 1, &STATE[..2], primitive_type::U8, &[5]);
        assert_eq!(values, [9, 213, 101, 41, 57]);
        let (_, values) = generate::<u64>(&context, 1, &STATE[..2], primitive_type::U64, &[3]);
        assert_eq!(values, [9400480088116454409, 2476717189168728421, 10899075246672647225]);
    }

    #[test]
    fn threads_make_the_same_bits() {
        let threads = ThreadPool::new(3).unwrap();
        let (parallel, serial) = (RunContext::new(Some(&threads)), RunContext::new(None));
        for algorithm in [0, 1] {
            for dimensions in [&[100_003][..], &[31, 50, 77]] {
                let all = |context| {
                    let wide = generate::<u32>(context, algorithm, &[5, 6], primitive_type::U32, dimensions);
                    (wide, generate::<u8>(context, algorithm, &[5, 6], primitive_type::S4, dimensions))
                };
                assert!(all(&parallel) == all(&serial));
            }
        }
    }
}
