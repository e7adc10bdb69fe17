//! Bounded dynamic dimensions: operations see only the elements that exist.
//!
//! An operand with run-time sizes is compacted to an array of those sizes, the operation is evaluated on it, and
//! the result is put back into an array of the declared bound. So padding is ignored by construction, as
//! "SetDimensionSize" asks.

use super::control::zeros;
use super::data::sizes;
use super::execute::ArrayFunction;
use super::movement;
use super::value::{ArrayValue, EvalValue};
use super::{EvalFailure, Evaluator};
use hlo::attributes::{SliceDimension, WindowDimension};
use hlo::graph::{Computation, Instruction};
use hlo::literal::ArrayLiteral;
use hlo::op_kind::OpKind;
use hlo::ops::batch_norm::BatchNormAttributes;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::convolution::ConvolutionAttributes;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::ops::gather::GatherAttributes;
use hlo::ops::get_dimension_size::GetDimensionSizeAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::ragged_dot::RaggedDotAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::set_dimension_size::SetDimensionSizeAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::typed_attributes::Dimension;
use hlo::ops::{self, OpClass, OpView};
use hlo::scalar::{Scalar, load, store};
use hlo::shape::{ArrayShape, Shape};

fn array(operands: &[EvalValue], number: usize) -> Result<&ArrayValue, EvalFailure> {
    match operands.get(number) {
        Some(EvalValue::Array(array)) => Ok(array),
        _ => Err(EvalFailure::malformed(format!("operand {number} is not an array"))),
    }
}

fn scalar(operands: &[EvalValue], number: usize) -> Result<i64, EvalFailure> {
    let literal = &array(operands, number)?.literal;
    if literal.bytes().is_empty() {
        return Err(EvalFailure::malformed(format!("operand {number} is not a scalar")));
    }
    Ok(load(literal.element_type(), literal.bytes(), 0).to_index())
}

fn dimension(dimension: Dimension, rank: usize) -> Result<usize, EvalFailure> {
    Some(dimension.index()).filter(|&d| d < rank).ok_or_else(|| EvalFailure::malformed("the dimension does not exist"))
}

/// `get-dimension-size`: the run-time size.
pub(super) fn get_dimension_size(instruction: &Instruction, operands: &[EvalValue]) -> Result<EvalValue, EvalFailure> {
    let operand = array(operands, 0)?;
    let GetDimensionSizeAttributes { dimensions } = instruction.attributes()?;
    let dimension = dimension(dimensions, operand.literal.shape().rank())?;
    let size = operand.size(dimension).ok_or_else(|| EvalFailure::malformed("the dimension does not exist"))?;
    let mut result = zeros(&instruction.shape)?;
    if let EvalValue::Array(result) = &mut result {
        let element_type = result.literal.element_type();
        store(element_type, result.literal.bytes_mut(), 0, Scalar::Signed(size));
    }
    Ok(result)
}

/// `set-dimension-size`: the operand with another run-time size; the data stays. If the result says that the dimension is static,
/// the size must be the bound.
pub(super) fn set_dimension_size(
    instruction: &Instruction,
    operands: Vec<EvalValue>,
) -> Result<EvalValue, EvalFailure> {
    let size = scalar(&operands, 1)?;
    let operand = array(&operands, 0)?.clone();
    let bounds = operand.literal.shape().dimensions.clone();
    let SetDimensionSizeAttributes { dimensions } = instruction.attributes()?;
    let dimension = dimension(dimensions, bounds.len())?;
    let mut sizes = operand.sizes.unwrap_or_else(|| bounds.clone());
    sizes[dimension] = size.clamp(0, bounds[dimension]);
    let is_static = instruction.shape.as_array().is_some_and(|declared| !declared.is_dynamic_dimension(dimension));
    if is_static && sizes[dimension] != bounds[dimension] {
        return Err(EvalFailure::malformed(format!("a size of {size} does not fit {}", instruction.shape)));
    }
    let sizes = (sizes != bounds).then_some(sizes);
    EvalValue::Array(ArrayValue { literal: operand.literal, sizes }).with_shape(&instruction.shape)
}

