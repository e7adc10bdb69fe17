//! Copying a box of elements between two arrays walked with any strides: the one loop behind broadcast,
//! transpose, slice, reverse, pad, concatenate, gather and dynamic slices.

use super::data::with_width;

/// One side of a copy: where the first element lies and how far apart, in elements, neighbours along each
/// dimension of the box are (0 repeats an element, negative walks backwards).
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) base: isize,
    pub(super) strides: Vec<isize>,
}

impl Side {
    /// Row-major walk over a whole array of the given sizes.
    pub(super) fn dense(sizes: &[usize]) -> Side {
        Side { base: 0, strides: super::data::row_major_strides(sizes).iter().map(|&s| s as isize).collect() }
    }
}

/// Copies a box of the given sizes; elements have `width` bytes.
pub(super) fn copy(width: usize, sizes: &[usize], source: &[u8], from: &Side, target: &mut [u8], to: &Side) {
    if sizes.contains(&0) {
        return;
    }
    let (sizes, from, to) = merge(sizes, from, to);
    with_width!(width, T => copy_elements::<T>(
        &sizes,
        bytemuck::cast_slice(source),
        &from,
        bytemuck::cast_slice_mut(target),
        &to,
    ));
}

/// Drops dimensions of size 1 and joins neighbours that both sides walk as one.
fn merge(sizes: &[usize], from: &Side, to: &Side) -> (Vec<usize>, Side, Side) {
    let mut merged = Vec::with_capacity(sizes.len());
    let mut source = Side { base: from.base, strides: Vec::with_capacity(sizes.len()) };
    let mut target = Side { base: to.base, strides: Vec::with_capacity(sizes.len()) };
    for (dimension, &size) in sizes.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let (step, jump) = (from.strides[dimension], to.strides[dimension]);
        if let (Some(last), Some(outer_step), Some(outer_jump)) =
            (merged.last_mut(), source.strides.last_mut(), target.strides.last_mut())
            && *outer_step == step * size as isize
            && *outer_jump == jump * size as isize
        {
            *last *= size;
            *outer_step = step;
            *outer_jump = jump;
            continue;
        }
        merged.push(size);
        source.strides.push(step);
        target.strides.push(jump);
    }
    (merged, source, target)
}

fn copy_elements<T: Copy>(sizes: &[usize], source: &[T], from: &Side, target: &mut [T], to: &Side) {
    let (Some((&inner, outer)), Some((&step, outer_steps)), Some((&jump, outer_jumps))) =
        (sizes.split_last(), from.strides.split_last(), to.strides.split_last())
    else {
        target[to.base as usize] = source[from.base as usize];
        return;
    };
    let mut index = vec![0usize; outer.len()];
    let (mut read, mut write) = (from.base, to.base);
    loop {
        copy_row(inner, source, read, step, target, write, jump);
        let mut dimension = outer.len();
        loop {
            if dimension == 0 {
                return;
            }
            dimension -= 1;
            index[dimension] += 1;
            read += outer_steps[dimension];
            write += outer_jumps[dimension];
            if index[dimension] < outer[dimension] {
                break;
            }
            read -= outer_steps[dimension] * outer[dimension] as isize;
            write -= outer_jumps[dimension] * outer[dimension] as isize;
            index[dimension] = 0;
        }
    }
}

#[inline]
fn copy_row<T: Copy>(
    count: usize,
    source: &[T],
    read: isize,
    step: isize,
    target: &mut [T],
    write: isize,
    jump: isize,
) {
    match (step, jump) {
        (1, 1) => {
            target[write as usize..][..count].copy_from_slice(&source[read as usize..][..count]);
        }
        (0, 1) => target[write as usize..][..count].fill(source[read as usize]),
        (_, 1) => {
            let mut position = read;
            for element in &mut target[write as usize..][..count] {
                *element = source[position as usize];
                position += step;
            }
        }
        _ => {
            for position in 0..count as isize {
                target[(write + position * jump) as usize] = source[(read + position * step) as usize];
            }
        }
    }
}
