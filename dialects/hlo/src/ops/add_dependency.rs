//! `add_dependency`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `AddDependency`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::AddDependency, Arity::Exactly(2), OpClass::Structural, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
