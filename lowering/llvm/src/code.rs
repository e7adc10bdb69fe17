//! From the LLVM dialect to machine code: translation, LLVM's passes, code generation.

use melior::ir::OperationRef;

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

/// Generates code of a kind for a module of the llvm dialect. With `verify`, LLVM's verifier runs on the IR.
///
/// # Errors
/// Those of each phase.
pub fn generate(module: OperationRef, target: &Target, kind: Emit, verify: bool) -> Result<Code, Error> {
    let mut timings = Timings::default();
    let llvm = timed(&mut timings.translate, || LlvmModule::translate(module, target))?;
    if verify {
        llvm.verify()?;
    }
    timed(&mut timings.optimize, || llvm.optimize(KERNEL_PASSES))?;
    let bytes = timed(&mut timings.emit, || llvm.emit(kind))?;
    Ok(Code { bytes, timings })
}
