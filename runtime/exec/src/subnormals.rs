//! What the processor makes of subnormal numbers.

use std::marker::PhantomData;

/// While it lives, operations of this thread take subnormal numbers for zero, as operands and as results. Elsewhere than
/// on x86-64 nothing changes.
#[derive(Debug)]
pub struct FlushSubnormals {
    before: u32,
    /// The setting is this thread's.
    thread: PhantomData<*const ()>,
}

impl FlushSubnormals {
    /// Begins with it.
    pub fn begin() -> Self {
        let before = control();
        set_control(before | FLUSH);
        Self { before, thread: PhantomData }
    }
}

impl Drop for FlushSubnormals {
    fn drop(&mut self) {
        set_control(self.before);
    }
}

/// Of the control word: results are flushed (bit 15), and operands are (bit 6).
const FLUSH: u32 = 1 << 15 | 1 << 6;

/// The control word of this thread's floating-point unit.
#[cfg(target_arch = "x86_64")]
fn control() -> u32 {
    let mut word = 0u32;
    // SAFETY: writes four bytes, those of `word`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word
}

#[cfg(target_arch = "x86_64")]
fn set_control(word: u32) {
    // SAFETY: reads four bytes, those of `word`, which differs from what the unit had in the treatment of subnormal numbers
    // alone: rounding and exceptions stay as Rust wants them.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags, readonly)) };
}

#[cfg(not(target_arch = "x86_64"))]
fn control() -> u32 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn set_control(_: u32) {}
