//! `get-dimension-size`: the run-time size of a dimension, as s32.
//!
//! Source: operation semantics, "GetDimensionSize".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `get-dimension-size`.
    pub struct GetDimensionSizeAttributes {
        /// The dimension whose size is asked for.
        required dimensions ["C1"]: Dimension,
    }
}

/// Definition of `get-dimension-size`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::GetDimensionSize,
    Arity::Exactly(1),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(GetDimensionSizeAttributes::TABLE);

/// - C1: `dimensions` names one dimension of the operand.
/// - C2: the size (or bound) fits s32.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let GetDimensionSizeAttributes { dimensions } = view.attributes()?;
    let operand = view.array(0)?;
    let dimension = view.dimension_index(Some("C1"), "dimensions", dimensions.0, operand.rank())?;
    let size = operand.dimensions[dimension];
    if size > i64::from(i32::MAX) {
        let message = format!("must have a size of at most {} in dimension {dimension}, got {size}", i32::MAX);
        return Err(view.operand_error(Some("C2"), 0, message));
    }
    Ok(Shape::scalar(ElementType::S32))
}
