//! `reshape`: the same elements in row-major order under other dimensions.
//!
//! Source: operation semantics, "Reshape", "Collapse"; the result shape is the declared one.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `reshape`.
    pub struct ReshapeAttributes {
        /// The dimension whose run-time size follows from the others; -1 is XLA's value for none.
        optional inferred_dimension: Option<i64> = None,
    }
}

/// Definition of `reshape`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Reshape,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(ReshapeAttributes::TABLE);

/// - C1: operand and result have the same number of elements, dynamic dimensions counted at their bounds.
/// - C2: `inferred_dimension` is a dimension of the result.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, result) = (view.array(0)?, view.declared_array()?);
    let (expected, found) = (operand.element_count(), result.element_count());
    if expected != found {
        let message = format!("the result must have the {expected} elements of {operand}, got {result} of {found}");
        return Err(view.error(Some("C1"), message));
    }
    let ReshapeAttributes { inferred_dimension } = view.attributes()?;
    if let Some(dimension) = inferred_dimension.filter(|&dimension| dimension != -1) {
        view.dimension_index(Some("C2"), "inferred_dimension", dimension, result.rank())?;
    }
    Ok(result.with_element_type(operand.element_type).into())
}
