//! The weights of an attention: a block of rows of logits becomes exponentials, the sums so far are scaled down where a row has a
//! larger logit than all before.
//!
//! Compiled code multiplies queries by keys before and weights by values behind. There is a function for each vector width,
//! `halo_weigh_f32x16` and `halo_weigh_f32x8`.

use std::arch::x86_64::*;

use super::product_vectors::Vector;

/// How the rows lie in memory. Distances are in bytes.
#[repr(C)]
pub struct WeighedRows {
    /// From the logits of one row to those of the next. Behind each row is room for a vector.
    pub logit_row: isize,
    /// From the sums of one row to those of the next.
    pub sum_row: isize,
    /// Sums of a row; there is room for whole vectors.
    pub features: usize,
    /// Whether weights are rounded to `bf16`. The sum of a row is that of weights that are not.
    pub are_bf16: usize,
}

/// A vector of floats.
trait Floats: Vector<Element = f32> {
    unsafe fn subtract(self, other: Self) -> Self;
    unsafe fn multiply(self, other: Self) -> Self;
    /// The larger one; `other` if one of them is NaN.
    unsafe fn larger(self, other: Self) -> Self;
    /// The smaller one; `other` if one of them is NaN.
    unsafe fn smaller(self, other: Self) -> Self;
    /// This times two to the power of a whole number, which is given plus [`ROUNDING_SHIFT`].
    unsafe fn scale(self, shifted: Self) -> Self;
    /// This, but 0 where `x` is less than a bound.
    unsafe fn zero_where_less(self, x: Self, bound: Self) -> Self;
    /// Rounded to the nearest `bf16`.
    unsafe fn rounded(self) -> Self;
    unsafe fn largest_lane(self) -> f32;
    unsafe fn sum_of_lanes(self) -> f32;
}

/// Added to a number it puts the nearest integer, plus twice the bias of exponents, into the low bits of the mantissa.
const ROUNDING_SHIFT: f32 = 12_582_912.0 + 254.0;

/// ln 2 in two floats, the first with enough zeros at its end for exact products.
const LN_2: [f32; 2] = [0.693_145_75, 1.428_606_8e-6];

/// exp(x) for |x| up to ln 2 / 2.
const POWER: [f32; 7] = [1.378_059_4e-3, 8.373_124_5e-3, 4.166_953_6e-2, 1.666_647_2e-1, 0.499_999_85, 1.0, 1.0];

/// Arguments whose power is a normal number, but for the last ones, which are infinite.
const DOMAIN: [f32; 2] = [-87.336_54, 104.0];

/// Vectors that are compared side by side: a comparison waits for the one before.
const AT_ONCE: usize = 4;

macro_rules! floats {
    ($vector:ty, $subtract:ident, $multiply:ident, $larger:ident, $smaller:ident, { $($own:tt)* }) => {
        impl Floats for $vector {
            #[inline(always)]
            unsafe fn subtract(self, other: Self) -> Self {
                // SAFETY: the caller has the feature; arithmetic, here and below.
                unsafe { $subtract(self, other) }
            }

            #[inline(always)]
            unsafe fn multiply(self, other: Self) -> Self {
                // SAFETY: arithmetic.
                unsafe { $multiply(self, other) }
            }

            #[inline(always)]
            unsafe fn larger(self, other: Self) -> Self {
                // SAFETY: arithmetic.
                unsafe { $larger(self, other) }
            }

            #[inline(always)]
            unsafe fn smaller(self, other: Self) -> Self {
                // SAFETY: arithmetic.
                unsafe { $smaller(self, other) }
            }

            $($own)*
        }
    };
}

