//! `fusion`: a computation applied to the operands that is compiled into one piece.
//!
//! Source: XLA's verifier; indexing analysis, "Indexing map for fusion operations".

use super::ComputationKey::One;
use super::enumerations::FusionKind;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, Raw, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `fusion`.
    pub struct FusionAttributes<'a> {
        /// What was fused into what.
        required kind ["C1"]: FusionKind,
        /// Outputs that take over the memory of operands.
        optional output_to_operand_aliasing: Option<Raw<'a>> = None,
    }
}

/// Definition of `fusion`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Fusion,
    Arity::AtLeast(0),
    Facets::new(OpClass::Control, FusionRole::Opaque, Lowering::Kernel, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(FusionAttributes::TABLE)
.with_computations(&[One("calls")]);

/// - C1: `kind` is one of kLoop, kInput, kOutput, kCustom.
/// - C2: the operands are the computation's arguments.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.arguments(Some("C2"), 0, view.operands)?;
    Ok(view.computation(0)?.result.clone())
}
