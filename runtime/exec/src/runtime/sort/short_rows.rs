//! The order of short rows, of which all that is wanted are the places of the first elements.

use super::keys::{KeyCoder, WordCoder};
use super::lanes::{Group, LANES, Task, Words};

/// The longest rows that are better sorted, side by side, than searched for so many elements.
fn longest(wanted: usize) -> usize {
    match wanted {
        0..2 => 16,
        2..4 => 32,
        _ => 64,
    }
}

/// Rows of consecutive elements, and room to sort some of them.
pub(in crate::runtime) struct ShortRows {
    coder: WordCoder<u64>,
    count: usize,
    length: usize,
    bytes: usize,
    words: Words,
}

impl ShortRows {
    /// Rows that are sorted at once.
    pub(in crate::runtime) const TOGETHER: usize = LANES;

    /// So many rows of a length, of elements of some bytes, if they are short for as many as are wanted of each, if there are
    /// enough of them, and if keys are of a kind that vectors have.
    pub(in crate::runtime) fn new(
        coder: KeyCoder,
        (count, length, bytes): (usize, usize, usize),
        wanted: usize,
    ) -> Option<Self> {
        let coder = WordCoder::new(coder).filter(|_| count >= LANES && (2..=longest(wanted)).contains(&length))?;
        Some(Self { coder, count, length, bytes, words: Words::default() })
    }

    /// Sorts at most [`Self::TOGETHER`] rows, from `begin` to before `end`, and calls `found` for each with the places of its
    /// elements in their order.
    ///
    /// # Safety
    /// `input` must be the address of the elements of all rows, which nobody writes; `begin` must be less than `end`.
    pub(in crate::runtime) unsafe fn each(
        &mut self,
        input: *const u8,
        (begin, end): (usize, usize),
        mut found: impl FnMut(usize, &mut dyn Iterator<Item = u32>),
    ) {
        let group = Group {
            firsts: std::array::from_fn(|lane| (begin + lane).min(end - 1) * self.length),
            count: end - begin,
            step: 1,
            length: self.length,
            total: self.count * self.length,
        };
        let task = Task { group, coder: self.coder, bytes: self.bytes, refuses_nan: false, input, output: None };
        // SAFETY: rows of the input, by the caller's promise.
        unsafe { self.words.sort(&task) };
        (begin..end).enumerate().for_each(|(lane, row)| found(row, &mut self.words.places(&task, lane)));
    }
}
