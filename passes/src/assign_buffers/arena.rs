//! Places in the arena: one sweep over the program's positions that reuses what is dead, best fit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hlo::literal::ALIGNMENT;

/// Storage that the arena must have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Bytes; more than 0.
    pub size: usize,
    /// First position at which the storage is written.
    pub start: u32,
    /// Last position at which it is read.
    pub end: u32,
}

/// Offset of each demand, and the size of the arena.
pub(super) fn place(demands: &[Demand]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|&number| (demands[number].start, Reverse(demands[number].size)));
    let mut offsets = vec![0; demands.len()];
    let mut free = FreeBlocks::default();
    let mut active: BTreeSet<(u32, usize, usize)> = BTreeSet::new();
    for number in order {
        let Demand { size, start, end } = demands[number];
        while let Some(&(end, offset, size)) = active.first().filter(|(end, ..)| *end < start) {
            active.remove(&(end, offset, size));
            free.release(offset, size);
        }
        let size = size.next_multiple_of(ALIGNMENT);
        offsets[number] = free.take(size);
        active.insert((end, offsets[number], size));
    }
    (offsets, free.end)
}

/// Free parts of the arena.
#[derive(Default)]
struct FreeBlocks {
    /// Sizes by offset.
    blocks: BTreeMap<usize, usize>,
    /// The same as (size, offset).
    by_size: BTreeSet<(usize, usize)>,
    end: usize,
}

impl FreeBlocks {
    /// The smallest free block that fits, or new space at the end.
    fn take(&mut self, size: usize) -> usize {
        if let Some(&(free, offset)) = self.by_size.range((size, 0)..).next() {
            self.remove(offset, free);
            if free > size {
                self.insert(offset + size, free - size);
            }
            return offset;
        }
        // A free block at the end is grown rather than left behind.
        let offset = match self.blocks.last_key_value() {
            Some((&offset, &free)) if offset + free == self.end => {
                self.remove(offset, free);
                offset
            }
            _ => self.end,
        };
        self.end = offset + size;
        offset
    }

    fn release(&mut self, mut offset: usize, mut size: usize) {
        if let Some((&before, &free)) = self.blocks.range(..offset).next_back()
            && before + free == offset
        {
            self.remove(before, free);
            offset = before;
            size += free;
        }
        if let Some(&free) = self.blocks.get(&(offset + size)) {
            self.remove(offset + size, free);
            size += free;
        }
        self.insert(offset, size);
    }

    fn insert(&mut self, offset: usize, size: usize) {
        self.blocks.insert(offset, size);
        self.by_size.insert((size, offset));
    }

    fn remove(&mut self, offset: usize, size: usize) {
        self.blocks.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}
