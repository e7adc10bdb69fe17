//! `set-dimension-size(operand, size)`: gives a dimension a run-time size; the static size becomes its bound.
//!
//! Source: operation semantics, "SetDimensionSize".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `set-dimension-size`.
    pub struct SetDimensionSizeAttributes {
        /// The dimension whose size is set.
        required dimensions ["C1"]: Dimension,
    }
}

/// Definition of `set-dimension-size`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::SetDimensionSize,
    Arity::Exactly(2),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(SetDimensionSizeAttributes::TABLE);

/// - C1: `dimensions` names one dimension of the operand.
/// - C2: the size is an s32 scalar.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let SetDimensionSizeAttributes { dimensions } = view.attributes()?;
    let (operand, size) = (view.array(0)?, view.array(1)?);
    let dimension = view.dimension_index(Some("C1"), "dimensions", dimensions.0, operand.rank())?;
    if size.rank() != 0 || size.element_type != ElementType::S32 {
        return Err(view.operand_error(Some("C2"), 1, format!("must be an s32 scalar, got {size}")));
    }
    let mut result = operand.clone();
    result.set_dynamic_dimension(dimension, true);
    Ok(result.into())
}
