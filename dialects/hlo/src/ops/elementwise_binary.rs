//! Elementwise operations of two operands, as a table: the element types each accepts.
//!
//! Source: operation semantics, "Element-wise binary arithmetic operations". HLO has no implicit broadcast:
//! `broadcast_dimensions` of the builder documents are explicit broadcasts before the operation.

use super::element_classes::{ANY, ARITHMETIC, COMPLEX_OR_FLOAT, Classes, FLOAT, INTEGER, LOGICAL, ORDERED};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

macro_rules! binary {
    ($($name:ident = $kind:ident($accepts:expr);)*) => {
        $(
            #[doc = concat!("Definition of `", stringify!($kind), "`.")]
            pub static $name: OpDefinition =
                OpDefinition::new(OpKind::$kind, Arity::Exactly(2), OpClass::Elementwise, |view| {
                    infer_shape(view, &$accepts)
                });
        )*
    };
}

binary! {
    ADD = Add(ANY);
    AND = And(LOGICAL);
    ATAN2 = Atan2(COMPLEX_OR_FLOAT);
    COMPLEX = Complex(FLOAT);
    DIVIDE = Divide(ARITHMETIC);
    MAXIMUM = Maximum(ANY);
    MINIMUM = Minimum(ANY);
    MULTIPLY = Multiply(ANY);
    OR = Or(LOGICAL);
    POWER = Power(ARITHMETIC);
    REMAINDER = Remainder(ORDERED);
    SHIFT_LEFT = ShiftLeft(INTEGER);
    SHIFT_RIGHT_ARITHMETIC = ShiftRightArithmetic(INTEGER);
    SHIFT_RIGHT_LOGICAL = ShiftRightLogical(INTEGER);
    SUBTRACT = Subtract(ARITHMETIC);
    XOR = Xor(LOGICAL);
}

/// - C1: the element type is one the operation is defined on.
/// - C2: both operands have the same element type.
/// - C3: both operands have the same dimensions.
/// - C4: the parts of `complex` are f32 or f64.
fn infer_shape(view: &OpView<'_>, accepts: Classes) -> Result<Shape, OpError> {
    view.element_class(Some("C1"), 0, accepts)?;
    let element_type = view.same_element_type(Some("C2"), 0, 1)?;
    let merged = view.merged_dimensions(Some("C3"), &[0, 1])?;
    if view.kind != OpKind::Complex {
        return Ok(merged.into());
    }
    match element_type.complex_of() {
        Some(complex) => Ok(merged.with_element_type(complex).into()),
        None => {
            Err(view.operand_error(Some("C4"), 0, format!("must have element type f32 or f64, got {element_type}")))
        }
    }
}
