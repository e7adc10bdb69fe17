//! `parameter`: an argument of the computation.
//!
//! Source: operation semantics, "Parameter"; the result shape is the declared one.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `parameter`.
    pub struct ParameterAttributes {
        /// Position among the computation's arguments.
        required parameter_number: i64,
    }
}

/// Definition of `parameter`. In text, the number stands where operands do: `parameter(0)`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Parameter,
    Arity::Exactly(0),
    Facets::new(OpClass::Structural, FusionRole::Opaque, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(ParameterAttributes::TABLE);

/// - C1: `parameter_number` is not negative.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let ParameterAttributes { parameter_number: number } = view.attributes()?;
    if number < 0 {
        return Err(view.attribute_error(Some("C1"), "parameter_number", format!("must be at least 0, got {number}")));
    }
    view.declared().cloned()
}
