//! `topk`: the k largest (or smallest) elements of the last dimension in order, and their indices.
//!
//! Source: XLA's shape inference.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `topk`. XLA's reader takes a missing `largest` for true.
pub static DEFINITION: OpDefinition = OpDefinition::new(OpKind::TopK, Arity::Exactly(1), OpClass::Library, infer_shape)
    .with_attributes(&[
        AttributeSpec::required("k", AttributeForm::Int),
        AttributeSpec::optional("largest", AttributeForm::Bool),
    ]);

/// - C1: the operand has a last dimension.
/// - C2: 0 <= k <= size of the last dimension.
/// - C3: the elements have an order.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let Some(&size) = operand.dimensions.last() else {
        return Err(view.operand_error(Some("C1"), 0, format!("must have at least one dimension, got {operand}")));
    };
    let k = view.attributes.int("k").unwrap_or_default();
    if k < 0 || k > size {
        return Err(view.attribute_error(Some("C2"), "k", format!("must be in 0..={size}, got {k}")));
    }
    if operand.element_type.is_complex() {
        let message = format!("must have an ordered element type, got {}", operand.element_type);
        return Err(view.operand_error(Some("C3"), 0, message));
    }
    let last = operand.rank() - 1;
    let mut values = operand.clone();
    values.dimensions[last] = k;
    values.set_dynamic_dimension(last, false);
    let indices = values.with_element_type(ElementType::S32);
    Ok(Shape::Tuple(vec![values.into(), indices.into()]))
}
