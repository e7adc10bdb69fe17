//! How fast a processor multiplies narrow elements and adds the products, by the instructions that it has for nothing else.
//!
//! Each is repeated on registers that do not wait for each other. The standard library has no names for those of the matrix
//! unit, so all are written as what they are.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

use lowering_llvm::Target;

use crate::arithmetic::Arithmetic;

/// How often a function repeats its instructions.
const REPEATS: u64 = 1 << 10;

/// What the processor has where it has some features.
pub struct ProductInstruction {
    kind: Arithmetic,
    /// LLVM's names of them.
    features: &'static [&'static str],
    /// Multiplications and additions of one repetition.
    operations: u64,
    /// Repeats it.
    ///
    /// # Safety
    /// The processor has the features.
    repeat: unsafe fn(),
}

impl ProductInstruction {
    /// The instruction of this machine that does most of a kind of products at once, if it has any.
    pub fn find(kind: Arithmetic) -> Option<&'static Self> {
        let host = Target::host();
        let is_here = |features: &[&str]| features.iter().all(|feature| host.has_feature(feature));
        INSTRUCTIONS.iter().find(|instruction| instruction.kind == kind && is_here(instruction.features))
    }

    /// Repeats it some thousand times and gives the number of multiplications and additions.
    pub fn run(&self) -> u64 {
        // SAFETY: only `find` gives out instructions, those whose features the processor has.
        unsafe { (self.repeat)() };
        self.operations * REPEATS
    }
}

#[cfg(not(target_arch = "x86_64"))]
const INSTRUCTIONS: &[ProductInstruction] = &[];

/// Those that do more come before others of their kind.
#[cfg(target_arch = "x86_64")]
const INSTRUCTIONS: &[ProductInstruction] = {
    use Arithmetic::{BrainProducts, HalfProducts, IntegerProducts};
    const fn of(
        kind: Arithmetic,
        features: &'static [&'static str],
        operations: u64,
        repeat: unsafe fn(),
    ) -> ProductInstruction {
        ProductInstruction { kind, features, operations, repeat }
    }
    // A multiplication and an addition for each pair of elements, of which a lane of 32 bits holds two or four.
    const OF_WIDE_VECTORS: u64 = 2 * 12 * 16;
    const OF_VECTORS: u64 = 2 * 12 * 8;
    const OF_TILES: u64 = 2 * 6 * 16 * 16 * 16;
    &[
        of(IntegerProducts, &["amx-int8"], 4 * OF_TILES, matrices_of_bytes),
        of(IntegerProducts, &["avx512vnni"], 4 * OF_WIDE_VECTORS, wide_bytes),
        of(IntegerProducts, &["avxvnni"], 4 * OF_VECTORS, bytes),
        of(IntegerProducts, &["avx512bw"], 2 * OF_WIDE_VECTORS, wide_pairs),
        of(IntegerProducts, &["avx2"], 2 * OF_VECTORS, pairs),
        of(BrainProducts, &["amx-bf16"], 2 * OF_TILES, matrices_of_brain_floats),
        of(BrainProducts, &["avx512bf16"], 2 * OF_WIDE_VECTORS, wide_brain_floats),
        of(HalfProducts, &["avx512fp16"], 2 * OF_WIDE_VECTORS, wide_halves),
    ]
};

/// A function that repeats an instruction for each of twelve registers, whose number stands between two texts.
#[cfg(target_arch = "x86_64")]
macro_rules! on_twelve_registers {
    ($name:ident, $before:literal, $after:literal) => {
        unsafe fn $name() {
            // SAFETY: the processor has the instructions, as the caller says; they change nothing but the registers named.
            unsafe {
                asm!(
                    "2:",
                    concat!($before, "0", $after),
                    concat!($before, "1", $after),
                    concat!($before, "2", $after),
                    concat!($before, "3", $after),
                    concat!($before, "4", $after),
                    concat!($before, "5", $after),
                    concat!($before, "6", $after),
                    concat!($before, "7", $after),
                    concat!($before, "8", $after),
                    concat!($before, "9", $after),
                    concat!($before, "10", $after),
                    concat!($before, "11", $after),
                    "sub {count}, 1",
                    "jnz 2b",
                    "vzeroupper",
                    count = inout(reg) REPEATS => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
on_twelve_registers!(wide_bytes, "vpdpbusd zmm", ", zmm14, zmm15");
#[cfg(target_arch = "x86_64")]
on_twelve_registers!(bytes, "{{vex}} vpdpbusd ymm", ", ymm14, ymm15");
// Without an instruction for both, the sums of pairs of products are added by another one.
#[cfg(target_arch = "x86_64")]
on_twelve_registers!(wide_pairs, "vpmaddwd zmm13, zmm14, zmm15\nvpaddd zmm", ", zmm13, zmm14");
#[cfg(target_arch = "x86_64")]
on_twelve_registers!(pairs, "vpmaddwd ymm13, ymm14, ymm15\nvpaddd ymm", ", ymm13, ymm14");
#[cfg(target_arch = "x86_64")]
on_twelve_registers!(wide_brain_floats, "vdpbf16ps zmm", ", zmm14, zmm15");
#[cfg(target_arch = "x86_64")]
on_twelve_registers!(wide_halves, "vfmadd231ph zmm", ", zmm14, zmm15");

/// How the matrix unit divides its registers: all of 16 rows of 64 bytes.
#[cfg(target_arch = "x86_64")]
static TILES: [u8; 64] = {
    let mut tiles = [0; 64];
    tiles[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        tiles[16 + 2 * tile] = 64;
        tiles[48 + tile] = 16;
        tile += 1;
    }
    tiles
};

/// A function that repeats an instruction of the matrix unit for each of six sums.
#[cfg(target_arch = "x86_64")]
macro_rules! on_six_tiles {
    ($name:ident, $instruction:literal) => {
        unsafe fn $name() {
            // SAFETY: the processor has the instructions and Linux permits them, as the caller says; they read the division of
            // the registers and change nothing but these, which are given back.
            unsafe {
                asm!(
                    "ldtilecfg [{tiles}]",
                    "2:",
                    concat!($instruction, " tmm0, tmm6, tmm7"),
                    concat!($instruction, " tmm1, tmm6, tmm7"),
                    concat!($instruction, " tmm2, tmm6, tmm7"),
                    concat!($instruction, " tmm3, tmm6, tmm7"),
                    concat!($instruction, " tmm4, tmm6, tmm7"),
                    concat!($instruction, " tmm5, tmm6, tmm7"),
                    "sub {count}, 1",
                    "jnz 2b",
                    "tilerelease",
                    tiles = in(reg) &raw const TILES,
                    count = inout(reg) REPEATS => _,
                    options(readonly, nostack),
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
on_six_tiles!(matrices_of_bytes, "tdpbssd");
#[cfg(target_arch = "x86_64")]
on_six_tiles!(matrices_of_brain_floats, "tdpbf16ps");
