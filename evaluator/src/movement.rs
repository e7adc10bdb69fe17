//! Operations that move elements to positions known from the instruction alone.

use num_complex::Complex64;

use super::EvalFailure;
use super::data::{build, row_major_strides, sizes};
use super::strided::{self, Side};
use hlo::attributes::{PaddingDimension, SliceDimension};
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::ArrayLiteral;
use hlo::scalar::{Scalar, store};
use hlo::shape::{ArrayShape, Layout};

/// Array of the result's shape whose element at each index is the operand's element found by walking with `from`.
pub(super) fn read_strided(
    operand: &ArrayLiteral,
    from: &Side,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let result_sizes = sizes(&result.dimensions);
    build::<u8>(result, |target| {
        let width = result.element_type.byte_width();
        strided::copy(width, &result_sizes, operand.bytes(), from, target, &Side::dense(&result_sizes));
        Ok(())
    })
}

fn strides_of(shape: &ArrayShape) -> Vec<isize> {
    Side::dense(&sizes(&shape.dimensions)).strides
}

fn dimension(value: i64, rank: usize) -> Result<usize, EvalFailure> {
    usize::try_from(value)
        .ok()
        .filter(|&dimension| dimension < rank)
        .ok_or_else(|| EvalFailure::malformed(format!("there is no dimension {value} of {rank}")))
}

/// Operand dimension `i` becomes result dimension `dimensions[i]`; others (and size 1) repeat ("BroadcastInDim").
pub(super) fn broadcast(
    operand: &ArrayLiteral,
    dimensions: &[i64],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let mut from = Side { base: 0, strides: vec![0; result.rank()] };
    for ((&target, stride), &size) in
        dimensions.iter().zip(strides_of(operand.shape())).zip(&operand.shape().dimensions)
    {
        if size != 1 {
            from.strides[dimension(target, result.rank())?] = stride;
        }
    }
    read_strided(operand, &from, result)
}

/// Result dimension `i` is operand dimension `permutation[i]` ("Transpose").
pub(super) fn transpose(
    operand: &ArrayLiteral,
    permutation: &[i64],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let strides = strides_of(operand.shape());
    let permuted =
        permutation.iter().map(|&d| Ok(strides[dimension(d, strides.len())?])).collect::<Result<_, EvalFailure>>()?;
    read_strided(operand, &Side { base: 0, strides: permuted }, result)
}

/// Same elements in row-major order under another shape ("Reshape").
pub(super) fn reshape(operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    Ok(operand.with_shape(result.clone())?)
}

/// Index `i` of each listed dimension becomes N - 1 - i ("Rev").
pub(super) fn reverse(
    operand: &ArrayLiteral,
    dimensions: &[i64],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let mut from = Side { base: 0, strides: strides_of(operand.shape()) };
    for &reversed in dimensions {
        let reversed = dimension(reversed, from.strides.len())?;
        from.base += from.strides[reversed] * (operand.shape().dimensions[reversed].max(1) as isize - 1);
        from.strides[reversed] = -from.strides[reversed];
    }
    read_strided(operand, &from, result)
}

/// Elements start, start + stride … below limit of each dimension ("Slice").
pub(super) fn slice(
    operand: &ArrayLiteral,
    slices: &[SliceDimension],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let mut from = Side { base: 0, strides: strides_of(operand.shape()) };
    for (stride, slice) in from.strides.iter_mut().zip(slices) {
        from.base += *stride * slice.start as isize;
        *stride *= slice.stride as isize;
    }
    read_strided(operand, &from, result)
}

/// Puts `interior` copies of the padding value between neighbours, then adds or removes elements at the edges ("Pad").
pub(super) fn pad(
    operand: &ArrayLiteral,
    value: &ArrayLiteral,
    padding: &[PaddingDimension],
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let width = result.element_type.byte_width();
    let result_sizes = sizes(&result.dimensions);
    let result_strides = row_major_strides(&result_sizes);
    let mut from = Side { base: 0, strides: strides_of(operand.shape()) };
    let mut to = Side { base: 0, strides: Vec::new() };
    let mut kept = Vec::new();
    for (d, padding) in padding.iter().enumerate().take(result_sizes.len()) {
        // Element i lands at low + i * step; keep the i for which that is inside the result.
        let step = padding.interior.saturating_add(1);
        let size = operand.shape().dimensions[d];
        let first = padding.low.min(0).saturating_neg().saturating_add(step - 1) / step;
        let limit = match result.dimensions[d].saturating_sub(padding.low) {
            room if room <= 0 => 0,
            room => ((room - 1) / step).saturating_add(1).min(size),
        };
        kept.push(limit.saturating_sub(first).max(0) as usize);
        from.base += from.strides[d] * first as isize;
        to.base += result_strides[d] as isize * padding.low.saturating_add(first.saturating_mul(step)) as isize;
        to.strides.push(result_strides[d] as isize * step as isize);
    }
    from.strides.truncate(kept.len());
    build::<u8>(result, |target| {
        let fill = Side { base: 0, strides: vec![0; result_sizes.len()] };
        strided::copy(width, &result_sizes, value.bytes(), &fill, target, &Side::dense(&result_sizes));
        strided::copy(width, &kept, operand.bytes(), &from, target, &to);
        Ok(())
    })
}

/// The operands one after the other along a dimension ("Concatenate").
pub(super) fn concatenate(
    operands: &[&ArrayLiteral],
    along: i64,
    result: &ArrayShape,
) -> Result<ArrayLiteral, EvalFailure> {
    let along = dimension(along, result.rank())?;
    let width = result.element_type.byte_width();
    let mut to = Side::dense(&sizes(&result.dimensions));
    build::<u8>(result, |target| {
        for operand in operands {
            let operand_sizes = sizes(&operand.shape().dimensions);
            strided::copy(width, &operand_sizes, operand.bytes(), &Side::dense(&operand_sizes), target, &to);
            to.base += to.strides[along] * operand_sizes[along] as isize;
        }
        Ok(())
    })
}