/// The call `PadToStatic`: a whole array, zero where nothing exists, and the size of each of its dimensions.
pub(super) fn pad_to_static(instruction: &Instruction, operands: &[EvalValue]) -> Result<EvalValue, EvalFailure> {
    let operand = array(operands, 0)?;
    let scalars = instruction.shape.as_tuple().and_then(|elements| elements.get(1..)).unwrap_or_default();
    let mut results = vec![operands[0].clone().zeroed()?];
    for (dimension, shape) in scalars.iter().enumerate() {
        let size = operand.size(dimension).ok_or_else(|| EvalFailure::malformed("the dimension does not exist"))?;
        let mut scalar = zeros(shape)?;
        if let EvalValue::Array(scalar) = &mut scalar {
            store(scalar.literal.element_type(), scalar.literal.bytes_mut(), 0, Scalar::Signed(size));
        }
        results.push(scalar);
    }
    EvalValue::Tuple(results).with_shape(&instruction.shape)
}

/// The call `SliceToDynamic`: an array of which as much exists as the scalars say.
pub(super) fn slice_to_dynamic(instruction: &Instruction, operands: &[EvalValue]) -> Result<EvalValue, EvalFailure> {
    let operand = array(operands, 0)?.clone();
    let bounds = operand.literal.shape().dimensions.clone();
    let sizes: Vec<i64> = (0..bounds.len())
        .map(|dimension| Ok(scalar(operands, dimension + 1)?.clamp(0, bounds[dimension])))
        .collect::<Result<_, EvalFailure>>()?;
    let sizes = (sizes != bounds).then_some(sizes);
    EvalValue::Array(ArrayValue { literal: operand.literal, sizes }).with_shape(&instruction.shape)
}

/// `dynamic-reshape`: the existing elements, in order, under run-time sizes.
pub(super) fn dynamic_reshape(instruction: &Instruction, operands: &[EvalValue]) -> Result<EvalValue, EvalFailure> {
    let compact = array(operands, 0)?.compacted()?;
    let sizes = (1..operands.len()).map(|number| scalar(operands, number)).collect::<Result<Vec<i64>, _>>()?;
    let declared = instruction.shape.as_array().ok_or_else(|| EvalFailure::malformed("the result is not an array"))?;
    let fits = |(d, &bound): (usize, &i64)| {
        sizes.get(d).is_some_and(|&size| size == bound || (size < bound && declared.is_dynamic_dimension(d)))
    };
    if !declared.dimensions.iter().enumerate().all(fits) {
        return Err(EvalFailure::malformed(format!("a result of sizes {sizes:?} does not fit {declared}")));
    }
    let shape = ArrayShape::new(compact.element_type(), sizes);
    if shape.dimensions.iter().any(|&size| size < 0) || shape.element_count() != compact.shape().element_count() {
        return Err(EvalFailure::malformed(format!("{} cannot be reshaped to {shape}", compact.shape())));
    }
    let reshaped = compact.with_shape(shape)?;
    expand(EvalValue::array(reshaped), &instruction.shape)
}

/// Puts arrays of run-time sizes into arrays of the declared bounds.
fn expand(value: EvalValue, declared: &Shape) -> Result<EvalValue, EvalFailure> {
    match (value, declared) {
        (EvalValue::Array(array), Shape::Array(declared)) => {
            let sizes = array.literal.shape().dimensions.clone();
            if sizes == declared.dimensions {
                return Ok(EvalValue::array(array.literal.with_shape(declared.clone())?));
            }
            if sizes.len() != declared.rank()
                || sizes.iter().zip(&declared.dimensions).any(|(size, bound)| size > bound)
            {
                return Err(EvalFailure::malformed(format!("a result of sizes {sizes:?} does not fit {declared}")));
            }
            let literal = movement::resize(&array.literal, declared)?;
            Ok(EvalValue::Array(ArrayValue { literal, sizes: Some(sizes) }))
        }
        (EvalValue::Tuple(elements), Shape::Tuple(shapes)) => Ok(EvalValue::Tuple(
            elements.into_iter().zip(shapes).map(|(value, shape)| expand(value, shape)).collect::<Result<_, _>>()?,
        )),
        (other, _) => Ok(other),
    }
}

