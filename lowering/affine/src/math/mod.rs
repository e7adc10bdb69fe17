//! Transcendental functions as register code.
//!
//! `f32` has code of its own: at most 2.5 units in the last place off, right at every special value, and three to
//! twenty times faster than calling a library for each element. So have `exp`, `logistic` and `tanh` of `f64`; its other functions, and
//! the rarer ones of `f32` by way of `f64`, call libmvec, glibc's vector library. Without it (on GPUs, for one) no library is needed
//! at all: all of `f64` has code of its own.
//!
//! Functions the size of `exp` are emitted in place, larger ones once per module and vector width as a private function.
//! Operands are scalars or one-dimensional vectors, of `f32` or `f64`; narrower floats are extended by the caller.
//!
//! Specials follow C99, annex F, and IEEE 754: signs of zero are kept, NaN operands give NaN.

mod algebraic;
mod double;
mod error_function;
mod exponential;
mod inverse;
mod library;
mod logarithm;
pub(crate) mod parts;
mod polynomial;
mod power;
mod remainder;
mod trigonometric;

use std::convert::Infallible;

use mlir_ext::builder::{OpBuilder, Value};

/// A function of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unary {
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cbrt,
    Cos,
    Cosh,
    Erf,
    Exp,
    Expm1,
    Log,
    Log1p,
    Logistic,
    Rsqrt,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// A function of two floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Atan2,
    Hypot,
    Pow,
    Remainder,
}

/// What the code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MathTarget {
    /// Scaling by a power of two is an instruction, and there are estimates of reciprocal square roots (AVX-512).
    pub scale_instruction: bool,
    /// The widest vector of the vector library, in bits: 512, 256 or 128; 0 if there is no such library.
    pub vector_library_bits: u32,
}

/// Emits functions for one target.
#[derive(Clone, Copy)]
pub struct Math<'a, 'c> {
    builder: &'a OpBuilder<'c>,
    target: MathTarget,
}

impl<'a, 'c> Math<'a, 'c> {
    /// An emitter at the insertion point of `builder`.
    pub fn new(builder: &'a OpBuilder<'c>, target: MathTarget) -> Self {
        Self { builder, target }
    }

