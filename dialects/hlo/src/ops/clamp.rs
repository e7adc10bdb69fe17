//! `clamp(minimum, operand, maximum)`: elementwise limits.
//!
//! Source: operation semantics, "Clamp".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::view::merge_dimensions;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `clamp`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Clamp,
    Arity::Exactly(3),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Simple),
    infer_shape,
);

/// - C1: all operands have the same element type.
/// - C2: the element type is not complex: complex numbers have no order.
/// - C3: each bound is a scalar or has the dimensions of the operand.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(1)?;
    for bound in [0, 2] {
        view.same_element_type(Some("C1"), 1, bound)?;
    }
    if operand.element_type.is_complex() {
        let message = format!("must have an ordered element type, got {}", operand.element_type);
        return Err(view.operand_error(Some("C2"), 1, message));
    }
    let mut result = operand.clone();
    for bound in [0, 2] {
        if view.array(bound)?.rank() != 0 {
            merge_dimensions(&mut result, &view.merged_dimensions(Some("C3"), &[1, bound])?);
        }
    }
    Ok(result.into())
}
