//! Operations that put values into tuples and take them out.

use super::instruction_maps::InstructionMaps;
use super::{LeafMap, ValueIndexing, leaf_array, leaves_before, maps};
use crate::op_kind::OpKind;
use crate::ops::get_tuple_element::GetTupleElementAttributes;

/// tuple: from a leaf of the result to each operand, all but one of which it does not use.
pub(super) fn to_operands<'c>(instruction: &InstructionMaps<'c, '_>, leaf: usize) -> Option<Vec<ValueIndexing<'c>>> {
    let map = maps::identity(instruction.context, &instruction.output(leaf)?.dimensions);
    let mut all = vec![ValueIndexing::none(); instruction.operand_count()];
    let mut first = 0;
    for (operand, indexing) in all.iter_mut().enumerate() {
        let leaves = instruction.operand_shape(operand)?.leaves().len();
        if leaf < first + leaves {
            *indexing = ValueIndexing::Known(vec![LeafMap { leaf: leaf - first, map }]);
            break;
        }
        first += leaves;
    }
    Some(all)
}

/// From leaf `leaf` of an element of a tuple to the tuple.
pub(super) fn element_to_tuple<'c>(instruction: &InstructionMaps<'c, '_>, leaf: usize) -> Option<ValueIndexing<'c>> {
    let map = maps::identity(instruction.context, &instruction.output(leaf)?.dimensions);
    let first = leaves_before(instruction.operand_shape(0)?, element(instruction)?);
    Some(ValueIndexing::Known(vec![LeafMap { leaf: first + leaf, map }]))
}

/// From the leaves of an operand to those of the result.
pub(super) fn to_result<'c>(instruction: &InstructionMaps<'c, '_>, operand: usize) -> Option<Vec<ValueIndexing<'c>>> {
    let leaves = instruction.instruction.shape.leaves().len();
    let same = |leaf: usize, result: usize| {
        let map = maps::identity(instruction.context, &instruction.output(result)?.dimensions);
        Some(ValueIndexing::Known(vec![LeafMap { leaf, map }]))
    };
    if instruction.instruction.kind == OpKind::Tuple {
        let first = leaves_before(&instruction.instruction.shape, operand);
        let mut all = vec![ValueIndexing::none(); leaves];
        for (leaf, entry) in
            all.iter_mut().skip(first).take(instruction.operand_shape(operand)?.leaves().len()).enumerate()
        {
            *entry = same(leaf, first + leaf)?;
        }
        return Some(all);
    }
    let tuple = instruction.operand_shape(0)?;
    let first = leaves_before(tuple, element(instruction)?);
    leaf_array(tuple, first)?;
    (0..leaves).map(|leaf| same(first + leaf, leaf)).collect()
}

/// The element of the operand that an operation takes out: that of a -done is the finished result.
fn element(instruction: &InstructionMaps<'_, '_>) -> Option<usize> {
    match instruction.instruction.kind {
        OpKind::AllGatherDone | OpKind::CollectivePermuteDone => Some(1),
        OpKind::CopyDone => Some(0),
        _ => usize::try_from(instruction.attributes::<GetTupleElementAttributes>()?.index).ok(),
    }
}
