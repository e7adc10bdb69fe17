//! Random bits and numbers: Philox4x32-10 and Threefry2x32-20 are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"; how
//! counters are numbered over an array follows XLA. Numbers of `rng` are those of the CPU, by the same formulas.

use std::f64::consts::TAU;

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::{ComparisonDirection, RandomDistribution, RngAlgorithm};
use hlo::ops::rng::{GENERATOR_KEY, RngAttributes};
use hlo::ops::rng_bit_generator::RngBitGeneratorAttributes;
use hlo::ops::rng_get_and_update_state::RngGetAndUpdateStateAttributes;
use hlo::shape::{ArrayShape, Shape};
use indexing::ceil_div;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

pub(super) fn bits(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let RngBitGeneratorAttributes { algorithm } = instruction.attributes().ok()?;
    let state = instruction.operands[0];
    let Shape::Tuple(results) = &instruction.shape else { return None };
    let bits = results.get(1)?.as_array()?;
    let word = unsigned_type(bits.element_type.bit_width())?;
    let is_number =
        matches!(bits.element_type.class(), ElementClass::Signed | ElementClass::Unsigned | ElementClass::Float);
    let state_shape = builder.array(state);
    if !is_number || bits.is_dynamic() || bits.element_count() == 0 || state_shape.element_type != ElementType::U64 {
        return None;
    }
    let mut state = builder.elements_of(state);
    let values = match (algorithm, &mut state[..]) {
        (RngAlgorithm::Default | RngAlgorithm::Philox, [key, low]) => {
            let (values, next) = philox(builder, Key::Of(*key), [*low, *key], bits, word);
            *low = next[0];
            values
        }
        (RngAlgorithm::Default | RngAlgorithm::Philox, [key, low, high]) => {
            let (values, next) = philox(builder, Key::Of(*key), [*low, *high], bits, word);
            [*low, *high] = next;
            values
        }
        (RngAlgorithm::ThreeFry, [key, counter]) => {
            let (values, next) = threefry(builder, *key, *counter, bits, word)?;
            *counter = next;
            values
        }
        _ => return None,
    };
    let state: Vec<InstructionId> = state.into_iter().map(|word| builder.reshape(word, &[1])).collect();
    let state = builder.concatenate(&state, 0);
    let values = builder.bitcast(values, bits.element_type);
    Some(builder.tuple(&[state, values]))
}

/// Random bits of a number of 64 bits that make up a float in [0, 1).
const FLOAT_BITS: i64 = 53;

/// Numbers of a distribution. The host has the generator's counter, which it advances; the rest is a kernel.
pub(super) fn numbers(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let RngAttributes { distribution } = instruction.attributes().ok()?;
    let result = instruction.shape.as_array()?;
    let is_normal = distribution == RandomDistribution::Normal;
    let class = result.element_type.class();
    if result.is_dynamic() || class == ElementClass::Complex {
        return None;
    }
    if result.element_count() == 0 {
        return Some(builder.zeros(&instruction.shape));
    }
    // Those of a normal distribution come in pairs.
    let pairs = ceil_div(result.element_count(), 2);
    let count = if is_normal { 2 * pairs } else { result.element_count() };
    let state = RngGetAndUpdateStateAttributes { delta: pairs };
    let counter = ArrayShape::new(ElementType::U64, [2]);
    let counter = builder.add_with(OpKind::RngGetAndUpdateState, counter, &[], state, vec![]);
    let [low, high] = builder.elements_of(counter)[..] else { return None };
    let key = Key::Known(GENERATOR_KEY);
    let [a, b] = instruction.operands[..] else { return None };
    let numbers = if is_normal && class == ElementClass::Float {
        let (blocks, _) = philox_blocks(builder, key, [low, high], count, ElementType::U64);
        let &[first, second] = &blocks[..] else { return None };
        Lanes { builder, sizes: vec![count] }.normal([first, second], [a, b])
    } else {
        let words = ArrayShape::new(ElementType::U64, [count]);
        let (bits, _) = philox(builder, key, [low, high], &words, ElementType::U64);
        let mut lanes = Lanes { builder, sizes: vec![count] };
        match class {
            ElementClass::Float => lanes.uniform(bits, [a, b]),
            ElementClass::Predicate => lanes.predicates(bits, [a, b]),
            _ => lanes.integers(bits, [a, b]),
        }
    };
    let numbers = builder.slice(numbers, 0, 0, result.element_count());
    Some(builder.reshape(numbers, &result.dimensions))
}

