//! Operands of products, brought to where tiles find them: panels of some columns each, whose rows follow one another.
//!
//! There is a function for the rows of each type of elements that tiles take in another one (`halo_pack_rows_bf16`), and one for those
//! that are packed as they are, which knows bytes only. Columns, which are consecutive in memory, are packed by transposing squares: there is
//! a function for each size of elements and of vectors, `halo_pack_columns_32x8` and so on, and for each type that is converted
//! (`halo_pack_columns_bf16x8`).

use std::arch::x86_64::*;

use super::Square;
use super::product_vectors::LINE_BYTES;
use super::transposes::{
    bf16_square_of_8, bf16_square_of_16, f16_square_of_8, f16_square_of_16, halo_transpose_32x8, halo_transpose_32x16,
    halo_transpose_64x4, halo_transpose_64x8,
};

/// How an operand is packed. Distances are in bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Packing {
    /// In the operand, from a row to the next, or from a column where these are consecutive.
    pub row: isize,
    /// From an element, a row or a column to what is asked for beforehand; 0 if nothing is.
    pub ahead: isize,
    /// Bytes of a row of a panel.
    pub panel_row: usize,
    /// From a row of a panel to the next.
    pub next_row: usize,
    /// From a panel to the next.
    pub next_panel: usize,
    /// Whether a panel that is not full gets zeros, rather than nothing, in place of what is missing: 1 or 0.
    pub fills: usize,
}

/// How the elements of a row become those of a row of a panel.
trait Conversion {
    /// Bytes of an element, before and after.
    const BYTES: [usize; 2];
    /// Rows that become one.
    const ROWS: isize = 1;

    /// Converts as many elements as take so many bytes afterwards. Half a row further are those that are combined with them.
    ///
    /// # Safety
    /// The elements can be read there, and the bytes written, and the processor has the instructions of the function that this is
    /// inlined into.
    unsafe fn convert(from: *const u8, half_row: isize, to: *mut u8, bytes: usize);
}

/// Elements of so many bytes, of which nothing else is known.
struct AsTheyAre<const BYTES: usize>;

impl<const BYTES: usize> Conversion for AsTheyAre<BYTES> {
    const BYTES: [usize; 2] = [BYTES, BYTES];

    #[inline(always)]
    unsafe fn convert(from: *const u8, _: isize, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe { copy_few(from, to, bytes) };
    }
}

/// Copies bytes of which there are few: rows of tiles are so short that a call takes longer than two pieces, which may overlap.
///
/// # Safety
/// The bytes can be read there, and written, and do not overlap.
#[inline(always)]
unsafe fn copy_few(from: *const u8, to: *mut u8, bytes: usize) {
    macro_rules! in_two_pieces {
        ($piece:ty) => {{
            let last = bytes - size_of::<$piece>();
            // SAFETY: as the caller promises, and there are as many bytes.
            unsafe {
                let pieces = [from, from.add(last)].map(|place| place.cast::<$piece>().read_unaligned());
                to.cast::<$piece>().write_unaligned(pieces[0]);
                to.add(last).cast::<$piece>().write_unaligned(pieces[1]);
            }
        }};
    }
    match bytes {
        32..=64 => in_two_pieces!(__m256i),
        16..32 => in_two_pieces!(__m128i),
        8..16 => in_two_pieces!(u64),
        4..8 => in_two_pieces!(u32),
        // SAFETY: as the caller promises.
        _ => unsafe { to.copy_from_nonoverlapping(from, bytes) },
    }
}

