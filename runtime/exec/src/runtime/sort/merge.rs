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

/// Merges two sorted sequences; of items neither of which is less, the left ones come first.
pub(super) fn merge<T: Copy>(left: &[T], right: &[T], to: &mut [T], less: &mut impl FnMut(&T, &T) -> bool) {
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

/// Runs `body` on every item, on the threads of a pool.
pub(super) fn on_each<W: Send>(threads: &ThreadPool, work: Vec<W>, body: impl Fn(W) + Sync) {
    let slots: Vec<Mutex<Option<W>>> = work.into_iter().map(|item| Mutex::new(Some(item))).collect();
    for_each_chunk(threads, slots.len(), 1, |begin, end| {
        for slot in &slots[begin..end] {
            if let Some(item) = slot.lock().ok().and_then(|mut slot| slot.take()) {
                body(item);
            }
        }
    });
}
