//! Arithmetic of complex registers: absolute value, quotient, square root and what they are made of.
//!
//! Intermediate results are scaled by powers of two, so they neither overflow nor lose bits to underflow when the
//! result does not. Quotients follow ISO C Annex G where operands are infinite or zero. Products are not contracted:
//! the imaginary part of `z * conj(z)` is exactly 0.

use melior::ir::Type;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

/// Real and imaginary parts, of the same type.
#[derive(Clone, Copy)]
pub(super) struct Complex<'c> {
    pub(super) re: Value<'c>,
    pub(super) im: Value<'c>,
}

pub(super) fn add<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (a, b) = (operands[0], operands[1]);
    Complex { re: builder.addf(a.re, b.re), im: builder.addf(a.im, b.im) }
}

pub(super) fn subtract<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (a, b) = (operands[0], operands[1]);
    Complex { re: builder.subf(a.re, b.re), im: builder.subf(a.im, b.im) }
}

pub(super) fn negate<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    Complex { re: builder.negf(operands[0].re), im: builder.negf(operands[0].im) }
}

pub(super) fn multiply<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (a, b) = (operands[0], operands[1]);
    Complex {
        re: builder.subf(builder.mulf(a.re, b.re), builder.mulf(a.im, b.im)),
        im: builder.addf(builder.mulf(a.re, b.im), builder.mulf(a.im, b.re)),
    }
}

/// The one with the larger real part; the first where they are equal, the second where they are not ordered.
pub(super) fn maximum<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    first_if(builder, CmpfPredicate::Oge, operands)
}

/// The one with the smaller real part, likewise.
pub(super) fn minimum<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    first_if(builder, CmpfPredicate::Ole, operands)
}

/// The first operand where the real parts are in the given relation, else the second.
fn first_if<'c>(builder: &OpBuilder<'c>, relation: CmpfPredicate, operands: &[Complex<'c>]) -> Complex<'c> {
    let (a, b) = (operands[0], operands[1]);
    let holds = builder.cmpf(relation, a.re, b.re);
    Complex { re: builder.select(holds, a.re, b.re), im: builder.select(holds, a.im, b.im) }
}

/// Bit layout of the real type.
struct Layout<'c> {
    integer: Type<'c>,
    mantissa_bits: i64,
    exponent_mask: i64,
    bias: i64,
}

fn layout<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Layout<'c> {
    let is_double = builder.element_type_of(value.r#type()) == Type::float64(builder.context());
    match is_double {
        true => Layout { integer: builder.integer_type(64), mantissa_bits: 52, exponent_mask: 0x7ff << 52, bias: 1023 },
        false => Layout { integer: builder.integer_type(32), mantissa_bits: 23, exponent_mask: 0xff << 23, bias: 127 },
    }
}

/// The exponent of a non-negative value: that of the smallest normal number, less one, for smaller ones.
fn exponent<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    let layout = layout(builder, value);
    let bits = builder.bitcast(value, layout.integer);
    let field = builder.andi(bits, builder.integer_like(bits, layout.exponent_mask));
    let field = builder.shrui(field, builder.integer_like(bits, layout.mantissa_bits));
    builder.subi(field, builder.integer_like(bits, layout.bias))
}

/// `value * 2^exponent` with one rounding, for exponents between -2 * bias and 2 * bias.
fn scale<'c>(builder: &OpBuilder<'c>, value: Value<'c>, exponent: Value<'c>) -> Value<'c> {
    let layout = layout(builder, value);
    let element = builder.element_type_of(value.r#type());
    let power = |exponent| {
        let field = builder.addi(exponent, builder.integer_like(exponent, layout.bias));
        let bits = builder.shli(field, builder.integer_like(exponent, layout.mantissa_bits));
        builder.bitcast(bits, element)
    };
    let half = builder.shrsi(exponent, builder.integer_like(exponent, 1));
    let rest = builder.subi(exponent, half);
    builder.mulf(builder.mulf(value, power(half)), power(rest))
}

fn scale_parts<'c>(builder: &OpBuilder<'c>, value: Complex<'c>, exponent: Value<'c>) -> Complex<'c> {
    Complex { re: scale(builder, value.re, exponent), im: scale(builder, value.im, exponent) }
}

fn negated<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> Value<'c> {
    builder.subi(builder.integer_like(value, 0), value)
}

/// The larger and the smaller magnitude of the parts; NaN if either is NaN.
pub(super) fn ordered_magnitudes<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> (Value<'c>, Value<'c>) {
    let (re, im) = (builder.absf(value.re), builder.absf(value.im));
    let one_of = |name| builder.value(name, &[re, im], re.r#type(), &[]);
    (one_of("arith.maximumf"), one_of("arith.minimumf"))
}

/// Square root of the sum of the squares of parts whose squares are normal numbers.
fn near_magnitude<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> Value<'c> {
    builder.sqrt(builder.fma(value.re, value.re, builder.mulf(value.im, value.im)))
}

