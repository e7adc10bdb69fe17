//! What the threads of a warp do with matrices: `ldmatrix` and `mma`, as PTX's manual has them.

use super::block::WARP;

/// Bytes of a row of a matrix in shared memory.
pub(super) const ROW_BYTES: u64 = 16;

/// What all threads of a warp do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarpKind {
    /// Four matrices of eight rows, of which each thread gives one.
    LoadMatrices {
        /// Whether a thread's word is of a column.
        is_transposed: bool,
    },
    /// Sums of 16 rows and 8 columns become larger by the products of 16 rows and 8 columns of 32 bytes; those of `f64` have 8
    /// rows, and 4 numbers of each, or 16 rows, and 8 numbers.
    Multiply {
        /// Which of [`TYPES`], or [`DOUBLES`] or [`MANY_DOUBLES`].
        types: u32,
    },
}

/// A thread's part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WarpOperation {
    pub kind: WarpKind,
    /// Its operands, in whose place the results go.
    pub words: *mut u32,
    /// Where the row begins that it gives.
    pub row: u64,
}

/// Types of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    Bf16,
    F16,
    S8,
    U8,
    Tf32,
    E4m3,
    E5m2,
}

/// Those of both operands, by the numbers that the code generator gives them; the last ones only four warps multiply.
pub(super) const TYPES: [[Element; 2]; 11] = [
    [Element::Bf16; 2],
    [Element::F16; 2],
    [Element::S8; 2],
    [Element::S8, Element::U8],
    [Element::U8, Element::S8],
    [Element::U8; 2],
    [Element::Tf32; 2],
    [Element::E4m3; 2],
    [Element::E4m3, Element::E5m2],
    [Element::E5m2, Element::E4m3],
    [Element::E5m2; 2],
];

/// The numbers of products of `f64`.
const DOUBLES: u32 = 7;
const MANY_DOUBLES: u32 = 8;

/// Words of the operands of an `mma`: of the left one, of the right one, and sums.
const OPERANDS: [usize; 3] = [4, 2, 4];

/// Does what all threads of a warp have come to do.
///
/// # Errors
/// For threads that are not all of a warp, and that come to do different things.
pub(super) fn run(operations: &[WarpOperation]) -> Result<(), String> {
    let Ok(lanes) = <&[WarpOperation; WARP]>::try_from(operations) else {
        return Err("not all threads of a warp come to its matrices".into());
    };
    let kind = lanes[0].kind;
    if lanes.iter().any(|lane| lane.kind != kind) {
        return Err("threads of a warp do different things with matrices".into());
    }
    // SAFETY: the words are on the stacks of threads that wait, as many as the code generator makes; rows are checked.
    unsafe {
        match kind {
            WarpKind::LoadMatrices { is_transposed } => load(lanes, is_transposed),
            WarpKind::Multiply { types: DOUBLES } => multiply_doubles::<2>(lanes, 4),
            WarpKind::Multiply { types: MANY_DOUBLES } => multiply_doubles::<4>(lanes, 8),
            WarpKind::Multiply { types } => {
                let types = TYPES.get(types as usize).ok_or("a product of types that there is not")?;
                multiply(lanes, *types);
            }
        }
    }
    Ok(())
}

/// # Safety
/// Each lane must have four words, and the address of a row.
unsafe fn load(lanes: &[WarpOperation; WARP], is_transposed: bool) {
    // SAFETY: the caller's promise.
    let half = |matrix: usize, row: usize, column: usize| unsafe {
        u32::from((lanes[matrix * 8 + row].row as *const u16).add(column).read_unaligned())
    };
    for (number, lane) in lanes.iter().enumerate() {
        for matrix in 0..4 {
            let [first, second] = [0, 1].map(|next| match is_transposed {
                false => half(matrix, number / 4, number % 4 * 2 + next),
                true => half(matrix, number % 4 * 2 + next, number / 4),
            });
            // SAFETY: the caller's promise.
            unsafe { lane.words.add(matrix).write_unaligned(first | second << 16) };
        }
    }
}

/// # Safety
/// Each lane must have ten words.
unsafe fn multiply(lanes: &[WarpOperation; WARP], types: [Element; 2]) {
    // SAFETY: the caller's promise.
    let word = |lane: usize, number: usize| unsafe { lanes[lane].words.add(number).read_unaligned() };
    // The words of a row's 32 bytes: of each half, a lane of four has one; the second eight rows have words of their own.
    let left_row = |row: usize| -> Vec<u32> {
        (0..8).map(|place| word(row % 8 * 4 + place % 4, row / 8 + place / 4 * 2)).collect()
    };
    let right_column = |column: usize| -> Vec<u32> {
        (0..8).map(|place| word(column * 4 + place % 4, OPERANDS[0] + place / 4)).collect()
    };
    let mut results = [[0u32; 4]; WARP];
    for (lane, results) in results.iter_mut().enumerate() {
        for (number, result) in results.iter_mut().enumerate() {
            let (row, column) = (lane / 4 + number / 2 * 8, lane % 4 * 2 + number % 2);
            let sum = word(lane, OPERANDS[0] + OPERANDS[1] + number);
            let pairs = left_row(row).into_iter().zip(right_column(column));
            *result = product_of_words(types, sum, pairs);
        }
    }
    for (lane, results) in lanes.iter().zip(results) {
        for (number, result) in results.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { lane.words.add(number).write_unaligned(result) };
        }
    }
}

