//! `rng-get-and-update-state`: the global state of the generator, which advances by `delta`.
//!
//! Source: XLA's verifier.

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `rng-get-and-update-state`.
    pub struct RngGetAndUpdateStateAttributes {
        /// What the state advances by.
        required delta: i64,
    }
}

/// Definition of `rng-get-and-update-state`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::RngGetAndUpdateState,
    Arity::Exactly(0),
    Facets::new(OpClass::Random, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_shape,
)
.with_attributes(RngGetAndUpdateStateAttributes::TABLE);

fn infer_shape(_view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(Shape::array(ElementType::U64, [2]))
}
