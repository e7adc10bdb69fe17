//! Squares of elements, transposed: as many rows as a vector has elements.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

macro_rules! square_function {
    (
        $visibility:vis $symbol:ident, $feature:literal, [$($row:literal)*], |$place:ident| $load:expr, $store:ident,
        $transposed:ident
    ) => {
        /// Transposes a square from one place to another, whose rows are some bytes apart.
        ///
        /// # Safety
        /// The processor has the function's instructions, the rows can be read there and written here, by nobody else.
        #[target_feature(enable = $feature)]
        $visibility unsafe extern "C" fn $symbol(from: *const u8, from_row: isize, to: *mut u8, to_row: isize) {
            // SAFETY: as the caller promises.
            let rows = unsafe { [$({ let $place = from.byte_offset($row * from_row).cast(); $load }),*] };
            let columns = $transposed(rows);
            // SAFETY: as the caller promises.
            unsafe { $($store(to.byte_offset($row * to_row).cast(), columns[$row]);)* }
        }
    }
}

macro_rules! transpose_functions {
    (
        $symbol:ident, $squares:ident, $feature:literal, $bytes:literal, [$($row:literal)*], $load:ident, $store:ident, $transposed:ident
    ) => {
        square_function!(pub $symbol, $feature, [$($row)*], |place| $load(place), $store, $transposed);

        /// Transposes one square or two that are neighbours where they are read, to rows one after the other, and asks for what lies
        /// some bytes further than these rows, where it is written next.
        ///
        /// # Safety
        /// The processor has the function's instructions, the rows can be read there and written here, by nobody else.
        #[target_feature(enable = $feature)]
        pub unsafe extern "C" fn $squares(
            from: *const u8, from_row: isize, to: *mut u8, to_row: isize, squares: isize, ahead: isize,
        ) {
            let rows = [$($row),*].len() as isize;
            for row in 0..squares * rows {
                prefetch_to_write(to.wrapping_byte_offset(row * to_row + ahead));
            }
            // SAFETY: as the caller promises.
            unsafe {
                $symbol(from, from_row, to, to_row);
                if squares > 1 {
                    $symbol(from.byte_add($bytes), from_row, to.byte_offset(rows * to_row), to_row);
                }
            }
        }
    }
}

macro_rules! block_functions {
    ($symbol:ident, $square:ident, $count:literal) => {
        /// Transposes two by two squares, by way of memory of its own, so that each line is read and written as a whole: in a cache,
        /// lines of rows that are pages apart take each other's places.
        ///
        /// # Safety
        /// The processor has the function's instructions, the rows can be read there and written here, by nobody else.
        #[target_feature(enable = "avx2")]
        pub unsafe extern "C" fn $symbol(from: *const u8, from_row: isize, to: *mut u8, to_row: isize) {
            const LINE: isize = 64;
            let mut lines = Lines(MaybeUninit::uninit());
            let lines: *mut u8 = lines.0.as_mut_ptr().cast();
            for (down, right) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                // SAFETY: as the caller promises; the lines have room for all squares.
                unsafe {
                    let own = from.byte_offset(down * $count * from_row + right * LINE / 2);
                    $square(own, from_row, lines.byte_offset(right * $count * LINE + down * LINE / 2), LINE);
                }
            }
            for row in 0..2 * $count {
                // SAFETY: the squares have written all of these lines.
                unsafe {
                    to.byte_offset(row * to_row).copy_from_nonoverlapping(lines.byte_offset(row * LINE), LINE as usize);
                }
            }
        }
    };
}

macro_rules! quarters_function {
    ($symbol:ident, $square:ident, $count:literal) => {
        /// Transposes two by two squares, from one place to another, whose rows are some bytes apart.
        ///
        /// # Safety
        /// The processor has the function's instructions, the rows can be read there and written here, by nobody else.
        #[target_feature(enable = "avx2")]
        pub(super) unsafe extern "C" fn $symbol(from: *const u8, from_row: isize, to: *mut u8, to_row: isize) {
            const BYTES: isize = size_of::<__m256>() as isize;
            for (down, right) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let from = from.wrapping_byte_offset(down * $count * from_row + right * BYTES);
                let to = to.wrapping_byte_offset(right * $count * to_row + down * BYTES);
                // SAFETY: as the caller promises.
                unsafe { $square(from, from_row, to, to_row) };
            }
        }
    };
}

/// As many lines of a cache as a block of the smallest elements has.
#[repr(align(64))]
struct Lines(MaybeUninit<[u8; 16 * 64]>);

/// Brings a line into the cache as one that is written. Stores that miss wait for each other, a few at a time.
#[inline]
fn prefetch_to_write(place: *const u8) {
    // SAFETY: any address may be asked for, and processors without the instruction do nothing.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags)) };
}

