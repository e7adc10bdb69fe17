//! Object files to callable code, through LLVM's ORC loader.
//!
//! Each [`Jit`] owns one session: dropping it unmaps its code, so nothing looked up in it may be called afterwards.
//! Symbols come from the objects, then from the table given to [`Jit::load`], then from the process (libc and libm).

use crate::Error;
use inkwell::{
    OptimizationLevel,
    targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine},
};
use llvm_sys::{
    core::LLVMCreateMemoryBufferWithMemoryRangeCopy,
    error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage},
    orc2::{
        LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols,
        LLVMOrcCSymbolMapPair, LLVMOrcDisposeMaterializationUnit, LLVMOrcExecutionSessionSetErrorReporter,
        LLVMOrcJITDylibDefine, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine,
        lljit::{
            LLVMOrcCreateLLJIT, LLVMOrcCreateLLJITBuilder, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile,
            LLVMOrcLLJITBuilderSetJITTargetMachineBuilder, LLVMOrcLLJITGetExecutionSession,
            LLVMOrcLLJITGetMainJITDylib, LLVMOrcLLJITLookup, LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
        },
    },
};
use std::{
    ffi::{CStr, CString, c_void},
    ptr::{self, NonNull},
    sync::{Mutex, Once, PoisonError},
};

/// An address that loaded code may refer to by name.
pub type Symbol<'a> = (&'a str, *const ());

/// Loaded code.
pub struct Jit {
    lljit: NonNull<llvm_sys::orc2::lljit::LLVMOrcOpaqueLLJIT>,
    // The loader's explanations arrive here; boxed, because LLVM keeps its address.
    messages: Box<Mutex<Vec<String>>>,
}

// SAFETY: ORC sessions lock themselves; the handle is not tied to a thread.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

impl Jit {
    /// Loads object files, which may refer to each other and to `symbols`. Code is linked at the first look-up.
    ///
    /// # Safety
    /// The objects' code runs as it is: they must come from this compiler, for this CPU. The addresses in `symbols`
    /// must be functions or data of the types that the code expects, and outlive the result.
    ///
    /// # Errors
    /// [`Error::Load`].
    pub unsafe fn load<O: AsRef<[u8]>>(objects: &[O], symbols: &[Symbol]) -> Result<Self, Error> {
        let jit = Self::new()?;
        // SAFETY: the caller answers for the symbols.
        unsafe { jit.define(symbols)? };
        for object in objects {
            jit.add_object(object.as_ref())?;
        }
        Ok(jit)
    }

