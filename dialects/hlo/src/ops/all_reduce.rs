//! `all_reduce`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `AllReduce`.
pub static ALL_REDUCE: OpDefinition =
    OpDefinition::new(OpKind::AllReduce, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("replica_groups", AttributeForm::ReplicaGroups),
            AttributeSpec::optional("constrain_layout", AttributeForm::Bool),
            AttributeSpec::optional("use_global_device_ids", AttributeForm::Bool),
        ])
        .with_computations(&["to_apply"])
        .with_side_effect();

/// Definition of `AllReduceStart`.
pub static ALL_REDUCE_START: OpDefinition =
    OpDefinition::new(OpKind::AllReduceStart, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("replica_groups", AttributeForm::ReplicaGroups),
            AttributeSpec::optional("constrain_layout", AttributeForm::Bool),
            AttributeSpec::optional("use_global_device_ids", AttributeForm::Bool),
        ])
        .with_computations(&["to_apply"])
        .with_side_effect();

/// Definition of `AllReduceDone`.
pub static ALL_REDUCE_DONE: OpDefinition =
    OpDefinition::new(OpKind::AllReduceDone, Arity::Exactly(1), OpClass::Collective, infer_shape).with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
