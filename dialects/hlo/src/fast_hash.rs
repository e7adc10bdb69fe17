//! Hashing of short keys that no input chooses: addresses, numbers, names of operations.
//!
//! Sip hashes, the standard library's, withstand keys that are chosen to collide, and cost more than the look-up. Names
//! of instructions keep them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Map with such keys.
pub type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// Set of such keys.
pub type FastSet<K> = HashSet<K, BuildHasherDefault<FastHasher>>;

/// Odd, with about as many bits set as not: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Adds a word and multiplies, for each word.
#[derive(Clone, Copy, Debug, Default)]
pub struct FastHasher(u64);

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.write_u64(word);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = self.0.rotate_left(5).wrapping_add(value).wrapping_mul(FACTOR);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        // Tables look at the lowest and the highest bits; a product's lowest ones depend on those of its factors alone.
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use super::{FastHasher, FastMap};
    use crate::op_kind::OpKind;

    #[test]
    fn keys_that_are_alike_have_different_hashes() {
        let hash = |value: usize| {
            let mut hasher = FastHasher::default();
            hasher.write_usize(value);
            hasher.finish()
        };
        // Addresses are multiples of 16: their slots in a table of 1024 should be about as many as by chance.
        let mut slots: Vec<u64> = (0..1024).map(|number| hash(0x7f00_0000_0000 + 16 * number) % 1024).collect();
        slots.sort_unstable();
        slots.dedup();
        assert!(slots.len() > 500, "{}", slots.len());
        let kinds: FastMap<&str, OpKind> = OpKind::ALL.iter().map(|&kind| (kind.mlir_name(), kind)).collect();
        assert_eq!(kinds.len(), OpKind::ALL.len());
    }
}
