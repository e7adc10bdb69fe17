//! `transpose-operands`: operands of large products lie along what is contracted, for instructions of several warps that multiply
//! only such ones: of 8-bit numbers, and of tf32. What is read across it is transposed before, in a kernel of its own, which takes a
//! small part of the time that these instructions save.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::ops::enumerations::DotAlgorithm;
use hlo::shape::ArrayShape;
use indexing::ceil_div;
use melior::ir::OperationRef;
use mlir_ext::rewrite::Rewriter;

use crate::fuse;
use crate::graph_builder::GraphBuilder;
use crate::registry::{OptionDefinition, OptionKind, PassError, PassStatistics};
use crate::rewrite::{Body, blocks_with};
use crate::split_products::{side_in_order, with_sides};

/// The options of the pass.
pub(crate) const OPTIONS: &[OptionDefinition] = &[
    fuse::LEFT_ATTENTION_ROWS,
    OptionDefinition {
        name: "warp-groups",
        description: "whether there are instructions of several warps, for which it is done",
        kind: OptionKind::Boolean,
        default: "false",
    },
];

/// What is transposed.
#[derive(Clone, Copy, Debug)]
pub struct OperandOptions {
    /// Rows of queries from which on products of attentions are left as they are, since they will be fused; 0 for none.
    pub attention_rows: u64,
    /// Whether there are instructions of several warps.
    pub warp_groups: bool,
}

/// Rows and columns of the tiles that these instructions compute, and how many such tiles keep a GPU busy.
const TILE: i64 = 128;
const BUSY_TILES: i64 = 128;

/// How often each element of an operand is multiplied at least, so that transposing it is a small part of the work.
const LEAST_USES: i64 = 512;

/// Bytes of which rows along what is contracted must be a multiple, to be copied by a unit.
const ROW_BYTES: i64 = 16;

/// Runs the pass.
///
/// # Errors
/// Internal ones.
pub fn run(
    root: OperationRef<'_, '_>,
    options: OperandOptions,
    statistics: &mut PassStatistics,
) -> Result<(), PassError> {
    if !options.warp_groups {
        return Ok(());
    }
    let rewriter = Rewriter::new(root);
    let is_dot = |_, kind| kind == OpKind::Dot;
    for block in blocks_with(&rewriter, is_dot) {
        let stay = fuse::products_of_attentions(&rewriter, block, options.attention_rows)?;
        let body = Body::read(&rewriter, block, is_dot)?;
        body.rewrite(|builder, id, instruction| {
            let is_wanted = instruction.kind == OpKind::Dot && !stay.contains(&id);
            let transposed = transposed(builder, instruction).filter(|_| is_wanted)?;
            statistics.add("products", 1);
            Some(transposed)
        })?;
    }
    Ok(())
}

// dot(x, y) => dot(transpose(x), transpose(y))
fn transposed(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let &[lhs, rhs] = &dot.operands[..] else { return None };
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    let result = dot.shape.as_array()?;
    let attributes: DotAttributes = dot.attributes().ok()?;
    if result.is_dynamic()
        || shapes.iter().any(ArrayShape::is_dynamic)
        || !lie_along_terms(&shapes, result, &attributes)
    {
        return None;
    }
    let DotDimensions { lhs_batch, lhs_contracting, rhs_batch, rhs_contracting } = attributes.dimensions();
    let size = |shape: &ArrayShape, dimensions: &[usize]| -> i64 {
        dimensions.iter().map(|&dimension| shape.dimensions[dimension]).product()
    };
    let (batch, terms) = (size(&shapes[0], &lhs_batch), size(&shapes[0], &lhs_contracting));
    if batch * terms == 0 || terms * shapes[0].element_type.byte_width() as i64 % ROW_BYTES != 0 {
        return None;
    }
    let [rows, columns] = [0, 1].map(|number: usize| shapes[number].element_count() / (batch * terms));
    if batch * ceil_div(rows, TILE) * ceil_div(columns, TILE) < BUSY_TILES || rows.min(columns) < LEAST_USES {
        return None;
    }
    let sides = [(lhs, &shapes[0], lhs_batch, lhs_contracting), (rhs, &shapes[1], rhs_batch, rhs_contracting)];
    let sides = sides.map(|(operand, shape, batch, contracting)| {
        let order = order_along_terms(shape, &batch, &contracting);
        side_in_order(builder, operand, &order, (&batch, &contracting))
    });
    let [left, right] = sides;
    if [left.0, right.0] == [lhs, rhs] {
        return None;
    }
    let attributes = with_sides(attributes, [&left, &right]);
    Some(builder.push(Instruction { operands: vec![left.0, right.0], attributes, ..dot.clone() }))
}

/// Whether such an instruction makes a product of these types, in the way that a program wants.
fn lie_along_terms(operands: &[ArrayShape; 2], result: &ArrayShape, attributes: &DotAttributes<'_>) -> bool {
    let [left, right] = operands.each_ref().map(|operand| operand.element_type);
    let is_small_float = |own| matches!(own, ElementType::F8E4M3FN | ElementType::F8E5M2);
    match left {
        ElementType::S8 | ElementType::U8 => left == right && result.element_type.bit_width() == 32,
        ElementType::F32 => right == left && attributes.algorithm == Some(DotAlgorithm::Tf32Tf32F32),
        _ if is_small_float(left) && is_small_float(right) => match attributes.algorithm.unwrap_or(DotAlgorithm::Unset)
        {
            DotAlgorithm::AnyF8AnyF8F32
            | DotAlgorithm::AnyF8AnyF8Any
            | DotAlgorithm::AnyF8AnyF8F32FastAccum
            | DotAlgorithm::AnyF8AnyF8AnyFastAccum => true,
            DotAlgorithm::Unset => attributes.operand_precision.are_default(),
            _ => false,
        },
        _ => false,
    }
}

/// The dimensions of an operand in the order in which it lies along the terms: theirs if it does, else those of batches first, in
/// their order, and the contracted ones last.
fn order_along_terms(shape: &ArrayShape, batch: &[usize], contracting: &[usize]) -> Vec<usize> {
    let all = 0..shape.rank();
    let last = all.clone().rev().find(|&dimension| shape.dimensions[dimension] > 1);
    if last.is_none_or(|last| contracting.contains(&last)) {
        return all.collect();
    }
    let is_free = |dimension: &usize| !batch.contains(dimension) && !contracting.contains(dimension);
    batch.iter().copied().chain(all.filter(is_free)).chain(contracting.iter().copied()).collect()
}
