//! `get-tuple-element`: one element of a tuple.
//!
//! Source: operation semantics, "GetTupleElement".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `get-tuple-element`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::GetTupleElement, Arity::Exactly(1), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("index", AttributeForm::Int)]);

/// - C1: the operand is a tuple.
/// - C2: `index` is the position of an element.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let elements = view.tuple(Some("C1"), 0, 0)?;
    let index = view.attributes.int("index").unwrap_or_default();
    match usize::try_from(index).ok().and_then(|index| elements.get(index)) {
        Some(element) => Ok(element.clone()),
        None => {
            Err(view.attribute_error(Some("C2"), "index", format!("must be in 0..{}, got {index}", elements.len())))
        }
    }
}
