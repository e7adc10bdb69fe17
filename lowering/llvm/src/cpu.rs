//! Loops to the LLVM dialect, for CPUs.
//!
//! The verifier and the canonicalizer would each cost more than all conversions together; both are off unless asked
//! for. Memrefs become pointers, so functions may only take memrefs of static shape and identity layout.

use crate::{Error, passes};
use melior::ir::Module;
use mlir_ext::pass_pipeline::run_pipeline;

/// The passes from affine to scf and arith.
pub const AFFINE_TO_SCF: &str = "hlo-unsigned-divisions,func.func(lower-affine)";

/// The passes from scf, memref, vector, arith, math and func to the llvm dialect. `convert-vector-to-llvm` would cost a
/// third of it and is not needed: lowering makes no masks other than constants, no transposes and no transfers. A failed
/// conversion ends compilation, so none needs to be taken back.
pub const SCF_TO_LLVM: &str = "hlo-memrefs-to-pointers,\
     func.func(convert-scf-to-cf{allow-pattern-rollback=0}),\
     convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},\
     convert-to-llvm{allow-pattern-rollback=0},reconcile-unrealized-casts,hlo-internalize-functions";

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
    passes::register();
    Ok(run_pipeline(module, &format!("{AFFINE_TO_SCF},{SCF_TO_LLVM}"), options.verify)?)
}
