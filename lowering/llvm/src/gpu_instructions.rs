//! What kernels ask for by functions that stand for instructions, and by arrays that are too large for a kernel's own shared
//! memory (`mlir_ext::gpu`), as PTX has it.

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::BuilderError;
use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{AnyValue, BasicMetadataValueEnum, BasicValueEnum, FunctionValue, GlobalValue};
use mlir_ext::gpu::{self, WarpGroupProduct, WarpGroupWait};

use crate::{Error, LlvmModule};

/// Number of the address space of the memory that the threads of a block share.
pub(crate) const SHARED: u32 = 3;

/// LLVM's number of the calling convention of PTX kernels.
pub(crate) const PTX_KERNEL: u32 = 71;

/// The name of the memory that is given with a launch.
const GIVEN: &str = "halo_shared";

/// Whether a global is memory that the threads of a block share.
pub(crate) fn is_shared(global: &GlobalValue<'_>) -> bool {
    global.as_pointer_value().get_type().get_address_space() == AddressSpace::from(SHARED as u16)
}

/// Whether an array is one that the threads of this kernel's blocks share, as its name says: MLIR numbers those of each kernel.
pub(crate) fn is_shared_by(kernel: FunctionValue<'_>, global: &GlobalValue<'_>) -> bool {
    is_array_of(&kernel.get_name().to_string_lossy(), &global.get_name().to_string_lossy()) && is_shared(global)
}

