//! How far the results of a program move when its inputs move by one unit in the last place.
//!
//! Where rounding decides a comparison (the mask of a ReLU, an argmax, the end of a loop), two correct compilers may
//! give results that are far apart. Then so do two runs of the same code on inputs that differ in their last bits: what
//! such runs differ by at an element is what rounding may do to it.

use hlo::element_type::ElementType;
use hlo::literal::{ArrayLiteral, Literal};

use data::fill::mix;
use data::movement::Movement;

use crate::error::ToolError;

/// Runs a program `runs` times on moved arguments; the movement of each leaf of the result that is an array.
///
/// # Errors
/// Those of `execute`.
pub fn movements(
    arguments: &[Literal],
    result: &Literal,
    runs: usize,
    mut execute: impl FnMut(&[Literal]) -> Result<Literal, ToolError>,
) -> Result<Vec<Movement>, ToolError> {
    let arrays = |literal: &Literal| -> Vec<ArrayLiteral> {
        literal.leaves().into_iter().filter_map(|leaf| leaf.as_array().cloned()).collect()
    };
    let unmoved = arrays(result);
    let mut movements = vec![Movement::default(); unmoved.len()];
    for run in 0..runs {
        let mut state = mix(run as u64);
        let moved: Vec<Literal> = arguments.iter().map(|argument| nudged(argument, &mut state)).collect();
        let moved = arrays(&execute(&moved)?);
        for (movement, (unmoved, moved)) in movements.iter_mut().zip(unmoved.iter().zip(&moved)) {
            movement.record(unmoved, moved);
        }
    }
    Ok(movements)
}

/// Every float moved to one of its neighbours; the draws follow from `state`.
fn nudged(literal: &Literal, state: &mut u64) -> Literal {
    match literal {
        Literal::Tuple(elements) => Literal::Tuple(elements.iter().map(|element| nudged(element, state)).collect()),
        Literal::Array(array) => {
            let mut array = array.clone();
            let part = array.element_type().real_part();
            if let Some(infinity) = infinity(part) {
                for bytes in array.bytes_mut().chunks_exact_mut(part.byte_width()) {
                    *state = mix(*state);
                    nudge(bytes, infinity, *state & 1 == 1);
                }
            }
            Literal::Array(array)
        }
        other => other.clone(),
    }
}

/// The bits of infinity, of types whose inputs are moved; those of 8 bits and fewer have too few values.
fn infinity(element_type: ElementType) -> Option<u64> {
    match element_type {
        ElementType::F64 => Some(f64::INFINITY.to_bits()),
        ElementType::F32 => Some(f32::INFINITY.to_bits().into()),
        ElementType::BF16 => Some(0x7F80),
        ElementType::F16 => Some(0x7C00),
        _ => None,
    }
}

/// Moves a number away from zero or towards it. Zeros stay, as the smallest number is not near them in any computation;
/// so do infinities, NaN, and what would become infinite.
fn nudge(bytes: &mut [u8], infinity: u64, away: bool) {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(word);
    let magnitude = bits & (u64::MAX >> (64 - 8 * bytes.len() + 1));
    if magnitude == 0 || magnitude >= infinity - 1 {
        return;
    }
    let moved = if away { bits + 1 } else { bits - 1 };
    bytes.copy_from_slice(&moved.to_le_bytes()[..bytes.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_move_to_their_neighbours_and_nothing_else_does() {
        let floats = [1f32, -2.5, 0.0, f32::INFINITY, f32::NAN, f32::MAX, 1e-45];
        let Literal::Array(moved) = nudged(&Literal::from_slice([7], &floats).unwrap(), &mut 3) else { panic!() };
        let moved: &[f32] = moved.as_slice().unwrap();
        for (before, after) in floats.into_iter().zip(moved).take(2) {
            assert!(*after == before.next_up() || *after == before.next_down(), "{before} {after}");
        }
        assert_eq!((moved[2], moved[3], moved[5]), (0.0, f32::INFINITY, f32::MAX));
        assert!(moved[4].is_nan() && (moved[6] == 0.0 || moved[6] == 3e-45));
        let integers = Literal::from_slice([2], &[7i32, 8]).unwrap();
        assert_eq!(nudged(&integers, &mut 3), integers);
        let halves = Literal::from_slice([2], &[half::bf16::ONE, half::bf16::NEG_ONE]).unwrap();
        assert_ne!(nudged(&halves, &mut 3), halves);
    }

    #[test]
    fn what_hangs_on_a_comparison_moves_far() {
        // A step at 1: of an input of 1 some runs get 0, others 5.
        let step = |arguments: &[Literal]| {
            let x: &[f32] = arguments[0].as_slice().unwrap();
            Ok(Literal::from_slice([2], &[if x[0] < 1.0 { 0f32 } else { 5.0 }, x[0]]).unwrap())
        };
        let argument = [Literal::from_slice([1], &[1f32]).unwrap()];
        let result = step(&argument).unwrap();
        let movement = movements(&argument, &result, 8, step).unwrap().remove(0);
        assert_eq!(movement.of(0), 5.0);
        assert!(movement.of(1) > 0.0 && movement.of(1) < 2e-7);
    }
}
