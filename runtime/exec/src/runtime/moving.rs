//! Rows that compiled code moves.

use crate::jit::Symbol;

/// The function of this processor that copies a row.
pub(super) fn symbols() -> impl Iterator<Item = Symbol<'static>> {
    #[cfg(target_arch = "x86_64")]
    let function: Move = if is_x86_feature_detected!("avx") { vectors::move_row } else { move_row };
    #[cfg(not(target_arch = "x86_64"))]
    let function: Move = move_row;
    [("halo_move", function as *const ())].into_iter()
}

/// Copies so many bytes to where they are already or to what does not overlap them.
type Move = unsafe extern "C" fn(from: *const u8, to: *mut u8, bytes: usize);

/// # Safety
/// So many bytes can be read there and written here, and nobody else writes them.
unsafe extern "C" fn move_row(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { to.copy_from(from, bytes) };
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::asm;
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};

    const VECTOR: usize = size_of::<__m256i>();

    /// A vector. The compiler does not see that what is written is what was read: it would call libc, whose string instructions take
    /// longer for rows of some kilobytes on some processors.
    ///
    /// # Safety
    /// It can be read, and the processor has AVX.
    #[target_feature(enable = "avx")]
    #[inline]
    unsafe fn load(from: *const u8) -> __m256i {
        // SAFETY: as the caller promises; there is no instruction.
        unsafe {
            let mut vector = _mm256_loadu_si256(from.cast());
            asm!("/* {0} */", inout(ymm_reg) vector, options(pure, nomem, nostack, preserves_flags));
            vector
        }
    }

    /// Copies so many bytes to where they are already or to what does not overlap them.
    ///
    /// # Safety
    /// As of [`super::move_row`], and the processor has AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe extern "C" fn move_row(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            if bytes < VECTOR {
                return to.copy_from(from, bytes);
            }
            let mut place = 0;
            while place + 4 * VECTOR <= bytes {
                let [a, b, c, d] = [0, 1, 2, 3].map(|number| place + number * VECTOR);
                let vectors = [load(from.add(a)), load(from.add(b)), load(from.add(c)), load(from.add(d))];
                _mm256_storeu_si256(to.add(a).cast(), vectors[0]);
                _mm256_storeu_si256(to.add(b).cast(), vectors[1]);
                _mm256_storeu_si256(to.add(c).cast(), vectors[2]);
                _mm256_storeu_si256(to.add(d).cast(), vectors[3]);
                place += 4 * VECTOR;
            }
            while place + VECTOR <= bytes {
                _mm256_storeu_si256(to.add(place).cast(), load(from.add(place)));
                place += VECTOR;
            }
            if place < bytes {
                // It overlaps what is copied already.
                _mm256_storeu_si256(to.add(bytes - VECTOR).cast(), load(from.add(bytes - VECTOR)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_as_a_whole() {
        for bytes in [0, 1, 31, 32, 33, 127, 128, 129, 300, 4096, 5000] {
            let from: Vec<u8> = (0..bytes).map(|place| (place * 7 + place / 251) as u8).collect();
            let (_, address) = symbols().next().expect("a function");
            // SAFETY: it is one of these, and the arrays have these sizes.
            let row = unsafe { std::mem::transmute::<*const (), Move>(address) };
            for function in [row, move_row as Move] {
                let mut to = vec![1; bytes + 2];
                // SAFETY: as above.
                unsafe { function(from.as_ptr(), to.as_mut_ptr().add(1), bytes) };
                assert_eq!((to[0], &to[1..=bytes], to[bytes + 1]), (1, &from[..], 1));
                // SAFETY: as above.
                unsafe { function(to.as_ptr(), to.as_mut_ptr(), bytes + 2) };
                assert_eq!(&to[1..=bytes], &from[..]);
            }
        }
    }
}