    /// `function(x)`; operand and result have the same type.
    pub fn unary(self, function: Unary, x: Value<'c>) -> Value<'c> {
        if self.is_double(x) { self.unary_f64(function, x) } else { self.unary_f32(function, x) }
    }

    /// `function(x, y)`; operands and result have the same type.
    pub fn binary(self, function: Binary, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let name = match function {
            Binary::Atan2 => "atan2",
            Binary::Hypot => "hypot",
            Binary::Pow => "pow",
            Binary::Remainder => "fmod",
        };
        if self.is_double(x) {
            return match function {
                Binary::Remainder if self.target.vector_library_bits == 0 => self.exact_remainder(x, y),
                Binary::Remainder => {
                    self.outlined(name, &[x, y], |math, operands| math.remainder(operands[0], operands[1]))
                }
                _ => self.library(name, &[x, y]),
            };
        }
        match function {
            Binary::Hypot => self.hypot(x, y),
            Binary::Atan2 if self.target.vector_library_bits > 0 => self.library_in_double(name, &[x, y]),
            Binary::Atan2 => self.outlined(name, &[x, y], |math, operands| math.atan2(operands[0], operands[1])),
            Binary::Pow => self.outlined(name, &[x, y], |math, operands| math.pow(operands[0], operands[1])),
            Binary::Remainder => {
                self.outlined(name, &[x, y], |math, operands| math.remainder(operands[0], operands[1]))
            }
        }
    }

    fn unary_f32(self, function: Unary, x: Value<'c>) -> Value<'c> {
        match function {
            Unary::Cos => self.outlined("cos", &[x], |math, operands| math.cos(operands[0])),
            Unary::Erf => self.erf(x),
            Unary::Exp => self.exp(x),
            Unary::Expm1 => self.expm1(x),
            Unary::Log => self.log(x),
            Unary::Log1p => self.log1p(x),
            Unary::Logistic => self.logistic(x),
            Unary::Rsqrt => self.rsqrt(x),
            Unary::Sin => self.outlined("sin", &[x], |math, operands| math.sin(operands[0])),
            Unary::Sqrt => self.builder.sqrt(x),
            Unary::Tanh => self.tanh(x),
            _ if self.target.vector_library_bits > 0 => self.library_in_double(function.c_name(), &[x]),
            _ => self
                .outlined(function.c_name(), &[x], |math, operands| math.unary_through_double(function, operands[0])),
        }
    }

    /// An `f32` function without a library; only those that are no instruction or small polynomial.
    fn unary_through_double(self, function: Unary, x: Value<'c>) -> Value<'c> {
        match function {
            Unary::Acos => self.acos(x),
            Unary::Acosh => self.acosh(x),
            Unary::Asin => self.asin(x),
            Unary::Asinh => self.asinh(x),
            Unary::Atan => self.atan(x),
            Unary::Atanh => self.atanh(x),
            Unary::Cbrt => self.cbrt(x),
            Unary::Cosh => self.cosh(x),
            Unary::Sinh => self.sinh(x),
            Unary::Tan => self.tan(x),
            Unary::Cos
            | Unary::Erf
            | Unary::Exp
            | Unary::Expm1
            | Unary::Log
            | Unary::Log1p
            | Unary::Logistic
            | Unary::Rsqrt
            | Unary::Sin
            | Unary::Sqrt
            | Unary::Tanh => self.unary_f32(function, x),
        }
    }

    fn unary_f64(self, function: Unary, x: Value<'c>) -> Value<'c> {
        match function {
            Unary::Exp => self.exp(x),
            Unary::Logistic => self.logistic(x),
            Unary::Rsqrt => self.rsqrt(x),
            Unary::Sqrt => self.builder.sqrt(x),
            Unary::Tanh if self.target.vector_library_bits > 0 => self.tanh(x),
            _ => self.library(function.c_name(), &[x]),
        }
    }

    pub(super) fn is_double(self, x: Value<'c>) -> bool {
        self.builder.element_type_of(x.r#type()) == melior::ir::Type::float64(self.builder.context())
    }

    /// Calls the private function of `name` for the operands' type, which `body` defines on its first use in a module.
    fn outlined(
        self,
        name: &str,
        operands: &[Value<'c>],
        body: impl FnOnce(Math<'_, 'c>, &[Value<'c>]) -> Value<'c>,
    ) -> Value<'c> {
        let r#type = operands[0].r#type();
        let width = self.builder.lanes_of(r#type).map_or(String::new(), |lanes| format!("v{lanes}"));
        let element = if self.is_double(operands[0]) { "f64" } else { "f32" };
        let symbol = format!("math_{name}_{width}{element}");
        let types = vec![r#type; operands.len()];
        self.builder.define_once(&symbol, |builder| {
            let Ok(()) = builder.function(&symbol, &types, &[r#type], &[builder.private()], |builder, function| {
                let result = body(Math { builder, target: self.target }, &function.parameters());
                builder.effect("func.return", &[result], &[]);
                Ok::<_, Infallible>(())
            });
        });
        self.builder.call_value(&symbol, operands, r#type)
    }
}

impl Unary {
    /// The name in C's `math.h` of the `double` function, or of the one it is made from.
    fn c_name(self) -> &'static str {
        match self {
            Self::Acos => "acos",
            Self::Acosh => "acosh",
            Self::Asin => "asin",
            Self::Asinh => "asinh",
            Self::Atan => "atan",
            Self::Atanh => "atanh",
            Self::Cbrt => "cbrt",
            Self::Cos => "cos",
            Self::Cosh => "cosh",
            Self::Erf => "erf",
            Self::Exp | Self::Logistic => "exp",
            Self::Expm1 => "expm1",
            Self::Log => "log",
            Self::Log1p => "log1p",
            Self::Sin => "sin",
            Self::Sinh => "sinh",
            Self::Sqrt | Self::Rsqrt => "sqrt",
            Self::Tan => "tan",
            Self::Tanh => "tanh",
        }
    }
}
