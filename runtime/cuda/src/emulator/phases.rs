//! Barriers in shared memory whose phases end when all have arrived and all bytes have come (`mbarrier`), and the boxes of arrays
//! that a unit copies there by itself (`cp.async.bulk.tensor`): they come as late as they may, when a thread waits for the phase.

use std::collections::HashMap;

use hlo::launch_plan::Boxes;

/// Bytes of a row of a box, in which the number of a chunk is exclusively or'ed with that of the row, modulo eight.
const ROW: u64 = 128;
pub(super) const CHUNK: u64 = 16;

/// Where boxes begin at multiples of, so that their rows are swizzled as everybody believes.
pub(super) const BOX_ALIGNMENT: u64 = 1024;

/// A box on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BoxCopy {
    /// Where it goes in shared memory.
    pub to: u64,
    /// The array's address, and how boxes of it are.
    pub from: u64,
    pub boxes: Boxes,
    /// Its first element.
    pub first: [i32; 3],
    /// Who asked for it.
    pub thread: u32,
}

/// A chunk of a box: where it goes, where it comes from and how many bytes there are, behind which zeros are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BoxChunk {
    pub to: u64,
    pub from: u64,
    pub bytes: u64,
}

impl BoxCopy {
    /// Bytes of the box.
    pub fn bytes(&self) -> u64 {
        self.boxes.sides.iter().product::<u64>() * self.boxes.width
    }

    /// The chunks that it is made of.
    pub fn chunks(&self) -> impl Iterator<Item = BoxChunk> + use<'_> {
        let Boxes { width, sizes, strides, sides } = self.boxes;
        let [x, y, z] = self.first.map(i64::from);
        let of_row = sides[0] * width / CHUNK;
        (0..sides[1] * of_row).map(move |number| {
            let (row, chunk) = (number / of_row, number % of_row);
            let (x, y) = (x + (chunk * CHUNK / width) as i64, y + row as i64);
            let is_inside = |place: i64, size: u64| u64::try_from(place).is_ok_and(|place| place < size);
            let bytes = match is_inside(x, sizes[0]) && is_inside(y, sizes[1]) && is_inside(z, sizes[2]) {
                true => ((sizes[0] - x as u64) * width).min(CHUNK),
                false => 0,
            };
            let from = match bytes {
                0 => 0,
                _ => self.from + x as u64 * width + y as u64 * strides[0] + z as u64 * strides[1],
            };
            let place = row * ROW + chunk * CHUNK;
            BoxChunk { to: self.to + (place ^ (place / ROW % 8 * CHUNK)), from, bytes }
        })
    }
}

/// A barrier.
#[derive(Default)]
struct Barrier {
    /// Who must arrive in each phase, and who has not yet in this one.
    count: u32,
    missing: u32,
    /// Bytes that must come in this phase.
    expected: u64,
    copies: Vec<BoxCopy>,
    /// Whether the number of phases that have ended is odd.
    is_odd: bool,
}

/// The barriers of a block by their addresses.
#[derive(Default)]
pub(super) struct Phases {
    barriers: HashMap<u64, Barrier>,
}

impl Phases {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.barriers.clear();
    }

    /// A barrier at which so many arrive in each phase.
    pub fn init(&mut self, barrier: u64, count: u32) {
        self.barriers.insert(barrier, Barrier { count, missing: count, ..Barrier::default() });
    }

    fn barrier(&mut self, barrier: u64) -> Result<&mut Barrier, String> {
        self.barriers.get_mut(&barrier).ok_or_else(|| "a barrier that nobody made".to_string())
    }

    /// Somebody arrives, and says how many bytes come.
    pub fn arrive(&mut self, barrier: u64, bytes: u64) -> Result<(), String> {
        let own = self.barrier(barrier)?;
        own.missing = own.missing.checked_sub(1).ok_or("more arrive at a barrier than it is for")?;
        own.expected += bytes;
        Ok(())
    }

    /// A box is on its way.
    pub fn begin(&mut self, barrier: u64, copy: BoxCopy) -> Result<(), String> {
        self.barrier(barrier)?.copies.push(copy);
        Ok(())
    }

    /// Whether the phase of a parity has ended, and the boxes that have come since anybody asked.
    pub fn ended(&mut self, barrier: u64, is_odd: bool) -> Result<Option<Vec<BoxCopy>>, String> {
        let own = self.barrier(barrier)?;
        if own.is_odd != is_odd {
            return Ok(Some(Vec::new()));
        }
        let bytes: u64 = own.copies.iter().map(BoxCopy::bytes).sum();
        if own.missing > 0 || bytes < own.expected {
            return Ok(None);
        }
        if bytes > own.expected {
            return Err(format!("{bytes} bytes come where {} are expected", own.expected));
        }
        (own.missing, own.expected, own.is_odd) = (own.count, 0, !own.is_odd);
        Ok(Some(std::mem::take(&mut own.copies)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(first: [i32; 3]) -> BoxCopy {
        // Three matrices of 5 rows of 70 elements of two bytes, of which boxes have 64 x 4.
        let boxes = Boxes { width: 2, sizes: [70, 5, 3], strides: [144, 1024], sides: [64, 4] };
        BoxCopy { to: 2048, from: 1 << 20, boxes, first, thread: 1 }
    }

    #[test]
    fn boxes_are_swizzled_and_end_where_their_arrays_do() {
        let chunks: Vec<BoxChunk> = copy([64, 3, 2]).chunks().collect();
        assert_eq!(chunks.len(), 4 * 8);
        let start = (1 << 20) + 64 * 2 + 3 * 144 + 2 * 1024;
        assert_eq!(chunks[0], BoxChunk { to: 2048, from: start, bytes: 12 });
        assert_eq!(chunks[1], BoxChunk { to: 2048 + 16, from: 0, bytes: 0 });
        assert_eq!(chunks[8], BoxChunk { to: 2048 + 128 + 16, from: start + 144, bytes: 12 });
        assert_eq!(chunks[9].to, 2048 + 128);
        assert!(chunks[16..].iter().all(|chunk| chunk.bytes == 0), "there are 5 rows");
        assert!(copy([0, 0, 3]).chunks().all(|chunk| chunk.bytes == 0), "there are 3 matrices");
    }

    #[test]
    fn phases_end_when_all_has_come() {
        let mut phases = Phases::default();
        phases.init(8, 1);
        assert_eq!(phases.ended(8, true), Ok(Some(Vec::new())), "the phase before the first");
        assert_eq!(phases.ended(8, false), Ok(None));
        let first = copy([0; 3]);
        phases.arrive(8, 2 * first.bytes()).unwrap();
        phases.begin(8, first).unwrap();
        assert_eq!(phases.ended(8, false), Ok(None), "half of it");
        phases.begin(8, first).unwrap();
        assert_eq!(phases.ended(8, false), Ok(Some(vec![first; 2])));
        assert_eq!(phases.ended(8, false), Ok(Some(Vec::new())));
        assert_eq!(phases.ended(8, true), Ok(None));
        phases.arrive(8, 1).unwrap();
        assert!(phases.arrive(8, 1).is_err());
        phases.begin(8, first).unwrap();
        assert!(phases.ended(8, true).is_err(), "more than was expected");
        assert!(phases.ended(16, true).is_err());
    }
}
