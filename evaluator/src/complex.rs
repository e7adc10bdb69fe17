//! Complex functions in double precision that do not overflow, underflow or cancel where the result does not.
//!
//! `c64` elements are computed here too and rounded afterwards, so the care matters mostly for `c128`.
//! Formulas: W. Kahan, "Branch cuts for complex elementary functions"; special values follow C99 annex G.

use num_complex::Complex64;

fn new(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

/// Magnitude.
pub(crate) fn abs(z: Complex64) -> f64 {
    let squares = z.re * z.re + z.im * z.im;
    // Far from overflow and underflow the plain formula is exact enough, and fast.
    if squares > 1e-280 && squares < 1e280 { squares.sqrt() } else { z.re.hypot(z.im) }
}

/// Product; infinities times anything not NaN stay infinite only as far as the plain formula says, as in XLA.
pub(crate) fn multiply(a: Complex64, b: Complex64) -> Complex64 {
    new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
}

/// Quotient with both operands scaled to about 1; infinite and zero operands as in ISO C Annex G.5.1.
pub(crate) fn divide(a: Complex64, b: Complex64) -> Complex64 {
    let (largest, numerator) = (b.re.abs().max(b.im.abs()), a.re.abs().max(a.im.abs()));
    let exponent = if largest > 0.0 && largest.is_finite() { -exponent_of(largest) } else { 0 };
    let lift = if numerator > 0.0 && numerator.is_finite() { -exponent_of(numerator) } else { 0 };
    let (c, d) = (scale(b.re, exponent), scale(b.im, exponent));
    let (p, q) = (scale(a.re, lift), scale(a.im, lift));
    let denominator = c * c + d * d;
    let re = scale((p * c + q * d) / denominator, exponent - lift);
    let im = scale((q * c - p * d) / denominator, exponent - lift);
    if !(re.is_nan() && im.is_nan()) {
        return new(re, im);
    }
    if b.re == 0.0 && b.im == 0.0 && !(a.re.is_nan() && a.im.is_nan()) {
        let infinity = f64::INFINITY.copysign(b.re);
        new(infinity * a.re, infinity * a.im)
    } else if is_infinite(a) && b.is_finite() {
        let (re, im) = (unit_if_infinite(a.re), unit_if_infinite(a.im));
        new(f64::INFINITY * (re * b.re + im * b.im), f64::INFINITY * (im * b.re - re * b.im))
    } else if is_infinite(b) && a.is_finite() {
        let (re, im) = (unit_if_infinite(b.re), unit_if_infinite(b.im));
        new(0.0 * (a.re * re + a.im * im), 0.0 * (a.im * re - a.re * im))
    } else {
        new(re, im)
    }
}

/// Whether a part is infinite, whatever the other is.
fn is_infinite(z: Complex64) -> bool {
    z.re.is_infinite() || z.im.is_infinite()
}

/// The one with the larger real part; the first where they are equal, the second where they are not ordered, as
/// XLA:CPU has it.
pub(crate) fn maximum(a: Complex64, b: Complex64) -> Complex64 {
    if a.re >= b.re { a } else { b }
}

/// The one with the smaller real part, likewise.
pub(crate) fn minimum(a: Complex64, b: Complex64) -> Complex64 {
    if a.re <= b.re { a } else { b }
}

fn unit_if_infinite(value: f64) -> f64 {
    (if value.is_infinite() { 1.0f64 } else { 0.0 }).copysign(value)
}

fn exponent_of(value: f64) -> i32 {
    libm::ilogb(value)
}

fn scale(value: f64, exponent: i32) -> f64 {
    libm::scalbn(value, exponent)
}

/// e^z.
pub(crate) fn exp(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return new(z.re.exp(), z.im);
    }
    if z.re == f64::NEG_INFINITY {
        let (sin, cos) = if z.im.is_finite() { z.im.sin_cos() } else { (0.0, 0.0) };
        return new(0.0 * cos, 0.0 * sin);
    }
    if z.re == f64::INFINITY && !z.im.is_finite() {
        return new(z.re, f64::NAN);
    }
    let (sin, cos) = z.im.sin_cos();
    if z.re > 700.0 {
        // e^re may overflow although the product with a small sine or cosine does not.
        let half = (z.re / 2.0).exp();
        return new(half * cos * half, half * sin * half);
    }
    let magnitude = z.re.exp();
    new(magnitude * cos, magnitude * sin)
}

