//! `topk`: the k largest (or smallest) elements of the last dimension in order, and their indices.
//!
//! Source: XLA's shape inference.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `topk`.
    pub struct TopKAttributes {
        /// The number of elements.
        required k: i64,
        /// The largest elements, else the smallest.
        written largest: bool = true,
    }
}

/// Definition of `topk`. XLA's reader takes a missing `largest` for true.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::TopK,
    Arity::Exactly(1),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(TopKAttributes::TABLE);

/// - C1: the operand has a last dimension.
/// - C2: 0 <= k <= size of the last dimension.
/// - C3: the elements have an order.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let Some(&size) = operand.dimensions.last() else {
        return Err(view.operand_error(Some("C1"), 0, format!("must have at least one dimension, got {operand}")));
    };
    let TopKAttributes { k, .. } = view.attributes()?;
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