/// The index along a dimension, as a number of the result's type ("Iota").
pub(super) fn iota(along: i64, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let along = dimension(along, result.rank())?;
    let result_sizes = sizes(&result.dimensions);
    let count = result_sizes[along];
    let element_type = result.element_type;
    let row_shape = ArrayShape::new(element_type, [count as i64]);
    let row = build::<u8>(&row_shape, |target| {
        for position in 0..count {
            let value = match element_type.class() {
                ElementClass::Predicate => Scalar::Predicate(position != 0),
                ElementClass::Signed => Scalar::Signed(position as i64),
                ElementClass::Unsigned => Scalar::Unsigned(position as u64),
                ElementClass::Float => Scalar::Float(position as f64),
                ElementClass::Complex => Scalar::Complex(Complex64::new(position as f64, 0.0)),
            };
            store(element_type, target, position, value);
        }
        Ok(())
    })?;
    let mut from = Side { base: 0, strides: vec![0; result_sizes.len()] };
    from.strides[along] = 1;
    read_strided(&row, &from, result)
}

/// Reads the operand's memory, ordered by its layout, as an array of the result's shape and layout.
pub(super) fn bitcast(operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let is_row_major = |layout: &Option<Layout>| layout.as_ref().is_none_or(Layout::is_row_major);
    let source = operand.shape();
    if is_row_major(&source.layout) && is_row_major(&result.layout) {
        return bitcast_convert(operand, result);
    }
    let physical = |shape: &ArrayShape| -> Result<Vec<i64>, EvalFailure> {
        shape.layout_or_default().minor_to_major.iter().rev().map(|&d| Ok(dimension(d, shape.rank())? as i64)).collect()
    };
    // Logical to physical order of the operand, a reinterpretation, and physical to logical order of the result.
    let order = physical(source)?;
    let memory_sizes: Vec<i64> = order.iter().map(|&d| source.dimensions[d as usize]).collect();
    let memory = transpose(operand, &order, &ArrayShape::new(source.element_type, memory_sizes))?;
    let order = physical(result)?;
    let memory_sizes: Vec<i64> = order.iter().map(|&d| result.dimensions[d as usize]).collect();
    let memory = bitcast_convert(&memory, &ArrayShape::new(result.element_type, memory_sizes))?;
    let mut inverse = vec![0i64; order.len()];
    for (position, &d) in order.iter().enumerate() {
        inverse[d as usize] = position as i64;
    }
    transpose(&memory, &inverse, result)
}

/// The same bits as elements of another type ("BitcastConvertType"); 2- and 4-bit elements are packed first
/// and unpacked afterwards, lowest bits first.
pub(super) fn bitcast_convert(operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let (from, to) = (operand.element_type(), result.element_type);
    if from.bit_width() >= 8 && to.bit_width() >= 8 {
        if to == ElementType::Pred && from != ElementType::Pred {
            return bitcast_bits(operand, result);
        }
        return Ok(operand.with_shape(result.clone())?);
    }
    bitcast_bits(operand, result)
}

fn bitcast_bits(operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let (from, to) = (operand.element_type(), result.element_type);
    let mut bits = Vec::new();
    for element in operand.bytes().chunks(from.byte_width()) {
        (0..from.bit_width()).for_each(|bit| bits.push(element[bit as usize / 8] >> (bit % 8) & 1));
    }
    let width = to.bit_width() as usize;
    build::<u8>(result, |target| {
        for (element, bits) in target.chunks_mut(to.byte_width()).zip(bits.chunks(width)) {
            for (bit, &value) in bits.iter().enumerate() {
                element[bit / 8] |= value << (bit % 8);
            }
            if to.is_signed_integer() && width < 8 {
                element[0] = hlo::scalar::wrap_signed(i64::from(element[0]), width as u32) as u8;
            } else if to == ElementType::Pred {
                element[0] = (element[0] != 0).into();
            }
        }
        Ok(())
    })
}

/// Reshape with an order of the operand's dimensions ("Reshape(operand, dimensions, new_sizes)"): the operand is
/// flattened with `order` from the slowest to the fastest dimension.
pub fn reshape_in_order(operand: &ArrayLiteral, order: &[i64], new_sizes: &[i64]) -> Result<ArrayLiteral, EvalFailure> {
    let shape = operand.shape();
    let permuted = order
        .iter()
        .map(|&d| Ok(shape.dimensions[dimension(d, shape.rank())?]))
        .collect::<Result<Vec<i64>, EvalFailure>>()?;
    let transposed = transpose(operand, order, &ArrayShape::new(shape.element_type, permuted))?;
    reshape(&transposed, &ArrayShape::new(shape.element_type, new_sizes))
}

/// Copies the elements with indices below `kept` of each dimension between arrays of different sizes; the rest
/// of the result is zero.
pub(super) fn resize(operand: &ArrayLiteral, result: &ArrayShape) -> Result<ArrayLiteral, EvalFailure> {
    let (from, to) = (sizes(&operand.shape().dimensions), sizes(&result.dimensions));
    let kept: Vec<usize> = from.iter().zip(&to).map(|(&a, &b)| a.min(b)).collect();
    build::<u8>(result, |target| {
        strided::copy(
            result.element_type.byte_width(),
            &kept,
            operand.bytes(),
            &Side::dense(&from),
            target,
            &Side::dense(&to),
        );
        Ok(())
    })
}
