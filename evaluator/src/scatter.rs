//! `scatter` ("Scatter"): variadic, with batching dimensions.
//!
//! A window that does not lie wholly inside the operand is skipped as a whole, as in XLA.

use super::data::{advance, row_major_strides, sizes, view};
use super::indexed::IndexVectors;
use super::scalar_function::ScalarFunction;
use super::{EvalFailure, Evaluator};
use hlo::element_type::ElementType;
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::scatter::ScatterAttributes;
use hlo::scalar::{load, store};
use hlo::shape::ArrayShape;

/// The operands with the updates combined in, in row-major order of the updates.
pub(super) fn scatter(
    evaluator: &mut Evaluator<'_, '_, '_>,
    operands: &[&ArrayLiteral],
    attributes: &ScatterAttributes<'_>,
    function: &mut ScalarFunction<'_>,
    results: &[&ArrayShape],
) -> Result<Vec<ArrayLiteral>, EvalFailure> {
    let count = operands.len().saturating_sub(1) / 2;
    let (inputs, rest) = operands.split_at(count);
    let (Some(input), Some((indices, updates)), true) = (inputs.first(), rest.split_first(), count == results.len())
    else {
        return Err(EvalFailure::malformed("a scatter has operands, indices and updates"));
    };
    let input_sizes = sizes(&input.shape().dimensions);
    let input_strides = row_major_strides(&input_sizes);
    let update_sizes = sizes(&updates[0].shape().dimensions);
    let window_dims = attributes.update_window_dims;
    let inserted = attributes.inserted_window_dims;
    let input_batching = attributes.input_batching_dims;
    let vectors = IndexVectors::new(
        indices,
        attributes.index_vector_dim,
        attributes.scatter_dims_to_operand_dims,
        input_batching,
        attributes.scatter_indices_batching_dims,
    );
    // Operand dimensions that a window has, in order, take the update's window dimensions, in order.
    let window_input_dims: Vec<usize> = (0..input_sizes.len())
        .filter(|&d| !inserted.contains(&(d as i64)) && !input_batching.contains(&(d as i64)))
        .collect();
    let scatter_dims: Vec<usize> = (0..update_sizes.len()).filter(|&d| !window_dims.contains(&(d as i64))).collect();
    if window_input_dims.len() != window_dims.len()
        || scatter_dims.len() != vectors.batch_sizes.len()
        || window_dims.iter().any(|&d| d < 0 || d as usize >= update_sizes.len())
    {
        return Err(EvalFailure::malformed("the dimension numbers do not fit the operands"));
    }
    let mut outputs = Vec::with_capacity(count);
    for (input, result) in inputs.iter().zip(results) {
        outputs.push(input.with_shape((*result).clone())?);
    }
    if update_sizes.contains(&0) {
        return Ok(outputs);
    }
    // Size of a window along each operand dimension.
    let mut window_sizes = vec![1usize; input_sizes.len()];
    for (&d, &window) in window_input_dims.iter().zip(window_dims) {
        window_sizes[d] = update_sizes[window as usize];
    }
    let combine = Combine::of(function, &outputs);
    let mut arguments = Vec::with_capacity(2 * count);
    let mut combined = Vec::with_capacity(count);
    let mut index = vec![0usize; update_sizes.len()];
    let mut batch = vec![usize::MAX; scatter_dims.len()];
    // Position of the current window's first element; none if the window is skipped.
    let mut base = None;
    let mut position = 0;
    loop {
        if position == 0 || batch.iter().zip(&scatter_dims).any(|(&old, &d)| old != index[d]) {
            batch.iter_mut().zip(&scatter_dims).for_each(|(batch, &d)| *batch = index[d]);
            let start = vectors.start(&batch, input_sizes.len())?;
            base = (0..input_sizes.len()).try_fold(0, |base, d| {
                let start = usize::try_from(start[d]).ok()?;
                let end = start.checked_add(window_sizes[d])?;
                (end <= input_sizes[d]).then(|| base + start * input_strides[d])
            });
        }
        let target = base.map(|base| {
            let inside = window_input_dims.iter().zip(window_dims);
            base + inside.map(|(&d, &window)| index[window as usize] * input_strides[d]).sum::<usize>()
        });
        if let Some(target) = target {
            match combine {
                Combine::AddFloats => {
                    let update = view::<f32>(updates[0])[position];
                    bytemuck::cast_slice_mut::<u8, f32>(outputs[0].bytes_mut())[target] += update;
                }
                Combine::Call => {
                    arguments.clear();
                    arguments.extend(outputs.iter().map(|o| load(o.element_type(), o.bytes(), target)));
                    arguments.extend(updates.iter().map(|u| load(u.element_type(), u.bytes(), position)));
                    function.call(evaluator, &arguments, &mut combined)?;
                    for (output, value) in outputs.iter_mut().zip(&combined) {
                        let element_type = output.element_type();
                        store(element_type, output.bytes_mut(), target, *value);
                    }
                }
            }
        }
        position += 1;
        if !advance(&mut index, &update_sizes) {
            return Ok(outputs);
        }
    }
}

/// How an update is combined with what is there.
#[derive(Clone, Copy)]
enum Combine {
    /// One `f32` array, addition.
    AddFloats,
    /// The computation.
    Call,
}

impl Combine {
    fn of(function: &ScalarFunction<'_>, outputs: &[ArrayLiteral]) -> Combine {
        match outputs {
            [output]
                if output.element_type() == ElementType::F32 && function.single_operation() == Some(OpKind::Add) =>
            {
                Combine::AddFloats
            }
            _ => Combine::Call,
        }
    }
}
