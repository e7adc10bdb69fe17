//! `elementwise_binary`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Add`.
pub static ADD: OpDefinition = OpDefinition::new(OpKind::Add, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `And`.
pub static AND: OpDefinition = OpDefinition::new(OpKind::And, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Atan2`.
pub static ATAN2: OpDefinition = OpDefinition::new(OpKind::Atan2, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Complex`.
pub static COMPLEX: OpDefinition =
    OpDefinition::new(OpKind::Complex, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Divide`.
pub static DIVIDE: OpDefinition =
    OpDefinition::new(OpKind::Divide, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Maximum`.
pub static MAXIMUM: OpDefinition =
    OpDefinition::new(OpKind::Maximum, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Minimum`.
pub static MINIMUM: OpDefinition =
    OpDefinition::new(OpKind::Minimum, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Multiply`.
pub static MULTIPLY: OpDefinition =
    OpDefinition::new(OpKind::Multiply, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Or`.
pub static OR: OpDefinition = OpDefinition::new(OpKind::Or, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Power`.
pub static POWER: OpDefinition = OpDefinition::new(OpKind::Power, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Remainder`.
pub static REMAINDER: OpDefinition =
    OpDefinition::new(OpKind::Remainder, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `ShiftLeft`.
pub static SHIFT_LEFT: OpDefinition =
    OpDefinition::new(OpKind::ShiftLeft, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `ShiftRightArithmetic`.
pub static SHIFT_RIGHT_ARITHMETIC: OpDefinition =
    OpDefinition::new(OpKind::ShiftRightArithmetic, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `ShiftRightLogical`.
pub static SHIFT_RIGHT_LOGICAL: OpDefinition =
    OpDefinition::new(OpKind::ShiftRightLogical, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Subtract`.
pub static SUBTRACT: OpDefinition =
    OpDefinition::new(OpKind::Subtract, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

/// Definition of `Xor`.
pub static XOR: OpDefinition = OpDefinition::new(OpKind::Xor, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
