//! Transcendental functions of complex registers, from real ones of the parts.
//!
//! The inverse functions and the hyperbolic tangent are W. Kahan's, "Branch Cuts for Complex Elementary Functions".

use melior::ir::Type;
use mlir_ext::arith::CmpfPredicate::{Oeq, Ogt, Olt, Ueq, Uno};
use mlir_ext::builder::{OpBuilder, Value};

use super::complex::{
    Complex, add, divide, has_infinite_part, magnitude, multiply, ordered_magnitudes, scale_together, square_root,
    subtract,
};
use super::float::is_finite;
use super::transcendental::{self, Function};
use crate::math::{Binary, Unary};

fn real<'c>(builder: &OpBuilder<'c>, function: Unary, operand: Value<'c>) -> Value<'c> {
    transcendental::emit(builder, Function::Unary(function), &[operand])
}

fn real_binary<'c>(builder: &OpBuilder<'c>, function: Binary, a: Value<'c>, b: Value<'c>) -> Value<'c> {
    transcendental::emit(builder, Function::Binary(function), &[a, b])
}

fn is_double<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> bool {
    builder.element_type_of(value.r#type()) == Type::float64(builder.context())
}

/// A number just below the logarithm of the largest finite value.
fn exponential_limit<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> f64 {
    if is_double(builder, value) { 709.0 } else { 88.0 }
}

/// A small number whose products with factors near 1 have all their bits.
fn near_underflow<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> f64 {
    if is_double(builder, value) { 1e-290 } else { 1e-30 }
}

/// exp(x) as the product of two factors, of which the first alone overflows only when the product by far does.
fn exponential_factors<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> (Value<'c>, Value<'c>) {
    let limit = builder.float_like(value, exponential_limit(builder, value));
    let is_large = builder.cmpf(Ogt, value, limit);
    let half = builder.mulf(value, builder.float_like(value, 0.5));
    let factor = real(builder, Unary::Exp, builder.select(is_large, half, value));
    (factor, builder.select(is_large, factor, builder.float_like(value, 1.0)))
}

/// Parts of a complex number that ISO C Annex G has rules about.
struct Limits<'c> {
    re_is_zero: Value<'c>,
    re_is_infinite: Value<'c>,
    im_is_nan: Value<'c>,
    /// Infinite or NaN.
    im_is_not_finite: Value<'c>,
    /// Either part is infinite.
    is_infinite: Value<'c>,
}

fn limits<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> Limits<'c> {
    let infinity = builder.float_like(value.re, f64::INFINITY);
    Limits {
        re_is_zero: builder.cmpf(Oeq, value.re, builder.float_like(value.re, 0.0)),
        re_is_infinite: builder.cmpf(Oeq, builder.absf(value.re), infinity),
        im_is_nan: builder.cmpf(Uno, value.im, value.im),
        im_is_not_finite: builder.cmpf(Ueq, builder.absf(value.im), infinity),
        is_infinite: has_infinite_part(builder, value),
    }
}

/// e^z.
pub(super) fn exponential<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let (first, second) = exponential_factors(builder, value.re);
    let times = |part| builder.mulf(builder.mulf(first, part), second);
    let re = times(real(builder, Unary::Cos, value.im));
    let im = times(real(builder, Unary::Sin, value.im));
    // Real arguments have real results, infinite ones too; e^-inf is zero and e^inf infinite in any direction.
    let zero = builder.float_like(value.im, 0.0);
    let is_real = builder.cmpf(Oeq, value.im, zero);
    let limits = limits(builder, value);
    let has_no_direction = builder.andi(limits.re_is_infinite, limits.im_is_not_finite);
    let vanishes = builder.andi(has_no_direction, builder.cmpf(Olt, value.re, zero));
    let re = builder.select(has_no_direction, builder.select(vanishes, zero, value.re), re);
    let im = builder.select(vanishes, zero, im);
    Complex { re, im: builder.select(is_real, value.im, im) }
}

