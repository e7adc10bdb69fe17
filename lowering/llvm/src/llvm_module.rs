//! A module of LLVM IR: from the LLVM dialect to assembly and object code.

use crate::{Error, Target, brain_floats, carried_negations, vector_constants};
use inkwell::{
    attributes::{Attribute, AttributeLoc},
    context::Context,
    module::Module,
    passes::PassBuilderOptions,
    targets::FileType,
};
use llvm_sys::{
    core::{LLVMContextSetDiagnosticHandler, LLVMDisposeMessage, LLVMGetDiagInfoDescription, LLVMGetDiagInfoSeverity},
    prelude::LLVMDiagnosticInfoRef,
};
use melior::ir::OperationRef;
use std::{
    ffi::{CStr, c_void},
    ptr::NonNull,
    sync::{Mutex, PoisonError},
};

/// The passes that kernels with explicit vectors and hand-made loop nests still profit from.
pub const KERNEL_PASSES: &str = "function(early-cse<memssa>,loop-mssa(licm))";

/// Owns LLVM's types, constants and the modules made in it. Belongs to one thread at a time.
struct LlvmContext {
    // Before the list that its handler writes to: fields are dropped in this order.
    context: Context,
    errors: Box<Mutex<Vec<String>>>,
}

impl LlvmContext {
    /// A fresh context, which collects LLVM's errors (without a handler LLVM would end the process).
    fn new() -> Self {
        let context = Context::create();
        let errors = Box::new(Mutex::new(Vec::new()));
        let list: *const Mutex<Vec<String>> = &*errors;
        // SAFETY: the list lives as long as the context, on the heap, and is only reached through its mutex.
        unsafe {
            LLVMContextSetDiagnosticHandler(context.raw(), Some(collect_error), list.cast_mut().cast());
        }
        Self { context, errors }
    }

    fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut *self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

extern "C" fn collect_error(info: LLVMDiagnosticInfoRef, list: *mut c_void) {
    // SAFETY: LLVM passes a live diagnostic and the pointer given with the handler; the description is ours to free.
    unsafe {
        if LLVMGetDiagInfoSeverity(info) != llvm_sys::LLVMDiagnosticSeverity::LLVMDSError {
            return;
        }
        let description = LLVMGetDiagInfoDescription(info);
        let text = CStr::from_ptr(description).to_string_lossy().into_owned();
        LLVMDisposeMessage(description);
        let list = &*list.cast::<Mutex<Vec<String>>>();
        list.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// What to produce from a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// LLVM IR as text.
    Llvm,
    /// The target's assembly; PTX for NVIDIA GPUs.
    Assembly,
    /// A relocatable object file.
    Object,
}

/// A module of LLVM IR with its target, in an LLVM context of its own.
pub struct LlvmModule {
    // Before its context: fields are dropped in this order. The lifetime is that of the context beside it.
    pub(crate) module: Module<'static>,
    context: LlvmContext,
    pub(crate) target: Target,
}

// SAFETY: module and context refer to each other only and move together; neither is tied to a thread.
unsafe impl Send for LlvmModule {}

impl LlvmModule {
    /// Translates a `builtin.module` or `gpu.module` of the LLVM dialect and sets triple and data layout of `target`.
    ///
    /// # Errors
    /// [`Error::Translate`], [`Error::Target`].
    pub fn translate(module: OperationRef, target: &Target) -> Result<Self, Error> {
        let machine = target.machine()?;
        let context = LlvmContext::new();
        // SAFETY: the context is this function's own; the module is owned by nothing else and dropped before it.
        let module = unsafe {
            let raw_context = NonNull::new(context.context.raw().cast()).ok_or_else(|| Error::Translate(Vec::new()))?;
            let raw = mlir_ext::llvm_translation::translate(module, raw_context).map_err(Error::Translate)?;
            Module::new(raw.as_ptr().cast())
        };
        module.set_triple(&machine.0.get_triple());
        module.set_data_layout(&machine.0.get_target_data().get_data_layout());
        mark_functions(&module, &context.context);
        Ok(Self { module, context, target: target.clone() })
    }

    /// Runs LLVM's verifier.
    ///
    /// # Errors
    /// [`Error::Verify`].
    pub fn verify(&self) -> Result<(), Error> {
        self.module.verify().map_err(|message| Error::Verify(message.to_string_lossy().into_owned()))
    }

    /// Runs a pipeline in the syntax of LLVM's `opt -passes`; [`KERNEL_PASSES`] for generated kernels.
    ///
    /// # Errors
    /// [`Error::Optimize`] if the pipeline does not exist.
    pub fn optimize(&self, passes: &str) -> Result<(), Error> {
        if passes.contains('\0') {
            return Err(Error::Optimize("the pipeline contains a zero byte".into()));
        }
        self.module
            .run_passes(passes, &self.target.machine()?.0, PassBuilderOptions::create())
            .map_err(|message| Error::Optimize(message.to_string_lossy().into_owned()))
    }

    /// The module's LLVM IR as text.
    pub fn text(&self) -> String {
        self.module.print_to_string().to_string_lossy().into_owned()
    }

    /// Produces the bytes of `kind`; text kinds are UTF-8. Code generation changes the module: emit IR first.
    ///
    /// # Errors
    /// [`Error::Emit`] with what the code generator said.
    pub fn emit(&self, kind: Emit) -> Result<Vec<u8>, Error> {
        let file_type = match kind {
            Emit::Llvm => return Ok(self.text().into_bytes()),
            Emit::Assembly => FileType::Assembly,
            Emit::Object => FileType::Object,
        };
        carried_negations::carry(&self.module)?;
        brain_floats::simplify(&self.module, self.target.vector_bits() / u32::BITS)?;
        if self.target.vector_bits() == 256 {
            vector_constants::load(&self.module)?;
        }
        let buffer = self
            .target
            .machine()?
            .0
            .write_to_memory_buffer(&self.module, file_type)
            .map_err(|message| Error::Emit(message.to_string_lossy().into_owned()))?;
        let errors = self.context.take_errors();
        if errors.is_empty() { Ok(buffer.as_slice().to_vec()) } else { Err(Error::Emit(errors.join("\n"))) }
    }
}

/// Nothing unwinds through compiled code; saying so spares it the tables for that.
fn mark_functions(module: &Module, context: &Context) {
    let no_unwind = context.create_enum_attribute(Attribute::get_named_enum_kind_id("nounwind"), 0);
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        function.add_attribute(AttributeLoc::Function, no_unwind);
    }
}
