//! Sorts of which only the first elements are read, such as those that approximate top-k's are written as: `topk`.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::{ComparisonDirection, ComparisonType};
use hlo::ops::iota::IotaAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::sort::SortAttributes;
use hlo::ops::top_k::TopKAttributes;
use hlo::shape::{ArrayShape, Shape};
use mlir_ext::rewrite::Rewriter;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::registry::{PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};

/// Replaces the sorts of all blocks that can be.
pub(super) fn run(rewriter: &Rewriter<'_, '_>, statistics: &mut PassStatistics) -> Result<(), PassError> {
    for block in blocks_with(rewriter, |_, kind| kind == OpKind::Sort) {
        let body = Body::read(rewriter, block, |_, kind| {
            matches!(kind, OpKind::Sort | OpKind::Slice | OpKind::Iota | OpKind::Broadcast)
        })?;
        let read = elements_read(body.computation());
        body.rewrite(|builder, id, instruction| {
            let count = (instruction.kind == OpKind::Sort).then(|| read[id.index()])?;
            let first = first_elements(builder, instruction, count)?;
            statistics.add("sort of which the beginning is read", 1);
            Some(first)
        })?;
    }
    Ok(())
}

/// How many elements at the beginning of each row of an instruction are read.
fn elements_read(computation: &Computation) -> Vec<i64> {
    let mut read = vec![0; computation.instructions.len()];
    read[computation.root.index()] = i64::MAX;
    for (place, instruction) in computation.instructions.iter().enumerate().rev() {
        let own = match instruction.kind {
            OpKind::GetTupleElement => read[place],
            OpKind::Slice => end_of_rows(instruction).unwrap_or(i64::MAX),
            _ => i64::MAX,
        };
        for &operand in &instruction.operands {
            read[operand.index()] = read[operand.index()].max(own);
        }
    }
    read
}

/// Where a slice ends in its operand's rows.
fn end_of_rows(slice: &Instruction) -> Option<i64> {
    slice.attributes::<SliceAttributes>().ok()?.slice.last().map(|row| row.limit)
}

// sort(x, iota) => tuple(pad(y), pad(z)) where (y, z) = topk(x), if no more than these elements are read
fn first_elements(builder: &mut GraphBuilder, sort: &Instruction, count: i64) -> Option<InstructionId> {
    let operand = *sort.operands.first()?;
    let array = builder.array(operand);
    let (&length, last) = (array.dimensions.last()?, array.rank() - 1);
    let SortAttributes { dimensions, is_stable } = sort.attributes().ok()?;
    if dimensions.index() != last || array.is_dynamic() || count < 1 || i32::try_from(length).is_err() {
        return None;
    }
    // Values alone are sorted faster than selected and sorted, unless few are wanted.
    let most = match sort.operands[..] {
        [_] => length / 16,
        [_, places] if are_places(builder, places, &array) => length / 2,
        _ => return None,
    };
    if count > most {
        return None;
    }
    let largest = is_descending(sort.computations.first()?, array.element_type, is_stable)?;
    let row = |element_type| {
        let mut dimensions = array.dimensions.clone();
        dimensions[last] = count;
        Shape::from(ArrayShape::new(element_type, dimensions))
    };
    let shape = Shape::Tuple(vec![row(array.element_type), row(ElementType::S32)]);
    let selected = builder.add(OpKind::TopK, shape, &[operand], TopKAttributes { k: count, largest });
    let rows: Vec<InstructionId> = (0..sort.operands.len())
        .map(|index| {
            let first = builder.element(selected, index);
            let zero = builder.scalar(builder.element_type(first), ConstantNumber::Integer(0));
            builder.pad_high(first, zero, last, length - count)
        })
        .collect();
    Some(if sort.shape.as_tuple().is_some() { builder.tuple(&rows) } else { rows[0] })
}

/// Whether a value's elements are their places in rows, as those of `topk`.
fn are_places(builder: &GraphBuilder, id: InstructionId, rows: &ArrayShape) -> bool {
    let along_rows = |dimensions: &[i64]| dimensions.last().is_some_and(|&d| d + 1 == rows.rank() as i64);
    let places = builder.get(id);
    let (iota, is_whole) = match places.kind {
        OpKind::Broadcast => {
            let own = places.attributes::<BroadcastAttributes>();
            (builder.get(places.operands[0]), own.is_ok_and(|own| along_rows(own.dimensions)))
        }
        _ => (places, true),
    };
    let counts_rows = |iota: &Instruction| {
        let rank = iota.shape.as_array().map(|array| array.rank() as i64);
        iota.attributes::<IotaAttributes>().is_ok_and(|own| Some(own.iota_dimension + 1) == rank)
    };
    is_whole && iota.kind == OpKind::Iota && builder.element_type(id) == ElementType::S32 && counts_rows(iota)
}

/// Whether the largest elements of the first operand come first, or the smallest; `None` for other orders than those of
/// `topk`, which is total. In a sort that is not stable its order of zeros and NaNs is as good as any.
fn is_descending(comparator: &Computation, element_type: ElementType, is_stable: bool) -> Option<bool> {
    let root = comparator.root();
    let (OpKind::Compare, &[left, right]) = (root.kind, &root.operands[..]) else { return None };
    let CompareAttributes { direction, r#type } = root.attributes().ok()?;
    let swapped = match [left, right].map(|id| comparator.get(id).parameter_number()) {
        [Some(0), Some(1)] => false,
        [Some(1), Some(0)] => true,
        _ => return None,
    };
    let has_order = match element_type.class() {
        ElementClass::Float => {
            let is_common =
                matches!(element_type, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64);
            is_common && (!is_stable || r#type == Some(ComparisonType::TotalOrder))
        }
        ElementClass::Signed | ElementClass::Unsigned => element_type.bit_width() >= 8,
        ElementClass::Predicate | ElementClass::Complex => false,
    };
    match direction {
        ComparisonDirection::Gt if has_order => Some(!swapped),
        ComparisonDirection::Lt if has_order => Some(swapped),
        _ => None,
    }
}
