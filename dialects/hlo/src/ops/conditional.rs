//! `conditional(selector, arguments…)`: one of several computations, chosen by a pred (true, false) or by an s32
//! index; an index out of range chooses the last.
//!
//! Source: operation semantics, "Conditional".

use super::ComputationKey::{List, Optional};
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::view::counted;
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `conditional`: true and false computation, or branches.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Conditional,
    Arity::AtLeast(2),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Branches, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_computations(&[Optional("true_computation"), Optional("false_computation"), List("branch_computations")]);

/// - C1: the selector is a scalar of element type pred or s32.
/// - C2: a pred selects between two computations; an s32 among at least one.
/// - C3: there is one argument for each computation, of the shape of its parameter.
/// - C4: the computations return the same shape.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let selector = view.array(0)?;
    if selector.rank() != 0 || !matches!(selector.element_type, ElementType::Pred | ElementType::S32) {
        return Err(view.operand_error(Some("C1"), 0, format!("must be a scalar pred or s32, got {selector}")));
    }
    let count = view.computations.len();
    if count == 0 || (selector.element_type == ElementType::Pred && count != 2) {
        let expected =
            if selector.element_type == ElementType::Pred { "2 computations" } else { "at least 1 computation" };
        return Err(view.error(Some("C2"), format!("takes {expected} for {selector}, got {count}")));
    }
    let arguments = &view.operands[1..];
    if arguments.len() != count {
        let message =
            format!("takes {}, one for each computation, got {}", counted(count, "argument"), arguments.len());
        return Err(view.error(Some("C3"), message));
    }
    let first = &view.computation(0)?.result;
    for (branch, argument) in arguments.iter().enumerate() {
        view.arguments(Some("C3"), branch, &[argument])?;
        let found = &view.computation(branch)?.result;
        if !super::same_sizes_and_types(found, first) {
            let message = format!("computation {branch} must return {first}, as computation 0, got {found}");
            return Err(view.error(Some("C4"), message));
        }
    }
    Ok(first.clone())
}