floats!(__m256, _mm256_sub_ps, _mm256_mul_ps, _mm256_max_ps, _mm256_min_ps, {
    #[inline(always)]
    unsafe fn scale(self, shifted: Self) -> Self {
        // Two factors, as one would have to be less than the least normal number, or more than the largest.
        // SAFETY: arithmetic.
        unsafe {
            let exponent = _mm256_castps_si256(shifted);
            let half = _mm256_srli_epi32::<1>(exponent);
            let other_half = _mm256_sub_epi32(exponent, half);
            let [half, other_half] = [half, other_half].map(|part| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(part)));
            _mm256_mul_ps(_mm256_mul_ps(self, half), other_half)
        }
    }

    #[inline(always)]
    unsafe fn zero_where_less(self, x: Self, bound: Self) -> Self {
        // SAFETY: arithmetic.
        unsafe { _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(x, bound), self) }
    }

    #[inline(always)]
    unsafe fn rounded(self) -> Self {
        // SAFETY: arithmetic.
        unsafe {
            let bits = _mm256_castps_si256(self);
            let is_odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let raised = _mm256_add_epi32(bits, _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7fff)));
            let rounded = _mm256_castsi256_ps(_mm256_and_si256(raised, _mm256_set1_epi32(!0xffff)));
            _mm256_blendv_ps(rounded, self, _mm256_cmp_ps::<_CMP_UNORD_Q>(self, self))
        }
    }

    #[inline(always)]
    unsafe fn largest_lane(self) -> f32 {
        // SAFETY: arithmetic.
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    unsafe fn sum_of_lanes(self) -> f32 {
        // SAFETY: arithmetic.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(self), _mm256_extractf128_ps::<1>(self));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
});

floats!(__m512, _mm512_sub_ps, _mm512_mul_ps, _mm512_max_ps, _mm512_min_ps, {
    #[inline(always)]
    unsafe fn scale(self, shifted: Self) -> Self {
        // SAFETY: arithmetic.
        unsafe { _mm512_scalef_ps(self, _mm512_sub_ps(shifted, _mm512_set1_ps(ROUNDING_SHIFT))) }
    }

    #[inline(always)]
    unsafe fn zero_where_less(self, x: Self, bound: Self) -> Self {
        // SAFETY: arithmetic.
        unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, bound), self) }
    }

    #[inline(always)]
    unsafe fn rounded(self) -> Self {
        // SAFETY: arithmetic.
        unsafe {
            let bits = _mm512_castps_si512(self);
            let is_odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let raised = _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff)));
            let rounded = _mm512_castsi512_ps(_mm512_and_si512(raised, _mm512_set1_epi32(!0xffff)));
            _mm512_mask_mov_ps(rounded, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self, self), self)
        }
    }

    #[inline(always)]
    unsafe fn largest_lane(self) -> f32 {
        // SAFETY: arithmetic.
        unsafe { _mm512_reduce_max_ps(self) }
    }

    #[inline(always)]
    unsafe fn sum_of_lanes(self) -> f32 {
        // SAFETY: arithmetic.
        unsafe { _mm512_reduce_add_ps(self) }
    }
});

/// The same number in all lanes.
#[inline(always)]
unsafe fn splat<V: Floats>(value: f32) -> V {
    // SAFETY: the number is there.
    unsafe { V::broadcast(&value) }
}

/// The exponential of each lane, as compiled code computes it; 0 for less than the least normal number. Each row has a weight of 1,
/// beside which such a one is nothing, while to multiply by it takes some processors a hundred times as long.
#[inline(always)]
unsafe fn exponential<V: Floats>(x: V) -> V {
    // SAFETY: arithmetic.
    unsafe {
        let [low, high] = DOMAIN.map(|bound| splat::<V>(bound));
        let limited = high.smaller(low.larger(x));
        let shift = splat::<V>(ROUNDING_SHIFT);
        let shifted = limited.multiply_add(splat::<V>(std::f32::consts::LOG2_E), shift);
        let multiple = shifted.subtract(shift);
        let rest = LN_2.iter().fold(limited, |rest, &part| multiple.multiply_add(splat::<V>(-part), rest));
        let [first, others @ ..] = POWER;
        let power = others.iter().fold(splat::<V>(first), |sum, &factor| sum.multiply_add(rest, splat::<V>(factor)));
        power.scale(shifted).zero_where_less(x, low)
    }
}

/// A block of rows.
struct Block<'r> {
    rows: &'r WeighedRows,
    logits: *mut f32,
    most: *mut f32,
    total: *mut f32,
    sums: *mut f32,
    count: usize,
    keys: usize,
    /// Whether there were blocks before.
    is_later: bool,
}