/// The unsigned type of a width.
fn unsigned_type(width: u32) -> Option<ElementType> {
    use ElementType::{U2, U4, U8, U16, U32, U64};
    [U2, U4, U8, U16, U32, U64].into_iter().find(|element_type| element_type.bit_width() == width)
}

/// A key of Philox.
#[derive(Clone, Copy)]
enum Key {
    /// A number: those of all rounds are constants.
    Known(u64),
    Of(InstructionId),
}

/// By which the halves of a key grow from round to round of Philox.
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Arithmetic on arrays of one size.
struct Lanes<'b> {
    builder: &'b mut GraphBuilder,
    sizes: Vec<i64>,
}

impl Lanes<'_> {
    fn constant(&mut self, element_type: ElementType, value: i64) -> InstructionId {
        let shape = ArrayShape::new(element_type, self.sizes.clone());
        self.builder.filled(&shape, ConstantNumber::Integer(value))
    }

    fn all(&mut self, scalar: InstructionId) -> InstructionId {
        let sizes = self.sizes.clone();
        self.builder.broadcast(scalar, &sizes, &[])
    }

    fn add(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.builder.binary(OpKind::Add, a, b)
    }

    fn xor(&mut self, a: InstructionId, b: InstructionId) -> InstructionId {
        self.builder.binary(OpKind::Xor, a, b)
    }

    fn shifted(&mut self, kind: OpKind, value: InstructionId, bits: i64) -> InstructionId {
        let bits = self.constant(self.builder.element_type(value), bits);
        self.builder.binary(kind, value, bits)
    }

    /// The lower and the upper half of numbers of 64 bits.
    fn halves(&mut self, value: InstructionId) -> [InstructionId; 2] {
        let low = self.constant(ElementType::U64, 0xFFFF_FFFF);
        let low = self.builder.binary(OpKind::And, value, low);
        let high = self.shifted(OpKind::ShiftRightLogical, value, 32);
        [low, high].map(|half| self.builder.convert(half, ElementType::U32))
    }

    fn joined(&mut self, [low, high]: [InstructionId; 2]) -> InstructionId {
        let [low, high] = [low, high].map(|half| self.builder.convert(half, ElementType::U64));
        let high = self.shifted(OpKind::ShiftLeft, high, 32);
        self.builder.binary(OpKind::Or, low, high)
    }

    /// Which element of its block each one is.
    fn place_in_block(&mut self, values_of_block: i64) -> InstructionId {
        let number = self.builder.iota(ElementType::U64, &self.sizes, 0);
        let last = self.constant(ElementType::U64, values_of_block - 1);
        self.builder.binary(OpKind::And, number, last)
    }

    /// The keys of Philox's rounds.
    fn round_keys(&mut self, key: Key) -> Vec<[InstructionId; 2]> {
        let rounds = 0..10u32;
        let key = match key {
            Key::Known(key) => {
                let halves = [key as u32, (key >> 32) as u32];
                let of_round = |round: u32| {
                    [0, 1].map(|number| halves[number].wrapping_add(KEY_STEPS[number].wrapping_mul(round)))
                };
                return rounds
                    .map(|round| of_round(round).map(|half| self.constant(ElementType::U32, half.into())))
                    .collect();
            }
            Key::Of(key) => key,
        };
        let steps = KEY_STEPS.map(|step| self.constant(ElementType::U32, step.into()));
        let mut last = scalars(self.builder).halves(key).map(|half| self.all(half));
        let mut keys = vec![last];
        for _ in rounds.skip(1) {
            last = [0, 1].map(|number| self.add(last[number], steps[number]));
            keys.push(last);
        }
        keys
    }

    /// A counter of 128 bits, and as many more as 64 bits say.
    fn advanced(&mut self, [low, high]: [InstructionId; 2], by: InstructionId) -> [InstructionId; 2] {
        let sum = self.add(low, by);
        let carry = self.builder.compare(ComparisonDirection::Lt, sum, low);
        let carry = self.builder.convert(carry, ElementType::U64);
        [sum, self.add(high, carry)]
    }

    /// Words of 32 bits as numbers of a type that is no wider: their lowest bits.
    fn narrowed(&mut self, value: InstructionId, element_type: ElementType) -> InstructionId {
        let width = element_type.bit_width();
        if width >= 32 {
            return value;
        }
        let lowest = self.constant(ElementType::U32, (1 << width) - 1);
        let value = self.builder.binary(OpKind::And, value, lowest);
        self.builder.convert(value, element_type)
    }
}

