//! Threads for outer parallel loops.
//!
//! A loop runs on the calling thread and any workers that come in time. Its chunks are as many slices as the pool has threads, of
//! which each thread takes its own first, so that in loops over the same array it comes back to what its cache holds. Then it
//! takes chunks of the others' slices, so a slow or late thread never holds the others up, and the caller only waits for
//! workers that took a chunk. Several loops run at once, of
//! several clients or one inside of another: idle workers look for those that have chunks left. Callers and workers together
//! are no more than the pool's threads, so that programs which already keep all processors busy do not wait for workers that
//! the system has put aside. Nothing is allocated per loop. Workers spin for some microseconds after a loop before they sleep,
//! so that a sequence of kernels does not pay for waking them.

use std::{
    ffi::c_void,
    hint, io,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle, Thread},
};

use crate::subnormals::FlushSubnormals;

/// A loop's body: handles the iterations `begin..end`. `data` is what the loop was started with.
pub type LoopBody = unsafe extern "C" fn(data: *mut c_void, begin: i64, end: i64);

/// How often a waiting thread looks before it sleeps: some tens of microseconds.
const SPINS: u32 = 2000;

/// Loops that workers take part in at the same time; further ones run on their own threads alone.
const MOST_JOBS: usize = 8;

// The state of a job: whether it is open to workers, and how many are in it.
const COUNT_MASK: u64 = OPEN - 1;
const OPEN: u64 = 1 << 16;

/// A fixed set of worker threads; they end when it is dropped.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    jobs: [Job; MOST_JOBS],
    /// Threads in loops, callers included.
    active: AtomicUsize,
    workers: Vec<Worker>,
    stop: AtomicBool,
}

/// A worker, as others see it.
struct Worker {
    doing: AtomicU8,
    /// Its own, once it has begun.
    thread: OnceLock<Thread>,
}

// What a worker does: it looks for work, is in a loop, or waits to be woken.
const LOOKS: u8 = 0;
const WORKS: u8 = 1;
const SLEEPS: u8 = 2;

/// A loop, or room for one. Written by its caller while no worker is in it; published by `state`. On lines of its own, as idle
/// workers read the states of all jobs.
#[repr(align(128))]
struct Job {
    is_taken: AtomicBool,
    state: AtomicU64,
    body: AtomicPtr<()>,
    data: AtomicPtr<c_void>,
    iterations: AtomicU64,
    grain: AtomicU64,
    /// The first chunk of each thread's slice that nobody has taken.
    next: Box<[NextChunk]>,
    caller: Mutex<Option<Thread>>,
    caller_sleeps: AtomicBool,
}

/// A counter on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct NextChunk(AtomicU64);

impl Job {
    /// Room for a loop on up to so many threads.
    fn of_threads(threads: usize) -> Self {
        Self {
            is_taken: AtomicBool::default(),
            state: AtomicU64::default(),
            body: AtomicPtr::default(),
            data: AtomicPtr::default(),
            iterations: AtomicU64::default(),
            grain: AtomicU64::new(1),
            next: (0..threads).map(|_| NextChunk::default()).collect(),
            caller: Mutex::default(),
            caller_sleeps: AtomicBool::default(),
        }
    }

    /// The chunk with which a thread's slice begins; that of the next thread is where it ends.
    fn first_chunk(&self, thread: usize) -> u64 {
        let chunks = self.iterations.load(Ordering::Relaxed).div_ceil(self.grain.load(Ordering::Relaxed));
        // Of any number of chunks, which may be more than would fit with the threads as a factor.
        (u128::from(chunks) * thread as u128 / self.next.len() as u128) as u64
    }

