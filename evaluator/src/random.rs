//! Random numbers: `rng-bit-generator`, `rng`, `rng-get-and-update-state`.
//!
//! Philox4x32-10 and Threefry2x32-20 are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3";
//! how counters are numbered over an array follows XLA, whose bits these are. `rng_default` is Philox, as on XLA:CPU.

use super::EvalFailure;
use super::data::{advance, build, row_major_strides, sizes, view};
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::ops::enumerations::{RandomDistribution, RngAlgorithm};
use hlo::ops::rng::GENERATOR_KEY;
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;

/// Ten rounds of Philox4x32.
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let second = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// Twenty rounds of Threefry2x32.
fn threefry(counter: [u32; 2], key: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let [mut a, mut b] = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 0..5usize {
        for rotation in ROTATIONS[group % 2] {
            a = a.wrapping_add(b);
            b = a ^ b.rotate_left(rotation);
        }
        a = a.wrapping_add(keys[(group + 1) % 3]);
        b = b.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [a, b]
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn join(halves: [u32; 2]) -> u64 {
    u64::from(halves[0]) | u64::from(halves[1]) << 32
}

/// `count` blocks of four words from a key and a 128-bit counter, block by block.
fn philox_words(key: u64, counter: u128, count: usize) -> impl Iterator<Item = u32> {
    (0..count as u128).flat_map(move |block| {
        let counter = counter.wrapping_add(block);
        let ([a, b], [c, d]) = (halves(counter as u64), halves((counter >> 64) as u64));
        philox([a, b, c, d], halves(key))
    })
}

/// Words for an array of 32-bit elements, or the pairs for one of 64-bit elements, in row-major order.
struct Bits {
    words: Vec<u64>,
    /// Counter after the last block.
    blocks: u64,
}

fn philox_bits(key: u64, counter: u128, count: usize, width: u32) -> Bits {
    if width == 64 {
        let blocks = count.div_ceil(2);
        let words: Vec<u32> = philox_words(key, counter, blocks).collect();
        let pairs = words.chunks_exact(2).map(|pair| join([pair[0], pair[1]]));
        return Bits { words: pairs.take(count).collect(), blocks: blocks as u64 };
    }
    let blocks = count.div_ceil(4);
    Bits { words: philox_words(key, counter, blocks).map(u64::from).take(count).collect(), blocks: blocks as u64 }
}

/// XLA splits the array in two halves along an even dimension (or the largest) and gives the two words of the
/// counter's block to neighbours along it.
fn threefry_bits(key: u64, counter: u64, dimensions: &[usize], width: u32) -> Bits {
    let count: usize = dimensions.iter().product();
    let block = |number: u64| threefry(halves(counter.wrapping_add(number)), halves(key));
    if width == 64 {
        return Bits { words: (0..count as u64).map(|number| join(block(number))).collect(), blocks: count as u64 };
    }
    // The first of the largest, if all are odd.
    let largest = || (0..dimensions.len()).rev().max_by_key(|&d| dimensions[d]);
    let Some(split) = dimensions.iter().position(|size| size % 2 == 0).or_else(largest) else {
        return Bits { words: vec![block(0)[0].into()], blocks: 1 };
    };
    let mut half = dimensions.to_vec();
    half[split] = dimensions[split].div_ceil(2);
    let strides = row_major_strides(&half);
    let mut words = Vec::with_capacity(count);
    let mut index = vec![0usize; dimensions.len()];
    while words.len() < count {
        let number: usize = index
            .iter()
            .zip(&strides)
            .enumerate()
            .map(|(d, (&i, &stride))| if d == split { i / 2 * stride } else { i * stride })
            .sum();
        words.push(block(number as u64)[index[split] % 2].into());
        advance(&mut index, dimensions);
    }
    Bits { words, blocks: half.iter().product::<usize>() as u64 }
}

/// (new state, bits) ("RngBitGenerator"). The state is a key and a counter of 64 bits, or of 128 for Philox.
pub(super) fn bit_generator(
    algorithm: RngAlgorithm,
    state: &ArrayLiteral,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let [state_shape, result] = results else {
        return Err(EvalFailure::malformed("rng-bit-generator has two results"));
    };
    if result.element_type.is_complex() || result.element_type == ElementType::Pred {
        return Err(EvalFailure::type_mismatch(result.element_type));
    }
    let words: Vec<u64> = match state.element_type() {
        ElementType::U64 => view::<u64>(state).to_vec(),
        ElementType::U32 => {
            view::<u32>(state).chunks(2).map(|pair| join([pair[0], *pair.get(1).unwrap_or(&0)])).collect()
        }
        other => return Err(EvalFailure::type_mismatch(other)),
    };
    let width = result.element_type.bit_width();
    let dimensions = sizes(&result.dimensions);
    let count: usize = dimensions.iter().product();
    let mut next = words.clone();
    let bits = match (algorithm, &words[..]) {
        (RngAlgorithm::ThreeFry, [key, counter, ..]) => {
            let bits = threefry_bits(*key, *counter, &dimensions, width);
            next[1] = counter.wrapping_add(bits.blocks);
            bits
        }
        (RngAlgorithm::Philox | RngAlgorithm::Default, [key, low, high, ..]) => {
            let counter = u128::from(*low) | u128::from(*high) << 64;
            let bits = philox_bits(*key, counter, count, width);
            let counter = counter.wrapping_add(bits.blocks.into());
            (next[1], next[2]) = (counter as u64, (counter >> 64) as u64);
            bits
        }
        // With two words of state the key is the high half of the counter too.
        (RngAlgorithm::Philox | RngAlgorithm::Default, [key, low]) => {
            let bits = philox_bits(*key, u128::from(*low) | u128::from(*key) << 64, count, width);
            next[1] = low.wrapping_add(bits.blocks);
            bits
        }
        _ => return Err(EvalFailure::malformed(format!("algorithm {algorithm} with a state of {}", state.shape()))),
    };
    let new_state = build::<u8>(state_shape, |target| {
        let bytes: Vec<u8> = match state.element_type() {
            ElementType::U32 => next.iter().flat_map(|&word| halves(word)).flat_map(u32::to_ne_bytes).collect(),
            _ => next.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        };
        target.iter_mut().zip(bytes).for_each(|(target, byte)| *target = byte);
        Ok(())
    })?;
    let bytes = result.element_type.byte_width();
    let data = build::<u8>(result, |target| {
        for (element, word) in target.chunks_mut(bytes).zip(&bits.words) {
            element.copy_from_slice(&word.to_ne_bytes()[..bytes]);
            if width < 8 && result.element_type.is_float() {
                element[0] &= (1 << width) - 1;
            } else if width < 8 {
                let value = Scalar::Signed(*word as i64);
                store(result.element_type, element, 0, value);
            }
        }
        Ok(())
    })?;
    Ok(vec![new_state, data])
}

/// State of the generator behind `rng` and `rng-get-and-update-state`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratorState {
    counter: u128,
}

impl GeneratorState {
    /// A generator whose numbers depend on the seed alone.
    pub fn with_seed(seed: u64) -> Self {
        GeneratorState { counter: u128::from(seed) << 64 }
    }

    /// `count` numbers uniform over 64 bits.
    fn draw(&mut self, count: usize) -> Vec<u64> {
        let bits = philox_bits(GENERATOR_KEY, self.counter, count, 64);
        self.counter = self.counter.wrapping_add(bits.blocks.into());
        bits.words
    }
}

/// In [0, 1), with 53 random bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// `rng`: "RngUniform" over [a, b), "RngNormal" with mean a and deviation b. The 2017 edition's RngBernoulli
/// arrives as a uniform number compared with the mean.
pub(super) fn rng(
    state: &mut GeneratorState,
    distribution: RandomDistribution,
    a: &ArrayLiteral,
    b: &ArrayLiteral,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let element_type = result.element_type;
    let count = result.element_count() as usize;
    let (a, b) = (load(a.element_type(), a.bytes(), 0), load(b.element_type(), b.bytes(), 0));
    let values: Vec<Scalar> = match distribution {
        RandomDistribution::Uniform => {
            state.draw(count).into_iter().map(|bits| uniform(bits, a, b, element_type)).collect()
        }
        RandomDistribution::Normal => {
            let bits = state.draw(count + count % 2);
            let pairs = bits.chunks_exact(2).flat_map(|pair| {
                // Box-Muller; 1 - u is never 0.
                let radius = (-2.0 * (1.0 - unit(pair[0])).ln()).sqrt();
                let (sin, cos) = (std::f64::consts::TAU * unit(pair[1])).sin_cos();
                [radius * cos, radius * sin]
            });
            pairs.map(|z| Scalar::Float(a.to_float() + b.to_float() * z)).collect()
        }
    };
    build::<u8>(result, |target| {
        values.iter().take(count).enumerate().for_each(|(index, &value)| store(element_type, target, index, value));
        Ok(())
    })
}

fn uniform(bits: u64, a: Scalar, b: Scalar, element_type: ElementType) -> Scalar {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => {
            let value = Scalar::Float(a + (b - a) * unit(bits)).rounded(element_type);
            // Rounding to a narrow type may reach b, which is outside.
            if b > a && value.to_float() >= b { Scalar::Float(a) } else { value }
        }
        (Scalar::Predicate(a), Scalar::Predicate(b)) => Scalar::Predicate(if a == b { a } else { bits & 1 == 1 }),
        (a, b) => {
            let range = b.to_bits().wrapping_sub(a.to_bits());
            let offset = match range {
                0 => 0,
                range => bits % range,
            };
            let value = a.to_bits().wrapping_add(offset);
            if element_type.is_signed_integer() { Scalar::Signed(value as i64) } else { Scalar::Unsigned(value) }
        }
    }
}

