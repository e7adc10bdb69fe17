//! The register tiles of products in vectors of AVX-512 (`wide`; `wide_words` of integers) and AVX2 (`narrow`).
//!
//! A vector of integers holds pairs of words of 16 bits, whose products are added to sums of 32 bits; [`Whole`] has whole numbers of 32,
//! [`Bytes`] four bytes in each lane, unsigned ones of A and signed ones of B, and [`SignedBytes`] signed ones of both.

use std::arch::{asm, x86_64::*};

use super::packing::Packing;
use super::products::Block;

/// A vector. Its functions become instructions only where they are inlined into one that has the processor's features.
pub(super) trait Vector: Copy {
    type Element: Copy + 'static;
    /// Which lanes are there.
    type Lanes: Copy;

    const LANES: usize;

    unsafe fn zero() -> Self;
    unsafe fn broadcast(element: *const Self::Element) -> Self;
    unsafe fn load(from: *const Self::Element) -> Self;
    unsafe fn store(self, to: *mut Self::Element);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn multiply_add(self, other: Self, sum: Self) -> Self;
    /// The first `count` lanes.
    unsafe fn first(count: usize) -> Self::Lanes;
    unsafe fn load_part(from: *const Self::Element, lanes: Self::Lanes) -> Self;
    unsafe fn store_part(self, to: *mut Self::Element, lanes: Self::Lanes);
}

macro_rules! vector {
    ($vector:ty, $element:ty, $lanes:ty, $count:literal, $zero:expr, $broadcast:expr, $load:expr, $store:expr, $add:expr,
     $multiply_add:expr, $first:expr, $load_part:expr, $store_part:expr) => {
        impl Vector for $vector {
            type Element = $element;
            type Lanes = $lanes;

            const LANES: usize = $count;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller has the feature, here and below.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn broadcast(element: *const $element) -> Self {
                // SAFETY: the element can be read, says the caller.
                unsafe { $broadcast(*element) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $element) -> Self {
                // SAFETY: all lanes can be read, says the caller.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: all lanes can be written, says the caller.
                unsafe { $store(to.cast(), self) }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: arithmetic.
                unsafe { $add(self, other) }
            }

            #[inline(always)]
            unsafe fn multiply_add(self, other: Self, sum: Self) -> Self {
                // SAFETY: arithmetic.
                unsafe { $multiply_add(self, other, sum) }
            }

            #[inline(always)]
            unsafe fn first(count: usize) -> $lanes {
                // SAFETY: arithmetic.
                unsafe { $first(count) }
            }

            #[inline(always)]
            unsafe fn load_part(from: *const $element, lanes: $lanes) -> Self {
                // SAFETY: these lanes can be read, says the caller.
                unsafe { $load_part(from, lanes) }
            }

            #[inline(always)]
            unsafe fn store_part(self, to: *mut $element, lanes: $lanes) {
                // SAFETY: these lanes can be written, says the caller.
                unsafe { $store_part(to, self, lanes) }
            }
        }
    };
}

vector!(
    __m512,
    f32,
    __mmask16,
    16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_fmadd_ps,
    |count: usize| _cvtu32_mask16((1 << count) - 1),
    |from, lanes| _mm512_maskz_loadu_ps(lanes, from),
    |to, vector, lanes| _mm512_mask_storeu_ps(to, lanes, vector)
);
vector!(
    __m512d,
    f64,
    __mmask8,
    8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_add_pd,
    _mm512_fmadd_pd,
    |count: usize| _cvtu32_mask16((1 << count) - 1) as __mmask8,
    |from, lanes| _mm512_maskz_loadu_pd(lanes, from),
    |to, vector, lanes| _mm512_mask_storeu_pd(to, lanes, vector)
);
vector!(
    __m256,
    f32,
    __m256i,
    8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_add_ps,
    _mm256_fmadd_ps,
    |count: usize| { _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) },
    |from, lanes| _mm256_maskload_ps(from, lanes),
    |to, vector, lanes| _mm256_maskstore_ps(to, lanes, vector)
);
vector!(
    __m256d,
    f64,
    __m256i,
    4,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_add_pd,
    _mm256_fmadd_pd,
    |count: usize| _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3)),
    |from, lanes| _mm256_maskload_pd(from, lanes),
    |to, vector, lanes| _mm256_maskstore_pd(to, lanes, vector)
);

