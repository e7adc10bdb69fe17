//! `collective-permute`: each replica sends its operand to at most one other; replicas that receive nothing get
//! zeros. `-start` and `-done` run as one.
//!
//! Source: operation semantics, "CollectivePermute". With `slice_sizes`, the operands are (input, output, input
//! indices, output indices), and slices of the input replace slices of the output.

use std::collections::HashSet;

use super::facets::{Effects, ElementCost, Facets, FusionRole, Lowering, OpClass};
use super::signatures::bare_or_tuple;
use super::typed_attributes::{OperationAttributes, attributes};
use super::{Arity, OpDefinition, OpError, OpView};
use crate::op_kind::OpKind;
use crate::shape::Shape;

attributes! {
    /// Attributes of `collective-permute` and `collective-permute-start`.
    pub struct CollectivePermuteAttributes<'a> {
        /// The channel that the collective is known by; without one, it is among the replicas of one partition.
        optional channel_id: Option<i64> = None,
        /// Pairs of a replica that sends and one that receives.
        required source_target_pairs: &'a [Vec<i64>],
        /// Sizes of the slices, by pair, where slices of the input replace slices of the output.
        optional slice_sizes: Option<&'a [Vec<i64>]> = None,
    }
}

/// Definition of `collective-permute`.
pub static COLLECTIVE_PERMUTE: OpDefinition = OpDefinition::new(
    OpKind::CollectivePermute,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Call, Effects::Always, ElementCost::Whole),
    infer_whole,
)
.with_attributes(CollectivePermuteAttributes::TABLE);

/// Definition of `collective-permute-start` -> (operands, results, contexts…).
pub static COLLECTIVE_PERMUTE_START: OpDefinition = OpDefinition::new(
    OpKind::CollectivePermuteStart,
    Arity::AtLeast(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_start,
)
.with_attributes(CollectivePermuteAttributes::TABLE);

/// Definition of `collective-permute-done` -> results.
pub static COLLECTIVE_PERMUTE_DONE: OpDefinition = OpDefinition::new(
    OpKind::CollectivePermuteDone,
    Arity::Exactly(1),
    Facets::new(OpClass::Collective, FusionRole::Opaque, Lowering::Replaced, Effects::Always, ElementCost::Whole),
    infer_done,
);

fn infer_whole(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (_, results) = permuted(view)?;
    Ok(view.collective_result(results))
}

/// - C3: the result of a start is a tuple of operands, results and contexts.
fn infer_start(view: &OpView<'_>) -> Result<Shape, OpError> {
    let (inputs, results) = permuted(view)?;
    let mut elements = vec![bare_or_tuple(inputs), bare_or_tuple(results)];
    elements.extend(view.declared_tuple(Some("C3"), 2)?.iter().skip(2).cloned());
    Ok(Shape::Tuple(elements))
}

/// - C4: the operand of a -done is the tuple (operands, results, contexts…) of its start.
fn infer_done(view: &OpView<'_>) -> Result<Shape, OpError> {
    match view.tuple(Some("C4"), 0, 2)? {
        [_, results, ..] => Ok(results.clone()),
        _ => Err(view.operand_error(Some("C4"), 0, "must be a tuple of operands and results".to_string())),
    }
}

/// Shapes of the inputs (all operands where slices are replaced) and of the results.
///
/// - C1: `source_target_pairs` are pairs of numbers, no source and no target repeated.
/// - C2: with `slice_sizes`, there are four operands.
fn permuted(view: &OpView<'_>) -> Result<(Vec<Shape>, Vec<Shape>), OpError> {
    let attributes: CollectivePermuteAttributes = view.attributes()?;
    let (mut sources, mut targets) = (HashSet::new(), HashSet::new());
    for pair in attributes.source_target_pairs {
        let valid = matches!(**pair, [source, target]
            if source >= 0 && target >= 0 && sources.insert(source) && targets.insert(target));
        if !valid {
            let message = format!("must be pairs with each source and each target once, got {pair:?}");
            return Err(view.attribute_error(Some("C1"), "source_target_pairs", message));
        }
    }
    let operands: Vec<Shape> = view.operands.iter().map(|&operand| operand.clone()).collect();
    if attributes.slice_sizes.is_none() {
        view.array_operands()?;
        return Ok((operands.clone(), operands));
    }
    match operands.as_slice() {
        [_, output, _, _] => Ok((operands.clone(), vec![output.clone()])),
        _ => Err(view.error(Some("C2"), format!("takes 4 operands with slice_sizes, got {}", operands.len()))),
    }
}
