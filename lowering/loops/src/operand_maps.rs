//! The indexing map from each element of a fusible instruction to the elements of an operand that it reads.
//!
//! This is the lowering's only source of index arithmetic for shape and indexing operations.

use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use hlo::shape::{ArrayShape, Shape};
use indexing::maps::{self, Gather, Offset};
use indexing::{Constraint, Expr, IndexingMap, Var};

use crate::error::LoweringError;

/// A map with the conditions under which an element is read at all.
pub struct OperandMap {
    /// From result indices to operand indices.
    pub map: IndexingMap,
    /// Conditions on result indices: narrowed bounds and constraints of the map.
    pub conditions: Vec<Constraint>,
}

/// Shape of an array operand.
pub fn operand_shape<'a>(
    computation: &'a Computation,
    instruction: &Instruction,
    operand: usize,
) -> Result<&'a ArrayShape, LoweringError> {
    instruction
        .operands
        .get(operand)
        .and_then(|&id| computation.get(id).shape.as_array())
        .ok_or_else(|| LoweringError::bug(format!("operand {operand} of `{}` is no array", instruction.name)))
}

/// Shape of an instruction's array result.
pub fn result_shape(instruction: &Instruction) -> Result<&ArrayShape, LoweringError> {
    instruction
        .shape
        .as_array()
        .ok_or_else(|| LoweringError::bug(format!("`{}` has no array result", instruction.name)))
}

/// The map from the result of an instruction to one of its operands. Run-time variables name the operand that
/// holds their values.
pub fn operand_map(
    computation: &Computation,
    instruction: &Instruction,
    operand: usize,
) -> Result<OperandMap, LoweringError> {
    let output = &result_shape(instruction)?.dimensions;
    let input = &operand_shape(computation, instruction, operand)?.dimensions;
    let attributes = &instruction.attributes;
    let map = match instruction.kind {
        OpKind::Broadcast => maps::broadcast(output, attributes.ints("dimensions")),
        OpKind::Reshape | OpKind::DynamicReshape => maps::reshape(input, output),
        OpKind::Transpose => maps::transpose(input, attributes.ints("dimensions")),
        OpKind::Reverse => maps::reverse(output, attributes.ints("dimensions")),
        OpKind::Slice => {
            let slice = attributes.slice();
            let starts: Vec<i64> = slice.iter().map(|dimension| dimension.start).collect();
            let strides: Vec<i64> = slice.iter().map(|dimension| dimension.stride).collect();
            maps::slice(output, &starts, &strides)
        }
        OpKind::Pad => {
            let low: Vec<i64> = attributes.padding().iter().map(|dimension| dimension.low).collect();
            let interior: Vec<i64> = attributes.padding().iter().map(|dimension| dimension.interior).collect();
            maps::pad(output, input, &low, &interior)
        }
        OpKind::Concatenate => {
            let sizes = concatenated_sizes(computation, instruction);
            maps::concatenate(output, &sizes, attributes.ints("dimensions").first().copied().unwrap_or(0), operand)
        }
        OpKind::DynamicSlice => {
            let offsets: Vec<Offset> =
                (1..instruction.operands.len()).map(|number| Offset::Value(number as u64)).collect();
            maps::dynamic_slice(input, output, &offsets)
        }
        OpKind::Gather => {
            let indices = &operand_shape(computation, instruction, 1)?.dimensions;
            let numbers = Gather {
                offset_dims: attributes.ints("offset_dims"),
                collapsed_slice_dims: attributes.ints("collapsed_slice_dims"),
                operand_batching_dims: attributes.ints("operand_batching_dims"),
                start_indices_batching_dims: attributes.ints("start_indices_batching_dims"),
                start_index_map: attributes.ints("start_index_map"),
                index_vector_dim: attributes.int("index_vector_dim").unwrap_or(indices.len() as i64),
                slice_sizes: attributes.ints("slice_sizes"),
            };
            maps::gather(input, indices, output, &numbers, 1).0
        }
        _ if input.is_empty() => maps::scalar(output),
        _ => maps::identity(output),
    };
    Ok(with_conditions(map, output))
}

/// Sizes of a concatenate's operands along its dimension.
fn concatenated_sizes(computation: &Computation, instruction: &Instruction) -> Vec<i64> {
    let dimension = instruction.attributes.ints("dimensions").first().copied().unwrap_or(0) as usize;
    instruction
        .operands
        .iter()
        .map(|&operand| match &computation.get(operand).shape {
            Shape::Array(array) => array.dimensions.get(dimension).copied().unwrap_or(0),
            Shape::Tuple(_) | Shape::Token | Shape::Opaque => 0,
        })
        .collect()
}

/// Collects what restricts a map's domain against an array of the given sizes.
pub fn with_conditions(map: IndexingMap, sizes: &[i64]) -> OperandMap {
    let mut conditions: Vec<Constraint> = map.constraints().to_vec();
    for (number, (variable, &size)) in map.dims().iter().zip(sizes).enumerate() {
        if variable.bounds.lower > 0 || variable.bounds.upper < size - 1 {
            conditions.push(Constraint::new(Expr::variable(Var::Dim(number as u32)), variable.bounds));
        }
    }
    OperandMap { map, conditions }
}
