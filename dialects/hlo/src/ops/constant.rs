//! `constant`: a literal.
//!
//! Source: operation semantics, "ConstantLiteral".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::literal::Literal;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `constant`.
    pub struct ConstantAttributes<'a> {
        /// The value.
        required value: &'a Literal,
    }
}

/// Definition of `constant`. In text, the value stands where operands do: `constant({1, 2})`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Constant,
    Arity::Exactly(0),
    Facets::new(OpClass::Structural, FusionRole::View, Lowering::None, Effects::None, ElementCost::Free),
    infer_shape,
)
.with_attributes(ConstantAttributes::TABLE);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    let ConstantAttributes { value } = view.attributes()?;
    Ok(value.shape())
}
