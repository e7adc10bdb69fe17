//! `convert`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `Convert`.
pub static CONVERT: OpDefinition =
    OpDefinition::new(OpKind::Convert, Arity::Exactly(1), OpClass::Elementwise, infer_shape);

/// Definition of `StochasticConvert`.
pub static STOCHASTIC_CONVERT: OpDefinition =
    OpDefinition::new(OpKind::StochasticConvert, Arity::Exactly(2), OpClass::Elementwise, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
