//! `collective_permute`.

use super::{Arity, OpClass, OpDefinition, OpError, OpView};
use crate::attributes::{AttributeForm, AttributeSpec};
use crate::op_kind::OpKind;
use crate::shape::Shape;

/// Definition of `CollectivePermute`.
pub static COLLECTIVE_PERMUTE: OpDefinition =
    OpDefinition::new(OpKind::CollectivePermute, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::required("source_target_pairs", AttributeForm::IntLists),
            AttributeSpec::optional("slice_sizes", AttributeForm::IntLists),
        ])
        .with_side_effect();

/// Definition of `CollectivePermuteStart`.
pub static COLLECTIVE_PERMUTE_START: OpDefinition =
    OpDefinition::new(OpKind::CollectivePermuteStart, Arity::AtLeast(1), OpClass::Collective, infer_shape)
        .with_attributes(&[
            AttributeSpec::optional("channel_id", AttributeForm::Int),
            AttributeSpec::required("source_target_pairs", AttributeForm::IntLists),
            AttributeSpec::optional("slice_sizes", AttributeForm::IntLists),
        ])
        .with_side_effect();

/// Definition of `CollectivePermuteDone`.
pub static COLLECTIVE_PERMUTE_DONE: OpDefinition =
    OpDefinition::new(OpKind::CollectivePermuteDone, Arity::Exactly(1), OpClass::Collective, infer_shape)
        .with_attributes(&[AttributeSpec::optional("channel_id", AttributeForm::Int)])
        .with_side_effect();

fn infer_shape(view: &OpView<'_>) -> Result<Shape, OpError> {
    view.declared().cloned()
}