/// e^z - 1.
pub(super) fn exponential_minus_one<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let half = builder.mulf(value.im, builder.float_like(value.im, 0.5));
    let sine = real(builder, Unary::Sin, half);
    let difference = builder.mulf(builder.float_like(value.im, 2.0), builder.mulf(sine, sine));
    let growth = real(builder, Unary::Expm1, value.re);
    let cosine = real(builder, Unary::Cos, value.im);
    let re = builder.subf(builder.mulf(growth, cosine), difference);
    // Of infinity the exponential, less one, also where there is no angle.
    let exponential = exponential(builder, operands);
    let limit = builder.subf(exponential.re, builder.float_like(re, 1.0));
    Complex { re: builder.select(is_finite(builder, value.re), re, limit), im: exponential.im }
}

/// log |z|: log max + log(1 + (min / max)^2) / 2.
fn log_magnitude<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> Value<'c> {
    let (largest, smallest) = ordered_magnitudes(builder, value);
    let ratio = builder.divf(smallest, largest);
    let log = real(builder, Unary::Log, largest);
    let rest = real(builder, Unary::Log1p, builder.mulf(ratio, ratio));
    let sum = builder.addf(log, builder.mulf(rest, builder.float_like(rest, 0.5)));
    // At 0 and infinity the ratio may be NaN, and the first term is the result.
    let infinity = builder.float_like(log, f64::INFINITY);
    let is_infinite = builder.cmpf(Oeq, builder.absf(log), infinity);
    let logarithm = builder.select(is_infinite, log, sum);
    builder.select(has_infinite_part(builder, value), infinity, logarithm)
}

/// Principal logarithm.
pub(super) fn log<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    Complex { re: log_magnitude(builder, value), im: real_binary(builder, Binary::Atan2, value.im, value.re) }
}

/// log(1 + z).
pub(super) fn log_plus_one<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let constant = |number| builder.float_like(value.re, number);
    let sum = Complex { re: builder.addf(value.re, constant(1.0)), im: value.im };
    // |1 + z|^2 - 1, which is small where 1 + re is rounded badly.
    let square = builder.mulf(value.im, value.im);
    let excess = builder.fma(value.re, builder.addf(value.re, constant(2.0)), square);
    let near = builder.mulf(real(builder, Unary::Log1p, excess), constant(0.5));
    let (largest, _) = ordered_magnitudes(builder, value);
    let is_small = builder.cmpf(Olt, largest, constant(0.5));
    let re = builder.select(is_small, near, log_magnitude(builder, sum));
    Complex { re, im: real_binary(builder, Binary::Atan2, sum.im, sum.re) }
}

