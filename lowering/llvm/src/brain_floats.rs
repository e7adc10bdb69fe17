//! Arithmetic on `bf16`, which is the upper half of `f32`.
//!
//! Codes become `f32` numbers by a shift, and rounded numbers become codes by one. What stands between is made cheaper in two ways.
//! - Rounding tests for NaN, of which the lower half may carry into the upper one. It cannot where NaN has no lower half: one
//!   that comes from a `bf16`, or that arithmetic made.
//! - Vectors between loads and stores of codes take the even elements before the odd ones, if what is done with them is the same in
//!   all lanes. Then both halves are numbers where they are, without being moved to other lanes.

use std::collections::HashSet;

use inkwell::FloatPredicate;
use inkwell::builder::Builder;
use inkwell::module::Module;
use inkwell::types::{AnyTypeEnum, VectorType};
use inkwell::values::{
    BasicValue, BasicValueEnum, FloatValue, InstructionOpcode, InstructionValue, PhiValue, VectorValue,
};

use crate::Error;
use crate::instructions::{calls, distinct, element_of, operand_of, operands, users};

/// Bits of a code.
const CODE_BITS: u64 = 16;
/// Integer operations that bits are followed through.
const MOST_STEPS: u32 = 6;
const LOWER_HALF: u64 = 0xffff;
const UPPER_HALF: u64 = 0xffff_0000;
/// Of an `f32`: the sign, and NaN of which no instruction takes notice.
const SIGN: u64 = 1 << 31;
const QUIET_NAN: u64 = 0x7fc0_0000;

/// Functions of LLVM of which each lane of the result depends on the same lane of the operands, and which make no NaN but of NaN or
/// as arithmetic does.
const LANEWISE: [&str; 18] = [
    "llvm.ceil.",
    "llvm.copysign.",
    "llvm.fabs.",
    "llvm.floor.",
    "llvm.fma.",
    "llvm.fmuladd.",
    "llvm.maximum.",
    "llvm.maximumnum.",
    "llvm.maxnum.",
    "llvm.minimum.",
    "llvm.minimumnum.",
    "llvm.minnum.",
    "llvm.nearbyint.",
    "llvm.rint.",
    "llvm.round.",
    "llvm.roundeven.",
    "llvm.sqrt.",
    "llvm.trunc.",
];

/// Makes the arithmetic between loads and stores of `bf16` cheaper, on a machine with so many `f32` lanes.
///
/// # Errors
/// None but internal ones.
pub(crate) fn simplify(module: &Module<'_>, lanes: u32) -> Result<(), Error> {
    let builder = module.get_context().create_builder();
    for function in module.get_functions() {
        let instructions = function.get_basic_block_iter().flat_map(|block| block.get_instructions());
        let codes: Vec<Codes<'_>> = instructions.filter_map(Codes::of).collect();
        let mut nans = Nans::default();
        for own in &codes {
            if let Some((select, rounded, number)) = own.test()
                && nans.have_no_lower_half(number)
            {
                own.shift.set_operand(0, rounded);
                erase_unused(select);
            }
        }
        let mut stored = HashSet::new();
        for own in codes.iter().filter(|own| own.count() > 0 && own.count() % (2 * lanes) == 0) {
            if stored.contains(&own.result) {
                continue;
            }
            if let Some(region) = Region::around(own) {
                stored.extend(region.codes.iter().map(|codes| codes.result));
                region.take_pairs(&builder)?;
            }
        }
    }
    Ok(())
}

/// Codes of rounded numbers: the upper halves of their bits.
#[derive(Clone, Copy)]
struct Codes<'c> {
    shift: InstructionValue<'c>,
    result: InstructionValue<'c>,
}

impl<'c> Codes<'c> {
    fn of(result: InstructionValue<'c>) -> Option<Self> {
        if result.get_opcode() != InstructionOpcode::Trunc {
            return None;
        }
        let shift = operand_of(result, 0)?.as_instruction_value()?;
        let is_shift =
            shift.get_opcode() == InstructionOpcode::LShr && constant_of(operand_of(shift, 1)?) == Some(CODE_BITS);
        (is_shift && has_bits(result, 16) && has_bits(shift, 32)).then_some(Codes { shift, result })
    }

