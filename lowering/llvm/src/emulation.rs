//! GPU kernels as code of the host, for emulation: what PTX is made from, with the GPU's part played by functions.
//!
//! A thread's number comes from a function, and so does the address of each access to an array, which the function may
//! look at. Beside each kernel stands a function that takes its arguments from a table. The emulator has these functions
//! (`cuda::emulator`).

use inkwell::AddressSpace;
use inkwell::builder::{Builder, BuilderError};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{
    AnyValue, BasicMetadataValueEnum, BasicValueEnum, FunctionValue, InstructionOpcode, InstructionValue, Operand,
    PointerValue,
};
use melior::ir::Module;

use crate::code::translate;
use crate::{Emit, Error, LlvmModule, Target, libdevice, nvptx, timing::Timings};

/// What the function of a kernel that takes a table is called behind the kernel's name.
pub const BY_TABLE: &str = ".by_table";

/// Called with the address and the bytes of an access; they return the address to use.
const ACCESSES: [(InstructionOpcode, &str); 2] =
    [(InstructionOpcode::Load, "halo_emulator_load"), (InstructionOpcode::Store, "halo_emulator_store")];

/// What a thread asks the GPU for, and who answers.
const NUMBERS: [(&str, &str); 2] = [
    ("llvm.nvvm.read.ptx.sreg.tid.x", "halo_emulator_thread"),
    ("llvm.nvvm.read.ptx.sreg.ctaid.x", "halo_emulator_block"),
];

/// LLVM's number of the calling convention of PTX kernels.
const PTX_KERNEL: u32 = 71;

/// Passes after which an access shows which array it is of.
const PASSES: &str = "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm))";

/// An object file with the kernels of `module`, which are in the llvm and nvvm dialects, for the processor `host`.
///
/// # Errors
/// [`Error::NoGpuModule`], or the error of a phase.
pub fn generate(module: &Module, host: &Target, verify: bool) -> Result<Vec<u8>, Error> {
    let kernels = nvptx::gpu_module(module).ok_or(Error::NoGpuModule)?;
    let mut timings = Timings::default();
    let llvm = translate(kernels, host, verify, &mut timings)?;
    libdevice::bind_instructions(&llvm)?;
    for (intrinsic, function) in NUMBERS {
        if let Some(declared) = llvm.module.get_function(intrinsic) {
            declared.replace_all_uses_with(llvm.module.add_function(function, declared.get_type(), None));
            // SAFETY: nothing refers to the function any more.
            unsafe { declared.delete() };
        }
    }
    llvm.optimize(PASSES)?;
    let failed = |error: BuilderError| Error::Emit(error.to_string());
    let defined: Vec<FunctionValue> =
        llvm.module.get_functions().filter(|function| function.count_basic_blocks() > 0).collect();
    for function in defined {
        redirect_accesses(&llvm, function, host).map_err(failed)?;
        if function.get_call_conventions() == PTX_KERNEL {
            function.set_call_conventions(0);
            define_by_table(&llvm, function).map_err(failed)?;
        }
    }
    if verify {
        llvm.verify()?;
    }
    llvm.emit(Emit::Object)
}

/// Has the accesses of a function to its parameters' memory go where the emulator says.
fn redirect_accesses(llvm: &LlvmModule, function: FunctionValue<'_>, host: &Target) -> Result<(), BuilderError> {
    let context = llvm.module.get_context();
    let builder = context.create_builder();
    let (pointer, size) = (context.ptr_type(AddressSpace::default()), context.i64_type());
    let layout = host.machine().map(|machine| machine.0.get_target_data());
    for block in function.get_basic_blocks() {
        let accesses: Vec<InstructionValue<'_>> = block.get_instructions().collect();
        for access in accesses {
            let Some((opcode, name)) = ACCESSES.into_iter().find(|(opcode, _)| *opcode == access.get_opcode()) else {
                continue;
            };
            let operand = |number| access.get_operand(number).and_then(Operand::value);
            let (number, r#type) = match opcode {
                InstructionOpcode::Load => (0, BasicTypeEnum::try_from(access.get_type()).ok()),
                _ => (1, operand(0).map(|value| value.get_type())),
            };
            let address = operand(number);
            let (Some(BasicValueEnum::PointerValue(address)), Some(r#type), Ok(layout)) = (address, r#type, &layout)
            else {
                continue;
            };
            if !is_of_parameter(address) {
                continue;
            }
            let redirect = llvm.module.get_function(name).unwrap_or_else(|| {
                llvm.module.add_function(name, pointer.fn_type(&[pointer.into(), size.into()], false), None)
            });
            builder.position_before(&access);
            let bytes = size.const_int(layout.get_store_size(&r#type), false);
            let address = builder.build_call(redirect, &[address.into(), bytes.into()], "")?;
            if let Ok(address) = BasicValueEnum::try_from(address.as_any_value_enum()) {
                access.set_operand(number, address);
            }
        }
    }
    Ok(())
}

/// Whether an address is in the memory that a parameter points to, or may be; it is not in a thread's own or in a constant.
fn is_of_parameter(address: PointerValue<'_>) -> bool {
    let mut address = address;
    loop {
        let Some(instruction) = address.as_instruction() else { return !address.is_const() };
        match instruction.get_opcode() {
            InstructionOpcode::GetElementPtr | InstructionOpcode::AddrSpaceCast => {
                match instruction.get_operand(0).and_then(Operand::value) {
                    Some(BasicValueEnum::PointerValue(base)) => address = base,
                    _ => return true,
                }
            }
            InstructionOpcode::Alloca => return false,
            _ => return true,
        }
    }
}

/// Defines the function that calls a kernel with eight bytes from a table for each argument.
fn define_by_table(llvm: &LlvmModule, kernel: FunctionValue<'_>) -> Result<(), BuilderError> {
    let context = llvm.module.get_context();
    let name = format!("{}{BY_TABLE}", kernel.get_name().to_string_lossy());
    let pointer = context.ptr_type(AddressSpace::default());
    let function = llvm.module.add_function(&name, context.void_type().fn_type(&[pointer.into()], false), None);
    let builder: Builder<'_> = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let Some(BasicValueEnum::PointerValue(table)) = function.get_nth_param(0) else { return Ok(()) };
    let mut arguments: Vec<BasicMetadataValueEnum<'_>> = Vec::new();
    for (number, parameter) in kernel.get_param_iter().enumerate() {
        let position = context.i64_type().const_int(number as u64, false);
        // SAFETY: an address is computed, nothing else; whoever calls passes a table of as many entries.
        let place = unsafe { builder.build_gep(context.i64_type(), table, &[position], "")? };
        arguments.push(builder.build_load(parameter.get_type(), place, "")?.into());
    }
    builder.build_call(kernel, &arguments, "")?;
    builder.build_return(None)?;
    Ok(())
}