/// e^z - 1.
pub(crate) fn exp_m1(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return new(z.re.exp_m1(), z.im);
    }
    let (sin, cos) = z.im.sin_cos();
    let whole = exp(z);
    // e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y/2)
    let half_sin = (z.im / 2.0).sin();
    let re = if z.re.abs() < 1.0 { z.re.exp_m1() * cos - 2.0 * half_sin * half_sin } else { whole.re - 1.0 };
    new(re, if z.re.abs() < 700.0 { z.re.exp() * sin } else { whole.im })
}

/// Principal logarithm.
pub(crate) fn log(z: Complex64) -> Complex64 {
    new(log_abs(z.re, z.im), z.im.atan2(z.re))
}

/// ln |x + iy|.
fn log_abs(x: f64, y: f64) -> f64 {
    let (large, small) = if x.abs() >= y.abs() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    if x.is_infinite() || y.is_infinite() {
        return f64::INFINITY;
    }
    if large > 0.5 && large < 2.0 {
        // ln sqrt(l² + s²) with l² - 1 formed without cancellation
        return 0.5 * ((large - 1.0) * (large + 1.0) + small * small).ln_1p();
    }
    // The magnitude itself may be too large for a float.
    let exponent = if large > 0.0 && large.is_finite() { exponent_of(large) } else { 0 };
    scale(x, -exponent).hypot(scale(y, -exponent)).ln() + f64::from(exponent) * std::f64::consts::LN_2
}

/// ln(1 + z).
pub(crate) fn log_1p(z: Complex64) -> Complex64 {
    let angle = z.im.atan2(1.0 + z.re);
    if z.re.abs() < 0.5 && z.im.abs() < 1.0 {
        return new(0.5 * sum_of_squares_less_one(z.re, z.im).ln_1p(), angle);
    }
    new(log_abs(1.0 + z.re, z.im), angle)
}

/// (1 + x)² + y² - 1 = x (2 + x) + y², with the products' rounding errors added back.
fn sum_of_squares_less_one(x: f64, y: f64) -> f64 {
    let two_plus = 2.0 + x;
    let lost = x - (two_plus - 2.0);
    let first = x * two_plus;
    let first_error = x.mul_add(two_plus, -first) + x * lost;
    let second = y * y;
    let second_error = y.mul_add(y, -second);
    (first + second) + (first_error + second_error)
}

/// Principal square root.
pub(crate) fn sqrt(z: Complex64) -> Complex64 {
    if z.re == 0.0 && z.im == 0.0 {
        return new(0.0, z.im);
    }
    if z.im.is_infinite() {
        return new(f64::INFINITY, z.im);
    }
    if z.re.is_infinite() {
        return if z.re > 0.0 {
            new(z.re, if z.im.is_nan() { z.im } else { 0.0f64.copysign(z.im) })
        } else {
            new(if z.im.is_nan() { z.im } else { 0.0 }, f64::INFINITY.copysign(z.im))
        };
    }
    // Scaled by an even power of two so that the magnitude neither overflows nor loses bits.
    let exponent = exponent_of(z.re.abs().max(z.im.abs())) & !1;
    let (x, y) = (scale(z.re, -exponent), scale(z.im, -exponent));
    let root = ((x.abs() + x.hypot(y)) / 2.0).sqrt();
    let (re, im) = if x >= 0.0 { (root, y / (2.0 * root)) } else { (y.abs() / (2.0 * root), root.copysign(y)) };
    new(scale(re, exponent / 2), scale(im, exponent / 2))
}

/// 1 / sqrt(z).
pub(crate) fn rsqrt(z: Complex64) -> Complex64 {
    divide(new(1.0, 0.0), sqrt(z))
}

/// Cube root: the principal power.
pub(crate) fn cbrt(z: Complex64) -> Complex64 {
    pow(z, new(1.0 / 3.0, 0.0))
}

/// sinh z.
pub(crate) fn sinh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return new(z.re.sinh(), z.im);
    }
    if !z.im.is_finite() {
        return new(if z.re == 0.0 || z.re.is_infinite() { z.re } else { f64::NAN }, f64::NAN);
    }
    let (sin, cos) = z.im.sin_cos();
    if z.re.abs() > 700.0 {
        let factor = (z.re.abs() * 0.5).exp();
        return new(factor * 0.5 * cos * factor * z.re.signum(), factor * 0.5 * sin * factor);
    }
    new(z.re.sinh() * cos, z.re.cosh() * sin)
}