/// Whether an array's name is the kernel's with a number, and nothing else: other kernels' names may begin with it.
fn is_array_of(kernel: &str, array: &str) -> bool {
    let number = array.strip_prefix("__wg_").and_then(|rest| rest.strip_prefix(kernel)?.strip_prefix('_'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Gives the functions that stand for instructions their bodies, and large arrays their places.
pub(crate) fn define(kernels: &LlvmModule) -> Result<(), Error> {
    let failed = |error: BuilderError| Error::emit(error);
    for function in kernels.module.get_functions() {
        let name = function.get_name().to_string_lossy().into_owned();
        let Some(instruction) = name.strip_prefix(gpu::INSTRUCTION) else { continue };
        let assembly = match (WarpGroupProduct::of(&name), WarpGroupWait::of(&name)) {
            (Some(product), _) => warp_group_product(function, &product),
            (_, Some(wait)) => warp_group_wait(function, &wait),
            _ => match gpu::TEXTS.iter().find(|(own, _)| *own == name) {
                Some((_, text)) => with_operands(function, text),
                None => Assembly { text: format!("{instruction};"), constraints: "~{memory}".into() },
            },
        };
        define_as(kernels, function, assembly).map_err(failed)?;
    }
    let machine = kernels.target.machine()?;
    let layout = machine.0.get_target_data();
    let size = |global: &GlobalValue<'_>| {
        BasicTypeEnum::try_from(global.get_value_type()).map_or(0, |r#type| layout.get_store_size(&r#type))
    };
    let functions = kernels.module.get_functions();
    for kernel in functions.filter(|function| function.get_call_conventions() == PTX_KERNEL) {
        let arrays: Vec<GlobalValue<'_>> =
            kernels.module.get_globals().filter(|global| is_shared_by(kernel, global)).collect();
        let sizes: Vec<u64> = arrays.iter().map(size).collect();
        if let Some((places, _)) = gpu::given_shared_memory(&sizes) {
            place_in_given_memory(kernels, &arrays, &places);
        }
    }
    Ok(())
}

/// Has arrays be at places of the memory that is given with the launch.
fn place_in_given_memory(kernels: &LlvmModule, arrays: &[GlobalValue<'_>], places: &[u64]) {
    let context = kernels.module.get_context();
    let given = kernels.module.get_global(GIVEN).unwrap_or_else(|| {
        let space = AddressSpace::from(SHARED as u16);
        let given = kernels.module.add_global(context.i8_type().array_type(0), Some(space), GIVEN);
        given.set_linkage(Linkage::External);
        given.set_alignment(gpu::SHARED_ALIGNMENT as u32);
        given
    });
    for (array, &place) in arrays.iter().zip(places) {
        let offset = context.i64_type().const_int(place, false);
        // SAFETY: an address is computed; launches give the memory as large as all arrays are.
        let address = unsafe { given.as_pointer_value().const_gep(context.i8_type(), &[offset]) };
        array.as_pointer_value().replace_all_uses_with(address);
        // SAFETY: nothing refers to the array any more.
        unsafe { array.delete() };
    }
}

/// PTX with operands, and which these are.
struct Assembly {
    text: String,
    constraints: String,
}

/// An instruction whose text names integers by number.
fn with_operands(function: FunctionValue<'_>, text: &str) -> Assembly {
    let constraint = |parameter: BasicValueEnum<'_>| match parameter {
        BasicValueEnum::IntValue(value) if value.get_type().get_bit_width() == 64 => "l,",
        _ => "r,",
    };
    let constraints: String = function.get_param_iter().map(constraint).chain(["~{memory}"]).collect();
    Assembly { text: text.to_string(), constraints }
}

/// The products of several pairs of matrices, one after another, and the wait for the last unless they are pending.
fn warp_group_product(function: FunctionValue<'_>, product: &WarpGroupProduct) -> Assembly {
    let (sums, is_of_floats) = sums_of(function);
    let operands = function.count_params() as usize - if product.is_first { 0 } else { sums };
    let names = |numbers: std::ops::Range<usize>| {
        let names: Vec<String> = numbers.map(|number| format!("${number}")).collect();
        names.join(", ")
    };
    let all_sums = names(0..sums);
    // Operands as they are; whether they lie across, which is said of matrices in memory.
    let scales = if is_of_floats { ", 1, 1" } else { "" };
    let across = product.across.iter().flatten().skip(usize::from(product.is_left_in_registers));
    let across: String = across.map(|&own| format!(", {}", u8::from(own))).collect();
    let mut text = String::from("{\n.reg .pred adds, begins;\nsetp.ne.b32 adds, 1, 0;\n");
    if product.is_first {
        text.push_str("setp.ne.b32 begins, 0, 0;\n");
    }
    text.push_str("wgmma.fence.sync.aligned;\n");
    for first in (sums..sums + operands).step_by(product.parameters()) {
        let right = first + product.parameters() - 1;
        let left = match product.is_left_in_registers {
            true => format!("{{{}}}", names(first..right)),
            false => names(first..right),
        };
        let is_added = if product.is_first && first == sums { "begins" } else { "adds" };
        text.push_str(&format!(
            "wgmma.mma_async.sync.aligned.{} {{{all_sums}}}, {left}, ${right}, {is_added}{scales}{across};\n",
            product.variant,
        ));
    }
    text.push_str("wgmma.commit_group.sync.aligned;\n");
    text.push_str(if product.is_pending { "}" } else { "wgmma.wait_group.sync.aligned 0;\n}" });
    let constraint = |parameter: BasicValueEnum<'_>| match parameter {
        BasicValueEnum::IntValue(value) if value.get_type().get_bit_width() == 64 => "l",
        _ => "r",
    };
    let constraints: Vec<String> = vec![if is_of_floats { "=f" } else { "=r" }; sums]
        .into_iter()
        .chain(function.get_param_iter().take(operands).map(constraint))
        .map(str::to_string)
        .chain((0..if product.is_first { 0 } else { sums }).map(|number| number.to_string()))
        .chain(["~{memory}".to_string()])
        .collect();
    Assembly { text, constraints: constraints.join(",") }
}

/// How many sums a function gives, and whether they are floats.
fn sums_of(function: FunctionValue<'_>) -> (usize, bool) {
    let results = match function.get_type().get_return_type() {
        Some(BasicTypeEnum::StructType(results)) => results.get_field_types(),
        _ => Vec::new(),
    };
    (results.len(), matches!(results.first(), Some(BasicTypeEnum::FloatType(_))))
}

/// The wait for pending products.
fn warp_group_wait(function: FunctionValue<'_>, wait: &WarpGroupWait) -> Assembly {
    let (_, is_of_floats) = sums_of(function);
    let constraints: Vec<String> = vec![if is_of_floats { "=f" } else { "=r" }.to_string(); wait.sums]
        .into_iter()
        .chain((0..wait.sums).map(|number| number.to_string()))
        .chain(vec!["r".to_string(); wait.words])
        .chain(["~{memory}".to_string()])
        .collect();
    Assembly { text: format!("wgmma.wait_group.sync.aligned {};", wait.pending), constraints: constraints.join(",") }
}

/// Gives a function a body of PTX.
fn define_as(kernels: &LlvmModule, function: FunctionValue<'_>, assembly: Assembly) -> Result<(), BuilderError> {
    let context = kernels.module.get_context();
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let r#type = function.get_type();
    let code = context.create_inline_asm(r#type, assembly.text, assembly.constraints, true, false, None, false);
    let arguments: Vec<BasicMetadataValueEnum<'_>> = function.get_param_iter().map(Into::into).collect();
    let call = builder.build_indirect_call(r#type, code, &arguments, "")?;
    match BasicValueEnum::try_from(call.as_any_value_enum()) {
        Ok(result) => builder.build_return(Some(&result))?,
        Err(_) => builder.build_return(None)?,
    };
    function.set_linkage(Linkage::Internal);
    let attribute = |name| context.create_enum_attribute(Attribute::get_named_enum_kind_id(name), 0);
    // All threads of a warp get there together, which nothing may move to where only some do.
    let convergent = attribute("convergent");
    call.add_attribute(AttributeLoc::Function, convergent);
    function.add_attribute(AttributeLoc::Function, convergent);
    function.add_attribute(AttributeLoc::Function, attribute("alwaysinline"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_of_the_kernel_of_their_name() {
        assert!(is_array_of("dot", "__wg_dot_0") && is_array_of("dot_1", "__wg_dot_1_12"));
        for other in ["__wg_dot_1_0", "__wg_dot_", "__wg_dots_0", "dot_0"] {
            assert!(!is_array_of("dot", other), "{other}");
        }
    }
}
