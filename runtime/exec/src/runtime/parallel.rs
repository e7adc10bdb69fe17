//! Outer parallel loops of compiled code.

use super::{RunContext, context::context_at};
use crate::thread_pool::{LoopBody, for_each_chunk};
use std::ffi::c_void;

/// Runs `body(data, begin, end)` for disjoint chunks that make up `0..iterations`, each of `grain` iterations (the last may
/// be shorter), on the threads of `context`; returns when all are done. Loops of at most one chunk run straight through,
/// as does everything without a context or threads.
///
/// # Safety
/// `context` must be null or live; `body` must be sound to call with `data` on several threads at the same time, for
/// disjoint chunks, and must not unwind.
pub unsafe extern "C" fn halo_parallel_for(
    context: *const RunContext,
    body: LoopBody,
    data: *mut c_void,
    iterations: i64,
    grain: i64,
) {
    let Ok(count @ 1..) = u64::try_from(iterations) else { return };
    // SAFETY: the caller's promise.
    let context = unsafe { context_at(context) };
    match context.and_then(RunContext::threads) {
        // SAFETY: the caller answers for the body.
        Some(threads) if iterations > grain => unsafe {
            threads.parallel_for(body, data, count, grain.max(1) as u64);
        },
        // SAFETY: as above.
        _ => unsafe { body(data, 0, iterations) },
    }
}

/// Bytes that a thread copies at once: no more than a part of its caches, which are then not all written before the other threads
/// begin.
const BYTES_OF_CHUNK: usize = 1 << 18;

/// Copies `bytes` bytes on the threads of `context`, or here without any.
///
/// # Safety
/// `context` must be null or live; so many bytes must be readable at `from` and writable at `to`, and they must not overlap.
pub unsafe extern "C" fn halo_copy(context: *const RunContext, from: *const u8, to: *mut u8, bytes: i64) {
    let Ok(bytes) = usize::try_from(bytes) else { return };
    // SAFETY: the caller's promise.
    let context = unsafe { context_at(context) };
    let copy = Copy { from, to };
    match context.and_then(RunContext::threads) {
        Some(threads) => {
            let chunks = bytes.div_ceil(BYTES_OF_CHUNK);
            for_each_chunk(threads, chunks, 1, |begin, end| {
                let [begin, end] = [begin, end].map(|chunk| (chunk * BYTES_OF_CHUNK).min(bytes));
                // SAFETY: within what the caller promised; chunks do not overlap.
                unsafe { copy.range(begin, end) };
            });
        }
        // SAFETY: the caller's promise.
        None => unsafe { copy.range(0, bytes) },
    }
}

/// Where bytes are copied from and to.
struct Copy {
    from: *const u8,
    to: *mut u8,
}

// SAFETY: threads copy bytes of their own.
unsafe impl Sync for Copy {}

impl Copy {
    /// Copies the bytes from one distance to another.
    ///
    /// # Safety
    /// They must be readable and writable, and not overlap.
    unsafe fn range(&self, begin: usize, end: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.from.add(begin), self.to.add(begin), end - begin) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPool;
    use std::sync::atomic::{AtomicI64, Ordering};

    unsafe extern "C" fn add(data: *mut c_void, begin: i64, end: i64) {
        // SAFETY: the test passes the address of an atomic.
        let sum = unsafe { &*data.cast::<AtomicI64>() };
        sum.fetch_add((begin..end).sum(), Ordering::Relaxed);
    }

    fn sum(context: *const RunContext, iterations: i64, grain: i64) -> i64 {
        let sum = AtomicI64::new(0);
        let data = (&raw const sum).cast_mut().cast();
        // SAFETY: `add` only adds to the atomic.
        unsafe { halo_parallel_for(context, add, data, iterations, grain) };
        sum.load(Ordering::Relaxed)
    }

    #[test]
    fn loops_of_any_size_with_and_without_threads() {
        let threads = ThreadPool::new(3).unwrap();
        let parallel = RunContext::new(Some(&threads));
        let serial = RunContext::new(None);
        for context in [&raw const parallel, &raw const serial, std::ptr::null()] {
            for (iterations, grain) in [(0, 1), (-3, 1), (1, 1), (100, 7), (100, 0), (100, -1), (5, i64::MAX)] {
                let expected: i64 = (0..iterations.max(0)).sum();
                assert_eq!(sum(context, iterations, grain), expected, "{iterations} {grain}");
            }
        }
    }
}
