//! Reductions that combine one element (or, where the result is a vector, one element a lane) a step, in order; several over
//! the same elements in the same loops, so that what they read is read once.

use std::rc::Rc;

use hlo::element_type::ElementClass;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval};
use mlir_ext::builder::Value;

use crate::comparisons::combiner_of;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::mapping::combines;
use crate::reduction::{
    CombineLoop, UNROLLED_INSTRUCTIONS, combine_loops, in_order, input_map, iterations, range_sizes, unpack,
};
use crate::scalar::RegisterValue;
use crate::scalar::combiner::{self, Combiner};
use crate::walk::Visitor;

type Result<T> = std::result::Result<T, LoweringError>;

/// Terms of a sum of floats that are added one after another, as a block.
const BLOCK_OF_SUM: i64 = 32;

/// Sums of blocks that are added one after another, as a larger block.
const BLOCKS_OF_SUM: i64 = 8;

/// A reduction, and what it combines with, if that is one operation.
pub(crate) struct Reduced<'a, 'k> {
    pub(crate) instruction: &'a Instruction,
    pub(crate) combiner: Option<&'k Combiner>,
}

/// Combinations that are made side by side, sums of floats among them, and can each be split into parts.
pub(crate) struct PartialSums<'c> {
    combiners: Vec<Combiner>,
    zeros: Vec<RegisterValue<'c>>,
}

impl<'c> PartialSums<'c> {
    /// Of combiners with so many lanes; `None` where no sum is rounded.
    pub(crate) fn of(emitter: &Elemental<'_, 'c>, combiners: &[Combiner], lanes: Option<u32>) -> Option<Self> {
        let zeros = || combiners.iter().map(|combiner| combiner.identity(emitter.builder, lanes)).collect();
        let has_sum = combiners.iter().any(Combiner::sums_floats);
        has_sum.then(|| PartialSums { combiners: combiners.to_vec(), zeros: zeros() })
    }

    fn zero(&self) -> Vec<Value<'c>> {
        self.zeros.iter().flat_map(RegisterValue::values).collect()
    }

    fn plus(&self, emitter: &Elemental<'_, 'c>, total: &[Value<'c>], partial: &[Value<'c>]) -> Vec<Value<'c>> {
        let pairs = unpack(&self.zeros, total).into_iter().zip(unpack(&self.zeros, partial));
        let combined = self.combiners.iter().zip(pairs);
        combined
            .flat_map(|(combiner, (total, partial))| combiner.combine(emitter.builder, &total, &partial).values())
            .collect()
    }
}

/// The reductions of a computation that are best made together, as sets: each combines the same elements of arrays by one
/// operation, for the element of the results that is computed, and none needs another one.
fn joint_sets(computation: &Computation) -> Vec<Vec<InstructionId>> {
    let (roots, sizes) = passes::fuse::written(computation);
    let array = |id: InstructionId| computation.get(id).shape.as_array();
    let mut is_here = vec![false; computation.instructions.len()];
    for &root in &roots {
        is_here[root.index()] = array(root).is_some_and(|shape| shape.dimensions == sizes);
    }
    for (id, instruction) in computation.iter().collect::<Vec<_>>().into_iter().rev() {
        if is_here[id.index()] && definition(instruction.kind).fusion == FusionRole::Elementwise {
            let same = |operand: &&InstructionId| array(**operand).is_some_and(|shape| shape.dimensions == sizes);
            instruction.operands.iter().filter(same).for_each(|operand| is_here[operand.index()] = true);
        }
    }
    let mut needs_others = vec![false; computation.instructions.len()];
    let mut sets: Vec<(Key<'_>, Vec<InstructionId>)> = Vec::new();
    for (id, instruction) in computation.iter() {
        let is_read_from_others = instruction.operands.iter().any(|operand| needs_others[operand.index()]);
        needs_others[id.index()] = is_read_from_others || combines(instruction);
        let Some(key) = (!is_read_from_others && is_here[id.index()]).then(|| key(computation, instruction)).flatten()
        else {
            continue;
        };
        match sets.iter_mut().find(|(own, _)| *own == key) {
            Some((_, set)) => set.push(id),
            None => sets.push((key, vec![id])),
        }
    }
    sets.into_iter().map(|(_, set)| set).filter(|set| set.len() > 1).collect()
}

/// The sizes of what is reduced, and the dimensions that are.
pub(crate) type Key<'a> = (&'a [i64], Vec<i64>);

