//! Register tiles of products of matrices.
//!
//! Compiled code packs its operands and goes through blocks and panels; what it calls is the innermost part, a block of rows
//! of A times one panel of B. There is a function for each element type and vector width, `halo_product_f32x16` and so on. Those of words,
//! `halo_product_words_s32x8`, multiply pairs of integers of 16 bits, which are an element of 32 bits, and add both products to a sum;
//! those of bytes do so with four.

use super::product_vectors::{Bytes, SignedBytes, Whole, narrow, wide, wide_bytes, wide_words};
use std::arch::x86_64::{__m256, __m256d, __m256i, __m512, __m512d, __m512i};

/// How a block of rows lies in memory. Distances are in bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Distances {
    /// In A from one row of a tile to the next.
    pub a_row: isize,
    /// In A from one step to the next.
    pub a_step: isize,
    /// In A from the first row of a tile to that of the next.
    pub a_tile: isize,
    /// In A from the rows of a tile to those that are asked for beforehand, line by line; 0 if none are.
    pub a_ahead: isize,
    /// In A from one run of steps to the next.
    pub a_run: isize,
    /// In B from one step to the next; columns are neighbours.
    pub b_step: isize,
    /// In B from a panel to the one that is asked for beforehand, while tiles go through their own; 0 if none is.
    pub b_ahead: isize,
    /// In B from one run of steps to the next.
    pub b_run: isize,
    /// In C from one row to the next; columns are neighbours.
    pub c_row: isize,
    /// In B from a panel to a row of what sums begin with; 0 if that is nothing.
    pub b_start: isize,
    /// Rows of a tile; the last one may have fewer.
    pub tile_rows: usize,
    /// Runs of steps that each sum goes through.
    pub runs: usize,
}

/// A block of rows of A, a panel of B and where their product goes.
pub(super) struct Block<'d, T> {
    pub(super) distances: &'d Distances,
    pub(super) a: *const T,
    pub(super) b: *const T,
    pub(super) c: *mut T,
    pub(super) rows: usize,
    /// Columns of the panel, at most two vectors.
    pub(super) columns: usize,
    /// Terms of each sum in a run.
    pub(super) steps: usize,
    /// Whether the sums are added to what C holds.
    pub(super) adds: bool,
}

macro_rules! tile_function {
    ($symbol:ident, $element:ty, $multiply:expr) => {
        /// Multiplies `rows` rows of A by a panel of B of `columns` columns: `steps` terms of each sum in each run, which are added
        /// to what C holds if this is not the first of several blocks of terms.
        ///
        /// # Safety
        /// The processor has the function's instructions. As many elements of A and B can be read, and of C read and written,
        /// and nobody else writes them.
        #[allow(clippy::too_many_arguments, reason = "what compiled code knows when it runs")]
        pub unsafe extern "C" fn $symbol(
            distances: *const Distances,
            a: *const $element,
            b: *const $element,
            c: *mut $element,
            rows: usize,
            columns: usize,
            steps: usize,
            block: usize,
        ) {
            // SAFETY: compiled code has the distances as a constant; the rest is as the caller promises.
            unsafe { $multiply(&Block { distances: &*distances, a, b, c, rows, columns, steps, adds: block > 0 }) }
        }
    };
}

tile_function!(halo_product_f32x16, f32, wide::multiply::<__m512>);
tile_function!(halo_product_f64x8, f64, wide::multiply::<__m512d>);
tile_function!(halo_product_s32x16, i32, wide::multiply::<Whole<__m512i>>);
tile_function!(halo_product_words_s32x16, i32, wide_words::multiply::<__m512i>);
tile_function!(halo_product_f32x8, f32, narrow::multiply::<__m256>);
tile_function!(halo_product_f64x4, f64, narrow::multiply::<__m256d>);
tile_function!(halo_product_bytes_s32x16, i32, wide_bytes::multiply::<Bytes<__m512i>>);
tile_function!(halo_product_signed_bytes_s32x16, i32, wide_bytes::multiply::<SignedBytes<__m512i>>);
tile_function!(halo_product_s32x8, i32, narrow::multiply::<Whole<__m256i>>);
tile_function!(halo_product_words_s32x8, i32, narrow::multiply::<__m256i>);

#[cfg(test)]
mod tests {
    use super::super::packing::{Packing, halo_pack_fours_s8};
    use super::super::product_vectors::halo_pack_surplus_s32x16;
    use super::*;

    type Function<T> = unsafe extern "C" fn(*const Distances, *const T, *const T, *mut T, usize, usize, usize, usize);

