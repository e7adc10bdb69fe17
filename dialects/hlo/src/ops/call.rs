//! `call`: a function applied to the operands.
//!
//! Source: operation semantics, "Call".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `call`.
    pub struct CallAttributes {
        /// The callee is an operation of a higher level, decomposed.
        optional is_composite: bool = false,
    }
}

/// Definition of `call`. The callee counts as its computation.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Call,
    Arity::AtLeast(0),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Replaced, Effects::OfCallee, ElementCost::Whole),
    infer_shape,
)
.with_attributes(CallAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: the operands are the function's arguments.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.arguments(Some("C1"), 0, view.operands)?;
    Ok(view.computation(0)?.result.clone())
}
