//! `domain`: the operand; marks a border between shardings.
//!
//! Source: XLA's verifier. `domain` (kind, entry, exit) is carried, not interpreted.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `domain`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Domain, Arity::Exactly(1), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("domain", AttributeForm::Raw)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.operand(0).cloned()
}
