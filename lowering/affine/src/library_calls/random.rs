//! rng, rng-bit-generator and rng-get-and-update-state.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::ops::enumerations::{RandomDistribution, RngAlgorithm};
use hlo::ops::rng::RngAttributes;
use hlo::ops::rng_bit_generator::RngBitGeneratorAttributes;
use hlo::ops::rng_get_and_update_state::RngGetAndUpdateStateAttributes;

use super::{Argument, Call, array_operands, arrays, attributes_of, shape_words};

/// Descriptor: distribution (0 uniform, 1 normal), element type, number of elements.
pub(super) fn rng(instruction: &Instruction) -> Result<Call, String> {
    let distribution = match attributes_of::<RngAttributes>(instruction)?.distribution {
        RandomDistribution::Uniform => 0,
        RandomDistribution::Normal => 1,
    };
    let result = instruction.shape.as_array().ok_or("rng has an array result")?;
    let is_narrow_float = result.element_type.is_float() && result.element_type.bit_width() < 16;
    if is_narrow_float || result.element_type.is_complex() {
        return Err(format!("random numbers of type {}", result.element_type));
    }
    let descriptor = vec![distribution, result.element_type.primitive_type(), result.element_count()];
    let arguments = vec![Argument::Operand(0), Argument::Operand(1), Argument::Result(0)];
    Ok(Call::new("halo_rng", descriptor, arguments))
}

/// Descriptor: algorithm (0 Philox, 1 Threefry), 64-bit words of the state, then element type, rank and dimensions of
/// the bits.
pub(super) fn bit_generator(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let algorithm = match attributes_of::<RngBitGeneratorAttributes>(instruction)?.algorithm {
        // XLA:CPU's default.
        RngAlgorithm::Default | RngAlgorithm::Philox => 0,
        RngAlgorithm::ThreeFry => 1,
    };
    let operands = array_operands(computation, instruction);
    let results = arrays(&instruction.shape);
    let ([state], [_, bits]) = (&operands[..], &results[..]) else {
        return Err("rng-bit-generator has a state and bits".into());
    };
    if state.element_type != ElementType::U64 {
        return Err(format!("a state of {state}"));
    }
    let mut descriptor = vec![algorithm, state.element_count()];
    descriptor.extend(shape_words(bits));
    let arguments = vec![Argument::Operand(0), Argument::Result(0), Argument::Result(1)];
    Ok(Call::new("halo_rng_bit_generator", descriptor, arguments))
}

/// Descriptor: what the state grows by.
pub(super) fn get_and_update_state(instruction: &Instruction) -> Result<Call, String> {
    let descriptor = vec![attributes_of::<RngGetAndUpdateStateAttributes>(instruction)?.delta];
    Ok(Call::new("halo_rng_get_and_update_state", descriptor, vec![Argument::Result(0)]))
}
