//! GPU kernels as code of the host, for emulation: what PTX is made from, with the GPU's part played by functions.
//!
//! A thread's number comes from a function, what it gets from other threads and where it waits for them, and so does the address of each access to an array, which the function may
//! look at. Beside each kernel stands a function that takes its arguments from a table. The emulator has these functions
//! (`cuda::emulator`).

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::{Builder, BuilderError};
use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{
    AggregateValue, AnyValue, BasicMetadataValueEnum, BasicValueEnum, CallSiteValue, FunctionValue, GlobalValue,
    InstructionOpcode, InstructionValue, Operand, PointerValue,
};
use melior::ir::Module;
use mlir_ext::gpu;

use crate::code::translate;
use crate::gpu_instructions::{PTX_KERNEL, SHARED, is_shared, is_shared_by};
use crate::{Emit, Error, LlvmModule, Target, emulated_warp_groups, libdevice, nvptx, timing::Timings};

/// What the function of a kernel that takes a table is called behind the kernel's name.
pub const BY_TABLE: &str = ".by_table";

/// What it is called of a kernel whose threads wait for each other.
pub const TOGETHER: &str = ".together";

/// What a thread asks the GPU for, and who answers.
const ANSWERS: [(&str, &str); 22] = [
    (gpu::ACQUIRE_BOXES, "halo_emulator_acquire_boxes"),
    (gpu::ARRIVE, "halo_emulator_arrive"),
    (gpu::COPY_BOX, "halo_emulator_copy_box"),
    (gpu::EXPECT_BYTES, "halo_emulator_expect_bytes"),
    (gpu::FEWER_REGISTERS, "halo_emulator_set_registers"),
    (gpu::MORE_REGISTERS, "halo_emulator_set_registers"),
    (gpu::FENCE_FOR_BARRIERS, "halo_emulator_fence_barriers"),
    (gpu::FENCE_FOR_UNITS, "halo_emulator_fence"),
    (gpu::MAKE_BARRIER, "halo_emulator_make_barrier"),
    (gpu::WAIT_FOR_PHASE, "halo_emulator_wait_for_phase"),
    ("llvm.nvvm.barrier.cta.sync.aligned.all", BARRIER),
    ("llvm.nvvm.cp.async.ca.shared.global.4.s", "halo_emulator_copy_word"),
    ("llvm.nvvm.cp.async.cg.shared.global.16.s", "halo_emulator_copy"),
    ("llvm.nvvm.cp.async.commit.group", "halo_emulator_commit_copies"),
    ("llvm.nvvm.cp.async.wait.group", "halo_emulator_wait_for_copies"),
    ("llvm.nvvm.ex2.approx.ftz.f32", "halo_emulator_power_of_two"),
    ("llvm.nvvm.f2tf32.rna", "halo_emulator_round_to_tf32"),
    ("llvm.nvvm.rcp.approx.ftz.f", "halo_emulator_reciprocal"),
    ("llvm.nvvm.read.ptx.sreg.ctaid.x", "halo_emulator_block"),
    ("llvm.nvvm.read.ptx.sreg.tid.x", "halo_emulator_thread"),
    ("llvm.nvvm.shfl.sync.bfly.f32", "halo_emulator_exchange_f32"),
    ("llvm.nvvm.shfl.sync.bfly.i32", "halo_emulator_exchange_i32"),
];

/// What the threads of a warp do with matrices, and who does it: with words in memory, the operands in the order of the
/// arguments and then the results in their place, and a number for which of them it is.
const MATRIX_INSTRUCTIONS: [(&str, &str, u64); 11] = [
    ("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3", LOAD_MATRICES, 0),
    ("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p3", LOAD_MATRICES, 1),
    ("llvm.nvvm.mma.m16n8k16.row.col.bf16", MULTIPLY_MATRICES, 0),
    ("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", MULTIPLY_MATRICES, 1),
    ("llvm.nvvm.mma.m16n8k32.row.col.s8", MULTIPLY_MATRICES, 2),
    ("llvm.nvvm.mma.m16n8k32.row.col.s8.u8", MULTIPLY_MATRICES, 3),
    ("llvm.nvvm.mma.m16n8k32.row.col.u8.s8", MULTIPLY_MATRICES, 4),
    ("llvm.nvvm.mma.m16n8k32.row.col.u8", MULTIPLY_MATRICES, 5),
    ("llvm.nvvm.mma.m16n8k8.row.col.tf32", MULTIPLY_MATRICES, 6),
    ("llvm.nvvm.mma.m8n8k4.row.col.f64", MULTIPLY_MATRICES, 7),
    ("llvm.nvvm.mma.m16n8k8.row.col.f64", MULTIPLY_MATRICES, 8),
];

