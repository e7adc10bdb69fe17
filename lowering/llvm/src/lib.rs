//! From loops to machine code.
//!
//! ```text
//!  loops: affine scf memref vector arith math func ──cpu──> llvm dialect ─┐
//!  gpu.module of the same ────────────────────────nvptx──> llvm + nvvm ──┴─translate─> LLVM IR ─optimize─> emit: IR, assembly or PTX, object
//! ```
//!
//! Kernels come as explicit vector loops, so LLVM gets the little work that measurably helps: `early-cse` and `licm`, then
//! code generation at the default level without loop strength reduction. [`code_generation`] does this for parts of a module
//! side by side.
//!
//! # One copy of LLVM
//! melior, inkwell and llvm-sys share one LLVM: `mlir-sys` links all static archives of MLIR and LLVM and the system
//! libraries they need (zstd, z, stdc++ …), while llvm-sys and inkwell are built with `no-llvm-linking` and only declare
//! functions. So an LLVM context made through inkwell can be given to MLIR's translation. The archives refer to each
//! other in circles: the linker must be lld, which does not care about their order. It is what Rust links with on x86-64
//! Linux.
//!
//! Absent on purpose: loading and running code (crate `exec`), and every decision about loops (crate `lowering-affine`).
//! LLVM ends the process on internal errors of its code generator; no input of the compiler's own making should cause one.

mod brain_floats;
mod carried_negations;
pub mod code;
pub mod code_generation;
pub mod cpu;
pub mod debug_info;
mod emulated_warp_groups;
pub mod emulation;
mod error;
mod gpu_instructions;
mod instructions;
mod libdevice;
mod llvm_module;
pub mod memrefs_to_pointers;
pub mod nvptx;
mod partition;
pub mod passes;
mod ptx_text;
pub mod ptxas;
mod symbol_scan;
mod target;
pub mod timing;
pub mod unsigned_divisions;
mod vector_constants;

pub use code_generation::{CodeGenerationOptions, GeneratedCode, generate_code};
pub use cpu::LoweringOptions;
pub use error::Error;
pub use llvm_module::{Emit, KERNEL_PASSES, LlvmModule};
pub(crate) use target::Effort;
pub use target::Target;