vector!(
    __m512i,
    i32,
    __mmask16,
    16,
    _mm512_setzero_si512,
    _mm512_set1_epi32,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_add_epi32,
    |a, b, sum| _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)),
    |count: usize| _cvtu32_mask16((1 << count) - 1),
    |from, lanes| _mm512_maskz_loadu_epi32(lanes, from),
    |to, vector, lanes| _mm512_mask_storeu_epi32(to, lanes, vector)
);
vector!(
    __m256i,
    i32,
    __m256i,
    8,
    _mm256_setzero_si256,
    _mm256_set1_epi32,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_add_epi32,
    |a, b, sum| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)),
    |count: usize| { _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) },
    |from, lanes| _mm256_maskload_epi32(from, lanes),
    |to, vector, lanes| _mm256_maskstore_epi32(to, lanes, vector)
);

/// A vector of integers of 32 bits each, products of which are as wide.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Whole<V>(V);

/// A vector of four bytes for each sum of 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bytes<V>(V);

/// The same, where those of A are signed: they are multiplied as unsigned ones, 128 more.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct SignedBytes<V>(V);

vector!(
    Whole<__m512i>,
    i32,
    __mmask16,
    16,
    || Whole(_mm512_setzero_si512()),
    |element| Whole(_mm512_set1_epi32(element)),
    |from| Whole(_mm512_loadu_si512(from)),
    |to, own: Self| _mm512_storeu_si512(to, own.0),
    |a: Self, b: Self| Whole(_mm512_add_epi32(a.0, b.0)),
    |a: Self, b: Self, sum: Self| Whole(_mm512_add_epi32(sum.0, _mm512_mullo_epi32(a.0, b.0))),
    |count: usize| _cvtu32_mask16((1 << count) - 1),
    |from, lanes| Whole(_mm512_maskz_loadu_epi32(lanes, from)),
    |to, own: Self, lanes| _mm512_mask_storeu_epi32(to, lanes, own.0)
);
vector!(
    Whole<__m256i>,
    i32,
    __m256i,
    8,
    || Whole(_mm256_setzero_si256()),
    |element| Whole(_mm256_set1_epi32(element)),
    |from| Whole(_mm256_loadu_si256(from)),
    |to, own: Self| _mm256_storeu_si256(to, own.0),
    |a: Self, b: Self| Whole(_mm256_add_epi32(a.0, b.0)),
    |a: Self, b: Self, sum: Self| Whole(_mm256_add_epi32(sum.0, _mm256_mullo_epi32(a.0, b.0))),
    |count: usize| { _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) },
    |from, lanes| Whole(_mm256_maskload_epi32(from, lanes)),
    |to, own: Self, lanes| _mm256_maskstore_epi32(to, lanes, own.0)
);

macro_rules! vector_of_bytes {
    ($vector:ident, $broadcast:expr) => {
        vector!(
            $vector<__m512i>,
            i32,
            __mmask16,
            16,
            || $vector(_mm512_setzero_si512()),
            $broadcast,
            |from| $vector(_mm512_loadu_si512(from)),
            |to, own: Self| _mm512_storeu_si512(to, own.0),
            |a: Self, b: Self| $vector(_mm512_add_epi32(a.0, b.0)),
            |a: Self, b: Self, sum: Self| $vector(_mm512_dpbusd_epi32(sum.0, a.0, b.0)),
            |count: usize| _cvtu32_mask16((1 << count) - 1),
            |from, lanes| $vector(_mm512_maskz_loadu_epi32(lanes, from)),
            |to, own: Self, lanes| _mm512_mask_storeu_epi32(to, lanes, own.0)
        );
    };
}

vector_of_bytes!(Bytes, |element| Bytes(_mm512_set1_epi32(element)));
vector_of_bytes!(SignedBytes, |element| SignedBytes(_mm512_xor_si512(
    broadcast_first(element),
    _mm512_set1_epi8(i8::MIN)
)));