/// Of two sums for each eight rows, and some contracted positions.
///
/// # Safety
/// Each lane must have numbers of the left operand, for every four positions one of each eight rows, of the right one, for every
/// four positions one, and sums.
unsafe fn multiply_doubles<const SUMS: usize>(lanes: &[WarpOperation; WARP], positions: usize) {
    // SAFETY: the caller's promise.
    let number = |lane: usize, place: usize| unsafe { lanes[lane].words.cast::<f64>().add(place).read_unaligned() };
    let eights = SUMS / 2;
    let (right, sums) = (positions / 4 * eights, positions / 4 * (eights + 1));
    let mut results = [[0f64; SUMS]; WARP];
    for (lane, results) in results.iter_mut().enumerate() {
        for (place, result) in results.iter_mut().enumerate() {
            let (row, eight, column) = (lane / 4, place / 2, lane % 4 * 2 + place % 2);
            let products = (0..positions).map(|depth| {
                let (four, own) = (depth / 4, depth % 4);
                (number(row * 4 + own, four * eights + eight), number(column * 4 + own, right + four))
            });
            *result = products.fold(number(lane, sums + place), |sum, (left, right)| left.mul_add(right, sum));
        }
    }
    for (lane, results) in lanes.iter().zip(results) {
        for (place, result) in results.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { lane.words.cast::<f64>().add(place).write_unaligned(result) };
        }
    }
}

/// A sum, to which the products of the elements of some words are added.
pub(super) fn product_of_words([left, right]: [Element; 2], sum: u32, pairs: impl Iterator<Item = (u32, u32)>) -> u32 {
    match left {
        Element::Bf16 | Element::F16 => {
            let sum = pairs.fold(f32::from_bits(sum), |sum, (a, b)| {
                let parts = floats(a, left).into_iter().zip(floats(b, right));
                parts.fold(sum, |sum, (a, b)| sum + a * b)
            });
            sum.to_bits()
        }
        Element::Tf32 => pairs.fold(f32::from_bits(sum), |sum, (a, b)| sum + from_tf32(a) * from_tf32(b)).to_bits(),
        // What a warp alone does not multiply.
        Element::E4m3 | Element::E5m2 => f32::NAN.to_bits(),
        Element::S8 | Element::U8 => pairs.fold(sum, |sum, (a, b)| {
            let parts = integers(a, left).into_iter().zip(integers(b, right));
            parts.fold(sum, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(b) as u32))
        }),
    }
}

/// The elements of a row, or of a column, of which many products are made.
pub(super) enum Numbers {
    Floats(Vec<f32>),
    /// Those of whose products only so many bits are summed as [`sum_of_few_bits`] says.
    SmallFloats(Vec<f32>),
    Integers(Vec<i32>),
}

impl Numbers {
    /// Those of words.
    pub fn of(words: impl Iterator<Item = u32>, element: Element) -> Self {
        match element {
            Element::Bf16 | Element::F16 => Numbers::Floats(words.flat_map(|word| floats(word, element)).collect()),
            Element::Tf32 => Numbers::Floats(words.map(from_tf32).collect()),
            Element::E4m3 | Element::E5m2 => {
                let small =
                    |byte: u8| if element == Element::E4m3 { e4m3_to_single(byte) } else { e5m2_to_single(byte) };
                Numbers::SmallFloats(words.flat_map(u32::to_le_bytes).map(small).collect())
            }
            Element::S8 | Element::U8 => Numbers::Integers(words.flat_map(|word| integers(word, element)).collect()),
        }
    }

    /// As [`product_of_words`].
    pub fn product(&self, other: &Numbers, sum: u32) -> u32 {
        match (self, other) {
            (Numbers::Floats(left), Numbers::Floats(right)) => {
                let parts = left.iter().zip(right);
                parts.fold(f32::from_bits(sum), |sum, (a, b)| sum + a * b).to_bits()
            }
            (Numbers::SmallFloats(left), Numbers::SmallFloats(right)) => {
                let products: Vec<f32> = left.iter().zip(right).map(|(a, b)| a * b).collect();
                sum_of_few_bits(f32::from_bits(sum), &products).to_bits()
            }
            (Numbers::Integers(left), Numbers::Integers(right)) => {
                let parts = left.iter().zip(right);
                parts.fold(sum, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b) as u32))
            }
            _ => sum,
        }
    }
}

/// Bits behind the first one of the largest number of a sum that are summed of all of them.
const SUMMED_BITS: i32 = 13;

