//! `triangular_solve`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `TriangularSolve`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::TriangularSolve, Arity::Exactly(2), OpClass::Library, infer_shape).with_attributes(&[
        AttributeSpec::optional("left_side", AttributeForm::Bool),
        AttributeSpec::optional("lower", AttributeForm::Bool),
        AttributeSpec::optional("unit_diagonal", AttributeForm::Bool),
        AttributeSpec::optional("transpose_a", AttributeForm::Word),
    ]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
