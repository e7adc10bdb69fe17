//! What four warps do together with matrices in shared memory: `wgmma`, as PTX's manual has it.
//!
//! A descriptor says where a matrix begins and how far its parts of eight rows are from each other; all matrices are swizzled
//! by 128 bytes: the number of a chunk of 16 bytes is exclusively or'ed with that of its row of 128, modulo eight.

use super::matrices::{Element, Numbers, TYPES};

/// Threads that do it.
pub(super) const WARP_GROUP: usize = 128;

/// Rows of the left operand.
const ROWS: usize = 64;

/// Bytes of the chunks that matrices are made of, and of contracted positions.
pub(super) const CHUNK: usize = 16;
const DEPTH: usize = 2 * CHUNK;

/// Numbers in a descriptor: addresses in units of 16 bytes, of as many bits.
const ADDRESS_BITS: u64 = 14;

/// The swizzling by 128 bytes, in the descriptor's last bits.
const SWIZZLED: u64 = 1;

/// What is multiplied, and how: the last bits of a number that begins with which types.
#[derive(Clone, Copy)]
struct Code(u32);

impl Code {
    const BITS: u32 = 5;

    fn types(self) -> Option<[Element; 2]> {
        TYPES.get(self.0 as usize >> Self::BITS).copied()
    }

    /// Whether left operands are words of the threads.
    fn is_left_in_registers(self) -> bool {
        self.0 >> 4 & 1 == 1
    }

    /// Whether there are no sums before.
    fn is_first(self) -> bool {
        self.0 >> 3 & 1 == 1
    }

    /// Whether each operand lies across the contracted positions.
    fn across(self) -> [bool; 2] {
        [self.0 >> 1 & 1 == 1, self.0 & 1 == 1]
    }

    /// Words of the operands of a product.
    fn words(self) -> usize {
        if self.is_left_in_registers() { LEFT_WORDS + 2 } else { 4 }
    }
}

/// Whether sums are there only when they are waited for.
pub(super) fn is_pending(code: u32) -> bool {
    code >> 2 & 1 == 1
}

/// Words of a left operand in registers.
const LEFT_WORDS: usize = 4;

/// A thread's part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarpGroupOperation {
    /// Both operands in turns, then sums, in whose place the results go.
    pub words: *mut u32,
    /// Which types, and how operands lie.
    pub code: u32,
    /// Products, one after another.
    pub parts: u32,
    /// Sums of a thread.
    pub sums: u32,
}

impl WarpGroupOperation {
    /// Where the sums are among the words.
    pub fn first_sum(&self) -> usize {
        self.parts as usize * Code(self.code).words()
    }
}

/// A chunk of shared memory at an address of which a descriptor has the last bits.
pub(super) type ReadChunk<'r> = dyn FnMut(u64) -> [u8; CHUNK] + 'r;

/// Does what all threads have come to do.
///
/// # Safety
/// The words must be live, as many as the numbers of parts and sums say, and nobody else may use them meanwhile.
///
/// # Errors
/// For threads that come to do different things, and for descriptors of another layout.
pub(super) unsafe fn run(operations: &[WarpGroupOperation], read: &mut ReadChunk<'_>) -> Result<(), String> {
    let first = operations[0];
    let like = |own: &WarpGroupOperation| WarpGroupOperation { words: first.words, ..*own };
    if operations.iter().any(|own| like(own) != first) {
        return Err("threads of four warps do different things with matrices".into());
    }
    let code = Code(first.code);
    let types = code.types().ok_or("a product of types that there is not")?;
    let across = code.across();
    let columns = first.sums as usize * 2;
    // SAFETY: the caller's promise.
    let word = |thread: usize, number: usize| unsafe { operations[thread].words.add(number) };
    for part in 0..first.parts as usize {
        let place = part * code.words();
        let mut described = |place: usize, (count, across): (usize, bool)| {
            // SAFETY: as above.
            let of = |thread: usize| unsafe { word(thread, place).cast::<u64>().read_unaligned() };
            let descriptor = of(0);
            if (0..WARP_GROUP).any(|thread| of(thread) != descriptor) {
                return Err("threads of four warps describe different matrices".to_string());
            }
            let rows = rows(descriptor, count, across, read)?;
            Ok(rows.iter().map(|row| words(row).collect()).collect::<Vec<Vec<u32>>>())
        };
        let left = match code.is_left_in_registers() {
            // The words of a row's 32 bytes: of each half, a thread of four has one; of sixteen rows the second eight have words
            // of their own.
            true => (0..ROWS)
                .map(|row| {
                    let of = |place: usize| {
                        let thread = row / 16 * 32 + row % 8 * 4 + place % 4;
                        (thread, part * code.words() + row / 8 % 2 + place / 4 * 2)
                    };
                    // SAFETY: as above.
                    (0..8).map(of).map(|(thread, number)| unsafe { word(thread, number).read_unaligned() }).collect()
                })
                .collect(),
            false => described(place, (ROWS, across[0]))?,
        };
        let right = described(place + code.words() - 2, (columns, across[1]))?;
        let numbers = |rows: Vec<Vec<u32>>, number: usize| -> Vec<Numbers> {
            rows.into_iter().map(|row| Numbers::of(row.into_iter(), types[number])).collect()
        };
        let (left, right) = (numbers(left, 0), numbers(right, 1));
        let begins = code.is_first() && part == 0;
        for (thread, _) in operations.iter().enumerate() {
            for number in 0..first.sums as usize {
                let row = thread / 32 * 16 + thread % 32 / 4 + number / 2 % 2 * 8;
                let column = number / 4 * 8 + thread % 4 * 2 + number % 2;
                let sum = word(thread, first.first_sum() + number);
                // SAFETY: as above.
                unsafe {
                    let before = if begins { 0 } else { sum.read_unaligned() };
                    sum.write_unaligned(left[row].product(&right[column], before));
                }
            }
        }
    }
    Ok(())
}

