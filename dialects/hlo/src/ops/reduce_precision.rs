//! `reduce_precision`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `ReducePrecision`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::ReducePrecision, Arity::Exactly(1), OpClass::Elementwise, infer_shape).with_attributes(
        &[
            AttributeSpec::required("exponent_bits", AttributeForm::Int),
            AttributeSpec::required("mantissa_bits", AttributeForm::Int),
        ],
    );

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