/// An element in all lanes, of which the compiler does not see that they are the same: it would move the one and then broadcast a
/// register, by the unit that multiplies.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast_first(element: i32) -> __m512i {
    let mut lanes = _mm512_set1_epi32(element);
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {0} */", inout(zmm_reg) lanes, options(pure, nomem, nostack, preserves_flags)) };
    lanes
}

/// Has the sums of panels of products of signed bytes begin with what they have too much if all bytes of A are 128 more, less than zero:
/// so many bytes, the distance of rows of the packing, behind the first of the `steps` rows of each panel.
///
/// # Safety
/// The processor has the instructions. The panels can be read, and a row behind them be written, and nobody else writes them.
#[target_feature(enable = "avx512vnni,avx512bw")]
pub unsafe extern "C" fn halo_pack_surplus_s32x16(
    packing: *const Packing,
    panels: *mut u8,
    steps: usize,
    columns: usize,
) {
    // SAFETY: compiled code has the packing as a constant; the rest is as the caller promises.
    unsafe {
        let Packing { row: behind, panel_row, next_row, next_panel, .. } = *packing;
        for number in 0..columns.div_ceil(panel_row / size_of::<i32>()) {
            let panel = panels.add(number * next_panel);
            for part in (0..panel_row).step_by(LINE_BYTES) {
                let row = |row: usize| panel.add(row * next_row + part).cast::<__m512i>();
                let mut sums = _mm512_setzero_si512();
                for step in 0..steps {
                    sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(i8::MIN), _mm512_loadu_si512(row(step).cast()));
                }
                let surplus = _mm512_sub_epi32(_mm512_setzero_si512(), sums);
                _mm512_storeu_si512(panel.offset(behind + part as isize).cast(), surplus);
            }
        }
    }
}

/// Does something for each of some numbers below a constant: those above are no code. Loops are not always unrolled, and iterators
/// are several times as much code for the compiler, for each of the hundreds of tiles.
macro_rules! for_each {
    ($item:ident in [$($number:literal)*] < $count:expr, $body:block) => {
        $(if const { $number < $count } {
            let $item = $number;
            $body
        })*
    };
}

/// Does something for each row of a tile.
macro_rules! for_each_row {
    ($row:ident < $rows:ident, $body:block) => {
        for_each!($row in [0 1 2 3 4 5 6 7 8 9 10 11 12 13] < $rows, $body)
    };
}

/// Does something for each vector of a row.
macro_rules! for_each_vector {
    ($vector:ident < $vectors:ident, $body:block) => {
        for_each!($vector in [0 1] < $vectors, $body)
    };
}

/// Does something for each pointer to rows of a tile.
macro_rules! for_each_pointer {
    ($pointer:ident < $rows:ident, $body:block) => {
        for_each!($pointer in [0 1 2 3 4] < $rows.div_ceil(ROWS_OF_POINTER), $body)
    };
}

/// Rows of a tile that one pointer reaches: an address may add a distance once or twice.
const ROWS_OF_POINTER: usize = 3;

/// A pointer of which the compiler does not see where it comes from: it would compute the rows' addresses from each other, one
/// after the other, which takes longer than the multiplications.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
fn apart<T>(mut pointer: *const T) -> *const T {
    // SAFETY: there is no instruction.
    unsafe { asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags)) };
    pointer
}

/// Bytes that come into a cache together.
pub(super) const LINE_BYTES: usize = 64;

/// Asks for what is soon read, or read and written.
#[inline(always)]
fn prefetch<T>(place: *const T) {
    // SAFETY: any address may be asked for.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
}

/// Asks for what is read later, into the second-level cache.
#[inline(always)]
fn prefetch_far<T>(place: *const T) {
    // SAFETY: any address may be asked for.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) }
}

/// Rows from which on tiles of whole lines ask for a line a step: for all rows at once, they would wait for the lines of B.
const LEAST_ROWS_SPREAD: usize = 8;

