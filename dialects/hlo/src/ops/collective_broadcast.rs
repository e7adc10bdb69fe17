//! `collective_broadcast`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `CollectiveBroadcast`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::CollectiveBroadcast, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("replica_groups", AttributeForm::ReplicaGroups),
            AttributeSpec::optional("constrain_layout", AttributeForm::Bool),
        ])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
