//! The part of `canonicalize-dots` for products with matrices of a few rows and columns, such as rotations of points and small systems in
//! batches: sums of products, which are computed for as many rows, or matrices, at once as a vector has lanes, and fuse with what is around
//! them. As products of matrices most of each vector would be empty.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Rows and columns of a small matrix, at most.
const MOST: i64 = 8;

/// Columns that fill half of a vector of AVX2, whose loads and stores cost as much as those of whole ones: a product of matrices is as fast.
const HALF_A_VECTOR: i64 = 4;

/// Rows, or matrices of a batch, from which on there are enough for vectors of them.
const LEAST_ROWS: i64 = 64;

// dot(x, y) => reduce(multiply(broadcast(x), broadcast(y)), add)  where y is small, or both are parts of many
pub(crate) fn sums_of_products(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let (&[lhs, rhs], result) = (&dot.operands[..], dot.shape.as_array()?) else { return None };
    let attributes: DotAttributes = dot.attributes().ok()?;
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    let is_plain = |shape: &ArrayShape| {
        !shape.is_dynamic()
            && shape.element_type == result.element_type
            && matches!(shape.element_type, ElementType::F32 | ElementType::F64)
    };
    if !is_plain(result) || !shapes.iter().all(is_plain) {
        return None;
    }
    let batch = [attributes.lhs_batch_dims, attributes.rhs_batch_dims];
    let contracted = [attributes.lhs_contracting_dims, attributes.rhs_contracting_dims];
    let free = [0, 1].map(|side: usize| -> Vec<i64> {
        let all = 0..shapes[side].rank() as i64;
        all.filter(|d| !batch[side].contains(d) && !contracted[side].contains(d)).collect()
    });
    let size = |side: usize, dimensions: &[i64]| -> i64 {
        dimensions.iter().fold(1, |size: i64, &d| size.saturating_mul(shapes[side].dimensions[d as usize]))
    };
    let [matrices, terms, rows, columns] =
        [size(0, batch[0]), size(0, contracted[0]), size(0, &free[0]), size(1, &free[1])];
    let is_small = |size: i64| (2..=MOST).contains(&size);
    let has_many_rows = rows >= LEAST_ROWS && columns != HALF_A_VECTOR;
    let has_many_matrices = matrices >= LEAST_ROWS && is_small(rows);
    if !is_small(terms) || !is_small(columns) || !(has_many_rows || has_many_matrices) {
        return None;
    }
    // Dimensions of the products: those of the result, but the contracted ones before the columns.
    let (outer, inner) = (batch[0].len() + free[0].len(), contracted[0].len());
    let mut sizes = result.dimensions.clone();
    sizes.splice(outer..outer, contracted[0].iter().map(|&d| shapes[0].dimensions[d as usize]));
    let place = |side: usize, d: i64| -> Option<i64> {
        let among = |list: &[i64], first: usize| list.iter().position(|&own| own == d).map(|own| (first + own) as i64);
        let of_free = [batch[0].len(), outer + inner][side];
        among(batch[side], 0).or_else(|| among(contracted[side], outer)).or_else(|| among(&free[side], of_free))
    };
    let places = [0, 1].map(|side| (0..shapes[side].rank() as i64).map(|d| place(side, d)).collect::<Option<Vec<_>>>());
    let [of_lhs, of_rhs] = places;
    let lhs = builder.broadcast_in_dim(lhs, &sizes, &of_lhs?);
    let rhs = builder.broadcast_in_dim(rhs, &sizes, &of_rhs?);
    let products = builder.binary(OpKind::Multiply, lhs, rhs);
    let along: Vec<i64> = (outer..outer + inner).map(|d| d as i64).collect();
    Some(builder.reduce(products, ConstantNumber::Integer(0), &along, OpKind::Add))
}