/// Steps between asking for a row of B and using it, in such tiles.
const STEPS_AHEAD: isize = 8;

/// What of the next panel a tile asks for.
#[derive(Clone, Copy)]
struct Ahead<E> {
    place: *const E,
    rows: usize,
    /// Rows for each line of A.
    at_once: usize,
}

impl<E: Copy> Ahead<E> {
    /// The part of the first tile of a block: each has as much.
    fn of(block: &Block<E>) -> Self {
        let distances = block.distances;
        let tiles = block.rows.div_ceil(distances.tile_rows.max(1)).max(1);
        let rows = if distances.b_ahead == 0 { 0 } else { block.steps.div_ceil(tiles) };
        let lines = (block.steps * size_of::<E>()).div_ceil(LINE_BYTES).max(1);
        Ahead { place: block.b.wrapping_byte_offset(distances.b_ahead), rows, at_once: rows.div_ceil(lines) }
    }
}

/// One tile, whose last vector has only some columns if it is a `PART`.
#[inline(always)]
unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize, const PART: bool>(
    block: &Block<V::Element>,
    a: *const V::Element,
    c: *mut V::Element,
    mut ahead: Ahead<V::Element>,
) {
    // SAFETY: all elements are of the block, in which the caller says where the tile begins.
    unsafe {
        let distances = *block.distances;
        let lanes = V::first(block.columns - (VECTORS - 1) * V::LANES);
        let is_part = |vector: usize| PART && vector + 1 == VECTORS;
        let start = block.b.wrapping_byte_offset(distances.b_start);
        let mut before = [V::zero(); VECTORS];
        if distances.b_start != 0 {
            for_each_vector!(vector < VECTORS, { before[vector] = V::load(start.add(vector * V::LANES)) });
        }
        let mut sums = [before; ROWS];
        for_each_row!(row < ROWS, {
            let c = c.wrapping_byte_offset(row as isize * distances.c_row);
            for_each_vector!(vector < VECTORS, { prefetch(c.wrapping_add(vector * V::LANES)) });
        });
        let steps_of_line = LINE_BYTES / size_of::<V::Element>();
        let spreads = size_of::<V>() == LINE_BYTES && ROWS >= LEAST_ROWS_SPREAD;
        let (mut first, mut panel) = (a, block.b);
        for _ in 0..distances.runs {
            let mut rows = [first; 5];
            for_each_pointer!(pointer < ROWS, {
                let distance = (ROWS_OF_POINTER * pointer) as isize * distances.a_row;
                rows[pointer] = apart(first.wrapping_byte_offset(distance));
            });
            let mut next = first.wrapping_byte_offset(distances.a_ahead);
            let mut b = panel;
            let mut left = block.steps;
            while left > 0 {
                let mut row_ahead = next;
                if distances.a_ahead != 0 {
                    if !spreads {
                        for_each_row!(row < ROWS, {
                            prefetch(next.wrapping_byte_offset(row as isize * distances.a_row));
                        });
                    }
                    next = next.wrapping_byte_offset(LINE_BYTES as isize);
                }
                let steps = left.min(steps_of_line);
                let rows_ahead = ahead.rows.min(ahead.at_once);
                ahead.rows -= rows_ahead;
                for _ in 0..rows_ahead {
                    for_each_vector!(vector < VECTORS, { prefetch_far(ahead.place.wrapping_add(vector * V::LANES)) });
                    ahead.place = ahead.place.wrapping_byte_offset(distances.b_step);
                }
                left -= steps;
                for _ in 0..steps {
                    if spreads {
                        for _ in 0..ROWS.div_ceil(steps_of_line) {
                            prefetch(row_ahead);
                            row_ahead = row_ahead.wrapping_byte_offset(distances.a_row);
                        }
                        let later = b.wrapping_byte_offset(STEPS_AHEAD * distances.b_step);
                        for_each_vector!(vector < VECTORS, { prefetch(later.wrapping_add(vector * V::LANES)) });
                    }
                    let mut columns = [V::zero(); VECTORS];
                    for_each_vector!(vector < VECTORS, {
                        let b = b.wrapping_add(vector * V::LANES);
                        columns[vector] = if is_part(vector) { V::load_part(b, lanes) } else { V::load(b) };
                    });
                    for_each_row!(row < ROWS, {
                        let distance = (row % ROWS_OF_POINTER) as isize * distances.a_row;
                        let factor = V::broadcast(rows[row / ROWS_OF_POINTER].wrapping_byte_offset(distance));
                        for_each_vector!(vector < VECTORS, {
                            sums[row][vector] = factor.multiply_add(columns[vector], sums[row][vector]);
                        });
                    });
                    for_each_pointer!(pointer < ROWS, {
                        rows[pointer] = apart(rows[pointer].wrapping_byte_offset(distances.a_step));
                    });
                    b = b.wrapping_byte_offset(distances.b_step);
                }
            }
            first = first.wrapping_byte_offset(distances.a_run);
            panel = panel.wrapping_byte_offset(distances.b_run);
        }
        for_each_row!(row < ROWS, {
            let c = c.byte_offset(row as isize * distances.c_row);
            for_each_vector!(vector < VECTORS, {
                let c = c.add(vector * V::LANES);
                let mut sum = sums[row][vector];
                if block.adds {
                    sum = sum.add(if is_part(vector) { V::load_part(c, lanes) } else { V::load(c) });
                }
                if is_part(vector) { sum.store_part(c, lanes) } else { sum.store(c) }
            });
        });
    }
}

