//! From the LLVM dialect to LLVM IR.
//!
//! MLIR is linked with the same copy of LLVM as everything else in the process, so the produced module belongs to the
//! LLVM context that the caller owns. This crate does not name an LLVM binding: contexts and modules pass as pointers.

use crate::diagnostics::{self, Diagnostic};
use melior::{
    StringRef,
    ir::{OperationRef, operation::OperationLike},
};
use mlir_sys::{LLVMContextRef, MlirStringRef, mlirTranslateModuleToLLVMIR};
use std::{ffi::c_void, ptr::NonNull};

/// Whether LLVM knows a processor (or, if `is_processor` is false, a feature) of a target machine's target.
///
/// # Safety
/// `machine` must be a live `LLVMTargetMachineRef`.
pub unsafe fn target_knows(machine: NonNull<c_void>, name: &str, is_processor: bool) -> bool {
    // SAFETY: the caller answers for the machine; the name is only read.
    unsafe { haloTargetKnows(machine.as_ptr(), StringRef::new(name).to_raw(), is_processor) }
}

unsafe extern "C" {
    fn haloTargetKnows(machine: *const c_void, name: MlirStringRef, is_processor: bool) -> bool;
}

/// Translates a builtin or GPU module of the LLVM dialect, whose context was made with
/// [`dialects::registry`](crate::dialects::registry), into a new module of the LLVM context `llvm_context` (an
/// `LLVMContextRef`). The result is an `LLVMModuleRef` that the caller owns.
///
/// # Safety
/// `llvm_context` must be a live `LLVMContextRef` that no other thread uses meanwhile.
///
/// # Errors
/// MLIR's diagnostics, when an operation has no translation.
pub unsafe fn translate(
    module: OperationRef,
    llvm_context: NonNull<c_void>,
) -> Result<NonNull<c_void>, Vec<Diagnostic>> {
    let (translated, diagnostics) = diagnostics::collect_in(module.context(), || {
        // SAFETY: the module is live, and the caller answers for the LLVM context.
        unsafe { mlirTranslateModuleToLLVMIR(module.to_raw(), llvm_context.as_ptr() as LLVMContextRef) }
    });
    NonNull::new(translated.cast()).ok_or(diagnostics)
}
