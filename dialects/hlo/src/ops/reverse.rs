//! `reverse`: reverses the order of the elements along dimensions.
//!
//! Source: operation semantics, "Rev (reverse)".

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `reverse`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Reverse, Arity::Exactly(1), OpClass::Indexed, infer_shape)
        .with_attributes(&[AttributeSpec::required("dimensions", AttributeForm::Ints)]);

/// - C1: each entry of `dimensions` is a dimension of the operand.
/// - C2: no entry repeats.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let dimensions = view.attributes.ints("dimensions");
    view.dimension_indices(Some("C1"), "dimensions", dimensions, operand.rank())?;
    view.distinct(Some("C2"), "dimensions", dimensions, false)?;
    Ok(operand.clone().into())
}
