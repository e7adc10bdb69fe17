//! `replica-id` and `partition-id`: the number of the replica or partition that runs.
//!
//! Source: operation semantics, "ReplicaId".

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::element_type::ElementType;
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `replica-id`.
pub static REPLICA_ID: OpDefinition = OpDefinition::new(
    OpKind::ReplicaId,
    Arity::Exactly(0),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
);

/// Definition of `partition-id`.
pub static PARTITION_ID: OpDefinition = OpDefinition::new(
    OpKind::PartitionId,
    Arity::Exactly(0),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::None, ElementCost::Whole),
    infer_shape,
);

fn infer_shape(_view: &OpView<'_>) -> Result<Shape, OpError> {
    Ok(Shape::scalar(ElementType::U32))
}