const LOAD_MATRICES: &str = "halo_emulator_load_matrices";
const MULTIPLY_MATRICES: &str = "halo_emulator_multiply_matrices";

/// Words of the memory for operands and results.
const MATRIX_WORDS: u32 = 20;

/// What the names of functions begin with in which threads wait for others.
const WAITS: [&str; 2] = [BARRIER, "halo_emulator_exchange"];

/// Where all threads of a block wait for each other; its argument is the number of the barrier.
const BARRIER: &str = "halo_emulator_barrier";

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
    for (intrinsic, function) in ANSWERS {
        if let Some(declared) = llvm.module.get_function(intrinsic) {
            // One may answer for several.
            let answers = llvm.module.get_function(function);
            let answers = answers.unwrap_or_else(|| llvm.module.add_function(function, declared.get_type(), None));
            declared.replace_all_uses_with(answers);
            // SAFETY: nothing refers to the function any more.
            unsafe { declared.delete() };
        }
    }
    // Other threads write there while one waits, so LLVM must not believe to see all accesses.
    let shared: Vec<GlobalValue<'_>> = llvm.module.get_globals().filter(is_shared).collect();
    for global in &shared {
        global.set_linkage(Linkage::External);
        global.set_alignment(gpu::SHARED_ALIGNMENT as u32);
        if let Ok(array) = BasicTypeEnum::try_from(global.get_value_type()) {
            global.set_initializer(&array.const_zero());
        }
    }
    number_barriers(&llvm);
    let failed = |error: BuilderError| Error::emit(error);
    redirect_matrix_instructions(&llvm).map_err(failed)?;
    emulated_warp_groups::redirect(&llvm).map_err(failed)?;
    llvm.optimize(PASSES)?;
    let defined: Vec<FunctionValue> =
        llvm.module.get_functions().filter(|function| function.count_basic_blocks() > 0).collect();
    for function in defined {
        redirect_accesses(&llvm, function, host).map_err(failed)?;
        if function.get_call_conventions() == PTX_KERNEL {
            function.set_call_conventions(0);
            define_by_table(&llvm, function, &shared, host).map_err(failed)?;
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
            let opcode = access.get_opcode();
            let operand = |number| access.get_operand(number).and_then(Operand::value);
            let (number, r#type) = match opcode {
                InstructionOpcode::Load => (0, BasicTypeEnum::try_from(access.get_type()).ok()),
                InstructionOpcode::Store => (1, operand(0).map(|value| value.get_type())),
                InstructionOpcode::AtomicRMW => (0, operand(1).map(|value| value.get_type())),
                _ => continue,
            };
            let address = operand(number);
            let (Some(BasicValueEnum::PointerValue(address)), Some(r#type), Ok(layout)) = (address, r#type, &layout)
            else {
                continue;
            };
            let is_load = opcode == InstructionOpcode::Load;
            let is_atomic = opcode == InstructionOpcode::AtomicRMW;
            let is_shared = address.get_type().get_address_space() == AddressSpace::from(SHARED as u16);
            let name = match (is_shared, base_of(function, address)) {
                (true, _) if is_load => "halo_emulator_load_shared",
                (true, _) if is_atomic => "halo_emulator_combine_shared",
                (true, _) => "halo_emulator_store_shared",
                (false, Base::Own) => continue,
                (false, _) if is_atomic => "halo_emulator_combine",
                (false, Base::Parameter(number)) if is_load && is_read_only(function, number) => "halo_emulator_read",
                (false, _) if is_load => "halo_emulator_load",
                (false, _) => "halo_emulator_store",
            };
            let redirect = llvm.module.get_function(name).unwrap_or_else(|| {
                let parameters = [pointer.into(), size.into(), size.into()];
                llvm.module.add_function(name, pointer.fn_type(&parameters, false), None)
            });
            builder.position_before(&access);
            let address = match address.get_type().get_address_space() == AddressSpace::default() {
                true => address,
                false => builder.build_address_space_cast(address, pointer, "")?,
            };
            let bytes = layout.get_store_size(&r#type);
            let alignment = if is_atomic { Ok(bytes) } else { access.get_alignment().map(u64::from) };
            let Ok(alignment) = alignment else { continue };
            let [bytes, wanted] = [bytes, alignment].map(|number| size.const_int(number, false));
            let address = builder.build_call(redirect, &[address.into(), bytes.into(), wanted.into()], "")?;
            if let Ok(address) = BasicValueEnum::try_from(address.as_any_value_enum()) {
                access.set_operand(number, address);
                if is_atomic {
                    continue;
                }
                // Where it is not as aligned as it says, the emulator says so.
                access.set_alignment(1).ok();
            }
        }
    }
    Ok(())
}

/// Has a function do what the threads of a warp do with matrices.
fn redirect_matrix_instructions(llvm: &LlvmModule) -> Result<(), BuilderError> {
    let context = llvm.module.get_context();
    let builder = context.create_builder();
    let (pointer, word) = (context.ptr_type(AddressSpace::default()), context.i32_type());
    for (intrinsic, function, number) in MATRIX_INSTRUCTIONS {
        for call in calls_of(llvm.module.get_functions(), &|name| name == intrinsic) {
            let kernel = call.get_parent().and_then(|block| block.get_parent());
            let Some(entry) = kernel.and_then(FunctionValue::get_first_basic_block) else { continue };
            match entry.get_first_instruction() {
                Some(first) => builder.position_before(&first),
                None => builder.position_at_end(entry),
            }
            let words = builder.build_array_alloca(word, word.const_int(MATRIX_WORDS.into(), false), "")?;
            if let Some(memory) = words.as_instruction() {
                memory.set_alignment(8).ok();
            }
            builder.position_before(&call);
            let place = |number: u32| {
                let number = word.const_int(number.into(), false);
                // SAFETY: an address is computed, within the words.
                unsafe { builder.build_gep(word, words, &[number], "") }
            };
            // A number of 64 bits takes two words.
            let words_of = |is_double: bool| if is_double { 2 } else { 1 };
            let double = context.f64_type();
            let mut next = 0;
            // The last operand of a call is the function.
            for operand in 0..call.get_num_operands() - 1 {
                let Some(value) = call.get_operand(operand).and_then(Operand::value) else { continue };
                let value = match value {
                    BasicValueEnum::PointerValue(address) => {
                        builder.build_address_space_cast(address, pointer, "")?.into()
                    }
                    other => other,
                };
                builder.build_store(place(next)?, value)?;
                next += words_of(value.get_type() == double.into());
            }
            let redirect = llvm.module.get_function(function).unwrap_or_else(|| {
                let r#type = context.void_type().fn_type(&[pointer.into(), word.into()], false);
                llvm.module.add_function(function, r#type, None)
            });
            builder.build_call(redirect, &[words.into(), word.const_int(number, false).into()], "")?;
            let Ok(BasicTypeEnum::StructType(results)) = BasicTypeEnum::try_from(call.get_type()) else { continue };
            let mut all = results.get_undef().as_aggregate_value_enum();
            let mut next = 0;
            for (number, r#type) in (0..).zip(results.get_field_types_iter()) {
                let result = builder.build_load(r#type, place(next)?, "")?;
                next += words_of(r#type == double.into());
                all = builder.build_insert_value(all, result, number, "")?;
            }
            if let Some(all) = all.into_struct_value().as_instruction() {
                call.replace_all_uses_with(&all);
            }
            call.erase_from_basic_block();
        }
    }
    Ok(())
}

/// Gives each barrier a number of its own, by which threads that wait at different ones are told apart.
fn number_barriers(llvm: &LlvmModule) {
    let number_type = llvm.module.get_context().i32_type();
    let calls = calls_of(llvm.module.get_functions(), &|name| name == BARRIER);
    for (number, call) in calls.into_iter().enumerate() {
        call.set_operand(0, number_type.const_int(number as u64, false));
    }
}

/// The calls of functions with some names.
fn calls_of<'l>(
    functions: impl Iterator<Item = FunctionValue<'l>>,
    is_named: &dyn Fn(&str) -> bool,
) -> Vec<InstructionValue<'l>> {
    let instructions = functions.flat_map(|function| {
        let blocks = function.get_basic_blocks().into_iter();
        blocks.flat_map(|block| block.get_instructions().collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    let is_call = |instruction: &InstructionValue<'_>| {
        instruction.get_opcode() == InstructionOpcode::Call
            && CallSiteValue::try_from(*instruction)
                .ok()
                .and_then(|call| call.get_called_fn_value())
                .is_some_and(|called| is_named(&called.get_name().to_string_lossy()))
    };
    instructions.filter(is_call).collect()
}

/// Whether a parameter points to what nobody writes.
fn is_read_only(function: FunctionValue<'_>, parameter: u32) -> bool {
    let kind = Attribute::get_named_enum_kind_id("readonly");
    function.get_enum_attribute(AttributeLoc::Param(parameter), kind).is_some()
}

/// What an address is in.
enum Base {
    /// A thread's own memory, or a constant.
    Own,
    /// What a parameter points to.
    Parameter(u32),
    Unknown,
}

fn base_of(function: FunctionValue<'_>, address: PointerValue<'_>) -> Base {
    let mut address = address;
    loop {
        let Some(instruction) = address.as_instruction() else {
            let own = BasicValueEnum::PointerValue(address);
            let number = function.get_param_iter().position(|parameter| parameter == own);
            return match number {
                _ if address.is_const() => Base::Own,
                Some(number) => Base::Parameter(number as u32),
                None => Base::Unknown,
            };
        };
        match instruction.get_opcode() {
            InstructionOpcode::GetElementPtr | InstructionOpcode::AddrSpaceCast => {
                match instruction.get_operand(0).and_then(Operand::value) {
                    Some(BasicValueEnum::PointerValue(base)) => address = base,
                    _ => return Base::Unknown,
                }
            }
            InstructionOpcode::Alloca => return Base::Own,
            _ => return Base::Unknown,
        }
    }
}

/// Defines the function that calls a kernel with eight bytes from a table for each argument.
///
/// That of a kernel whose threads wait for each other first says where its shared memory is.
fn define_by_table(
    llvm: &LlvmModule,
    kernel: FunctionValue<'_>,
    shared: &[GlobalValue<'_>],
    host: &Target,
) -> Result<(), BuilderError> {
    let context = llvm.module.get_context();
    let waits = !calls_of(std::iter::once(kernel), &|name| WAITS.iter().any(|own| name.starts_with(own))).is_empty();
    let kernel_name = kernel.get_name().to_string_lossy().into_owned();
    let name = format!("{kernel_name}{}", if waits { TOGETHER } else { BY_TABLE });
    let pointer = context.ptr_type(AddressSpace::default());
    let function = llvm.module.add_function(&name, context.void_type().fn_type(&[pointer.into()], false), None);
    let builder: Builder<'_> = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let Some(BasicValueEnum::PointerValue(table)) = function.get_nth_param(0) else { return Ok(()) };
    let layout = host.machine().map(|machine| machine.0.get_target_data());
    let size = context.i64_type();
    for global in shared.iter().filter(|global| is_shared_by(kernel, global)) {
        let (Ok(array), Ok(layout)) = (BasicTypeEnum::try_from(global.get_value_type()), &layout) else { continue };
        let share = llvm.module.get_function("halo_emulator_share").unwrap_or_else(|| {
            let r#type = context.void_type().fn_type(&[pointer.into(), size.into()], false);
            llvm.module.add_function("halo_emulator_share", r#type, None)
        });
        let address = builder.build_address_space_cast(global.as_pointer_value(), pointer, "")?;
        let bytes = size.const_int(layout.get_store_size(&array), false);
        builder.build_call(share, &[address.into(), bytes.into()], "")?;
    }
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
