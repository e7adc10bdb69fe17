//! What four warps do together with matrices, as calls of the functions with which an emulator plays it.
//!
//! Operands and sums are words in memory, in the order of the arguments, and results take the place of the sums.

use inkwell::AddressSpace;
use inkwell::builder::BuilderError;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{AggregateValue, BasicMetadataValueEnum, BasicValueEnum, FunctionValue};
use mlir_ext::gpu::{WarpGroupProduct, WarpGroupWait};

use crate::LlvmModule;

/// The function that plays products, and the types of their operands by its numbers.
const MULTIPLY: &str = "halo_emulator_multiply_warp_group";
const TYPES: [&str; 11] = [
    ".bf16.bf16",
    ".f16.f16",
    ".s8.s8",
    ".s8.u8",
    ".u8.s8",
    ".u8.u8",
    ".tf32.tf32",
    ".e4m3.e4m3",
    ".e4m3.e5m2",
    ".e5m2.e4m3",
    ".e5m2.e5m2",
];

/// The function that plays waits for them.
const WAIT: &str = "halo_emulator_wait_for_warp_group";

/// Gives the functions bodies that multiply the matrices of four warps, and wait for them.
pub(crate) fn redirect(llvm: &LlvmModule) -> Result<(), BuilderError> {
    for function in llvm.module.get_functions().collect::<Vec<_>>() {
        let name = function.get_name().to_string_lossy().into_owned();
        let parameters = function.count_params();
        let sums = match function.get_type().get_return_type() {
            Some(BasicTypeEnum::StructType(results)) => results.count_fields(),
            _ => continue,
        };
        if let Some(product) = WarpGroupProduct::of(&name) {
            let operands = parameters - if product.is_first { 0 } else { sums };
            play(llvm, function, (MULTIPLY, operands), &[code_of(&product), product.parts as u32, sums])?;
        } else if let Some(wait) = WarpGroupWait::of(&name) {
            play(llvm, function, (WAIT, 0), &[wait.pending, sums])?;
        }
    }
    Ok(())
}

/// The number by which the emulator knows what is multiplied.
fn code_of(product: &WarpGroupProduct) -> u32 {
    let types = TYPES.iter().position(|types| product.variant.ends_with(types)).unwrap_or(TYPES.len());
    let across = product.across.unwrap_or_default();
    let bits = [product.is_left_in_registers, product.is_first, product.is_pending, across[0], across[1]];
    bits.into_iter().fold(types as u32, |code, bit| code << 1 | u32::from(bit))
}

/// Has a function call another one with its arguments in memory, and numbers; sums are behind so many operands.
fn play(
    llvm: &LlvmModule,
    function: FunctionValue<'_>,
    (name, operands): (&str, u32),
    numbers: &[u32],
) -> Result<(), BuilderError> {
    let context = llvm.module.get_context();
    let builder = context.create_builder();
    let (pointer, word, double) = (context.ptr_type(AddressSpace::default()), context.i32_type(), context.i64_type());
    builder.position_at_end(context.append_basic_block(function, "entry"));
    let words_of = |parameter: &BasicValueEnum<'_>| if parameter.get_type() == double.into() { 2 } else { 1 };
    let of_operands: u32 = function.get_param_iter().take(operands as usize).map(|own| words_of(&own)).sum();
    let Some(BasicTypeEnum::StructType(results)) = function.get_type().get_return_type() else { return Ok(()) };
    let behind = results.count_fields().max(function.count_params() - operands);
    let count = u64::from((of_operands + behind).div_ceil(2));
    let words = builder.build_array_alloca(double, word.const_int(count, false), "")?;
    let place = |number: u32| {
        let number = word.const_int(u64::from(number), false);
        // SAFETY: an address is computed, within the words.
        unsafe { builder.build_gep(word, words, &[number], "") }
    };
    let mut next = 0;
    for parameter in function.get_param_iter() {
        builder.build_store(place(next)?, parameter)?;
        next += words_of(&parameter);
    }
    let redirect = llvm.module.get_function(name).unwrap_or_else(|| {
        let mut types = vec![pointer.into()];
        types.extend(numbers.iter().map(|_| inkwell::types::BasicMetadataTypeEnum::from(word)));
        llvm.module.add_function(name, context.void_type().fn_type(&types, false), None)
    });
    let mut arguments: Vec<BasicMetadataValueEnum<'_>> = vec![words.into()];
    arguments.extend(numbers.iter().map(|&number| BasicMetadataValueEnum::from(word.const_int(number.into(), false))));
    builder.build_call(redirect, &arguments, "")?;
    let mut all = results.get_undef().as_aggregate_value_enum();
    for (number, r#type) in (0..).zip(results.get_field_types_iter()) {
        let result = builder.build_load(r#type, place(of_operands + number)?, "")?;
        all = builder.build_insert_value(all, result, number, "")?;
    }
    builder.build_return(Some(&all.into_struct_value()))?;
    Ok(())
}