impl Evaluator<'_, '_, '_> {
    /// Evaluates an operation some of whose operands have run-time sizes.
    pub(super) fn execute_dynamic(
        &mut self,
        function: ArrayFunction,
        instruction: &Instruction,
        operands: &[EvalValue],
    ) -> Result<EvalValue, EvalFailure> {
        let class = ops::definition(instruction.kind).class;
        if class == OpClass::Elementwise && instruction.kind != OpKind::BatchNormInference {
            return self.execute_elementwise(function, instruction, operands);
        }
        let bound: Vec<&ArrayShape> = (0..operands.len())
            .map(|number| Ok(array(operands, number)?.literal.shape()))
            .collect::<Result<_, EvalFailure>>()?;
        let mut sizes: Vec<Option<Vec<i64>>> = Vec::with_capacity(operands.len());
        for number in 0..operands.len() {
            sizes.push(array(operands, number)?.sizes.clone());
        }
        share_sizes(instruction, &bound, &mut sizes)?;
        let compact = sizes
            .into_iter()
            .enumerate()
            .map(|(number, sizes)| ArrayValue { literal: array(operands, number)?.literal.clone(), sizes }.compacted())
            .collect::<Result<Vec<ArrayLiteral>, _>>()?;
        let mut instruction = instruction.clone();
        let shapes: Vec<&ArrayShape> = compact.iter().map(ArrayLiteral::shape).collect();
        adjust_attributes(&mut instruction, &bound, &shapes)?;
        let result = run_time_shape(&instruction, &bound, &shapes)?;
        let values = compact.iter().cloned().map(EvalValue::array).collect();
        let value = self.execute_static(function, &instruction, values, &result)?;
        expand(value, &instruction.shape)
    }
}

impl Evaluator<'_, '_, '_> {
    /// Elementwise operations compute their padding too, as XLA does: a size set later may uncover it.
    fn execute_elementwise(
        &mut self,
        function: ArrayFunction,
        instruction: &Instruction,
        operands: &[EvalValue],
    ) -> Result<EvalValue, EvalFailure> {
        let mut known: Vec<Option<i64>> = Vec::new();
        let mut bounds = Vec::new();
        let mut arrays = Vec::with_capacity(operands.len());
        for number in 0..operands.len() {
            let operand = array(operands, number)?;
            let shape = operand.literal.shape();
            bounds.clone_from(&shape.dimensions);
            known.resize(shape.rank(), None);
            for (d, known) in known.iter_mut().enumerate() {
                // A dynamic dimension may be as large as its bound; a static one fits any size.
                let size = operand.sizes.as_ref().map_or(shape.dimensions[d], |sizes| sizes[d]);
                if !shape.is_dynamic_dimension(d) && size == shape.dimensions[d] {
                    continue;
                }
                if known.is_some_and(|known| known != size) {
                    return Err(EvalFailure::malformed("the operands' run-time sizes differ"));
                }
                *known = Some(size);
            }
            arrays.push(EvalValue::array(operand.literal.clone()));
        }
        let sizes = Some(bounds.iter().zip(known).map(|(&bound, size)| size.unwrap_or(bound)).collect());
        match self.execute_static(function, instruction, arrays, &instruction.shape)? {
            EvalValue::Array(result) => Ok(EvalValue::Array(ArrayValue { literal: result.literal, sizes })),
            other => Ok(other),
        }
    }
}

