//! `dynamic_update_slice`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `DynamicUpdateSlice`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::DynamicUpdateSlice, Arity::AtLeast(2), OpClass::Indexed, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
