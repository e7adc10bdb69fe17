//! `sort` as loops: runs of places, merged pairwise until each row is one run.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::sort::SortAttributes;

use super::{as_declared, call, counted_loop, element_at, elements_at, flat, index_type, with_element, with_number};
use crate::graph_builder::{ConstantNumber, GraphBuilder};

pub(super) fn sort(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let along = instruction.attributes::<SortAttributes>().ok()?.dimensions.0;
    let comparator = instruction.computations.first()?;
    let dimensions = builder.dimensions(*instruction.operands.first()?);
    let length = *dimensions.get(along as usize)?;
    let count: i64 = dimensions.iter().product();
    // The sorted dimension last: rows one after another.
    let rank = dimensions.len() as i64;
    let order: Vec<i64> = (0..rank).filter(|&d| d != along).chain([along]).collect();
    let ordered: Vec<i64> = order.iter().map(|&d| dimensions[d as usize]).collect();
    let back: Vec<i64> = (0..along).chain([rank - 1]).chain(along..rank - 1).collect();
    let rows: Vec<InstructionId> = instruction
        .operands
        .iter()
        .map(|&operand| {
            let ordered = builder.transpose(operand, &order);
            flat(builder, ordered)
        })
        .collect();
    let places = builder.iota(index_type(count), &[count], 0);
    let passes = if count == 0 { 0 } else { i64::from(u64::BITS - ((length - 1) as u64).leading_zeros()) };
    let width = builder.scalar(index_type(count), ConstantNumber::Integer(1));
    let sorted = counted_loop(builder, passes, &rows, &[places, width], |builder, at| {
        let &[places, width] = at.variables else { return at.variables.to_vec() };
        let merged = merged(builder, comparator, at.constants, places, width, length);
        vec![merged, with_number(builder, OpKind::Multiply, width, 2)]
    });
    let results: Vec<InstructionId> = rows
        .iter()
        .map(|&row| {
            let sorted = if count == 0 { row } else { builder.take(row, sorted[0]) };
            let sorted = builder.reshape(sorted, &ordered);
            builder.transpose(sorted, &back)
        })
        .collect();
    as_declared(builder, instruction, &results)
}

/// Places after neighbouring runs of `width` places have been merged; rows have `length` of them. Of equal elements
/// those of the left run come first.
fn merged(
    builder: &mut GraphBuilder,
    comparator: &Computation,
    rows: &[InstructionId],
    places: InstructionId,
    width: InstructionId,
    length: i64,
) -> InstructionId {
    let count = builder.array(places).element_count();
    let element_type = builder.element_type(places);
    let zero = builder.scalar(element_type, ConstantNumber::Integer(0));
    let constants = [&[places, width], rows].concat();
    // Variables: the merged places, and what comes next in the left and the right run.
    let variables = [places, zero, zero];
    let merged = counted_loop(builder, count, &constants, &variables, |builder, at| {
        let (&[places, width], &[result, left, right]) = (&at.constants[..2], at.variables) else {
            return at.variables.to_vec();
        };
        let rows = &at.constants[2..];
        let inside = with_number(builder, OpKind::Remainder, at.index, length);
        let row = builder.binary(OpKind::Subtract, at.index, inside);
        let row_end = with_number(builder, OpKind::Add, row, length);
        let pair = with_number(builder, OpKind::Multiply, width, 2);
        let offset = builder.binary(OpKind::Remainder, inside, pair);
        let start = builder.binary(OpKind::Subtract, at.index, offset);
        let mut end_after = |length: InstructionId| {
            let end = builder.binary(OpKind::Add, start, length);
            builder.binary(OpKind::Minimum, end, row_end)
        };
        let (left_end, right_end) = (end_after(width), end_after(pair));
        let zero = builder.scalar(element_type, ConstantNumber::Integer(0));
        let begins = builder.compare(ComparisonDirection::Eq, offset, zero);
        let left = builder.select(begins, start, left);
        let right = builder.select(begins, left_end, right);

        let (left_place, right_place) = (element_at(builder, places, left), element_at(builder, places, right));
        let candidates = [right_place, left_place].map(|place| elements_at(builder, rows, place));
        let arguments: Vec<InstructionId> =
            candidates[0].iter().zip(&candidates[1]).flat_map(|(&right, &left)| [right, left]).collect();
        let precedes = call(builder, comparator, &arguments);
        let left_is_empty = builder.compare(ComparisonDirection::Ge, left, left_end);
        let right_exists = builder.compare(ComparisonDirection::Lt, right, right_end);
        let takes_right = builder.binary(OpKind::And, right_exists, precedes[0]);
        let takes_right = builder.binary(OpKind::Or, left_is_empty, takes_right);
        let place = builder.select(takes_right, right_place, left_place);
        let taken = builder.convert(takes_right, element_type);
        let right = builder.binary(OpKind::Add, right, taken);
        let one = builder.scalar(element_type, ConstantNumber::Integer(1));
        let kept = builder.binary(OpKind::Subtract, one, taken);
        let left = builder.binary(OpKind::Add, left, kept);
        vec![with_element(builder, result, at.index, place), left, right]
    });
    merged[0]
}