/// Where operands have a dimension in common, the run-time size of one is that of all.
fn share_sizes(
    instruction: &Instruction,
    bounds: &[&ArrayShape],
    operand_sizes: &mut [Option<Vec<i64>>],
) -> Result<(), EvalFailure> {
    let every_dimension = |count: usize, except: Option<usize>| -> Vec<Vec<(usize, usize)>> {
        let rank = bounds.first().map_or(0, |bound| bound.rank());
        let dimensions = (0..rank).filter(|&d| Some(d) != except);
        dimensions.map(|d| (0..count).map(|operand| (operand, d)).collect()).collect()
    };
    let common: Vec<Vec<(usize, usize)>> = match instruction.kind {
        OpKind::Reduce | OpKind::ReduceWindow => every_dimension(bounds.len() / 2, None),
        OpKind::Sort => every_dimension(bounds.len(), None),
        OpKind::Concatenate => {
            let ConcatenateAttributes { dimensions } = instruction.attributes()?;
            every_dimension(bounds.len(), Some(dimensions.index()))
        }
        OpKind::Dot => paired(&instruction.attributes::<DotAttributes>()?.dimensions()),
        OpKind::RaggedDot => paired(&instruction.attributes::<RaggedDotAttributes>()?.dot().dimensions()),
        OpKind::BatchNormTraining | OpKind::BatchNormInference | OpKind::BatchNormGrad => {
            let BatchNormAttributes { feature_index, .. } = instruction.attributes()?;
            let feature = usize::try_from(feature_index).ok();
            let place = |operand: usize, d: usize| match bounds[operand].rank() {
                1 if bounds[0].rank() != 1 => (Some(d) == feature).then_some((operand, 0)),
                _ => Some((operand, d)),
            };
            let rank = bounds.first().map_or(0, |bound| bound.rank());
            (0..rank).map(|d| (0..bounds.len()).filter_map(|operand| place(operand, d)).collect()).collect()
        }
        OpKind::Scatter => {
            let inputs = bounds.len() / 2;
            let attributes: ScatterAttributes = instruction.attributes()?;
            let window_dims = sizes(attributes.update_window_dims);
            let mut index_dims = (0..bounds[inputs].rank()).filter(|&d| d as i64 != attributes.index_vector_dim);
            let mut common = every_dimension(inputs, None);
            for d in 0..bounds[inputs + 1].rank() {
                let mut places: Vec<(usize, usize)> = (inputs + 1..bounds.len()).map(|update| (update, d)).collect();
                if !window_dims.contains(&d) {
                    places.extend(index_dims.next().map(|index_dim| (inputs, index_dim)));
                }
                common.push(places);
            }
            common
        }
        _ => Vec::new(),
    };
    for places in common {
        let known = places.iter().find_map(|&(operand, d)| {
            operand_sizes[operand].as_ref()?.get(d).copied().filter(|&size| size != bounds[operand].dimensions[d])
        });
        for (operand, d) in places {
            if let Some(size) = known {
                operand_sizes[operand].get_or_insert_with(|| bounds[operand].dimensions.clone())[d] = size;
            }
        }
    }
    Ok(())
}

/// The places (operand, dimension) that a dot pairs.
fn paired(dimensions: &DotDimensions) -> Vec<Vec<(usize, usize)>> {
    let batch = dimensions.lhs_batch.iter().zip(&dimensions.rhs_batch);
    let contracting = dimensions.lhs_contracting.iter().zip(&dimensions.rhs_contracting);
    batch.chain(contracting).map(|(&lhs, &rhs)| vec![(0, lhs), (1, rhs)]).collect()
}

/// Attributes that repeat an operand's bound follow its run-time size.
fn adjust_attributes(
    instruction: &mut Instruction,
    bounds: &[&ArrayShape],
    shapes: &[&ArrayShape],
) -> Result<(), EvalFailure> {
    if instruction.kind == OpKind::Slice {
        let SliceAttributes { slice } = instruction.attributes()?;
        let slices: Vec<SliceDimension> = slice
            .iter()
            .zip(&shapes[0].dimensions)
            .map(|(slice, &size)| SliceDimension { limit: slice.limit.min(size).max(slice.start.min(size)), ..*slice })
            .collect();
        instruction.attributes = SliceAttributes { slice: &slices }.into();
    }
    if instruction.kind == OpKind::Gather {
        let attributes: GatherAttributes = instruction.attributes()?;
        let slice_sizes = attributes.slice_sizes.iter().enumerate();
        let slice_sizes: Vec<i64> = slice_sizes
            .map(|(d, &size)| if size == bounds[0].dimensions[d] { shapes[0].dimensions[d] } else { size })
            .collect();
        instruction.attributes = GatherAttributes { slice_sizes: &slice_sizes, ..attributes }.into();
    }
    Ok(())
}

