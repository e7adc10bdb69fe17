//! `iota`: counts from 0 along a dimension.
//!
//! Source: operation semantics, "Iota"; the result shape is the declared one.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `iota`.
    pub struct IotaAttributes {
        /// The dimension that is counted along.
        required iota_dimension: i64,
    }
}

/// Definition of `iota`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Iota,
    Arity::Exactly(0),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(IotaAttributes::TABLE);

/// - C1: `iota_dimension` is a dimension of the result.
/// - C2: the element type is not pred.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let result = view.declared_array()?;
    let IotaAttributes { iota_dimension } = view.attributes()?;
    view.dimension_index(Some("C1"), "iota_dimension", iota_dimension, result.rank())?;
    if result.element_type == ElementType::Pred {
        return Err(view.error(Some("C2"), "the result must have an arithmetic element type, got pred".to_string()));
    }
    Ok(result.clone().into())
}