transpose_functions!(
    halo_transpose_32x16,
    halo_transpose_squares_32x16,
    "avx512f",
    64,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15],
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    words_of_512
);
transpose_functions!(
    halo_transpose_64x8,
    halo_transpose_squares_64x8,
    "avx512f",
    64,
    [0 1 2 3 4 5 6 7],
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    doubles_of_512
);
transpose_functions!(
    halo_transpose_32x8,
    halo_transpose_squares_32x8,
    "avx2",
    32,
    [0 1 2 3 4 5 6 7],
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    words_of_256
);
transpose_functions!(
    halo_transpose_64x4,
    halo_transpose_squares_64x4,
    "avx2",
    32,
    [0 1 2 3],
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    doubles_of_256
);

block_functions!(halo_transpose_block_32x8, halo_transpose_32x8, 8);
block_functions!(halo_transpose_block_64x4, halo_transpose_64x4, 4);

quarters_function!(square_of_16_by_quarters, halo_transpose_32x8, 8);
quarters_function!(square_of_8_by_quarters, halo_transpose_64x4, 4);

// Elements of 16 bits, which are floats of 32 bits where they are written.
square_function!(
    pub(super) bf16_square_of_16,
    "avx512f",
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15],
    |place| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(place)))),
    _mm512_storeu_ps,
    words_of_512
);
square_function!(
    pub(super) f16_square_of_16,
    "avx512f",
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15],
    |place| _mm512_cvtph_ps(_mm256_loadu_si256(place)),
    _mm512_storeu_ps,
    words_of_512
);
square_function!(
    pub(super) bf16_square_of_8,
    "avx2",
    [0 1 2 3 4 5 6 7],
    |place| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(place)))),
    _mm256_storeu_ps,
    words_of_256
);
square_function!(
    pub(super) f16_square_of_8,
    "avx2,f16c",
    [0 1 2 3 4 5 6 7],
    |place| _mm256_cvtph_ps(_mm_loadu_si128(place)),
    _mm256_storeu_ps,
    words_of_256
);

// Vectors stay in registers as long as nothing asks for one by a number that is computed: there are no loops.

/// Elements of 32 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn words_of_512(r: [__m512; 16]) -> [__m512; 16] {
    let [a, b, c, d] = [
        words_of_four_512([r[0], r[1], r[2], r[3]]),
        words_of_four_512([r[4], r[5], r[6], r[7]]),
        words_of_four_512([r[8], r[9], r[10], r[11]]),
        words_of_four_512([r[12], r[13], r[14], r[15]]),
    ];
    let [p, q, r, s] = [
        blocks_of_512([a[0], b[0], c[0], d[0]]),
        blocks_of_512([a[1], b[1], c[1], d[1]]),
        blocks_of_512([a[2], b[2], c[2], d[2]]),
        blocks_of_512([a[3], b[3], c[3], d[3]]),
    ];
    [p[0], q[0], r[0], s[0], p[1], q[1], r[1], s[1], p[2], q[2], r[2], s[2], p[3], q[3], r[3], s[3]]
}

/// Four rows of elements of 32 bits: each of the vectors has one column of them in every 128 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn words_of_four_512([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    let low = [_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d)].map(|pair| _mm512_castps_pd(pair));
    let high = [_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d)].map(|pair| _mm512_castps_pd(pair));
    [
        _mm512_unpacklo_pd(low[0], low[1]),
        _mm512_unpackhi_pd(low[0], low[1]),
        _mm512_unpacklo_pd(high[0], high[1]),
        _mm512_unpackhi_pd(high[0], high[1]),
    ]
    .map(|column| _mm512_castpd_ps(column))
}

/// Elements of 64 bits.
#[target_feature(enable = "avx512f")]
#[inline]
fn doubles_of_512([a, b, c, d, e, f, g, h]: [__m512d; 8]) -> [__m512d; 8] {
    let even = [_mm512_unpacklo_pd(a, b), _mm512_unpacklo_pd(c, d), _mm512_unpacklo_pd(e, f), _mm512_unpacklo_pd(g, h)];
    let odd = [_mm512_unpackhi_pd(a, b), _mm512_unpackhi_pd(c, d), _mm512_unpackhi_pd(e, f), _mm512_unpackhi_pd(g, h)];
    let even = blocks_of_512(even.map(|column| _mm512_castpd_ps(column)));
    let odd = blocks_of_512(odd.map(|column| _mm512_castpd_ps(column)));
    [even[0], odd[0], even[1], odd[1], even[2], odd[2], even[3], odd[3]].map(|row| _mm512_castps_pd(row))
}

/// Of four vectors of four blocks of 128 bits each, the first blocks, the second ones and so on.
#[target_feature(enable = "avx512f")]
#[inline]
fn blocks_of_512(vectors: [__m512; 4]) -> [__m512; 4] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let [a, b, c, d] = vectors;
    let [even, odd] = [
        [_mm512_shuffle_f32x4::<EVEN>(a, b), _mm512_shuffle_f32x4::<EVEN>(c, d)],
        [_mm512_shuffle_f32x4::<ODD>(a, b), _mm512_shuffle_f32x4::<ODD>(c, d)],
    ];
    [
        _mm512_shuffle_f32x4::<EVEN>(even[0], even[1]),
        _mm512_shuffle_f32x4::<EVEN>(odd[0], odd[1]),
        _mm512_shuffle_f32x4::<ODD>(even[0], even[1]),
        _mm512_shuffle_f32x4::<ODD>(odd[0], odd[1]),
    ]
}

