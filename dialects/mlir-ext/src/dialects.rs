//! MLIR's own dialects and passes that halo uses: those of loops, of GPUs, and of LLVM.
//!
//! Only what is named here is linked; all of MLIR would make every program several times as large.

use melior::dialect::{DialectHandle, DialectRegistry};
use mlir_sys::{
    MlirDialectHandle, MlirDialectRegistry, mlirGetDialectHandle__math__, mlirGetDialectHandle__nvvm__,
    mlirGetDialectHandle__ub__, mlirGetDialectHandle__vector__, mlirRegisterAffinePasses, mlirRegisterArithPasses,
    mlirRegisterConversionArithToLLVMConversionPass, mlirRegisterConversionConvertControlFlowToLLVMPass,
    mlirRegisterConversionConvertFuncToLLVMPass, mlirRegisterConversionConvertGpuOpsToNVVMOps,
    mlirRegisterConversionConvertMathToLLVMPass, mlirRegisterConversionConvertMathToLibmPass,
    mlirRegisterConversionConvertNVVMToLLVMPass, mlirRegisterConversionConvertToLLVMPass,
    mlirRegisterConversionConvertVectorToLLVMPass, mlirRegisterConversionConvertVectorToSCF,
    mlirRegisterConversionFinalizeMemRefToLLVMConversionPass, mlirRegisterConversionLowerAffinePass,
    mlirRegisterConversionReconcileUnrealizedCastsPass, mlirRegisterConversionSCFToControlFlowPass,
    mlirRegisterConversionUBToLLVMConversionPass, mlirRegisterFuncPasses, mlirRegisterGPUGpuKernelOutliningPass,
    mlirRegisterGPUGpuLaunchSinkIndexComputationsPass, mlirRegisterLLVMPasses, mlirRegisterMathPasses,
    mlirRegisterMemRefPasses, mlirRegisterSCFPasses, mlirRegisterTransformsPasses, mlirRegisterVectorPasses,
};

/// Handles that melior has no name for.
const HANDLES: [unsafe extern "C" fn() -> MlirDialectHandle; 4] = [
    mlirGetDialectHandle__math__,
    mlirGetDialectHandle__nvvm__,
    mlirGetDialectHandle__ub__,
    mlirGetDialectHandle__vector__,
];

/// Passes of dialects, and those conversions that lead to the llvm dialect. Those of GPUs are few: the others need the
/// dialects of every maker of GPUs.
const PASSES: [unsafe extern "C" fn(); 26] = [
    mlirRegisterTransformsPasses,
    mlirRegisterAffinePasses,
    mlirRegisterArithPasses,
    mlirRegisterFuncPasses,
    mlirRegisterGPUGpuKernelOutliningPass,
    mlirRegisterGPUGpuLaunchSinkIndexComputationsPass,
    mlirRegisterLLVMPasses,
    mlirRegisterMathPasses,
    mlirRegisterMemRefPasses,
    mlirRegisterSCFPasses,
    mlirRegisterVectorPasses,
    mlirRegisterConversionArithToLLVMConversionPass,
    mlirRegisterConversionConvertControlFlowToLLVMPass,
    mlirRegisterConversionConvertFuncToLLVMPass,
    mlirRegisterConversionConvertGpuOpsToNVVMOps,
    mlirRegisterConversionConvertMathToLLVMPass,
    mlirRegisterConversionConvertMathToLibmPass,
    mlirRegisterConversionConvertNVVMToLLVMPass,
    mlirRegisterConversionConvertToLLVMPass,
    mlirRegisterConversionConvertVectorToLLVMPass,
    mlirRegisterConversionConvertVectorToSCF,
    mlirRegisterConversionFinalizeMemRefToLLVMConversionPass,
    mlirRegisterConversionLowerAffinePass,
    mlirRegisterConversionReconcileUnrealizedCastsPass,
    mlirRegisterConversionSCFToControlFlowPass,
    mlirRegisterConversionUBToLLVMConversionPass,
];

/// A registry of these dialects, with their ways to the llvm dialect and to LLVM IR.
pub fn registry() -> DialectRegistry {
    let registry = DialectRegistry::new();
    let named = [
        DialectHandle::affine(),
        DialectHandle::arith(),
        DialectHandle::cf(),
        DialectHandle::func(),
        DialectHandle::gpu(),
        DialectHandle::llvm(),
        DialectHandle::memref(),
        DialectHandle::scf(),
        DialectHandle::tensor(),
    ];
    // SAFETY: each function returns the handle of a dialect, which lives as long as the process.
    let others = HANDLES.map(|handle| unsafe { DialectHandle::from_raw(handle()) });
    named.iter().chain(&others).for_each(|handle| handle.insert_dialect(&registry));
    // SAFETY: the registry is live, and only added to.
    unsafe { haloRegisterLowering(registry.to_raw()) };
    registry
}

/// Registers the passes with MLIR; to be called once.
pub(crate) fn register_passes() {
    for register in PASSES {
        // SAFETY: nothing else uses the registry of passes meanwhile, see `pass::change_registry`.
        unsafe { register() };
    }
}

unsafe extern "C" {
    fn haloRegisterLowering(registry: MlirDialectRegistry);
}
