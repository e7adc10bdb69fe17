//! The order of threads: without pattern, another behind each barrier, the same whenever the seed is. What depends on it in a kernel is
//! then seen sooner or later.

use std::sync::LazyLock;

use fastrand::Rng;

/// `HALO_EMULATOR_SEED`, or 0.
pub(super) fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let given = std::env::var("HALO_EMULATOR_SEED");
        given.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    });
    *SEED
}

/// An order of the threads of a block.
pub(super) struct ThreadOrder {
    threads: Vec<usize>,
    numbers: Rng,
}

impl ThreadOrder {
    pub fn new(threads: usize, seed: u64) -> Self {
        let mut order = ThreadOrder { threads: (0..threads).collect(), numbers: Rng::with_seed(seed) };
        order.change();
        order
    }

    pub fn threads(&self) -> &[usize] {
        &self.threads
    }

    /// Makes it another one.
    pub fn change(&mut self) {
        self.numbers.shuffle(&mut self.threads);
    }
}

/// All numbers below `count`, each once, far from each other: for more than one would keep in memory.
pub(super) fn shuffled(count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let count = u128::from(count.max(1));
    let divisor = |mut a: u128, mut b: u128| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut numbers = Rng::with_seed(seed);
    // About the golden ratio, and prime to the count.
    let mut step = (count * (610 + numbers.u128(..16)) / 1000).max(1);
    while divisor(step, count) != 1 {
        step += 1;
    }
    let first = numbers.u128(..count);
    (0..count).map(move |number| ((number * step + first) % count) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_once() {
        for (count, seed) in [1, 2, 3, 7, 256, 1000].into_iter().zip(0..) {
            let mut numbers: Vec<u64> = shuffled(count, seed).collect();
            assert!(count < 7 || !numbers.is_sorted());
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
            let mut order = ThreadOrder::new(count as usize, seed);
            let before = order.threads().to_vec();
            order.change();
            assert!(count < 7 || order.threads() != before);
            let mut threads = order.threads().to_vec();
            threads.sort_unstable();
            assert_eq!(threads, (0..count as usize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_order_is_that_of_its_seed() {
        let order = |seed| ThreadOrder::new(64, seed).threads().to_vec();
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