/// Elements that fill vectors at once. Those that are left fill one that is not in the arrays.
macro_rules! conversion {
    (
        $(#[$attribute:meta])*
        $name:ident, $from:ty, $to:ty, rows: $rows:literal, |$place:ident, $other:ident| $vector:expr
    ) => {
        $(#[$attribute])*
        struct $name;

        impl Conversion for $name {
            const BYTES: [usize; 2] = [size_of::<$from>(), size_of::<$to>()];
            const ROWS: isize = $rows;

            #[inline(always)]
            unsafe fn convert(from: *const u8, half_row: isize, to: *mut u8, bytes: usize) {
                const LANES: usize = size_of::<__m256i>() / size_of::<$to>();
                let (from, to) = (from.cast::<$from>(), to.cast::<$to>());
                let count = bytes / size_of::<$to>();
                // SAFETY: as the caller promises. What does not combine elements does not read the others.
                unsafe {
                    let convert = |lane: usize| {
                        let ($place, $other) = (from.add(lane), from.add(lane).wrapping_byte_offset(half_row));
                        _mm256_storeu_si256(to.add(lane).cast(), $vector);
                    };
                    let whole = count / LANES * LANES;
                    let mut lane = 0;
                    while lane < whole {
                        convert(lane);
                        lane += LANES;
                    }
                    // Where there is a whole vector, the last one overlaps it.
                    if whole > 0 && whole < count {
                        convert(count - LANES);
                    }
                    if whole == 0 && count > 0 {
                        let mut rows = [[<$from>::default(); LANES]; $rows];
                        for (number, row) in (0..).zip(&mut rows) {
                            let few = from.wrapping_byte_offset(number * half_row);
                            copy_few(few.cast(), row.as_mut_ptr().cast(), count * size_of::<$from>());
                        }
                        let ($place, $other) = (rows[0].as_ptr(), rows[$rows - 1].as_ptr());
                        let mut converted = [<$to>::default(); LANES];
                        _mm256_storeu_si256(converted.as_mut_ptr().cast(), $vector);
                        copy_few(converted.as_ptr().cast(), to.cast(), bytes);
                    }
                }
            }
        }
    };
}

conversion!(
    /// bf16 as f32.
    OfBf16,
    u16,
    u32,
    rows: 1,
    |place, _other| _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(place.cast())))
);
conversion!(
    /// f16 as f32, by the instruction for it.
    OfF16,
    u16,
    u32,
    rows: 1,
    |place, _other| _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(place.cast())))
);
conversion!(
    /// Signed bytes as words.
    OfSigned,
    i8,
    i16,
    rows: 1,
    |place, _other| _mm256_cvtepi8_epi16(_mm_loadu_si128(place.cast()))
);
conversion!(
    /// Unsigned bytes as words.
    OfUnsigned,
    u8,
    i16,
    rows: 1,
    |place, _other| _mm256_cvtepu8_epi16(_mm_loadu_si128(place.cast()))
);
conversion!(
    /// Pairs of words of signed bytes of two rows.
    PairsOfSigned,
    i8,
    u32,
    rows: 2,
    |place, other| _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(_mm_loadl_epi64(place.cast()), _mm_loadl_epi64(other.cast())))
);
conversion!(
    /// Pairs of words of unsigned bytes of two rows.
    PairsOfUnsigned,
    u8,
    u32,
    rows: 2,
    |place, other| _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(_mm_loadl_epi64(place.cast()), _mm_loadl_epi64(other.cast())))
);

conversion!(
    /// Signed bytes as unsigned ones, 128 more.
    Moved,
    u8,
    u8,
    rows: 1,
    |place, _other| _mm256_xor_si256(_mm256_loadu_si256(place.cast()), _mm256_set1_epi8(i8::MIN))
);

/// Signed bytes of four rows side by side.
struct Fours;

impl Conversion for Fours {
    const BYTES: [usize; 2] = [1, 4];
    const ROWS: isize = 4;

    #[inline(always)]
    unsafe fn convert(from: *const u8, half_row: isize, to: *mut u8, bytes: usize) {
        const COLUMNS: usize = size_of::<__m256i>();
        let columns = bytes / 4;
        let row = |number: isize| from.wrapping_byte_offset(number * (half_row / 2));
        // SAFETY: as the caller promises.
        unsafe {
            let whole = columns / COLUMNS * COLUMNS;
            for column in (0..whole).step_by(COLUMNS) {
                fours([0, 1, 2, 3].map(|number| row(number).add(column)), to.add(4 * column));
            }
            if whole < columns {
                let mut few = [[0; COLUMNS]; 4];
                for (number, few) in (0..).zip(&mut few) {
                    copy_few(row(number).add(whole), few.as_mut_ptr(), columns - whole);
                }
                let mut together = [0; 4 * COLUMNS];
                fours(few.each_ref().map(|row| row.as_ptr()), together.as_mut_ptr());
                to.add(4 * whole).copy_from_nonoverlapping(together.as_ptr(), 4 * (columns - whole));
            }
        }
    }
}