/// Shape of the result for operands of the given run-time shapes.
fn run_time_shape(
    instruction: &Instruction,
    bounds: &[&ArrayShape],
    shapes: &[&ArrayShape],
) -> Result<Shape, EvalFailure> {
    let declared = &instruction.shape;
    let first = *shapes.first().ok_or_else(|| EvalFailure::malformed("an operand is missing"))?;
    let with = |dimensions: Vec<i64>| -> Shape { with_dimensions(declared, &dimensions) };
    let unsupported = || EvalFailure::Unsupported(format!("{} of operands with run-time sizes", instruction.kind));
    match instruction.kind {
        OpKind::DynamicUpdateSlice => check_window(first, &shapes[1].dimensions)?,
        OpKind::Gather => {
            let attributes: GatherAttributes = instruction.attributes()?;
            let mut window = attributes.slice_sizes.to_vec();
            sizes(attributes.operand_batching_dims).into_iter().for_each(|d| window[d] = 0);
            check_window(first, &window)?;
        }
        _ => {}
    }
    Ok(match instruction.kind {
        OpKind::Reverse | OpKind::Sort | OpKind::DynamicUpdateSlice | OpKind::Scatter | OpKind::SelectAndScatter => {
            with(first.dimensions.clone())
        }
        OpKind::DynamicSlice => {
            check_window(first, &declared_dimensions(declared)?)?;
            declared.clone()
        }
        OpKind::Broadcast => {
            let attributes: BroadcastAttributes = instruction.attributes()?;
            let mut dimensions = declared_dimensions(declared)?;
            for (d, target) in sizes(attributes.dimensions).into_iter().enumerate() {
                if bounds[0].dimensions[d] == dimensions[target] {
                    dimensions[target] = first.dimensions[d];
                }
            }
            with(dimensions)
        }
        OpKind::Transpose => {
            let TransposeAttributes { dimensions } = instruction.attributes()?;
            with(sizes(dimensions).into_iter().map(|d| first.dimensions[d]).collect())
        }
        OpKind::Reduce => {
            let reduced = sizes(instruction.attributes::<ReduceAttributes>()?.dimensions);
            with((0..first.rank()).filter(|d| !reduced.contains(d)).map(|d| first.dimensions[d]).collect())
        }
        OpKind::Slice => {
            let SliceAttributes { slice } = instruction.attributes()?;
            let size = |slice: &SliceDimension| (slice.limit - slice.start).max(0).div_ceil_by(slice.stride.max(1));
            with(slice.iter().map(size).collect())
        }
        OpKind::Pad => {
            let PadAttributes { padding } = instruction.attributes()?;
            let padded = first
                .dimensions
                .iter()
                .zip(padding)
                .map(|(&size, p)| (size + p.low + p.high + (size - 1).max(0) * p.interior).max(0));
            with(padded.collect())
        }
        OpKind::Concatenate => {
            let along = instruction.attributes::<ConcatenateAttributes>()?.dimensions.index();
            let mut dimensions = first.dimensions.clone();
            dimensions[along] = shapes.iter().map(|shape| shape.dimensions[along]).sum();
            with(dimensions)
        }
        OpKind::Dot => {
            let (lhs, rhs) = (shapes[0], shapes[1]);
            let numbers = instruction.attributes::<DotAttributes>()?.dimensions();
            let batch = numbers.lhs_batch.iter().map(|&d| lhs.dimensions[d]);
            let lhs_free = numbers.lhs_free(lhs.rank()).into_iter().map(|d| lhs.dimensions[d]);
            let rhs_free = numbers.rhs_free(rhs.rank()).into_iter().map(|d| rhs.dimensions[d]);
            with(batch.chain(lhs_free).chain(rhs_free).collect())
        }
        OpKind::ReduceWindow => {
            let ReduceWindowAttributes { window } = instruction.attributes()?;
            with(first.dimensions.iter().zip(window).map(|(&size, w)| windows(size, w)).collect())
        }
        OpKind::Convolution => {
            let attributes: ConvolutionAttributes = instruction.attributes()?;
            let numbers = attributes.dim_labels;
            let (input, kernel) = (shapes[0], shapes[1]);
            let mut dimensions = declared_dimensions(declared)?;
            let batch_groups = attributes.batch_group_count.max(1);
            let batch = input.dimensions[numbers.input_batch as usize];
            let output_features = kernel.dimensions[numbers.kernel_output_feature as usize];
            let groups = batch_groups.max(attributes.feature_group_count);
            if batch % batch_groups != 0 || output_features % groups != 0 {
                return Err(EvalFailure::malformed("the sizes of batch or features do not fit the groups"));
            }
            dimensions[numbers.output_batch as usize] = batch / batch_groups;
            dimensions[numbers.output_feature as usize] = output_features;
            let spatial = numbers.input_spatial.iter().zip(&numbers.output_spatial);
            for ((&from, &to), w) in spatial.zip(attributes.window) {
                dimensions[to as usize] = windows(input.dimensions[from as usize], w);
            }
            with(dimensions)
        }
        OpKind::Gather => {
            let attributes: GatherAttributes = instruction.attributes()?;
            let index_vector = attributes.index_vector_dim;
            let offset = sizes(attributes.offset_dims);
            let collapsed = sizes(attributes.collapsed_slice_dims);
            let batching = sizes(attributes.operand_batching_dims);
            let mut batch =
                (0..shapes[1].rank()).filter(|&d| d as i64 != index_vector).map(|d| shapes[1].dimensions[d]);
            let slice_sizes = attributes.slice_sizes;
            let mut offsets = (0..slice_sizes.len())
                .filter(|d| !collapsed.contains(d) && !batching.contains(d))
                .map(|d| slice_sizes[d]);
            let rank = declared_dimensions(declared)?.len();
            let sizes = (0..rank).map(|d| if offset.contains(&d) { offsets.next() } else { batch.next() });
            let sizes: Option<Vec<i64>> = sizes.collect();
            with(sizes.ok_or_else(|| EvalFailure::malformed("the dimension numbers do not fit the result"))?)
        }
        OpKind::Reshape => with(reshaped(&bounds[0].dimensions, &first.dimensions, declared).ok_or_else(unsupported)?),
        OpKind::BitcastConvert => {
            let mut dimensions = declared_dimensions(declared)?;
            dimensions.iter_mut().zip(&first.dimensions).for_each(|(own, &size)| *own = size);
            with(dimensions)
        }
        // The others' operands say it all.
        kind => {
            let shapes: Vec<Shape> = shapes.iter().map(|&shape| Shape::Array(shape.clone())).collect();
            let view = OpView {
                kind,
                operands: &shapes.iter().collect::<Vec<_>>(),
                attributes: &instruction.attributes,
                computations: &instruction.computations.iter().map(Computation::program_shape).collect::<Vec<_>>(),
                result: None,
            };
            let inferred = ops::infer_shape(&view).map_err(|error| EvalFailure::malformed(error.to_string()))?;
            with_element_types(inferred, declared)
        }
    })
}

