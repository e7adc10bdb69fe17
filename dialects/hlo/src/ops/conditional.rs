//! `conditional`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Conditional`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Conditional, Arity::AtLeast(2), OpClass::Control, infer_shape).with_computations(&[
        "true_computation?",
        "false_computation?",
        "branch_computations*",
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