/// Puts 32 bytes of each of four rows side by side.
///
/// # Safety
/// The bytes can be read there, and written, and the processor has the instructions of the function that this is inlined into.
#[inline(always)]
unsafe fn fours(rows: [*const u8; 4], to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe {
        let [a, b, c, d] = rows.map(|row| _mm256_loadu_si256(row.cast()));
        let low = [_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d)];
        let high = [_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d)];
        // Each has four columns of the first half, and those of the second that are as far in it.
        let [a, b] = [_mm256_unpacklo_epi16(low[0], low[1]), _mm256_unpackhi_epi16(low[0], low[1])];
        let [c, d] = [_mm256_unpacklo_epi16(high[0], high[1]), _mm256_unpackhi_epi16(high[0], high[1])];
        let to = to.cast::<__m256i>();
        _mm256_storeu_si256(to, _mm256_permute2x128_si256::<0x20>(a, b));
        _mm256_storeu_si256(to.add(1), _mm256_permute2x128_si256::<0x20>(c, d));
        _mm256_storeu_si256(to.add(2), _mm256_permute2x128_si256::<0x31>(a, b));
        _mm256_storeu_si256(to.add(3), _mm256_permute2x128_si256::<0x31>(c, d));
    }
}

/// Packs `rows` rows, which take so many bytes in panels, side by side.
///
/// # Safety
/// As many elements can be read there, and the panels written, and nobody else writes either.
#[inline(always)]
unsafe fn pack_rows<C: Conversion>(packing: &Packing, from: *const u8, to: *mut u8, (rows, bytes): (usize, usize)) {
    // Once, since a division takes longer than a row.
    let panels = (bytes / packing.panel_row, bytes % packing.panel_row);
    // Panels of so many bytes, the vectors of all tiles, are a few instructions; those of the function that this is inlined into, so
    // there is no pointer to what packs a row.
    macro_rules! pack {
        ($bytes:literal) => {
            for row in 0..rows {
                let source = from.wrapping_byte_offset(row as isize * packing.row);
                if packing.ahead != 0 {
                    let source_bytes = bytes / C::BYTES[1] * C::BYTES[0];
                    for number in 0..C::ROWS {
                        let ahead = source.wrapping_byte_offset(packing.ahead + number * (packing.row / C::ROWS));
                        (0..source_bytes).step_by(LINE_BYTES).for_each(|byte| prefetch(ahead.wrapping_add(byte)));
                    }
                }
                // SAFETY: as the caller promises.
                unsafe { pack_row::<C, $bytes>(packing, source, to.add(row * packing.next_row), panels) };
            }
        };
    }
    match packing.panel_row {
        20 => pack!(20),
        24 => pack!(24),
        32 => pack!(32),
        48 => pack!(48),
        56 => pack!(56),
        64 => pack!(64),
        128 => pack!(128),
        _ => pack!(0),
    }
}

/// One row, to so many whole panels whose rows have `BYTES`, or as many as `packing` says if that is 0, and what is left in bytes.
///
/// # Safety
/// As of [`pack_rows`].
#[inline(always)]
unsafe fn pack_row<C: Conversion, const BYTES: usize>(
    packing: &Packing,
    from: *const u8,
    to: *mut u8,
    (whole, rest): (usize, usize),
) {
    let panel_row = if BYTES > 0 { BYTES } else { packing.panel_row };
    let [element, packed_element] = C::BYTES;
    let half_row = packing.row / 2;
    // SAFETY: as the caller promises.
    unsafe {
        for panel in 0..whole {
            let from = from.add(panel * (panel_row / packed_element * element));
            C::convert(from, half_row, to.add(panel * packing.next_panel), panel_row);
        }
        if rest > 0 {
            let last = to.add(whole * packing.next_panel);
            C::convert(from.add(whole * (panel_row / packed_element * element)), half_row, last, rest);
            if packing.fills > 0 {
                last.add(rest).write_bytes(0, panel_row - rest);
            }
        }
    }
}