    /// Lanes; 0 where there is but one number.
    fn count(&self) -> u32 {
        vector_type(self.result).map_or(0, VectorType::get_size)
    }

    /// What takes NaN in the place of a number that is rounded, the rounded number, and the number.
    fn test(&self) -> Option<(InstructionValue<'c>, BasicValueEnum<'c>, BasicValueEnum<'c>)> {
        let select = operand_of(self.shift, 0)?.as_instruction_value()?;
        if select.get_opcode() != InstructionOpcode::Select {
            return None;
        }
        let test = operand_of(select, 0)?.as_instruction_value()?;
        let number = operand_of(test, 0)?;
        let is_test = test.get_fcmp_predicate() == Some(FloatPredicate::UNO) && operand_of(test, 1)? == number;
        let rounded = operand_of(select, 2)?;
        let is_rounding = is_quiet_nan(operand_of(select, 1)?, number) && is_rounded(rounded, number);
        (is_test && is_rounding).then_some((select, rounded, number))
    }
}

/// Whether bits are those of NaN with the sign of a number.
fn is_quiet_nan(bits: BasicValueEnum<'_>, number: BasicValueEnum<'_>) -> bool {
    let sign =
        beside(bits, InstructionOpcode::Or, QUIET_NAN).and_then(|sign| beside(sign, InstructionOpcode::And, SIGN));
    sign.is_some_and(|sign| is_bits_of(sign, number))
}

/// Whether bits are those of a number whose lower half is rounded away, to nearest, ties to even.
fn is_rounded(bits: BasicValueEnum<'_>, number: BasicValueEnum<'_>) -> bool {
    use InstructionOpcode::{Add, And, LShr};
    let is_last_kept = |added| {
        let shifted = beside(added, Add, LOWER_HALF >> 1).and_then(|kept| beside(kept, And, 1));
        shifted.and_then(|shifted| beside(shifted, LShr, CODE_BITS)).is_some_and(|own| is_bits_of(own, number))
    };
    let sum = beside(bits, And, UPPER_HALF).and_then(|sum| sum.as_instruction_value());
    sum.filter(|sum| sum.get_opcode() == Add).is_some_and(|sum| match operands(sum).collect::<Vec<_>>()[..] {
        [a, b] => is_bits_of(a, number) && is_last_kept(b) || is_bits_of(b, number) && is_last_kept(a),
        _ => false,
    })
}

fn is_bits_of(bits: BasicValueEnum<'_>, number: BasicValueEnum<'_>) -> bool {
    let is_cast = |own: InstructionValue<'_>| own.get_opcode() == InstructionOpcode::BitCast;
    bits.as_instruction_value().filter(|&own| is_cast(own)).and_then(|own| operand_of(own, 0)) == Some(number)
}

/// What an operation has beside a constant.
fn beside(value: BasicValueEnum<'_>, opcode: InstructionOpcode, constant: u64) -> Option<BasicValueEnum<'_>> {
    let own = value.as_instruction_value().filter(|own| own.get_opcode() == opcode)?;
    let (first, second) = (operand_of(own, 0)?, operand_of(own, 1)?);
    match (constant_of(first), constant_of(second)) {
        (_, Some(number)) if number == constant => Some(first),
        (Some(number), _) if number == constant => Some(second),
        _ => None,
    }
}

/// Removes an instruction that nothing reads, and what nothing but it read.
fn erase_unused(own: InstructionValue<'_>) {
    if own.get_first_use().is_some() {
        return;
    }
    let made = distinct(operands(own).filter_map(|operand| operand.as_instruction_value()));
    own.erase_from_basic_block();
    made.into_iter().for_each(erase_unused);
}

/// What is known of numbers that may be NaN.
#[derive(Default)]
struct Nans<'c> {
    /// Those of which every NaN has no lower half.
    known: HashSet<InstructionValue<'c>>,
}