/// The sum of numbers whose bits below those of the largest are cut off, as tensor cores are said to sum products of f8.
fn sum_of_few_bits(sum: f32, products: &[f32]) -> f32 {
    let all = || products.iter().copied().chain([sum]);
    let largest = all().map(f32::abs).fold(0.0, f32::max);
    if !all().all(f32::is_finite) || largest == 0.0 {
        return all().sum();
    }
    let unit = 2f64.powi(f64::from(largest).log2().floor() as i32 - SUMMED_BITS);
    all().map(|number| (f64::from(number) / unit).trunc() * unit).sum::<f64>() as f32
}

/// The float of a word, without the lower bits that such a number does not have.
fn from_tf32(bits: u32) -> f32 {
    f32::from_bits(bits & !0x1fff)
}

/// The two floats of a word.
fn floats(word: u32, element: Element) -> [f32; 2] {
    [word as u16, (word >> 16) as u16].map(|bits| match element {
        Element::F16 => half_to_single(bits),
        _ => f32::from_bits(u32::from(bits) << 16),
    })
}

/// A number of 16 bits, five of them an exponent.
fn half_to_single(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// A number of 8 bits, five of them an exponent: the upper half of one of 16.
fn e5m2_to_single(bits: u8) -> f32 {
    half_to_single(u16::from(bits) << 8)
}

/// A number of 8 bits, four of them an exponent, none of them infinite.
fn e4m3_to_single(bits: u8) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let magnitude = match (exponent, bits & 7) {
        (15, 7) => f32::NAN,
        (0, _) => fraction * 2f32.powi(-9),
        _ => (8.0 + fraction) * 2f32.powi(exponent - 10),
    };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
}

/// The four integers of a word.
fn integers(word: u32, element: Element) -> [i32; 4] {
    word.to_le_bytes().map(|byte| match element {
        Element::S8 => i32::from(byte as i8),
        _ => i32::from(byte),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_what_they_say() {
        let values = [0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00].map(half_to_single);
        assert_eq!(values, [1.0, -2.0, 65504.0, 2f32.powi(-24), 2f32.powi(-14), f32::INFINITY]);
        assert!(half_to_single(0x7e00).is_nan());
    }

    #[test]
    fn small_floats_are_what_they_say() {
        let values = [0x38, 0xb8, 0x7e, 0x01, 0x08].map(e4m3_to_single);
        assert_eq!(values, [1.0, -1.0, 448.0, 2f32.powi(-9), 2f32.powi(-6)]);
        assert!(e4m3_to_single(0xff).is_nan());
        assert_eq!([0x3c, 0x7b, 0x7c].map(e5m2_to_single), [1.0, 57344.0, f32::INFINITY]);
        assert_eq!(sum_of_few_bits(1.0, &[2f32.powi(-13), 2f32.powi(-14), -2f32.powi(-14)]), 1.0 + 2f32.powi(-13));
    }

    /// Rows of 8 numbers in memory, loaded as they are and transposed.
    #[test]
    fn matrices_are_loaded() {
        let memory: Vec<u16> = (0..256).collect();
        let mut words = [[0u32; 10]; WARP];
        let load = |words: &mut [[u32; 10]; WARP], is_transposed: bool| {
            let operations: Vec<WarpOperation> = words
                .iter_mut()
                .enumerate()
                .map(|(lane, words)| WarpOperation {
                    kind: WarpKind::LoadMatrices { is_transposed },
                    words: words.as_mut_ptr(),
                    row: memory[lane * 8..].as_ptr() as u64,
                })
                .collect();
            run(&operations)
        };
        assert_eq!(load(&mut words, false), Ok(()));
        // Lane 5 has columns 2 and 3 of row 1, of each matrix.
        assert_eq!(words[5][..2], [10 | 11 << 16, 74 | 75 << 16]);
        assert_eq!(load(&mut words, true), Ok(()));
        assert_eq!(words[5][0], 17 | 25 << 16);
    }

    /// The product of a matrix with the first columns of one that has a single number in each.
    #[test]
    fn matrices_are_multiplied() {
        let one = 0x3f80u32;
        let mut words = [[0u32; 10]; WARP];
        for (lane, words) in words.iter_mut().enumerate() {
            // The left operand has its row's number everywhere, the right one a 1 at position 2 of each column.
            for (number, word) in words[..4].iter_mut().enumerate() {
                let row = (lane / 4 + number % 2 * 8) as f32;
                *word = (row.to_bits() >> 16) * 0x10001;
            }
            words[4] = if lane % 4 == 1 { one } else { 0 };
            words[6..].fill(1f32.to_bits());
        }
        let operations: Vec<WarpOperation> = words
            .iter_mut()
            .map(|words| WarpOperation { kind: WarpKind::Multiply { types: 0 }, words: words.as_mut_ptr(), row: 0 })
            .collect();
        assert_eq!(run(&operations), Ok(()));
        assert!(run(&operations[..31]).is_err());
        for (lane, words) in words.iter().enumerate() {
            let row = (lane / 4) as f32;
            assert_eq!(
                words[..4].iter().map(|&word| f32::from_bits(word)).collect::<Vec<_>>(),
                [row + 1.0, row + 1.0, row + 9.0, row + 9.0]
            );
        }
    }
}
