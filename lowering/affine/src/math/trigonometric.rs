//! `sin` and `cos` for `f32`: reduction by multiples of π/2 in three floats, one of two polynomials by quadrant.

use std::convert::Infallible;

use super::Math;
use melior::ir::attribute::Attribute;
use mlir_ext::{
    arith::{CmpfPredicate, CmpiPredicate},
    builder::{OpBuilder, Value},
};

/// π/2 in three floats.
const HALF_PI: [f64; 3] = [1.570_796_01, 3.139_164_73e-7, 5.390_302_53e-15];
/// 1/2π in pieces of 24 bits.
const TURN_PIECES: [i32; 10] =
    [0x28be60, 0xdb9391, 0x054a7f, 0x09d5f4, 0x7d4d37, 0x7036d8, 0xa5664f, 0x10e410, 0x7f9458, 0xeaf7ae];
/// Up to here the reduction is exact enough.
const LARGEST: f64 = 105_615.0;

impl<'c> Math<'_, 'c> {
    /// Error at most 1.6 units in the last place.
    pub(super) fn sin(self, x: Value<'c>) -> Value<'c> {
        let result = self.by_quadrant(x, 0);
        // The fused multiply-adds make +0 of -0.
        self.builder.select(self.compare(x, CmpfPredicate::Oeq, 0.0), x, result)
    }

    /// Error at most 1.6 units in the last place.
    pub(super) fn cos(self, x: Value<'c>) -> Value<'c> {
        self.by_quadrant(x, 1)
    }

    /// sin(x + quadrants·π/2).
    fn by_quadrant(self, x: Value<'c>, quadrants: i64) -> Value<'c> {
        let builder = self.builder;
        let n = self.round_product(x, std::f64::consts::FRAC_2_PI);
        let rest = HALF_PI.iter().fold(x, |rest, &part| builder.fma(n.float, self.constant(x, -part), rest));
        let quadrant = builder.addi(n.integer, builder.integer_like(n.integer, quadrants));
        let square = builder.mulf(rest, rest);
        let sine = self.horner(square, &[-1.951_529_59e-4, 8.332_160_87e-3, -1.666_665_46e-1]);
        let sine = builder.fma(sine, builder.mulf(square, rest), rest);
        let cosine = self.horner(square, &[2.443_315_71e-5, -1.388_731_62e-3, 4.166_664_56e-2, -0.5, 1.0]);
        let one = builder.integer_like(quadrant, 1);
        let is_odd = builder.cmpi(CmpiPredicate::Eq, builder.andi(quadrant, one), one);
        let value = builder.select(is_odd, cosine, sine);
        // Bit 1 of the quadrant is the sign.
        let sign = builder.andi(quadrant, builder.integer_like(quadrant, 2));
        let sign = builder.shli(sign, builder.integer_like(quadrant, 30));
        let value = self.float_of_bits(builder.xori(self.bits(value), sign));
        self.replace_where_large(quadrants, x, value)
    }

    /// Takes a slower way for operands whose quadrant is not known exactly; costs nothing while there are none.
    fn replace_where_large(self, quadrants: i64, x: Value<'c>, value: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let is_large = self.compare(builder.absf(x), CmpfPredicate::Ogt, LARGEST);
        let any = match builder.lanes_of(x.r#type()) {
            Some(_) => {
                let kind = Attribute::parse(builder.context(), "#vector.kind<or>")
                    .unwrap_or_else(|| Attribute::unit(builder.context()));
                builder.value("vector.reduction", &[is_large], builder.integer_type(1), &[("kind", kind)])
            }
            None => is_large,
        };
        let replaced = |builder: &OpBuilder<'c>, any_is_large: bool| {
            if !any_is_large {
                return Ok::<_, Infallible>(vec![value]);
            }
            let math = Math { builder, target: self.target };
            let exact = match self.target.vector_library_bits {
                0 => math.narrow(math.by_quadrant_f64(math.widen(x), quadrants)),
                _ => math.library_in_double(if quadrants == 0 { "sin" } else { "cos" }, &[x]),
            };
            Ok(vec![builder.select(is_large, exact, value)])
        };
        let Ok(results) = builder.if_else(any, &[x.r#type()], replaced);
        results.first().copied().unwrap_or(value)
    }

    /// tan for `f32`, in `f64`: used where no vector library is at hand.
    pub(super) fn tan(self, x: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        let angle = self.reduce_f64(self.widen(x));
        let (sine, cosine) = self.sine_and_cosine_f64(angle.rest);
        let is_odd = self.is_odd(angle.quadrant);
        let numerator = builder.select(is_odd, builder.negf(cosine), sine);
        let quotient = builder.divf(numerator, builder.select(is_odd, sine, cosine));
        let result = self.narrow(quotient);
        builder.select(self.compare(x, CmpfPredicate::Oeq, 0.0), x, result)
    }

    /// sin(x + quadrants·π/2) for any `f32` x as `f64`.
    fn by_quadrant_f64(self, x: Value<'c>, quadrants: i64) -> Value<'c> {
        let builder = self.builder;
        let angle = self.reduce_f64(x);
        let quadrant = builder.addi(angle.quadrant, builder.integer_like(angle.quadrant, quadrants));
        let (sine, cosine) = self.sine_and_cosine_f64(angle.rest);
        let value = builder.select(self.is_odd(quadrant), cosine, sine);
        let two = builder.integer_like(quadrant, 2);
        let is_negative = builder.cmpi(CmpiPredicate::Eq, builder.andi(quadrant, two), two);
        builder.select(is_negative, builder.negf(value), value)
    }

    fn is_odd(self, quadrant: Value<'c>) -> Value<'c> {
        let one = self.builder.integer_like(quadrant, 1);
        self.builder.cmpi(CmpiPredicate::Eq, self.builder.andi(quadrant, one), one)
    }

    /// x less a multiple of π/2, for any `f32` x as `f64`; NaN and infinity give NaN.
    ///
    /// 1/2π is cut into pieces of 24 bits, whose products with x are exact. What each contributes to whole turns is dropped at once,
    /// so the sum keeps the digits of the rest, however large x is.
    fn reduce_f64(self, x: Value<'c>) -> Angle<'c> {
        let builder = self.builder;
        let fraction = |value| builder.subf(value, builder.roundeven(value));
        let turns = TURN_PIECES.iter().enumerate().fold(self.constant(x, 0.0), |turns, (place, &piece)| {
            let piece = f64::from(piece) * (-24.0 * (place as f64 + 1.0)).exp2();
            let product = builder.mulf(x, self.constant(x, piece));
            fraction(builder.addf(turns, fraction(product)))
        });
        let quarters = builder.mulf(turns, self.constant(x, 4.0));
        // 1.5·2^52: the integer appears in the low bits; -2..=2, or nonsense for NaN.
        let shift = self.constant(x, 6_755_399_441_055_744.0);
        let shifted = builder.addf(quarters, shift);
        let rest = builder.subf(quarters, builder.subf(shifted, shift));
        let rest = builder.mulf(rest, self.constant(x, std::f64::consts::FRAC_PI_2));
        let quadrant = builder.trunci(builder.bitcast(shifted, builder.integer_type(64)), builder.integer_type(32));
        Angle { rest, quadrant }
    }

    /// Sine and cosine of an `f64` up to π/4, to about 2^-45.
    fn sine_and_cosine_f64(self, x: Value<'c>) -> (Value<'c>, Value<'c>) {
        let builder = self.builder;
        let square = builder.mulf(x, x);
        // Coefficients of Taylor's series: 1/n! for n = first, first + 2 …, with alternating signs, highest first.
        let series = |first: i32| {
            let mut coefficients = Vec::new();
            let mut factor = 1.0;
            for term in 0..8 {
                coefficients.push(factor);
                let n = f64::from(first + 2 * term);
                factor /= -(n + 1.0) * (n + 2.0);
            }
            coefficients.reverse();
            self.horner(square, &coefficients)
        };
        (builder.mulf(series(1), x), series(0))
    }
}

/// An angle as a multiple of π/2 and the rest of at most π/4.
struct Angle<'c> {
    rest: Value<'c>,
    /// An `i32`, of which the lowest two bits count.
    quadrant: Value<'c>,
}