impl<'c> Nans<'c> {
    fn have_no_lower_half(&mut self, number: BasicValueEnum<'c>) -> bool {
        let mut seen = HashSet::new();
        let mut rest = vec![number];
        while let Some(number) = rest.pop() {
            let Some(own) = number.as_instruction_value() else {
                if is_no_nan(number) {
                    continue;
                }
                return false;
            };
            if self.known.contains(&own) || !seen.insert(own) {
                continue;
            }
            use InstructionOpcode::*;
            match own.get_opcode() {
                SIToFP | UIToFP => {}
                FAdd | FSub | FMul | FDiv | FRem | FNeg | Freeze => rest.extend(operands(own)),
                Select => rest.extend(operands(own).skip(1)),
                ExtractElement | InsertElement | ShuffleVector => {
                    rest.extend(operands(own).filter(|&value| is_float(value)))
                }
                Phi => match PhiValue::try_from(own) {
                    Ok(phi) => rest.extend(phi.get_incomings().map(|(value, _)| value)),
                    Err(()) => return false,
                },
                Call if is_lanewise_call(own) => rest.extend(operands(own).filter(|&value| is_float(value))),
                BitCast if operand_of(own, 0).is_some_and(|bits| ends_in_zeros(bits, MOST_STEPS)) => {}
                _ => return false,
            }
        }
        self.known.extend(seen);
        true
    }
}

/// Whether the lower half of an integer is zero, as so many steps back tell.
fn ends_in_zeros(bits: BasicValueEnum<'_>, steps: u32) -> bool {
    if let Some(constant) = constant_of(bits) {
        return constant & LOWER_HALF == 0;
    }
    let (Some(own), Some(steps)) = (bits.as_instruction_value(), steps.checked_sub(1)) else { return false };
    let all = |skipped: usize| operands(own).skip(skipped).all(|bits| ends_in_zeros(bits, steps));
    match own.get_opcode() {
        InstructionOpcode::Shl => operand_of(own, 1).and_then(constant_of).is_some_and(|count| count >= CODE_BITS),
        InstructionOpcode::And => operands(own).any(|bits| ends_in_zeros(bits, steps)),
        InstructionOpcode::Or | InstructionOpcode::Add | InstructionOpcode::Sub => all(0),
        InstructionOpcode::Select => all(1),
        _ => false,
    }
}

/// What lies between codes that are loaded and codes that are made, where all lanes are treated alike.
struct Region<'c> {
    members: HashSet<InstructionValue<'c>>,
    /// Codes that were loaded, as integers of 32 bits.
    loaded: Vec<InstructionValue<'c>>,
    codes: Vec<Codes<'c>>,
}

impl<'c> Region<'c> {
    /// All that some codes depend on, up to what is loaded; `None` where lanes are not treated alike or something else sees them.
    fn around(codes: &Codes<'c>) -> Option<Self> {
        let count = codes.count();
        let mut region = Region { members: HashSet::new(), loaded: Vec::new(), codes: Vec::new() };
        let mut order = Vec::new();
        let mut rest = vec![operand_of(codes.shift, 0)?];
        while let Some(value) = rest.pop() {
            let Some(own) = value.as_instruction_value().filter(|&own| vector_type(own).is_some()) else {
                // Of a scalar all lanes have the same.
                let is_same = !value.is_vector_value() || constant_of(value).is_some() || is_same_float(value);
                if is_same { continue } else { return None }
            };
            if is_splat(own) || !region.members.insert(own) {
                continue;
            }
            order.push(own);
            if own.get_opcode() == InstructionOpcode::ZExt
                && operand_of(own, 0).is_some_and(|codes| is_load_of_codes(codes))
            {
                region.loaded.push(own);
            } else if is_lanewise(own) && vector_type(own).map(VectorType::get_size) == Some(count) {
                rest.extend(operands(own).filter(|value| !value.is_pointer_value()));
            } else {
                return None;
            }
        }
        for own in order {
            for user in users(own) {
                let user = user?;
                if !region.members.contains(&user) {
                    region.add_codes_of(user)?;
                }
            }
        }
        let become_numbers = |loaded: &InstructionValue<'c>| users(*loaded).flatten().all(is_shift_to_number);
        (!region.loaded.is_empty() && region.loaded.iter().all(become_numbers)).then_some(region)
    }

