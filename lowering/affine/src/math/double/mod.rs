//! Functions of `f64` without a library: for GPUs, which have none. Scalars only; each is a function of the module.
//!
//! Methods and coefficients are those of FreeBSD's msun (fdlibm), with fused multiply-adds where it splits numbers, and with
//! a choice of values where it branches. Errors are below 1 unit in the last place, but 2 for quotients of two functions.

mod exponential;
mod inverse;
mod power;
mod remainder;
mod trigonometric;

use std::convert::Infallible;
use std::ops::{Add, Div, Mul, Neg, Sub};

use melior::ir::Type;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::Math;

/// ln 2: its upper bits, with zeros behind them so that small multiples are exact, and the rest.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// π/2 in three numbers.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

impl<'c> Math<'_, 'c> {
    /// The function `name` of C's `math.h` of `f64` scalars, as code.
    pub(super) fn own_double(self, name: &str, operands: &[Value<'c>]) -> Value<'c> {
        let double = Type::float64(self.builder.context());
        let symbol = format!("math_{name}_f64");
        let types = vec![double; operands.len()];
        self.builder.define_once(&symbol, |builder| {
            let Ok(()) = builder.function(&symbol, &types, &[double], &[builder.private()], |builder, function| {
                let operands: Vec<Real<'_, 'c>> =
                    function.parameters().into_iter().map(|value| Real { builder, value }).collect();
                let result = match *operands {
                    [x] => unary(name, x),
                    [x, y] => binary(name, x, y),
                    _ => None,
                };
                // Every name that `Unary` and `Binary` have is here: see the test.
                let result = result.unwrap_or(Real { builder, value: function.parameters()[0] });
                builder.effect("func.return", &[result.value], &[]);
                Ok::<_, Infallible>(())
            });
        });
        self.builder.call_value(&symbol, operands, double)
    }
}

fn unary<'b, 'c>(name: &str, x: Real<'b, 'c>) -> Option<Real<'b, 'c>> {
    Some(match name {
        "acos" => x.acos(),
        "acosh" => x.acosh(),
        "asin" => x.asin(),
        "asinh" => x.asinh(),
        "atan" => x.atan(),
        "atanh" => x.atanh(),
        "cbrt" => x.cbrt(),
        "cos" => x.cos(),
        "cosh" => x.cosh(),
        "erf" => x.erf(),
        "exp" => x.exp(),
        "expm1" => x.expm1(),
        "log" => x.log(),
        "log1p" => x.log1p(),
        "sin" => x.sin(),
        "sinh" => x.sinh(),
        "tan" => x.tan(),
        "tanh" => x.tanh(),
        _ => return None,
    })
}

fn binary<'b, 'c>(name: &str, x: Real<'b, 'c>, y: Real<'b, 'c>) -> Option<Real<'b, 'c>> {
    Some(match name {
        "atan2" => x.atan2(y),
        "fmod" => x.remainder(y),
        "hypot" => x.hypot(y),
        "pow" => x.pow(y),
        _ => return None,
    })
}

/// An `f64` in a register, with arithmetic.
#[derive(Clone, Copy)]
struct Real<'b, 'c> {
    builder: &'b OpBuilder<'c>,
    value: Value<'c>,
}

macro_rules! operators {
    ($($trait:ident $method:ident $operation:ident;)*) => {
        $(
            impl<'b, 'c> $trait for Real<'b, 'c> {
                type Output = Real<'b, 'c>;

                fn $method(self, other: Self) -> Self {
                    self.with(self.builder.$operation(self.value, other.value))
                }
            }

            impl<'b, 'c> $trait<f64> for Real<'b, 'c> {
                type Output = Real<'b, 'c>;

                fn $method(self, other: f64) -> Self {
                    self.$method(self.constant(other))
                }
            }

            impl<'b, 'c> $trait<Real<'b, 'c>> for f64 {
                type Output = Real<'b, 'c>;

                fn $method(self, other: Real<'b, 'c>) -> Real<'b, 'c> {
                    other.constant(self).$method(other)
                }
            }
        )*
    };
}

operators! {
    Add add addf;
    Sub sub subf;
    Mul mul mulf;
    Div div divf;
}

impl<'b, 'c> Neg for Real<'b, 'c> {
    type Output = Real<'b, 'c>;

    fn neg(self) -> Self {
        self.with(self.builder.negf(self.value))
    }
}

impl<'c> Real<'_, 'c> {
    fn with(self, value: Value<'c>) -> Self {
        Real { value, ..self }
    }

    fn constant(self, value: f64) -> Self {
        self.with(self.builder.float_like(self.value, value))
    }

    /// `self * factor + term`, rounded once.
    fn fma(self, factor: Self, term: Self) -> Self {
        self.with(self.builder.fma(self.value, factor.value, term.value))
    }

    /// What a product lost when it was rounded to `product`.
    fn product_error(self, factor: Self, product: Self) -> Self {
        self.fma(factor, -product)
    }

    /// `coefficients[0] + coefficients[1]·x + …`.
    fn series(self, coefficients: &[f64]) -> Self {
        let (last, others) = coefficients.split_last().unwrap_or((&0.0, &[]));
        others.iter().rev().fold(self.constant(*last), |sum, &next| sum.fma(self, self.constant(next)))
    }

    fn abs(self) -> Self {
        self.with(self.builder.absf(self.value))
    }

    fn sqrt(self) -> Self {
        self.with(self.builder.sqrt(self.value))
    }

    fn copysign(self, sign: Self) -> Self {
        self.with(self.builder.copysign(self.value, sign.value))
    }

    /// Comparisons are false for NaN.
    fn compare(self, predicate: CmpfPredicate, other: Self) -> Value<'c> {
        self.builder.cmpf(predicate, self.value, other.value)
    }

    fn below(self, bound: f64) -> Value<'c> {
        self.compare(CmpfPredicate::Olt, self.constant(bound))
    }

    fn above(self, bound: f64) -> Value<'c> {
        self.compare(CmpfPredicate::Ogt, self.constant(bound))
    }

    fn is(self, value: f64) -> Value<'c> {
        self.compare(CmpfPredicate::Oeq, self.constant(value))
    }

    fn is_nan(self) -> Value<'c> {
        self.compare(CmpfPredicate::Uno, self)
    }

    /// This value where a condition holds, else another.
    fn or_unless(self, condition: Value<'c>, other: Self) -> Self {
        self.with(self.builder.select(condition, self.value, other.value))
    }

    /// This value, or another where a condition holds.
    fn but_if(self, condition: Value<'c>, other: Self) -> Self {
        other.or_unless(condition, self)
    }

    /// Within bounds; NaN stays.
    fn clamp(self, low: f64, high: f64) -> Self {
        let raised = self.but_if(self.below(low), self.constant(low));
        raised.but_if(raised.above(high), self.constant(high))
    }

    /// The bits as `i64`.
    fn bits(self) -> Value<'c> {
        self.builder.bitcast(self.value, self.builder.integer_type(64))
    }

    fn of_bits(self, bits: Value<'c>) -> Self {
        self.with(self.builder.bitcast(bits, Type::float64(self.builder.context())))
    }

    /// An `i64` as a number.
    fn of_integer(self, integer: Value<'c>) -> Self {
        self.with(self.builder.sitofp(integer, Type::float64(self.builder.context())))
    }

    /// The upper half of the bits, with zeros behind them: products of two such are exact.
    fn upper_half(self) -> Self {
        let bits = self.bits();
        self.of_bits(self.builder.andi(bits, self.builder.integer_like(bits, !0xffff_ffff)))
    }

    /// The nearest integer of a number below 2^31, also as `i64`. For NaN it is nonsense, but defined.
    fn round(self) -> (Self, Value<'c>) {
        let builder = self.builder;
        // 1.5·2^52: the integer appears in the low bits.
        const SHIFT: f64 = 6755399441055744.0;
        let shifted = self + SHIFT;
        let bits = shifted.bits();
        let low = builder.trunci(bits, builder.integer_type(32));
        (shifted - SHIFT, builder.extsi(low, builder.integer_type(64)))
    }

    /// `self · 2^exponent` for exponents of magnitude up to 2000, rounded once where `self` is near 1.
    fn scale(self, exponent: Value<'c>) -> Self {
        let builder = self.builder;
        let half = builder.shrsi(exponent, builder.integer_like(exponent, 1));
        let rest = builder.subi(exponent, half);
        self * self.power_of_two(half) * self.power_of_two(rest)
    }

    /// 2^exponent for exponents of normal numbers.
    fn power_of_two(self, exponent: Value<'c>) -> Self {
        let builder = self.builder;
        let biased = builder.addi(exponent, builder.integer_like(exponent, 1023));
        self.of_bits(builder.shli(biased, builder.integer_like(exponent, 52)))
    }

    /// A comparison of integers with a constant.
    fn integer_is(self, predicate: CmpiPredicate, integer: Value<'c>, bound: i64) -> Value<'c> {
        self.builder.cmpi(predicate, integer, self.builder.integer_like(integer, bound))
    }

    /// The exponent of a positive finite number, and the number over its power of two, from `lowest` (of 1/2 to 1) to twice that.
    fn exponent_and_mantissa(self, lowest: f64) -> (Value<'c>, Self) {
        let builder = self.builder;
        let is_subnormal = self.below(f64::MIN_POSITIVE);
        let scaled = self.but_if(is_subnormal, self * 2f64.powi(54));
        let bits = scaled.bits();
        let above = builder.subi(bits, builder.integer_like(bits, lowest.to_bits() as i64));
        let exponent = builder.shrsi(above, builder.integer_like(bits, 52));
        let mantissa = builder.subi(bits, builder.shli(exponent, builder.integer_like(bits, 52)));
        let less = builder.subi(exponent, builder.integer_like(exponent, 54));
        (builder.select(is_subnormal, less, exponent), self.of_bits(mantissa))
    }
}
