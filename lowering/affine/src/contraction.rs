//! dot and convolution of any kind, one element (or one element a lane) at a time.
//!
//! This is the form that covers every attribute and element type. Large products of common types have kernels of
//! their own in [`crate::matmul`].

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use indexing::{Constraint, Expr, IndexingMap, Interval};
use melior::Context;
use mlir_ext::builder::Value;

use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::operand_maps::{OperandMap, instruction_maps, no_map, operand_shape, result_shape};
use crate::scalar::combiner::Combiner;
use crate::scalar::{self, RegisterValue};
use crate::team::{Team, is_term};
use crate::trace::split_merged;
use crate::walk::{Choice, Visitor};

type Result<T> = std::result::Result<T, LoweringError>;

/// Whether an operation is a dot or convolution.
pub(crate) fn is_product(kind: OpKind) -> bool {
    matches!(kind, OpKind::Dot | OpKind::Convolution)
}

/// Maps from the result of a dot or convolution to its two operands, over common range variables.
pub struct ContractionMaps<'c> {
    /// To the left operand (the input), with the conditions under which there is an element.
    pub lhs: OperandMap<'c>,
    /// To the right operand (the kernel).
    pub rhs: IndexingMap<'c>,
    /// Sizes of the range variables to loop over.
    pub ranges: Vec<i64>,
}

/// The maps of a dot or convolution.
pub fn contraction_maps<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
) -> Result<ContractionMaps<'c>> {
    let maps = instruction_maps(context, computation, instruction).contraction().ok_or_else(|| no_map(instruction))?;
    let ranges: Vec<i64> = maps.rhs.ranges().iter().map(|range| range.bounds.upper + 1).collect();
    let lhs = OperandMap::new(maps.lhs, &result_shape(instruction)?.dimensions, &ranges);
    let lhs = match maps.batch_group {
        Some(group) => lhs.with_range(ranges.len(), group),
        None => lhs,
    };
    Ok(ContractionMaps { lhs, rhs: maps.rhs, ranges })
}

impl<'c> ContractionMaps<'c> {
    /// The map to an operand's index, and the conditions under which there is an element.
    pub(crate) fn of_operand(&self, operand: usize) -> (&[Expr<'c>], &[Constraint<'c>]) {
        match operand {
            0 => (self.lhs.map.results(), &self.lhs.conditions),
            _ => (self.rhs.results(), &[]),
        }
    }
}

/// A dot or convolution whose products are summed at an index of its result.
struct Contraction<'a, 'i, 'c> {
    instruction: &'a Instruction,
    index: &'i [Expr<'c>],
    maps: ContractionMaps<'c>,
    lhs_sizes: Vec<i64>,
    /// A sum of nothing.
    zero: RegisterValue<'c>,
}