fn words(bytes: &[u8; DEPTH]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| word.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte)))
}

/// The contracted positions of each row (or column) of a matrix.
fn rows(descriptor: u64, count: usize, across: bool, read: &mut ReadChunk<'_>) -> Result<Vec<[u8; DEPTH]>, String> {
    let field = |first: u64| (descriptor >> first & ((1 << ADDRESS_BITS) - 1)) << 4;
    let [start, leading, stride] = [field(0), field(16), field(32)];
    if descriptor >> 62 != SWIZZLED {
        return Err("a matrix that is not swizzled by 128 bytes".into());
    }
    let mut chunk = |address: u64| read(address ^ (address >> 7 & 7) << 4);
    let mut rows = vec![[0; DEPTH]; count];
    if !across {
        for (number, row) in (0..).zip(&mut rows) {
            for (part, bytes) in (0..).zip(row.chunks_exact_mut(CHUNK)) {
                bytes.copy_from_slice(&chunk(start + number / 8 * stride + number % 8 * 128 + part * CHUNK as u64));
            }
        }
        return Ok(rows);
    }
    // Elements of two bytes: 64 neighbours make a row of 128, and eight of those a part.
    for position in 0..DEPTH as u64 / 2 {
        for first in (0..count as u64).step_by(8) {
            let place = start + first / 64 * leading + position / 8 * stride + position % 8 * 128 + first % 64 * 2;
            let bytes = chunk(place);
            for (element, row) in bytes.chunks_exact(2).zip(&mut rows[first as usize..]) {
                row[position as usize * 2..][..2].copy_from_slice(element);
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix lies along the contracted positions, and its transpose across them.
    #[test]
    fn matrices_are_found_by_their_descriptors() {
        // 128 rows of 64 elements: an element has the number of its row, and of its position.
        let element = |row: u64, position: u64| [row as u8, position as u8];
        let swizzled = |address: u64| address ^ (address >> 7 & 7) << 4;
        let mut along = vec![0u8; 16 << 10];
        let mut across = vec![0u8; 16 << 10];
        for row in 0..128 {
            for position in 0..64 {
                let [a, b] = [row * 128 + position * 2, row / 64 * 8192 + position * 128 + row % 64 * 2];
                along[swizzled(a) as usize..][..2].copy_from_slice(&element(row, position));
                across[swizzled(b) as usize..][..2].copy_from_slice(&element(row, position));
            }
        }
        let kinds = [(along, false, 1 << 16, 2), (across, true, 512 << 16, 128)];
        for (memory, is_across, leading, distance) in kinds {
            for part in 0..4u64 {
                let descriptor = 1 << 62 | 64 << 32 | leading | (part * distance);
                let mut read = |address: u64| {
                    let mut chunk = [0; CHUNK];
                    chunk.copy_from_slice(&memory[address as usize..][..CHUNK]);
                    chunk
                };
                let found = rows(descriptor, 128, is_across, &mut read).unwrap();
                for (row, bytes) in (0..).zip(found) {
                    let wanted: Vec<u8> = (part * 16..part * 16 + 16).flat_map(|own| element(row, own)).collect();
                    assert_eq!(bytes[..], wanted[..]);
                }
            }
        }
        assert!(rows(0, 64, false, &mut |_| [0; CHUNK]).is_err());
    }
}