    /// Makes the job its caller's, if it is nobody's.
    fn take(&self) -> bool {
        let is_taken = &self.is_taken;
        !is_taken.load(Ordering::Relaxed)
            && is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens a job that was taken to workers.
    fn open(&self, body: LoopBody, data: *mut c_void, iterations: u64, grain: u64) {
        self.body.store(body as *mut (), Ordering::Relaxed);
        self.data.store(data, Ordering::Relaxed);
        self.iterations.store(iterations, Ordering::Relaxed);
        self.grain.store(grain, Ordering::Relaxed);
        for (thread, next) in self.next.iter().enumerate() {
            next.0.store(self.first_chunk(thread), Ordering::Relaxed);
        }
        self.state.store(OPEN, Ordering::SeqCst);
    }

    /// Whether a worker that comes now finds something to do. What it says may be of a loop that has ended since.
    fn has_chunks(&self) -> bool {
        let is_left =
            |(thread, next): (usize, &NextChunk)| next.0.load(Ordering::Relaxed) < self.first_chunk(thread + 1);
        self.state.load(Ordering::SeqCst) & OPEN != 0 && self.next.iter().enumerate().any(is_left)
    }

    /// The workers in it.
    fn workers(&self) -> u64 {
        self.state.load(Ordering::Relaxed) & COUNT_MASK
    }

    /// Counts a worker in, if the job is open.
    fn join(&self) -> bool {
        let enter = |state: u64| (state & OPEN != 0).then_some(state + 1);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).is_ok()
    }

    /// Counts a worker out; the last one wakes a caller that waits.
    fn leave(&self) {
        let left = self.state.fetch_sub(1, Ordering::SeqCst) - 1;
        if left == 0
            && self.caller_sleeps.load(Ordering::SeqCst)
            && let Some(caller) = &*self.caller.lock().unwrap_or_else(PoisonError::into_inner)
        {
            caller.unpark();
        }
    }

