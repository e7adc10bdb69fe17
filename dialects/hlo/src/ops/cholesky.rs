//! `cholesky`: factors of symmetric (Hermitian) positive definite matrices, for each batch index.
//!
//! Source: operation semantics, "Cholesky". Only the triangle that `lower` says is read and written.

use super::element_classes::COMPLEX_OR_FLOAT;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `cholesky`.
    pub struct CholeskyAttributes {
        /// The lower triangle is read and written, else the upper.
        written lower: bool = false,
    }
}

/// Definition of `cholesky`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::Cholesky,
    Arity::Exactly(1),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(CholeskyAttributes::TABLE);

/// - C1: the operand is floating-point or complex.
/// - C2: the operand has at least two dimensions, the last two of the same size.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.element_class(Some("C1"), 0, &COMPLEX_OR_FLOAT)?;
    let operand = view.array(0)?;
    match operand.dimensions.as_slice() {
        [.., rows, columns] if rows == columns => Ok(operand.clone().into()),
        _ => {
            Err(view.operand_error(Some("C2"), 0, format!("must be square in its last two dimensions, got {operand}")))
        }
    }
}
