//! `domain`: the operand; marks a border between shardings.
//!
//! Source: XLA's verifier. `domain` (kind, entry, exit) is carried, not interpreted.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, Raw, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `domain`.
    pub struct DomainAttributes<'a> {
        /// Kind, entry and exit of the domain.
        required domain: Raw<'a>,
    }
}

/// Definition of `domain`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Domain,
    Arity::Exactly(1),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(DomainAttributes::TABLE);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.operand(0).cloned()
}
