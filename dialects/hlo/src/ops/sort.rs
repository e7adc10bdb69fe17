//! `sort`: sorts one or several arrays together along a dimension.
//!
//! Source: operation semantics, "Sort".

use super::ComputationKey::One;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::signatures::bare_or_tuple;
use super::typed_attributes::{Dimension, OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `sort`.
    pub struct SortAttributes {
        /// The dimension along which the elements are sorted.
        required dimensions ["C2"]: Dimension,
        /// Elements that are equal keep their order.
        optional is_stable: bool = false,
    }
}

/// Definition of `sort`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Sort,
    Arity::AtLeast(1),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(SortAttributes::TABLE)
.with_computations(&[One("to_apply")]);

/// - C1: the operands have the same dimensions.
/// - C2: `dimensions` names one dimension of the operands.
/// - C3: the computation compares one element of each operand with another.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let merged = view.merged_dimensions(Some("C1"), &(0..view.operands.len()).collect::<Vec<_>>())?;
    let SortAttributes { dimensions, .. } = view.attributes()?;
    view.dimension_index(Some("C2"), "dimensions", dimensions.0, merged.rank())?;
    let element_types: Vec<ElementType> =
        (0..view.operands.len()).map(|index| view.array(index).map(|a| a.element_type)).collect::<Result<_, _>>()?;
    view.comparator(Some("C3"), 0, &element_types)?;
    Ok(bare_or_tuple(element_types.iter().map(|&t| merged.with_element_type(t).into()).collect()))
}
