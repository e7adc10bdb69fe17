//! Where the elements of a scatter's updates go.

use hlo::element_type::ElementType;
use hlo::graph::InstructionId;
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::scatter::ScatterAttributes;
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Arrays of the updates' dimensions.
pub(crate) struct ScatterPlaces {
    /// Place of each element in the input, counted row by row (`s64`).
    pub(crate) place: InstructionId,
    /// Whether the whole window of the element is inside of the input; other windows are skipped.
    pub(crate) fits: InstructionId,
}

impl ScatterPlaces {
    /// `operands`: an input, the indices, its updates. `input_ends` and `update_ends` hold scalars for the dimensions
    /// of which less than the whole exists. `None` where the dimension numbers do not fit.
    pub(crate) fn new(
        builder: &mut GraphBuilder,
        attributes: &ScatterAttributes<'_>,
        operands: [InstructionId; 3],
        input_ends: &[Option<InstructionId>],
        update_ends: &[Option<InstructionId>],
    ) -> Option<Self> {
        let [_, indices, _] = operands;
        let [input, index_sizes, update_sizes] = operands.map(|id| builder.dimensions(id));
        let vector_dim = attributes.index_vector_dim as usize;
        let window_dims = attributes.update_window_dims;
        let targets = attributes.scatter_dims_to_operand_dims;
        let inserted = attributes.inserted_window_dims;
        let batching = attributes.input_batching_dims;
        let index_batching = attributes.scatter_indices_batching_dims;
        // Dimensions of the updates that stand for those of the indices, in order.
        let scatter_dims: Vec<i64> = (0..update_sizes.len() as i64).filter(|d| !window_dims.contains(d)).collect();
        let shape = ArrayShape::new(ElementType::S64, update_sizes.clone());
        let zero = builder.filled(&shape, ConstantNumber::Integer(0));
        let mut place = zero;
        let mut fits = builder.filled(&shape.with_element_type(ElementType::Pred), ConstantNumber::Integer(1));
        let mut windows = window_dims.iter();
        for (d, &size) in input.iter().enumerate() {
            let d = d as i64;
            let start = if let Some(component) = targets.iter().position(|&target| target == d) {
                let component = match vector_dim < index_sizes.len() {
                    true => builder.slice(indices, vector_dim, component as i64, component as i64 + 1),
                    false => indices,
                };
                let kept: Vec<i64> =
                    (0..index_sizes.len()).filter(|&d| d != vector_dim).map(|d| index_sizes[d]).collect();
                let component = builder.reshape(component, &kept);
                let component = builder.convert(component, ElementType::S64);
                builder.broadcast(component, &update_sizes, &scatter_dims)
            } else if let Some(number) = batching.iter().position(|&target| target == d) {
                let index_dim = *index_batching.get(number)? as usize;
                let dim = *scatter_dims.get(index_dim - usize::from(index_dim > vector_dim))?;
                builder.iota(ElementType::S64, &update_sizes, dim as usize)
            } else {
                zero
            };
            let has_window = !inserted.contains(&d) && !batching.contains(&d);
            let window = if has_window { windows.next().map(|&w| w as usize) } else { None };
            let size_or = |builder: &mut GraphBuilder, sizes: &[Option<InstructionId>], d: usize, bound: i64| {
                match sizes.get(d) {
                    Some(&Some(size)) => builder.convert(size, ElementType::S64),
                    Some(None) | None => builder.scalar(ElementType::S64, ConstantNumber::Integer(bound)),
                }
            };
            let end = size_or(builder, input_ends, d as usize, size);
            let extent = match window {
                Some(window) => size_or(builder, update_ends, window, update_sizes[window]),
                None => builder.scalar(ElementType::S64, ConstantNumber::Integer(1)),
            };
            let first = builder.scalar(ElementType::S64, ConstantNumber::Integer(0));
            let last = builder.binary(OpKind::Subtract, end, extent);
            for (direction, bound) in [(ComparisonDirection::Ge, first), (ComparisonDirection::Le, last)] {
                let bound = builder.broadcast(bound, &update_sizes, &[]);
                let holds = builder.compare(direction, start, bound);
                fits = builder.binary(OpKind::And, fits, holds);
            }
            let step = builder.filled(&shape, ConstantNumber::Integer(size));
            place = builder.binary(OpKind::Multiply, place, step);
            place = builder.binary(OpKind::Add, place, start);
            if let Some(window) = window {
                let offset = builder.iota(ElementType::S64, &update_sizes, window);
                place = builder.binary(OpKind::Add, place, offset);
            }
        }
        Some(ScatterPlaces { place, fits })
    }
}
