//! The part of `canonicalize-dots` for products with matrices of a few rows and columns, such as rotations of points and small systems in
//! batches: sums of products, which are computed for as many rows, or matrices, at once as a vector has lanes, and fuse with what is around
//! them. As products of matrices most of each vector would be empty.

use hlo::attributes::Attributes;
use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder};
use crate::split_products::side_in_order;

/// Rows and columns of a small matrix, at most.
const MOST: i64 = 8;

/// How many times as large the other operand is at least, where one is written so that it lies as that does.
const MUCH_LARGER: i64 = 8;

/// Rows, or matrices of a batch, from which on there are enough for vectors of them.
const LEAST_ROWS: i64 = 64;

// dot(x, y) => reduce(multiply(broadcast(x), broadcast(y)), add)  where y is small, or both are parts of many
pub(crate) fn sums_of_products(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let (&[lhs, rhs], result) = (&dot.operands[..], dot.shape.as_array()?) else { return None };
    let attributes: DotAttributes = dot.attributes().ok()?;
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    let is_static = |shape: &ArrayShape| !shape.is_dynamic();
    if !is_static(result) || !shapes.iter().all(is_static) || !is_sum_of(result.element_type, &shapes) {
        return None;
    }
    let own = attributes.dimensions();
    let free = [own.lhs_free(shapes[0].rank()), own.rhs_free(shapes[1].rank())];
    let size = |side: usize, dimensions: &[usize]| -> i64 {
        dimensions.iter().fold(1, |size: i64, &d| size.saturating_mul(shapes[side].dimensions[d]))
    };
    let [matrices, terms, rows, columns] =
        [size(0, &own.lhs_batch), size(0, &own.lhs_contracting), size(0, &free[0]), size(1, &free[1])];
    let is_small = |size: i64| (2..=MOST).contains(&size);
    let has_many_rows = rows >= LEAST_ROWS;
    let has_many_matrices = matrices >= LEAST_ROWS && is_small(rows);
    // Where those of a batch follow each other in memory, it is along them that vectors find what they read.
    let batches = [&own.lhs_batch, &own.rhs_batch];
    let ends_with_batch = |(shape, batch): (&ArrayShape, &Vec<usize>)| {
        let last = shape.rank().checked_sub(1).filter(|last| batch.contains(last));
        last.is_some_and(|last| shape.dimensions[last] >= LEAST_ROWS)
    };
    let is_along_batch = shapes.iter().zip(batches).any(ends_with_batch) && rows.min(columns) <= MOST;
    let has_small_matrices = is_small(terms) && is_small(columns) && (has_many_rows || has_many_matrices);
    if !has_small_matrices && !is_along_batch {
        return None;
    }
    let mut own = own;
    let mut operands = [lhs, rhs].map(|operand| builder.convert(operand, result.element_type));
    if is_along_batch && terms > MOST {
        let elements = shapes.each_ref().map(ArrayShape::element_count);
        let is_much_smaller = |side: usize| elements[side].saturating_mul(MUCH_LARGER) <= elements[1 - side];
        if is_much_smaller(0) {
            (operands[0], own.lhs_batch, own.lhs_contracting) =
                ending_with_batch(builder, operands[0], (&own.lhs_batch, &own.lhs_contracting));
        }
        if is_much_smaller(1) {
            (operands[1], own.rhs_batch, own.rhs_contracting) =
                ending_with_batch(builder, operands[1], (&own.rhs_batch, &own.rhs_contracting));
        }
    }
    let [lhs, rhs] = factors(builder, operands, &own);
    let products = builder.binary(OpKind::Multiply, lhs, rhs);
    let outer = (own.lhs_batch.len() + free[0].len()) as i64;
    let along: Vec<i64> = (outer..).take(own.lhs_contracting.len()).collect();
    Some(builder.reduce(products, ConstantNumber::Integer(0), &along, OpKind::Add))
}

/// An operand whose last dimensions are those of the batch, written so, and which its batch and contracted dimensions are then.
fn ending_with_batch(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    (batch, contracting): (&[usize], &[usize]),
) -> (InstructionId, Vec<usize>, Vec<usize>) {
    let rank = builder.dimensions(operand).len();
    let order: Vec<usize> = (0..rank).filter(|d| !batch.contains(d)).chain(batch.iter().copied()).collect();
    let (transposed, batch, contracting) = side_in_order(builder, operand, &order, (batch, contracting));
    let [batch, contracting] = [batch, contracting].map(|own| own.into_iter().map(|d| d as usize).collect());
    if transposed == operand {
        return (operand, batch, contracting);
    }
    let shape = builder.shape(transposed).clone();
    let written = builder.add(OpKind::OptimizationBarrier, shape, &[transposed], Attributes::new());
    (written, batch, contracting)
}

/// Whether vectors have lanes of a type for the sums of products of two operands, whose elements it can all have.
fn is_sum_of(sum: ElementType, operands: &[ArrayShape; 2]) -> bool {
    let is_vector_lane = (sum.is_float() || sum.is_integer()) && sum.bit_width() >= 32;
    let is_part = |operand: &ArrayShape| match operand.element_type {
        same if same == sum => true,
        float if float.is_float() => sum.is_float() && float.bit_width() < sum.bit_width(),
        integer => integer.is_integer() && sum.is_integer() && integer.bit_width() < sum.bit_width(),
    };
    is_vector_lane && operands.iter().all(is_part)
}

/// The operands of a dot as arrays of the factors of its products: these have the dimensions of the result, and the contracted ones
/// before those of the right operand alone.
pub(crate) fn factors(
    builder: &mut GraphBuilder,
    operands: [InstructionId; 2],
    own: &DotDimensions,
) -> [InstructionId; 2] {
    let [lhs_sizes, rhs_sizes] = operands.map(|operand| builder.dimensions(operand));
    let (lhs_free, rhs_free) = (own.lhs_free(lhs_sizes.len()), own.rhs_free(rhs_sizes.len()));
    let of_lhs = [&own.lhs_batch[..], &lhs_free, &own.lhs_contracting].concat();
    let of_rhs = rhs_free.iter().map(|&d| rhs_sizes[d]);
    let sizes: Vec<i64> = of_lhs.iter().map(|&d| lhs_sizes[d]).chain(of_rhs).collect();
    let inner = own.lhs_batch.len() + lhs_free.len();
    let places = |lists: [(&[usize], usize); 3]| {
        let mut places = vec![0; lists.iter().map(|(list, _)| list.len()).sum()];
        for (list, first) in lists {
            list.iter().zip(first as i64..).for_each(|(&d, place)| places[d] = place);
        }
        places
    };
    let of_lhs = places([(&own.lhs_batch, 0), (&lhs_free, own.lhs_batch.len()), (&own.lhs_contracting, inner)]);
    let of_rhs =
        places([(&own.rhs_batch, 0), (&own.rhs_contracting, inner), (&rhs_free, inner + own.rhs_contracting.len())]);
    [(operands[0], of_lhs), (operands[1], of_rhs)]
        .map(|(operand, places)| builder.broadcast_in_dim(operand, &sizes, &places))
}
