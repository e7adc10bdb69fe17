//! The largest or smallest elements of each row, in order, with their places.
//!
//! Semantics: HLO `topk`. Elements compare by IEEE 754 total order, so a positive NaN is the largest; of equal elements the one
//! that stands first comes first.

use super::{
    RunContext,
    context::context_at,
    sort::{KeyCoder, KeyType, ShortRows, SortOrder, WordCoder},
    widest_vectors::in_widest_vectors,
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

/// Elements up to which those selected so far are kept in order.
const MOST_IN_ORDER: usize = 32;

/// Elements of which it is asked at once whether one may be selected.
const BLOCK: usize = 16;

/// The smallest keys of a sequence with their places; of equal keys the first.
struct Best {
    count: usize,
    /// Of few elements those that are wanted, in order. Of many more than are wanted; the surplus is dropped now and then,
    /// so that most elements cost a comparison.
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
            if self.count <= MOST_IN_ORDER {
                return self.insert(key, place);
            }
            self.candidates.push((key, place));
            if self.candidates.len() == Self::room(self.count) {
                self.drop_surplus();
            }
        }
    }

    /// The largest key up to a limit that may be selected.
    #[inline(always)]
    fn largest_taken(&self, limit: u32) -> Option<u32> {
        if self.candidates.len() < self.count {
            return Some(limit);
        }
        Some(u32::try_from(self.bound.checked_sub(1)?).map_or(limit, |largest| largest.min(limit)))
    }

    fn insert(&mut self, key: u64, place: u32) {
        if self.candidates.len() == self.count {
            self.candidates.pop();
        }
        let position = self.candidates.iter().rposition(|&(other, _)| other <= key).map_or(0, |before| before + 1);
        self.candidates.insert(position, (key, place));
        if self.candidates.len() == self.count {
            self.bound = self.candidates[self.count - 1].0;
        }
    }

    fn drop_surplus(&mut self) {
        let Some(last) = self.count.checked_sub(1) else { return self.candidates.clear() };
        if self.count > MOST_IN_ORDER && last < self.candidates.len() {
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

/// Parts that the elements of a row are dealt out to, one after the other, to learn which are small.
const PARTS: usize = 32;

/// Most elements to select of which that is asked, and rounds of dealing out from which on it pays.
const MOST_OF_PARTS: usize = 16;
const LEAST_ROUNDS: usize = 4;

/// A key that no fewer than `count` keys of a row of words are smaller than or equal to, and few others: of the smallest keys of each part
/// the one in this place. Where that does not pay, the largest key there is.
///
/// # Safety
/// As of [`offer_blocks`].
#[inline(always)]
unsafe fn limit(count: usize, keys: WordCoder<u32>, input: *const u32, length: usize) -> u32 {
    if !(2..=MOST_OF_PARTS).contains(&count) || length < LEAST_ROUNDS * PARTS {
        return u32::MAX;
    }
    let mut smallest = [u32::MAX; PARTS];
    for round in 0..length / PARTS {
        // SAFETY: within the row, by the caller's promise; nothing is assumed of the alignment.
        let bits = unsafe { input.add(round * PARTS).cast::<[u32; PARTS]>().read_unaligned() };
        smallest.iter_mut().zip(bits).for_each(|(smallest, bits)| *smallest = keys.encode(bits).min(*smallest));
    }
    let others_up_to = |key: u32| smallest.iter().map(|&other| u32::from(other <= key)).sum::<u32>() as usize;
    smallest.into_iter().filter(|&key| others_up_to(key) >= count).min().unwrap_or(u32::MAX)
}

/// Offers the elements of a row of words, a block at a time.
///
/// # Safety
/// `input` must be the address of `length` words.
#[inline(always)]
unsafe fn offer_blocks(best: &mut Best, keys: WordCoder<u32>, input: *const u32, length: usize) {
    // SAFETY: the caller's promise.
    let limit = unsafe { limit(best.count, keys, input, length) };
    let mut place = 0;
    while place + BLOCK <= length {
        // SAFETY: within the row, by the caller's promise; nothing is assumed of the alignment.
        let bits = unsafe { input.add(place).cast::<[u32; BLOCK]>().read_unaligned() };
        let block = bits.map(|bits| keys.encode(bits));
        let Some(most) = best.largest_taken(limit) else { return };
        let mut taken = (0..).zip(&block).fold(0u32, |taken, (number, &key)| taken | u32::from(key <= most) << number);
        while taken != 0 {
            let number = taken.trailing_zeros();
            best.offer(block[number as usize].into(), place as u32 + number);
            taken &= taken - 1;
        }
        place += BLOCK;
    }
    for place in place..length {
        // SAFETY: as above.
        let bits = unsafe { input.add(place).read_unaligned() };
        best.offer(keys.encode(bits).into(), place as u32);
    }
}

in_widest_vectors! {
    /// [`offer_blocks`] in the widest vectors of the processor.
    ///
    /// # Safety
    /// As of [`offer_blocks`].
    unsafe fn offer_words(best: &mut Best, keys: WordCoder<u32>, input: *const u32, length: usize) = offer_blocks;
}

fn select_rows<T: Copy + Into<u64> + TryFrom<u64>>(
    context: &RunContext,
    coder: KeyCoder,
    rows: Rows,
    batch: usize,
    length: usize,
    k: usize,
) {
    // SAFETY: a place of a row of the input, and of this thread's rows of the outputs; element types may be less aligned than the
    // buffers' owner guarantees, so nothing is assumed.
    let put = |rows: &Rows, row: usize, place: usize, index: u32| unsafe {
        let element = rows.input.cast::<T>().add(row * length + index as usize).read_unaligned();
        rows.values.cast::<T>().add(row * k + place).write_unaligned(element);
        rows.indices.add(row * k + place).write_unaligned(index as i32);
    };
    let select = |begin: usize, end: usize| {
        let rows = &rows;
        if let Some(mut short) = ShortRows::new(coder, (batch, length, size_of::<T>()), k) {
            for first in (begin..end).step_by(ShortRows::TOGETHER) {
                let group = (first, end.min(first + ShortRows::TOGETHER));
                // SAFETY: rows of the input.
                unsafe {
                    short.each(rows.input, group, |row, places| {
                        places.take(k).enumerate().for_each(|(place, index)| put(rows, row, place, index));
                    });
                }
            }
            return;
        }
        let words = WordCoder::new(coder).map(WordCoder::truncated);
        let mut best = Best::new(k);
        for row in begin..end {
            // SAFETY: a row of the input, of which nothing is assumed but that it is there.
            unsafe {
                let input = rows.input.cast::<T>().add(row * length);
                match words {
                    Some(words) if size_of::<T>() == 4 => offer_words(&mut best, words, input.cast(), length),
                    _ => (0..length).for_each(|place| {
                        best.offer(coder.encode(input.add(place).read_unaligned().into()), place as u32);
                    }),
                }
            }
            best.take().iter().enumerate().for_each(|(place, &(_, index))| put(rows, row, place, index));
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
