//! Rust's operators on [`Op`]s, with another value or a number on either side.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::{Op, Operand};
use crate::element_type::ElementClass;
use crate::shape::Shape;

macro_rules! operators {
    ($($operator:ident, $function:ident => $method:ident;)*) => {
        $(
            impl<'b, T: Operand<'b>> $operator<T> for Op<'b> {
                type Output = Op<'b>;

                #[track_caller]
                fn $function(self, other: T) -> Op<'b> {
                    self.builder().$method(self, other.beside(self), &[])
                }
            }

            impl<'b> $operator<Op<'b>> for f64 {
                type Output = Op<'b>;

                #[track_caller]
                fn $function(self, other: Op<'b>) -> Op<'b> {
                    other.builder().$method(self.beside(other), other, &[])
                }
            }

            impl<'b> $operator<Op<'b>> for i64 {
                type Output = Op<'b>;

                #[track_caller]
                fn $function(self, other: Op<'b>) -> Op<'b> {
                    other.builder().$method(self.beside(other), other, &[])
                }
            }
        )*
    };
}

operators! {
    Add, add => add;
    Sub, sub => sub;
    Mul, mul => mul;
    Div, div => div;
    Rem, rem => rem;
    BitAnd, bitand => and;
    BitOr, bitor => or;
    BitXor, bitxor => xor;
    Shl, shl => shift_left;
}

impl<'b, T: Operand<'b>> Shr<T> for Op<'b> {
    type Output = Op<'b>;

    /// Shifts right, keeping the sign of signed integers as in Rust.
    #[track_caller]
    fn shr(self, other: T) -> Op<'b> {
        let amount = other.beside(self);
        let is_signed = self.shape().is_ok_and(
            |shape| matches!(&shape, Shape::Array(array) if array.element_type.class() == ElementClass::Signed),
        );
        if is_signed {
            self.builder().shift_right_arithmetic(self, amount, &[])
        } else {
            self.builder().shift_right_logical(self, amount, &[])
        }
    }
}

impl<'b> Neg for Op<'b> {
    type Output = Op<'b>;

    #[track_caller]
    fn neg(self) -> Op<'b> {
        self.builder().neg(self)
    }
}

impl<'b> Not for Op<'b> {
    type Output = Op<'b>;

    #[track_caller]
    fn not(self) -> Op<'b> {
        self.builder().not(self)
    }
}
