//! Reductions that choose one of the elements of a row, with its position: argmax, argmin and the like.
//!
//! Each lane of a few vectors goes through every so many-th element in order. The lanes' choices are combined at the end, those of
//! smaller positions as the computation's left operands, as if the row had been gone through in order.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::iota::IotaAttributes;
use indexing::{Expr, Interval};
use mlir_ext::arith::CmpiPredicate;

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::reduction::{input_map, unpack};
use crate::scalar::{RegisterValue, registers};
use crate::team::{Team, is_term};
use crate::trace::split_merged;
use crate::walk::{Choice, Visitor};

type Result<T> = std::result::Result<T, LoweringError>;

/// Vectors of choices that a row is gone through with, side by side: a choice waits for the one before it.
const CHOICES_TOGETHER: i64 = 4;

/// Whether a reduction chooses elements of its first operand, and gives their positions along the one dimension that it
/// reduces as its second result.
pub(crate) fn selects_positions(computation: &Computation, reduce: &Instruction, dimension: Option<usize>) -> bool {
    let ([_, positions, _, _], [choice], Some(dimension)) = (&reduce.operands[..], &reduce.computations[..], dimension)
    else {
        return false;
    };
    is_choice(choice) && counts_along(computation, *positions, dimension)
}

/// Whether a computation of two pairs has a member of each as a result, as a condition says.
pub(crate) fn is_choice(computation: &Computation) -> bool {
    let [a, i, b, j] = computation.parameters[..] else { return false };
    let root = computation.root();
    let chooses = |result: InstructionId, pair: [InstructionId; 2]| {
        let instruction = computation.get(result);
        let is_integer = |id: InstructionId| {
            let shape = computation.get(id).shape.as_array();
            shape.is_some_and(|shape| matches!(shape.element_type, ElementType::S32 | ElementType::S64))
        };
        instruction.kind == OpKind::Select
            && (instruction.operands[1..] == pair || instruction.operands[1..] == [pair[1], pair[0]])
            && (pair == [a, b] || is_integer(result))
    };
    root.kind == OpKind::Tuple
        && root.operands.len() == 2
        && chooses(root.operands[0], [a, b])
        && chooses(root.operands[1], [i, j])
}

/// Whether the elements of an instruction are their positions along a dimension.
fn counts_along(computation: &Computation, id: InstructionId, dimension: usize) -> bool {
    let instruction = computation.get(id);
    match instruction.kind {
        OpKind::Iota => {
            instruction.attributes().is_ok_and(|IotaAttributes { iota_dimension }| iota_dimension as usize == dimension)
        }
        OpKind::Broadcast => {
            let operand = instruction.operands[0];
            let dimensions = broadcast_dimensions(instruction);
            let own = dimensions.iter().position(|&result| result == dimension);
            own.is_some_and(|own| counts_along(computation, operand, own))
        }
        OpKind::Reshape => counts_along_part(computation, instruction, dimension),
        _ => false,
    }
}

/// Whether a dimension is the inner part of one that a reshape divides, along which its operand's elements are their positions: they
/// still follow each other.
fn counts_along_part(computation: &Computation, reshape: &Instruction, dimension: usize) -> bool {
    let operand = reshape.operands[0];
    let arrays = (reshape.shape.as_array(), computation.get(operand).shape.as_array());
    let (Some(own), Some(whole)) = arrays else { return false };
    let behind = |sizes: &[i64], place: usize| -> i64 { sizes[place + 1..].iter().product() };
    let divided = (0..whole.rank()).find(|&place| {
        let [part, size] = [own.dimensions[dimension], whole.dimensions[place]];
        part > 0 && size % part == 0 && behind(&whole.dimensions, place) == behind(&own.dimensions, dimension)
    });
    divided.is_some_and(|place| counts_along(computation, operand, place))
}

