//! `compare`: elementwise comparison, as `pred`.
//!
//! Source: operation semantics, "Element-wise comparison operations".

use super::enumerations::{ComparisonDirection, ComparisonType};
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::{ElementClass, ElementType};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `compare`.
    pub struct CompareAttributes {
        /// The relation.
        required direction ["C3"]: ComparisonDirection,
        /// The order; that of the element type where absent.
        optional r#type ["C4"]: Option<ComparisonType> = None,
    }
}

/// Definition of `compare`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Compare,
    Arity::Exactly(2),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Simple),
    infer_shape,
)
.with_attributes(CompareAttributes::TABLE);

/// - C1: both operands have the same element type.
/// - C2: both operands have the same dimensions.
/// - C3: `direction` is one of EQ, NE, GE, GT, LE, LT.
/// - C4: `type` is one of FLOAT, TOTALORDER, SIGNED, UNSIGNED.
/// - C5: complex numbers have no order: only EQ and NE.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let element_type = view.same_element_type(Some("C1"), 0, 1)?;
    let merged = view.merged_dimensions(Some("C2"), &[0, 1])?;
    let CompareAttributes { direction, .. } = view.attributes()?;
    if element_type.is_complex() && !matches!(direction, ComparisonDirection::Eq | ComparisonDirection::Ne) {
        let message = format!("must be EQ or NE for {element_type} operands, got {direction}");
        return Err(view.attribute_error(Some("C5"), "direction", message));
    }
    Ok(merged.with_element_type(ElementType::Pred).into())
}

impl CompareAttributes {
    /// The order that a comparison of `element_type` uses: its `type`, or the element type's own.
    pub fn order(&self, element_type: ElementType) -> ComparisonType {
        self.r#type.unwrap_or(match element_type.class() {
            ElementClass::Float | ElementClass::Complex => ComparisonType::Float,
            ElementClass::Signed => ComparisonType::Signed,
            ElementClass::Unsigned | ElementClass::Predicate => ComparisonType::Unsigned,
        })
    }
}