    /// Closes the job to workers and waits for those that are still in their chunks.
    fn close(&self) {
        let mut inside = self.state.fetch_and(!OPEN, Ordering::SeqCst) & COUNT_MASK;
        let mut spins = 0;
        while inside > 0 {
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
            } else {
                *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
                self.caller_sleeps.store(true, Ordering::SeqCst);
                if self.state.load(Ordering::SeqCst) & COUNT_MASK > 0 {
                    thread::park();
                }
                self.caller_sleeps.store(false, Ordering::SeqCst);
            }
            inside = self.state.load(Ordering::SeqCst) & COUNT_MASK;
        }
        self.is_taken.store(false, Ordering::Release);
    }

    /// Runs chunks until none is left, those of a thread's own slice first.
    ///
    /// # Safety
    /// The job must have been opened and not yet been closed with no thread in it.
    unsafe fn run_chunks(&self, thread: usize) {
        let (iterations, grain) = (self.iterations.load(Ordering::Relaxed), self.grain.load(Ordering::Relaxed));
        let data = self.data.load(Ordering::Relaxed);
        // SAFETY: only `open` writes the pointer, from a `LoopBody`.
        let body = unsafe { std::mem::transmute::<*mut (), LoopBody>(self.body.load(Ordering::Relaxed)) };
        let (others, own) = self.next.split_at(thread.min(self.next.len()));
        let slices = (thread..).zip(own).chain(others.iter().enumerate());
        for (slice, next) in slices {
            let end = self.first_chunk(slice + 1);
            loop {
                let chunk = next.0.fetch_add(1, Ordering::Relaxed);
                if chunk >= end {
                    break;
                }
                let begin = chunk * grain;
                // SAFETY: the caller of `parallel_for` answers for the body; chunks do not overlap.
                unsafe { body(data, begin as i64, begin.saturating_add(grain).min(iterations) as i64) };
            }
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
        let workers = (0..helpers).map(|_| Worker { doing: AtomicU8::new(LOOKS), thread: OnceLock::new() }).collect();
        let shared = Arc::new(Shared {
            jobs: std::array::from_fn(|_| Job::of_threads(helpers + 1)),
            active: AtomicUsize::default(),
            workers,
            stop: AtomicBool::default(),
        });
        let mut pool = Self { shared: shared.clone(), workers: Vec::with_capacity(helpers) };
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
        let shared = &*self.shared;
        let is_shared = !self.workers.is_empty() && iterations > grain;
        let Some(job) = shared.jobs.iter().filter(|_| is_shared).find(|job| job.take()) else {
            // SAFETY: the caller answers for the body.
            return unsafe { body(data, 0, iterations as i64) };
        };
        let active = shared.active.fetch_add(1, Ordering::SeqCst) + 1;
        job.open(body, data, iterations, grain);
        let others = (iterations.div_ceil(grain) - 1).min(self.threads().saturating_sub(active) as u64);
        shared.wake(others as usize);
        // SAFETY: opened, and closed below by this thread.
        unsafe { job.run_chunks(0) };
        job.close();
        let others = shared.active.fetch_sub(1, Ordering::SeqCst) - 1;
        // There is a thread more for another loop.
        if others > 0 && shared.next_job().is_some() {
            shared.wake(1);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker cannot panic: it only runs loop bodies, which do not unwind.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Wakes sleeping workers, so that up to `count` can take part, those that look for work included.
    fn wake(&self, mut count: usize) {
        for Worker { doing, thread } in &self.workers {
            if count == 0 {
                return;
            }
            let now = doing.load(Ordering::SeqCst);
            if now == SLEEPS
                && doing.compare_exchange(SLEEPS, LOOKS, Ordering::SeqCst, Ordering::SeqCst).is_ok()
                && let Some(thread) = thread.get()
            {
                thread.unpark();
            }
            count -= usize::from(now != WORKS);
        }
    }

    /// A worker's life.
    fn work(&self, index: usize) {
        let Some(Worker { doing, thread }) = self.workers.get(index) else { return };
        thread.get_or_init(thread::current);
        let mut spins = 0;
        while !self.stop.load(Ordering::SeqCst) {
            if self.help(index, doing) {
                spins = 0;
                continue;
            }
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
                continue;
            }
            doing.store(SLEEPS, Ordering::SeqCst);
            // A loop opened in between has either seen that, or is seen here; and so has one that ended.
            if self.next_job().is_none() && !self.stop.load(Ordering::SeqCst) {
                thread::park();
            }
            doing.store(LOOKS, Ordering::SeqCst);
            spins = 0;
        }
    }

    /// Takes part in a loop, if one has work for a thread more.
    fn help(&self, index: usize, doing: &AtomicU8) -> bool {
        let Some(job) = self.next_job() else { return false };
        let enter = |active: usize| (active <= self.workers.len()).then_some(active + 1);
        if self.active.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter).is_err() {
            return false;
        }
        let is_in = job.join();
        if is_in {
            doing.store(WORKS, Ordering::SeqCst);
            // Of loops that began together each counted on this worker, which is taken now.
            if self.next_job().is_some() {
                self.wake(1);
            }
            // SAFETY: this thread is counted in, so the caller waits for it.
            unsafe { job.run_chunks(index + 1) };
            doing.store(LOOKS, Ordering::SeqCst);
            job.leave();
        }
        self.active.fetch_sub(1, Ordering::SeqCst);
        is_in
    }

    /// Of the loops that have chunks left, the one with the fewest workers, if there may be one more.
    fn next_job(&self) -> Option<&Job> {
        if self.active.load(Ordering::SeqCst) > self.workers.len() {
            return None;
        }
        self.jobs.iter().filter(|job| job.has_chunks()).min_by_key(|job| job.workers())
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
                        // A loop that workers have no room for gets all of its iterations at once.
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
    fn loops_at_the_same_time_share_workers() {
        let pool = ThreadPool::new(4).unwrap();
        // Each chunk of both loops waits until all four have begun: each caller needs a worker.
        let begun = AtomicUsize::new(0);
        let both = || {
            for_each_chunk(&pool, 2, 1, |_, _| {
                begun.fetch_add(1, Ordering::SeqCst);
                let start = Instant::now();
                while begun.load(Ordering::SeqCst) < 4 {
                    assert!(start.elapsed() < Duration::from_secs(60), "no worker came");
                    thread::yield_now();
                }
            });
        };
        thread::scope(|scope| {
            scope.spawn(both);
            scope.spawn(both);
        });
    }

    #[test]
    #[ignore = "a measurement, not a check"]
    fn callers_side_by_side() {
        let pool = ThreadPool::new(2).unwrap();
        for callers in [1, 2] {
            let start = Instant::now();
            thread::scope(|scope| {
                for _ in 0..callers {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            // Work that is shared, and as much again that is not.
                            let work = |_, _| (0..20_000).for_each(|_| hint::spin_loop());
                            for_each_chunk(&pool, 4, 1, work);
                            (0..2).for_each(|_| work(0, 0));
                        }
                    });
                }
            });
            println!("{callers} callers: {:?}", start.elapsed());
        }
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
