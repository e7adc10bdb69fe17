//! Constants of arithmetic as loads of whole vectors, for AVX2.
//!
//! LLVM makes a constant vector of equal elements from one element. With more constants than registers, as the polynomials of
//! functions have, that is an instruction for each use, which AVX-512 makes part of the one that uses it. A load of a whole vector
//! becomes part of it with AVX2 too: `erf` takes 0.40 ms a million elements instead of 0.52.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;

use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::module::{Linkage, Module};
use inkwell::types::VectorType;
use inkwell::values::{
    BasicValue, BasicValueEnum, GlobalValue, InstructionOpcode, InstructionValue, MetadataValue, UnnamedAddress,
    VectorValue,
};

use crate::Error;
use crate::instructions::{calls, element_of, operand_of};

/// Constants of a block up to which registers hold them, beside what is computed.
const MOST_IN_REGISTERS: usize = 12;

/// Bytes of a register.
const REGISTER: u32 = 32;

/// Replaces constants of floating-point arithmetic by loads where a block has many.
///
/// # Errors
/// None but internal ones.
pub(crate) fn load(module: &Module<'_>) -> Result<(), Error> {
    // Functions of vectors are made of these.
    if !module.get_functions().any(|function| is_multiply_add(function.get_name())) {
        return Ok(());
    }
    let context = module.get_context();
    let mut loads = Loads {
        module,
        builder: context.create_builder(),
        globals: HashMap::new(),
        invariant: context.metadata_node(&[]),
        invariant_kind: context.get_kind_id("invariant.load"),
    };
    let mut blocks = module.get_functions().flat_map(|function| function.get_basic_block_iter());
    blocks.try_for_each(|block| loads.replace_in(block))
}

/// A constant operand of an instruction.
struct Use<'c> {
    instruction: InstructionValue<'c>,
    operand: u32,
    constant: VectorValue<'c>,
    element: BasicValueEnum<'c>,
    /// Elements of a register.
    lanes: u32,
}

struct Loads<'m, 'c> {
    module: &'m Module<'c>,
    builder: Builder<'c>,
    /// A register of each element.
    globals: HashMap<BasicValueEnum<'c>, GlobalValue<'c>>,
    /// Says that nothing changes what is loaded.
    invariant: MetadataValue<'c>,
    invariant_kind: u32,
}

impl<'c> Loads<'_, 'c> {
    fn replace_in(&mut self, block: BasicBlock<'c>) -> Result<(), Error> {
        let mut uses = Vec::new();
        block.get_instructions().filter(|&own| is_arithmetic(own)).for_each(|own| constants_of(own, &mut uses));
        let constants: HashSet<VectorValue<'c>> = uses.iter().map(|own| own.constant).collect();
        if constants.len() <= MOST_IN_REGISTERS {
            return Ok(());
        }
        let mut loaded = HashMap::new();
        for Use { instruction, operand, constant, element, lanes } in uses {
            let value = match loaded.entry(constant) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => *new.insert(self.load(instruction, constant.get_type(), (element, lanes))?),
            };
            instruction.set_operand(operand, value);
        }
        Ok(())
    }

    /// A vector of equal elements, loaded before an instruction.
    fn load(
        &mut self,
        before: InstructionValue<'c>,
        r#type: VectorType<'c>,
        (element, lanes): (BasicValueEnum<'c>, u32),
    ) -> Result<BasicValueEnum<'c>, Error> {
        let module = self.module;
        let register = VectorType::const_vector(&vec![element; lanes as usize]);
        let global = *self.globals.entry(element).or_insert_with(|| {
            let global = module.add_global(register.get_type(), None, "constant");
            global.set_initializer(&register);
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global.set_unnamed_address(UnnamedAddress::Global);
            global.set_alignment(REGISTER);
            global
        });
        self.builder.position_before(&before);
        let loaded =
            self.builder.build_load(register.get_type(), global.as_pointer_value(), "").map_err(Error::emit)?;
        if let Some(load) = loaded.as_instruction_value() {
            load.set_alignment(REGISTER).map_err(Error::emit)?;
            load.set_metadata(self.invariant, self.invariant_kind).map_err(Error::emit)?;
        }
        if r#type.get_size() == lanes {
            return Ok(loaded);
        }
        let index = self.module.get_context().i32_type();
        let index: Vec<_> =
            (0..r#type.get_size()).map(|lane| index.const_int(u64::from(lane % lanes), false)).collect();
        let vector = loaded.into_vector_value();
        let index = VectorType::const_vector(&index);
        Ok(self.builder.build_shuffle_vector(vector, vector, index, "").map_err(Error::emit)?.into())
    }
}

/// Whether a function is LLVM's fused multiplication and addition of vectors.
fn is_multiply_add(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"llvm.fma.v")
}

/// Whether an instruction adds or multiplies.
fn is_arithmetic(instruction: InstructionValue<'_>) -> bool {
    use InstructionOpcode::{Call, FAdd, FMul, FSub};
    match instruction.get_opcode() {
        FAdd | FMul | FSub => true,
        Call => calls(instruction, is_multiply_add),
        _ => false,
    }
}

/// The operands that are vectors of one number, registers or several of them full; zeros need no memory.
fn constants_of<'c>(instruction: InstructionValue<'c>, uses: &mut Vec<Use<'c>>) {
    for operand in 0..instruction.get_num_operands() {
        let Some(BasicValueEnum::VectorValue(constant)) = operand_of(instruction, operand) else { continue };
        if !constant.is_constant_data_vector() || constant.is_null() {
            continue;
        }
        let Some(element) = element_of(constant.into()) else { continue };
        if let Some(lanes) = lanes_of(element).filter(|lanes| constant.get_type().get_size() % lanes == 0) {
            uses.push(Use { instruction, operand, constant, element, lanes });
        }
    }
}

/// How many of a number a register holds.
fn lanes_of(element: BasicValueEnum<'_>) -> Option<u32> {
    let BasicValueEnum::FloatValue(number) = element else { return None };
    let r#type = number.get_type();
    let context = r#type.get_context();
    let bytes = [(context.f32_type(), 4), (context.f64_type(), 8)].into_iter().find(|(own, _)| *own == r#type)?.1;
    Some(REGISTER / bytes)
}
