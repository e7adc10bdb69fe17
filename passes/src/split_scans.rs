//! The part of `split-reductions` for scans: where rows are few and long, parts of them are scanned side by side.
//!
//! What each part has in all is reduced first, and scanned, so that a part can begin with what is before it. The elements are
//! read twice. Parts depend on sizes alone, so results are the same in every run.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::shape::ArrayShape;
use indexing::ceil_div;

use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_operation};
use crate::split_reductions::{identity, wide_type};

/// How scans are divided: those whose rows are near each other, which blocks go along, and others, which threads do.
struct Division {
    /// Rows from which on there is enough to do side by side.
    many_rows: i64,
    /// Parts of all rows, at most.
    most_parts: i64,
    /// Elements of each part at least.
    least_terms: i64,
}

const OF_BLOCKS: Division = Division { many_rows: 128, most_parts: 1 << 10, least_terms: 1 << 11 };
const OF_THREADS: Division = Division { many_rows: 1 << 14, most_parts: 1 << 16, least_terms: 1 << 6 };

/// Rows that lie abreast from which on threads go along them.
const FEW_ROWS_ABREAST: i64 = 16;

/// Parts for which further kernels are worth it.
const LEAST_PARTS: i64 = 4;

/// A scan of one associative operation.
#[derive(Clone, Copy)]
struct Scan {
    operand: InstructionId,
    initial: InstructionId,
    along: usize,
    is_reversed: bool,
    kind: OpKind,
}

// reduce-window(x, i) => scan(y) with y = reshape(x), but pad(scan(reduce(y)), i) combined with y where a part begins
pub(super) fn split(builder: &mut GraphBuilder, window: &Instruction) -> Option<InstructionId> {
    let (&[operand, initial], [combination]) = (&window.operands[..], &window.computations[..]) else { return None };
    let shape = builder.array(operand);
    let kind = binary_operation(combination)?;
    let attributes: ReduceWindowAttributes<'_> = window.attributes().ok()?;
    let (along, is_reversed) = attributes.accumulates(&shape.dimensions)?;
    identity(kind, shape.element_type)?;
    if shape.is_dynamic() {
        return None;
    }
    parts_of(&shape.dimensions, along)?;
    let wide = wide_type(kind, shape.element_type);
    let [operand, initial] = [operand, initial].map(|value| builder.convert(value, wide));
    let scanned = Scan { operand, initial, along, is_reversed, kind }.emit(builder)?;
    Some(builder.convert(scanned, shape.element_type))
}

/// Parts of each row, and their length; the last one may be shorter.
fn parts_of(sizes: &[i64], along: usize) -> Option<[i64; 2]> {
    let length = sizes[along];
    let rows = |sizes: &[i64]| -> i64 { sizes.iter().product() };
    let inside = rows(&sizes[along + 1..]);
    let rows = rows(&sizes[..along]) * inside;
    let division = if inside < FEW_ROWS_ABREAST { OF_BLOCKS } else { OF_THREADS };
    if rows == 0 || rows >= division.many_rows {
        return None;
    }
    let wanted = (division.most_parts / rows).min(length / division.least_terms);
    if wanted < LEAST_PARTS {
        return None;
    }
    // Equal parts need no padding, which is a copy of all elements.
    let fewest = (wanted - wanted / 4).max(LEAST_PARTS);
    let parts = (fewest..=wanted).rev().find(|parts| length % parts == 0).unwrap_or(wanted);
    let own = ceil_div(length, parts);
    Some([ceil_div(length, own), own])
}

impl Scan {
    fn emit(self, builder: &mut GraphBuilder) -> Option<InstructionId> {
        let Scan { operand, initial, along, is_reversed, kind } = self;
        let shape = builder.array(operand);
        let Some([parts, own]) = parts_of(&shape.dimensions, along) else {
            return Some(builder.scan(operand, initial, (along, is_reversed), kind));
        };
        let nothing = identity(kind, shape.element_type)?;
        let nothing_scalar = builder.scalar(shape.element_type, nothing);
        let length = shape.dimensions[along];
        let padded = match parts * own - length {
            0 => operand,
            rest => builder.pad_high(operand, nothing_scalar, along, rest),
        };
        let mut sizes = shape.dimensions.clone();
        sizes.splice(along..=along, [parts, own]);
        let divided = builder.reshape(padded, &sizes);
        let totals = builder.reduce(divided, nothing, &[along as i64 + 1], kind);
        let totals = Scan { operand: totals, ..self }.emit(builder)?;
        let shift = if is_reversed { [-1, 1] } else { [1, -1] };
        let before = builder.pad(totals, initial, along, shift);
        let kept: Vec<i64> = (0..sizes.len() as i64).filter(|&dimension| dimension != along as i64 + 1).collect();
        let before = builder.broadcast(before, &sizes, &kept);
        // What is before a part goes into its first element, so that nothing is left to do behind the scan.
        let with_before = builder.binary(kind, before, divided);
        let position = builder.iota(ElementType::S32, &sizes, along + 1);
        let first = if is_reversed { own - 1 } else { 0 };
        let first = builder.filled(&ArrayShape::new(ElementType::S32, sizes.clone()), ConstantNumber::Integer(first));
        let is_first = builder.compare(ComparisonDirection::Eq, position, first);
        let elements = builder.select(is_first, with_before, divided);
        let scanned = builder.scan(elements, nothing_scalar, (along + 1, is_reversed), kind);
        let mut sizes = shape.dimensions;
        sizes[along] = parts * own;
        let whole = builder.reshape(scanned, &sizes);
        Some(builder.slice(whole, along, 0, length))
    }
}
