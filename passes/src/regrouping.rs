//! Whether a computation may combine elements in another grouping, or another order, than one after the other. The specification lets a
//! compiler take that for granted of reductions; programs do not always keep to it (`0.9 * sum + x`, choices with NaN), so it is tried on numbers,
//! the same in every compilation: floats as `f64`, where what is associative but for rounding shows; where some are of fewer than 32 bits, whose
//! rounding counts, as what they are.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use evaluator::{Environment, evaluate_instruction};
use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, InstructionId};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::scalar::{Scalar, load, store};
use hlo::shape::ArrayShape;
use num_complex::Complex64;

use crate::graph_builder::GraphBuilder;
use crate::lifted::{Precision, lift};

/// Samples of each element: half of them ordinary numbers, half of them where computations bend.
const SAMPLES: usize = 512;

/// How far apart results may be, as a part of the larger one: less than what fewer bits than those of `f64` round.
const TOLERANCE: f64 = 1e-9;

/// How far apart a number may be from what it becomes, if a thousand times changes no more than rounding does.
const UNCHANGED: f64 = 1e-15;

/// Constants of a computation near which it is tried, at most.
const MOST_CONSTANTS: usize = 8;

/// Instructions of a computation that is tried, at most.
const MOST_INSTRUCTIONS: usize = 256;

/// Computations whose regrouping is remembered, at most.
const MOST_KNOWN: usize = 1024;

/// A computation's structure, and what it begins with: types and bytes.
type Question = (String, Option<Vec<(ElementType, Vec<u8>)>>);

/// What computations were found to allow: programs have the same ones many times, and each is asked about by several passes.
static KNOWN: LazyLock<Mutex<HashMap<Question, Option<Regrouping>>>> = LazyLock::new(Mutex::default);

/// Floats to try, among them some that are equal, cancel each other in no sum of three, and are no numbers.
const FLOATS: [f64; 16] = [
    0.5,
    1.25,
    -0.75,
    2.0,
    -3.5,
    0.3,
    1.0,
    -1.1,
    7.7,
    0.0,
    41.3,
    -17.9,
    0.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// Whole numbers to try, cut to the bits of their type.
const INTEGERS: [i64; 16] =
    [0, 1, -1, 2, 3, 5, -7, 12, 100, -100, 1, 77, i64::MAX, i64::MIN, 0x5555_5555_5555_5555, 127];

/// Floats to try beside the constants of a computation: products of three and their sums are exact.
const FLOATS_TO_BEND: [f64; 6] = [0.0, 1.0, -2.5, 1000.0, -77.0, 16384.0];

/// How elements may be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regrouping {
    /// Whether in any order; otherwise only neighbours may be combined.
    pub commutes: bool,
    /// What the values to begin with are.
    pub initial: Initial,
}

/// Where values to begin with may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Initial {
    /// Only before all that is combined.
    First,
    /// Before each part of it too.
    BeforeParts,
    /// Anywhere: they change nothing.
    Identity,
}