/// z^w = |z|^c e^(-d arg z) (cos q + i sin q), q = c arg z + d log |z|, for w = c + d i.
pub(super) fn power<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (base, exponent) = (operands[0], operands[1]);
    let zero = builder.float_like(base.re, 0.0);
    let magnitude = magnitude(builder, &[base]);
    let angle = real_binary(builder, Binary::Atan2, base.im, base.re);
    let log = log_magnitude(builder, base);
    let turning = builder.mulf(exponent.im, angle);
    let decay = real(builder, Unary::Exp, builder.negf(turning));
    let power = real_binary(builder, Binary::Pow, magnitude, exponent.re);
    let product = builder.mulf(power, decay);
    // Where a factor overflows or nearly vanishes the product may do neither: there the exponents are added first.
    let sum = real(builder, Unary::Exp, builder.subf(builder.mulf(exponent.re, log), turning));
    let tiny = builder.float_like(product, near_underflow(builder, product));
    let is_usable = builder.andi(
        builder.andi(builder.cmpf(Ogt, power, tiny), builder.cmpf(Ogt, product, tiny)),
        builder.cmpf(Olt, product, builder.float_like(product, f64::INFINITY)),
    );
    let radius = builder.select(is_usable, product, sum);
    let is_real_exponent = builder.cmpf(Oeq, exponent.im, zero);
    let turn = builder.select(is_real_exponent, zero, builder.mulf(exponent.im, log));
    let turn = builder.addf(builder.mulf(exponent.re, angle), turn);
    let re = builder.mulf(radius, real(builder, Unary::Cos, turn));
    let im = builder.mulf(radius, real(builder, Unary::Sin, turn));
    // The angle may be infinite or NaN where the radius is zero.
    let is_zero = builder.cmpf(Oeq, magnitude, zero);
    let vanishes = builder.andi(is_zero, builder.cmpf(Ogt, exponent.re, zero));
    let vanishes = builder.ori(vanishes, builder.cmpf(Oeq, radius, zero));
    // As of real numbers: anything to the power of zero is 1, also NaN, as is 1 to any power, also to an infinite one.
    let one = builder.float_like(base.re, 1.0);
    let is_zeroth = builder.andi(is_real_exponent, builder.cmpf(Oeq, exponent.re, zero));
    let is_of_one = builder.andi(builder.cmpf(Oeq, base.re, one), builder.cmpf(Oeq, base.im, zero));
    let is_one = builder.ori(is_zeroth, is_of_one);
    let part = |if_one, part| builder.select(is_one, if_one, builder.select(vanishes, zero, part));
    Complex { re: part(one, re), im: part(zero, im) }
}

/// cosh(x), sinh(x) and a factor that both are to be multiplied by last, which keeps them finite for long.
fn hyperbolic<'c>(builder: &OpBuilder<'c>, value: Value<'c>) -> (Value<'c>, Value<'c>, Value<'c>) {
    let absolute = builder.absf(value);
    let limit = builder.float_like(value, exponential_limit(builder, value));
    let is_large = builder.cmpf(Ogt, absolute, limit);
    let half = builder.mulf(absolute, builder.float_like(value, 0.5));
    let factor = real(builder, Unary::Exp, half);
    let large = builder.mulf(factor, builder.float_like(value, 0.5));
    let cosh = builder.select(is_large, large, real(builder, Unary::Cosh, value));
    let sinh = builder.select(is_large, builder.copysign(large, value), real(builder, Unary::Sinh, value));
    (cosh, sinh, builder.select(is_large, factor, builder.float_like(value, 1.0)))
}

/// sinh(a) cos(b) + i cosh(a) sin(b).
pub(super) fn hyperbolic_sine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let (cosh, sinh, factor) = hyperbolic(builder, value.re);
    let times = |a, b| builder.mulf(builder.mulf(a, b), factor);
    let re = times(sinh, real(builder, Unary::Cos, value.im));
    let im = times(cosh, real(builder, Unary::Sin, value.im));
    // Real arguments have real results, infinite ones too.
    let is_real = builder.cmpf(Oeq, value.im, builder.float_like(value.im, 0.0));
    let limits = limits(builder, value);
    let is_kept = builder.andi(limits.im_is_not_finite, builder.ori(limits.re_is_zero, limits.re_is_infinite));
    Complex { re: builder.select(is_kept, value.re, re), im: builder.select(is_real, value.im, im) }
}

/// cosh(a) cos(b) + i sinh(a) sin(b).
pub(super) fn hyperbolic_cosine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let (cosh, sinh, factor) = hyperbolic(builder, value.re);
    let times = |a, b| builder.mulf(builder.mulf(a, b), factor);
    let re = times(cosh, real(builder, Unary::Cos, value.im));
    let im = times(sinh, real(builder, Unary::Sin, value.im));
    let is_real = builder.cmpf(Oeq, value.im, builder.float_like(value.im, 0.0));
    let sign = builder.copysign(builder.float_like(value.re, 1.0), value.re);
    let im = builder.select(is_real, builder.mulf(sign, value.im), im);
    let limits = limits(builder, value);
    let grows = builder.andi(limits.im_is_not_finite, limits.re_is_infinite);
    let is_level = builder.andi(limits.im_is_not_finite, limits.re_is_zero);
    let constant = |number| builder.float_like(value.re, number);
    Complex { re: builder.select(grows, constant(f64::INFINITY), re), im: builder.select(is_level, constant(0.0), im) }
}

