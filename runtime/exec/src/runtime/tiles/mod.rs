//! Tiles of work that compiled code calls, compiled beforehand: emitted anew they would be most of the code of many programs.
//!
//! They work on registers of vectors, so there is a function for each width of these, and a processor has those of the
//! features that it has.

#[cfg(target_arch = "x86_64")]
mod packing;
#[cfg(target_arch = "x86_64")]
mod product_vectors;
#[cfg(target_arch = "x86_64")]
mod products;
#[cfg(target_arch = "x86_64")]
mod transposes;
#[cfg(target_arch = "x86_64")]
mod weights;

use crate::jit::Symbol;

/// Bits of the widest vectors that there are tiles for on a processor, of whose features, by LLVM's names, is told which it has; 0
/// if there are none.
pub fn widest_vector_bits(has_feature: impl Fn(&str) -> bool) -> u32 {
    if has_feature("avx512f") {
        512
    } else if has_feature("avx2") && has_feature("fma") {
        256
    } else {
        0
    }
}

/// The functions of this processor.
#[cfg(target_arch = "x86_64")]
pub(super) fn symbols() -> impl Iterator<Item = Symbol<'static>> {
    let wide: [Symbol<'static>; 13] = [
        ("halo_pack_columns_32x16", packing::halo_pack_columns_32x16 as *const ()),
        ("halo_pack_columns_64x8", packing::halo_pack_columns_64x8 as *const ()),
        ("halo_pack_columns_bf16x16", packing::halo_pack_columns_bf16x16 as *const ()),
        ("halo_pack_columns_f16x16", packing::halo_pack_columns_f16x16 as *const ()),
        ("halo_product_f32x16", products::halo_product_f32x16 as *const ()),
        ("halo_product_f64x8", products::halo_product_f64x8 as *const ()),
        ("halo_product_s32x16", products::halo_product_s32x16 as *const ()),
        ("halo_product_words_s32x16", products::halo_product_words_s32x16 as *const ()),
        ("halo_transpose_32x16", transposes::halo_transpose_32x16 as *const ()),
        ("halo_transpose_squares_32x16", transposes::halo_transpose_squares_32x16 as *const ()),
        ("halo_transpose_64x8", transposes::halo_transpose_64x8 as *const ()),
        ("halo_transpose_squares_64x8", transposes::halo_transpose_squares_64x8 as *const ()),
        ("halo_weigh_f32x16", weights::halo_weigh_f32x16 as *const ()),
    ];
    let narrow: [Symbol<'static>; 24] = [
        ("halo_pack_rows", packing::halo_pack_rows as *const ()),
        ("halo_pack_rows_bf16", packing::halo_pack_rows_bf16 as *const ()),
        ("halo_pack_rows_f16", packing::halo_pack_rows_f16 as *const ()),
        ("halo_pack_rows_s8", packing::halo_pack_rows_s8 as *const ()),
        ("halo_pack_rows_u8", packing::halo_pack_rows_u8 as *const ()),
        ("halo_pack_rows_moved", packing::halo_pack_rows_moved as *const ()),
        ("halo_pack_fours_s8", packing::halo_pack_fours_s8 as *const ()),
        ("halo_pack_pairs_s8", packing::halo_pack_pairs_s8 as *const ()),
        ("halo_pack_pairs_u8", packing::halo_pack_pairs_u8 as *const ()),
        ("halo_pack_columns_32x8", packing::halo_pack_columns_32x8 as *const ()),
        ("halo_pack_columns_64x4", packing::halo_pack_columns_64x4 as *const ()),
        ("halo_pack_columns_bf16x8", packing::halo_pack_columns_bf16x8 as *const ()),
        ("halo_pack_columns_f16x8", packing::halo_pack_columns_f16x8 as *const ()),
        ("halo_product_f32x8", products::halo_product_f32x8 as *const ()),
        ("halo_product_f64x4", products::halo_product_f64x4 as *const ()),
        ("halo_product_s32x8", products::halo_product_s32x8 as *const ()),
        ("halo_product_words_s32x8", products::halo_product_words_s32x8 as *const ()),
        ("halo_transpose_32x8", transposes::halo_transpose_32x8 as *const ()),
        ("halo_transpose_squares_32x8", transposes::halo_transpose_squares_32x8 as *const ()),
        ("halo_transpose_block_32x8", transposes::halo_transpose_block_32x8 as *const ()),
        ("halo_transpose_block_64x4", transposes::halo_transpose_block_64x4 as *const ()),
        ("halo_transpose_64x4", transposes::halo_transpose_64x4 as *const ()),
        ("halo_transpose_squares_64x4", transposes::halo_transpose_squares_64x4 as *const ()),
        ("halo_weigh_f32x8", weights::halo_weigh_f32x8 as *const ()),
    ];
    let of_bytes: [Symbol<'static>; 3] = [
        ("halo_pack_surplus_s32x16", product_vectors::halo_pack_surplus_s32x16 as *const ()),
        ("halo_product_bytes_s32x16", products::halo_product_bytes_s32x16 as *const ()),
        ("halo_product_signed_bytes_s32x16", products::halo_product_signed_bytes_s32x16 as *const ()),
    ];
    let has_wide = is_x86_feature_detected!("avx512f");
    // Every processor with AVX2 has the conversions of f16 too.
    let has_narrow =
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    let has_bytes = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw");
    let narrow = narrow.into_iter().filter(move |_| has_narrow);
    wide.into_iter().filter(move |_| has_wide).chain(narrow).chain(of_bytes.into_iter().filter(move |_| has_bytes))
}

/// What transposes a square from one place to another, whose rows are some bytes apart.
pub(super) type Square = unsafe extern "C" fn(from: *const u8, from_row: isize, to: *mut u8, to_row: isize);

/// Squares of eight by eight elements of 64 bits, if this processor has such.
pub(super) fn square_of_eight() -> Option<Square> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        return Some(transposes::halo_transpose_64x8);
    } else if is_x86_feature_detected!("avx2") {
        return Some(transposes::square_of_8_by_quarters);
    }
    None
}

/// Squares of sixteen by sixteen elements of 32 bits, if this processor has such.
pub(super) fn square_of_sixteen() -> Option<Square> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        return Some(transposes::halo_transpose_32x16);
    } else if is_x86_feature_detected!("avx2") {
        return Some(transposes::square_of_16_by_quarters);
    }
    None
}

/// The functions of this processor: none.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn symbols() -> impl Iterator<Item = Symbol<'static>> {
    std::iter::empty()
}
