//! Threads for outer parallel loops.
//!
//! One loop runs at a time, on the calling thread and any workers that come in time: chunks are taken from a counter, so
//! a slow or late thread never holds the others up, and the caller only waits for workers that took a chunk. Nothing is
//! allocated per loop. Workers spin for some microseconds after a loop before they sleep, so that a sequence of kernels
//! does not pay for waking them. A loop started while another runs (from inside it, or by another client) runs on its own
//! thread alone.

use std::{
    ffi::c_void,
    hint, io,
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle, Thread},
};

use crate::subnormals::FlushSubnormals;

/// A loop's body: handles the iterations `begin..end`. `data` is what the loop was started with.
pub type LoopBody = unsafe extern "C" fn(data: *mut c_void, begin: i64, end: i64);

/// How often a waiting thread looks before it sleeps: some tens of microseconds.
const SPINS: u32 = 2000;

// The state word: how many loops have been opened, whether the last is still open to workers, and how many are in it.
const COUNT_MASK: u64 = (1 << 16) - 1;
const OPEN: u64 = 1 << 16;
const EPOCH_SHIFT: u32 = 17;

/// A fixed set of worker threads; they end when it is dropped.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    // Held while a loop runs.
    busy: Mutex<()>,
}

#[derive(Default)]
struct Shared {
    state: AtomicU64,
    job: Job,
    sleeping: Vec<AtomicBool>,
    caller_sleeps: AtomicBool,
    stop: AtomicBool,
}

/// The loop that runs. Written by its caller while no worker is in it; published by `state`.
#[derive(Default)]
struct Job {
    body: AtomicPtr<()>,
    data: AtomicPtr<c_void>,
    iterations: AtomicU64,
    grain: AtomicU64,
    next: AtomicU64,
    caller: Mutex<Option<Thread>>,
}

impl Job {
    /// Runs chunks until none is left.
    ///
    /// # Safety
    /// The job must have been published and not yet been closed with no thread in it.
    unsafe fn run_chunks(&self) {
        let (iterations, grain) = (self.iterations.load(Ordering::Relaxed), self.grain.load(Ordering::Relaxed));
        let data = self.data.load(Ordering::Relaxed);
        // SAFETY: only `parallel_for` writes the pointer, from a `LoopBody`.
        let body = unsafe { std::mem::transmute::<*mut (), LoopBody>(self.body.load(Ordering::Relaxed)) };
        loop {
            let begin = self.next.fetch_add(grain, Ordering::Relaxed);
            if begin >= iterations {
                return;
            }
            // SAFETY: the caller of `parallel_for` answers for the body; chunks do not overlap.
            unsafe { body(data, begin as i64, (begin + grain).min(iterations) as i64) };
        }
    }
}

