//! `optimization_barrier`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `OptimizationBarrier`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::OptimizationBarrier, Arity::AtLeast(1), OpClass::Structural, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
