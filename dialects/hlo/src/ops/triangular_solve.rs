//! `triangular-solve(a, b)`: x with op(a) x = b, or x op(a) = b, for triangular a and each batch index.
//!
//! Source: operation semantics, "TriangularSolve". Only the triangle that `lower` says is read.

use super::element_classes::COMPLEX_OR_FLOAT;
use super::enumerations::TransposeKind;
use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `triangular-solve`.
    pub struct TriangularSolveAttributes {
        /// op(a) x = b is solved, else x op(a) = b.
        written left_side: bool = false,
        /// The lower triangle is read, else the upper.
        written lower: bool = false,
        /// The diagonal is ones, and not read.
        written unit_diagonal: bool = false,
        /// What op is.
        required transpose_a ["C6"]: TransposeKind,
    }
}

/// Definition of `triangular-solve`.
pub static DEFINITION: OpDefinition = OpDefinition::new(
    OpKind::TriangularSolve,
    Arity::Exactly(2),
    Facets::new(OpClass::Library, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
)
.with_attributes(TriangularSolveAttributes::TABLE);

/// - C1: the operands are floating-point or complex.
/// - C2: the operands have the same element type.
/// - C3: a has at least two dimensions, the last two of the same size.
/// - C4: the operands have the same rank and the same batch dimensions.
/// - C5: b's rows (its columns, unless `left_side`) are as many as a's.
/// - C6: `transpose_a` is one of NO_TRANSPOSE, TRANSPOSE, ADJOINT.
fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.element_class(Some("C1"), 0, &COMPLEX_OR_FLOAT)?;
    view.same_element_type(Some("C2"), 0, 1)?;
    let (a, b) = (view.array(0)?, view.array(1)?);
    let [a_batch @ .., size, columns] = a.dimensions.as_slice() else {
        return Err(view.operand_error(Some("C3"), 0, format!("must have at least two dimensions, got {a}")));
    };
    if size != columns {
        return Err(view.operand_error(Some("C3"), 0, format!("must be square in its last two dimensions, got {a}")));
    }
    let [b_batch @ .., b_rows, b_columns] = b.dimensions.as_slice() else {
        return Err(view.operand_error(Some("C4"), 1, format!("must have the rank of operand 0, {a}, got {b}")));
    };
    if a_batch != b_batch {
        return Err(view.operand_error(
            Some("C4"),
            1,
            format!("must have the batch dimensions of operand 0, {a}, got {b}"),
        ));
    }
    let TriangularSolveAttributes { left_side: left, .. } = view.attributes()?;
    let (side, found) = if left { ("rows", b_rows) } else { ("columns", b_columns) };
    if found != size {
        return Err(view.operand_error(Some("C5"), 1, format!("must have {size} {side}, got {b}")));
    }
    Ok(b.clone().into())
}
