//! `copy`, and `copy-start` / `copy-done`, which run as one copy.
//!
//! Source: XLA's verifier.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `copy-start`.
    pub struct CopyStartAttributes {
        /// The number of a copy that another program makes ahead.
        optional cross_program_prefetch_index: Option<i64> = None,
    }
}

/// Definition of `copy`.
pub static COPY: OpDefinition = OpDefinition::new(
    OpKind::Copy,
    Arity::Exactly(1),
    Facets::new(OpClass::Elementwise, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    |view| view.operand(0).cloned(),
);

/// Definition of `copy-start(operand)` -> (copy, operand, context).
pub static COPY_START: OpDefinition = OpDefinition::new(
    OpKind::CopyStart,
    Arity::Exactly(1),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Free),
    infer_start,
)
.with_attributes(CopyStartAttributes::TABLE);

/// Definition of `copy-done`.
pub static COPY_DONE: OpDefinition = OpDefinition::new(
    OpKind::CopyDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Free),
    infer_done,
);

fn infer_start(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.operand(0)?;
    Ok(Shape::Tuple(vec![operand.clone(), operand.clone(), Shape::scalar(ElementType::U32)]))
}

/// - C1: the operand is the tuple (copy, original, context) of a copy-start.
fn infer_done(view: &OpView<'_>) -> Result<Shape, OpError> {
    let elements = view.tuple(Some("C1"), 0, 3)?;
    match elements {
        [copy, original, _] if super::same_sizes_and_types(copy, original) => Ok(copy.clone()),
        _ => {
            let message = format!("must be the result of a copy-start, got {}", view.operand(0)?);
            Err(view.operand_error(Some("C1"), 0, message))
        }
    }
}
