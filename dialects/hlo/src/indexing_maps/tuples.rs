//! Operations that put values into tuples and take them out.

use indexing::maps;

use super::instruction_maps::InstructionMaps;
use super::{LeafMap, ValueIndexing, leaf_array, leaves_before};
use crate::op_kind::OpKind;

/// tuple: from a leaf of the result to each operand, all but one of which it does not use.
pub(super) fn to_operands(maps: &InstructionMaps<'_>, leaf: usize) -> Option<Vec<ValueIndexing>> {
    let map = maps::identity(&maps.output(leaf)?.dimensions);
    let mut all = vec![ValueIndexing::none(); maps.operand_count()];
    let mut first = 0;
    for (operand, indexing) in all.iter_mut().enumerate() {
        let leaves = maps.operand_shape(operand)?.leaves().len();
        if leaf < first + leaves {
            *indexing = ValueIndexing::Known(vec![LeafMap { leaf: leaf - first, map }]);
            break;
        }
        first += leaves;
    }
    Some(all)
}

/// From leaf `leaf` of an element of a tuple to the tuple.
pub(super) fn element_to_tuple(maps: &InstructionMaps<'_>, leaf: usize) -> Option<ValueIndexing> {
    let map = maps::identity(&maps.output(leaf)?.dimensions);
    let first = leaves_before(maps.operand_shape(0)?, element(maps)?);
    Some(ValueIndexing::Known(vec![LeafMap { leaf: first + leaf, map }]))
}

/// From the leaves of an operand to those of the result.
pub(super) fn to_result(maps: &InstructionMaps<'_>, operand: usize) -> Option<Vec<ValueIndexing>> {
    let leaves = maps.instruction.shape.leaves().len();
    let same = |leaf: usize, result: usize| {
        let map = maps::identity(&maps.output(result)?.dimensions);
        Some(ValueIndexing::Known(vec![LeafMap { leaf, map }]))
    };
    if maps.instruction.kind == OpKind::Tuple {
        let first = leaves_before(&maps.instruction.shape, operand);
        let mut all = vec![ValueIndexing::none(); leaves];
        for (leaf, entry) in all.iter_mut().skip(first).take(maps.operand_shape(operand)?.leaves().len()).enumerate() {
            *entry = same(leaf, first + leaf)?;
        }
        return Some(all);
    }
    let tuple = maps.operand_shape(0)?;
    let first = leaves_before(tuple, element(maps)?);
    leaf_array(tuple, first)?;
    (0..leaves).map(|leaf| same(first + leaf, leaf)).collect()
}

/// The element of the operand that an operation takes out: that of a -done is the finished result.
fn element(maps: &InstructionMaps<'_>) -> Option<usize> {
    match maps.instruction.kind {
        OpKind::AllGatherDone | OpKind::CollectivePermuteDone => Some(1),
        OpKind::CopyDone => Some(0),
        _ => usize::try_from(maps.attributes().int("index")?).ok(),
    }
}