macro_rules! pack_rows_function {
    ($symbol:ident, $feature:literal, $conversion:ty) => {
        /// Packs `rows` rows, which take so many bytes in panels, side by side.
        ///
        /// # Safety
        /// The processor has the function's instructions. As many elements can be read there, and the panels written, and nobody
        /// else writes either.
        #[target_feature(enable = $feature)]
        pub unsafe extern "C" fn $symbol(
            packing: *const Packing,
            from: *const u8,
            to: *mut u8,
            rows: usize,
            bytes: usize,
        ) {
            // SAFETY: compiled code has the packing as a constant; the rest is as the caller promises.
            unsafe { pack_rows::<$conversion>(&*packing, from, to, (rows, bytes)) }
        }
    };
}

pack_rows_function!(halo_pack_rows, "avx2", AsTheyAre<1>);
pack_rows_function!(halo_pack_rows_bf16, "avx2", OfBf16);
pack_rows_function!(halo_pack_rows_f16, "avx2,f16c", OfF16);
pack_rows_function!(halo_pack_rows_s8, "avx2", OfSigned);
pack_rows_function!(halo_pack_rows_u8, "avx2", OfUnsigned);
pack_rows_function!(halo_pack_rows_moved, "avx2", Moved);
pack_rows_function!(halo_pack_fours_s8, "avx2", Fours);
pack_rows_function!(halo_pack_pairs_s8, "avx2", PairsOfSigned);
pack_rows_function!(halo_pack_pairs_u8, "avx2", PairsOfUnsigned);

/// Packs `columns` columns of `rows` consecutive elements, transposing squares of `LANES` elements.
///
/// # Safety
/// As of [`pack_rows`], and the processor has the instructions of the square.
#[inline(always)]
unsafe fn pack_columns<C: Conversion, const LANES: usize>(
    square: Square,
    packing: &Packing,
    (from, to): (*const u8, *mut u8),
    (rows, columns): (usize, usize),
) {
    let [element, packed_element] = C::BYTES;
    let panel = packing.panel_row / packed_element;
    let whole = rows / LANES * LANES;
    for (number, first) in (0..columns).step_by(panel).enumerate() {
        let from = from.wrapping_byte_offset(first as isize * packing.row);
        let to = to.wrapping_add(number * packing.next_panel);
        let here = panel.min(columns - first);
        let squares = here / LANES * LANES;
        // SAFETY: as the caller promises.
        unsafe {
            for row in (0..whole).step_by(LANES) {
                for column in (0..squares).step_by(LANES) {
                    let from = from.offset(column as isize * packing.row + (row * element) as isize);
                    if packing.ahead != 0 {
                        let ahead = from.wrapping_byte_offset(packing.ahead);
                        (0..LANES).for_each(|lane| prefetch(ahead.wrapping_byte_offset(lane as isize * packing.row)));
                    }
                    let to = to.add(row * packing.next_row + column * packed_element);
                    square(from, packing.row, to, packing.next_row as isize);
                }
                if squares < panel {
                    (row..row + LANES).for_each(|row| pack_elements::<C>(packing, (from, to), row, (squares, here)));
                }
            }
            (whole..rows).for_each(|row| pack_elements::<C>(packing, (from, to), row, (0, here)));
        }
    }
}

/// The elements of a row of a panel from one column to behind another, and zeros for what is missing behind these.
///
/// # Safety
/// As of [`pack_rows`].
#[inline(always)]
unsafe fn pack_elements<C: Conversion>(
    packing: &Packing,
    (from, to): (*const u8, *mut u8),
    row: usize,
    (first, end): (usize, usize),
) {
    let [element, packed_element] = C::BYTES;
    // SAFETY: as the caller promises.
    unsafe {
        let to = to.add(row * packing.next_row);
        for column in first..end {
            let from = from.offset(column as isize * packing.row + (row * element) as isize);
            C::convert(from, 0, to.add(column * packed_element), packed_element);
        }
        if packing.fills > 0 {
            to.add(end * packed_element).write_bytes(0, packing.panel_row - end * packed_element);
        }
    }
}

#[inline(always)]
fn prefetch(place: *const u8) {
    // SAFETY: any address may be asked for.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) };
}

