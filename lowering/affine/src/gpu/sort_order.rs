//! Which elements of a sort come first: by the keys of one operand, or as a comparator says; and whether that is an order at all.
//!
//! Threads that place elements each for itself need an order: where a comparator is none, two may take the same place, and
//! nobody another one. `<` of floats is one if it is taken as the total order with equal zeros and NaN behind all numbers, which
//! differs only where there are NaN.

use std::collections::HashSet;

use hlo::element_type::ElementClass;
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use mlir_ext::arith::CmpfPredicate::Une;
use mlir_ext::arith::CmpiPredicate::{Eq, Ult};
use mlir_ext::builder::{OpBuilder, Value};

use super::Result;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::library_calls::{KeyOrder, Order, key_order};
use crate::scalar::compare::{Comparison, compare};
use crate::scalar::{RegisterValue, select};

/// Which elements come first.
pub(super) enum SortOrder<'s> {
    /// By an operand's elements.
    Keys(KeyOrder),
    /// As a comparator says, of which only this is known.
    Comparator {
        /// The comparator.
        comparator: &'s Computation,
        /// Whether it is known to be an order.
        is_order: bool,
    },
}

impl<'s> SortOrder<'s> {
    /// What a comparator says of so many operands.
    pub fn of(comparator: &'s Computation, operands: usize) -> Self {
        match key_order(comparator).filter(|key| key.operand < operands) {
            Some(key) => SortOrder::Keys(key),
            None => SortOrder::Comparator { comparator, is_order: is_order(comparator) },
        }
    }

    /// Whether an element comes before another one.
    fn holds<'c>(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        left: &[RegisterValue<'c>],
        right: &[RegisterValue<'c>],
    ) -> Result<Value<'c>> {
        let holds = match self {
            SortOrder::Keys(key) => {
                let builder = emitter.builder;
                let direction = if key.descending { ComparisonDirection::Gt } else { ComparisonDirection::Lt };
                let comparison = Comparison { direction, total_order: true };
                let [left, right] = [left, right].map(|own| canonical(builder, key.order, &own[key.operand]));
                compare(builder, comparison, &left, &right)
            }
            SortOrder::Comparator { comparator, .. } => {
                let arguments: Vec<_> = left.iter().zip(right).flat_map(|(left, right)| [*left, *right]).collect();
                emitter.scalar_computation(comparator, &arguments)?.first().copied()
            }
        };
        Ok(holds.ok_or_else(|| LoweringError::bug("comparator without a result"))?.value)
    }

    /// Whether an element of the other run comes before one of the left run, or of the right one: of equal elements those of the
    /// left run come first.
    fn comes_before<'c>(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        is_left: Value<'c>,
        own: &[RegisterValue<'c>],
        other: &[RegisterValue<'c>],
    ) -> Result<Value<'c>> {
        let builder = emitter.builder;
        let chosen = |if_left: &[RegisterValue<'c>], others: &[RegisterValue<'c>]| -> Vec<RegisterValue<'c>> {
            if_left.iter().zip(others).map(|(own, other)| select(builder, is_left, own, other)).collect()
        };
        let holds = self.holds(emitter, &chosen(other, own), &chosen(own, other))?;
        Ok(builder.cmpi(Eq, holds, is_left))
    }
}

/// A float as an order takes it, which may have all zeros and all NaN alike.
fn canonical<'c>(builder: &OpBuilder<'c>, order: Order, own: &RegisterValue<'c>) -> RegisterValue<'c> {
    if !matches!(order, Order::Less | Order::TotalCanonical) || own.element_type.class() != ElementClass::Float {
        return *own;
    }
    let number = builder.addf(own.value, builder.float_like(own.value, 0.0));
    let is_nan = builder.cmpf(Une, own.value, own.value);
    let value = builder.select(is_nan, builder.float_like(own.value, f64::NAN), number);
    RegisterValue { value, ..*own }
}

/// An element of one of two sorted runs that are neighbours, and where these are.
pub(super) struct Merged<'c> {
    pub position: Value<'c>,
    /// Where the left run begins.
    pub first: Value<'c>,
    /// Where the right run begins.
    pub middle: Value<'c>,
    pub end: Value<'c>,
}