/// cosh z.
pub(crate) fn cosh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return new(z.re.cosh(), z.im.copysign(z.re.signum() * z.im.signum()));
    }
    if !z.im.is_finite() {
        let re = if z.re.is_infinite() { f64::INFINITY } else { f64::NAN };
        return new(re, if z.re == 0.0 { 0.0 } else { f64::NAN });
    }
    let (sin, cos) = z.im.sin_cos();
    if z.re.abs() > 700.0 {
        let factor = (z.re.abs() * 0.5).exp();
        return new(factor * 0.5 * cos * factor, factor * 0.5 * sin * factor * z.re.signum());
    }
    new(z.re.cosh() * cos, z.re.sinh() * sin)
}

/// tanh z.
pub(crate) fn tanh(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return new(z.re.tanh(), z.im);
    }
    if !z.im.is_finite() && z.re.is_finite() {
        return new(if z.re == 0.0 { z.re } else { f64::NAN }, f64::NAN);
    }
    if z.re.abs() > 20.0 {
        // 4 sin y cos y e^-2|x|: the real part has reached ±1.
        let (sin, cos) = z.im.sin_cos();
        let im = if z.im.is_finite() { 4.0 * sin * cos * (-2.0 * z.re.abs()).exp() } else { 0.0 };
        return new(z.re.signum(), im);
    }
    let tangent = z.im.tan();
    let sinh = z.re.sinh();
    let beta = 1.0 + tangent * tangent;
    let rho = (1.0 + sinh * sinh).sqrt();
    if tangent.is_infinite() {
        return new(rho / sinh, 1.0 / tangent);
    }
    let denominator = 1.0 + beta * sinh * sinh;
    new(beta * rho * sinh / denominator, tangent / denominator)
}

fn times_i(z: Complex64) -> Complex64 {
    new(-z.im, z.re)
}

fn times_minus_i(z: Complex64) -> Complex64 {
    new(z.im, -z.re)
}

/// sin z = -i sinh(iz).
pub(crate) fn sin(z: Complex64) -> Complex64 {
    times_minus_i(sinh(times_i(z)))
}

/// cos z = cosh(iz).
pub(crate) fn cos(z: Complex64) -> Complex64 {
    cosh(times_i(z))
}

/// tan z = -i tanh(iz).
pub(crate) fn tan(z: Complex64) -> Complex64 {
    times_minus_i(tanh(times_i(z)))
}

/// 1 / (1 + e^-z).
pub(crate) fn logistic(z: Complex64) -> Complex64 {
    let growing = exp(-z);
    if growing.re.is_infinite() || growing.im.is_infinite() {
        return new(0.0, 0.0);
    }
    divide(new(1.0, 0.0), new(1.0, 0.0) + growing)
}

/// z / |z|; zero stays zero.
pub(crate) fn sign(z: Complex64) -> Complex64 {
    let magnitude = abs(z);
    if magnitude == 0.0 {
        return z;
    }
    new(z.re / magnitude, z.im / magnitude)
}

/// base ^ exponent = e^(exponent ln base); 0^0 is 1 and 0 to a positive power 0. Other powers of 0 have no angle.
pub(crate) fn pow(base: Complex64, exponent: Complex64) -> Complex64 {
    if exponent == new(0.0, 0.0) {
        return new(1.0, 0.0);
    }
    if base == new(0.0, 0.0) {
        return match (exponent.re > 0.0, exponent.im == 0.0) {
            (true, _) => new(0.0, 0.0),
            (false, true) => new(f64::INFINITY, f64::NAN),
            (false, false) => new(f64::NAN, f64::NAN),
        };
    }
    if base == new(1.0, 0.0) {
        return base;
    }
    exp(multiply(exponent, log(base)))
}

/// Whether z² + 1 is z² to the last bit, or a part is infinite.
fn is_far(z: Complex64) -> bool {
    z.re.abs() > 1e17 || z.im.abs() > 1e17
}

/// ln |2z|: what the inverse functions grow like.
fn log_twice(z: Complex64) -> f64 {
    log_abs(z.re, z.im) + std::f64::consts::LN_2
}

/// asin z.
pub(crate) fn asin(z: Complex64) -> Complex64 {
    times_minus_i(asinh(times_i(z)))
}

/// acos z.
pub(crate) fn acos(z: Complex64) -> Complex64 {
    if is_far(z) {
        return new(z.im.abs().atan2(z.re), -log_twice(z).copysign(z.im));
    }
    if z.re == 0.0 && z.im.is_nan() {
        return new(std::f64::consts::FRAC_PI_2, z.im);
    }
    let root_minus = sqrt(new(1.0 - z.re, -z.im));
    let root_plus = sqrt(new(1.0 + z.re, z.im));
    let im = (root_plus.re * root_minus.im - root_plus.im * root_minus.re).asinh();
    new(2.0 * root_minus.re.atan2(root_plus.re), im)
}

