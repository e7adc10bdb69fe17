//! The handle of a value, with the operations that read best as methods.

use std::fmt;
use std::ptr;

use super::{BuildError, Fault, HloBuilder, Operand};
use crate::element_type::ElementType;
use crate::graph::InstructionId;
use crate::shape::Shape;
use std::panic::Location;

/// A value of a computation under construction: a handle that is copied freely.
///
/// Operators (`+ - * / % & | ^ << >>`, `-x`, `!x`) work between values and with plain numbers on either side, which take the
/// value's element type. Every operation is a method of [`HloBuilder`]; the common ones are methods here too.
#[derive(Clone, Copy)]
pub struct Op<'b> {
    builder: &'b HloBuilder,
    /// `None` where making the value failed.
    id: Option<InstructionId>,
}

impl<'b> Op<'b> {
    pub(super) fn new(builder: &'b HloBuilder, id: Option<InstructionId>) -> Self {
        Op { builder, id }
    }

    pub(super) fn id(self) -> Option<InstructionId> {
        self.id
    }

    pub(super) fn is_of(self, builder: &HloBuilder) -> bool {
        ptr::eq(self.builder, builder)
    }

    /// The builder of the computation that the value belongs to.
    pub fn builder(self) -> &'b HloBuilder {
        self.builder
    }

    /// The value's shape.
    ///
    /// # Errors
    /// If making the value failed; the reason is among the builder's errors.
    #[track_caller]
    pub fn shape(self) -> Result<Shape, BuildError> {
        let failed = BuildError { location: Location::caller(), fault: Fault::NoValue };
        let id = self.id.ok_or(failed)?;
        Ok(self.builder.parts.borrow().instructions[id.index()].shape.clone())
    }

    /// Element `index` of a tuple.
    #[track_caller]
    pub fn get(self, index: i64) -> Op<'b> {
        self.builder.get_tuple_element(self, index)
    }

    /// The same elements under other dimensions.
    #[track_caller]
    pub fn reshape(self, sizes: &[i64]) -> Op<'b> {
        self.builder.reshape(self, sizes)
    }

    /// The dimensions permuted: result dimension i is dimension `permutation[i]`.
    #[track_caller]
    pub fn transpose(self, permutation: &[i64]) -> Op<'b> {
        self.builder.transpose(self, permutation)
    }

    /// The elements converted by value.
    #[track_caller]
    pub fn convert(self, element_type: ElementType) -> Op<'b> {
        self.builder.convert_element_type(self, element_type)
    }

    /// The elements between two bounds.
    #[track_caller]
    pub fn clamp(self, low: impl Operand<'b>, high: impl Operand<'b>) -> Op<'b> {
        self.builder.clamp(low.beside(self), self, high.beside(self))
    }

    /// Where this `pred` is true, elements of one value, elsewhere of the other.
    #[track_caller]
    pub fn select(self, on_true: Op<'b>, on_false: impl Operand<'b>) -> Op<'b> {
        self.builder.select(self, on_true, on_false.beside(on_true))
    }

    /// The product of matrices or vectors.
    #[track_caller]
    pub fn dot(self, rhs: Op<'b>) -> Op<'b> {
        self.builder.dot(self, rhs)
    }
}

macro_rules! unary_methods {
    ($($(#[$documentation:meta])* $method:ident;)*) => {
        impl<'b> Op<'b> {
            $(
                $(#[$documentation])*
                #[track_caller]
                pub fn $method(self) -> Op<'b> {
                    self.builder.$method(self)
                }
            )*
        }
    };
}

unary_methods! {
    /// Absolute value.
    abs;
    /// Cube root.
    cbrt;
    /// Least integer that is not less.
    ceil;
    /// Cosine.
    cos;
    /// Error function.
    erf;
    /// Exponential.
    exp;
    /// exp(x) - 1.
    expm1;
    /// Greatest integer that is not greater.
    floor;
    /// Imaginary part.
    imag;
    /// Whether neither infinite nor NaN.
    is_finite;
    /// Natural logarithm.
    log;
    /// log(1 + x).
    log1p;
    /// 1 / (1 + exp(-x)).
    logistic;
    /// Real part.
    real;
    /// Nearest integer, ties away from zero.
    round;
    /// Nearest integer, ties to even.
    round_nearest_even;
    /// 1 / sqrt(x).
    rsqrt;
    /// Sign: -1, 0 or 1.
    sign;
    /// Sine.
    sin;
    /// Square root.
    sqrt;
    /// Tangent.
    tan;
    /// Hyperbolic tangent.
    tanh;
}

macro_rules! binary_methods {
    ($($(#[$documentation:meta])* $method:ident;)*) => {
        impl<'b> Op<'b> {
            $(
                $(#[$documentation])*
                #[track_caller]
                pub fn $method(self, other: impl Operand<'b>) -> Op<'b> {
                    self.builder.$method(self, other.beside(self), &[])
                }
            )*
        }
    };
}

binary_methods! {
    /// The angle of the point (other, self).
    atan2;
    /// The greater.
    max;
    /// The less.
    min;
    /// The power with exponent `other`.
    pow;
    /// Whether equal, as `pred`.
    eq;
    /// Whether not equal, as `pred`.
    ne;
    /// Whether greater or equal, as `pred`.
    ge;
    /// Whether greater, as `pred`.
    gt;
    /// Whether less or equal, as `pred`.
    le;
    /// Whether less, as `pred`.
    lt;
}

impl fmt::Debug for Op<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.id, self.shape()) {
            (Some(id), Ok(shape)) => write!(f, "Op({}: {shape})", id.0),
            _ => f.write_str("Op(no value)"),
        }
    }
}