impl Regrouping {
    /// That of a computation with these values to begin with, where they are known; `None` if its order matters.
    pub fn of(computation: &Computation, initial: Option<&[Literal]>) -> Option<Self> {
        if computation.instructions.len() > MOST_INSTRUCTIONS {
            return None;
        }
        let value = |literal: &Literal| literal.as_array().map(|own| (own.element_type(), own.bytes().to_vec()));
        let values = initial.map(|initial| initial.iter().filter_map(value).collect());
        let question = (computation.structure(), values);
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&regrouping) = known().get(&question) {
            return regrouping;
        }
        let regrouping = Regrouping::tried(computation, initial);
        let mut known = known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(question, regrouping);
        regrouping
    }

    /// That of a computation, found by samples.
    fn tried(computation: &Computation, initial: Option<&[Literal]>) -> Option<Self> {
        let count = computation.parameters.len() / 2;
        let types: Vec<ElementType> = computation.parameters[..count]
            .iter()
            .map(|&id| Some(computation.get(id).shape.as_array().filter(|shape| shape.rank() == 0)?.element_type))
            .collect::<Option<_>>()?;
        if types.is_empty() {
            return None;
        }
        let is_coarse = |own: &ElementType| own.class() == ElementClass::Float && own.bit_width() < 32;
        let precision = if types.iter().any(is_coarse) { Precision::Own } else { Precision::Widest };
        let constants = constants_of(computation);
        let draw = |number, place, own: ElementType| drawn(precision.of(own), own, &constants, (number, place));
        let samples = |number: usize| types.iter().enumerate().map(move |(place, &own)| draw(number, place, own));
        let [a, b, c] = [0, 1, 2].map(|number| samples(number).collect::<Option<Vec<Literal>>>());
        let (a, b, c) = (a?, b?, c?);
        let combine = |left: &[Literal], right: &[Literal]| combined((computation, precision), left, right);
        let a_and_b = combine(&a, &b)?;
        let from_left = combine(&a_and_b, &c)?;
        let from_right = combine(&a, &combine(&b, &c)?)?;
        if !are_alike(&from_left, &from_right) {
            return None;
        }
        let commutes = are_alike(&a_and_b, &combine(&b, &a)?);
        let initial = initial
            .and_then(|initial| initial.iter().map(|value| repeated(value, precision)).collect::<Option<Vec<_>>>());
        let initial = match initial {
            None => Initial::First,
            Some(initial) if keeps(&combine(&initial, &a)?, &a) && keeps(&combine(&a, &initial)?, &a) => {
                Initial::Identity
            }
            Some(initial) => {
                let [first, second] = [combine(&initial, &a)?, combine(&initial, &b)?];
                let once = combine(&initial, &a_and_b)?;
                let is_twice_as_once = keeps(&combine(&initial, &first)?, &first);
                let is_of_parts = is_twice_as_once && are_alike(&combine(&first, &second)?, &once);
                if is_of_parts { Initial::BeforeParts } else { Initial::First }
            }
        };
        Some(Regrouping { commutes, initial })
    }
}

/// The constants that instructions are, if all of them are some.
pub fn constants<'a>(
    ids: &[InstructionId],
    get: impl Fn(InstructionId) -> &'a hlo::graph::Instruction,
) -> Option<Vec<Literal>> {
    ids.iter().map(|&id| get(id).literal().cloned()).collect()
}

/// The numbers that constants of a computation are.
fn constants_of(computation: &Computation) -> Vec<Scalar> {
    let constants = computation.instructions.iter().filter_map(|instruction| instruction.literal()?.as_array());
    let numbers =
        constants.filter(|array| array.shape().rank() == 0).map(|array| load(array.element_type(), array.bytes(), 0));
    numbers.take(MOST_CONSTANTS).collect()
}

/// Whole numbers of a type near its ends and near constants: where sums stop, begin anew or are left out.
fn integers_to_bend(own: ElementType, constants: &[Scalar]) -> Vec<i64> {
    let largest = i64::MAX >> (64 - own.bit_width().clamp(1, 64));
    let ends = [0, 1, -1, largest, largest - 1, largest / 2, -largest, -largest - 1];
    let near = constants.iter().flat_map(|constant| {
        let constant = match *constant {
            Scalar::Predicate(value) => value.into(),
            Scalar::Signed(value) => value,
            Scalar::Unsigned(value) => value as i64,
            Scalar::Float(value) => value as i64,
            Scalar::Complex(value) => value.re as i64,
        };
        [0, -1, 1].map(|distance: i64| constant.wrapping_add(distance)).into_iter().chain([
            constant / 2,
            constant.wrapping_mul(2),
            constant.wrapping_neg(),
        ])
    });
    ends.into_iter().chain(near).collect()
}

/// As [`integers_to_bend`], of floats.
fn floats_to_bend(constants: &[Scalar]) -> Vec<f64> {
    let near = constants
        .iter()
        .map(|constant| constant.to_complex().re)
        .flat_map(|constant| [constant, constant - 1.0, constant + 1.0, constant / 2.0, 2.0 * constant, -constant]);
    FLOATS_TO_BEND.into_iter().chain(near).collect()
}

/// Samples of a type, the same for the same number and place; `own` is the type before it is widened.
fn drawn(
    element_type: ElementType,
    own: ElementType,
    constants: &[Scalar],
    (number, place): (usize, usize),
) -> Option<Literal> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul((1 + number + 3 * place) as u64);
    let mut next = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 48) as usize
    };
    let (integers, floats) = (integers_to_bend(own, constants), floats_to_bend(constants));
    let values = (0..SAMPLES).map(|sample| {
        let bends = sample >= SAMPLES / 2;
        let (integers, floats) = if bends { (&integers[..], &floats[..]) } else { (&INTEGERS[..], &FLOATS[..]) };
        let mut integer = || integers[next() % integers.len()];
        match element_type.class() {
            ElementClass::Predicate => Scalar::Predicate(integer() % 2 == 0),
            ElementClass::Signed => Scalar::Signed(integer()),
            ElementClass::Unsigned => Scalar::Unsigned(integer() as u64),
            ElementClass::Float => Scalar::Float(floats[next() % floats.len()]),
            ElementClass::Complex => {
                let mut part = || floats[next() % floats.len()];
                Scalar::Complex(Complex64::new(part(), part()))
            }
        }
    });
    filled(element_type, values)
}