/// i z.
fn times_i<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> Complex<'c> {
    Complex { re: builder.negf(value.im), im: value.re }
}

/// -i z.
fn times_minus_i<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> Complex<'c> {
    Complex { re: value.im, im: builder.negf(value.re) }
}

/// sin z = -i sinh(i z).
pub(super) fn sine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    times_minus_i(builder, hyperbolic_sine(builder, &[times_i(builder, operands[0])]))
}

/// cos z = cosh(i z).
pub(super) fn cosine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    hyperbolic_cosine(builder, &[times_i(builder, operands[0])])
}

/// Hyperbolic tangent.
pub(super) fn hyperbolic_tangent<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let constant = |number| builder.float_like(value.re, number);
    // From here on the real part is 1 to the last bit.
    let limit = if is_double(builder, value.re) { 20.0 } else { 10.0 };
    let absolute = builder.absf(value.re);
    let is_large = builder.cmpf(Ogt, absolute, constant(limit));
    let bounded = builder.select(is_large, builder.copysign(constant(limit), value.re), value.re);
    let tangent = real(builder, Unary::Tan, value.im);
    let sinh = real(builder, Unary::Sinh, bounded);
    let beta = builder.fma(tangent, tangent, constant(1.0));
    let square = builder.mulf(sinh, sinh);
    let cosh = builder.sqrt(builder.addf(square, constant(1.0)));
    let denominator = builder.fma(beta, square, constant(1.0));
    let re = builder.divf(builder.mulf(builder.mulf(beta, cosh), sinh), denominator);
    let im = builder.divf(tangent, denominator);
    let decay = real(builder, Unary::Exp, builder.mulf(absolute, constant(-2.0)));
    let far = builder.mulf(builder.mulf(constant(4.0), decay), builder.divf(tangent, beta));
    let im = builder.select(is_large, far, im);
    let is_real = builder.cmpf(Oeq, value.im, constant(0.0));
    let im = builder.select(is_real, value.im, im);
    let limits = limits(builder, value);
    let re = builder.select(limits.re_is_infinite, builder.copysign(constant(1.0), value.re), re);
    let re = builder.select(builder.andi(limits.im_is_not_finite, limits.re_is_zero), value.re, re);
    let has_no_direction = builder.andi(limits.re_is_infinite, limits.im_is_not_finite);
    Complex { re, im: builder.select(has_no_direction, constant(0.0), im) }
}

/// tan z = -i tanh(i z).
pub(super) fn tangent<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    times_minus_i(builder, hyperbolic_tangent(builder, &[times_i(builder, operands[0])]))
}

/// 1 / (1 + e^-z), for negative real parts as e^z / (1 + e^z).
pub(super) fn logistic<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let (one, zero) = (builder.float_like(value.re, 1.0), builder.float_like(value.re, 0.0));
    let is_negative = builder.cmpf(Olt, value.re, zero);
    let decaying = |part| builder.select(is_negative, part, builder.negf(part));
    let exponential = exponential(builder, &[Complex { re: decaying(value.re), im: decaying(value.im) }]);
    let denominator = Complex { re: builder.addf(one, exponential.re), im: exponential.im };
    let numerator = Complex {
        re: builder.select(is_negative, exponential.re, one),
        im: builder.select(is_negative, exponential.im, zero),
    };
    divide(builder, &[numerator, denominator])
}

