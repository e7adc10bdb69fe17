//! `while_loop`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `While`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::While, Arity::Exactly(1), OpClass::Control, infer_shape)
        .with_computations(&["condition", "body"]);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