/// One value as often as there are samples.
fn repeated(value: &Literal, precision: Precision) -> Option<Literal> {
    let array = value.as_array().filter(|array| array.shape().rank() == 0)?;
    let scalar = load(array.element_type(), array.bytes(), 0);
    filled(precision.of(array.element_type()), std::iter::repeat(scalar))
}

fn filled(element_type: ElementType, values: impl Iterator<Item = Scalar>) -> Option<Literal> {
    let shape = ArrayShape::new(element_type, [SAMPLES as i64]);
    let mut bytes = vec![0; shape.byte_size()];
    values.take(SAMPLES).enumerate().for_each(|(place, value)| store(element_type, &mut bytes, place, value));
    ArrayLiteral::from_bytes(shape, &bytes).ok().map(Literal::Array)
}

/// What a computation makes of each pair of samples.
fn combined(
    (computation, precision): (&Computation, Precision),
    left: &[Literal],
    right: &[Literal],
) -> Option<Vec<Literal>> {
    let mut builder = GraphBuilder::new("samples");
    let arguments: Vec<&Literal> = left.iter().chain(right).collect();
    let parameters: Vec<InstructionId> =
        (0..).zip(&arguments).map(|(number, argument)| builder.parameter(number, argument.shape())).collect();
    let results = lift(&mut builder, computation, &parameters, (&[SAMPLES as i64], precision))?;
    let mut environment = Environment::new();
    let mut values: Vec<Literal> = Vec::new();
    for instruction in builder.into_instructions().ok()? {
        let value = match instruction.parameter_number() {
            Some(number) => (*arguments.get(number)?).clone(),
            None => {
                let operands: Vec<Literal> =
                    instruction.operands.iter().map(|operand| values[operand.index()].clone()).collect();
                evaluate_instruction(None, &instruction, &operands, &mut environment).ok()?
            }
        };
        values.push(value);
    }
    results.iter().map(|result| values.get(result.index()).cloned()).collect()
}

/// The numbers of one result beside those of the other one.
fn pairs<'l>(one: &'l [Literal], other: &'l [Literal]) -> impl Iterator<Item = (Scalar, Scalar)> + 'l {
    let arrays = one.iter().zip(other).filter_map(|(one, other)| Some((one.as_array()?, other.as_array()?)));
    arrays.flat_map(|(one, other)| {
        let number = |array: &ArrayLiteral, place| load(array.element_type(), array.bytes(), place);
        (0..SAMPLES).map(move |place| (number(one, place), number(other, place)))
    })
}

/// Whether two numbers are the same up to a part of the larger one.
fn are_near(one: Scalar, other: Scalar, tolerance: f64) -> bool {
    match (one, other) {
        (Scalar::Float(_) | Scalar::Complex(_), _) => {
            let (one, other) = (one.to_complex(), other.to_complex());
            (one - other).norm() <= tolerance * one.norm().max(other.norm())
        }
        _ => one == other,
    }
}

fn is_number(value: Scalar) -> bool {
    !matches!(value, Scalar::Float(_) | Scalar::Complex(_)) || value.to_complex().is_finite()
}

/// Whether results are the same but for rounding wherever both are numbers, as they must be here and there.
fn are_alike(one: &[Literal], other: &[Literal]) -> bool {
    are_within(one, other, TOLERANCE)
}

fn are_within(one: &[Literal], other: &[Literal], tolerance: f64) -> bool {
    let numbers = || pairs(one, other).filter(|&(one, other)| is_number(one) && is_number(other));
    16 * numbers().count() >= one.len() * SAMPLES && numbers().all(|(one, other)| are_near(one, other, tolerance))
}

