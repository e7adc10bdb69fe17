//! Typed views of literal data, and new arrays filled through one.

use bytemuck::Pod;

use super::EvalFailure;
use hlo::literal::{self, ArrayLiteral};
use hlo::shape::ArrayShape;

/// The elements as values of a Rust type of the same width.
pub(super) fn view<T: Pod>(array: &ArrayLiteral) -> &[T] {
    bytemuck::cast_slice(array.bytes())
}

/// New array of zero bytes, filled by `fill` through a view of a Rust type of the element's width.
pub(super) fn build<T: Pod>(
    shape: &ArrayShape,
    fill: impl FnOnce(&mut [T]) -> Result<(), EvalFailure>,
) -> Result<ArrayLiteral, EvalFailure> {
    let size = shape.checked_byte_size().ok_or_else(|| EvalFailure::TooLarge(Box::new(shape.clone())))? as usize;
    let mut bytes = literal::zeroed(size)?;
    fill(bytemuck::cast_slice_mut(&mut bytes))?;
    Ok(ArrayLiteral::new(shape.clone(), bytes)?)
}

/// Sizes as `usize`; negative ones (readers have rejected them) count 0.
pub(super) fn sizes(dimensions: &[i64]) -> Vec<usize> {
    dimensions.iter().map(|&size| size.max(0) as usize).collect()
}

/// Row-major strides, in elements, of an array with the given sizes.
pub(super) fn row_major_strides(sizes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; sizes.len()];
    for dimension in (0..sizes.len().saturating_sub(1)).rev() {
        strides[dimension] = strides[dimension + 1].saturating_mul(sizes[dimension + 1]);
    }
    strides
}

/// Calls `visit` with every index of an array of the given sizes, in row-major order.
pub(super) fn for_each_index(
    sizes: &[usize],
    mut visit: impl FnMut(&[usize]) -> Result<(), EvalFailure>,
) -> Result<(), EvalFailure> {
    if sizes.contains(&0) {
        return Ok(());
    }
    let mut index = vec![0usize; sizes.len()];
    loop {
        visit(&index)?;
        if !advance(&mut index, sizes) {
            return Ok(());
        }
    }
}

/// Moves to the next index in row-major order; false after the last one, when the index is all zeros again.
pub(super) fn advance(index: &mut [usize], sizes: &[usize]) -> bool {
    for dimension in (0..sizes.len()).rev() {
        index[dimension] += 1;
        if index[dimension] < sizes[dimension] {
            return true;
        }
        index[dimension] = 0;
    }
    false
}

/// Runs a body with a type alias for the unsigned integer of a given width in bytes.
macro_rules! with_width {
    ($width:expr, $element:ident => $body:expr) => {
        match $width {
            1 => {
                type $element = u8;
                $body
            }
            2 => {
                type $element = u16;
                $body
            }
            4 => {
                type $element = u32;
                $body
            }
            8 => {
                type $element = u64;
                $body
            }
            _ => {
                type $element = u128;
                $body
            }
        }
    };
}
pub(super) use with_width;
