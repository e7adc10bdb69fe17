//! Radix sort of integer keys: stable, and on several threads by parts that are then merged.

use super::merge::{merge, on_each};
use crate::ThreadPool;

/// Bits that one pass sorts by.
const BITS: u32 = 11;
const BUCKETS: usize = 1 << BITS;

/// Below this, counting buckets costs more than comparing.
const SHORTEST: usize = BUCKETS / 2;

/// A key, perhaps with something that travels with it.
pub(super) trait Keyed: Copy + Default + Send + Sync {
    /// Bits of the key.
    const KEY_BITS: u32;

    /// The key; smaller ones come first.
    fn key(self) -> u64;
}

impl Keyed for u32 {
    const KEY_BITS: u32 = 32;

    #[inline(always)]
    fn key(self) -> u64 {
        self.into()
    }
}

impl Keyed for u64 {
    const KEY_BITS: u32 = 64;

    #[inline(always)]
    fn key(self) -> u64 {
        self
    }
}

/// A key of 32 bits with a payload of 32 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packed(u64);

impl Packed {
    #[inline(always)]
    pub(super) fn new(key: u64, payload: u32) -> Self {
        Self(key << 32 | u64::from(payload))
    }

    #[inline(always)]
    pub(super) fn payload(self) -> u32 {
        self.0 as u32
    }
}

impl Keyed for Packed {
    const KEY_BITS: u32 = 32;

    #[inline(always)]
    fn key(self) -> u64 {
        self.0 >> 32
    }
}

/// A key of 64 bits with the place of its element.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wide {
    pub(super) key: u64,
    pub(super) index: u32,
}

impl Keyed for Wide {
    const KEY_BITS: u32 = 64;

    #[inline(always)]
    fn key(self) -> u64 {
        self.key
    }
}

/// Sorts by keys, on several threads if there are any; `scratch` is grown to the length of `data`.
pub(super) fn sort_keys<T: Keyed>(data: &mut [T], scratch: &mut Vec<T>, threads: Option<&ThreadPool>) {
    scratch.resize(data.len().max(scratch.len()), T::default());
    let scratch = &mut scratch[..data.len()];
    match threads {
        Some(threads) => parallel_sort(data, scratch, threads),
        None => radix_sort(data, scratch),
    }
}

fn digit<T: Keyed>(item: T, pass: usize) -> usize {
    (item.key() >> (BITS * pass as u32)) as usize % BUCKETS
}

/// Items that are all compared with each other.
const FEW: usize = 16;

/// Sorts at most [`FEW`] items by keys of 32 bits, without branches that depend on them: each goes to the place that is the
/// number of smaller ones. Moves nothing where two keys are equal, and says so by false.
fn sort_few<T: Keyed>(data: &mut [T], scratch: &mut [T]) -> bool {
    let mut keys = [0i32; FEW];
    for (key, item) in keys.iter_mut().zip(data.iter()) {
        // Vectors compare signed numbers.
        *key = (item.key() as u32 ^ (1 << 31)) as i32;
    }
    let mut places = [0i32; FEW];
    for &key in &keys[..data.len()] {
        for (place, &other) in places.iter_mut().zip(&keys) {
            *place += i32::from(other > key);
        }
    }
    let places = &places[..data.len()];
    let pairs = data.len() * data.len().saturating_sub(1) / 2;
    if places.iter().sum::<i32>() as usize != pairs {
        return false;
    }
    for (item, &place) in data.iter().zip(places) {
        scratch[place as usize] = *item;
    }
    data.copy_from_slice(scratch);
    true
}

fn radix_sort<T: Keyed>(data: &mut [T], scratch: &mut [T]) {
    if T::KEY_BITS == 32 && data.len() <= FEW && sort_few(data, scratch) {
        return;
    }
    if data.len() < SHORTEST {
        return data.sort_by_key(|item| item.key());
    }
    let passes = T::KEY_BITS.div_ceil(BITS) as usize;
    let mut counts = vec![[0u32; BUCKETS]; passes];
    for &item in data.iter() {
        for (pass, counts) in counts.iter_mut().enumerate() {
            counts[digit(item, pass)] += 1;
        }
    }
    let mut in_data = true;
    for (pass, counts) in counts.iter_mut().enumerate() {
        // All keys in one bucket: nothing to move.
        if counts.contains(&(data.len() as u32)) {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        let (from, to) = if in_data { (&*data, &mut *scratch) } else { (&*scratch, &mut *data) };
        for &item in from {
            let position = &mut counts[digit(item, pass)];
            to[*position as usize] = item;
            *position += 1;
        }
        in_data = !in_data;
    }
    if !in_data {
        data.copy_from_slice(scratch);
    }
}

/// Each thread sorts a part, then parts are merged two by two, each merge split between threads.
fn parallel_sort<T: Keyed>(data: &mut [T], scratch: &mut [T], threads: &ThreadPool) {
    let parts = threads.threads().next_power_of_two();
    let width = data.len().div_ceil(parts).max(1);
    let pairs = data.chunks_mut(width).zip(scratch.chunks_mut(width)).collect();
    on_each(threads, pairs, |(part, scratch): (&mut [T], &mut [T])| radix_sort(part, scratch));
    let mut width = width;
    let mut in_data = true;
    while width < data.len() {
        let (from, to) = if in_data { (&*data, &mut *scratch) } else { (&*scratch, &mut *data) };
        let mut pieces = Vec::new();
        for (from, mut to) in from.chunks(2 * width).zip(to.chunks_mut(2 * width)) {
            let (left, right) = from.split_at(width.min(from.len()));
            let (mut l, mut r) = (0, 0);
            for piece in 1..=parts {
                let end = from.len() * piece / parts;
                let next_l = split(left, right, end);
                let next_r = end - next_l;
                let (head, tail) = to.split_at_mut(end - l - r);
                pieces.push((&left[l..next_l], &right[r..next_r], head));
                (to, l, r) = (tail, next_l, next_r);
            }
        }
        on_each(threads, pieces, |(left, right, to)| merge(left, right, to, &mut |a, b| a.key() < b.key()));
        in_data = !in_data;
        width *= 2;
    }
    if !in_data {
        data.copy_from_slice(scratch);
    }
}

/// How many of the first `count` items of the merged sequence come from `left`; of equal keys the left ones come first.
fn split<T: Keyed>(left: &[T], right: &[T], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let middle = (low + high) / 2;
        // Is left[middle] among the first `count`?
        if right[count - middle - 1].key() < left[middle].key() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
