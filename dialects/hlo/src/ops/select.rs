//! `select`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Select`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Select, Arity::Exactly(3), OpClass::Elementwise, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
