//! stochastic-convert: float to integer, rounded up with the probability of the fractional part.

use hlo::element_type::{ElementClass, ElementType};
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::OpBuilder;

use super::convert::convert;
use super::{RegisterValue, registers};

/// Truncates the magnitude and adds one where the fractional part, times 2^width, is above the random integer.
///
/// Infinity and values out of range give the nearest limit, NaN gives 0. `None` unless a float and an unsigned
/// integer of its width make an integer, the only conversion XLA defines.
pub(super) fn stochastic_convert<'c>(
    builder: &OpBuilder<'c>,
    value: &RegisterValue<'c>,
    random: &RegisterValue<'c>,
    to: ElementType,
) -> Option<RegisterValue<'c>> {
    let from = value.element_type;
    if from.class() != ElementClass::Float
        || !random.element_type.is_unsigned_integer()
        || random.element_type.bit_width() != from.bit_width()
        || !to.is_integer()
    {
        return None;
    }
    let width = random.element_type.bit_width();
    let saturated = convert(builder, value, to)?;
    let absolute = RegisterValue { value: builder.absf(value.value), ..*value };
    let truncated = convert(builder, &absolute, to)?;
    let whole = builder.floor(absolute.value);
    let fraction = builder.subf(absolute.value, whole);
    // Infinite values have no fraction, but a NaN in its place.
    let has_fraction = builder.cmpf(CmpfPredicate::Ogt, fraction, builder.float_like(fraction, 0.0));
    let fraction = builder.select(has_fraction, fraction, builder.float_like(fraction, 0.0));
    let scaled = builder.mulf(fraction, builder.float_like(fraction, 2f64.powi(width as i32)));
    let threshold = builder.fptoui(scaled, registers::scalar_type(builder, random.element_type));
    let rounds_up = builder.cmpi(CmpiPredicate::Ult, random.value, threshold);
    let integer = registers::scalar_type(builder, to);
    let magnitude = builder.addi(truncated.value, builder.extui(rounds_up, integer));
    let negated = builder.subi(builder.integer_like(magnitude, 0), magnitude);
    let is_negative = builder.cmpf(CmpfPredicate::Olt, value.value, builder.float_like(value.value, 0.0));
    let rounded = builder.select(is_negative, negated, magnitude);
    // At and beyond the limits there is nothing to round to.
    let width = to.bit_width() as i32;
    let (lowest, highest) = match to.is_signed_integer() {
        true => (-(2f64.powi(width - 1)), 2f64.powi(width - 1) - 1.0),
        false => (0.0, 2f64.powi(width) - 1.0),
    };
    let is_above = builder.cmpf(CmpfPredicate::Ogt, value.value, builder.float_like(whole, lowest));
    let is_below = builder.cmpf(CmpfPredicate::Olt, value.value, builder.float_like(whole, highest));
    let is_inside = builder.andi(is_above, is_below);
    let result = builder.select(is_inside, rounded, saturated.value);
    Some(RegisterValue::real(builder, to, result))
}
