//! `all_gather`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `AllGather`.
pub static ALL_GATHER: OpDefinition =
    OpDefinition::new(OpKind::AllGather, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("replica_groups", AttributeForm::ReplicaGroups),
            AttributeSpec::optional("constrain_layout", AttributeForm::Bool),
            AttributeSpec::optional("dimensions", AttributeForm::Ints),
            AttributeSpec::optional("use_global_device_ids", AttributeForm::Bool),
        ])
        .with_side_effect();

/// Definition of `AllGatherStart`.
pub static ALL_GATHER_START: OpDefinition =
    OpDefinition::new(OpKind::AllGatherStart, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("replica_groups", AttributeForm::ReplicaGroups),
            AttributeSpec::optional("constrain_layout", AttributeForm::Bool),
            AttributeSpec::optional("dimensions", AttributeForm::Ints),
            AttributeSpec::optional("use_global_device_ids", AttributeForm::Bool),
        ])
        .with_side_effect();

/// Definition of `AllGatherDone`.
pub static ALL_GATHER_DONE: OpDefinition =
    OpDefinition::new(OpKind::AllGatherDone, Arity::Exactly(1), OpClass::Collective, infer_shape).with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
