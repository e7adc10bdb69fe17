//! `set_dimension_size`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `SetDimensionSize`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::SetDimensionSize, Arity::Exactly(2), OpClass::Structural, infer_shape)
        .with_attributes(&[AttributeSpec::required("dimensions", AttributeForm::Ints)]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
