//! Deterministic input values: a pure function of (parameter number, element number, range).
//!
//! Element `j` of parameter `i` comes from `u = mix((i << 40) + j)`, where `mix` is splitmix64's output function.
//! Any other program can make the same inputs from the few lines of [`mix`] and [`fill`].

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Module};
use hlo::literal::{self, ArrayLiteral, Literal};
use hlo::ops::constant::ConstantAttributes;
use hlo::scalar::{self, Scalar};
use hlo::shape::ArrayShape;
use num_complex::Complex;

use crate::error::DataError;

/// Range that values are drawn from; both ends can occur for integers, only the low end is certain for floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FillRange {
    /// Whole numbers: exact for every integer type.
    Integer {
        /// Least value.
        low: i128,
        /// Greatest value.
        high: i128,
    },
    /// Real numbers.
    Real {
        /// Least value.
        low: f64,
        /// Bound from above.
        high: f64,
    },
}

impl FillRange {
    /// The range for data of which nothing is known: [-1, 1) for floats, 0..=9 for integers, both values for `pred`.
    pub fn default_for(element_type: ElementType) -> Self {
        match element_type.class() {
            ElementClass::Predicate => FillRange::Integer { low: 0, high: 1 },
            // 2-bit types hold no 9: their whole non-negative range instead.
            ElementClass::Signed => {
                FillRange::Integer { low: 0, high: if element_type.bit_width() < 8 { 1 } else { 9 } }
            }
            ElementClass::Unsigned => {
                FillRange::Integer { low: 0, high: if element_type.bit_width() < 8 { 3 } else { 9 } }
            }
            // A type without zero has no negative numbers either.
            ElementClass::Float if !element_type.has_zero() => FillRange::Real { low: 0.0, high: 1.0 },
            ElementClass::Float | ElementClass::Complex => FillRange::Real { low: -1.0, high: 1.0 },
        }
    }

    fn as_real(self) -> (f64, f64) {
        match self {
            FillRange::Integer { low, high } => (low as f64, high as f64),
            FillRange::Real { low, high } => (low, high),
        }
    }

    fn as_integer(self) -> (i128, i128) {
        match self {
            FillRange::Integer { low, high } => (low, high),
            FillRange::Real { low, high } => (low as i128, high as i128),
        }
    }
}

/// First stream of constants without values, beyond those of parameters.
const ELIDED_STREAM: u64 = 1 << 20;

/// splitmix64 of one state.
pub fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The array that `range` gives for a parameter; `stream` is the parameter number, plus whatever tells seeds apart.
///
/// Floats are `low + (high - low) * ((u >> 11) * 2^-53)` in f64, rounded to the type; integers
/// `low + u % (high - low + 1)`; `pred` is `u & 1`, or `low` when both ends are equal; a complex element takes two draws.
pub fn fill(stream: u64, shape: &ArrayShape, range: FillRange) -> Result<ArrayLiteral, DataError> {
    fill_shard(stream, 0, shape, range)
}

/// The array that follows the first `skipped` elements of a larger one: part of what is divided among devices.
pub fn fill_shard(stream: u64, skipped: u64, shape: &ArrayShape, range: FillRange) -> Result<ArrayLiteral, DataError> {
    let size = shape.checked_byte_size().ok_or_else(|| hlo::literal::LiteralError::Overflow(shape.clone()))?;
    let element_type = shape.element_type;
    let first = stream << 40;
    let draw = |position: u64| mix(first.wrapping_add(position));
    let (low, high) = range.as_real();
    let real = |position: u64| low + (high - low) * ((draw(position) >> 11) as f64 * (-53f64).exp2());
    let (least, greatest) = range.as_integer();
    let choices = (greatest - least + 1).max(1) as u128;
    let integer = |position: u64| least + (u128::from(draw(position)) % choices) as i128;

    let mut bytes = literal::zeroed(size as usize)?;
    for index in 0..size as usize / element_type.byte_width() {
        let position = skipped.wrapping_add(index as u64);
        let value = match element_type.class() {
            ElementClass::Predicate if least == greatest => Scalar::Predicate(least != 0),
            ElementClass::Predicate => Scalar::Predicate(draw(position) & 1 == 1),
            ElementClass::Signed => Scalar::Signed(integer(position) as i64),
            ElementClass::Unsigned => Scalar::Unsigned(integer(position) as u64),
            ElementClass::Float => Scalar::Float(real(position)),
            ElementClass::Complex => Scalar::Complex(Complex::new(real(2 * position), real(2 * position + 1))),
        };
        scalar::store(element_type, &mut bytes, index, value);
    }
    Ok(ArrayLiteral::new(shape.clone(), bytes)?)
}

/// Gives the constants whose values the text left out made-up ones: parameters' default ranges, numbered by their order.
pub fn fill_elided(module: &mut Module) -> Result<(), DataError> {
    let mut number = 0;
    let mut open: Vec<&mut Computation> = module.functions.iter_mut().collect();
    while let Some(computation) = open.pop() {
        for instruction in &mut computation.instructions {
            if let Some(Literal::Elided(shape)) = instruction.literal() {
                let array = fill(ELIDED_STREAM + number, shape, FillRange::default_for(shape.element_type))?;
                let value = Literal::Array(array);
                instruction.attributes = ConstantAttributes { value: &value }.into();
                number += 1;
            }
            open.extend(&mut instruction.computations);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_gives_the_published_vectors() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix((1 << 40) + 2), 0x288F_7D14_AA89_1BF6);
    }

    #[test]
    fn integers_stay_in_their_range_and_reach_both_ends() {
        let shape = ArrayShape::new(ElementType::S32, [1000]);
        let array = fill(3, &shape, FillRange::Integer { low: -2, high: 2 }).unwrap();
        let values = array.as_slice::<i32>().unwrap();
        assert_eq!(values.iter().min(), Some(&-2));
        assert_eq!(values.iter().max(), Some(&2));
    }

    #[test]
    fn floats_are_scaled_draws() {
        let shape = ArrayShape::new(ElementType::F64, [1]);
        let array = fill(0, &shape, FillRange::Real { low: 1.0, high: 3.0 }).unwrap();
        let expected = 1.0 + 2.0 * ((0xE220_A839_7B1D_CDAFu64 >> 11) as f64 * 2f64.powi(-53));
        assert_eq!(array.as_slice::<f64>(), Some(&[expected][..]));
    }
}
