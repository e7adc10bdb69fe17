//! The part of `split-reductions` for scans: where rows are few and long, parts of them are scanned side by side.
//!
//! What each part has in all is reduced first, and scanned, so that a part can begin with what is before it. The elements are
//! read twice. Parts depend on sizes alone, so results are the same in every run.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::shape::ArrayShape;
use indexing::ceil_div;

use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_operation};
use crate::lifted::{Precision, lift};
use crate::regrouping::{self, Initial, Regrouping};
use crate::split_reductions::{elements, identity, wide_type};

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
    let (&[operand, ..], [combination]) = (&window.operands[..], &window.computations[..]) else { return None };
    let shape = builder.array(operand);
    let attributes: ReduceWindowAttributes<'_> = window.attributes().ok()?;
    let (along, is_reversed) = attributes.accumulates(&shape.dimensions)?;
    if shape.is_dynamic() {
        return None;
    }
    parts_of(&shape.dimensions, along)?;
    let of_operation = binary_operation(combination).filter(|&kind| identity(kind, shape.element_type).is_some());
    let (&[operand, initial], Some(kind)) = (&window.operands[..], of_operation) else {
        return split_by_computation(builder, window, (along, is_reversed));
    };
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

// reduce-window(x …, i …) => f(pad(scan(last of y)), i) …, y …) with y … = scan(reshape(x) …, i …)  for any associative f
fn split_by_computation(
    builder: &mut GraphBuilder,
    window: &Instruction,
    (along, is_reversed): (usize, bool),
) -> Option<InstructionId> {
    let (operands, initial) = window.operands.split_at(window.operands.len() / 2);
    let [combination] = &window.computations[..] else { return None };
    let values = regrouping::constants(initial, |id| builder.get(id))?;
    let regrouping = Regrouping::of(combination, Some(&values))?;
    // From the end, what a part begins with is behind it.
    let needed = if is_reversed && !regrouping.commutes { Initial::Identity } else { Initial::BeforeParts };
    if regrouping.initial < needed {
        return None;
    }
    let scan = ScanByComputation { initial, along, is_reversed, combination };
    let scanned = scan.emit(builder, operands)?;
    Some(match scanned[..] {
        [scanned] => scanned,
        _ => builder.tuple(&scanned),
    })
}

/// A scan by an associative computation.
struct ScanByComputation<'s> {
    initial: &'s [InstructionId],
    along: usize,
    is_reversed: bool,
    combination: &'s Computation,
}

impl ScanByComputation<'_> {
    fn emit(&self, builder: &mut GraphBuilder, operands: &[InstructionId]) -> Option<Vec<InstructionId>> {
        let &ScanByComputation { initial, along, is_reversed, combination } = self;
        let shape = builder.array(*operands.first()?);
        let Some([parts, own]) = parts_of(&shape.dimensions, along) else {
            return Some(self.scan(builder, operands, along));
        };
        let length = shape.dimensions[along];
        let mut sizes = shape.dimensions.clone();
        sizes[along] = parts * own;
        let whole = sizes.clone();
        sizes.splice(along..=along, [parts, own]);
        let mut divided = Vec::with_capacity(operands.len());
        for (&operand, &initial) in operands.iter().zip(initial) {
            let padded = match parts * own - length {
                0 => operand,
                rest => builder.pad_high(operand, initial, along, rest),
            };
            divided.push(builder.reshape(padded, &sizes));
        }
        let scanned = self.scan(builder, &divided, along + 1);
        let mut sizes_of_totals = shape.dimensions;
        sizes_of_totals[along] = parts;
        let last = if is_reversed { 0 } else { own - 1 };
        let mut totals = Vec::with_capacity(operands.len());
        for &own in &scanned {
            let total = builder.slice(own, along + 1, last, last + 1);
            totals.push(builder.reshape(total, &sizes_of_totals));
        }
        let shift = if is_reversed { [-1, 1] } else { [1, -1] };
        let kept: Vec<i64> = (0..sizes.len() as i64).filter(|&dimension| dimension != along as i64 + 1).collect();
        let mut before = Vec::with_capacity(operands.len());
        for (total, &initial) in self.emit(builder, &totals)?.into_iter().zip(initial) {
            let total = builder.pad(total, initial, along, shift);
            before.push(builder.broadcast(total, &sizes, &kept));
        }
        let in_order = if is_reversed { [scanned, before] } else { [before, scanned] }.concat();
        let combined = lift(builder, combination, &in_order, (&sizes, Precision::Own))?;
        let in_rows = |value| {
            let value = builder.reshape(value, &whole);
            builder.slice(value, along, 0, length)
        };
        Some(combined.into_iter().map(in_rows).collect())
    }

    /// The scan itself, along one dimension.
    fn scan(&self, builder: &mut GraphBuilder, operands: &[InstructionId], along: usize) -> Vec<InstructionId> {
        let sizes = builder.dimensions(operands[0]);
        let window = ReduceWindowAttributes::cumulative(along, &sizes, self.is_reversed);
        let attributes = ReduceWindowAttributes { window: &window };
        let all = [operands, self.initial].concat();
        let scanned = builder.infer_with(OpKind::ReduceWindow, &all, attributes, vec![self.combination.clone()]);
        elements(builder, scanned, operands.len())
    }
}