/// atan2(y, x) = -i log((x + i y) / sqrt(x^2 + y^2)); the sum of squares is (x + i y)(x - i y), which does not cancel. On
/// the branch cut of its root the side is that of the squares, as in XLA.
pub(super) fn arc_tangent_2<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (y, x) = scale_together(builder, operands[0], operands[1]);
    let rotated = times_i(builder, y);
    let (sum, difference) = (add(builder, &[x, rotated]), subtract(builder, &[x, rotated]));
    let squares = multiply(builder, &[sum, difference]);
    let imaginary = builder.addf(builder.mulf(x.re, x.im), builder.mulf(y.re, y.im));
    let is_real = builder.cmpf(Oeq, squares.im, builder.float_like(squares.im, 0.0));
    let im = builder.select(is_real, builder.copysign(squares.im, imaginary), squares.im);
    let root = square_root(builder, &[Complex { re: squares.re, im }]);
    times_minus_i(builder, log(builder, &[divide(builder, &[sum, root])]))
}

/// sqrt(1 - z) and sqrt(1 + z).
fn roots<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> (Complex<'c>, Complex<'c>) {
    let one = builder.float_like(value.re, 1.0);
    let below = Complex { re: builder.subf(one, value.re), im: builder.negf(value.im) };
    let above = Complex { re: builder.addf(one, value.re), im: value.im };
    (square_root(builder, &[below]), square_root(builder, &[above]))
}

/// Whether z^2 + 1 is z^2 to the last bit or a part is infinite, and log |2 z|, what the inverse functions grow like.
fn growth<'c>(builder: &OpBuilder<'c>, value: Complex<'c>) -> (Value<'c>, Value<'c>) {
    let far = builder.float_like(value.re, if is_double(builder, value.re) { 1e17 } else { 1e9 });
    let is_beyond = |part| builder.cmpf(Ogt, builder.absf(part), far);
    let is_far = builder.ori(is_beyond(value.re), is_beyond(value.im));
    let log_2 = builder.float_like(value.re, std::f64::consts::LN_2);
    (is_far, builder.addf(log_magnitude(builder, value), log_2))
}

/// Imaginary part of conj(a) b.
fn cross<'c>(builder: &OpBuilder<'c>, a: Complex<'c>, b: Complex<'c>) -> Value<'c> {
    builder.subf(builder.mulf(a.re, b.im), builder.mulf(a.im, b.re))
}

/// Arc cosine.
pub(super) fn arc_cosine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (below, above) = roots(builder, operands[0]);
    let half = real_binary(builder, Binary::Atan2, below.re, above.re);
    let re = builder.addf(half, half);
    let im = real(builder, Unary::Asinh, cross(builder, above, below));
    let value = operands[0];
    let constant = |number| builder.float_like(value.re, number);
    let limits = limits(builder, value);
    let (is_far, growth) = growth(builder, value);
    let re = builder.select(is_far, real_binary(builder, Binary::Atan2, builder.absf(value.im), value.re), re);
    let is_right = builder.andi(limits.re_is_zero, limits.im_is_nan);
    Complex {
        re: builder.select(is_right, constant(std::f64::consts::FRAC_PI_2), re),
        im: builder.select(is_far, builder.negf(builder.copysign(growth, value.im)), im),
    }
}

/// Arc sine.
pub(super) fn arc_sine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let (below, above) = roots(builder, operands[0]);
    let product = multiply(builder, &[below, above]);
    let value = operands[0];
    let re = real_binary(builder, Binary::Atan2, value.re, product.re);
    let im = real(builder, Unary::Asinh, cross(builder, below, above));
    let limits = limits(builder, value);
    let angle = real_binary(builder, Binary::Atan2, builder.absf(value.re), builder.absf(value.im));
    let (is_far, growth) = growth(builder, value);
    let re = builder.select(is_far, builder.copysign(angle, value.re), re);
    Complex {
        re: builder.select(builder.andi(limits.re_is_zero, limits.im_is_nan), value.re, re),
        im: builder.select(is_far, builder.copysign(growth, value.im), im),
    }
}

