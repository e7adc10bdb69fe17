//! The product of a sparse matrix in compressed rows and a dense one: products of its elements and rows of the other, added where
//! their rows are.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::custom_call::CustomCallAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::sparse_product::SPARSE_PRODUCT;
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder, binary_computation};

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    let CustomCallAttributes { custom_call_target: target, .. } = instruction.attributes().ok()?;
    let &[elements, starts, columns, rhs] = operands else { return None };
    let result = instruction.shape.as_array().filter(|_| target == SPARSE_PRODUCT)?;
    let result = ArrayShape::new(result.element_type, result.dimensions.clone());
    let count = builder.array(elements).element_count();
    let zeros = builder.zeros(&result.clone().into());
    if count == 0 || result.element_count() == 0 || builder.array(rhs).element_count() == 0 {
        return Some(zeros);
    }
    let row = row_of_each(builder, starts, count);
    let widths = result.dimensions[1..].to_vec();
    let sizes = [&[count], &widths[..]].concat();
    let factors = builder.take_rows(rhs, columns);
    let elements = builder.broadcast(elements, &sizes, &[0]);
    let products = builder.binary(OpKind::Multiply, elements, factors);
    let is_column = is_inside(builder, columns, builder.dimensions(rhs)[0]);
    let is_column = builder.broadcast(is_column, &sizes, &[0]);
    let none = builder.zeros(&builder.shape(products).clone());
    let products = builder.select(is_column, products, none);
    let window: Vec<i64> = (1..=widths.len() as i64).collect();
    Some(sums_at(builder, (zeros, row, products), &window))
}

/// The row of each of some elements: how many rows begin behind the first one, and no later. Elements behind the last row have a
/// number that no row has.
fn row_of_each(builder: &mut GraphBuilder, starts: InstructionId, count: i64) -> InstructionId {
    let shape = builder.array(starts);
    let ends = builder.slice(starts, 0, 1, shape.element_count());
    let ones = builder.filled(&builder.array(ends), ConstantNumber::Integer(1));
    let none = builder.zeros(&ArrayShape::new(shape.element_type, [count]).into());
    let begins = sums_at(builder, (none, ends, ones), &[]);
    let zero = builder.scalar(shape.element_type, ConstantNumber::Integer(0));
    builder.scan(begins, zero, (0, false), OpKind::Add)
}

/// Whether indices are at least 0 and below a size.
fn is_inside(builder: &mut GraphBuilder, indices: InstructionId, size: i64) -> InstructionId {
    let shape = builder.array(indices);
    let [zero, size] = [0, size].map(|bound| builder.filled(&shape, ConstantNumber::Integer(bound)));
    let from_zero = builder.compare(ComparisonDirection::Ge, indices, zero);
    let below = builder.compare(ComparisonDirection::Lt, indices, size);
    builder.binary(OpKind::And, from_zero, below)
}

/// An array to whose parts, at places of its first dimension, others are added.
fn sums_at(
    builder: &mut GraphBuilder,
    (array, places, updates): (InstructionId, InstructionId, InstructionId),
    window: &[i64],
) -> InstructionId {
    let shape = builder.array(array);
    let sum = binary_computation(&format!("{}.sum", builder.get(updates).name), shape.element_type, OpKind::Add);
    let attributes = ScatterAttributes {
        update_window_dims: window,
        inserted_window_dims: &[0],
        scatter_dims_to_operand_dims: &[0],
        input_batching_dims: &[],
        scatter_indices_batching_dims: &[],
        index_vector_dim: 1,
        indices_are_sorted: false,
        unique_indices: false,
    };
    builder.add_with(OpKind::Scatter, shape, &[array, places, updates], attributes, vec![sum])
}