/// The values at a position.
pub(super) type LoadElement<'f, 'a, 'c> =
    dyn FnMut(&mut Elemental<'a, 'c>, Value<'c>) -> Result<Vec<RegisterValue<'c>>> + 'f;

impl<'c> Merged<'c> {
    /// Where the element goes in the merged run: as far as it is in its own run, and behind those of the other run that come
    /// before it.
    pub fn place<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        order: &SortOrder<'_>,
        own: &[RegisterValue<'c>],
        load: &mut LoadElement<'_, 'a, 'c>,
    ) -> Result<Value<'c>> {
        let builder = emitter.builder;
        let is_left = builder.cmpi(Ult, self.position, self.middle);
        let found = if let SortOrder::Comparator { is_order: false, .. } = order {
            self.divided(emitter, order, is_left, load)?
        } else {
            let lower = builder.select(is_left, self.middle, self.first);
            let upper = builder.select(is_left, self.end, self.middle);
            bisected(emitter, [lower, upper], &mut |emitter, half| {
                let other = load(emitter, half)?;
                order.comes_before(emitter, is_left, own, &other)
            })?
        };
        Ok(builder.subi(builder.addi(self.position, found), self.middle))
    }

    /// The same whatever a comparator says: the middle element of the left run divides the right one, and so on in each half, so
    /// that all threads agree about who goes where.
    fn divided<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        order: &SortOrder<'_>,
        is_left: Value<'c>,
        load: &mut LoadElement<'_, 'a, 'c>,
    ) -> Result<Value<'c>> {
        let builder = emitter.builder;
        let one = builder.constant_index(1);
        let runs = [self.first, self.middle, self.middle, self.end];
        let found = builder.while_carrying(
            &runs,
            |builder, runs| Ok(builder.cmpi(Ult, runs[0], runs[1])),
            |_, runs| {
                let [first, end, other_first, other_end] = runs[..] else {
                    return Err(LoweringError::bug("two runs without their ends"));
                };
                emitter.nested(|emitter| {
                    let half = builder.shrui(builder.addi(first, end), one);
                    let element = load(emitter, half)?;
                    let divider = bisected(emitter, [other_first, other_end], &mut |emitter, other| {
                        let other = load(emitter, other)?;
                        order.holds(emitter, &other, &element)
                    })?;
                    let is_half = builder.cmpi(Eq, self.position, half);
                    let is_before_half = builder.cmpi(Ult, self.position, half);
                    let is_before_divider = builder.cmpi(Ult, self.position, divider);
                    let is_before = builder.select(is_left, is_before_half, is_before_divider);
                    let behind = builder.addi(half, one);
                    // Of the element that divides, nothing is left but the place that it found.
                    let keeps_divider = builder.ori(is_before, is_half);
                    Ok(vec![
                        builder.select(is_before, first, behind),
                        builder.select(is_before, half, builder.select(is_half, behind, end)),
                        builder.select(is_before, other_first, divider),
                        builder.select(keeps_divider, divider, other_end),
                    ])
                })
            },
        )?;
        Ok(builder.select(is_left, found[2], found[0]))
    }
}

/// The first position within bounds that does not come before, where those that do are the first ones.
fn bisected<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    bounds: [Value<'c>; 2],
    comes_before: &mut dyn FnMut(&mut Elemental<'a, 'c>, Value<'c>) -> Result<Value<'c>>,
) -> Result<Value<'c>> {
    let builder = emitter.builder;
    let one = builder.constant_index(1);
    let found = builder.while_carrying(
        &bounds,
        |builder, bounds| Ok(builder.cmpi(Ult, bounds[0], bounds[1])),
        |_, bounds| {
            emitter.nested(|emitter| {
                let half = builder.shrui(builder.addi(bounds[0], bounds[1]), one);
                let before = comes_before(emitter, half)?;
                let lower = builder.select(before, builder.addi(half, one), bounds[0]);
                Ok::<_, LoweringError>(vec![lower, builder.select(before, bounds[1], half)])
            })
        },
    )?;
    Ok(found[0])
}

