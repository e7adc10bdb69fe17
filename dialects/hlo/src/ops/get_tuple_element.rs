//! `get-tuple-element`: one element of a tuple.
//!
//! Source: operation semantics, "GetTupleElement".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `get-tuple-element`.
    pub struct GetTupleElementAttributes {
        /// Position of the element.
        required index: i64,
    }
}

/// Definition of `get-tuple-element`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::GetTupleElement,
    Arity::Exactly(1),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(GetTupleElementAttributes::TABLE);

/// - C1: the operand is a tuple.
/// - C2: `index` is the position of an element.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let elements = view.tuple(Some("C1"), 0, 0)?;
    let GetTupleElementAttributes { index } = view.attributes()?;
    match usize::try_from(index).ok().and_then(|index| elements.get(index)) {
        Some(element) => Ok(element.clone()),
        None => {
            Err(view.attribute_error(Some("C2"), "index", format!("must be in 0..{}, got {index}", elements.len())))
        }
    }
}