/// What bits of 64 bits make, given a distribution's bounds, or its mean and deviation.
impl Lanes<'_> {
    fn float(&mut self, value: f64) -> InstructionId {
        let shape = ArrayShape::new(ElementType::F64, self.sizes.clone());
        self.builder.filled(&shape, ConstantNumber::Float(value))
    }

    /// In [0, 1).
    fn unit(&mut self, bits: InstructionId) -> InstructionId {
        let bits = self.shifted(OpKind::ShiftRightLogical, bits, 64 - FLOAT_BITS);
        let bits = self.builder.convert(bits, ElementType::F64);
        let scale = self.float((-FLOAT_BITS as f64).exp2());
        self.builder.binary(OpKind::Multiply, bits, scale)
    }

    /// Scalars as `f64`, for each number.
    fn wide(&mut self, scalars: [InstructionId; 2]) -> [InstructionId; 2] {
        scalars.map(|scalar| {
            let wide = self.builder.convert(scalar, ElementType::F64);
            self.all(wide)
        })
    }

    fn uniform(&mut self, bits: InstructionId, bounds: [InstructionId; 2]) -> InstructionId {
        let element_type = self.builder.element_type(bounds[0]);
        let [low, high] = self.wide(bounds);
        let unit = self.unit(bits);
        let range = self.builder.binary(OpKind::Subtract, high, low);
        let above = self.builder.binary(OpKind::Multiply, range, unit);
        let value = self.add(low, above);
        let value = self.builder.convert(value, element_type);
        // Rounding may reach the upper bound, which is outside.
        let rounded = self.builder.convert(value, ElementType::F64);
        let is_reached = self.builder.compare(ComparisonDirection::Ge, rounded, high);
        let is_range = self.builder.compare(ComparisonDirection::Gt, high, low);
        let is_outside = self.builder.binary(OpKind::And, is_reached, is_range);
        let first = self.all(bounds[0]);
        self.builder.select(is_outside, first, value)
    }

    /// Box-Muller: two numbers of two. Each element computes what both have in common, so that nothing goes through memory.
    fn normal(&mut self, words: [InstructionId; 2], bounds: [InstructionId; 2]) -> InstructionId {
        let element_type = self.builder.element_type(bounds[0]);
        let [first, second] = words.map(|bits| self.unit(bits));
        let [one, minus_two, turn] = [1.0, -2.0, TAU].map(|number| self.float(number));
        // 1 - u is never 0.
        let rest = self.builder.binary(OpKind::Subtract, one, first);
        let logarithm = self.builder.unary(OpKind::Log, rest);
        let square = self.builder.binary(OpKind::Multiply, minus_two, logarithm);
        let radius = self.builder.unary(OpKind::Sqrt, square);
        let angle = self.builder.binary(OpKind::Multiply, turn, second);
        let [cosine, sine] = [OpKind::Cosine, OpKind::Sine].map(|kind| self.builder.unary(kind, angle));
        let place = self.place_in_block(2);
        let zero = self.constant(ElementType::U64, 0);
        let is_first = self.builder.compare(ComparisonDirection::Eq, place, zero);
        let part = self.builder.select(is_first, cosine, sine);
        let own = self.builder.binary(OpKind::Multiply, radius, part);
        let [mean, deviation] = self.wide(bounds);
        let scaled = self.builder.binary(OpKind::Multiply, deviation, own);
        let value = self.add(mean, scaled);
        self.builder.convert(value, element_type)
    }

    fn integers(&mut self, bits: InstructionId, bounds: [InstructionId; 2]) -> InstructionId {
        let element_type = self.builder.element_type(bounds[0]);
        let [low, high] = bounds.map(|bound| self.builder.convert(bound, ElementType::U64));
        let range = self.builder.binary(OpKind::Subtract, high, low);
        let [low, range] = [low, range].map(|scalar| self.all(scalar));
        let rest = self.builder.binary(OpKind::Remainder, bits, range);
        let nothing = self.constant(ElementType::U64, 0);
        let is_empty = self.builder.compare(ComparisonDirection::Eq, range, nothing);
        let above = self.builder.select(is_empty, nothing, rest);
        let value = self.add(low, above);
        self.builder.convert(value, element_type)
    }

    /// Both are equally likely, unless the bounds are equal.
    fn predicates(&mut self, bits: InstructionId, [a, b]: [InstructionId; 2]) -> InstructionId {
        let one = self.constant(ElementType::U64, 1);
        let lowest = self.builder.binary(OpKind::And, bits, one);
        let value = self.builder.compare(ComparisonDirection::Eq, lowest, one);
        let are_equal = self.builder.compare(ComparisonDirection::Eq, a, b);
        let [a, are_equal] = [a, are_equal].map(|scalar| self.all(scalar));
        self.builder.select(are_equal, a, value)
    }
}