/// The functions for vectors with some features of the processor.
macro_rules! in_vectors {
    ($module:ident, $feature:literal, [$($rows:literal)*]) => {
        pub(super) mod $module {
            use super::{Ahead, Block, Vector, tile};

            type Tile<E> = unsafe fn(&Block<E>, *const E, *mut E, Ahead<E>);

            #[target_feature(enable = $feature)]
            unsafe fn one<V: Vector, const ROWS: usize, const VECTORS: usize, const PART: bool>(
                block: &Block<V::Element>,
                a: *const V::Element,
                c: *mut V::Element,
                ahead: Ahead<V::Element>,
            ) {
                // SAFETY: as the caller says.
                unsafe { tile::<V, ROWS, VECTORS, PART>(block, a, c, ahead) }
            }

            /// The tiles of one row and more.
            const fn by_rows<V: Vector, const VECTORS: usize, const PART: bool>() -> &'static [Tile<V::Element>] {
                &[$(one::<V, $rows, VECTORS, PART>),*]
            }

            /// Multiplies a block of rows of A by a panel of B.
            ///
            /// # Safety
            /// The processor has the features, and the elements of the block are there.
            pub(in super::super) unsafe fn multiply<V: Vector>(block: &Block<V::Element>) {
                let vectors = block.columns.div_ceil(V::LANES);
                let tiles = match (vectors, block.columns % V::LANES) {
                    (1, 0) => by_rows::<V, 1, false>(),
                    (1, _) => by_rows::<V, 1, true>(),
                    (_, 0) => by_rows::<V, 2, false>(),
                    _ => by_rows::<V, 2, true>(),
                };
                let distances = block.distances;
                let (mut a, mut c) = (block.a, block.c);
                let mut rows = block.rows;
                let mut ahead = Ahead::of(block);
                while rows > 0 {
                    let count = rows.min(distances.tile_rows);
                    let Some(tile) = tiles.get(count.wrapping_sub(1)) else { return };
                    // SAFETY: the tile is of the block.
                    unsafe { tile(block, a, c, ahead) };
                    ahead.place = ahead.place.wrapping_byte_offset(ahead.rows as isize * distances.b_step);
                    a = a.wrapping_byte_offset(distances.a_tile);
                    c = c.wrapping_byte_offset(count as isize * distances.c_row);
                    rows -= count;
                }
            }
        }
    };
}

in_vectors!(wide, "avx512f", [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
in_vectors!(wide_bytes, "avx512vnni,avx512bw", [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
in_vectors!(wide_words, "avx512bw", [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
in_vectors!(narrow, "avx2,fma", [1 2 3 4 5 6]);
