//! Copies into shared memory behind a thread's back (`cp.async`): they come as late as they may, when the thread waits.

use std::collections::{HashMap, VecDeque};

/// The most bytes that a copy fills.
const MOST_BYTES: usize = 16;

/// A copy of some bytes, behind which zeros are until it has filled its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub to: u64,
    pub from: u64,
    pub bytes: u32,
    /// Bytes of the place.
    pub filled: u64,
}

impl Copy {
    /// Copies.
    ///
    /// # Safety
    /// Both places must be live memory.
    pub unsafe fn run(self) {
        let mut chunk = [0u8; MOST_BYTES];
        let filled = (self.filled as usize).min(MOST_BYTES);
        let bytes = &mut chunk[..(self.bytes as usize).min(filled)];
        // SAFETY: the caller's promise.
        unsafe {
            if !bytes.is_empty() {
                std::ptr::copy_nonoverlapping(self.from as *const u8, bytes.as_mut_ptr(), bytes.len());
            }
            std::ptr::copy_nonoverlapping(chunk.as_ptr(), self.to as *mut u8, filled);
        }
    }
}

/// What the threads of a block have under way.
#[derive(Default)]
pub(super) struct Copies {
    threads: HashMap<u32, ThreadCopies>,
}

#[derive(Default)]
struct ThreadCopies {
    /// Those of no group yet.
    open: Vec<Copy>,
    /// The groups, the first begun first.
    groups: VecDeque<Vec<Copy>>,
}

impl Copies {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.threads.clear();
    }

    /// A thread begins a copy.
    pub fn begin(&mut self, thread: u32, copy: Copy) {
        self.threads.entry(thread).or_default().open.push(copy);
    }

    /// What a thread has begun since its last group is a group.
    pub fn commit(&mut self, thread: u32) {
        let own = self.threads.entry(thread).or_default();
        own.groups.push_back(std::mem::take(&mut own.open));
    }

    /// The copies that must come so that a thread has no more than so many groups under way.
    pub fn wait(&mut self, thread: u32, pending: usize) -> Vec<Copy> {
        let own = self.threads.entry(thread).or_default();
        let ended = own.groups.len().saturating_sub(pending);
        own.groups.drain(..ended).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_in_order() {
        let mut copies = Copies::default();
        let copy = |to| Copy { to, from: 0, bytes: 0, filled: 16 };
        for to in [1, 2, 3] {
            copies.begin(7, copy(to));
            copies.commit(7);
        }
        copies.begin(7, copy(4));
        assert_eq!(copies.wait(8, 0), []);
        assert_eq!(copies.wait(7, 2), [copy(1)]);
        assert_eq!(copies.wait(7, 0), [copy(2), copy(3)]);
        copies.commit(7);
        assert_eq!(copies.wait(7, 0), [copy(4)]);
    }

    #[test]
    fn what_is_not_copied_is_zero() {
        let (from, mut to) = ([1u8; 16], [9u8; 16]);
        let copy = Copy { to: to.as_mut_ptr() as u64, from: from.as_ptr() as u64, bytes: 8, filled: 16 };
        // SAFETY: both are live.
        unsafe { copy.run() };
        assert_eq!(to, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn words_are_copied_alone() {
        let (from, mut to) = ([1u8; 16], [9u8; 16]);
        let copy = Copy { to: to.as_mut_ptr() as u64, from: from.as_ptr() as u64, bytes: 4, filled: 4 };
        // SAFETY: both are live.
        unsafe { copy.run() };
        assert_eq!(to, [1, 1, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    }
}