macro_rules! pack_columns_function {
    ($symbol:ident, $feature:literal, $square:ident, $conversion:ty, $lanes:literal) => {
        /// Packs `columns` columns of `rows` consecutive elements each into panels.
        ///
        /// # Safety
        /// The processor has the function's instructions. As many elements can be read there, and the panels written, and nobody
        /// else writes either.
        #[target_feature(enable = $feature)]
        pub unsafe extern "C" fn $symbol(
            packing: *const Packing,
            from: *const u8,
            to: *mut u8,
            rows: usize,
            columns: usize,
        ) {
            // SAFETY: compiled code has the packing as a constant; the rest is as the caller promises.
            unsafe { pack_columns::<$conversion, $lanes>($square, &*packing, (from, to), (rows, columns)) }
        }
    };
}

pack_columns_function!(halo_pack_columns_32x16, "avx512f", halo_transpose_32x16, AsTheyAre<4>, 16);
pack_columns_function!(halo_pack_columns_64x8, "avx512f", halo_transpose_64x8, AsTheyAre<8>, 8);
pack_columns_function!(halo_pack_columns_32x8, "avx2", halo_transpose_32x8, AsTheyAre<4>, 8);
pack_columns_function!(halo_pack_columns_64x4, "avx2", halo_transpose_64x4, AsTheyAre<8>, 4);
pack_columns_function!(halo_pack_columns_bf16x16, "avx512f", bf16_square_of_16, OfBf16, 16);
pack_columns_function!(halo_pack_columns_f16x16, "avx512f,f16c", f16_square_of_16, OfF16, 16);
pack_columns_function!(halo_pack_columns_bf16x8, "avx2", bf16_square_of_8, OfBf16, 8);
pack_columns_function!(halo_pack_columns_f16x8, "avx2,f16c", f16_square_of_8, OfF16, 8);

#[cfg(test)]
mod tests {
    use super::*;

    type Pack = unsafe extern "C" fn(*const Packing, *const u8, *mut u8, usize, usize);

    /// Packs a matrix whose elements have all different bytes by rows, and its transpose by columns.
    fn check(columns_function: Option<Pack>, element: usize, panel: usize) {
        let gap = element;
        for (rows, columns) in
            [(1, 1), (panel, panel), (2 * panel + 3, 3 * panel + 5), (panel + 1, panel - 1), (0, 3), (40, 0)]
        {
            let value = |row: usize, column: usize| {
                let number = (row * 1000 + column + 1) as u64;
                number.to_le_bytes()[..element].to_vec()
            };
            let panel_row = panel * element;
            let next_panel = rows * panel_row + gap;
            let packing = Packing {
                row: ((columns + 2) * element) as isize,
                ahead: 4096,
                panel_row,
                next_row: panel_row,
                next_panel,
                fills: 1,
            };
            let mut expected = vec![7; columns.div_ceil(panel) * next_panel];
            for row in 0..rows {
                for column in 0..columns.next_multiple_of(panel) {
                    let there = if column < columns { value(row, column) } else { vec![0; element] };
                    let place = column / panel * next_panel + row * panel_row + column % panel * element;
                    expected[place..place + element].copy_from_slice(&there);
                }
            }
            let matrix = |rows: usize, columns: usize, value: &dyn Fn(usize, usize) -> Vec<u8>| -> Vec<u8> {
                let row = |row| (0..columns + 2).flat_map(move |column| value(row, column));
                (0..rows).flat_map(row).collect()
            };
            let by_rows = matrix(rows, columns, &value);
            let mut packed = vec![7; expected.len()];
            // SAFETY: the arrays have these sizes.
            unsafe { halo_pack_rows(&packing, by_rows.as_ptr(), packed.as_mut_ptr(), rows, columns * element) };
            assert_eq!(packed, expected, "{rows} rows of {columns} columns of {element} bytes");
            let Some(pack) = columns_function else { continue };
            let by_columns = matrix(columns, rows, &|column, row| value(row, column));
            let packing = Packing { row: ((rows + 2) * element) as isize, ..packing };
            let mut packed = vec![7; expected.len()];
            // SAFETY: the arrays have these sizes, and the processor the instructions.
            unsafe { pack(&packing, by_columns.as_ptr(), packed.as_mut_ptr(), rows, columns) };
            assert_eq!(packed, expected, "{columns} columns of {rows} rows of {element} bytes");
        }
    }