/// A scalar as arrays of no dimensions are.
fn scalars(builder: &mut GraphBuilder) -> Lanes<'_> {
    Lanes { builder, sizes: Vec::new() }
}

/// The bits that follow from a key and a counter, and the next counter.
fn philox(
    builder: &mut GraphBuilder,
    key: Key,
    counter: [InstructionId; 2],
    bits: &ArrayShape,
    word: ElementType,
) -> (InstructionId, [InstructionId; 2]) {
    let count = bits.element_count();
    let (parts, next) = philox_blocks(builder, key, counter, count, word);
    let mut lanes = Lanes { builder, sizes: vec![count] };
    let place = lanes.place_in_block(parts.len() as i64);
    let mut values = parts[0];
    for (&part, own) in parts[1..].iter().zip(1..) {
        let own = lanes.constant(ElementType::U64, own);
        let is_own = lanes.builder.compare(ComparisonDirection::Eq, place, own);
        values = lanes.builder.select(is_own, part, values);
    }
    let values = lanes.narrowed(values, word);
    (builder.reshape(values, &bits.dimensions), next)
}

/// All words of the block that each of so many elements has one of, and the next counter.
fn philox_blocks(
    builder: &mut GraphBuilder,
    key: Key,
    counter: [InstructionId; 2],
    count: i64,
    word: ElementType,
) -> (Vec<InstructionId>, [InstructionId; 2]) {
    let values_of_block = if word == ElementType::U64 { 2 } else { 4 };
    let blocks = ceil_div(count, values_of_block);
    let mut own = scalars(builder);
    let used = own.constant(ElementType::U64, blocks);
    let next = own.advanced(counter, used);
    // Every element computes its whole block, and takes what is its own: nothing goes through memory.
    let number = own.builder.iota(ElementType::U64, &[count], 0);
    let mut lanes = Lanes { builder, sizes: vec![count] };
    let counter = counter.map(|half| lanes.all(half));
    let block = lanes.shifted(OpKind::ShiftRightLogical, number, values_of_block.ilog2().into());
    let [low, high] = lanes.advanced(counter, block);
    let ([a, b], [c, d]) = (lanes.halves(low), lanes.halves(high));
    let mut words = [a, b, c, d];
    let factors = [0xD251_1F53, 0xCD9E_8D57].map(|factor| lanes.constant(ElementType::U64, factor));
    for keys in lanes.round_keys(key) {
        let [first, second] = [0, 1].map(|number| {
            let wide = lanes.builder.convert(words[2 * number], ElementType::U64);
            let product = lanes.builder.binary(OpKind::Multiply, wide, factors[number]);
            lanes.halves(product)
        });
        let [a, c] = [(second[1], words[1], keys[0]), (first[1], words[3], keys[1])].map(|(high, word, key)| {
            let mixed = lanes.xor(high, word);
            lanes.xor(mixed, key)
        });
        words = [a, second[0], c, first[0]];
    }
    let parts = match word {
        ElementType::U64 => words.chunks(2).map(|pair| lanes.joined([pair[0], pair[1]])).collect(),
        _ => words.to_vec(),
    };
    (parts, next)
}

