//! `dynamic-reshape(operand, size0, size1, …)`: a reshape to sizes known at run time.
//!
//! Source: XLA's verifier; the result shape is the declared one, its sizes the bounds.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `dynamic-reshape`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::DynamicReshape,
    Arity::AtLeast(1),
    Facets::new(OpClass::Indexed, FusionRole::Opaque, Lowering::Replaced, Effects::None, ElementCost::Free),
    infer_shape,
);

/// - C1: there is one size for each result dimension.
/// - C2: each size is an integer scalar.
/// - C3: operand and result have the same number of elements, dynamic dimensions counted at their bounds.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, result) = (view.array(0)?, view.declared_array()?);
    let sizes = view.operands.len() - 1;
    if sizes != result.rank() {
        let message = format!("takes one size for each of {} result dimensions, got {sizes}", result.rank());
        return Err(view.error(Some("C1"), message));
    }
    for index in 1..=sizes {
        view.integer_scalar(index, Some("C2"))?;
    }
    let (expected, found) = (operand.element_count(), result.element_count());
    if expected != found {
        let message = format!("the result must have the {expected} elements of {operand}, got {result} of {found}");
        return Err(view.error(Some("C3"), message));
    }
    Ok(result.with_element_type(operand.element_type).into())
}