/// Elements of 32 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn words_of_256(r: [__m256; 8]) -> [__m256; 8] {
    let [a, b] = [words_of_four_256([r[0], r[1], r[2], r[3]]), words_of_four_256([r[4], r[5], r[6], r[7]])];
    let [p, q, r, s] =
        [halves_of_256(a[0], b[0]), halves_of_256(a[1], b[1]), halves_of_256(a[2], b[2]), halves_of_256(a[3], b[3])];
    [p[0], q[0], r[0], s[0], p[1], q[1], r[1], s[1]].map(|row| _mm256_castpd_ps(row))
}

/// Four rows of elements of 32 bits: each of the vectors has one column of them in both 128 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn words_of_four_256([a, b, c, d]: [__m256; 4]) -> [__m256d; 4] {
    let low = [_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d)].map(|pair| _mm256_castps_pd(pair));
    let high = [_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d)].map(|pair| _mm256_castps_pd(pair));
    [
        _mm256_unpacklo_pd(low[0], low[1]),
        _mm256_unpackhi_pd(low[0], low[1]),
        _mm256_unpacklo_pd(high[0], high[1]),
        _mm256_unpackhi_pd(high[0], high[1]),
    ]
}

/// Elements of 64 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn doubles_of_256([a, b, c, d]: [__m256d; 4]) -> [__m256d; 4] {
    let even = halves_of_256(_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d));
    let odd = halves_of_256(_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d));
    [even[0], odd[0], even[1], odd[1]]
}

/// The first halves of two vectors, and the second ones.
#[target_feature(enable = "avx2")]
#[inline]
fn halves_of_256(a: __m256d, b: __m256d) -> [__m256d; 2] {
    [_mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b)]
}

#[cfg(test)]
mod tests {
    use super::super::Square;
    use super::*;

    type Squares = unsafe extern "C" fn(*const u8, isize, *mut u8, isize, isize, isize);

    /// Compares what a square does with rows of so many elements, and what several do with as many times the columns.
    fn check((square, squares): (Square, Squares), count: usize, element_bytes: usize) {
        for (columns, number) in [(count, 0), (count, 1), (2 * count, 2)] {
            // Rows are longer than what is transposed, and different.
            let (from_row, to_row) = ((columns + 3) * element_bytes, (count + 1) * element_bytes);
            let from: Vec<u8> = (0..count * from_row).map(|place| (place * 7 + place / 251) as u8).collect();
            let mut to = vec![0; columns * to_row];
            let (source, target) = (from.as_ptr(), to.as_mut_ptr());
            // SAFETY: the arrays have these sizes, and the processor the instructions.
            unsafe {
                match number {
                    0 => square(source, from_row as isize, target, to_row as isize),
                    // What is asked for beyond the end is not touched.
                    _ => squares(source, from_row as isize, target, to_row as isize, number, 4096),
                }
            };
            for row in 0..columns {
                for column in 0..count {
                    let element = |array: &[u8], begin: usize| array[begin..][..element_bytes].to_vec();
                    let expected = element(&from, column * from_row + row * element_bytes);
                    let found = element(&to, row * to_row + column * element_bytes);
                    assert_eq!(found, expected, "{row}, {column} of {columns} x {count}");
                }
                assert!(to[row * to_row + count * element_bytes..(row + 1) * to_row].iter().all(|&byte| byte == 0));
            }
        }
    }

    /// Compares what a block does with rows of so many elements.
    fn check_block(block: Square, count: usize, element_bytes: usize) {
        let row = (count + 3) * element_bytes;
        let from: Vec<u8> = (0..count * row).map(|place| (place * 7 + place / 251) as u8).collect();
        let mut to = vec![0; count * row];
        // SAFETY: the arrays have these sizes, and the processor the instructions.
        unsafe { block(from.as_ptr(), row as isize, to.as_mut_ptr(), row as isize) };
        for (down, right) in (0..count).flat_map(|down| (0..count).map(move |right| (down, right))) {
            let element = |array: &[u8], down: usize, right: usize| {
                array[down * row + right * element_bytes..][..element_bytes].to_vec()
            };
            assert_eq!(element(&to, down, right), element(&from, right, down), "{down}, {right} of {count}");
        }
        assert!(to.chunks(row).all(|own| own[count * element_bytes..].iter().all(|&byte| byte == 0)));
    }

    #[test]
    fn squares_are_transposed() {
        if is_x86_feature_detected!("avx512f") {
            check((halo_transpose_32x16, halo_transpose_squares_32x16), 16, 4);
            check((halo_transpose_64x8, halo_transpose_squares_64x8), 8, 8);
        }
        if is_x86_feature_detected!("avx2") {
            check_block(halo_transpose_block_32x8, 16, 4);
            check_block(halo_transpose_block_64x4, 8, 8);
            check_block(square_of_16_by_quarters, 16, 4);
            check_block(square_of_8_by_quarters, 8, 8);
            check((halo_transpose_32x8, halo_transpose_squares_32x8), 8, 4);
            check((halo_transpose_64x4, halo_transpose_squares_64x4), 4, 8);
        }
    }
}