/// `rng-get-and-update-state`: the 128-bit state, low word first, which then grows by `delta`.
pub(super) fn get_and_update_state(
    state: &mut GeneratorState,
    delta: i64,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let old = state.counter;
    state.counter = old.wrapping_add_signed(delta.into());
    build::<u8>(result, |target| {
        target.iter_mut().zip(old.to_le_bytes()).for_each(|(target, byte)| *target = byte);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_random123() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(threefry([0; 2], [0; 2]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
    }

    fn generate(algorithm: RngAlgorithm, state: &[u64], shape: &ArrayShape) -> (Vec<u64>, Vec<u64>) {
        let state = ArrayLiteral::from_slice([state.len() as i64], state).unwrap();
        let results = bit_generator(algorithm, &state, &[state.shape(), shape]).unwrap();
        let count = shape.element_count() as usize;
        let values = (0..count).map(|i| load(shape.element_type, results[1].bytes(), i).to_bits()).collect();
        (view::<u64>(&results[0]).to_vec(), values)
    }

    /// Expected values are XLA:CPU's.
    #[test]
    fn bits_are_those_of_xla() {
        const STATE: [u64; 3] = [0x1234_5678_9abc_def0, 0xfedc_ba98_7654_3210, 77];
        let shape = |element_type, dimensions: &[i64]| ArrayShape::new(element_type, dimensions);
        let (state, values) = generate(RngAlgorithm::Philox, &STATE, &shape(ElementType::U32, &[3, 3]));
        assert_eq!(state, [STATE[0], STATE[1] + 3, 77]);
        assert_eq!(values[..5], [4014753730, 3910883873, 4194286446, 743886260, 3209510574]);
        let (_, values) = generate(RngAlgorithm::Philox, &STATE, &shape(ElementType::U64, &[3]));
        assert_eq!(values, [16797118337003571138, 3194967162838039406, 8958478587758722734]);
        let (state, values) = generate(RngAlgorithm::Default, &STATE[..2], &shape(ElementType::U16, &[2, 3]));
        assert_eq!(state, [STATE[0], STATE[1] + 2]);
        assert_eq!(values, [2987, 16003, 44313, 52165, 64095, 31580]);
        let (state, values) = generate(RngAlgorithm::ThreeFry, &STATE[..2], &shape(ElementType::U32, &[3, 3]));
        assert_eq!(state, [STATE[0], STATE[1] + 6]);
        assert_eq!(
            values,
            [2454742025, 1300334949, 3928822841, 2188719829, 576655657, 2537638704, 2239108488, 1181862949, 3747687101]
        );
        let (_, values) = generate(RngAlgorithm::ThreeFry, &STATE[..2], &shape(ElementType::U8, &[5]));
        assert_eq!(values, [9, 213, 101, 41, 57]);
        let (_, values) = generate(RngAlgorithm::ThreeFry, &STATE[..2], &shape(ElementType::U64, &[3]));
        assert_eq!(values, [9400480088116454409, 2476717189168728421, 10899075246672647225]);
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut state = GeneratorState::with_seed(1);
        let shape = ArrayShape::new(ElementType::F32, [20_000]);
        let (a, b) = (ArrayLiteral::scalar(2f32), ArrayLiteral::scalar(4f32));
        let moments = |array: &ArrayLiteral| {
            let values = view::<f32>(array);
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / values.len() as f32)
        };
        let (mean, variance) = moments(&rng(&mut state, RandomDistribution::Uniform, &a, &b, &shape).unwrap());
        assert!((mean - 3.0).abs() < 0.02 && (variance - 1.0 / 3.0).abs() < 0.01, "{mean} {variance}");
        let (mean, variance) = moments(&rng(&mut state, RandomDistribution::Normal, &a, &b, &shape).unwrap());
        assert!((mean - 2.0).abs() < 0.15 && (variance - 16.0).abs() < 0.6, "{mean} {variance}");
    }
}
