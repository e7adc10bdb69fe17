//! Operands of the cases, and what counts as agreement.

use evaluator::{Environment, evaluate_instruction};
use hlo::attributes::Attributes;
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;

use super::cases::Case;

/// A pseudo-random number of a position (splitmix64).
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Values where floats change their ways.
const SPECIAL: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.0,
    -2.0,
    2.5,
    -2.5,
    3.0,
    -3.0,
    7.0,
    0.1,
    -0.1,
    1e-3,
    1e-8,
    -1e-8,
    1e-30,
    127.0,
    128.5,
    -128.7,
    255.5,
    32767.5,
    65520.0,
    2147483648.0,
    -2147483648.0,
    4294967296.0,
    1e10,
    -1e10,
    9.223372036854776e18,
    1.8446744073709552e19,
    1e30,
    88.5,
    -88.0,
    100.0,
    -104.0,
    709.0,
    1e-40,
    -1e-45,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN_POSITIVE,
    0.9999999,
    1.0000001,
    std::f64::consts::PI,
    1e5,
];

/// Exponent and mantissa bits of a float type with a sign.
fn format(element_type: ElementType) -> (u32, u32) {
    match element_type {
        ElementType::F4E2M1FN => (2, 1),
        ElementType::F8E3M4 => (3, 4),
        ElementType::F8E5M2 | ElementType::F8E5M2FNUZ => (5, 2),
        ElementType::F8E8M0FNU => (8, 0),
        ElementType::BF16 => (8, 7),
        ElementType::F16 => (5, 10),
        ElementType::F32 | ElementType::C64 => (8, 23),
        ElementType::F64 | ElementType::C128 => (11, 52),
        _ => (4, 3),
    }
}

fn special_codes(element_type: ElementType) -> Vec<u64> {
    let width = element_type.bit_width();
    if element_type.is_float() {
        let shape = [SPECIAL.len() as i64];
        let values = ArrayLiteral::from_slice(shape, SPECIAL).expect("the right size");
        let converted = convert(&values, element_type);
        return converted.bytes().chunks(element_type.byte_width()).map(code_of).collect();
    }
    let limit = 1u64 << (width - 1);
    let small = [0u64, 1, 2, 3, 5, 7, u64::MAX, u64::MAX - 1, u64::MAX - 6];
    let mut codes: Vec<u64> =
        small.into_iter().chain([limit, limit - 1, limit + 1, 10, 33, 63, 64, 1 << (width / 2)]).collect();
    codes.iter_mut().for_each(|code| *code &= u64::MAX >> (64 - width));
    codes
}

fn code_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |code, &byte| code << 8 | u64::from(byte))
}

/// The evaluator's conversion of an array.
pub fn convert(values: &ArrayLiteral, to: ElementType) -> ArrayLiteral {
    evaluate(OpKind::Convert, &[values], to)
}

/// The evaluator's operation on two arrays of one type.
pub fn binary(kind: OpKind, a: &ArrayLiteral, b: &ArrayLiteral) -> ArrayLiteral {
    evaluate(kind, &[a, b], a.element_type())
}

fn evaluate(kind: OpKind, operands: &[&ArrayLiteral], result: ElementType) -> ArrayLiteral {
    let types = operands.iter().map(|operand| operand.element_type()).collect();
    let case = Case { kind, attributes: Attributes::new(), operands: types, result };
    let instruction = case.instruction(operands[0].shape().element_count() as usize);
    let operands: Vec<Literal> = operands.iter().map(|&operand| Literal::Array(operand.clone())).collect();
    let result = evaluate_instruction(None, &instruction, &operands, &mut Environment::new());
    result.expect("an operation on arrays").as_array().expect("an array").clone()
}

/// A random code: any bits, or (floats, every other time) a number of moderate size.
fn random_code(element_type: ElementType, seed: u64) -> u64 {
    let bits = random(seed);
    let (exponent_bits, mantissa_bits) = format(element_type);
    if !element_type.is_float() || element_type.bit_width() < 16 || bits & 1 == 0 {
        return random(seed ^ 0x5555) & (u64::MAX >> (64 - element_type.bit_width()));
    }
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    let exponent = bias - 8 + (bits >> 1) % 14;
    let mantissa = random(seed ^ 0xaaaa) & ((1 << mantissa_bits) - 1);
    let sign = (bits >> 20 & 1) << (exponent_bits + mantissa_bits);
    sign | exponent << mantissa_bits | mantissa
}

