//! Loops to the LLVM dialect, for CPUs.
//!
//! The verifier and the canonicalizer would each cost more than all conversions together; both are off unless asked
//! for. Memrefs become bare pointers, so functions may only take memrefs of static shape and identity layout.

use crate::Error;
use melior::ir::Module;
use mlir_ext::pass_pipeline::run_pipeline;

/// The conversion's pass pipeline.
pub const PIPELINE: &str = "func.func(lower-affine,convert-scf-to-cf),\
     convert-vector-to-llvm,convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},\
     convert-to-llvm,reconcile-unrealized-casts";

/// How to convert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoweringOptions {
    /// Verify the module after each pass. For tests and debugging.
    pub verify: bool,
}

/// Converts a module of affine, scf, memref, vector, arith, math, cf and func operations to the LLVM dialect, in place.
///
/// # Errors
/// [`Error::Pipeline`], after which the module is half-converted and only good for printing.
pub fn lower_to_llvm_dialect(module: &Module, options: LoweringOptions) -> Result<(), Error> {
    Ok(run_pipeline(module, PIPELINE, options.verify)?)
}
