//! `concatenate`: joins arrays along a dimension.
//!
//! Source: operation semantics, "Concatenate".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `concatenate`.
    pub struct ConcatenateAttributes {
        /// The dimension along which the operands are joined.
        required dimensions ["C1"]: Dimension,
    }
}

/// Definition of `concatenate`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Concatenate,
    Arity::AtLeast(1),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(ConcatenateAttributes::TABLE);

/// - C1: `dimensions` names one dimension of the operands.
/// - C2: the operands have the same element type.
/// - C3: the operands have the same rank, and the same sizes in all other dimensions.
/// - C4: the joined size does not overflow.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let ConcatenateAttributes { dimensions } = view.attributes()?;
    let first = view.array(0)?;
    let dimension = view.dimension_index(Some("C1"), "dimensions", dimensions.0, first.rank())?;
    let mut result = first.clone();
    for index in 1..view.operands.len() {
        view.same_element_type(Some("C2"), 0, index)?;
        let operand = view.array(index)?;
        let same_elsewhere = operand.rank() == first.rank()
            && (0..first.rank())
                .all(|other| other == dimension || operand.dimensions[other] == first.dimensions[other]);
        if !same_elsewhere {
            let message =
                format!("must have the dimensions of operand 0, {first}, but for dimension {dimension}, got {operand}");
            return Err(view.operand_error(Some("C3"), index, message));
        }
        result.dimensions[dimension] =
            result.dimensions[dimension].checked_add(operand.dimensions[dimension]).ok_or_else(|| {
                view.operand_error(Some("C4"), index, format!("makes the size of dimension {dimension} overflow"))
            })?;
        for other in 0..operand.rank() {
            if operand.is_dynamic_dimension(other) {
                result.set_dynamic_dimension(other, true);
            }
        }
    }
    Ok(result.into())
}
