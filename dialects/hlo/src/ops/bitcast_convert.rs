//! `bitcast_convert`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `BitcastConvert`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::BitcastConvert, Arity::Exactly(1), OpClass::Indexed, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
