//! `async-start`, `async-update`, `async-done`: a computation that runs beside others; here, at its start.
//!
//! Text also spells them with the wrapped operation's name (`custom-call-start`): the reader builds the computation.
//! Source: XLA's verifier.

use super::ComputationKey::{One, Optional};
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, Raw, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `async-start`, `async-update` and `async-done`.
    pub struct AsyncAttributes<'a> {
        /// The thread that the computation runs on.
        optional async_execution_thread: Option<&'a str> = None,
        /// Parts of the result that take over the memory of operands.
        optional output_to_operand_aliasing: Option<Raw<'a>> = None,
    }
}

/// Definition of `async-start(operands…)` -> ((operands…), result, contexts…).
pub static ASYNC_START: OpDefinition = OpDefinition::new(
    OpKind::AsyncStart,
    Arity::AtLeast(0),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_start,
)
.with_attributes(AsyncAttributes::TABLE)
.with_computations(&[One("calls")]);

/// Definition of `async-update(start)`, of the same shape.
pub static ASYNC_UPDATE: OpDefinition = OpDefinition::new(
    OpKind::AsyncUpdate,
    Arity::Exactly(1),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_update,
)
.with_attributes(AsyncAttributes::TABLE)
.with_computations(&[Optional("calls")]);

/// Definition of `async-done(start or update)` -> result.
pub static ASYNC_DONE: OpDefinition = OpDefinition::new(
    OpKind::AsyncDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_done,
)
.with_attributes(AsyncAttributes::TABLE)
.with_computations(&[Optional("calls")]);

/// - C1: the operands are the computation's arguments.
/// - C2: the result is a tuple of a tuple of the operands, the computation's result, and contexts.
fn infer_start(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.arguments(Some("C1"), 0, view.operands)?;
    let declared = view.declared_tuple(Some("C2"), 2)?;
    let operands = Shape::Tuple(view.operands.iter().map(|&operand| operand.clone()).collect());
    let mut elements = vec![operands, view.computation(0)?.result.clone()];
    elements.extend(declared.iter().skip(2).cloned());
    Ok(Shape::Tuple(elements))
}

fn infer_update(view: &OpView<'_>) -> Result<Shape, OpError> {
    started(view)?;
    view.operand(0).cloned()
}

fn infer_done(view: &OpView<'_>) -> Result<Shape, OpError> {
    started(view).cloned()
}

/// - C3: the operand of an update or done is the tuple ((operands…), result, contexts…) of a start.
fn started<'a>(view: &OpView<'a>) -> Result<&'a Shape, OpError> {
    match view.operand(0)?.as_tuple() {
        Some([Shape::Tuple(_), result, ..]) => Ok(result),
        _ => {
            let message = format!("must be a tuple of the operands, the result and contexts, got {}", view.operand(0)?);
            Err(view.operand_error(Some("C3"), 0, message))
        }
    }
}
