//! `split-reductions`: a reduction of many elements to few becomes two, for machines that have more to do side by side than
//! the results are, and so do a product and a scan.
//!
//! A reduced dimension becomes two, of which the first reduction leaves one for the second. Parts and their order do not
//! depend on anything that runs, so results are the same in every run.

use std::collections::HashSet;

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
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};
use crate::regrouping::{self, Initial, Regrouping};
use crate::rewrite::{Body, blocks_with};
use crate::{split_products, split_scans, split_scatters};

/// Results from which on a reduction has enough to do side by side.
const MANY_RESULTS: i64 = 256;

/// Elements that each result combines at least.
const LEAST_TERMS: i64 = 1 << 15;

/// Elements that each part of a result combines at least.
const LEAST_TERMS_OF_PART: i64 = 1 << 11;

/// Parts of all results, at most.
const MOST_PARTS: i64 = 1 << 10;

/// The same of results that lie abreast, where each part is combined by a few threads only: results from which on there are enough,
/// elements that are combined at least, in all and to each result and part, and parts of all results at most.
const MANY_ABREAST: i64 = 1 << 15;
const LEAST_ABREAST: i64 = 1 << 21;
const LEAST_TERMS_ABREAST: i64 = 1 << 10;
const LEAST_TERMS_OF_PART_ABREAST: i64 = 1 << 8;

/// Neighbours that lie abreast, at least.
const LEAST_NEIGHBOURS: i64 = 32;

/// Parts of all results whose order matters, at most: a thread combines those of each.
const MOST_PARTS_IN_ORDER: i64 = 1 << 6;

/// Parts for which a second reduction is worth it.
const LEAST_PARTS: i64 = 4;

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[OptionDefinition {
    name: "attention-rows",
    description: "as for hlo-fuse, whose attentions are left as they are; 0 if it fuses none",
    kind: OptionKind::Integer,
    default: "0",
}];

/// Runs the pass: products of attentions that will be fused, by their rows of queries, are left as they are.
///
/// # Errors
/// Internal ones.
pub fn run(root: OperationRef<'_, '_>, attention_rows: u64, statistics: &mut PassStatistics) -> Result<(), PassError> {
    let rewriter = Rewriter::new(root);
    let is_divided = |_, kind| matches!(kind, OpKind::Reduce | OpKind::ReduceWindow | OpKind::Scatter | OpKind::Dot);
    // What several operands are combined to is looked into, and what they begin with.
    let is_read =
        |operation, kind| is_divided(operation, kind) || matches!(kind, OpKind::GetTupleElement | OpKind::Constant);
    for block in blocks_with(&rewriter, is_divided) {
        let is_whole = match attention_rows {
            0 => HashSet::new(),
            rows => fuse::products_of_attentions(&rewriter, block, rows)?,
        };
        let body = Body::read(&rewriter, block, is_read)?;
        body.rewrite(|builder, id, instruction| {
            let (split, what) = match instruction.kind {
                OpKind::GetTupleElement => {
                    let GetTupleElementAttributes { index } = instruction.attributes().ok()?;
                    let tuple = builder.get(*instruction.operands.first()?);
                    let element = tuple.operands.get(usize::try_from(index).ok()?);
                    return element.copied().filter(|_| tuple.kind == OpKind::Tuple);
                }
                OpKind::Reduce => (split(builder, instruction)?, "reductions"),
                OpKind::ReduceWindow => (split_scans::split(builder, instruction)?, "scans"),
                OpKind::Scatter => (split_scatters::split(builder, instruction)?, "scatters"),
                OpKind::Dot if is_whole.contains(&id) => return None,
                OpKind::Dot => (split_products::split(builder, instruction)?, "products"),
                _ => return None,
            };
            statistics.add(what, 1);
            Some(split)
        })?;
    }
    Ok(())
}

// reduce(x, i) => reduce(reduce(reshape(x), identity), i)
fn split(builder: &mut GraphBuilder, reduce: &Instruction) -> Option<InstructionId> {
    let (&[operand, initial], [combination]) = (&reduce.operands[..], &reduce.computations[..]) else {
        return split_by_computation(builder, reduce);
    };
    let shape = builder.array(operand);
    let of_operation = binary_operation(combination).and_then(|kind| Some((kind, identity(kind, shape.element_type)?)));
    let Some((kind, identity)) = of_operation else { return split_by_computation(builder, reduce) };
    let Parts { sizes, inner, left } = Parts::of_operation(&shape, reduce)?;
    let wide = wide_type(kind, shape.element_type);
    let is_rounded = wide != shape.element_type;
    let (operand, initial) = (builder.convert(operand, wide), builder.convert(initial, wide));
    let divided = builder.reshape(operand, &sizes);
    let partial = builder.reduce(divided, identity, &inner, kind);
    let combination = match is_rounded {
        true => binary_computation(&reduce.name, wide, kind),
        false => combination.clone(),
    };
    let total = Instruction {
        operands: vec![partial, initial],
        shape: ArrayShape::new(wide, reduce.shape.as_array()?.dimensions.clone()).into(),
        attributes: ReduceAttributes { dimensions: &[left] }.into(),
        computations: vec![combination],
        ..reduce.clone()
    };
    let total = builder.push(total);
    Some(builder.convert(total, shape.element_type))
}