/// A window must fit the elements that exist.
fn check_window(operand: &ArrayShape, window: &[i64]) -> Result<(), EvalFailure> {
    match operand.dimensions.iter().zip(window).position(|(size, window)| window > size) {
        None => Ok(()),
        Some(dimension) => Err(EvalFailure::malformed(format!(
            "a window of {} elements in dimension {dimension}, of which {} exist",
            window[dimension], operand.dimensions[dimension]
        ))),
    }
}

/// Number of places of a window over a base of a size.
fn windows(size: i64, w: &WindowDimension) -> i64 {
    let dilated = if size == 0 { 0 } else { (size - 1) * w.base_dilation + 1 };
    let room = dilated + w.padding_low + w.padding_high - ((w.size - 1) * w.window_dilation + 1);
    if room < 0 { 0 } else { room / w.stride.max(1) + 1 }
}

trait DivideUp {
    fn div_ceil_by(self, divisor: i64) -> i64;
}

impl DivideUp for i64 {
    fn div_ceil_by(self, divisor: i64) -> i64 {
        (self + divisor - 1) / divisor
    }
}

fn declared_dimensions(declared: &Shape) -> Result<Vec<i64>, EvalFailure> {
    match declared {
        Shape::Array(array) => Ok(array.dimensions.clone()),
        _ => Err(EvalFailure::malformed("the result is not an array")),
    }
}

