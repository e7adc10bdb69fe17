//! What the machine can do at most, measured: how fast it copies memory, and how fast it multiplies and adds elements of each kind.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};

use crate::arithmetic::Arithmetic;
use crate::product_instructions::ProductInstruction;

/// The limits of so many threads, each measured when it is asked for first, and again in each further spell.
pub struct MachineLimits {
    threads: usize,
    spell: u32,
    rates: HashMap<Limit, Rate>,
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Limit {
    /// Copying so many bytes again and again.
    Copies(usize),
    Arithmetic(Arithmetic),
}

/// The best rate so far, and the spell that it was measured in last.
#[derive(Clone, Copy)]
struct Rate {
    best: f64,
    spell: u32,
}

/// Measured are so many times of such a length, of which the best counts: the others met something else that ran.
const TIMES: usize = 4;
const TIME: Duration = Duration::from_millis(3);

impl MachineLimits {
    /// The limits of so many threads.
    pub fn new(threads: usize) -> Self {
        MachineLimits { threads: threads.max(1), spell: 0, rates: HashMap::new() }
    }

    /// Begins another spell: what is asked for from now on is measured again, since the machine may have been slow before.
    pub fn begin_spell(&mut self) {
        self.spell += 1;
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
        self.rate(Limit::Copies(size), || best_rate(threads, || copies(size / threads)))
    }

    /// Arithmetic operations a second: multiplications and additions, by instructions that do both at once. Elements narrower
    /// than `f32` that are no products are as many more as fit into a vector.
    pub fn arithmetic_rate(&mut self, kind: Arithmetic) -> f64 {
        let single = Arithmetic::Lanes(32);
        let limit = Limit::Arithmetic(kind);
        let threads = self.threads;
        match (kind, ProductInstruction::find(kind)) {
            (_, Some(products)) => self.rate(limit, || best_rate(threads, || move || products.run())),
            (Arithmetic::Lanes(32), _) => {
                self.rate(limit, || best_rate(threads, || || Arch::new().dispatch(MultiplyAdds)))
            }
            (Arithmetic::Lanes(64), _) => {
                self.rate(limit, || best_rate(threads, || || Arch::new().dispatch(MultiplyAddsOfDoubles)))
            }
            (Arithmetic::Lanes(bits), _) => self.arithmetic_rate(single) * 32.0 / f64::from(bits),
            // Products without instructions of their own are those of wider elements.
            _ => self.arithmetic_rate(single),
        }
    }

    fn rate(&mut self, limit: Limit, measure: impl FnOnce() -> f64) -> f64 {
        let known = self.rates.get(&limit).copied();
        if let Some(known) = known.filter(|known| known.spell == self.spell) {
            return known.best;
        }
        let best = measure().max(known.map_or(0.0, |known| known.best));
        self.rates.insert(limit, Rate { best, spell: self.spell });
        best
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

/// Some thousand fused multiplications and additions of a type in vectors that do not wait for each other.
macro_rules! multiply_adds {
    ($name:ident, $lanes:ident, $splat:ident, $multiply_add:ident) => {
        struct $name;

        impl WithSimd for $name {
            type Output = u64;

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) -> u64 {
                /// As many as two units of a latency of four need, and as fit the registers of every processor.
                const CHAINS: usize = 12;
                const REPEATS: usize = 1 << 12;
                let factor = simd.$splat(black_box(0.75));
                let mut sums = [simd.$splat(black_box(1.0)); CHAINS];
                for _ in 0..REPEATS {
                    for sum in &mut sums {
                        *sum = simd.$multiply_add(*sum, factor, factor);
                    }
                }
                black_box(sums);
                (2 * S::$lanes * CHAINS * REPEATS) as u64
            }
        }
    };
}

multiply_adds!(MultiplyAdds, F32_LANES, splat_f32s, mul_add_e_f32s);
multiply_adds!(MultiplyAddsOfDoubles, F64_LANES, splat_f64s, mul_add_e_f64s);

/// Units of work a second by threads that work at the same time. Work says how many units it did.
fn best_rate<W: FnMut() -> u64>(threads: usize, new_work: impl Fn() -> W + Sync) -> f64 {
    let rates: [AtomicU64; TIMES] = Default::default();
    let barrier = Barrier::new(threads);
    let measure = || {
        let mut work = new_work();
        work();
        for rate in &rates {
            barrier.wait();
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed() < TIME {
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
    use super::*;

    #[test]
    fn every_limit_is_a_rate() {
        let mut limits = MachineLimits::new(2);
        assert!(limits.copy_rate(0) > 1e8);
        assert!(limits.copy_rate(1 << 22) > 1e8);
        let lanes = [8, 16, 32, 64].map(Arithmetic::Lanes);
        let products = [Arithmetic::BrainProducts, Arithmetic::HalfProducts, Arithmetic::IntegerProducts];
        for kind in lanes.into_iter().chain(products) {
            assert!(limits.arithmetic_rate(kind) > 1e8, "{kind:?}");
        }
        let before = limits.copy_rate(0);
        limits.begin_spell();
        assert!(limits.copy_rate(0) >= before);
    }
}
