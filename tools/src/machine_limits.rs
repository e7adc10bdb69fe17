//! What the machine can do at most, measured: how fast it copies memory, and how fast it multiplies and adds.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};

/// The limits of so many threads, each measured when it is asked for first.
pub struct MachineLimits {
    threads: usize,
    copy_rates: HashMap<usize, f64>,
    arithmetic_rate: Option<f64>,
}

/// Measured are so many spells, of which the best counts: the others met something else that ran.
const SPELLS: usize = 4;
const SPELL: Duration = Duration::from_millis(3);

impl MachineLimits {
    /// The limits of so many threads.
    pub fn new(threads: usize) -> Self {
        MachineLimits { threads: threads.max(1), copy_rates: HashMap::new(), arithmetic_rate: None }
    }

    /// Bytes that can be moved a second, read and written together, where this many are in use again and again: about the
    /// rate of the cache, or of the memory, that holds them.
    pub fn copy_rate(&mut self, bytes: u64) -> f64 {
        const LEAST: usize = 1 << 14;
        const MOST: usize = 1 << 28;
        // One measurement serves for all sizes up to twice as large.
        let size = usize::try_from(bytes).unwrap_or(MOST).clamp(LEAST, MOST);
        let size = 1 << size.ilog2();
        let threads = self.threads;
        *self.copy_rates.entry(size).or_insert_with(|| best_rate(threads, || copies(size / threads)))
    }

    /// Multiplications and additions of `f32` a second, by fused instructions of the widest vectors.
    pub fn arithmetic_rate(&mut self) -> f64 {
        let threads = self.threads;
        *self.arithmetic_rate.get_or_insert_with(|| best_rate(threads, || || Arch::new().dispatch(MultiplyAdds)))
    }
}

/// Work that copies one half of so many bytes into the other.
fn copies(bytes: usize) -> impl FnMut() -> u64 {
    const AT_LEAST: usize = 1 << 18;
    let half = (bytes / 2).max(1);
    let (source, mut target) = (vec![1_u8; half], vec![2_u8; half]);
    let repeats = AT_LEAST.div_ceil(half);
    move || {
        for _ in 0..repeats {
            target.copy_from_slice(black_box(&source));
            black_box(&mut target);
        }
        (2 * half * repeats) as u64
    }
}

/// Some thousand fused multiplications and additions in vectors that do not wait for each other.
struct MultiplyAdds;

impl WithSimd for MultiplyAdds {
    type Output = u64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> u64 {
        /// As many as two units of a latency of four need, and as fit the registers of every processor.
        const CHAINS: usize = 12;
        const REPEATS: usize = 1 << 12;
        let factor = simd.splat_f32s(black_box(0.75));
        let mut sums = [simd.splat_f32s(black_box(1.0)); CHAINS];
        for _ in 0..REPEATS {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f32s(*sum, factor, factor);
            }
        }
        black_box(sums);
        (2 * S::F32_LANES * CHAINS * REPEATS) as u64
    }
}

/// Units of work a second by threads that work at the same time. Work says how many units it did.
fn best_rate<W: FnMut() -> u64>(threads: usize, new_work: impl Fn() -> W + Sync) -> f64 {
    let rates: [AtomicU64; SPELLS] = Default::default();
    let barrier = Barrier::new(threads);
    let measure = || {
        let mut work = new_work();
        work();
        for rate in &rates {
            barrier.wait();
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed() < SPELL {
                done += work();
            }
            rate.fetch_add((done as f64 / start.elapsed().as_secs_f64()) as u64, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(measure);
        }
        measure();
    });
    rates.into_iter().map(AtomicU64::into_inner).max().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::MachineLimits;

    #[test]
    fn every_limit_is_a_rate() {
        let mut limits = MachineLimits::new(2);
        assert!(limits.copy_rate(0) > 1e8);
        assert!(limits.copy_rate(1 << 22) > 1e8);
        assert!(limits.arithmetic_rate() > 1e8);
    }
}