/// As [`philox`], with a counter of 64 bits. Elements of 64 bits take a block each; of smaller ones, neighbours along the first even
/// dimension (or the first of the largest) share a block.
fn threefry(
    builder: &mut GraphBuilder,
    key: InstructionId,
    counter: InstructionId,
    bits: &ArrayShape,
    word: ElementType,
) -> Option<(InstructionId, InstructionId)> {
    let sizes = &bits.dimensions;
    let largest = || (0..sizes.len()).rev().max_by_key(|&d| sizes[d]);
    let split = sizes.iter().position(|size| size % 2 == 0).or_else(largest);
    let split = split.filter(|_| word != ElementType::U64);
    let mut halved = sizes.clone();
    if let Some(split) = split {
        halved[split] = ceil_div(sizes[split], 2);
    }
    let blocks = halved.iter().product::<i64>();
    let mut own = scalars(builder);
    let used = own.constant(ElementType::U64, blocks);
    let next = own.add(counter, used);
    let [low, high] = own.halves(key);
    let parity = own.constant(ElementType::U32, 0x1BD1_1BDA);
    let both = own.xor(low, high);
    let keys = [low, high, own.xor(both, parity)];
    let number = own.builder.iota(ElementType::U64, &[blocks], 0);
    let mut lanes = Lanes { builder, sizes: vec![blocks] };
    let keys = keys.map(|key| lanes.all(key));
    let counter = lanes.all(counter);
    let number = lanes.add(counter, number);
    let [x, y] = lanes.halves(number);
    let (mut x, mut y) = (lanes.add(x, keys[0]), lanes.add(y, keys[1]));
    for group in 0..5 {
        for rotation in [[13, 15, 26, 6], [17, 29, 16, 24]][group % 2] {
            x = lanes.add(x, y);
            let up = lanes.shifted(OpKind::ShiftLeft, y, rotation);
            let down = lanes.shifted(OpKind::ShiftRightLogical, y, 32 - rotation);
            let rotated = lanes.builder.binary(OpKind::Or, up, down);
            y = lanes.xor(x, rotated);
        }
        x = lanes.add(x, keys[(group + 1) % 3]);
        y = lanes.add(y, keys[(group + 2) % 3]);
        let number = lanes.constant(ElementType::U32, group as i64 + 1);
        y = lanes.add(y, number);
    }
    let Some(split) = split else {
        let values = if word == ElementType::U64 { lanes.joined([x, y]) } else { lanes.narrowed(x, word) };
        return Some((builder.reshape(values, sizes), next));
    };
    let parts = [x, y].map(|part| lanes.narrowed(part, word));
    let mut pairs = halved.clone();
    pairs.insert(split + 1, 1);
    let parts = parts.map(|part| builder.reshape(part, &pairs));
    let values = builder.concatenate(&parts, split + 1);
    let mut doubled = halved;
    doubled[split] *= 2;
    let values = builder.reshape(values, &doubled);
    Some((builder.slice(values, split, 0, sizes[split]), next))
}
