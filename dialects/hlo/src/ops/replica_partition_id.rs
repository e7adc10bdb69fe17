//! `replica_partition_id`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `ReplicaId`.
pub static REPLICA_ID: OpDefinition =
    OpDefinition::new(OpKind::ReplicaId, Arity::Exactly(0), OpClass::Collective, infer_shape);

/// Definition of `PartitionId`.
pub static PARTITION_ID: OpDefinition =
    OpDefinition::new(OpKind::PartitionId, Arity::Exactly(0), OpClass::Collective, infer_shape);

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
