//! `bitcast-convert`: the same bits as another element type. Between widths, the minor dimension appears
//! (to narrower elements) or disappears (to wider ones).
//!
//! Source: operation semantics, "BitcastConvertType"; the result type is the declared one.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `bitcast-convert`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::BitcastConvert,
    Arity::Exactly(1),
    Facets::new(OpClass::Indexed, FusionRole::Elementwise, Lowering::Loops, Effects::None, ElementCost::Free),
    infer_shape,
);

/// - C1: complex types convert to complex types only.
/// - C2: to wider elements, the operand's last dimension is the ratio of the widths.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let operand = view.array(0)?;
    let (from, to) = (operand.element_type, view.declared_array()?.element_type);
    if from.is_complex() != to.is_complex() {
        return Err(view.operand_error(Some("C1"), 0, format!("of type {from} does not bitcast to {to}")));
    }
    let (narrow, wide) = (from.bit_width().min(to.bit_width()), from.bit_width().max(to.bit_width()));
    // Widths are powers of two, so one divides the other.
    let ratio = i64::from(wide / narrow);
    let mut result = operand.with_element_type(to);
    if from.bit_width() > to.bit_width() {
        result.dimensions.push(ratio);
        if result.is_dynamic() {
            result.dynamic.push(false);
        }
    } else if from.bit_width() < to.bit_width() {
        if result.dimensions.pop() != Some(ratio) {
            let message = format!("must have a last dimension of {ratio} to become {to}, got {operand}");
            return Err(view.operand_error(Some("C2"), 0, message));
        }
        result.dynamic.truncate(result.dimensions.len());
    }
    Ok(result.into())
}
