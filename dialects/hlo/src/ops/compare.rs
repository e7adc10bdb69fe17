//! `compare`: elementwise comparison, as `pred`.
//!
//! Source: operation semantics, "Element-wise comparison operations".

use super::enumerations::{ComparisonDirection, ComparisonType};
use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec, Attributes};
use crate::element_type::{ElementClass, ElementType};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `compare`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::Compare, Arity::Exactly(2), OpClass::Elementwise, infer_shape).with_attributes(&[
        AttributeSpec::required("direction", AttributeForm::Word),
        AttributeSpec::optional("type", AttributeForm::Word),
    ]);

/// - C1: both operands have the same element type.
/// - C2: both operands have the same dimensions.
/// - C3: `direction` is one of EQ, NE, GE, GT, LE, LT.
/// - C4: `type` is one of FLOAT, TOTALORDER, SIGNED, UNSIGNED.
/// - C5: complex numbers have no order: only EQ and NE.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let element_type = view.same_element_type(Some("C1"), 0, 1)?;
    let merged = view.merged_dimensions(Some("C2"), &[0, 1])?;
    let direction: ComparisonDirection = view.word(Some("C3"), "direction")?;
    if view.attributes.get("type").is_some() {
        view.word::<ComparisonType>(Some("C4"), "type")?;
    }
    if element_type.is_complex() && !matches!(direction, ComparisonDirection::Eq | ComparisonDirection::Ne) {
        let message = format!("must be EQ or NE for {element_type} operands, got {direction}");
        return Err(view.attribute_error(Some("C5"), "direction", message));
    }
    Ok(merged.with_element_type(ElementType::Pred).into())
}

/// The order that a comparison of `element_type` uses: its `type`, or the element type's own.
pub fn comparison_type(attributes: &Attributes, element_type: ElementType) -> ComparisonType {
    let default = match element_type.class() {
        ElementClass::Float | ElementClass::Complex => ComparisonType::Float,
        ElementClass::Signed => ComparisonType::Signed,
        ElementClass::Unsigned | ElementClass::Predicate => ComparisonType::Unsigned,
    };
    attributes.word("type").and_then(|word| word.parse().ok()).unwrap_or(default)
}
