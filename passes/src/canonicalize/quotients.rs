//! Divisions by constants as products, where these round to the same number.

use hlo::attributes::Attributes;
use hlo::element_type::ElementType;
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::scalar;
use melior::ir::Value;

use super::site::Site;
use crate::graph_builder::{self, scalar_literal};

/// Divisors whose quotients with small integers are nowhere near the largest and the least normal number.
const MODERATE: std::ops::Range<f32> = 1e-12..1e12;

/// Bits of integers whose quotients are tried: of more, some are too near the middle of two numbers for the bits that are left for the
/// reciprocal.
const MOST_BITS: u32 = 8;

/// `x / 2^n` as `x * 2^-n`, where that is a normal number.
pub(super) fn by_power_of_two<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let divisor = site.splat(site.operand(1)?)?;
    let element_type = divisor.element_type();
    let least = match element_type {
        ElementType::F32 => f64::from(f32::MIN_POSITIVE),
        ElementType::F64 => f64::MIN_POSITIVE,
        _ => return None,
    };
    let divisor = scalar::load(element_type, divisor.bytes(), 0).to_float();
    let reciprocal = divisor.recip();
    let is_power = divisor.is_normal() && divisor.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1) == 0;
    if !is_power || divisor.abs() < least || reciprocal.abs() < least {
        return None;
    }
    multiplied(site, element_type, reciprocal)
}

/// The quotient of a small integer, as an `f32`, and a constant, as the sum of two products: with the leading bits of the
/// reciprocal, which is exact, and with the rest.
pub(super) fn of_small_integer<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let integer = site.operand_definition(0, OpKind::Convert)?.operand_array(0)?.element_type;
    let divisor = site.splat(site.operand(1)?)?;
    if divisor.element_type() != ElementType::F32 || !integer.is_integer() || integer.bit_width() > MOST_BITS {
        return None;
    }
    let divisor = scalar::load(ElementType::F32, divisor.bytes(), 0).to_float() as f32;
    let bits = integer.bit_width();
    let [leading, rest] = parts_of_reciprocal(divisor, f32::MANTISSA_DIGITS - bits)?;
    let (least, largest) = match integer.is_signed_integer() {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    if !(least..=largest).all(|number: i32| are_quotient(number as f32, divisor, [leading, rest])) {
        return None;
    }
    let [leading, rest] = [leading, rest].map(|factor| multiplied(site, ElementType::F32, f64::from(factor)));
    site.create(OpKind::Add, &[leading?, rest?], Attributes::new(), site.r#type)
}

/// So many leading bits of the reciprocal of a number, and the rest of it, rounded.
fn parts_of_reciprocal(divisor: f32, leading_bits: u32) -> Option<[f32; 2]> {
    if !MODERATE.contains(&divisor.abs()) {
        return None;
    }
    let reciprocal = f64::from(divisor).recip();
    let dropped = f64::MANTISSA_DIGITS - leading_bits;
    let leading = f64::from_bits(reciprocal.to_bits() >> dropped << dropped);
    Some([leading as f32, (reciprocal - leading) as f32])
}

/// Whether a number times the parts is the number divided, whether or not the products are rounded before they are added.
fn are_quotient(number: f32, divisor: f32, [leading, rest]: [f32; 2]) -> bool {
    let sums = [
        number * leading + number * rest,
        number.mul_add(leading, number * rest),
        number.mul_add(rest, number * leading),
    ];
    sums.iter().all(|sum| sum.to_bits() == (number / divisor).to_bits())
}

/// The first operand of a site times a number.
fn multiplied<'c, 'r>(site: &Site<'_, 'c, 'r>, element_type: ElementType, factor: f64) -> Option<Value<'c, 'r>> {
    let Literal::Array(factor) = scalar_literal(element_type, graph_builder::ConstantNumber::Float(factor)) else {
        return None;
    };
    let factor = site.create_splat(factor, site.r#type)?;
    site.create(OpKind::Multiply, &[site.operand_of_type(0)?, factor], Attributes::new(), site.r#type)
}

#[cfg(test)]
mod tests {
    use super::{MOST_BITS, are_quotient, parts_of_reciprocal};

    fn holds(divisor: f32) -> bool {
        let parts = parts_of_reciprocal(divisor, f32::MANTISSA_DIGITS - MOST_BITS).unwrap();
        (0..1 << MOST_BITS).all(|number: u32| are_quotient(number as f32, divisor, parts))
    }

    #[test]
    fn quotients_of_bytes_and_common_divisors_round_the_same() {
        for divisor in [255.0, 256.0, 127.5, 127.0, 3.0, 100.0, -7.0, 0.1, 58.395, 57.12, 57.375] {
            assert!(holds(divisor), "by {divisor}");
        }
    }

    #[test]
    fn divisors_with_special_reciprocals_have_no_parts() {
        for divisor in [0.0, -0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE / 2.0, f32::MAX] {
            assert!(parts_of_reciprocal(divisor, 16).is_none(), "{divisor}");
        }
    }
}