/// The declared shape, or each shape of the declared tuple, with other sizes, all static.
fn with_dimensions(declared: &Shape, dimensions: &[i64]) -> Shape {
    match declared {
        Shape::Array(array) => Shape::array(array.element_type, dimensions),
        Shape::Tuple(elements) => {
            Shape::Tuple(elements.iter().map(|element| with_dimensions(element, dimensions)).collect())
        }
        other => other.clone(),
    }
}

/// A shape with the element types of another one, which a program may choose.
fn with_element_types(shape: Shape, declared: &Shape) -> Shape {
    match (shape, declared) {
        (Shape::Array(array), Shape::Array(declared)) => Shape::Array(array.with_element_type(declared.element_type)),
        (Shape::Tuple(elements), Shape::Tuple(declared)) => {
            let pairs = elements.into_iter().zip(declared);
            Shape::Tuple(pairs.map(|(element, declared)| with_element_types(element, declared)).collect())
        }
        (other, _) => other,
    }
}

/// Sizes of a reshaped array: between two places where the bounds' products agree, the one dynamic dimension of
/// the result takes what its static neighbours leave. Static dimensions of one element belong nowhere.
fn reshaped(bounds: &[i64], sizes: &[i64], declared: &Shape) -> Option<Vec<i64>> {
    let declared = declared.as_array()?;
    let mut result = declared.dimensions.clone();
    let mut from: Vec<usize> = (0..bounds.len()).filter(|&d| bounds[d] != 1 || sizes[d] != 1).rev().collect();
    let mut to: Vec<usize> =
        (0..result.len()).filter(|&d| result[d] != 1 || declared.is_dynamic_dimension(d)).rev().collect();
    while !from.is_empty() {
        let (mut before, mut after) = (vec![from.pop()?], vec![to.pop()?]);
        let product =
            |list: &[usize], sizes: &[i64]| list.iter().try_fold(1i64, |product, &d| product.checked_mul(sizes[d]));
        loop {
            let (left, right) = (product(&before, bounds)?, product(&after, &declared.dimensions)?);
            let is_last = from.iter().all(|&d| bounds[d] == 1) && to.is_empty();
            if left == right && !is_last {
                break;
            }
            match if left < right || to.is_empty() { from.pop() } else { None } {
                Some(d) => before.push(d),
                None => match to.pop() {
                    Some(d) => after.push(d),
                    None => break,
                },
            }
        }
        if before.iter().all(|&d| bounds[d] == sizes[d]) {
            continue;
        }
        let existing = product(&before, sizes)?;
        let mut dynamic = after.iter().copied().filter(|&d| declared.is_dynamic_dimension(d));
        let (chosen, None) = (dynamic.next().or(after.first().copied())?, dynamic.next()) else { return None };
        let others: i64 = after.iter().filter(|&&d| d != chosen).map(|&d| declared.dimensions[d]).product();
        if others == 0 || existing % others != 0 {
            return None;
        }
        *result.get_mut(chosen)? = existing / others;
    }
    Some(result)
}
