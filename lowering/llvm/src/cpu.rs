//! Loops to the LLVM dialect, for CPUs.
//!
//! The verifier and the canonicalizer would each cost more than all conversions together; both are off unless asked
//! for. Memrefs become bare pointers, so functions may only take memrefs of static shape and identity layout.

use crate::Error;
use melior::ir::{
    Attribute, Module, RegionLike,
    attribute::StringAttribute,
    block::BlockLike,
    operation::{OperationLike, OperationMutLike},
};
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
    run_pipeline(module, PIPELINE, options.verify)?;
    make_private_functions_internal(module);
    Ok(())
}

/// Gives private functions internal linkage, so that shards may each define one of the same name; MLIR's own visibility
/// is lost in LLVM IR.
fn make_private_functions_internal(module: &Module) {
    let context = module.context();
    // SAFETY: both references live in this frame only, and the module keeps its context alive.
    let context = unsafe { context.to_ref() };
    let (Some(internal), private) =
        (Attribute::parse(context, "#llvm.linkage<internal>"), StringAttribute::new(context, "private"))
    else {
        return;
    };
    let mut next = module.body().first_operation_mut();
    while let Some(mut operation) = next {
        let is_definition = operation.region(0).is_ok_and(|region| region.first_block().is_some());
        if is_definition && operation.attribute("sym_visibility") == Ok(private.into()) {
            operation.set_attribute("linkage", internal);
        }
        next = operation.next_in_block_mut();
    }
}