    /// Compares a function with sums of whole numbers, which are exact, for all sizes of tiles.
    fn check<T: Copy + PartialEq + std::fmt::Debug + From<i8>>(function: Function<T>, lanes: usize, most_rows: usize) {
        let value = |index: usize| ((index * 7 + index / 5) % 11) as i8 - 5;
        let (runs, in_run, distance) = (2, 3, 2 * lanes + 3);
        let steps = runs * in_run;
        for tile_rows in 1..=most_rows {
            for rows in [tile_rows, 2 * tile_rows - 1] {
                for columns in 1..=2 * lanes {
                    let numbers = |count: usize| (0..count).map(value).collect::<Vec<i8>>();
                    let (a, b, c) = (numbers(rows * steps), numbers(steps * distance), numbers(rows * distance));
                    let typed = |numbers: &[i8]| numbers.iter().map(|&number| T::from(number)).collect::<Vec<T>>();
                    let a_row = (steps * size_of::<T>()) as isize;
                    let [b_step, c_row] = [(distance * size_of::<T>()) as isize; 2];
                    let (a_step, a_tile) = (size_of::<T>() as isize, a_row * tile_rows as isize);
                    let [a_run, b_run] = [a_step, b_step].map(|step| step * in_run as isize);
                    let distances = Distances {
                        a_row,
                        a_step,
                        a_tile,
                        a_ahead: a_tile,
                        a_run,
                        b_step,
                        b_ahead: b_step,
                        b_run,
                        c_row,
                        b_start: 0,
                        tile_rows,
                        runs,
                    };
                    for adds in [false, true] {
                        let [of_a, of_b, mut result] = [&a, &b, &c].map(|numbers| typed(numbers));
                        // SAFETY: the arrays have these sizes, and the processor the instructions.
                        unsafe {
                            function(
                                &distances,
                                of_a.as_ptr(),
                                of_b.as_ptr(),
                                result.as_mut_ptr(),
                                rows,
                                columns,
                                in_run,
                                usize::from(adds),
                            );
                        }
                        let expected: Vec<i8> = (0..rows * distance)
                            .map(|index| match (index / distance, index % distance) {
                                (_, column) if column >= columns => c[index],
                                (row, column) => {
                                    let terms = (0..steps).map(|k| a[row * steps + k] * b[k * distance + column]);
                                    let sum: i32 = terms.map(i32::from).sum();
                                    // Sums of these few small terms need not be bytes; they are compared as such.
                                    (sum + if adds { i32::from(c[index]) } else { 0 }) as i8
                                }
                            })
                            .collect();
                        assert_eq!(result, typed(&expected), "{rows} rows by {tile_rows}, {columns} columns");
                    }
                }
            }
        }
    }

    /// Signed bytes by signed ones: rows of A that are moved in the tile, or were before, and a panel of B with what that adds.
    #[test]
    fn tiles_multiply_bytes() {
        if !is_x86_feature_detected!("avx512vnni") || !is_x86_feature_detected!("avx512bw") {
            return;
        }
        const STEPS: usize = 5;
        const PANEL: usize = 32;
        for (rows, columns) in [(1, 1), (14, 32), (9, 16), (17, 27)] {
            let a = |row: usize, term: usize| ((row * 91 + term * 37) % 256) as u8 as i8;
            let b = |term: usize, column: usize| ((term * 53 + column * 29 + 5) % 256) as u8 as i8;
            let of_a: Vec<i8> =
                (0..rows * 4 * STEPS).map(|place| a(place / (4 * STEPS), place % (4 * STEPS))).collect();
            let moved: Vec<i8> = of_a.iter().map(|&byte| byte ^ i8::MIN).collect();
            let of_b: Vec<i8> = (0..4 * STEPS * columns).map(|place| b(place / columns, place % columns)).collect();
            let panel_row = 4 * PANEL;
            let packing = Packing {
                row: 4 * columns as isize,
                ahead: 0,
                panel_row,
                next_row: panel_row,
                next_panel: (STEPS + 1) * panel_row,
                fills: 1,
            };
            let mut panel = vec![0_i32; (STEPS + 1) * PANEL];
            let behind = Packing { row: (STEPS * panel_row) as isize, ..packing };
            let distances = Distances {
                a_row: 4 * STEPS as isize,
                a_step: 4,
                a_tile: 14 * 4 * STEPS as isize,
                a_ahead: 0,
                a_run: 0,
                b_step: panel_row as isize,
                b_ahead: 0,
                b_run: 0,
                c_row: 4 * columns as isize,
                b_start: behind.row,
                tile_rows: 14,
                runs: 1,
            };
            let to = panel.as_mut_ptr().cast::<u8>();
            // SAFETY: the arrays have these sizes, and the processor the instructions, as below.
            unsafe {
                halo_pack_fours_s8(&packing, of_b.as_ptr().cast(), to, STEPS, 4 * columns);
                halo_pack_surplus_s32x16(&behind, to, STEPS, columns);
            }
            let expected: Vec<i32> = (0..rows * columns)
                .map(|place| {
                    let terms = (0..4 * STEPS)
                        .map(|term| i32::from(a(place / columns, term)) * i32::from(b(term, place % columns)));
                    terms.sum()
                })
                .collect();
            for (function, of_a) in [
                (halo_product_signed_bytes_s32x16 as Function<i32>, &of_a),
                (halo_product_bytes_s32x16 as Function<i32>, &moved),
            ] {
                let mut c = vec![0; rows * columns];
                let a = of_a.as_ptr().cast();
                // SAFETY: as above.
                unsafe { function(&distances, a, panel.as_ptr(), c.as_mut_ptr(), rows, columns, STEPS, 0) };
                assert_eq!(c, expected, "{rows} rows, {columns} columns");
            }
        }
    }

    #[test]
    fn tiles_are_products() {
        if is_x86_feature_detected!("avx512f") {
            check::<f32>(halo_product_f32x16, 16, 14);
            check::<f64>(halo_product_f64x8, 8, 14);
            check::<i32>(halo_product_s32x16, 16, 14);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            check::<f32>(halo_product_f32x8, 8, 6);
            check::<f64>(halo_product_f64x4, 4, 6);
            check::<i32>(halo_product_s32x8, 8, 6);
        }
    }
}
