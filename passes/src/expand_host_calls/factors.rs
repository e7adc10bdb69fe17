//! Factors of large matrices, and systems of equations with triangular ones, by blocks: those on the diagonal are small ones of
//! the same kind, which are kernels, and all others products.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::cholesky::CholeskyAttributes;
use hlo::ops::dot::DotAttributes;
use hlo::ops::enumerations::{ComparisonDirection, TransposeKind};
use hlo::ops::triangular_solve::TriangularSolveAttributes;
use hlo::shape::ArrayShape;
use num_complex::Complex64;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Rows of the largest triangular matrices that are kernels.
pub const LARGEST_FACTOR: i64 = 32;

/// Blocks of the largest ones that are divided: their instructions are in a program one by one.
const MOST_BLOCKS: i64 = 1024;

/// Whether a triangular matrix is divided: small ones are kernels, and the largest calls of the host.
fn is_divided(size: i64) -> bool {
    (LARGEST_FACTOR + 1..=LARGEST_FACTOR * MOST_BLOCKS).contains(&size)
}

/// The blocks of a diagonal.
fn blocks(size: i64) -> impl DoubleEndedIterator<Item = (i64, i64)> {
    let starts = (0..size).step_by(LARGEST_FACTOR as usize);
    let starts: Vec<i64> = starts.collect();
    starts.into_iter().map(move |start| (start, (start + LARGEST_FACTOR).min(size)))
}

/// Block by block from the first to the last, which is taken from all that are behind it.
pub(super) fn triangular_solve(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let &[matrices, vectors] = &instruction.operands[..] else { return None };
    let attributes: TriangularSolveAttributes = instruction.attributes().ok()?;
    let result = builder.array(vectors);
    let size = *builder.dimensions(matrices).last()?;
    if !is_divided(size) || result.is_dynamic() || builder.array(matrices).is_dynamic() {
        return None;
    }
    let TriangularSolveAttributes { left_side, lower, transpose_a, .. } = attributes;
    let [rows, columns] = [result.rank() - 2, result.rank() - 1];
    let is_transposed = transpose_a != TransposeKind::NoTranspose;
    let is_forward = (lower != is_transposed) == left_side;
    let along = if left_side { rows } else { columns };
    let mut order: Vec<(i64, i64)> = blocks(size).collect();
    if !is_forward {
        order.reverse();
    }
    // What is left of the right-hand side, and where that begins.
    let (mut rest, mut first) = (vectors, 0);
    let mut solved = Vec::with_capacity(order.len());
    for (start, limit) in order {
        let square = block(builder, matrices, (start, limit), (start, limit));
        let own = builder.slice(rest, along, start - first, limit - first);
        let shape = builder.array(own);
        let own = builder.add(OpKind::TriangularSolve, shape, &[square, own], attributes);
        solved.push(own);
        let behind = if is_forward { (limit, size) } else { (0, start) };
        if behind.0 == behind.1 {
            break;
        }
        let others = builder.slice(rest, along, behind.0 - first, behind.1 - first);
        // The coefficients of what is solved in the equations that are left.
        let (equations, unknowns) = (behind, (start, limit));
        let is_swapped = is_transposed == left_side;
        let [rows_of, columns_of] = if is_swapped { [unknowns, equations] } else { [equations, unknowns] };
        let mut coefficients = block(builder, matrices, rows_of, columns_of);
        if transpose_a == TransposeKind::Adjoint {
            coefficients = builder.conjugate(coefficients);
        }
        let contracting = if is_swapped { rows } else { columns };
        let known = match left_side {
            true => product(builder, [coefficients, own], [contracting, rows]),
            false => product(builder, [own, coefficients], [columns, contracting]),
        };
        rest = builder.binary(OpKind::Subtract, others, known);
        first = behind.0;
    }
    if !is_forward {
        solved.reverse();
    }
    Some(builder.concatenate(&solved, along))
}

