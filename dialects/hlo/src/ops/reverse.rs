//! `reverse`: reverses the order of the elements along dimensions.
//!
//! Source: operation semantics, "Rev (reverse)".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `reverse`.
    pub struct ReverseAttributes<'a> {
        /// The dimensions that are reversed.
        required dimensions: &'a [i64],
    }
}

/// Definition of `reverse`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Reverse,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::View, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(ReverseAttributes::TABLE);

/// - C1: each entry of `dimensions` is a dimension of the operand.
/// - C2: no entry repeats.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let ReverseAttributes { dimensions } = view.attributes()?;
    view.dimension_indices(Some("C1"), "dimensions", dimensions, operand.rank())?;
    view.distinct(Some("C2"), "dimensions", dimensions, false)?;
    Ok(operand.clone().into())
}
