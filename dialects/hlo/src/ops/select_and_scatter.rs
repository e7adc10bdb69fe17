//! `select_and_scatter`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `SelectAndScatter`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::SelectAndScatter, Arity::Exactly(3), OpClass::Reduction, infer_shape)
        .with_attributes(&[AttributeSpec::optional("window", AttributeForm::Window)])
        .with_computations(&["select", "scatter"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
