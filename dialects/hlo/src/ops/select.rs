//! `select(predicate, on_true, on_false)`: elementwise choice, or a choice of whole values.
//!
//! Source: operation semantics, "Select". Tuples are chosen whole, by a scalar predicate.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::view::merge_dimensions;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `select`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Select,
    Arity::Exactly(3),
    Facets::new(OpClass::Elementwise, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Simple),
    infer_shape,
);

/// - C1: the predicate has element type pred.
/// - C2: both choices have the same element type.
/// - C3: both choices have the same dimensions.
/// - C4: the predicate is a scalar or has the dimensions of the choices.
/// - C5: tuples are chosen by a scalar, and have the same shape.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let predicate = view.array(0)?;
    if predicate.element_type != ElementType::Pred {
        let message = format!("must have element type pred, got {}", predicate.element_type);
        return Err(view.operand_error(Some("C1"), 0, message));
    }
    let (on_true, on_false) = (view.operand(1)?, view.operand(2)?);
    if on_true.as_tuple().is_some() {
        if predicate.rank() != 0 {
            return Err(view.operand_error(
                Some("C5"),
                0,
                format!("must be a scalar to choose tuples, got {predicate}"),
            ));
        }
        if !super::same_sizes_and_types(on_true, on_false) {
            return Err(view.operand_error(Some("C5"), 2, format!("must have shape {on_true}, got {on_false}")));
        }
        return Ok(on_true.clone());
    }
    view.same_element_type(Some("C2"), 1, 2)?;
    let mut result = view.merged_dimensions(Some("C3"), &[1, 2])?;
    if predicate.rank() != 0 {
        merge_dimensions(&mut result, &view.merged_dimensions(Some("C4"), &[1, 0])?);
    }
    Ok(result.into())
}