/// The bytes of operand `position`: pairs of special values, then random ones.
pub fn operand_bytes(element_type: ElementType, position: usize, count: usize) -> Vec<u8> {
    if element_type.is_complex() {
        let real = element_type.real_part();
        let parts = (operand_bytes(real, 2 * position, count), operand_bytes(real, 2 * position + 1, count));
        let width = real.byte_width();
        return parts.0.chunks(width).zip(parts.1.chunks(width)).flat_map(|(re, im)| [re, im].concat()).collect();
    }
    let width = element_type.bit_width();
    let special = if width >= 16 { special_codes(element_type) } else { Vec::new() };
    let mut bytes = Vec::new();
    for element in 0..count {
        let seed = (position * count + element) as u64;
        let code = match (element_type, special.len()) {
            (ElementType::Pred, _) => random(seed) & 1,
            (_, 0) if position == 0 => element as u64 & ((1 << width) - 1),
            (_, 0) => random(seed) & ((1 << width) - 1),
            (_, length) if element < length * length => match position {
                0 => special[element % length],
                1 => special[element / length],
                _ => special[(element * 7 + position) % length],
            },
            _ => random_code(element_type, seed),
        };
        let code = if width < 8 && element_type.is_signed_integer() {
            ((code << (64 - width)) as i64 >> (64 - width)) as u64
        } else {
            code
        };
        bytes.extend(&code.to_le_bytes()[..element_type.byte_width()]);
    }
    bytes
}

/// The value of one element, for messages.
pub fn show(array: &ArrayLiteral, element: usize) -> String {
    let width = array.element_type().byte_width();
    show_bytes(array.element_type(), &array.bytes()[element * width..(element + 1) * width])
}

/// The value of an element's bytes, for messages.
pub fn show_bytes(element_type: ElementType, bytes: &[u8]) -> String {
    match element_type.class() {
        ElementClass::Complex => {
            let (re, im) = bytes.split_at(bytes.len() / 2);
            let real = element_type.real_part();
            format!("{} + {} i", show_bytes(real, re), show_bytes(real, im))
        }
        ElementClass::Float => format!("{:e} ({:#x})", number(element_type, bytes), code_of(bytes)),
        ElementClass::Signed => {
            format!("{}", (code_of(bytes) << (64 - 8 * bytes.len())) as i64 >> (64 - 8 * bytes.len()))
        }
        ElementClass::Predicate | ElementClass::Unsigned => format!("{}", code_of(bytes)),
    }
}

fn number(element_type: ElementType, bytes: &[u8]) -> f64 {
    let shape = hlo::shape::ArrayShape::new(element_type, [1]);
    let array = ArrayLiteral::from_bytes(shape, bytes).expect("one element");
    let converted = convert(&array, ElementType::F64);
    converted.as_slice::<f64>().expect("f64")[0]
}

/// Functions that are not exactly rounded, with the units in the last place that `f32` and `f64` may be off.
fn tolerance(case: &Case) -> Option<u64> {
    let is_approximate = matches!(
        case.kind,
        OpKind::Acos
            | OpKind::Acosh
            | OpKind::Asin
            | OpKind::Asinh
            | OpKind::Atan2
            | OpKind::Atanh
            | OpKind::Cbrt
            | OpKind::Cosh
            | OpKind::Cosine
            | OpKind::Erf
            | OpKind::Exponential
            | OpKind::ExponentialMinusOne
            | OpKind::Log
            | OpKind::LogPlusOne
            | OpKind::Logistic
            | OpKind::Power
            | OpKind::Rsqrt
            | OpKind::Sine
            | OpKind::Sinh
            | OpKind::Tan
            | OpKind::Tanh
    );
    let is_float = case.operands[0].is_float();
    (is_approximate && is_float).then_some(if case.result.bit_width() < 32 { 1 } else { 4 })
}

