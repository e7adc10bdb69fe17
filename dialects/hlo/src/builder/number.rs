//! Plain numbers as operands: they take the element type of the value they meet.

use std::fmt;

use super::{Fault, Op};
use crate::element_type::{ElementClass, ElementType};
use crate::literal::{ArrayLiteral, Literal};
use crate::scalar::{Scalar, load, store};
use crate::shape::ArrayShape;

/// A number of Rust's source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Number::Integer(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number::Float(value)
    }
}

impl Number {
    /// The number as a scalar: floats are rounded, integers must be held exactly, and there is none for `pred`.
    pub(super) fn literal(self, element_type: ElementType) -> Result<Literal, Fault> {
        let refused = || Fault::Number { number: self, element_type };
        let scalar = match (element_type.class(), self) {
            (ElementClass::Predicate, _) => return Err(refused()),
            (ElementClass::Float | ElementClass::Complex, Number::Float(value)) => Scalar::Float(value),
            (ElementClass::Float | ElementClass::Complex, Number::Integer(value)) => Scalar::Float(value as f64),
            (ElementClass::Signed | ElementClass::Unsigned, Number::Integer(value)) => Scalar::Signed(value),
            (ElementClass::Signed | ElementClass::Unsigned, Number::Float(value)) => {
                let integer = value as i64;
                if integer as f64 != value {
                    return Err(refused());
                }
                Scalar::Signed(integer)
            }
        };
        let mut literal = ArrayLiteral::zeros(ArrayShape::new(element_type, []))?;
        store(element_type, literal.bytes_mut(), 0, scalar);
        if let Scalar::Signed(value) = scalar {
            // What wraps around is not the number that was written.
            let held = match load(element_type, literal.bytes(), 0) {
                Scalar::Unsigned(held) => i128::from(held),
                held => i128::from(held.to_index()),
            };
            if held != i128::from(value) {
                return Err(refused());
            }
        }
        Ok(literal.into())
    }
}

/// What a method of [`Op`] takes besides itself: a value, or a number of the value's type.
pub trait Operand<'b> {
    /// The operand beside `other`.
    #[track_caller]
    fn beside(self, other: Op<'b>) -> Op<'b>;
}

impl<'b> Operand<'b> for Op<'b> {
    fn beside(self, _other: Op<'b>) -> Op<'b> {
        self
    }
}

macro_rules! number_operands {
    ($($number:ty),*) => {
        $(
            impl<'b> Operand<'b> for $number {
                #[track_caller]
                fn beside(self, other: Op<'b>) -> Op<'b> {
                    other.builder().number_like(other, self)
                }
            }
        )*
    };
}

number_operands!(i64, f64);