/// The parts times a power of two with which the square of the larger one, and of their sum, is a normal number, and what undoes it:
/// most numbers need none, so one of three is chosen.
fn with_squares<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> (Complex<'c>, Value<'c>) {
    // Exponents from where to where squares are normal, and what brings smaller and larger ones there.
    let (small, up, large, down) = match layout(builder, value.re).mantissa_bits {
        23 => (-60, 100, 62, -66),
        _ => (-450, 700, 500, -600),
    };
    let power = |exponent: i32| builder.float_like(value.re, 2.0f64.powi(exponent));
    let (re, im) = (builder.absf(value.re), builder.absf(value.im));
    let larger = builder.select(builder.cmpf(CmpfPredicate::Ogt, re, im), re, im);
    let is_small = builder.cmpf(CmpfPredicate::Olt, larger, power(small));
    let is_large = builder.cmpf(CmpfPredicate::Ogt, larger, power(large));
    let choose =
        |up: i32, down: i32| builder.select(is_small, power(up), builder.select(is_large, power(down), power(0)));
    let factor = choose(up, down);
    let near = Complex { re: builder.mulf(value.re, factor), im: builder.mulf(value.im, factor) };
    (near, choose(-up, -down))
}

/// Absolute value.
pub(super) fn magnitude<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Value<'c> {
    let (near, factor) = with_squares(builder, operands[0]);
    let magnitude = builder.mulf(near_magnitude(builder, near), factor);
    let infinity = builder.float_like(magnitude, f64::INFINITY);
    builder.select(has_infinite_part(builder, operands[0]), infinity, magnitude)
}

/// Whether a part is infinite, whatever the other is.
pub(super) fn has_infinite_part<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> Value<'c> {
    let infinity = builder.float_like(value.re, f64::INFINITY);
    let is_infinite = |part| builder.cmpf(CmpfPredicate::Oeq, builder.absf(part), infinity);
    builder.ori(is_infinite(value.re), is_infinite(value.im))
}

/// z / |z|, z for zeros.
pub(super) fn sign<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let (near, _) = with_squares(builder, value);
    let magnitude = near_magnitude(builder, near);
    let is_zero = builder.cmpf(CmpfPredicate::Oeq, magnitude, builder.float_like(magnitude, 0.0));
    let choose = |part, near| builder.select(is_zero, part, builder.divf(near, magnitude));
    Complex { re: choose(value.re, near.re), im: choose(value.im, near.im) }
}

/// Two numbers times the power of two that makes the largest of their parts near 1.
pub(super) fn scale_together<'c>(
    builder: &OpBuilder<'c>,
    a: Complex<'c>,
    b: Complex<'c>,
) -> (Complex<'c>, Complex<'c>) {
    let ((a_largest, _), (b_largest, _)) = (ordered_magnitudes(builder, a), ordered_magnitudes(builder, b));
    let largest = builder.value("arith.maximumf", &[a_largest, b_largest], a.re.r#type(), &[]);
    let exponent = negated(builder, exponent(builder, largest));
    (scale_parts(builder, a, exponent), scale_parts(builder, b, exponent))
}

/// Quotient; ISO C Annex G.5.1, with both operands scaled.
pub(super) fn divide<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (dividend, divisor) = (operands[0], operands[1]);
    let scaled = |value| {
        let (largest, _) = ordered_magnitudes(builder, value);
        let exponent = exponent(builder, largest);
        (scale_parts(builder, value, negated(builder, exponent)), exponent)
    };
    let (a, dividend_exponent) = scaled(dividend);
    let (b, divisor_exponent) = scaled(divisor);
    let square = builder.fma(b.re, b.re, builder.mulf(b.im, b.im));
    let exponent = builder.subi(dividend_exponent, divisor_exponent);
    let product = times_conjugate(builder, a, b);
    let finish = |part| scale(builder, builder.divf(part, square), exponent);
    let quotient = Complex { re: finish(product.re), im: finish(product.im) };
    recover_infinities(builder, dividend, divisor, quotient)
}

/// a * conj(b).
fn times_conjugate<'c>(builder: &OpBuilder<'c>, a: Complex<'c>, b: Complex<'c>) -> Complex<'c> {
    Complex {
        re: builder.addf(builder.mulf(a.re, b.re), builder.mulf(a.im, b.im)),
        im: builder.subf(builder.mulf(a.im, b.re), builder.mulf(a.re, b.im)),
    }
}

