//! `split-reductions`: a reduction of many elements to few becomes two, for machines that have more to do side by side than
//! the results are, and so do a product and a scan.
//!
//! A reduced dimension becomes two, of which the first reduction leaves one for the second. Parts and their order do not
//! depend on anything that runs, so results are the same in every run, on any number of threads.

use std::collections::{HashMap, HashSet};

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::shape::ArrayShape;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::fuse;
use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_computation, binary_operation};
use crate::joined::{self, Part};
use crate::ordered_bits::{by_places, reductions_of_bits};
use crate::reduction_parts::{MOST_PARTS, MOST_PARTS_IN_ORDER, Parts};
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};
use crate::regrouping::{self, Initial, Regrouping};
use crate::rewrite::{Body, blocks_with};
use crate::{split_convolutions, split_products, split_scans, split_scatters};

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[
    fuse::LEFT_ATTENTION_ROWS,
    OptionDefinition {
        name: "gpu",
        description: "divide for the threads of a GPU, not for those of a processor",
        kind: OptionKind::Boolean,
        default: "true",
    },
];

/// What is divided.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rows of queries from which on products of attentions are left as they are, since they will be fused; 0 for none.
    pub attention_rows: u64,
    /// Whether it is divided for a GPU: products, scans and scatters too. Each further reading of the elements would be slower
    /// on one thread.
    pub gpu: bool,
}

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, options: Options, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let Options { attention_rows, gpu } = options;
    let rewriter = Rewriter::new(root);
    let is_divided = |_, kind| match kind {
        OpKind::Reduce => true,
        kind => gpu && matches!(kind, OpKind::ReduceWindow | OpKind::Scatter | OpKind::Dot | OpKind::Convolution),
    };
    // What several operands are combined to is looked into, and what they begin with.
    let is_read = |operation, kind| {
        let is_looked_into = matches!(kind, OpKind::GetTupleElement | OpKind::Constant | OpKind::Concatenate);
        is_divided(operation, kind) || is_looked_into
    };
    for block in blocks_with(&rewriter, is_divided) {
        let is_whole = fuse::products_of_attentions(&rewriter, block, attention_rows)?;
        let body = Body::read(&rewriter, block, is_read)?;
        let of_bits = if gpu { HashSet::new() } else { reductions_of_bits(body.computation()) };
        body.rewrite(|builder, id, instruction| {
            let (split, what) = match instruction.kind {
                OpKind::GetTupleElement => {
                    let GetTupleElementAttributes { index } = instruction.attributes().ok()?;
                    let tuple = builder.get(*instruction.operands.first()?);
                    let element = tuple.operands.get(usize::try_from(index).ok()?);
                    return element.copied().filter(|_| tuple.kind == OpKind::Tuple);
                }
                OpKind::Reduce if of_bits.contains(&id) => {
                    let push = |builder: &mut GraphBuilder, own| {
                        split(builder, &own, gpu).unwrap_or_else(|| builder.push(own))
                    };
                    (by_places(builder, instruction, push)?, "bits")
                }
                OpKind::Reduce => (split(builder, instruction, gpu)?, "reductions"),
                OpKind::ReduceWindow => (split_scans::split(builder, instruction)?, "scans"),
                OpKind::Scatter => (split_scatters::split(builder, instruction)?, "scatters"),
                OpKind::Dot if is_whole.contains(&id) => return None,
                OpKind::Dot => (split_products::split(builder, instruction)?, "products"),
                OpKind::Convolution => (split_convolutions::split(builder, instruction)?, "products"),
                _ => return None,
            };
            statistics.add(what, 1);
            Some(split)
        })?;
    }
    Ok(())
}

// reduce(x, i) => reduce(reduce(reshape(x), identity), i), combined with what no part has
fn split(builder: &mut GraphBuilder, reduce: &Instruction, gpu: bool) -> Option<InstructionId> {
    let (&[operand, initial], [combination]) = (&reduce.operands[..], &reduce.computations[..]) else {
        return split_by_computation(builder, reduce, gpu);
    };
    let shape = builder.array(operand);
    let of_operation = binary_operation(combination).and_then(|kind| Some((kind, identity(kind, shape.element_type)?)));
    let Some((kind, identity)) = of_operation else { return split_by_computation(builder, reduce, gpu) };
    let Parts { sizes, inner, left, along, rest } = match gpu {
        true => Parts::of_operation(&shape, reduce)?,
        false => Parts::for_processor(&shape, reduce, true)?,
    };
    let wide = wide_type(kind, shape.element_type);
    let is_rounded = wide != shape.element_type;
    if let Some(ends) = joined::ends(builder, operand, along).filter(|_| !is_rounded) {
        return Some(split_by_array(builder, (reduce, kind, identity), (along, &ends), gpu));
    }
    let (operand, initial) = (builder.convert(operand, wide), builder.convert(initial, wide));
    let whole = shape.dimensions[along] - rest;
    let in_parts = if rest == 0 { operand } else { builder.slice(operand, along, 0, whole) };
    let divided = builder.reshape(in_parts, &sizes);
    let partial = builder.reduce(divided, identity, &inner, kind);
    let combination = match is_rounded {
        true => binary_computation(&reduce.name, wide, kind),
        false => combination.clone(),
    };
    let total = Instruction {
        operands: vec![partial, initial],
        shape: ArrayShape::new(wide, reduce.shape.as_array()?.dimensions.clone()).into(),
        attributes: ReduceAttributes { dimensions: &left }.into(),
        computations: vec![combination],
        ..reduce.clone()
    };
    let mut total = builder.push(total);
    if rest > 0 {
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let in_none = builder.slice(operand, along, whole, shape.dimensions[along]);
        let in_none = builder.reduce(in_none, identity, dimensions, kind);
        total = builder.binary(kind, total, in_none);
    }
    Some(builder.convert(total, shape.element_type))
}

