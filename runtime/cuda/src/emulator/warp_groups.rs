//! What four warps do together with matrices in shared memory: `wgmma`, as PTX's manual has it.
//!
//! A descriptor says where a matrix begins and how far its parts of eight rows are from each other; all matrices are swizzled
//! by 128 bytes: the number of a chunk of 16 bytes is exclusively or'ed with that of its row of 128, modulo eight.

use super::matrices::{Numbers, TYPES};

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

/// A thread's part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarpGroupOperation {
    /// Descriptors of both operands in turns, then sums, in whose place the results go.
    pub words: *mut u32,
    /// Which types, and whether each operand lies across the contracted positions.
    pub code: u32,
    /// Products, one after another.
    pub parts: u32,
    /// Sums of a thread.
    pub sums: u32,
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
    let types = TYPES.get(first.code as usize >> 2).ok_or("a product of types that there is not")?;
    let across = [first.code >> 1 & 1 == 1, first.code & 1 == 1];
    let columns = first.sums as usize * 2;
    // SAFETY: the caller's promise.
    let word = |thread: usize, number: usize| unsafe { operations[thread].words.add(number) };
    for part in 0..first.parts as usize {
        let mut operands = [Vec::new(), Vec::new()];
        for (number, operand) in operands.iter_mut().enumerate() {
            let place = (part * 2 + number) * 2;
            // SAFETY: as above.
            let of = |thread: usize| unsafe { word(thread, place).cast::<u64>().read_unaligned() };
            let descriptor = of(0);
            if (0..WARP_GROUP).any(|thread| of(thread) != descriptor) {
                return Err("threads of four warps describe different matrices".into());
            }
            *operand = rows(descriptor, [ROWS, columns][number], across[number], read)?;
        }
        let numbers = |number: usize| -> Vec<Numbers> {
            operands[number].iter().map(|row| Numbers::of(words(row), types[number])).collect()
        };
        let (left, right) = (numbers(0), numbers(1));
        for (thread, _) in operations.iter().enumerate() {
            for number in 0..first.sums as usize {
                let row = thread / 32 * 16 + thread % 32 / 4 + number / 2 % 2 * 8;
                let column = number / 4 * 8 + thread % 4 * 2 + number % 2;
                let sum = word(thread, first.parts as usize * 4 + number);
                // SAFETY: as above.
                unsafe { sum.write_unaligned(left[row].product(&right[column], sum.read_unaligned())) };
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
