//! `infeed` and `outfeed`: values from and to the host's queues, ordered by tokens.
//!
//! Source: operation semantics, "Infeed"; XLA's shape inference.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `infeed`.
    pub struct InfeedAttributes<'a> {
        /// What the queue is told.
        optional infeed_config: Option<&'a str> = None,
    }
}

attributes! {
    /// Attributes of `outfeed`.
    pub struct OutfeedAttributes<'a> {
        /// Shape of the value, with its layout in the queue.
        optional outfeed_shape: Option<&'a Shape> = None,
        /// What the queue is told.
        optional outfeed_config: Option<&'a str> = None,
    }
}

/// Definition of `infeed(token)` -> (value, token); the value's shape is the declared one.
pub static INFEED: OpDefinition = OpDefinition::new(
    OpKind::Infeed,
    Arity::Exactly(1),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_infeed,
)
.with_attributes(InfeedAttributes::TABLE);

/// Definition of `outfeed(value, token)` -> token.
pub static OUTFEED: OpDefinition = OpDefinition::new(
    OpKind::Outfeed,
    Arity::Exactly(2),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_outfeed,
)
.with_attributes(OutfeedAttributes::TABLE);

/// - C1: the operand is a token.
/// - C2: the result is a tuple of a value and a token.
/// - C5: the value is an array or a tuple of arrays, not of tuples.
fn infer_infeed(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.token(0, Some("C1"))?;
    match view.declared()?.as_tuple() {
        Some([value, _]) if is_nested(value) => {
            let message = format!("the value must be an array or a tuple of arrays, got {value}");
            Err(view.error(Some("C5"), message))
        }
        Some([value, _]) => Ok(Shape::Tuple(vec![value.clone(), Shape::Token])),
        _ => {
            let message = format!("the result must be a tuple of a value and a token, got {}", view.declared()?);
            Err(view.error(Some("C2"), message))
        }
    }
}

/// Whether a shape is a tuple with tuples in it.
fn is_nested(shape: &Shape) -> bool {
    shape.as_tuple().is_some_and(|elements| elements.iter().any(|element| element.as_tuple().is_some()))
}

/// - C3: the second operand is a token.
/// - C4: `outfeed_shape` is the shape of the value.
fn infer_outfeed(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.token(1, Some("C3"))?;
    let attributes: OutfeedAttributes = view.attributes()?;
    if let Some(expected) = attributes.outfeed_shape {
        let value = view.operand(0)?;
        if !super::same_sizes_and_types(expected, value) {
            let message = format!("must have the shape {value} of operand 0, got {expected}");
            return Err(view.attribute_error(Some("C4"), "outfeed_shape", message));
        }
    }
    Ok(Shape::Token)
}