impl Block<'_> {
    #[inline(always)]
    unsafe fn weigh<V: Floats>(&self) {
        for row in 0..self.count {
            // SAFETY: all of it is of the block, says the caller.
            unsafe {
                let logits = self.logits.byte_offset(row as isize * self.rows.logit_row);
                // What the last vector has too much weighs nothing.
                splat::<V>(f32::NEG_INFINITY).store(logits.add(self.keys));
                let largest = self.largest::<V>(logits);
                let before = if self.is_later { *self.most.add(row) } else { f32::NEG_INFINITY };
                let most = if largest > before { largest } else { before };
                *self.most.add(row) = most;
                // A row of nothing but -inf so far has weights of 0: if that is all, 0 is divided by 0 in the end.
                let most = if most == f32::NEG_INFINITY { 0.0 } else { most };
                let sum = self.exponentials::<V>(logits, splat::<V>(most));
                if !self.is_later {
                    *self.total.add(row) = sum;
                    continue;
                }
                let scale = exponential(splat::<V>(before - most));
                // All lanes of the scale are the same.
                *self.total.add(row) = *self.total.add(row) * scale.largest_lane() + sum;
                let sums = self.sums.byte_offset(row as isize * self.rows.sum_row);
                for first in (0..self.rows.features).step_by(V::LANES) {
                    V::load(sums.add(first)).multiply(scale).store(sums.add(first));
                }
            }
        }
    }

    /// The largest logit of a row; those that are NaN are none.
    #[inline(always)]
    unsafe fn largest<V: Floats>(&self, logits: *const f32) -> f32 {
        let (vectors, mut vector) = (self.keys.div_ceil(V::LANES), 0);
        // SAFETY: the logits are of the block.
        unsafe {
            let mut largest = [splat::<V>(f32::NEG_INFINITY); AT_ONCE];
            while vector + AT_ONCE <= vectors {
                for (number, largest) in largest.iter_mut().enumerate() {
                    *largest = V::load(logits.add((vector + number) * V::LANES)).larger(*largest);
                }
                vector += AT_ONCE;
            }
            while vector < vectors {
                largest[0] = V::load(logits.add(vector * V::LANES)).larger(largest[0]);
                vector += 1;
            }
            let [first, others @ ..] = largest;
            others.into_iter().fold(first, |largest, other| other.larger(largest)).largest_lane()
        }
    }

    /// Makes weights of the logits of a row; their sum.
    #[inline(always)]
    unsafe fn exponentials<V: Floats>(&self, logits: *mut f32, most: V) -> f32 {
        // SAFETY: the logits are of the block.
        unsafe {
            let mut sum = splat::<V>(0.0);
            for vector in 0..self.keys.div_ceil(V::LANES) {
                let place = logits.add(vector * V::LANES);
                let weight = exponential(V::load(place).subtract(most));
                sum = sum.add(weight);
                let stored = if self.rows.are_bf16 != 0 { weight.rounded() } else { weight };
                stored.store(place);
            }
            sum.sum_of_lanes()
        }
    }
}

macro_rules! weigh_function {
    ($symbol:ident, $feature:literal, $vector:ty) => {
        /// Makes weights of the logits of `count` rows and `keys` keys, whose largest ones and sums are noted beside those of the
        /// `block`s before, and scales the sums of these down.
        ///
        /// # Safety
        /// The processor has the function's instructions. There are as many logits, sums and numbers of rows, and nobody else reads
        /// or writes them.
        #[target_feature(enable = $feature)]
        #[allow(clippy::too_many_arguments, reason = "what compiled code knows when it runs")]
        pub unsafe extern "C" fn $symbol(
            rows: *const WeighedRows,
            logits: *mut f32,
            most: *mut f32,
            total: *mut f32,
            sums: *mut f32,
            count: usize,
            keys: usize,
            block: usize,
        ) {
            // SAFETY: compiled code has the distances as a constant; the rest is as the caller promises.
            unsafe {
                Block { rows: &*rows, logits, most, total, sums, count, keys, is_later: block > 0 }.weigh::<$vector>();
            }
        }
    };
}

weigh_function!(halo_weigh_f32x16, "avx512f", __m512);
weigh_function!(halo_weigh_f32x8, "avx2,fma", __m256);

#[cfg(test)]
mod tests {
    use super::*;

    type Function =
        unsafe extern "C" fn(*const WeighedRows, *mut f32, *mut f32, *mut f32, *mut f32, usize, usize, usize);

    /// Functions of this processor, with the lanes of their vectors.
    fn functions() -> Vec<(Function, usize)> {
        let has_narrow = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let wide = is_x86_feature_detected!("avx512f").then_some((halo_weigh_f32x16 as Function, 16));
        wide.into_iter().chain(has_narrow.then_some((halo_weigh_f32x8 as Function, 8))).collect()
    }