/// What is equal for reductions that are made together; `None` for others.
pub(crate) fn key<'a>(computation: &'a Computation, instruction: &Instruction) -> Option<Key<'a>> {
    let &[operand, _] = &instruction.operands[..] else { return None };
    let is_one_operation =
        instruction.kind == OpKind::Reduce && combiner::recognise(instruction.computations.first()?).is_some();
    let ReduceAttributes { dimensions } = instruction.attributes().ok().filter(|_| is_one_operation)?;
    let shape: &ArrayShape = computation.get(operand).shape.as_array()?;
    Some((&shape.dimensions, dimensions.to_vec()))
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// reduce at one index of its result, together with others where these are needed there too.
    pub(crate) fn reduce_with_others(
        &mut self,
        id: InstructionId,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        if self.team.is_some() || self.row_in_block.is_some() {
            return self.reduce(instruction, index);
        }
        let computation = self.computation;
        let sets = Rc::clone(self.joint_reductions.get_or_insert_with(|| Rc::new(joint_sets(computation))));
        let Some(set) = sets.iter().find(|set| set.contains(&id)) else { return self.reduce(instruction, index) };
        let Some(values) = self.reduce_together(set, index)? else { return self.reduce(instruction, index) };
        let mut own = None;
        for (&other, value) in set.iter().zip(values) {
            if other == id {
                own = Some(value);
            } else {
                self.remember(other, index, vec![value]);
            }
        }
        Ok(own.into_iter().collect())
    }

    /// Reductions of the same elements, each by one operation; `None` where there is nothing to reduce, or not all take
    /// vectors.
    fn reduce_together(&mut self, set: &[InstructionId], index: &[Expr<'c>]) -> Result<Option<Vec<RegisterValue<'c>>>> {
        let computation = self.computation;
        let instructions: Vec<&'a Instruction> = set.iter().map(|&id| computation.get(id)).collect();
        let found = instructions.iter().map(|own| combiner_of(self.computation, own));
        let Some(combiners) = found.collect::<Option<Vec<Combiner>>>() else { return Ok(None) };
        let map = input_map(self.scope.context(), computation, instructions[0])?.map;
        if range_sizes(&map).contains(&0) {
            return Ok(None);
        }
        let bounds: Vec<Interval> = index.iter().map(|&expr| self.scope.range(expr)).collect();
        let (mut loops, is_near) = combine_loops(self.scope.context(), computation, &instructions, &bounds)?;
        let initial = instructions.iter().map(|own| Ok(self.initial_values(own, 1)?[0])).collect::<Result<Vec<_>>>()?;
        let reduced = instructions.iter().zip(&combiners);
        let reduced = reduced.map(|(&instruction, combiner)| Reduced { instruction, combiner: Some(combiner) });
        let reduced: Vec<Reduced<'a, '_>> = reduced.collect();
        let (builder, lanes) = (self.builder, self.vector_lanes);
        let vector_loop = self.vector_loop(&loops, &is_near);
        // By itself, one of them may still take vectors.
        if self.scope.lanes().is_none() && vector_loop.is_none() {
            return Ok(None);
        }
        let totals = if let Some(vector_loop) = vector_loop {
            loops[vector_loop..].rotate_left(1);
            let values = self.vector_reduce(&reduced, index, &loops, lanes)?;
            let both = combiners.iter().zip(values.iter().zip(&initial));
            both.map(|(combiner, (value, initial))| combiner.combine(builder, value, initial)).collect()
        } else {
            let start = combiners.iter().zip(&initial);
            let start = start.map(|(combiner, initial)| combiner.widen(builder, &self.in_lanes(initial))).collect();
            self.ordered_reduce(&reduced, index, &loops, start)?
        };
        let finished = combiners.iter().zip(&totals).map(|(combiner, total)| combiner.finish(builder, total));
        Ok(Some(finished.collect()))
    }

    /// Elements in order, one a step of each reduction. Those beside the first one reduce the same elements.
    pub(crate) fn ordered_reduce(
        &mut self,
        reductions: &[Reduced<'a, '_>],
        index: &[Expr<'c>],
        loops: &[CombineLoop<'c>],
        start: Vec<RegisterValue<'c>>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let first = reductions.first().ok_or_else(|| LoweringError::bug("nothing is reduced"))?;
        let map = input_map(self.scope.context(), self.computation, first.instruction)?.map;
        let state: Vec<Value<'c>> = start.iter().flat_map(RegisterValue::values).collect();
        let mut step = |emitter: &mut Self, ranges: Vec<Expr<'c>>, state: Vec<Value<'c>>| {
            emitter.along_columns = ranges.last().and_then(|range| range.as_variable());
            let ranges = in_order(loops, &ranges);
            let operand_index = emitter.apply_with_ranges(map.results(), index, &ranges, &[])?;
            let accumulators = unpack(&start, &state);
            let mut rest = &accumulators[..];
            let mut next = Vec::with_capacity(state.len());
            for Reduced { instruction, combiner } in reductions {
                let inputs = instruction.operands.len() / 2;
                let mut elements = Vec::with_capacity(inputs);
                for &operand in &instruction.operands[..inputs] {
                    let element = emitter.evaluate(operand, &operand_index)?;
                    elements.push(emitter.in_lanes(&element));
                }
                let (own, others) = rest.split_at(inputs);
                rest = others;
                let combined = emitter.combine_step(&instruction.computations[0], *combiner, own, &elements)?;
                next.extend(combined.iter().flat_map(RegisterValue::values));
            }
            emitter.along_columns = None;
            Ok(next)
        };
        let combiners = reductions.iter().map(|own| own.combiner.copied()).collect::<Option<Vec<Combiner>>>();
        let work: i64 = reductions.iter().map(|own| work_of_step(&own.instruction.computations[0])).sum();
        let sums = combiners.and_then(|combiners| PartialSums::of(self, &combiners, self.scope.lanes()));
        let result = match (sums, loops) {
            (Some(sums), _) => self.sum_over(loops, Vec::new(), state, &sums, &mut step),
            (None, [row]) if row.extent.saturating_mul(work) > UNROLLED_INSTRUCTIONS => {
                let mut term = |emitter: &mut Self, place, state| step(emitter, row.ranges(place), state);
                self.loop_in(Interval::of_size(row.extent), None, state, &mut term)
            }
            (None, _) => self.outer_combine_loops(loops, Vec::new(), state, &mut step),
        }?;
        Ok(unpack(&start, &result))
    }

    /// As [`Self::outer_combine_loops`], of sums: every loop sums from zero, and a long one in blocks.
    pub(crate) fn sum_over(
        &mut self,
        loops: &[CombineLoop<'c>],
        ranges: Vec<Expr<'c>>,
        state: Vec<Value<'c>>,
        sums: &PartialSums<'c>,
        innermost: &mut dyn FnMut(&mut Self, Vec<Expr<'c>>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let Some((first, rest)) = loops.split_first() else { return innermost(self, ranges, state) };
        let with = |variable: Expr<'c>| [&ranges[..], &first.ranges(variable)].concat();
        if rest.is_empty() {
            return self.sum_in_blocks(first.extent, state, sums, &mut |emitter, variable, state| {
                innermost(emitter, with(variable), state)
            });
        }
        self.loop_over(Interval::new(0, first.extent - 1), iterations(rest), state, &mut |emitter, variable, state| {
            let partial = emitter.sum_over(rest, with(variable), sums.zero(), sums, innermost)?;
            Ok(sums.plus(emitter, &state, &partial))
        })
    }

    /// A loop of `extent` iterations that add to sums. The error of a sum grows with the number of its terms, so those
    /// of a long loop are summed in blocks, whose sums are summed in blocks.
    pub(crate) fn sum_in_blocks(
        &mut self,
        extent: i64,
        state: Vec<Value<'c>>,
        sums: &PartialSums<'c>,
        body: &mut dyn FnMut(&mut Self, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        if extent <= 2 * BLOCK_OF_SUM {
            return self.loop_over(Interval::new(0, extent - 1), 1, state, body);
        }
        let mut block = BLOCK_OF_SUM;
        while extent > 2 * BLOCKS_OF_SUM * block {
            block *= BLOCKS_OF_SUM;
        }
        self.sum_between(self.scope.constant(0), &[self.scope.constant(extent)], (extent, block), state, sums, body)
    }

    /// Blocks of `block` iterations from one position to behind the smallest of others, of a loop of `extent`
    /// iterations.
    fn sum_between(
        &mut self,
        lower: Expr<'c>,
        upper: &[Expr<'c>],
        (extent, block): (i64, i64),
        state: Vec<Value<'c>>,
        sums: &PartialSums<'c>,
        body: &mut dyn FnMut(&mut Self, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let range = Interval::new(0, extent - 1);
        if block == 1 {
            return self.loop_between(&[lower], upper, 1, range, state, body);
        }
        self.loop_between(&[lower], upper, block, range, state, &mut |emitter, start, state| {
            let inner = (extent, if block == BLOCK_OF_SUM { 1 } else { block / BLOCKS_OF_SUM });
            let mut end = vec![start + block];
            if extent % block != 0 {
                end.push(emitter.scope.constant(extent));
            }
            let partial = emitter.sum_between(start, &end, inner, sums.zero(), sums, body)?;
            Ok(sums.plus(emitter, &state, &partial))
        })
    }
}

/// What the larger one of two floats takes, which keeps NaN and orders zeros.
const INSTRUCTIONS_OF_EXTREMUM: i64 = 12;

/// Instructions that combining two elements takes, roughly.
fn work_of_step(computation: &Computation) -> i64 {
    let work = |own: &Instruction| match own.kind {
        OpKind::Parameter => 0,
        OpKind::Maximum | OpKind::Minimum => {
            let is_float = own.shape.as_array().is_some_and(|shape| shape.element_type.class() == ElementClass::Float);
            if is_float { INSTRUCTIONS_OF_EXTREMUM } else { 1 }
        }
        _ => 1,
    };
    computation.instructions.iter().map(work).sum()
}