/// Replaces a quotient of two NaNs by what Annex G says for infinite and zero operands.
fn recover_infinities<'c>(
    builder: &OpBuilder<'c>,
    dividend: Complex<'c>,
    divisor: Complex<'c>,
    quotient: Complex<'c>,
) -> Complex<'c> {
    use CmpfPredicate::{Oeq, One, Ord, Uno};
    let constant = |value| builder.float_like(dividend.re, value);
    let infinity = constant(f64::INFINITY);
    let is_infinite = |part| builder.cmpf(Oeq, builder.absf(part), infinity);
    // Ordered and different from infinity.
    let is_finite = |part| builder.cmpf(One, builder.absf(part), infinity);
    let any_infinite = |value: Complex<'c>| builder.ori(is_infinite(value.re), is_infinite(value.im));
    let both_finite = |value: Complex<'c>| builder.andi(is_finite(value.re), is_finite(value.im));
    // Infinite parts become 1, finite ones 0, with their signs.
    let boxed = |part| builder.copysign(builder.select(is_infinite(part), constant(1.0), constant(0.0)), part);
    let box_parts = |value: Complex<'c>| Complex { re: boxed(value.re), im: boxed(value.im) };
    let choose = |condition, a: Complex<'c>, b: Complex<'c>| Complex {
        re: builder.select(condition, a.re, b.re),
        im: builder.select(condition, a.im, b.im),
    };
    let times =
        |factor, value: Complex<'c>| Complex { re: builder.mulf(factor, value.re), im: builder.mulf(factor, value.im) };

    let is_zero = |part| builder.cmpf(Oeq, part, constant(0.0));
    let divisor_is_zero = builder.andi(is_zero(divisor.re), is_zero(divisor.im));
    let any_number =
        builder.ori(builder.cmpf(Ord, dividend.re, dividend.re), builder.cmpf(Ord, dividend.im, dividend.im));
    let by_zero = times(builder.copysign(infinity, divisor.re), dividend);
    let of_infinity = times(infinity, times_conjugate(builder, box_parts(dividend), divisor));
    let by_infinity = times(constant(0.0), times_conjugate(builder, dividend, box_parts(divisor)));

    let result = choose(builder.andi(any_infinite(divisor), both_finite(dividend)), by_infinity, quotient);
    let result = choose(builder.andi(any_infinite(dividend), both_finite(divisor)), of_infinity, result);
    let result = choose(builder.andi(divisor_is_zero, any_number), by_zero, result);
    let is_nan = |part| builder.cmpf(Uno, part, part);
    choose(builder.andi(is_nan(quotient.re), is_nan(quotient.im)), result, quotient)
}

/// Principal square root; the branch cut is the negative real axis, continuous with the sign of the imaginary part.
pub(super) fn square_root<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    use CmpfPredicate::{Oeq, Olt};
    let value = operands[0];
    let constant = |number| builder.float_like(value.re, number);
    let (largest, _) = ordered_magnitudes(builder, value);
    let exponent = exponent(builder, largest);
    // An even exponent, whose half scales the root.
    let half = builder.shrsi(exponent, builder.integer_like(exponent, 1));
    let even = builder.shli(half, builder.integer_like(exponent, 1));
    let near = scale_parts(builder, value, negated(builder, even));
    let sum = builder.addf(builder.absf(near.re), near_magnitude(builder, near));
    let larger = builder.sqrt(builder.mulf(sum, constant(0.5)));
    let smaller = builder.divf(builder.mulf(near.im, constant(0.5)), larger);
    let larger = scale(builder, larger, half);
    let smaller = scale(builder, smaller, half);
    let is_negative = builder.cmpf(Olt, value.re, constant(0.0));
    let re = builder.select(is_negative, builder.absf(smaller), larger);
    let im = builder.select(is_negative, builder.copysign(larger, value.im), smaller);
    // An infinite real part outweighs an imaginary part that is NaN.
    let infinity = constant(f64::INFINITY);
    let re = builder.select(builder.cmpf(Oeq, value.re, infinity), infinity, re);
    let is_negative_infinity = builder.cmpf(Oeq, value.re, constant(f64::NEG_INFINITY));
    let im = builder.select(is_negative_infinity, builder.copysign(infinity, value.im), im);
    // Zero and an infinite imaginary part divide zero by zero and infinity by infinity.
    let is_zero = builder.cmpf(Oeq, largest, constant(0.0));
    let is_infinite = builder.cmpf(Oeq, builder.absf(value.im), infinity);
    let re = builder.select(is_zero, constant(0.0), builder.select(is_infinite, infinity, re));
    Complex { re, im: builder.select(builder.ori(is_zero, is_infinite), value.im, im) }
}

/// 1 / sqrt(z).
pub(super) fn reciprocal_square_root<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let root = square_root(builder, operands);
    let one = Complex { re: builder.float_like(root.re, 1.0), im: builder.float_like(root.re, 0.0) };
    divide(builder, &[one, root])
}

/// Whether two complex numbers are equal (`Eq`) or not (`Ne`), as `i1`.
pub(super) fn compare<'c>(
    builder: &OpBuilder<'c>,
    predicate: CmpiPredicate,
    a: Complex<'c>,
    b: Complex<'c>,
) -> Option<Value<'c>> {
    match predicate {
        CmpiPredicate::Eq => {
            let re = builder.cmpf(CmpfPredicate::Oeq, a.re, b.re);
            Some(builder.andi(re, builder.cmpf(CmpfPredicate::Oeq, a.im, b.im)))
        }
        CmpiPredicate::Ne => {
            let re = builder.cmpf(CmpfPredicate::Une, a.re, b.re);
            Some(builder.ori(re, builder.cmpf(CmpfPredicate::Une, a.im, b.im)))
        }
        _ => None,
    }
}
