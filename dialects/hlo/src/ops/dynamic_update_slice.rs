//! `dynamic-update-slice(operand, update, start0, start1, …)`: the operand with a box overwritten; the box is
//! moved to lie inside.
//!
//! Source: operation semantics, "DynamicUpdateSlice". The 2017 edition's single rank-1 start operand is accepted too.

use super::dynamic_slice::check_start_indices;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `dynamic-update-slice`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::DynamicUpdateSlice,
    Arity::AtLeast(2),
    Facets::new(OpClass::Indexed, FusionRole::Update, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
);

/// - C1: the start indices are one integer scalar for each operand dimension, or one array of so many integers.
/// - C2: the start indices have the same element type.
/// - C3: operand and update have the same element type.
/// - C4: operand and update have the same rank.
/// - C5: the update is not larger than the operand in any dimension.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (operand, update) = (view.array(0)?, view.array(1)?);
    check_start_indices(view, operand, 2)?;
    view.same_element_type(Some("C3"), 0, 1)?;
    if operand.rank() != update.rank() {
        let message = format!("must have rank {}, as operand 0, got {update}", operand.rank());
        return Err(view.operand_error(Some("C4"), 1, message));
    }
    let mut result = operand.clone();
    for (dimension, (&whole, &size)) in operand.dimensions.iter().zip(&update.dimensions).enumerate() {
        if size > whole {
            let message = format!("must not be larger than {whole} in dimension {dimension}, got {size}");
            return Err(view.operand_error(Some("C5"), 1, message));
        }
        if size == whole && update.is_dynamic_dimension(dimension) {
            result.set_dynamic_dimension(dimension, true);
        }
    }
    Ok(result.into())
}