/// asinh z.
pub(crate) fn asinh(z: Complex64) -> Complex64 {
    if is_far(z) {
        return new(log_twice(z).copysign(z.re), z.im.abs().atan2(z.re.abs()).copysign(z.im));
    }
    if z.re.is_nan() && z.im == 0.0 {
        return z;
    }
    // asinh z = i asin(-iz), asin by Kahan: re = atan(x / Re(√(1-z) √(1+z))), im = asinh(Im(conj √(1-z) √(1+z)))
    let w = times_minus_i(z);
    let root_minus = sqrt(new(1.0 - w.re, -w.im));
    let root_plus = sqrt(new(1.0 + w.re, w.im));
    let re = w.re.atan2(root_minus.re * root_plus.re - root_minus.im * root_plus.im);
    let im = (root_minus.re * root_plus.im - root_minus.im * root_plus.re).asinh();
    times_i(new(re, im))
}

/// acosh z.
pub(crate) fn acosh(z: Complex64) -> Complex64 {
    if is_far(z) {
        return new(log_twice(z), z.im.atan2(z.re));
    }
    if z.re == 0.0 && z.im.is_nan() {
        return new(f64::NAN, std::f64::consts::FRAC_PI_2);
    }
    let root_minus = sqrt(new(z.re - 1.0, z.im));
    let root_plus = sqrt(new(z.re + 1.0, z.im));
    let re = (root_minus.re * root_plus.re + root_minus.im * root_plus.im).asinh();
    new(re, 2.0 * root_minus.im.atan2(root_plus.re))
}

/// atanh z.
pub(crate) fn atanh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if is_infinite(z) {
        return new(0f64.copysign(x), if y.is_nan() { y } else { std::f64::consts::FRAC_PI_2.copysign(y) });
    }
    if x == 0.0 && y.is_nan() {
        return z;
    }
    if x.abs() > 1e150 || y.abs() > 1e150 {
        return new(divide(new(1.0, 0.0), z).re, std::f64::consts::FRAC_PI_2.copysign(y));
    }
    // Odd in x; from a positive x nothing cancels in the logarithm.
    let below = 1.0 - x.abs();
    let distance = below * below + y * y;
    let re = if distance < 1e-290 {
        // So near to 1 that the squares underflow: ln |(1 + z) / (1 - z)| / 2.
        0.5 * (std::f64::consts::LN_2 - below.hypot(y).ln())
    } else {
        0.25 * (4.0 * x.abs() / distance).ln_1p()
    };
    let im = 0.5 * (2.0 * y).atan2(below * (1.0 + x.abs()) - y * y);
    new(re.copysign(x), im)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex64, re: f64, im: f64) {
        let tolerance = 4e-15 * (re.hypot(im)).max(1e-300);
        assert!((a.re - re).abs() <= tolerance && (a.im - im).abs() <= tolerance, "{a} is not {re} + {im}i");
    }

    #[test]
    fn no_spurious_overflow_or_underflow() {
        close(divide(new(1e300, 1e300), new(1e300, 1e300)), 1.0, 0.0);
        close(divide(new(1e-300, 1e-300), new(1e-300, 0.0)), 1.0, 1.0);
        close(sqrt(new(1e300, 1e300)), 1.0986841134678098e150, 4.550898605622273e149);
        close(sqrt(new(-4.0, 0.0)), 0.0, 2.0);
        close(new(abs(new(3e200, 4e200)), 0.0), 5e200, 0.0);
        close(log(new(1.0, 1e-10)), 5e-21, 1e-10);
        close(log_1p(new(1e-18, 0.0)), 1e-18, 0.0);
        close(tanh(new(1000.0, 1.0)), 1.0, 0.0);
        close(exp_m1(new(1e-12, 1e-12)), 1.0e-12, 1.000000000001e-12);
    }

    #[test]
    fn functions_and_their_inverses_agree() {
        for z in [new(0.3, 0.4), new(-0.7, 0.2), new(0.5, -1.5), new(-2.0, -0.3), new(1e-9, 1e-9)] {
            let near = |a: Complex64| close(a, z.re, z.im);
            near(exp(log(z)));
            near(multiply(sqrt(z), sqrt(z)));
            near(sinh(asinh(z)));
            near(sin(asin(z)));
            // Near 0 the inverse is near πi/2, whose rounding error the function magnifies.
            if abs(z) > 0.1 {
                near(cosh(acosh(z)));
            }
            near(log_1p(exp_m1(z)));
            near(tanh(atanh(z)));
        }
    }
}
