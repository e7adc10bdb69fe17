//! `opt-barrier`: the operand; no optimisation moves or merges work across it.
//!
//! Source: operation semantics, "OptimizationBarrier".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `opt-barrier`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::OptimizationBarrier,
    Arity::Exactly(1),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.operand(0).cloned()
}