// reduce(x …, i …) => reduce(reduce(reshape(x) …, i …) …, i …)  by any computation that lets parts be combined
fn split_by_computation(builder: &mut GraphBuilder, reduce: &Instruction) -> Option<InstructionId> {
    let (operands, initial) = reduce.operands.split_at(reduce.operands.len() / 2);
    let (Some(&first), [combination]) = (operands.first(), &reduce.computations[..]) else { return None };
    let shape = builder.array(first);
    Parts::of(&shape, reduce, MOST_PARTS)?;
    let values = regrouping::constants(initial, |id| builder.get(id))?;
    let Regrouping { commutes, .. } =
        Regrouping::of(combination, Some(&values)).filter(|own| own.initial >= Initial::BeforeParts)?;
    let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
    if !commutes && dimensions.len() > 1 {
        return None;
    }
    let most = if commutes { MOST_PARTS } else { MOST_PARTS_IN_ORDER };
    let Parts { sizes, inner, left } = Parts::of(&shape, reduce, most)?;
    let divided: Vec<InstructionId> = operands.iter().map(|&operand| builder.reshape(operand, &sizes)).collect();
    let partial = reduced(builder, &divided, (initial, &inner, combination));
    let total = reduced(builder, &partial, (initial, &[left], combination));
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

/// What decides about parts: results from which on there are none, elements that each result and each part combine at least, and parts
/// of all results at most.
#[derive(Clone, Copy)]
struct Limits {
    results: i64,
    terms: i64,
    terms_of_part: i64,
    parts: i64,
}

/// How a reduction is divided.
struct Parts {
    /// Sizes of what is reduced, with a dimension for the parts.
    sizes: Vec<i64>,
    /// What the first reduction reduces.
    inner: Vec<i64>,
    /// The dimension of the parts, among those that it leaves.
    left: i64,
}

impl Parts {
    /// The parts of a reduction of many elements to few, or along columns.
    fn of(shape: &ArrayShape, reduce: &Instruction, most: i64) -> Option<Self> {
        let limits =
            Limits { results: MANY_RESULTS, terms: LEAST_TERMS, terms_of_part: LEAST_TERMS_OF_PART, parts: most };
        Self::within(shape, reduce, limits)
    }

    /// Those of a reduction by an operation, whose results may lie abreast.
    fn of_operation(shape: &ArrayShape, reduce: &Instruction) -> Option<Self> {
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let is_abreast = shape.rank() > 0
            && !dimensions.contains(&(shape.rank() as i64 - 1))
            && shape.dimensions[shape.rank() - 1] >= LEAST_NEIGHBOURS
            && shape.element_count() >= LEAST_ABREAST;
        if !is_abreast {
            return Self::of(shape, reduce, MOST_PARTS);
        }
        let limits = Limits {
            results: MANY_ABREAST,
            terms: LEAST_TERMS_ABREAST,
            terms_of_part: LEAST_TERMS_OF_PART_ABREAST,
            parts: MANY_ABREAST,
        };
        Self::within(shape, reduce, limits)
    }

    fn within(shape: &ArrayShape, reduce: &Instruction, limits: Limits) -> Option<Self> {
        if shape.is_dynamic() {
            return None;
        }
        let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
        let reduced = |d: &i64| shape.dimensions.get(*d as usize).copied().unwrap_or(1);
        let terms: i64 = dimensions.iter().map(reduced).product();
        let results = shape.element_count() / terms.max(1);
        if results == 0 || results >= limits.results || terms < limits.terms {
            return None;
        }
        // Of the longest reduced dimension, or the first of several.
        let along = dimensions.iter().copied().max_by_key(|d| (reduced(d), -d))?;
        let size = reduced(&along);
        let wanted = (limits.parts / results).min(terms / limits.terms_of_part).min(size);
        let parts = (LEAST_PARTS..=wanted).rev().find(|parts| size % parts == 0)?;
        let place = along as usize;
        let mut sizes = shape.dimensions.clone();
        sizes.splice(place..=place, [parts, size / parts]);
        let behind = |d: i64| if d >= along { d + 1 } else { d };
        let inner: Vec<i64> = dimensions.iter().map(|&d| behind(d)).collect();
        let left = along - dimensions.iter().filter(|&&d| d < along).count() as i64;
        Some(Parts { sizes, inner, left })
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
