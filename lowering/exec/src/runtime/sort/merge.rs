//! Merge sort: stable, one call of the comparison for each comparison, and safe with any comparison whatsoever (HLO allows
//! comparators that are no order; the standard library's sort may panic on those).

use crate::ThreadPool;
use crate::thread_pool::for_each_chunk;
use std::sync::Mutex;

const RUN: usize = 12;

/// Sorts `data`; `scratch` is grown to its length. `less(a, b)` says whether `a` must come before `b`.
pub(super) fn merge_sort<T: Copy>(data: &mut [T], scratch: &mut Vec<T>, mut less: impl FnMut(&T, &T) -> bool) {
    for run in data.chunks_mut(RUN) {
        insertion_sort(run, &mut less);
    }
    if data.len() <= RUN {
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(data);
    let mut width = RUN;
    let mut in_data = true;
    while width < data.len() {
        if in_data {
            merge_runs(data, scratch, width, &mut less);
        } else {
            merge_runs(scratch, data, width, &mut less);
        }
        in_data = !in_data;
        width *= 2;
    }
    if !in_data {
        data.copy_from_slice(scratch);
    }
}

fn insertion_sort<T: Copy>(run: &mut [T], less: &mut impl FnMut(&T, &T) -> bool) {
    for end in 1..run.len() {
        let element = run[end];
        let mut position = end;
        while position > 0 && less(&element, &run[position - 1]) {
            run[position] = run[position - 1];
            position -= 1;
        }
        run[position] = element;
    }
}

/// Merges pairs of neighbouring sorted runs of `width` from one array into another.
fn merge_runs<T: Copy>(from: &[T], to: &mut [T], width: usize, less: &mut impl FnMut(&T, &T) -> bool) {
    for (from, to) in from.chunks(2 * width).zip(to.chunks_mut(2 * width)) {
        let (left, right) = from.split_at(width.min(from.len()));
        // Runs already in order, as in nearly sorted data, are only copied.
        match (left.last(), right.first()) {
            (Some(last), Some(first)) if less(first, last) => merge(left, right, to, less),
            _ => to.copy_from_slice(from),
        }
    }
}

fn merge<T: Copy>(left: &[T], right: &[T], to: &mut [T], less: &mut impl FnMut(&T, &T) -> bool) {
    let (mut l, mut r) = (0, 0);
    for slot in to {
        let from_right = match (left.get(l), right.get(r)) {
            (Some(a), Some(b)) => less(b, a),
            (None, _) => true,
            (_, None) => false,
        };
        if from_right {
            *slot = right[r];
            r += 1;
        } else {
            *slot = left[l];
            l += 1;
        }
    }
}

/// Sorts keys on several threads: each sorts a part, then parts are merged two by two, each merge split between threads.
/// Equal keys cannot be told apart, so stability is no question.
pub(super) fn parallel_sort<T: Copy + Ord + Send + Sync + Default>(data: &mut [T], threads: &ThreadPool) {
    let parts = threads.threads().next_power_of_two();
    let width = data.len().div_ceil(parts).max(1);
    on_each(threads, data.chunks_mut(width).collect(), |part| part.sort_unstable());
    let mut scratch = vec![T::default(); data.len()];
    let mut width = width;
    let mut in_data = true;
    while width < data.len() {
        let (from, to) = if in_data { (&*data, &mut scratch[..]) } else { (&scratch[..], &mut *data) };
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
        on_each(threads, pieces, |(left, right, to)| merge(left, right, to, &mut |a, b| a < b));
        in_data = !in_data;
        width *= 2;
    }
    if !in_data {
        data.copy_from_slice(&scratch);
    }
}

/// How many of the first `count` elements of the merged sequence come from `left`.
fn split<T: Ord>(left: &[T], right: &[T], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let middle = (low + high) / 2;
        // Is left[middle] among the first `count`?
        if right[count - middle - 1] < left[middle] {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

fn on_each<W: Send>(threads: &ThreadPool, work: Vec<W>, body: impl Fn(W) + Sync) {
    let slots: Vec<Mutex<Option<W>>> = work.into_iter().map(|item| Mutex::new(Some(item))).collect();
    for_each_chunk(threads, slots.len(), 1, |begin, end| {
        for slot in &slots[begin..end] {
            if let Some(item) = slot.lock().ok().and_then(|mut slot| slot.take()) {
                body(item);
            }
        }
    });
}

/// Sorts 32-bit keys by three passes of 11 bits.
pub(super) fn radix_sort(data: &mut [u32], scratch: &mut Vec<u32>) {
    const BITS: u32 = 11;
    const BUCKETS: usize = 1 << BITS;
    if data.len() < BUCKETS {
        data.sort_unstable();
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(data);
    let mut starts = [[0usize; BUCKETS]; 3];
    for &key in data.iter() {
        for (pass, counts) in starts.iter_mut().enumerate() {
            counts[(key >> (BITS * pass as u32)) as usize % BUCKETS] += 1;
        }
    }
    let mut in_data = true;
    for (pass, counts) in starts.iter_mut().enumerate() {
        // All keys in one bucket: nothing to move.
        if counts.contains(&data.len()) {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        let (from, to) = if in_data { (&*data, &mut scratch[..]) } else { (&scratch[..], &mut *data) };
        for &key in from {
            let position = &mut counts[(key >> (BITS * pass as u32)) as usize % BUCKETS];
            to[*position] = key;
            *position += 1;
        }
        in_data = !in_data;
    }
    if !in_data {
        data.copy_from_slice(scratch);
    }
}
