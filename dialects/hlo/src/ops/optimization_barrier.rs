//! `opt-barrier`: the operand; no optimisation moves or merges work across it.
//!
//! Source: operation semantics, "OptimizationBarrier".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `opt-barrier`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::OptimizationBarrier, Arity::Exactly(1), OpClass::Structural, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.operand(0).cloned()
}