/// Whether a result of compiled code is right: NaN is NaN, whatever its bits.
pub fn agree(case: &Case, operands: &[Literal], element: usize, expected: &[u8], found: &[u8]) -> bool {
    if expected == found {
        return true;
    }
    let operands: Vec<[f64; 2]> =
        operands.iter().map(|operand| parts_at(operand.as_array().expect("an array"), element)).collect();
    if case.kind == OpKind::Compare && case.operands[0].bit_width() <= 8 {
        // The evaluator knows one NaN of each sign, the code keeps their bits.
        return operands.iter().all(|operand| operand[0].is_nan());
    }
    if case.result == ElementType::F8E8M0FNU && expected == [0] && found == [0xff] {
        // Results below the least f32 are 0, which the type does not have: NaN, as in XLA:CPU.
        return true;
    }
    match case.result.class() {
        ElementClass::Float if !case.operands[0].is_complex() => {
            let (a, b) = (number(case.result, expected), number(case.result, found));
            if a.is_nan() || b.is_nan() {
                return a.is_nan() && b.is_nan();
            }
            let distance = ordinal(expected).abs_diff(ordinal(found));
            tolerance(case).is_some_and(|limit| (1..=limit).contains(&distance))
        }
        ElementClass::Float | ElementClass::Complex => {
            close(case, &operands, parts(case.result, expected), parts(case.result, found))
        }
        ElementClass::Predicate | ElementClass::Signed | ElementClass::Unsigned => false,
    }
}

fn parts_at(array: &ArrayLiteral, element: usize) -> [f64; 2] {
    let width = array.element_type().byte_width();
    parts(array.element_type(), &array.bytes()[element * width..(element + 1) * width])
}

/// Real and imaginary part of an element.
fn parts(element_type: ElementType, bytes: &[u8]) -> [f64; 2] {
    if !element_type.is_complex() {
        return [number(element_type, bytes), 0.0];
    }
    let (re, im) = bytes.split_at(bytes.len() / 2);
    [number(element_type.real_part(), re), number(element_type.real_part(), im)]
}

/// Position of a float among the values of its type.
fn ordinal(bytes: &[u8]) -> i64 {
    let shift = 64 - 8 * bytes.len();
    let bits = (code_of(bytes) << shift) as i64 >> shift;
    if bits < 0 { (i64::MIN >> shift).wrapping_sub(bits) } else { bits }
}

/// Whether complex results are near one another for their size.
///
/// Where an operand or a part of the result is not finite, XLA:CPU follows no rule and nothing is asked.
fn close(case: &Case, operands: &[[f64; 2]], expected: [f64; 2], found: [f64; 2]) -> bool {
    let is_single = case.result.real_part() == ElementType::F32;
    let (epsilon, smallest) = if is_single { (f64::from(f32::EPSILON), 1.5e-45) } else { (f64::EPSILON, 5e-324) };
    if operands.iter().chain([&expected]).flatten().any(|part| !part.is_finite()) {
        return true;
    }
    let magnitude = |value: [f64; 2]| value[0].hypot(value[1]);
    let scale = match (case.kind, operands) {
        // The error of the logarithm is multiplied by the exponent.
        (OpKind::Power, [base, exponent]) => {
            magnitude(expected) * (1.0 + magnitude(*exponent) * (magnitude(*base).ln().abs() + 3.2))
        }
        // A logarithm of a number near 1, in XLA's formula.
        (OpKind::Atan2, _) => magnitude(expected).max(1.0),
        // The reciprocal of a difference.
        (OpKind::Logistic, _) => magnitude(expected) * (1.0 + magnitude(expected)),
        _ => magnitude(expected),
    };
    let error = magnitude([expected[0] - found[0], expected[1] - found[1]]);
    if case.kind == OpKind::Atan2 {
        // On the branch cuts of root and logarithm the sign of a vanishing part decides.
        let turns = ((expected[0] - found[0]) / std::f64::consts::PI).round();
        if turns != 0.0 && (expected[0] - found[0] - turns * std::f64::consts::PI).abs() <= 64.0 * epsilon {
            return true;
        }
    }
    if case.kind == OpKind::Sign && !magnitude(operands[0]).is_finite() {
        return true;
    }
    error <= 4.0 * smallest || error <= 8.0 * epsilon * scale
}