/// Whether a comparator is known to be an order: that of one value of each element, which is a whole number or a float in
/// its total order; or of such a value first and, where it is equal, of an order of others.
fn is_order(comparator: &Computation) -> bool {
    let mut id = comparator.root;
    loop {
        if strict(comparator, id).is_some() {
            return true;
        }
        match first_and_rest(comparator, id) {
            Some(rest) => id = rest,
            None => return false,
        }
    }
}

/// The two values that are compared by `<` or `>`, where these are the same function of both elements and always comparable.
fn strict(comparator: &Computation, id: InstructionId) -> Option<[InstructionId; 2]> {
    let (comparison, operands) = comparison_of(comparator, id)?;
    let is_strict = matches!(comparison.direction, ComparisonDirection::Lt | ComparisonDirection::Gt);
    let class = comparator.get(operands[0]).shape.as_array()?.element_type.class();
    let is_total = class != ElementClass::Float || comparison.total_order;
    (is_strict && is_total && are_alike(comparator, operands)).then_some(operands)
}

/// What decides where the first values are equal: of `first | (equal & rest)`, or `select(equal, rest, first)`.
fn first_and_rest(comparator: &Computation, id: InstructionId) -> Option<InstructionId> {
    let instruction = comparator.get(id);
    let decides = |first: InstructionId, equal: InstructionId, direction: ComparisonDirection| -> bool {
        let (Some(of_first), Some((of_equal, operands))) =
            (strict(comparator, first), comparison_of(comparator, equal))
        else {
            return false;
        };
        let is_same = operands == of_first || [operands[1], operands[0]] == of_first;
        let is_total = comparison_of(comparator, first).is_some_and(|(own, _)| own.total_order == of_equal.total_order);
        of_equal.direction == direction && is_same && is_total
    };
    match (instruction.kind, &instruction.operands[..]) {
        (OpKind::Or, &[left, right]) => [(left, right), (right, left)].into_iter().find_map(|(first, tie)| {
            let tie = comparator.get(tie);
            let (OpKind::And, &[left, right]) = (tie.kind, &tie.operands[..]) else { return None };
            let mut orders = [(left, right), (right, left)].into_iter();
            orders.find_map(|(equal, rest)| decides(first, equal, ComparisonDirection::Eq).then_some(rest))
        }),
        (OpKind::Select, &[condition, left, right]) => {
            if decides(right, condition, ComparisonDirection::Eq) {
                Some(left)
            } else {
                decides(left, condition, ComparisonDirection::Ne).then_some(right)
            }
        }
        _ => None,
    }
}

fn comparison_of(comparator: &Computation, id: InstructionId) -> Option<(Comparison, [InstructionId; 2])> {
    let instruction = comparator.get(id);
    let operands = instruction.operands[..].try_into().ok()?;
    let is_comparison = instruction.kind == OpKind::Compare;
    is_comparison
        .then(|| Comparison::from_attributes(&instruction.attributes))?
        .map(|comparison| (comparison, operands))
}

/// Whether two values are the same function, one of the left element and the other of the right one.
fn are_alike(comparator: &Computation, [left, right]: [InstructionId; 2]) -> bool {
    let mut pending = vec![(left, right)];
    let mut seen = HashSet::new();
    let mut side = None;
    while let Some((left, right)) = pending.pop() {
        if !seen.insert((left, right)) {
            continue;
        }
        let [own, other] = [left, right].map(|id| comparator.get(id));
        if let (Some(number), Some(other)) = (own.parameter_number(), other.parameter_number()) {
            // Parameters 2k and 2k + 1 are the left and the right element of operand k.
            if number ^ 1 != other || *side.get_or_insert(number % 2) != number % 2 {
                return false;
            }
            continue;
        }
        let are_same = own.kind == other.kind
            && own.shape == other.shape
            && own.attributes == other.attributes
            && own.operands.len() == other.operands.len()
            && own.computations.is_empty()
            && other.computations.is_empty();
        if !are_same || own.kind == OpKind::Parameter {
            return false;
        }
        pending.extend(own.operands.iter().copied().zip(other.operands.iter().copied()));
    }
    side.is_some()
}
