//! From the LLVM dialect to machine code: translation, LLVM's passes, code generation.

use melior::ir::OperationRef;

use crate::partition::effort_of;
use crate::timing::{Timings, timed};
use crate::{Emit, Error, KERNEL_PASSES, LlvmModule, Target};

/// Machine code, or what comes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The bytes; text is UTF-8.
    pub bytes: Vec<u8>,
    /// What making them cost.
    pub timings: Timings,
}

/// Generates code of a kind for a module of the llvm dialect, quickly if its functions only call others. With `verify`, LLVM's verifier
/// runs on the IR.
///
/// # Errors
/// Those of each phase.
pub fn generate(module: OperationRef, target: &Target, kind: Emit, verify: bool) -> Result<Code, Error> {
    let mut timings = Timings::default();
    let target = target.clone().with_effort(timed(&mut timings.translate, || effort_of(module)));
    let llvm = translate(module, &target, verify, &mut timings)?;
    let bytes = optimize_and_emit(&llvm, KERNEL_PASSES, kind, &mut timings)?;
    Ok(Code { bytes, timings })
}

/// LLVM IR of a module of the llvm dialect, checked by LLVM's verifier with `verify`.
pub(crate) fn translate(
    module: OperationRef,
    target: &Target,
    verify: bool,
    timings: &mut Timings,
) -> Result<LlvmModule, Error> {
    timed(&mut timings.translate, || {
        let llvm = LlvmModule::translate(module, target)?;
        if verify {
            llvm.verify()?;
        }
        Ok(llvm)
    })
}

/// Code of a kind from LLVM IR, by some of LLVM's passes.
pub(crate) fn optimize_and_emit(
    llvm: &LlvmModule,
    passes: &str,
    kind: Emit,
    timings: &mut Timings,
) -> Result<Vec<u8>, Error> {
    timed(&mut timings.optimize, || llvm.optimize(passes))?;
    timed(&mut timings.emit, || llvm.emit(kind))
}
