//! `reduce_scatter`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `ReduceScatter`.
pub static DEFINITION: OpDefinition =
    OpDefinition::new(OpKind::ReduceScatter, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::optional("replica_groups", AttributeForm::ReplicaGroups),
            AttributeSpec::optional("constrain_layout", AttributeForm::Bool),
            AttributeSpec::optional("use_global_device_ids", AttributeForm::Bool),
            AttributeSpec::required("dimensions", AttributeForm::Ints),
        ])
        .with_computations(&["to_apply"])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