    #[test]
    fn panels_hold_columns_side_by_side() {
        check(None, 2, 12);
        check(None, 4, 6);
        if is_x86_feature_detected!("avx512f") {
            check(Some(halo_pack_columns_32x16), 4, 32);
            check(Some(halo_pack_columns_64x8), 8, 16);
        }
        if is_x86_feature_detected!("avx2") {
            check(Some(halo_pack_columns_32x8), 4, 16);
            check(Some(halo_pack_columns_32x8), 4, 8);
            check(Some(halo_pack_columns_64x4), 8, 8);
        }
    }

    #[test]
    fn halves_are_singles_of_the_same_value() {
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        // Panels of a vector and a part of one.
        let packing = Packing { row: 0, ahead: 0, panel_row: 52, next_row: 0, next_panel: 52, fills: 0 };
        let mut packed = vec![0f32; halves.len()];
        if is_x86_feature_detected!("f16c") {
            // SAFETY: the arrays have these sizes, and the processor the instructions.
            unsafe {
                halo_pack_rows_f16(&packing, halves.as_ptr().cast(), packed.as_mut_ptr().cast(), 1, 4 * halves.len());
            }
            for (bits, single) in halves.into_iter().zip(packed) {
                let half = half::f16::from_bits(bits);
                assert!(half.to_f32() == single || half.is_nan() && single.is_nan(), "{bits:x}: {single}");
                assert_eq!(half.is_sign_negative(), single.is_sign_negative(), "{bits:x}");
            }
        }
    }

    /// Packs columns of numbers in halves of either type, and compares them.
    fn check_conversion(pack: Pack, bits: fn(f32) -> u16, panel: usize) {
        for (rows, columns) in [(2 * panel + 3, 3 * panel + 5), (panel, panel), (3, 1)] {
            let value = |row: usize, column: usize| (row % 16 * 16 + column % 16 + 1) as f32;
            let matrix: Vec<u16> = (0..columns * rows).map(|place| bits(value(place % rows, place / rows))).collect();
            let (row, panel_row) = ((2 * rows) as isize, 4 * panel);
            let next_panel = rows * panel_row;
            let packing = Packing { row, ahead: 512, panel_row, next_row: panel_row, next_panel, fills: 1 };
            let mut packed = vec![9f32; columns.div_ceil(panel) * rows * panel];
            // SAFETY: the arrays have these sizes, and the processor the instructions.
            unsafe { pack(&packing, matrix.as_ptr().cast(), packed.as_mut_ptr().cast(), rows, columns) };
            for (place, &found) in packed.iter().enumerate() {
                let (row, column) = (place / panel % rows, place / (rows * panel) * panel + place % panel);
                let expected = if column < columns { value(row, column) } else { 0.0 };
                assert_eq!(found, expected, "{row}, {column} of {rows} x {columns}");
            }
        }
    }

    #[test]
    fn columns_are_converted() {
        let bf16 = |value| half::bf16::from_f32(value).to_bits();
        let f16 = |value| half::f16::from_f32(value).to_bits();
        if is_x86_feature_detected!("avx512f") {
            check_conversion(halo_pack_columns_bf16x16, bf16, 32);
            check_conversion(halo_pack_columns_f16x16, f16, 16);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
            check_conversion(halo_pack_columns_bf16x8, bf16, 16);
            check_conversion(halo_pack_columns_bf16x8, bf16, 8);
            check_conversion(halo_pack_columns_f16x8, f16, 16);
        }
    }