    /// Weighs two blocks of rows of logits, with a sum of 1 for each row between them; largest logits, totals, sums and weights.
    fn weigh(function: Function, lanes: usize, blocks: [&[f32]; 2], keys: usize, are_bf16: bool) -> [Vec<f32>; 4] {
        let count = blocks[0].len() / keys;
        let distance = keys + lanes;
        let (mut most, mut total, mut sums) = (vec![9.0; count], vec![9.0; count], vec![1.0; count * lanes]);
        let row_bytes = |elements: usize| (elements * size_of::<f32>()) as isize;
        let rows = WeighedRows {
            logit_row: row_bytes(distance),
            sum_row: row_bytes(lanes),
            features: 1,
            are_bf16: usize::from(are_bf16),
        };
        let mut weights = Vec::new();
        for (number, block) in blocks.into_iter().enumerate() {
            let mut logits = vec![9.0; count * distance];
            for (row, own) in block.chunks(keys).enumerate() {
                logits[row * distance..][..keys].copy_from_slice(own);
            }
            let [logits_at, most, total, sums] = [&mut logits, &mut most, &mut total, &mut sums].map(Vec::as_mut_ptr);
            // SAFETY: the arrays have these sizes, and the processor the instructions.
            unsafe { function(&rows, logits_at, most, total, sums, count, keys, number) };
            weights = (0..count).flat_map(|row| logits[row * distance..][..keys].to_vec()).collect();
        }
        [most, total, sums.chunks(lanes).map(|row| row[0]).collect(), weights]
    }

    #[test]
    fn weights_are_exponentials_less_the_largest_logit() {
        for (function, lanes) in functions() {
            for keys in [1, lanes - 1, lanes, 5 * lanes + 3] {
                let logits = |shift: usize| (0..3 * keys).map(|at| ((at * 7 + shift) % 23) as f32 - 40.0).collect();
                let blocks: [Vec<f32>; 2] = [0, 11].map(logits);
                let [most, total, sums, weights] = weigh(function, lanes, [&blocks[0], &blocks[1]], keys, false);
                for row in 0..3 {
                    let [first, second] = [&blocks[0], &blocks[1]].map(|block| &block[row * keys..][..keys]);
                    let largest = |logits: &[f32]| logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let expected = largest(first).max(largest(second));
                    assert_eq!(most[row], expected);
                    let power = |logit: f32| f64::from(logit - expected).exp();
                    let all = first.iter().chain(second);
                    let is_near = |found: f32, wanted: f64| (f64::from(found) - wanted).abs() <= 1e-6 * wanted;
                    assert!(is_near(total[row], all.map(|&logit| power(logit)).sum()), "{keys} keys");
                    assert!(is_near(sums[row], power(largest(first))), "{keys} keys");
                    for (&weight, &logit) in weights[row * keys..].iter().zip(second) {
                        assert!(is_near(weight, power(logit)), "{weight} of {logit}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_without_a_finite_logit_weigh_nothing_and_nan_stays() {
        let nothing = f32::NEG_INFINITY;
        for (function, lanes) in functions() {
            let first = [nothing, nothing, nothing, 1.0];
            let second = [nothing, nothing, f32::NAN, 1.0];
            let [most, total, sums, weights] = weigh(function, lanes, [&first, &second], 2, false);
            assert_eq!(most, [nothing, 1.0]);
            assert_eq!((total[0], sums[0]), (0.0, 0.0));
            assert_eq!(weights[..2], [0.0, 0.0]);
            assert!(total[1].is_nan() && weights[2].is_nan());
            assert_eq!((sums[1], weights[3]), (1.0, 1.0));
        }
    }

    #[test]
    fn weights_are_rounded_to_even_bf16() {
        for (function, lanes) in functions() {
            let logits: Vec<f32> = (0..64).map(|at| at as f32 / -7.0).chain([f32::NAN]).collect();
            let [_, _, _, exact] = weigh(function, lanes, [&logits, &logits], logits.len(), false);
            let [_, _, _, rounded] = weigh(function, lanes, [&logits, &logits], logits.len(), true);
            for (exact, rounded) in exact.into_iter().zip(rounded) {
                let bits = exact.to_bits();
                let nearest = f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & !0xffff);
                assert!(rounded == nearest || exact.is_nan() && rounded.is_nan(), "{rounded} of {exact}");
            }
        }
    }
}
