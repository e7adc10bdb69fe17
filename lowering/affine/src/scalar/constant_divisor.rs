//! Quotients of vectors of 64-bit integers by a constant, as products with its reciprocal.
//!
//! LLVM knows the reciprocals but not the upper half of a product of 64-bit lanes: it would take vectors apart. The
//! recipes are those of Granlund and Montgomery ("Division by invariant integers using multiplication").

use mlir_ext::builder::{OpBuilder, Value};

/// Truncated quotients of unsigned lanes by a divisor that is not zero.
pub(super) fn unsigned_quotient<'c>(builder: &OpBuilder<'c>, dividend: Value<'c>, divisor: u64) -> Value<'c> {
    let (reciprocal, shift) = unsigned_reciprocal(divisor);
    let Some(shift) = shift.checked_sub(1) else { return dividend };
    let integer = |value: u32| builder.integer_like(dividend, i64::from(value));
    let upper = upper_half(builder, dividend, reciprocal);
    let half_of_rest = builder.shrui(builder.subi(dividend, upper), integer(1));
    builder.shrui(builder.addi(upper, half_of_rest), integer(shift))
}

/// Truncated quotients of signed lanes by a divisor that is neither zero nor -1.
pub(super) fn signed_quotient<'c>(builder: &OpBuilder<'c>, dividend: Value<'c>, divisor: i64) -> Value<'c> {
    if divisor == 1 {
        return dividend;
    }
    let (reciprocal, shift) = signed_reciprocal(divisor.unsigned_abs());
    let integer = |value: i64| builder.integer_like(dividend, value);
    let sign = builder.shrsi(dividend, integer(63));
    // A negative dividend was taken for one that is larger by 2^64.
    let surplus = builder.andi(sign, integer(reciprocal as i64));
    let product = builder.subi(upper_half(builder, dividend, reciprocal), surplus);
    let quotient = builder.subi(builder.shrsi(product, integer(i64::from(shift))), sign);
    if divisor < 0 { builder.subi(integer(0), quotient) } else { quotient }
}

/// The upper halves of the products of unsigned lanes and a number.
fn upper_half<'c>(builder: &OpBuilder<'c>, lanes: Value<'c>, number: u64) -> Value<'c> {
    let integer = |value: u64| builder.integer_like(lanes, value as i64);
    let low = |value| builder.andi(value, integer(u64::from(u32::MAX)));
    let high = |value| builder.shrui(value, integer(32));
    let (low_number, high_number) = (integer(number & u64::from(u32::MAX)), integer(number >> 32));
    let (low_lanes, high_lanes) = (low(lanes), high(lanes));
    let lowest = high(builder.muli(low_lanes, low_number));
    let middle = builder.addi(builder.muli(high_lanes, low_number), lowest);
    let other_middle = builder.addi(builder.muli(low_lanes, high_number), low(middle));
    let highest = builder.addi(builder.muli(high_lanes, high_number), high(middle));
    builder.addi(highest, high(other_middle))
}

/// The number `m` and the shift `l` with `n / d = (u + (n - u) / 2) >> (l - 1)` where `u` is the upper half of `m n`; of 1 the
/// shift is 0.
fn unsigned_reciprocal(divisor: u64) -> (u64, u32) {
    let shift = 64 - (divisor - 1).leading_zeros();
    let distance = (1u128 << shift) - u128::from(divisor);
    (((distance << 64) / u128::from(divisor)) as u64 + 1, shift)
}

/// The number `m` and the shift `s` with `n / d = (m n >> 64 + s)`, plus 1 where `n` is negative, for a divisor above 1.
fn signed_reciprocal(divisor: u64) -> (u64, u32) {
    let shift = 63 - (divisor - 1).leading_zeros();
    (((1u128 << (64 + shift)) / u128::from(divisor)) as u64 + 1, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 14] =
        [1, 2, 3, 5, 7, 10, 641, 1000, 65537, 0x7fff_ffff, 1 << 32, 0x7fff_ffff_ffff_ffff, 1 << 63, u64::MAX];

    fn dividends(divisor: u64) -> impl Iterator<Item = u64> {
        let near = NUMBERS.into_iter().flat_map(move |number| [number, number.wrapping_mul(divisor)]);
        near.flat_map(|number| [number.wrapping_sub(1), number, number.wrapping_add(1)])
    }

    fn upper_half(a: u64, b: u64) -> u64 {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }

    #[test]
    fn products_with_reciprocals_are_quotients() {
        for divisor in NUMBERS.into_iter().filter(|&divisor| divisor > 1) {
            let (reciprocal, shift) = unsigned_reciprocal(divisor);
            for dividend in dividends(divisor) {
                let upper = upper_half(dividend, reciprocal);
                assert_eq!(
                    (upper + (dividend - upper) / 2) >> (shift - 1),
                    dividend / divisor,
                    "{dividend} / {divisor}"
                );
            }
        }
    }

    #[test]
    fn so_are_those_of_signed_numbers() {
        for divisor in NUMBERS.into_iter().filter(|divisor| (2..=1 << 63).contains(divisor)) {
            let (reciprocal, shift) = signed_reciprocal(divisor);
            for dividend in dividends(divisor).map(|dividend| dividend as i64) {
                let product = ((i128::from(dividend) * i128::from(reciprocal)) >> 64) as i64;
                let quotient = (product >> shift) + i64::from(dividend < 0);
                assert_eq!(i128::from(quotient), i128::from(dividend) / i128::from(divisor), "{dividend} / {divisor}");
            }
        }
    }
}