/// Inverse hyperbolic sine: -i asin(i z).
pub(super) fn inverse_hyperbolic_sine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    times_minus_i(builder, arc_sine(builder, &[times_i(builder, operands[0])]))
}

/// Inverse hyperbolic cosine.
pub(super) fn inverse_hyperbolic_cosine<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let one = builder.float_like(value.re, 1.0);
    let below = square_root(builder, &[Complex { re: builder.subf(value.re, one), im: value.im }]);
    let above = square_root(builder, &[Complex { re: builder.addf(value.re, one), im: value.im }]);
    let dot = builder.addf(builder.mulf(below.re, above.re), builder.mulf(below.im, above.im));
    let half = real_binary(builder, Binary::Atan2, below.im, above.re);
    let (re, im) = (real(builder, Unary::Asinh, dot), builder.addf(half, half));
    let limits = limits(builder, value);
    let (is_far, growth) = growth(builder, value);
    let im = builder.select(is_far, real_binary(builder, Binary::Atan2, value.im, value.re), im);
    let is_right = builder.andi(limits.re_is_zero, limits.im_is_nan);
    let constant = |number| builder.float_like(value.re, number);
    Complex {
        re: builder.select(is_far, growth, re),
        im: builder.select(is_right, constant(std::f64::consts::FRAC_PI_2), im),
    }
}

/// Inverse hyperbolic tangent, for a >= 0 (it is odd in a):
/// log1p(4 a / ((1 - a)^2 + b^2)) / 4 + i atan2(2 b, (1 - a)(1 + a) - b^2) / 2.
pub(super) fn inverse_hyperbolic_tangent<'c>(builder: &OpBuilder<'c>, operands: &[Complex<'c>]) -> Complex<'c> {
    let value = operands[0];
    let constant = |number| builder.float_like(value.re, number);
    let absolute = builder.absf(value.re);
    let below = builder.subf(constant(1.0), absolute);
    let above = builder.addf(constant(1.0), absolute);
    let square = builder.mulf(value.im, value.im);
    let distance = builder.fma(below, below, square);
    let ratio = builder.divf(builder.mulf(constant(4.0), absolute), distance);
    let near = builder.mulf(real(builder, Unary::Log1p, ratio), constant(0.25));
    let double = builder.addf(value.im, value.im);
    let other = builder.subf(builder.mulf(below, above), square);
    let angle = builder.mulf(real_binary(builder, Binary::Atan2, double, other), constant(0.5));

    // So near to 1 that the distance underflows: log |(1 + z) / (1 - z)| / 2.
    let is_at_pole = builder.cmpf(Olt, distance, constant(near_underflow(builder, value.re)));
    let gap = real(builder, Unary::Log, magnitude(builder, &[Complex { re: below, im: value.im }]));
    let pole = builder.mulf(builder.subf(constant(std::f64::consts::LN_2), gap), constant(0.5));
    let near = builder.select(is_at_pole, pole, near);

    // Far from 1 the squares overflow; there 1/z is as good: a / |z|^2 and a right angle.
    let (largest, _) = ordered_magnitudes(builder, value);
    let is_far = builder.cmpf(Ogt, largest, constant(if is_double(builder, value.re) { 1e17 } else { 1e9 }));
    let magnitude = magnitude(builder, operands);
    let far = builder.divf(builder.divf(absolute, magnitude), magnitude);
    let limits = limits(builder, value);
    let right_angle = builder.copysign(constant(std::f64::consts::FRAC_PI_2), value.im);
    let right_angle = builder.select(limits.im_is_nan, value.im, right_angle);
    // At infinity, and on the imaginary axis even where its other end is NaN.
    let vanishes = builder.ori(limits.is_infinite, builder.andi(limits.re_is_zero, limits.im_is_nan));
    let re = builder.select(vanishes, constant(0.0), builder.select(is_far, far, near));
    let im = builder.select(builder.ori(is_far, limits.is_infinite), right_angle, angle);
    Complex { re: builder.copysign(re, value.re), im }
}