/// Block column by block column, of what is left of the matrices.
pub(super) fn cholesky(builder: &mut GraphBuilder, instruction: &Instruction) -> Option<InstructionId> {
    let CholeskyAttributes { lower } = instruction.attributes().ok()?;
    let mut rest = instruction.operands[0];
    let shape = builder.array(rest);
    let [rows, columns] = [shape.rank().checked_sub(2)?, shape.rank() - 1];
    let size = shape.dimensions[rows];
    if !is_divided(size) || shape.is_dynamic() {
        return None;
    }
    if !lower {
        rest = adjoint(builder, rest);
    }
    let system = TriangularSolveAttributes {
        left_side: false,
        lower: true,
        unit_diagonal: false,
        transpose_a: TransposeKind::Adjoint,
    };
    let mut panels = Vec::new();
    let mut last = rest;
    for (start, limit) in blocks(size) {
        let (width, left) = (limit - start, size - start);
        let square = block(builder, rest, (0, width), (0, width));
        let square_shape = builder.array(square);
        last = builder.add(OpKind::Cholesky, square_shape.clone(), &[square], CholeskyAttributes { lower: true });
        let mut parts = Vec::with_capacity(3);
        if start > 0 {
            let mut above = square_shape;
            above.dimensions[rows] = start;
            parts.push(builder.filled(&above, ConstantNumber::Integer(0)));
        }
        parts.push(last);
        if width < left {
            let below = block(builder, rest, (width, left), (0, width));
            let below_shape = builder.array(below);
            let below = builder.add(OpKind::TriangularSolve, below_shape, &[last, below], system);
            parts.push(below);
            let others = block(builder, rest, (width, left), (width, left));
            let right = builder.conjugate(below);
            let known = product(builder, [below, right], [columns, columns]);
            rest = builder.binary(OpKind::Subtract, others, known);
        }
        panels.push(builder.concatenate(&parts, rows));
    }
    let mut factor = builder.concatenate(&panels, columns);
    // A block that is not positive definite has no factor, and so have all behind it: then there is none of the whole.
    let corner = *builder.dimensions(last).last()? - 1;
    let corner = block(builder, last, (corner, corner + 1), (corner, corner + 1));
    let corner = builder.reshape(corner, &shape.dimensions[..rows]);
    let is_missing = builder.compare(ComparisonDirection::Ne, corner, corner);
    let batch: Vec<i64> = (0..rows as i64).collect();
    let is_missing = builder.broadcast(is_missing, &shape.dimensions, &batch);
    let nan = match shape.element_type.is_complex() {
        true => builder.numbers(ArrayShape::new(shape.element_type, []), &[Complex64::new(f64::NAN, f64::NAN)]),
        false => builder.scalar(shape.element_type, ConstantNumber::Float(f64::NAN)),
    };
    let nan = builder.broadcast(nan, &shape.dimensions, &[]);
    if !lower {
        factor = adjoint(builder, factor);
    }
    Some(builder.select(is_missing, nan, factor))
}

/// Some rows and columns of matrices.
fn block(builder: &mut GraphBuilder, matrices: InstructionId, rows: (i64, i64), columns: (i64, i64)) -> InstructionId {
    let rank = builder.array(matrices).rank();
    let rows = builder.slice(matrices, rank - 2, rows.0, rows.1);
    builder.slice(rows, rank - 1, columns.0, columns.1)
}

fn adjoint(builder: &mut GraphBuilder, matrices: InstructionId) -> InstructionId {
    let mut order: Vec<i64> = (0..builder.array(matrices).rank() as i64).collect();
    let last = order.len() - 1;
    order.swap(last - 1, last);
    let transposed = builder.transpose(matrices, &order);
    builder.conjugate(transposed)
}

/// Products of matrices along a dimension of each, which has as many batch dimensions in front.
fn product(builder: &mut GraphBuilder, operands: [InstructionId; 2], along: [usize; 2]) -> InstructionId {
    let [left, right] = operands.map(|operand| builder.array(operand));
    let rows = left.rank() - 2;
    let free = |shape: &ArrayShape, along: usize| shape.dimensions[2 * rows + 1 - along];
    let sizes = [&left.dimensions[..rows], &[free(&left, along[0]), free(&right, along[1])]].concat();
    let batch: Vec<i64> = (0..rows as i64).collect();
    let [lhs, rhs] = along.map(|along| [along as i64]);
    let attributes = DotAttributes {
        lhs_batch_dims: &batch,
        lhs_contracting_dims: &lhs,
        rhs_batch_dims: &batch,
        rhs_contracting_dims: &rhs,
        ..DotAttributes::new()
    };
    builder.add(OpKind::Dot, ArrayShape::new(left.element_type, sizes), &operands, attributes)
}