fn broadcast_dimensions(instruction: &Instruction) -> Vec<usize> {
    let attributes = instruction.attributes::<hlo::ops::broadcast::BroadcastAttributes>();
    attributes.map_or_else(|_| Vec::new(), |own| own.dimensions.iter().map(|&dimension| dimension as usize).collect())
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// Such a reduction over rows of `extent` elements, no fewer than there are lanes.
    pub(crate) fn select_along_row(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        (extent, sizes): (i64, &[i64]),
        initial: &[RegisterValue<'c>],
        lanes: u32,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let computation = &instruction.computations[0];
        let elements = |emitter: &mut Self, position| emitter.selected_elements(instruction, (index, sizes), position);
        let vector = |emitter: &mut Self, position: Expr<'c>| {
            emitter.nested(|emitter| {
                let lane = emitter.scope.add_lanes(lanes);
                let vectors = elements(emitter, position + lane)?;
                Ok::<_, LoweringError>(vectors.iter().map(|value| emitter.in_lanes(value)).collect::<Vec<_>>())
            })
        };
        let width = i64::from(lanes);
        let vectors = extent / width;
        let together = if vectors >= 2 * CHOICES_TOGETHER { CHOICES_TOGETHER } else { 1 };
        let first =
            (0..together).map(|own| vector(self, self.scope.constant(own * width))).collect::<Result<Vec<_>>>()?;
        let values = |registers: &[RegisterValue<'c>]| registers.iter().flat_map(RegisterValue::values).collect();
        let with_next = |emitter: &mut Self, chosen: &[RegisterValue<'c>], position: Expr<'c>| {
            let next = vector(emitter, position)?;
            emitter.scalar_computation(computation, &[chosen, &next].concat())
        };
        let all = first.concat();
        let rounds = vectors / together;
        let mut state = values(&all);
        if rounds > 1 {
            state = self.loop_over(Interval::new(1, rounds - 1), together, state, &mut |emitter, round, state| {
                let chosen = unpack(&all, &state);
                let mut next = Vec::with_capacity(all.len());
                for (own, chosen) in (0..together).zip(chosen.chunks(first[0].len())) {
                    next.extend(with_next(emitter, chosen, round * (together * width) + own * width)?);
                }
                Ok(values(&next))
            })?;
        }
        let all = unpack(&all, &state);
        let mut each = all.chunks(first[0].len());
        let mut chosen = each.next().unwrap_or_default().to_vec();
        for number in rounds * together..vectors {
            chosen = with_next(self, &chosen, self.scope.constant(number * width))?;
        }
        for other in each {
            chosen = self.choose_between(computation, &chosen, other)?;
        }
        let mut choices: Vec<Vec<RegisterValue<'c>>> = (0..lanes)
            .map(|lane| chosen.iter().map(|vector| registers::extract(self.builder, vector, lane)).collect())
            .collect();
        while choices.len() > 1 {
            let half = choices.len().div_ceil(2);
            let right = choices.split_off(half);
            for (left, right) in choices.iter_mut().zip(right) {
                *left = self.choose_between(computation, left, &right)?;
            }
        }
        let chosen = choices.pop().unwrap_or_default();
        let total = self.scalar_computation(computation, &[initial, &chosen].concat())?;
        let rest = Interval::new(vectors * width, extent - 1);
        if rest.lower > rest.upper {
            return Ok(total);
        }
        let state = self.loop_over(rest, 1, values(&total), &mut |emitter, position, state| {
            let next = elements(emitter, position)?;
            let arguments = [unpack(&total, &state), next].concat();
            Ok(values(&emitter.scalar_computation(computation, &arguments)?))
        })?;
        Ok(unpack(&total, &state))
    }

    /// As [`Self::select_along_row`], by a team with no more threads than the row has elements: each goes through every so
    /// many-th of them.
    pub(crate) fn select_in_team(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        (extent, sizes): (i64, &[i64]),
        initial: &[RegisterValue<'c>],
        team: &Team<'a, 'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let (computation, size) = (&instruction.computations[0], team.shape.size);
        let mut own = self.selected_elements(instruction, (index, sizes), team.part)?;
        let like = own.clone();
        let with_next = |emitter: &mut Self, own: &[RegisterValue<'c>], position: Expr<'c>| {
            let next = emitter.selected_elements(instruction, (index, sizes), position)?;
            emitter.scalar_computation(computation, &[own, &next].concat())
        };
        let (rounds, rest) = (extent / size, extent % size);
        if rounds > 1 {
            let state = own.iter().flat_map(RegisterValue::values).collect();
            let state = self.loop_in(Interval::new(1, rounds - 1), None, state, &mut |emitter, round, state| {
                let next = with_next(emitter, &unpack(&like, &state), round * size + team.part)?;
                Ok(next.iter().flat_map(RegisterValue::values).collect())
            })?;
            own = unpack(&like, &state);
        }
        if rest > 0 {
            let position = team.part + rounds * size;
            let types: Vec<ElementType> = own.iter().map(|value| value.element_type).collect();
            let choice = Choice { conditions: &[is_term(position, extent)], types: &types, index, sizes: &[] };
            let last = &own;
            own =
                self.choose(&choice, &mut |emitter, _| with_next(emitter, last, position), &mut |_| Ok(last.clone()))?;
        }
        let chosen = self
            .combine_team_by(team, own, &mut |emitter, own, other| emitter.choose_between(computation, own, other))?;
        self.scalar_computation(computation, &[initial, &chosen].concat())
    }

    /// The element of each operand at a position of a row.
    fn selected_elements(
        &mut self,
        instruction: &'a Instruction,
        (index, sizes): (&[Expr<'c>], &[i64]),
        position: Expr<'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let map = input_map(self.scope.context(), self.computation, instruction)?.map;
        let ranges = split_merged(position, sizes);
        let index = self.apply_with_ranges(map.results(), index, &ranges, &[])?;
        instruction.operands[..2].iter().map(|&operand| self.evaluate(operand, &index)).collect()
    }

    /// One of two choices with their positions, in whichever order they are given.
    fn choose_between(
        &mut self,
        computation: &Computation,
        one: &[RegisterValue<'c>],
        other: &[RegisterValue<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let builder = self.builder;
        let is_left = builder.cmpi(CmpiPredicate::Slt, one[1].value, other[1].value);
        let ordered = |one: &[RegisterValue<'c>], other: &[RegisterValue<'c>]| -> Vec<RegisterValue<'c>> {
            let pairs = one.iter().zip(other);
            pairs
                .map(|(one, other)| {
                    let parts = one.values().into_iter().zip(other.values());
                    let parts: Vec<_> = parts.map(|(a, b)| builder.select(is_left, a, b)).collect();
                    one.with_values(&parts)
                })
                .collect()
        };
        self.scalar_computation(computation, &[ordered(one, other), ordered(other, one)].concat())
    }
}
