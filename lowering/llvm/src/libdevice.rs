//! Calls of NVIDIA's device library that are really instructions.
//!
//! MLIR's GPU conversion turns every math operation into a call of `libdevice`, a bitcode file of the CUDA toolkit that is
//! not needed here: functions that the hardware has become LLVM intrinsics, others are refused.

use crate::{Error, LlvmModule};
use inkwell::IntPredicate;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::builder::BuilderError;
use inkwell::module::Linkage;
use inkwell::values::{BasicValueEnum, FunctionValue};
use inkwell::{intrinsics::Intrinsic, types::BasicType};

/// Functions (without the `f` of the single-precision ones) and the intrinsics with the same meaning.
const INSTRUCTIONS: &[(&str, &str)] = &[
    ("ceil", "llvm.ceil"),
    ("copysign", "llvm.copysign"),
    ("fabs", "llvm.fabs"),
    ("floor", "llvm.floor"),
    ("fma", "llvm.fma"),
    ("rint", "llvm.rint"),
    ("round", "llvm.round"),
    ("sqrt", "llvm.sqrt"),
    ("trunc", "llvm.trunc"),
];

/// Magnitudes of integers.
const INTEGER_MAGNITUDES: [&str; 2] = ["__nv_abs", "__nv_llabs"];

/// Gives a function of one integer the magnitude as its result.
fn define_magnitude(kernels: &LlvmModule, function: FunctionValue<'_>) -> Result<(), BuilderError> {
    let context = kernels.module.get_context();
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, "entry"));
    if let Some(BasicValueEnum::IntValue(value)) = function.get_nth_param(0) {
        let negated = builder.build_int_neg(value, "")?;
        let is_negative = builder.build_int_compare(IntPredicate::SLT, value, value.get_type().const_zero(), "")?;
        let magnitude = builder.build_select(is_negative, negated, value, "")?;
        builder.build_return(Some(&magnitude))?;
    }
    function.set_linkage(Linkage::Internal);
    // Several parts of a program's kernels may have it, of which one text is made.
    let inlined = Attribute::get_named_enum_kind_id("alwaysinline");
    function.add_attribute(AttributeLoc::Function, context.create_enum_attribute(inlined, 0));
    Ok(())
}

/// Replaces device library functions by intrinsics.
///
/// # Errors
/// [`Error::Emit`] if a function remains that has no body: there is nothing to link with.
pub(crate) fn bind_instructions(kernels: &LlvmModule) -> Result<(), Error> {
    let declared: Vec<_> =
        kernels.module.get_functions().filter(|function| function.count_basic_blocks() == 0).collect();
    for function in declared {
        let name = function.get_name().to_string_lossy().into_owned();
        if name.starts_with("llvm.") || name.starts_with(mlir_ext::gpu::INSTRUCTION) {
            continue;
        }
        if INTEGER_MAGNITUDES.contains(&name.as_str()) {
            define_magnitude(kernels, function).map_err(Error::emit)?;
            continue;
        }
        let intrinsic = name
            .strip_prefix("__nv_")
            .and_then(|base| {
                INSTRUCTIONS.iter().find(|(device, _)| base == *device || base.strip_suffix('f') == Some(device))
            })
            .and_then(|(_, intrinsic)| {
                let result = function.get_type().get_return_type()?;
                Intrinsic::find(intrinsic)?.get_declaration(&kernels.module, &[result.as_basic_type_enum()])
            })
            .ok_or_else(|| Error::Emit(format!("a kernel calls `{name}`, which GPUs do not have")))?;
        function.replace_all_uses_with(intrinsic);
        // SAFETY: nothing refers to the function any more.
        unsafe { function.delete() };
    }
    Ok(())
}