// reduce(concatenate(x, y), i) => combined(reduce(x, i), reduce(y, identity))
fn split_by_array(
    builder: &mut GraphBuilder,
    (reduce, kind, identity): (&Instruction, OpKind, ConstantNumber),
    (dimension, ends): (usize, &[i64]),
    gpu: bool,
) -> InstructionId {
    let (operand, mut initial) = (reduce.operands[0], reduce.operands[1]);
    let mut total = None;
    for (&start, &end) in ends.iter().zip(&ends[1..]) {
        let part = Part { dimension, start, end, made: HashMap::new() }.of(builder, operand);
        let own = Instruction { operands: vec![part, initial], ..reduce.clone() };
        let reduced = split(builder, &own, gpu).unwrap_or_else(|| builder.push(own));
        total = Some(total.map_or(reduced, |total| builder.binary(kind, total, reduced)));
        initial = builder.scalar(builder.element_type(operand), identity);
    }
    total.unwrap_or(initial)
}

// reduce(x …, i …) => reduce(reduce(reshape(x) …, i …) …, i …)  by any computation that lets parts be combined
fn split_by_computation(builder: &mut GraphBuilder, reduce: &Instruction, gpu: bool) -> Option<InstructionId> {
    let (operands, initial) = reduce.operands.split_at(reduce.operands.len() / 2);
    let (Some(&first), [combination]) = (operands.first(), &reduce.computations[..]) else { return None };
    let shape = builder.array(first);
    let parts = |most: i64| match gpu {
        true => Parts::of(&shape, reduce, most),
        false => Parts::for_processor(&shape, reduce, false),
    };
    parts(MOST_PARTS)?;
    let values = regrouping::constants(initial, |id| builder.get(id))?;
    let Regrouping { commutes, .. } =
        Regrouping::of(combination, Some(&values)).filter(|own| own.initial >= Initial::BeforeParts)?;
    let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
    if !commutes && dimensions.len() > 1 {
        return None;
    }
    let Parts { sizes, inner, left, .. } = parts(if commutes { MOST_PARTS } else { MOST_PARTS_IN_ORDER })?;
    let divided: Vec<InstructionId> = operands.iter().map(|&operand| builder.reshape(operand, &sizes)).collect();
    let partial = reduced(builder, &divided, (initial, &inner, combination));
    let total = reduced(builder, &partial, (initial, &left, combination));
    Some(match total[..] {
        [total] => total,
        _ => builder.tuple(&total),
    })
}

/// What a computation reduces several operands to.
fn reduced(
    builder: &mut GraphBuilder,
    operands: &[InstructionId],
    (initial, dimensions, combination): (&[InstructionId], &[i64], &Computation),
) -> Vec<InstructionId> {
    let attributes = ReduceAttributes { dimensions };
    let all = [operands, initial].concat();
    let reduced = builder.infer_with(OpKind::Reduce, &all, attributes, vec![combination.clone()]);
    elements(builder, reduced, operands.len())
}

/// The arrays that an operation with so many operands gives.
pub(super) fn elements(builder: &mut GraphBuilder, value: InstructionId, count: usize) -> Vec<InstructionId> {
    match count {
        1 => vec![value],
        _ => (0..count).map(|index| builder.element(value, index)).collect(),
    }
}

/// The type that elements are combined in: sums of small floats are rounded once, at their end.
pub(super) fn wide_type(kind: OpKind, element_type: ElementType) -> ElementType {
    let is_rounded = matches!(kind, OpKind::Add | OpKind::Multiply)
        && element_type.class() == ElementClass::Float
        && element_type.bit_width() < 32;
    if is_rounded { ElementType::F32 } else { element_type }
}

/// What changes nothing, if the operation is associative and has such a number.
pub(super) fn identity(kind: OpKind, element_type: ElementType) -> Option<ConstantNumber> {
    use ConstantNumber::{Float, Integer};
    use ElementClass::{Complex, Predicate, Signed, Unsigned};
    let (class, width) = (element_type.class(), element_type.bit_width());
    let has_infinity =
        matches!(element_type, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64);
    Some(match (kind, class) {
        (OpKind::Add, Signed | Unsigned) => Integer(0),
        (OpKind::Add, ElementClass::Float) if has_infinity => Float(-0.0),
        (OpKind::Multiply, Signed | Unsigned) => Integer(1),
        (OpKind::Multiply, ElementClass::Float) if has_infinity => Float(1.0),
        (OpKind::Multiply, Complex) => Float(1.0),
        (OpKind::And, Predicate) => Integer(1),
        (OpKind::And, Signed | Unsigned) => Integer(-1),
        (OpKind::Or | OpKind::Xor, Predicate | Signed | Unsigned) => Integer(0),
        (OpKind::Maximum, Signed) => Integer(i64::MIN >> (64 - width)),
        (OpKind::Minimum, Signed) => Integer(i64::MAX >> (64 - width)),
        (OpKind::Maximum, Unsigned) => Integer(0),
        (OpKind::Minimum, Unsigned) => Integer(-1),
        (OpKind::Maximum, ElementClass::Float) if has_infinity => Float(f64::NEG_INFINITY),
        (OpKind::Minimum, ElementClass::Float) if has_infinity => Float(f64::INFINITY),
        _ => return None,
    })
}