/// Whether results are what they were made of; beside what is no number, they may be none either.
fn keeps(results: &[Literal], samples: &[Literal]) -> bool {
    let stays = |(result, sample)| is_number(sample) || !is_number(result);
    are_within(results, samples, UNCHANGED) && pairs(results, samples).all(stays)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a computation of HLO text may be regrouped, which begins with zeros or with `initial`.
    fn regrouping(text: &str, initial: &[f32]) -> Option<Regrouping> {
        let module = hlo::text::read(&format!("HloModule m\n\nENTRY {text}")).expect("a computation");
        let initial: Vec<Literal> = initial.iter().map(|&value| Literal::scalar(value)).collect();
        Regrouping::of(module.entry(), Some(&initial))
    }

    const ORDERED: Option<Regrouping> = Some(Regrouping { commutes: false, initial: Initial::Identity });
    const ANY: Option<Regrouping> = Some(Regrouping { commutes: true, initial: Initial::Identity });

    #[test]
    fn what_is_associative() {
        let sums = "c { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) \
             x = f32[] add(a, c) y = f32[] add(b, d) ROOT t = (f32[], f32[]) tuple(x, y) }";
        assert_eq!(regrouping(sums, &[0.0, 0.0]), ANY);
        assert_eq!(regrouping(sums, &[0.0, 1.0]), Some(Regrouping { commutes: true, initial: Initial::First }));
        let maps = "c { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3) \
             x = f32[] multiply(a, c) z = f32[] multiply(b, c) y = f32[] add(z, d) ROOT t = (f32[], f32[]) tuple(x, y) }";
        assert_eq!(regrouping(maps, &[1.0, 0.0]), ORDERED);
        let logarithms = "c { a = f32[] parameter(0) b = f32[] parameter(1) m = f32[] maximum(a, b) l = f32[] minimum(a, b) \
             d = f32[] subtract(l, m) e = f32[] exponential(d) f = f32[] log-plus-one(e) z = pred[] compare(a, b), direction=EQ \
             g = f32[] constant(0.6931471805599453) h = f32[] select(z, g, f) i = f32[] add(m, f) ROOT r = f32[] add(m, f) }";
        assert_eq!(regrouping(logarithms, &[f32::NEG_INFINITY]).map(|own| own.commutes), Some(true));
    }

    #[test]
    fn what_is_not() {
        for body in ["subtract(a, b)", "add(a, square)", "multiply(half, total)", "power(a, b)"] {
            let text = format!(
                "c {{ a = f32[] parameter(0) b = f32[] parameter(1) n = f32[] constant(0.99999) square = f32[] multiply(b, b) \
                 half = f32[] copy(n) total = f32[] add(a, b) ROOT r = f32[] {body} }}"
            );
            assert_eq!(regrouping(&text, &[0.0]), None, "{body}");
        }
        // What stops at the ends of its type, at a limit, at a marker, or leaves one number out.
        let saturates = "c { a = s32[] parameter(0) b = s32[] parameter(1) c = s64[] convert(a) d = s64[] convert(b) e = s64[] add(c, d) \
             l = s64[] constant(-2147483648) h = s64[] constant(2147483647) m = s64[] clamp(l, e, h) ROOT r = s32[] convert(m) }";
        assert_eq!(regrouping(saturates, &[]), None);
        for (condition, otherwise) in [("EQ", "a"), ("EQ", "zero"), ("GT", "a")] {
            for (own, limit) in [("f32", "-1"), ("f32", "1000"), ("s32", "9"), ("s16", "-5")] {
                let seen = if condition == "GT" { "a" } else { "b" };
                let text = format!(
                    "c {{ a = {own}[] parameter(0) b = {own}[] parameter(1) n = {own}[] constant({limit}) zero = {own}[] constant(0) \
                     c = pred[] compare({seen}, n), direction={condition} s = {own}[] add(a, b) \
                     ROOT r = {own}[] select(c, {otherwise}, s) }}"
                );
                assert_eq!(regrouping(&text, &[]), None, "{text}");
            }
        }
        let angles = "c { a = f32[] parameter(0) b = f32[] parameter(1) n = f32[] constant(360) s = f32[] add(a, b) \
             ROOT r = f32[] remainder(s, n) }";
        assert_eq!(regrouping(angles, &[]), None);
        // With NaN, a choice by a comparison of floats is no order.
        let choice = "c { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3) \
             f = pred[] compare(a, b), direction=GE x = f32[] select(f, a, b) y = s32[] select(f, i, j) \
             ROOT t = (f32[], s32[]) tuple(x, y) }";
        assert_eq!(regrouping(choice, &[]), None);
    }
}
