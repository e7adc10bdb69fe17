//! The largest or smallest elements of each row, in order, with their places.
//!
//! Semantics: HLO `topk`. Elements compare by IEEE 754 total order, so a positive NaN is the largest; of equal elements the one
//! that stands first comes first.

use super::{
    RunContext,
    context::context_at,
    sort::{KeyCoder, KeyType, SortOrder},
};
use crate::thread_pool::{for_each_chunk, grain_for_cost};

/// What to select.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TopKDescriptor {
    /// Element type, as XLA's `PrimitiveType`.
    pub key_type: i64,
    /// Number of rows.
    pub batch: i64,
    /// Elements of a row.
    pub length: i64,
    /// Elements to select; not more than there are.
    pub k: i64,
    /// Whether the largest are wanted, rather than the smallest.
    pub largest: i64,
}

/// Addresses shared by the threads, which use disjoint rows.
#[derive(Clone, Copy)]
struct Rows {
    input: *const u8,
    values: *mut u8,
    indices: *mut i32,
}

// SAFETY: rows are disjoint, and each is handled by one thread.
unsafe impl Sync for Rows {}

/// Writes the `k` first elements of each row to `values` and their places (`s32`) to `indices`.
///
/// # Safety
/// `context` must be null or live; the buffers must hold the described number of elements and not overlap.
pub unsafe extern "C" fn halo_top_k(
    context: *const RunContext,
    descriptor: *const TopKDescriptor,
    input: *const u8,
    values: *mut u8,
    indices: *mut i32,
) {
    // SAFETY: the caller's promise.
    let (context, descriptor) = unsafe { (context_at(context), &*descriptor) };
    let fallback = RunContext::new(None);
    let context = context.unwrap_or(&fallback);
    context.guard("topk", || {
        let size = |value: i64| usize::try_from(value).map_err(|_| format!("size {value}"));
        let key_type =
            KeyType::from_code(descriptor.key_type).ok_or_else(|| format!("no key type {}", descriptor.key_type))?;
        let (batch, length, k) = (size(descriptor.batch)?, size(descriptor.length)?, size(descriptor.k)?);
        if k > length || i32::try_from(length).is_err() {
            return Err(format!("{k} elements of {length}"));
        }
        let coder = KeyCoder::new(key_type, SortOrder::Total, descriptor.largest != 0);
        let rows = Rows { input, values, indices };
        match key_type.bytes() {
            1 => select_rows::<u8>(context, coder, rows, batch, length, k),
            2 => select_rows::<u16>(context, coder, rows, batch, length, k),
            4 => select_rows::<u32>(context, coder, rows, batch, length, k),
            _ => select_rows::<u64>(context, coder, rows, batch, length, k),
        }
        Ok(())
    });
}

/// The smallest keys of a sequence with their places; of equal keys the first.
struct Best {
    count: usize,
    /// Candidates, more than are wanted; the surplus is dropped now and then, so that most elements cost a comparison.
    candidates: Vec<(u64, u32)>,
    /// Keys from here on are too large, once there are enough candidates.
    bound: u64,
}

impl Best {
    fn new(count: usize) -> Self {
        Self { count, candidates: Vec::with_capacity(Self::room(count)), bound: u64::MAX }
    }

    fn room(count: usize) -> usize {
        (2 * count).max(64)
    }

    #[inline(always)]
    fn offer(&mut self, key: u64, place: u32) {
        if key < self.bound || self.candidates.len() < self.count {
            self.candidates.push((key, place));
            if self.candidates.len() == Self::room(self.count) {
                self.drop_surplus();
            }
        }
    }

    fn drop_surplus(&mut self) {
        let Some(last) = self.count.checked_sub(1) else { return self.candidates.clear() };
        if last < self.candidates.len() {
            self.candidates.select_nth_unstable(last);
            self.candidates.truncate(self.count);
            self.bound = self.candidates[last].0;
        }
    }

    /// The keys in order; the next sequence can follow.
    fn take(&mut self) -> Vec<(u64, u32)> {
        self.drop_surplus();
        let mut result = std::mem::replace(&mut self.candidates, Vec::with_capacity(Self::room(self.count)));
        result.sort_unstable();
        self.bound = u64::MAX;
        result
    }
}

fn select_rows<T: Copy + Into<u64> + TryFrom<u64>>(
    context: &RunContext,
    coder: KeyCoder,
    rows: Rows,
    batch: usize,
    length: usize,
    k: usize,
) {
    let select = |begin: usize, end: usize| {
        let rows = &rows;
        let mut best = Best::new(k);
        for row in begin..end {
            // SAFETY: a row of the input, and this thread's rows of the outputs; element types may be less aligned than
            // the buffers' owner guarantees, so nothing is assumed.
            unsafe {
                let input = rows.input.cast::<T>().add(row * length);
                for place in 0..length {
                    best.offer(coder.encode(input.add(place).read_unaligned().into()), place as u32);
                }
                for (place, &(_, index)) in best.take().iter().enumerate() {
                    let element = input.add(index as usize).read_unaligned();
                    rows.values.cast::<T>().add(row * k + place).write_unaligned(element);
                    rows.indices.add(row * k + place).write_unaligned(index as i32);
                }
            }
        }
    };
    match context.threads() {
        // About 2 ns for each element.
        Some(threads) => {
            for_each_chunk(threads, batch, grain_for_cost(2 * length as u64) as usize, select);
        }
        None => select(0, batch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top_k(input: &[f32], length: usize, k: usize, largest: bool) -> (Vec<f32>, Vec<i32>) {
        let batch = input.len() / length;
        let descriptor = TopKDescriptor {
            key_type: crate::runtime::primitive_type::F32,
            batch: batch as i64,
            length: length as i64,
            k: k as i64,
            largest: largest.into(),
        };
        let (mut values, mut indices) = (vec![0f32; batch * k], vec![0i32; batch * k]);
        let context = RunContext::new(None);
        // SAFETY: the buffers have the described sizes.
        unsafe {
            halo_top_k(&context, &descriptor, input.as_ptr().cast(), values.as_mut_ptr().cast(), indices.as_mut_ptr());
        }
        assert_eq!(context.failure(), None);
        (values, indices)
    }

    #[test]
    fn rows_are_selected_in_order() {
        let input = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        assert_eq!(top_k(&input, 4, 2, true), (vec![4.0, 3.0, 9.0, 6.0], vec![2, 0, 1, 3]));
        assert_eq!(top_k(&input, 4, 3, false), (vec![1.0, 1.0, 3.0, 2.0, 5.0, 6.0], vec![1, 3, 0, 2, 0, 3]));
        assert_eq!(top_k(&input, 8, 8, true).1, vec![5, 7, 4, 2, 0, 6, 1, 3]);
        assert_eq!(top_k(&input, 8, 0, true).1, Vec::<i32>::new());
    }

    #[test]
    fn nan_is_largest_and_zeros_differ() {
        let (values, indices) = top_k(&[0.0, -0.0, f32::NAN, f32::INFINITY], 4, 4, true);
        assert!(values[0].is_nan());
        assert_eq!(indices, vec![2, 3, 0, 1]);
    }
}