    /// The codes that a shift makes, if it makes nothing else.
    fn add_codes_of(&mut self, shift: InstructionValue<'c>) -> Option<()> {
        shift.get_first_use()?;
        for user in users(shift) {
            let codes = Codes::of(user?)?;
            if codes.shift != shift {
                return None;
            }
            if self.codes.iter().all(|own| own.result != codes.result) {
                self.codes.push(codes);
            }
        }
        Some(())
    }

    /// Has the even elements before the odd ones.
    fn take_pairs(&self, builder: &Builder<'c>) -> Result<(), Error> {
        for &loaded in &self.loaded {
            let codes =
                operand_of(loaded, 0).ok_or_else(|| Error::emit("codes that come from nowhere"))?.into_vector_value();
            let pairs = Pairs::of(codes.get_type());
            builder.position_before(&loaded);
            let words = builder.build_bit_cast(codes, pairs.words, "").map_err(Error::emit)?.into_vector_value();
            let even = builder.build_left_shift(words, pairs.splat(CODE_BITS), "").map_err(Error::emit)?;
            let odd = builder.build_and(words, pairs.splat(UPPER_HALF), "").map_err(Error::emit)?;
            let all = builder.build_shuffle_vector(even, odd, pairs.numbers(0, 2), "").map_err(Error::emit)?;
            let all = all.as_instruction().ok_or_else(|| Error::emit("codes that are constant"))?;
            for shift in users(loaded).flatten().collect::<Vec<_>>() {
                shift.replace_all_uses_with(&all);
                shift.erase_from_basic_block();
            }
            loaded.erase_from_basic_block();
        }
        for Codes { shift, result } in &self.codes {
            let bits = operand_of(*shift, 0).ok_or_else(|| Error::emit("a shift of nothing"))?.into_vector_value();
            let codes = vector_type(*result).ok_or_else(|| Error::emit("codes that are no vector"))?;
            let pairs = Pairs::of(codes);
            builder.position_before(result);
            let half =
                |number| builder.build_shuffle_vector(bits, bits, pairs.numbers(number, 1), "").map_err(Error::emit);
            let even = builder.build_right_shift(half(0)?, pairs.splat(CODE_BITS), false, "").map_err(Error::emit)?;
            let odd = builder.build_and(half(1)?, pairs.splat(UPPER_HALF), "").map_err(Error::emit)?;
            let words = builder.build_or(even, odd, "").map_err(Error::emit)?;
            let all = builder.build_bit_cast(words, codes, "").map_err(Error::emit)?;
            let all = all.as_instruction_value().ok_or_else(|| Error::emit("codes that are constant"))?;
            result.replace_all_uses_with(&all);
            result.erase_from_basic_block();
        }
        Ok(())
    }
}

/// Codes two by two.
struct Pairs<'c> {
    words: VectorType<'c>,
}

impl<'c> Pairs<'c> {
    fn of(codes: VectorType<'c>) -> Self {
        Pairs { words: codes.get_context().i32_type().vec_type(codes.get_size() / 2) }
    }

    fn splat(&self, value: u64) -> VectorValue<'c> {
        let value = self.words.get_context().i32_type().const_int(value, false);
        VectorType::const_vector(&vec![value; self.words.get_size() as usize])
    }

    /// The numbers of `halves` halves of the lanes, from one of them on.
    fn numbers(&self, first: u32, halves: u32) -> VectorValue<'c> {
        let half = self.words.get_size();
        let number = |lane: u32| self.words.get_context().i32_type().const_int(u64::from(lane), false);
        VectorType::const_vector(&(first * half..(first + halves) * half).map(number).collect::<Vec<_>>())
    }
}

/// Whether an instruction does the same in all lanes.
fn is_lanewise(own: InstructionValue<'_>) -> bool {
    use InstructionOpcode::*;
    match own.get_opcode() {
        Add | Sub | Mul | And | Or | Xor | Shl | LShr | AShr | FAdd | FSub | FMul | FDiv | FNeg | FCmp | ICmp
        | Select | SIToFP | UIToFP | FPToSI | FPToUI | Freeze => true,
        // Between numbers and their bits.
        BitCast => operand_of(own, 0).is_some_and(|from| lanes_of(from) == vector_type(own).map(VectorType::get_size)),
        Call => is_lanewise_call(own),
        _ => false,
    }
}

