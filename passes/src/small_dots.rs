//! The part of `canonicalize-dots` for products with matrices of a few rows and columns, such as rotations of points and small systems in
//! batches: sums of products, which are computed for as many rows, or matrices, at once as a vector has lanes, and fuse with what is around
//! them. As products of matrices most of each vector would be empty.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Rows and columns of a small matrix, at most.
const MOST: i64 = 8;

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
    if !is_small(terms) || !is_small(columns) || !(has_many_rows || has_many_matrices) {
        return None;
    }
    let operands = [lhs, rhs].map(|operand| builder.convert(operand, result.element_type));
    let [lhs, rhs] = factors(builder, operands, &own);
    let products = builder.binary(OpKind::Multiply, lhs, rhs);
    let outer = (own.lhs_batch.len() + free[0].len()) as i64;
    let along: Vec<i64> = (outer..).take(own.lhs_contracting.len()).collect();
    Some(builder.reduce(products, ConstantNumber::Integer(0), &along, OpKind::Add))
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