    fn new() -> Result<Self, Error> {
        let machine = plain_machine()?;
        let mut lljit: LLVMOrcLLJITRef = ptr::null_mut();
        // SAFETY: the machine passes to its builder, that to the loader's, and that to the loader, whether it is made or not;
        // the result is written on success.
        check(unsafe {
            let machine_builder = LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine.as_mut_ptr());
            std::mem::forget(machine);
            let builder = LLVMOrcCreateLLJITBuilder();
            LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder, machine_builder);
            LLVMOrcCreateLLJIT(&mut lljit, builder)
        })
        .map_err(Error::Load)?;
        let lljit = NonNull::new(lljit).ok_or_else(|| Error::Load("no loader was made".into()))?;
        let messages = Box::new(Mutex::new(Vec::new()));
        let list: *const Mutex<Vec<String>> = &*messages;
        // SAFETY: the list is on the heap and outlives the session, see `drop`.
        unsafe {
            LLVMOrcExecutionSessionSetErrorReporter(
                LLVMOrcLLJITGetExecutionSession(lljit.as_ptr()),
                collect_message,
                list.cast_mut().cast(),
            );
        }
        Ok(Self { lljit, messages })
    }

    /// # Safety
    /// As for [`Jit::load`].
    unsafe fn define(&self, symbols: &[Symbol]) -> Result<(), Error> {
        if symbols.is_empty() {
            return Ok(());
        }
        let names = symbols
            .iter()
            .map(|(name, _)| CString::new(*name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Error::Load("a symbol's name contains a zero byte".into()))?;
        // SAFETY: names are zero-terminated; interned names are consumed by `LLVMOrcAbsoluteSymbols`, the unit made from
        // them by `LLVMOrcJITDylibDefine` unless that fails.
        unsafe {
            let mut pairs: Vec<LLVMOrcCSymbolMapPair> = names
                .iter()
                .zip(symbols)
                .map(|(name, (_, address))| LLVMOrcCSymbolMapPair {
                    Name: LLVMOrcLLJITMangleAndIntern(self.lljit.as_ptr(), name.as_ptr()),
                    Sym: LLVMJITEvaluatedSymbol {
                        Address: *address as u64,
                        Flags: LLVMJITSymbolFlags {
                            GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
                                | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8,
                            TargetFlags: 0,
                        },
                    },
                })
                .collect();
            let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
            let library = LLVMOrcLLJITGetMainJITDylib(self.lljit.as_ptr());
            check(LLVMOrcJITDylibDefine(library, unit)).map_err(|message| {
                LLVMOrcDisposeMaterializationUnit(unit);
                Error::Load(message)
            })
        }
    }

    fn add_object(&self, object: &[u8]) -> Result<(), Error> {
        // SAFETY: the range is live and copied; the loader takes the buffer, also when it fails.
        unsafe {
            let buffer =
                LLVMCreateMemoryBufferWithMemoryRangeCopy(object.as_ptr().cast(), object.len(), c"halo".as_ptr());
            let library = LLVMOrcLLJITGetMainJITDylib(self.lljit.as_ptr());
            check(LLVMOrcLLJITAddObjectFile(self.lljit.as_ptr(), library, buffer)).map_err(Error::Load)
        }
    }

    /// The address of a function or datum of the loaded objects; links them on first use.
    ///
    /// # Errors
    /// [`Error::NoSymbol`] if it is absent or something it needs is.
    pub fn lookup(&self, name: &str) -> Result<NonNull<c_void>, Error> {
        let failed = |reason: String| Error::NoSymbol { name: name.into(), reason };
        let symbol = CString::new(name).map_err(|_| failed("the name contains a zero byte".into()))?;
        let mut address = 0;
        // SAFETY: the session is live and the name zero-terminated.
        let result = check(unsafe { LLVMOrcLLJITLookup(self.lljit.as_ptr(), &mut address, symbol.as_ptr()) });
        let mut messages = std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner));
        result.map_err(|message| {
            messages.push(message);
            failed(messages.join("\n"))
        })?;
        NonNull::new(address as *mut c_void).ok_or_else(|| failed("its address is zero".into()))
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        // SAFETY: the session was made by `new` and is disposed of once; `messages` is dropped after it. An error here
        // leaves nothing to be done.
        let _ = check(unsafe { LLVMOrcDisposeLLJIT(self.lljit.as_ptr()) });
    }
}

extern "C" fn collect_message(list: *mut c_void, error: LLVMErrorRef) {
    if let Err(message) = check(error) {
        // SAFETY: the pointer registered in `new`, alive as long as the session.
        let list = unsafe { &*list.cast::<Mutex<Vec<String>>>() };
        list.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}

/// Takes LLVM's error apart; null means success.
fn check(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is consumed by the first call, its message by the last.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(text)
    }
}

/// A machine of the host's kind without features: the loader generates no code, and finding out about features, which it
/// does several times, takes longer than all else that it does for a small program.
fn plain_machine() -> Result<TargetMachine, Error> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = InitializationConfig { disassembler: false, ..InitializationConfig::default() };
        Target::initialize_x86(&config);
    });
    let triple = TargetMachine::get_default_triple();
    let target = Target::from_triple(&triple).map_err(|reason| Error::Load(reason.to_string_lossy().into_owned()))?;
    target
        .create_target_machine(&triple, "", "", OptimizationLevel::None, RelocMode::PIC, CodeModel::Small)
        .ok_or_else(|| Error::Load("no machine was made".into()))
}