fn is_lanewise_call(own: InstructionValue<'_>) -> bool {
    calls(own, |name| LANEWISE.iter().any(|prefix| name.to_bytes().starts_with(prefix.as_bytes())))
}

fn lanes_of(value: BasicValueEnum<'_>) -> Option<u32> {
    value.is_vector_value().then(|| value.into_vector_value().get_type().get_size())
}

/// Whether an instruction puts one number into all lanes.
fn is_splat(own: InstructionValue<'_>) -> bool {
    let inserted = operand_of(own, 0).and_then(|from| from.as_instruction_value());
    let has_first_lane_only = |from: InstructionValue<'_>| {
        from.get_opcode() == InstructionOpcode::InsertElement
            && matches!(operand_of(from, 0), Some(BasicValueEnum::VectorValue(rest)) if rest.is_undef())
            && operand_of(from, 2).and_then(constant_of) == Some(0)
    };
    let is_shuffle = own.get_opcode() == InstructionOpcode::ShuffleVector;
    let others_are_undefined =
        matches!(operand_of(own, 1), Some(BasicValueEnum::VectorValue(other)) if other.is_undef());
    is_shuffle && others_are_undefined && inserted.is_some_and(has_first_lane_only)
}

/// Whether codes are loaded.
fn is_load_of_codes(codes: BasicValueEnum<'_>) -> bool {
    let is_load = |own: InstructionValue<'_>| own.get_opcode() == InstructionOpcode::Load && has_bits(own, 16);
    codes.as_instruction_value().is_some_and(is_load)
}

fn is_shift_to_number(own: InstructionValue<'_>) -> bool {
    own.get_opcode() == InstructionOpcode::Shl && operand_of(own, 1).and_then(constant_of) == Some(CODE_BITS)
}

fn vector_type(own: InstructionValue<'_>) -> Option<VectorType<'_>> {
    match own.get_type() {
        AnyTypeEnum::VectorType(vector) => Some(vector),
        _ => None,
    }
}

/// Whether a result is of integers of so many bits.
fn has_bits(own: InstructionValue<'_>, bits: u32) -> bool {
    match own.get_type() {
        AnyTypeEnum::IntType(integer) => integer.get_bit_width() == bits,
        AnyTypeEnum::VectorType(vector) => {
            let element = vector.get_element_type();
            element.is_int_type() && element.into_int_type().get_bit_width() == bits
        }
        _ => false,
    }
}

fn is_float(value: BasicValueEnum<'_>) -> bool {
    match value {
        BasicValueEnum::FloatValue(_) => true,
        BasicValueEnum::VectorValue(vector) => vector.get_type().get_element_type().is_float_type(),
        _ => false,
    }
}

/// An integer, or that of each lane.
fn constant_of(value: BasicValueEnum<'_>) -> Option<u64> {
    if let BasicValueEnum::VectorValue(vector) = value
        && vector.is_const()
        && vector.is_null()
    {
        return Some(0);
    }
    match element_of(value)? {
        BasicValueEnum::IntValue(value) => value.get_zero_extended_constant(),
        _ => None,
    }
}

/// A float, or that of each lane.
fn float_of(value: BasicValueEnum<'_>) -> Option<FloatValue<'_>> {
    match element_of(value)? {
        BasicValueEnum::FloatValue(value) => Some(value),
        _ => None,
    }
}

fn is_same_float(value: BasicValueEnum<'_>) -> bool {
    float_of(value).is_some_and(FloatValue::is_const)
}

/// Whether something is a constant number.
fn is_no_nan(value: BasicValueEnum<'_>) -> bool {
    match value {
        BasicValueEnum::VectorValue(vector) if vector.is_undef() || vector.is_const() && vector.is_null() => true,
        BasicValueEnum::FloatValue(value) if value.is_undef() => true,
        _ => float_of(value).and_then(FloatValue::get_constant).is_some_and(|(number, _)| !number.is_nan()),
    }
}
