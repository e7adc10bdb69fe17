//! Elementwise operations of two operands, as a table: the element types each accepts, and its cost.
//!
//! Source: operation semantics, "Element-wise binary arithmetic operations". HLO has no implicit broadcast:
//! `broadcast_dimensions` of the builder documents are explicit broadcasts before the operation.

use super::element_classes::{ANY, ARITHMETIC, COMPLEX_OR_FLOAT, Classes, FLOAT, INTEGER, LOGICAL, ORDERED};
use super::facets::{ElementCost, Facets};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

macro_rules! binary {
    ($($name:ident = $kind:ident($accepts:expr) $cost:ident;)*) => {
        $(
            #[doc = concat!("Definition of `", stringify!($kind), "`.")]
            pub static $name: OpDefinition =
                OpDefinition::new(OpKind::$kind, Arity::Exactly(2), Facets::elementwise(ElementCost::$cost), |view| {
                    infer_shape(view, &$accepts)
                });
        )*
    };
}

binary! {
    ADD = Add(ANY) Simple;
    AND = And(LOGICAL) Simple;
    ATAN2 = Atan2(COMPLEX_OR_FLOAT) Transcendental;
    COMPLEX = Complex(FLOAT) Simple;
    DIVIDE = Divide(ARITHMETIC) Division;
    MAXIMUM = Maximum(ANY) Simple;
    MINIMUM = Minimum(ANY) Simple;
    MULTIPLY = Multiply(ANY) Simple;
    OR = Or(LOGICAL) Simple;
    POWER = Power(ARITHMETIC) Transcendental;
    REMAINDER = Remainder(ORDERED) Division;
    SHIFT_LEFT = ShiftLeft(INTEGER) Simple;
    SHIFT_RIGHT_ARITHMETIC = ShiftRightArithmetic(INTEGER) Simple;
    SHIFT_RIGHT_LOGICAL = ShiftRightLogical(INTEGER) Simple;
    SUBTRACT = Subtract(ARITHMETIC) Simple;
    XOR = Xor(LOGICAL) Simple;
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