impl ThreadPool {
    /// A pool for loops on up to `threads` threads, the calling one included; 0 for as many as the machine runs at once.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(threads: usize) -> io::Result<Self> {
        Self::with_subnormals(threads, true)
    }

    /// As [`Self::new`]. Unless threads keep subnormal numbers, they take them for zero; the calling one does what it did before.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn with_subnormals(threads: usize, keep: bool) -> io::Result<Self> {
        let threads = match threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let helpers = (threads - 1).min(COUNT_MASK as usize);
        let shared =
            Arc::new(Shared { sleeping: (0..helpers).map(|_| AtomicBool::new(false)).collect(), ..Shared::default() });
        let mut pool = Self { shared: shared.clone(), workers: Vec::with_capacity(helpers), busy: Mutex::new(()) };
        for index in 0..helpers {
            let shared = shared.clone();
            let worker = thread::Builder::new().name(format!("halo-{}", index + 1));
            let work = move || {
                let _flush = (!keep).then(FlushSubnormals::begin);
                shared.work(index);
            };
            pool.workers.push(worker.spawn(work)?);
        }
        Ok(pool)
    }

    /// Threads that a loop may run on.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `body` for all of `0..iterations` in chunks of `grain` (the last may be shorter) and returns when all are
    /// done. Chunks run in any order on any thread.
    ///
    /// # Safety
    /// `body` must be sound to call with `data` for disjoint chunks at the same time, and must not unwind.
    pub unsafe fn parallel_for(&self, body: LoopBody, data: *mut c_void, iterations: u64, grain: u64) {
        let grain = grain.max(1);
        if iterations == 0 {
            return;
        }
        let guard = match self.busy.try_lock() {
            Ok(guard) if !self.workers.is_empty() && iterations > grain => guard,
            Err(TryLockError::Poisoned(poisoned)) if !self.workers.is_empty() && iterations > grain => {
                poisoned.into_inner()
            }
            _ => {
                // SAFETY: the caller answers for the body.
                return unsafe { body(data, 0, iterations as i64) };
            }
        };
        let (shared, job) = (&*self.shared, &self.shared.job);
        job.body.store(body as *mut (), Ordering::Relaxed);
        job.data.store(data, Ordering::Relaxed);
        job.iterations.store(iterations, Ordering::Relaxed);
        job.grain.store(grain, Ordering::Relaxed);
        job.next.store(0, Ordering::Relaxed);
        let epoch = (shared.state.load(Ordering::Relaxed) >> EPOCH_SHIFT) + 1;
        shared.state.store(epoch << EPOCH_SHIFT | OPEN, Ordering::SeqCst);
        let helpers = (iterations.div_ceil(grain) - 1).min(self.workers.len() as u64) as usize;
        self.wake(helpers);
        // SAFETY: published, and closed below by this thread.
        unsafe { job.run_chunks() };
        // All chunks are taken; wait for the workers that are still in theirs.
        let mut inside = shared.state.fetch_and(!OPEN, Ordering::SeqCst) & COUNT_MASK;
        let mut spins = 0;
        while inside > 0 {
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
            } else {
                *job.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
                shared.caller_sleeps.store(true, Ordering::SeqCst);
                if shared.state.load(Ordering::SeqCst) & COUNT_MASK > 0 {
                    thread::park();
                }
                shared.caller_sleeps.store(false, Ordering::SeqCst);
            }
            inside = shared.state.load(Ordering::SeqCst) & COUNT_MASK;
        }
        drop(guard);
    }

    /// Wakes sleeping workers, so that up to `count` can take part.
    fn wake(&self, count: usize) {
        for (sleeping, worker) in self.shared.sleeping.iter().zip(&self.workers).take(count) {
            if sleeping.swap(false, Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake(self.workers.len());
        for worker in self.workers.drain(..) {
            // A worker cannot panic: it only runs loop bodies, which do not unwind.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// A worker's life.
    fn work(&self, index: usize) {
        let mut last = 0;
        let mut spins = 0;
        while !self.stop.load(Ordering::SeqCst) {
            let state = self.state.load(Ordering::SeqCst);
            let epoch = state >> EPOCH_SHIFT;
            if state & OPEN != 0 && epoch != last {
                if self.state.compare_exchange(state, state + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    last = epoch;
                    spins = 0;
                    // SAFETY: this thread is counted in, so the caller waits for it.
                    unsafe { self.job.run_chunks() };
                    let left = self.state.fetch_sub(1, Ordering::SeqCst) - 1;
                    if left & (OPEN | COUNT_MASK) == 0 && self.caller_sleeps.load(Ordering::SeqCst) {
                        self.wake_caller();
                    }
                }
                continue;
            }
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
                continue;
            }
            let Some(sleeping) = self.sleeping.get(index) else { return };
            sleeping.store(true, Ordering::SeqCst);
            // A loop opened in between has either seen the flag, or is seen here.
            let state = self.state.load(Ordering::SeqCst);
            let idle = state & OPEN == 0 || state >> EPOCH_SHIFT == last;
            if idle && !self.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            sleeping.store(false, Ordering::SeqCst);
            spins = 0;
        }
    }

    fn wake_caller(&self) {
        if let Some(caller) = &*self.job.caller.lock().unwrap_or_else(PoisonError::into_inner) {
            caller.unpark();
        }
    }
}

/// [`ThreadPool::parallel_for`] for Rust closures.
pub fn for_each_chunk<F: Fn(usize, usize) + Sync>(pool: &ThreadPool, iterations: usize, grain: usize, body: F) {
    unsafe extern "C" fn call<F: Fn(usize, usize) + Sync>(data: *mut c_void, begin: i64, end: i64) {
        // SAFETY: `data` is the closure below, which outlives the loop.
        let body = unsafe { &*data.cast::<F>() };
        body(begin as usize, end as usize);
    }
    let data: *const F = &body;
    // SAFETY: the closure is `Sync`; a panic in it ends the process at the `extern "C"` boundary.
    unsafe { pool.parallel_for(call::<F>, data.cast_mut().cast(), iterations as u64, grain as u64) }
}

/// A grain for iterations of `cost` nanoseconds each: chunks of some tens of microseconds, against which starting a loop
/// does not count.
pub fn grain_for_cost(cost: u64) -> u64 {
    const CHUNK_NANOSECONDS: u64 = 20_000;
    (CHUNK_NANOSECONDS / cost.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::AtomicUsize,
        time::{Duration, Instant},
    };

    fn check(pool: &ThreadPool, iterations: usize, grain: usize) {
        let seen: Vec<AtomicUsize> = (0..iterations).map(|_| AtomicUsize::new(0)).collect();
        for_each_chunk(pool, iterations, grain, |begin, end| {
            for count in &seen[begin..end] {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{iterations} {grain}");
    }

    #[test]
    fn every_iteration_runs_once() {
        for threads in [1, 2, 5] {
            let pool = ThreadPool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads);
            for (iterations, grain) in [(0, 1), (1, 1), (7, 3), (7, 0), (100, 100), (1000, 1), (1000, 333)] {
                check(&pool, iterations, grain);
            }
        }
    }

    #[test]
    fn many_short_loops_with_pauses() {
        let pool = ThreadPool::new(3).unwrap();
        for round in 0..2000 {
            check(&pool, 16, 1);
            if round % 500 == 0 {
                thread::sleep(Duration::from_millis(3));
            }
        }
    }

    #[test]
    fn slow_chunks_are_waited_for() {
        let pool = ThreadPool::new(2).unwrap();
        let done = AtomicUsize::new(0);
        for_each_chunk(&pool, 4, 1, |_, _| {
            thread::sleep(Duration::from_millis(5));
            done.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(done.load(Ordering::SeqCst), 4);
    }

    #[test]
    fn nested_and_concurrent_loops_finish() {
        let pool = ThreadPool::new(3).unwrap();
        let count = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        // A loop that another is in the way of gets all of its iterations at once.
                        for_each_chunk(&pool, 8, 1, |begin, end| {
                            for _ in begin..end {
                                for_each_chunk(&pool, 8, 1, |begin, end| {
                                    count.fetch_add(end - begin, Ordering::Relaxed);
                                });
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 3 * 50 * 64);
    }

    #[test]
    #[ignore = "a measurement, not a check"]
    fn latency() {
        let pool = ThreadPool::new(2).unwrap();
        for pause in [0, 100] {
            let mut times = Vec::new();
            for _ in 0..1000 {
                let start = Instant::now();
                for_each_chunk(&pool, 4, 1, |_, _| hint::spin_loop());
                times.push(start.elapsed());
                thread::sleep(Duration::from_micros(pause));
            }
            times.sort();
            println!("pause {pause} us: median {:?}, 99 % {:?}", times[500], times[990]);
        }
    }
}
