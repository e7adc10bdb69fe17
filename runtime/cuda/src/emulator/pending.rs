//! Products of four warps that nobody has waited for yet: their operands are read, and their sums come, as late as may be.
//!
//! Until then a thread has *tokens* instead of sums: numbers that are none (NaN), with the number of the product and of the sum in
//! their last bits.

use std::collections::{HashMap, VecDeque};

use super::warp_groups::{WARP_GROUP, WarpGroupOperation};

/// The bits of all tokens, and those in which they differ: of the number of the product, then of the sum.
const TOKEN: u32 = 0x7fa0_0000;
const PRODUCT_BITS: u32 = 13;
const SUM_BITS: u32 = 8;

/// A wait for products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WarpGroupWait {
    /// Sums, of which the tokens of products that have ended are replaced.
    pub words: *mut u32,
    pub sums: u32,
    /// Products that may still be pending.
    pub pending: u32,
}

/// A thread's part of a product.
struct Product {
    number: u32,
    /// Its words are the memory beside.
    operation: WarpGroupOperation,
    words: Vec<u32>,
}

impl Product {
    /// What a sum is replaced by if it is one of this product's.
    fn result(&self, word: u32) -> Option<u32> {
        let sum = (word & ((1 << SUM_BITS) - 1)) as usize;
        let is_own = word & !((1 << SUM_BITS) - 1) == token(self.number, 0);
        (is_own && sum < self.operation.sums as usize).then(|| self.words[self.operation.first_sum() + sum])
    }
}

fn token(number: u32, sum: u32) -> u32 {
    TOKEN | (number & ((1 << PRODUCT_BITS) - 1)) << SUM_BITS | sum
}

/// The pending products of the threads of a block.
#[derive(Default)]
pub(super) struct Pending {
    products: HashMap<u32, VecDeque<Product>>,
    /// Products that each thread has begun.
    begun: HashMap<u32, u32>,
}

impl Pending {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.products.clear();
        self.begun.clear();
    }

    /// Whether a thread has products that it has not waited for.
    pub fn has(&self, thread: u32) -> bool {
        self.products.get(&thread).is_some_and(|products| !products.is_empty())
    }

    /// A thread begins a product, and gets tokens for its sums.
    ///
    /// # Safety
    /// The words must be as many as the operation says.
    pub unsafe fn begin(&mut self, thread: u32, operation: WarpGroupOperation) {
        let begun = self.begun.entry(thread).or_default();
        let number = *begun;
        *begun += 1;
        let (first, sums) = (operation.first_sum(), operation.sums as usize);
        // SAFETY: the caller's promise.
        let own = unsafe { std::slice::from_raw_parts_mut(operation.words, first + sums) };
        let words = own.to_vec();
        (0..).zip(&mut own[first..]).for_each(|(sum, word)| *word = token(number, sum));
        self.products.entry(thread).or_default().push_back(Product { number, operation, words });
    }

    /// Ends the products that are no longer pending when the threads have waited whose numbers begin at one: `multiply` makes each.
    ///
    /// # Safety
    /// The words of the waits must be as many as these say.
    pub unsafe fn end(
        &mut self,
        first: u32,
        waits: &[WarpGroupWait],
        multiply: &mut dyn FnMut(&[WarpGroupOperation]) -> Result<(), String>,
    ) -> Result<(), String> {
        let threads = first..first + WARP_GROUP as u32;
        let count_of = |products: &Self, thread| products.products.get(&thread).map_or(0, VecDeque::len);
        let count = count_of(self, first);
        let is_same = waits.iter().all(|wait| wait.pending == waits[0].pending);
        if !is_same || threads.clone().any(|thread| count_of(self, thread) != count) {
            return Err("threads of four warps wait for different products".into());
        }
        for _ in waits[0].pending as usize..count {
            let next = |thread: u32| self.products.get_mut(&thread).and_then(VecDeque::pop_front);
            let mut ended: Vec<Product> = threads.clone().filter_map(next).collect();
            let operation = |own: &mut Product| WarpGroupOperation { words: own.words.as_mut_ptr(), ..own.operation };
            let operations: Vec<WarpGroupOperation> = ended.iter_mut().map(operation).collect();
            multiply(&operations)?;
            for ((thread, own), wait) in threads.clone().zip(&ended).zip(waits) {
                // SAFETY: the caller's promise.
                let waiting = unsafe { std::slice::from_raw_parts_mut(wait.words, wait.sums as usize) };
                let later = self.products.get_mut(&thread).into_iter().flatten();
                let sums = later.flat_map(|later| {
                    let first = later.operation.first_sum();
                    &mut later.words[first..]
                });
                for word in sums.chain(waiting) {
                    *word = own.result(*word).unwrap_or(*word);
                }
            }
        }
        Ok(())
    }
}