    #[test]
    fn elements_are_converted() {
        // Two rows of three elements in panels of two, of which the second one is filled up.
        let packing = Packing { row: 6, ahead: 0, panel_row: 8, next_row: 8, next_panel: 16, fills: 1 };
        let rows = [1u16, 2, 3, 4, 5, 6].map(|number| half::bf16::from_f32(f32::from(number)).to_bits());
        let mut packed = [9f32; 8];
        // SAFETY: the arrays have these sizes, as below.
        unsafe { halo_pack_rows_bf16(&packing, rows.as_ptr().cast(), packed.as_mut_ptr().cast(), 2, 12) };
        assert_eq!(packed, [1.0, 2.0, 4.0, 5.0, 3.0, 0.0, 6.0, 0.0]);
        // A step takes two rows of two columns.
        let packing = Packing { row: 4, ahead: 0, panel_row: 8, next_row: 8, next_panel: 8, fills: 1 };
        let mut packed = [9i16; 8];
        // SAFETY: as above.
        unsafe {
            halo_pack_pairs_s8(
                &packing,
                [-1i8, 2, -3, 4, 5, 6, 7, 8].as_ptr().cast(),
                packed.as_mut_ptr().cast(),
                2,
                8,
            );
        }
        assert_eq!(packed, [-1, -3, 2, 4, 5, 7, 6, 8]);
        // SAFETY: as above.
        unsafe {
            halo_pack_pairs_u8(&packing, [255u8, 2, 3, 4].as_ptr(), packed.as_mut_ptr().cast(), 1, 8);
        }
        assert_eq!(packed[..4], [255, 3, 2, 4]);
        let packing = Packing { row: 3, ahead: 0, panel_row: 8, next_row: 8, next_panel: 0, fills: 0 };
        let mut packed = [9i16; 4];
        // SAFETY: as above.
        unsafe { halo_pack_rows_s8(&packing, [-1i8, 2, -3].as_ptr().cast(), packed.as_mut_ptr().cast(), 1, 6) };
        assert_eq!(packed, [-1, 2, -3, 9]);
        // SAFETY: as above.
        unsafe { halo_pack_rows_u8(&packing, [255u8, 2, 3].as_ptr(), packed.as_mut_ptr().cast(), 1, 6) };
        assert_eq!(packed, [255, 2, 3, 9]);
        let mut packed = [9u8; 4];
        // SAFETY: as above.
        unsafe { halo_pack_rows_moved(&packing, [-1i8, 2, -128].as_ptr().cast(), packed.as_mut_ptr(), 1, 3) };
        assert_eq!(packed, [127, 130, 0, 9]);
    }

    /// A step takes four rows: of some columns, in panels of so many.
    #[test]
    fn rows_are_taken_by_fours() {
        for (columns, panel) in [(1_usize, 1), (3, 32), (16, 16), (40, 32), (95, 32), (33, 20)] {
            let rows: Vec<u8> = (0..8 * columns).map(|place| (place * 7 % 251) as u8).collect();
            let panels = columns.div_ceil(panel);
            let panel_row = 4 * panel;
            let packing = Packing {
                row: 4 * columns as isize,
                ahead: 0,
                panel_row,
                next_row: panel_row,
                next_panel: 2 * panel_row,
                fills: 1,
            };
            let mut packed = vec![9; panels * 2 * panel_row];
            // SAFETY: the arrays have these sizes.
            unsafe { halo_pack_fours_s8(&packing, rows.as_ptr(), packed.as_mut_ptr(), 2, 4 * columns) };
            for (place, &found) in packed.iter().enumerate() {
                let (number, step, lane) = (place / (2 * panel_row), place / panel_row % 2, place % panel_row);
                let column = number * panel + lane / 4;
                let there = column < columns;
                let expected = if there { rows[(4 * step + lane % 4) * columns + column] } else { 0 };
                assert_eq!(found, expected, "{columns} columns in panels of {panel}, at {place}");
            }
        }
    }

    #[test]
    fn what_is_missing_is_left_alone_where_nothing_fills_it() {
        let packing = Packing { row: 4, ahead: 0, panel_row: 3, next_row: 3, next_panel: 6, fills: 0 };
        let mut packed = [9; 12];
        // SAFETY: the arrays have these sizes.
        unsafe { halo_pack_rows(&packing, [1, 2, 3, 4, 5, 6, 7, 8].as_ptr(), packed.as_mut_ptr(), 2, 4) };
        assert_eq!(packed, [1, 2, 3, 5, 6, 7, 4, 9, 9, 8, 9, 9]);
    }
}