/// Type in which products are made and summed: no narrower than an operand, whatever the result.
pub(crate) fn accumulator_type(operands: [ElementType; 2], result: ElementType) -> ElementType {
    let [lhs, rhs] = operands;
    let types = [lhs, rhs, result];
    let is_wide = types.iter().any(|element_type| element_type.real_part() == ElementType::F64);
    if types.iter().any(|element_type| element_type.is_complex()) {
        return if is_wide { ElementType::C128 } else { ElementType::C64 };
    }
    if types.iter().any(|element_type| element_type.class() == ElementClass::Float) {
        return if is_wide { ElementType::F64 } else { ElementType::F32 };
    }
    // Truth values are summed as such only by themselves.
    match result {
        ElementType::Pred if operands != [ElementType::Pred; 2] => ElementType::S64,
        _ => result,
    }
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// dot or convolution at one index of its result.
    pub(crate) fn contract(&mut self, instruction: &'a Instruction, index: &[Expr<'c>]) -> Result<RegisterValue<'c>> {
        let maps = contraction_maps(self.scope.context(), self.computation, instruction)?;
        let result = result_shape(instruction)?.element_type;
        let operands = [
            operand_shape(self.computation, instruction, 0)?.element_type,
            operand_shape(self.computation, instruction, 1)?.element_type,
        ];
        let accumulator = accumulator_type(operands, result);
        let zero = scalar::constant(self.builder, accumulator, &[], self.scope.lanes());
        let lhs_sizes = operand_shape(self.computation, instruction, 0)?.dimensions.clone();
        let contraction = Contraction { instruction, index, maps, lhs_sizes, zero };
        let total = if contraction.maps.ranges.contains(&0) || contraction.lhs_sizes.contains(&0) {
            zero
        } else if let Some(team) = self.team.take() {
            let total = self.contract_in_team(&contraction, &team);
            self.team = Some(team);
            total?
        } else {
            let state = self.contract_loops(&contraction, &[], zero.values())?;
            zero.with_values(&state)
        };
        scalar::convert::convert(self.builder, &total, result)
            .ok_or_else(|| LoweringError::bug(format!("sum of {accumulator} as {result}")))
    }

    /// A part of the products, summed with those of the other threads of the team: thread by thread, neighbours take
    /// neighbouring ones.
    fn contract_in_team(
        &mut self,
        contraction: &Contraction<'a, '_, 'c>,
        team: &Team<'a, 'c>,
    ) -> Result<RegisterValue<'c>> {
        let (zero, ranges) = (contraction.zero, &contraction.maps.ranges);
        let (size, terms) = (team.shape.size, ranges.iter().product::<i64>());
        let step = |emitter: &mut Self, position: Expr<'c>, state: &[Value<'c>]| {
            let ranges = split_merged(position, ranges);
            let ranges: Vec<Expr<'c>> = ranges.into_iter().map(|range| emitter.scope.simplify(range)).collect();
            emitter.contract_step(contraction, &ranges, &zero.with_values(state))
        };
        let mut own = zero.values();
        if terms >= size {
            own = self.loop_in(Interval::of_size(terms / size), None, own, &mut |emitter, round, state| {
                step(emitter, round * size + team.part, &state).map(|sum| sum.values())
            })?;
        }
        if terms % size > 0 {
            let position = team.part + terms / size * size;
            let condition = [is_term(position, terms)];
            let choice = Choice { conditions: &condition, types: &[zero.element_type], index: &[], sizes: &[] };
            let sum = zero.with_values(&own);
            let sums = self.choose(
                &choice,
                &mut |emitter, _| {
                    let kept =
                        emitter.scope.emit_min(emitter.builder, &[position, emitter.scope.constant(terms - 1)])?;
                    let kept =
                        emitter.scope.add_variable(Interval::of_size(terms), index_binding(emitter.builder, kept));
                    Ok(vec![step(emitter, kept, &sum.values())?])
                },
                &mut |_| Ok(vec![sum]),
            )?;
            own = sums[0].values();
        }
        self.combine_team(team, &Combiner::sum(zero.element_type), zero.with_values(&own))
    }

    fn contract_loops(
        &mut self,
        contraction: &Contraction<'a, '_, 'c>,
        ranges: &[Expr<'c>],
        state: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let sizes = &contraction.maps.ranges;
        if let Some(&size) = sizes.get(ranges.len()) {
            let inside = sizes[ranges.len() + 1..].iter().fold(1, |product: i64, &size| product.saturating_mul(size));
            return self.loop_over(Interval::new(0, size - 1), inside, state, &mut |emitter, variable, state| {
                let ranges: Vec<Expr<'c>> = ranges.iter().copied().chain([variable]).collect();
                emitter.contract_loops(contraction, &ranges, state)
            });
        }
        self.contract_step(contraction, ranges, &contraction.zero.with_values(&state)).map(|sum| sum.values())
    }

    /// A sum with the product at some positions more, where there is one.
    fn contract_step(
        &mut self,
        contraction: &Contraction<'a, '_, 'c>,
        ranges: &[Expr<'c>],
        total: &RegisterValue<'c>,
    ) -> Result<RegisterValue<'c>> {
        let Contraction { instruction, index, maps, lhs_sizes, .. } = contraction;
        let conditions = self.conditions(&maps.lhs.conditions, index, ranges);
        let lhs_index = self.apply_with_ranges(maps.lhs.map.results(), index, ranges, &[])?;
        let rhs_index = self.apply_with_ranges(maps.rhs.results(), index, ranges, &[])?;
        let next = self.guarded_step(&conditions, &lhs_index, lhs_sizes, &[*total], &mut |emitter, lhs_index| {
            let lhs = emitter.evaluate(instruction.operands[0], lhs_index)?;
            let rhs = emitter.evaluate(instruction.operands[1], &rhs_index)?;
            Ok(vec![emitter.multiply_add(instruction, &lhs, &rhs, total)?])
        })?;
        Ok(next[0])
    }

    /// A sum with a product more.
    pub(crate) fn multiply_add(
        &self,
        instruction: &Instruction,
        lhs: &RegisterValue<'c>,
        rhs: &RegisterValue<'c>,
        total: &RegisterValue<'c>,
    ) -> Result<RegisterValue<'c>> {
        let accumulator = total.element_type;
        let widen = |value: &RegisterValue<'c>| {
            scalar::convert::convert(self.builder, value, accumulator)
                .ok_or_else(|| LoweringError::bug(format!("{} as {accumulator}", value.element_type)))
        };
        let operation = |kind, a: RegisterValue<'c>, b: RegisterValue<'c>| {
            scalar::elementwise(self.builder, kind, &instruction.attributes, &[a, b], accumulator)
        };
        let lanes = total.lanes;
        let (lhs, rhs) = (widen(lhs)?, widen(rhs)?);
        let (lhs, rhs) = (scalar::splat(self.builder, &lhs, lanes), scalar::splat(self.builder, &rhs, lanes));
        if accumulator == ElementType::Pred {
            let product = operation(OpKind::And, lhs, rhs)?;
            return operation(OpKind::Or, *total, product);
        }
        let product = operation(OpKind::Multiply, lhs, rhs)?;
        operation(OpKind::Add, *total, product)
    }
}
