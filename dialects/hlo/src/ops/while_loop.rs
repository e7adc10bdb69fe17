//! `while`: a body applied to its own result as long as a condition holds.
//!
//! Source: operation semantics, "While".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::{ProgramShape, Shape};

/// Definition of `while`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::While,
    Arity::Exactly(1),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Branches, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_computations(&[One("condition"), One("body")]);

/// - C1: the condition takes the operand and returns a scalar pred.
/// - C2: the body takes the operand and returns the operand's shape.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let state = view.operand(0)?;
    let predicate = Shape::scalar(ElementType::Pred);
    view.signature(Some("C1"), 0, &ProgramShape { parameters: vec![state.clone()], result: predicate })?;
    view.signature(Some("C2"), 1, &ProgramShape { parameters: vec![state.clone()], result: state.clone() })?;
    Ok(state.clone())
}
