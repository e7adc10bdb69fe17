//! Rules of arithmetic and logic that hold for every element, bit for bit.

use hlo::attributes::Attributes;
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::reverse::ReverseAttributes;
use hlo::shape::ArrayShape;
use melior::ir::{Value, ValueLike};

use super::site::{Number, Site};
use super::{Rule, quotients};

pub(super) static RULES: &[Rule] = &[
    // x + 0 => x  for integers and pred; x + -0.0 => x for floats (x + 0.0 is not: -0.0 + 0.0 is 0.0)
    Rule {
        name: "add-of-zero",
        kinds: &[OpKind::Add],
        apply: |site| {
            let zero = if is_float(site)? { Number::NegativeZero } else { Number::Zero };
            other_operand(site, zero)
        },
    },
    // x - 0 => x  (also -0.0 - 0.0 is -0.0)
    Rule {
        name: "subtract-of-zero",
        kinds: &[OpKind::Subtract],
        apply: |site| site.is_number(1, Number::Zero).then(|| site.operand_of_type(0))?,
    },
    // x - x => 0  for integers
    Rule {
        name: "subtract-of-equal",
        kinds: &[OpKind::Subtract],
        apply: |site| (is_integer(site)? && site.operand(0)? == site.operand(1)?).then(|| zero(site))?,
    },
    // x * 1 => x
    Rule { name: "multiply-by-one", kinds: &[OpKind::Multiply], apply: |site| other_operand(site, Number::One) },
    // x * 0 => 0  for integers
    Rule {
        name: "multiply-by-zero",
        kinds: &[OpKind::Multiply],
        apply: |site| (!is_float(site)? && has_operand(site, Number::Zero)).then(|| zero(site))?,
    },
    // x / 1 => x
    Rule {
        name: "divide-by-one",
        kinds: &[OpKind::Divide],
        apply: |site| site.is_number(1, Number::One).then(|| site.operand_of_type(0))?,
    },
    // x / 2^n => x * 2^-n  where that is a normal number: both round the same number
    Rule { name: "divide-by-power-of-two", kinds: &[OpKind::Divide], apply: quotients::by_power_of_two },
    // convert(n) / c => convert(n) * a + convert(n) * b  for small integers n, all of which were tried
    Rule { name: "divide-small-integer", kinds: &[OpKind::Divide], apply: quotients::of_small_integer },
    // x ^ 1 => x
    Rule {
        name: "power-of-one",
        kinds: &[OpKind::Power],
        apply: |site| site.is_number(1, Number::One).then(|| site.operand_of_type(0))?,
    },
    // max(x, x) => x, min(x, x) => x, x & x => x, x | x => x
    Rule {
        name: "idempotent",
        kinds: &[OpKind::Maximum, OpKind::Minimum, OpKind::And, OpKind::Or],
        apply: |site| (site.operand(0)? == site.operand(1)?).then(|| site.operand_of_type(0))?,
    },
    // x & 1…1 => x
    Rule { name: "and-with-ones", kinds: &[OpKind::And], apply: |site| other_operand(site, ones(site)?) },
    // x & 0 => 0
    Rule {
        name: "and-with-zero",
        kinds: &[OpKind::And],
        apply: |site| has_operand(site, Number::Zero).then(|| zero(site))?,
    },
    // x | 0 => x, x ^ 0 => x
    Rule { name: "or-with-zero", kinds: &[OpKind::Or, OpKind::Xor], apply: |site| other_operand(site, Number::Zero) },
    // x | 1…1 => 1…1
    Rule { name: "or-with-ones", kinds: &[OpKind::Or], apply: |site| operand_that_is(site, ones(site)?) },
    // x ^ x => 0
    Rule {
        name: "xor-of-equal",
        kinds: &[OpKind::Xor],
        apply: |site| (site.operand(0)? == site.operand(1)?).then(|| zero(site))?,
    },
    // x << 0 => x, x >> 0 => x
    Rule {
        name: "shift-by-zero",
        kinds: &[OpKind::ShiftLeft, OpKind::ShiftRightArithmetic, OpKind::ShiftRightLogical],
        apply: |site| site.is_number(1, Number::Zero).then(|| site.operand_of_type(0))?,
    },
    // -(-x) => x, !!x => x
    Rule {
        name: "involution",
        kinds: &[OpKind::Negate, OpKind::Not],
        apply: |site| {
            let inner = site.operand_definition(0, site.kind)?.operand(0)?;
            (inner.r#type() == site.r#type && has_sign(site)?).then_some(inner)
        },
    },
    // reverse(reverse(x)) => x
    Rule {
        name: "reverse-of-reverse",
        kinds: &[OpKind::Reverse],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Reverse)?;
            let same = inner.attributes::<ReverseAttributes>()? == site.attributes::<ReverseAttributes>()?;
            inner.operand(0).filter(|value| same && value.r#type() == site.r#type)
        },
    },
    // ||x|| => |x|, |-x| => |x|
    Rule {
        name: "abs-of-sign",
        kinds: &[OpKind::Abs],
        apply: |site| {
            let argument = site.any_definition(site.operand(0)?)?;
            match argument.kind {
                OpKind::Abs => site.operand_of_type(0),
                OpKind::Negate if has_sign(site)? => {
                    site.create(OpKind::Abs, &[argument.operand(0)?], Attributes::new(), site.r#type)
                }
                _ => None,
            }
        },
    },
    // real(complex(x, y)) => x, imag(complex(x, y)) => y
    Rule {
        name: "part-of-complex",
        kinds: &[OpKind::Real, OpKind::Imag],
        apply: |site| {
            let complex = site.operand_definition(0, OpKind::Complex)?;
            let part = complex.operand(usize::from(site.kind == OpKind::Imag))?;
            (part.r#type() == site.r#type).then_some(part)
        },
    },
    // complex(real(x), imag(x)) => x
    Rule {
        name: "complex-of-parts",
        kinds: &[OpKind::Complex],
        apply: |site| {
            let real = site.operand_definition(0, OpKind::Real)?.operand(0)?;
            let imag = site.operand_definition(1, OpKind::Imag)?.operand(0)?;
            (real == imag && real.r#type() == site.r#type).then_some(real)
        },
    },
    // convert(convert(x)) => x  where the type between holds every value of x's
    Rule {
        name: "convert-there-and-back",
        kinds: &[OpKind::Convert],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Convert)?;
            let value = inner.operand(0)?;
            let (from, between) = (inner.operand_array(0)?.element_type, inner.array()?.element_type);
            (value.r#type() == site.r#type && holds(between, from)).then_some(value)
        },
    },
    // compare(x, x, EQ) => true …  for integers
    Rule { name: "compare-of-equal", kinds: &[OpKind::Compare], apply: compare_of_equal },
    // compare(p, false, NE) => p, compare(p, true, EQ) => p
    Rule {
        name: "compare-of-boolean",
        kinds: &[OpKind::Compare],
        apply: |site| {
            let neutral = match site.attributes::<CompareAttributes>()?.direction {
                ComparisonDirection::Ne => Number::Zero,
                ComparisonDirection::Eq => Number::One,
                _ => return None,
            };
            other_operand(site, neutral)
        },
    },
];

fn compare_of_equal<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let element = site.operand_array(0)?.element_type;
    if site.operand(0)? != site.operand(1)? || element.is_float() || element.is_complex() {
        return None;
    }
    let CompareAttributes { direction, .. } = site.attributes()?;
    let holds = matches!(direction, ComparisonDirection::Eq | ComparisonDirection::Ge | ComparisonDirection::Le);
    let scalar = ArrayLiteral::from_bytes(ArrayShape::new(site.array()?.element_type, []), &[u8::from(holds)]).ok()?;
    site.create_splat(scalar, site.r#type)
}

fn is_float(site: &Site<'_, '_, '_>) -> Option<bool> {
    let element = site.array()?.element_type;
    Some(element.is_float() || element.is_complex())
}

/// Whether a number of the type has a negative: the float without a zero has none, and negated is NaN.
fn has_sign(site: &Site<'_, '_, '_>) -> Option<bool> {
    let element = site.array()?.element_type;
    Some(!element.is_float() || element.has_zero())
}

fn is_integer(site: &Site<'_, '_, '_>) -> Option<bool> {
    Some(site.array()?.element_type.is_integer())
}

/// The operand beside one that is a number, in either order.
fn other_operand<'c, 'r>(site: &Site<'_, 'c, 'r>, number: Number) -> Option<Value<'c, 'r>> {
    (0..2).find(|&index| site.is_number(index, number)).and_then(|index| site.operand_of_type(1 - index))
}

fn operand_that_is<'c, 'r>(site: &Site<'_, 'c, 'r>, number: Number) -> Option<Value<'c, 'r>> {
    (0..2).find(|&index| site.is_number(index, number)).and_then(|index| site.operand_of_type(index))
}

fn has_operand(site: &Site<'_, '_, '_>, number: Number) -> bool {
    (0..2).any(|index| site.is_number(index, number))
}

/// The number with all bits set: `true` for pred.
fn ones(site: &Site<'_, '_, '_>) -> Option<Number> {
    Some(if is_integer(site)? { Number::AllOnes } else { Number::One })
}

fn zero<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let zero = ArrayLiteral::zeros(ArrayShape::new(site.array()?.element_type, [])).ok()?;
    site.create_splat(zero, site.r#type)
}

/// Whether every value of `from` converts to `to` and back unchanged.
fn holds(to: ElementType, from: ElementType) -> bool {
    use ElementType::{BF16, F16, F32, F64};
    match (from, to) {
        (BF16 | F16, F32 | F64) | (F32, F64) => true,
        _ if from.is_integer() && to.is_integer() => {
            to.bit_width() > from.bit_width() && (to.is_signed_integer() || from.is_unsigned_integer())
        }
        _ => false,
    }
}
