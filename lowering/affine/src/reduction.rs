//! reduce and reduce-window inside a fusion: loops that accumulate in registers.
//!
//! A reduction whose computation is one associative operation, over consecutive elements, runs on several vector
//! accumulators that are combined after the loop. Other reductions take one element (or, where the result is a
//! vector, one element a lane) a step, in order.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::pieces;
use hlo::op_kind::OpKind;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use indexing::{Expr, IndexingMap, Interval};
use melior::Context;
use mlir_ext::builder::Value;
use passes::fuse::first_result;

use crate::associative::Combination;
use crate::comparisons::combiner_of;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::mapping::{has_functions, lanes_of_small_integers};
use crate::operand_maps::{OperandMap, instruction_maps, no_map, operand_shape};
use crate::reduction_in_order::{PartialSums, Reduced};
use crate::scalar::combiner::{self, Combiner};
use crate::scalar::{self, RegisterValue};
use crate::scope::{Binding, Scope};
use crate::selection::selects_positions;
use crate::side_by_side::lanes_of_row;
use crate::team::{Team, is_term};
use crate::trace::{merged_dimensions, split_merged, trace};
use crate::walk::{Choice, Visitor, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Vector accumulators of one reduction: enough to hide the latency of an addition.
const ACCUMULATORS: i64 = 4;

/// Elements from which on each accumulator goes through a stretch of its own: a page or more each. A processor fetches what several streams
/// need next at the same time, and of memory beyond its caches so reads up to twice as much as of one stream.
const ELEMENTS_OF_STREAM: i64 = 1024;

/// Vectors of small integers from which on a row is reduced by them.
const VECTORS_OF_SMALL_INTEGERS: i64 = 4;

/// The map from the result of a reduce or reduce-window to its inputs; range variables run over what is combined.
pub fn input_map<'c>(
    context: &'c Context,
    computation: &Computation,
    instruction: &Instruction,
) -> Result<OperandMap<'c>> {
    let maps = instruction_maps(context, computation, instruction);
    if instruction.kind == OpKind::Reduce {
        let map = maps.operand_map(0).ok_or_else(|| no_map(instruction))?;
        return Ok(OperandMap { map, conditions: Vec::new() });
    }
    let map = maps.window_in_order().ok_or_else(|| no_map(instruction))?;
    let output = first_result(instruction).map_or(&[][..], |array| &array.dimensions);
    let ReduceWindowAttributes { window } = instruction.attributes()?;
    let window: Vec<i64> = window.iter().map(|dimension| dimension.size).collect();
    Ok(OperandMap::new(map, output, &window))
}

/// Iterations of a loop that are emitted one after another instead of a loop, at most.
const UNROLLED_ITERATIONS: i64 = 8;

/// Instructions that the iterations of such a loop have together, at most.
pub(crate) const UNROLLED_INSTRUCTIONS: i64 = 80;

/// Pieces of a row of which each is reduced by code of its own, at most.
const MOST_PIECES: usize = 4;

/// The dimension that a reduce goes along, if it is one.
fn reduced_dimension(reduce: &Instruction) -> Option<usize> {
    let ReduceAttributes { dimensions } = reduce.attributes().ok()?;
    match dimensions[..] {
        [dimension] => Some(dimension as usize),
        _ => None,
    }
}

/// One loop over values that are combined.
#[derive(Clone)]
pub(crate) struct CombineLoop<'c> {
    pub(crate) extent: i64,
    /// The first of the range variables that it stands for.
    first: usize,
    /// Their sizes.
    sizes: Vec<i64>,
    /// Of a loop over a part of the positions, how far apart they are, and the first one.
    part: Option<(i64, Expr<'c>)>,
    /// Where pads and concatenations begin and end.
    cuts: Vec<i64>,
}

impl<'c> CombineLoop<'c> {
    /// A loop over the range variables of some sizes, from a number on.
    fn new(first: usize, sizes: &[i64]) -> Self {
        CombineLoop { extent: sizes.iter().product(), first, sizes: sizes.to_vec(), part: None, cuts: Vec::new() }
    }

    /// The range variables in an iteration.
    pub(crate) fn ranges(&self, iteration: Expr<'c>) -> Vec<Expr<'c>> {
        let position = match self.part {
            Some((step, first)) => iteration * step + first,
            None => iteration,
        };
        split_merged(position, &self.sizes)
    }
}

/// So many positions in pieces between cuts, if these are few.
pub(crate) fn few_pieces(cuts: &[i64], extent: i64) -> Vec<Interval> {
    let cuts = if cuts.len() < MOST_PIECES { cuts } else { &[] };
    pieces(Interval::of_size(extent), cuts).collect()
}

/// The range variables in order, of which those of one loop after the other are given.
pub(crate) fn in_order<'c>(loops: &[CombineLoop<'c>], ranges: &[Expr<'c>]) -> Vec<Expr<'c>> {
    let numbers = loops.iter().flat_map(|own| own.first..own.first + own.sizes.len());
    let mut numbered: Vec<(usize, Expr<'c>)> = numbers.zip(ranges.iter().copied()).collect();
    numbered.sort_unstable_by_key(|&(number, _)| number);
    numbered.into_iter().map(|(_, range)| range).collect()
}

/// The loops over the range variables of reduces that combine elements at the same indices, and whose results are asked for
/// within bounds: neighbours are merged where addresses allow; and whether each walks elements that are next to each other, or
/// nearly.
pub(crate) fn combine_loops<'c>(
    context: &'c Context,
    computation: &Computation,
    reductions: &[&Instruction],
    bounds: &[Interval],
) -> Result<(Vec<CombineLoop<'c>>, Vec<bool>)> {
    let first = reductions.first().ok_or_else(|| LoweringError::bug("loops of no reduction"))?;
    let map = input_map(context, computation, first)?.map;
    let sizes = range_sizes(&map);
    let mut scope = Scope::new(context);
    // Result indices become plain symbols: only their place in addresses matters.
    let outer: Vec<Expr<'c>> = bounds.iter().map(|&bounds| scope.add_traced(bounds)).collect();
    let symbols: Vec<Expr<'c>> = sizes.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let operand_index: Vec<Expr<'c>> =
        map.results().iter().map(|&result| scope.simplify(substitute(result, &outer, &symbols, &[]))).collect();
    let inputs = reductions.iter().flat_map(|own| &own.operands[..own.operands.len() / 2]).copied();
    let found = trace(computation, &inputs.collect::<Vec<_>>(), &operand_index, &mut scope)?;
    let groups = merged_dimensions(&found, &scope, (&symbols, &sizes), false);
    let combine_loop = |&(first, last): &(usize, usize)| {
        let mut own = CombineLoop::new(first, &sizes[first..last]);
        let inner: i64 = sizes[first + 1..last].iter().product();
        own.cuts = found.cuts_of_merged(&scope, (symbols[first], Interval::of_size(own.extent), inner), false);
        own
    };
    let loops = groups.iter().map(combine_loop).collect();
    let is_near = |&(_, last): &(usize, usize)| {
        let innermost = symbols[last - 1].as_variable();
        innermost.is_some_and(|innermost| found.accesses_along(&scope, innermost).is_near())
    };
    Ok((loops, groups.iter().map(is_near).collect()))
}

/// Sizes of the range variables of a map.
pub(crate) fn range_sizes(map: &IndexingMap<'_>) -> Vec<i64> {
    map.ranges().iter().map(|range| range.bounds.upper - range.bounds.lower + 1).collect()
}

/// What a reduce combines that may be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DivisibleReduction {
    /// Elements that it combines to one.
    pub terms: i64,
    /// Whether neighbours are next to each other in memory, or nearly.
    pub is_near: bool,
}

/// What a reduce combines for an element of its result, if that may be divided between threads.
pub(crate) fn divisible_reduction(
    context: &Context,
    computation: &Computation,
    reduce: &Instruction,
) -> Result<Option<DivisibleReduction>> {
    let [combination] = &reduce.computations[..] else { return Ok(None) };
    let is_one_operation = reduce.operands.len() == 2 && combiner::recognise(combination).is_some();
    let is_divisible = is_one_operation
        || selects_positions(computation, reduce, reduced_dimension(reduce))
        || Combination::of_reduction(computation, reduce).is_some();
    if !is_divisible {
        return Ok(None);
    }
    let Some(result) = first_result(reduce) else { return Ok(None) };
    let bounds: Vec<Interval> = result.dimensions.iter().map(|&size| Interval::of_size(size)).collect();
    if bounds.iter().any(|bounds| bounds.is_empty()) {
        return Ok(None);
    }
    let (loops, is_near) = combine_loops(context, computation, &[reduce], &bounds)?;
    Ok(Some(DivisibleReduction { terms: iterations(&loops), is_near: is_near.last() == Some(&true) }))
}

impl<'a, 'c> Elemental<'a, 'c> {
    /// reduce at one index of its result.
    pub(crate) fn reduce(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let inputs = instruction.operands.len() / 2;
        let map = input_map(self.scope.context(), self.computation, instruction)?.map;
        let sizes = range_sizes(&map);
        let initial = self.initial_values(instruction, inputs)?;
        if sizes.contains(&0) {
            return Ok(initial);
        }
        let combiner = match inputs {
            1 => combiner_of(self.computation, instruction),
            _ => None,
        };
        let bounds: Vec<Interval> = index.iter().map(|&expr| self.scope.range(expr)).collect();
        let (mut loops, is_near) = combine_loops(self.scope.context(), self.computation, &[instruction], &bounds)?;
        let lanes = self.vector_lanes;
        let vector_loop = self.vector_loop(&loops, &is_near);
        if let (Some(combiner), Some(vector_loop)) = (combiner, vector_loop) {
            // The one that takes vectors is the innermost.
            loops[vector_loop..].rotate_left(1);
            let reduced = Reduced { instruction, combiner: Some(&combiner) };
            let values = self.vector_reduce(&[reduced], index, &loops, lanes)?;
            let value = combiner.combine(self.builder, &values[0], &initial[0]);
            return Ok(vec![combiner.finish(self.builder, &value)]);
        }
        if let ([row], Some(_)) = (&loops[..], vector_loop)
            && selects_positions(self.computation, instruction, reduced_dimension(instruction))
        {
            return self.select_along_row(instruction, index, (row.extent, &row.sizes), &initial, lanes);
        }
        if let Some(combiner) = &combiner
            && let Some(team) = self.team.take()
        {
            let start = vec![combiner.identity(self.builder, None)];
            let total = self.reduce_in_team((instruction, Some(combiner)), index, &loops, start, &team);
            self.team = Some(team);
            let total = combiner.combine(self.builder, &total?[0], &initial[0]);
            return Ok(vec![combiner.finish(self.builder, &total)]);
        }
        if let (None, [row]) = (&combiner, &loops[..])
            && selects_positions(self.computation, instruction, reduced_dimension(instruction))
            && let Some(team) = self.team.take_if(|team| team.shape.size <= row.extent)
        {
            let row = (row.extent, &row.sizes[..]);
            let chosen = self.select_in_team(instruction, index, row, &initial, &team);
            self.team = Some(team);
            return chosen;
        }
        if combiner.is_none()
            && self.team.is_some()
            && Combination::of_reduction(self.computation, instruction).is_some()
            && let Some(team) = self.team.take()
        {
            let total = self.reduce_in_team((instruction, None), index, &loops, initial, &team);
            self.team = Some(team);
            return total;
        }
        if let Some(combiner) = &combiner
            && let Some(rows) = self.reduce_short_rows(instruction, index, &loops, combiner)?
        {
            let total = combiner.combine(self.builder, &rows, &self.in_lanes(&initial[0]));
            return Ok(vec![combiner.finish(self.builder, &total)]);
        }
        let (start, combiner) = match &combiner {
            // Wider accumulators than the element type, where the combiner has them.
            Some(combiner) => (vec![combiner.widen(self.builder, &self.in_lanes(&initial[0]))], Some(combiner)),
            None => (initial.iter().map(|value| self.in_lanes(value)).collect(), None),
        };
        let result = self.ordered_reduce(&[Reduced { instruction, combiner }], index, &loops, start)?;
        Ok(match combiner {
            Some(combiner) => result.iter().map(|value| combiner.finish(self.builder, value)).collect(),
            None => result,
        })
    }

    /// The loop that takes vectors, where lanes are not taken yet.
    pub(crate) fn vector_loop(&self, loops: &[CombineLoop<'c>], is_near: &[bool]) -> Option<usize> {
        let lanes = i64::from(self.vector_lanes);
        if self.scope.lanes().is_some() || lanes < 2 {
            return None;
        }
        let takes_vectors =
            |number: &usize| loops[*number].extent >= lanes && (is_near[*number] || has_functions(self.computation));
        (0..loops.len()).rev().find(takes_vectors)
    }

    pub(crate) fn initial_values(
        &mut self,
        instruction: &'a Instruction,
        inputs: usize,
    ) -> Result<Vec<RegisterValue<'c>>> {
        instruction.operands[inputs..].iter().map(|&operand| self.evaluate(operand, &[])).collect()
    }

    pub(crate) fn in_lanes(&self, value: &RegisterValue<'c>) -> RegisterValue<'c> {
        scalar::splat(self.builder, value, self.scope.lanes())
    }

    /// Nested loops over all but the last combine loop; `innermost` gets the values of the outer ones.
    pub(crate) fn outer_combine_loops(
        &mut self,
        loops: &[CombineLoop<'c>],
        ranges: Vec<Expr<'c>>,
        state: Vec<Value<'c>>,
        innermost: &mut dyn FnMut(&mut Self, Vec<Expr<'c>>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let Some((first, rest)) = loops.split_first() else { return innermost(self, ranges, state) };
        self.loop_over(Interval::new(0, first.extent - 1), iterations(rest), state, &mut |emitter, variable, state| {
            let mut ranges = ranges.clone();
            ranges.extend(first.ranges(variable));
            emitter.outer_combine_loops(rest, ranges, state, innermost)
        })
    }

    /// A loop over an interval with carried values, whose body has loops of so many iterations; a few small iterations
    /// need none.
    pub(crate) fn loop_over(
        &mut self,
        interval: Interval,
        inside: i64,
        mut state: Vec<Value<'c>>,
        body: &mut dyn FnMut(&mut Self, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let iterations = (interval.upper - interval.lower + 1).saturating_mul(inside);
        let instructions = iterations.saturating_mul(self.computation.instructions.len() as i64);
        if iterations > UNROLLED_ITERATIONS || instructions > UNROLLED_INSTRUCTIONS {
            return self.loop_in(interval, None, state, body);
        }
        for position in interval.lower..=interval.upper {
            state = self.nested(|emitter| body(emitter, emitter.scope.constant(position), state))?;
        }
        Ok(state)
    }

    /// As [`Self::loop_over`], for the iterations of `range` (counted from the interval's start) if there is one.
    pub(crate) fn loop_in(
        &mut self,
        interval: Interval,
        range: Option<(Expr<'c>, Expr<'c>)>,
        state: Vec<Value<'c>>,
        body: &mut dyn FnMut(&mut Self, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        // A variable without values would make all ranges unknown.
        if interval.is_empty() {
            return Ok(state);
        }
        if interval.lower == interval.upper && range.is_none() {
            return body(self, self.scope.constant(interval.lower), state);
        }
        let (mut lower, mut upper) =
            (vec![self.scope.constant(interval.lower)], vec![self.scope.constant(interval.upper + 1)]);
        if let Some((begin, end)) = range {
            lower.push(begin + interval.lower);
            upper.push(end + interval.lower);
        }
        self.loop_between(&lower, &upper, 1, interval, state, body)
    }

    /// `affine.for` from the largest of some expressions to behind the smallest of others, `step` apart, with carried
    /// values.
    pub(crate) fn loop_between(
        &mut self,
        lower: &[Expr<'c>],
        upper: &[Expr<'c>],
        step: i64,
        bounds: Interval,
        state: Vec<Value<'c>>,
        body: &mut dyn FnMut(&mut Self, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = self.builder;
        let (lower, upper) = (self.scope.affine_bounds(lower)?, self.scope.affine_bounds(upper)?);
        builder.affine_for(&lower, &upper, step, &state, |_, position, carried| {
            self.nested(|emitter| {
                let variable = emitter.scope.add_variable(bounds, Binding::Dimension(position));
                body(emitter, variable, carried.to_vec())
            })
        })
    }

    /// A part of the elements, combined with those of the other threads of the team, which all begin with the same.
    fn reduce_in_team(
        &mut self,
        (instruction, combiner): (&'a Instruction, Option<&Combiner>),
        index: &[Expr<'c>],
        loops: &[CombineLoop<'c>],
        start: Vec<RegisterValue<'c>>,
        team: &Team<'a, 'c>,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let size = team.shape.size;
        // Neighbours take neighbouring elements, or a loop that has enough for all.
        let longest = loops.iter().enumerate().max_by_key(|(_, own)| own.extent).map_or(0, |(number, _)| number);
        let last = loops.len().saturating_sub(1);
        let shared = if loops.get(last).is_some_and(|last| last.extent >= size) { last } else { longest };
        let mut own = start;
        let whole = loops.get(shared).ok_or_else(|| LoweringError::bug("a team without terms"))?;
        let (rounds, rest) = (whole.extent / size, whole.extent % size);
        let part = |extent: i64, first: Expr<'c>| {
            let mut loops = loops.to_vec();
            loops[shared] = CombineLoop { extent, part: Some((size, first)), cuts: Vec::new(), ..whole.clone() };
            loops
        };
        if rounds > 0 {
            let loops = part(rounds, team.part);
            own = self.ordered_reduce(&[Reduced { instruction, combiner }], index, &loops, own)?;
        }
        if rest > 0 {
            let first = team.part + rounds * size;
            let loops = part(1, first);
            let condition = [is_term(first, whole.extent)];
            let types: Vec<ElementType> = own.iter().map(|value| value.element_type).collect();
            let choice = Choice { conditions: &condition, types: &types, index, sizes: &[] };
            own = self.choose(
                &choice,
                &mut |emitter, index| {
                    emitter.ordered_reduce(&[Reduced { instruction, combiner }], index, &loops, own.clone())
                },
                &mut |_| Ok(own.clone()),
            )?;
        }
        self.combine_team_by(team, own, &mut |emitter, left, right| {
            emitter.combine_step(&instruction.computations[0], combiner, left, right)
        })
    }

    /// So many elements of all that a reduce combines, in order: the first of them and how far apart they are is given.
    pub(crate) fn reduce_along(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        (extent, part): (i64, (i64, Expr<'c>)),
        combiner: &Combiner,
        start: RegisterValue<'c>,
    ) -> Result<RegisterValue<'c>> {
        let sizes = range_sizes(&input_map(self.scope.context(), self.computation, instruction)?.map);
        let loops = [CombineLoop { extent, first: 0, sizes, part: Some(part), cuts: Vec::new() }];
        let reduced = Reduced { instruction, combiner: Some(combiner) };
        Ok(self.ordered_reduce(&[reduced], index, &loops, vec![start])?[0])
    }

    /// One more element of each input combined with the accumulators.
    pub(crate) fn combine_step(
        &mut self,
        computation: &Computation,
        combiner: Option<&Combiner>,
        accumulators: &[RegisterValue<'c>],
        elements: &[RegisterValue<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        if let (Some(combiner), [accumulator], [element]) = (combiner, accumulators, elements) {
            return Ok(vec![combiner.combine(self.builder, accumulator, element)]);
        }
        let arguments: Vec<RegisterValue<'c>> = accumulators.iter().chain(elements).copied().collect();
        let next = self.scalar_computation(computation, &arguments)?;
        Ok(next.iter().map(|value| self.in_lanes(value)).collect())
    }

    /// Several vector accumulators of each reduction over the last loop, then their combination to one element. The
    /// reductions beside the first one reduce the same elements.
    pub(crate) fn vector_reduce(
        &mut self,
        reductions: &[Reduced<'a, '_>],
        index: &[Expr<'c>],
        loops: &[CombineLoop<'c>],
        lanes: u32,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let combiners: Option<Vec<Combiner>> = reductions.iter().map(|own| own.combiner.copied()).collect();
        let (Some(combiners), Some(last)) = (combiners, loops.last()) else {
            return Err(LoweringError::bug("vector reduction without loops"));
        };
        let mut totals: Option<Vec<RegisterValue<'c>>> = None;
        for piece in few_pieces(&last.cuts, last.extent) {
            let here = self.vector_reduce_piece((reductions, &combiners), index, (loops, piece), lanes)?;
            let both = |before: Vec<RegisterValue<'c>>| {
                let pairs = before.iter().zip(&here).zip(&combiners);
                pairs.map(|((before, here), combiner)| combiner.combine(self.builder, before, here)).collect()
            };
            totals = Some(totals.map_or_else(|| here.clone(), both));
        }
        totals.ok_or_else(|| LoweringError::bug("vector reduction of nothing"))
    }

    /// The same over a piece of the last loop, by vectors that are no longer than it.
    fn vector_reduce_piece(
        &mut self,
        (reductions, combiners): (&[Reduced<'a, '_>], &[Combiner]),
        index: &[Expr<'c>],
        (loops, piece): (&[CombineLoop<'c>], Interval),
        lanes: u32,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let (Some(first), Some((last, outer))) = (reductions.first(), loops.split_last()) else {
            return Err(LoweringError::bug("vector reduction without loops"));
        };
        let operands = reductions.iter().map(|own| own.instruction.operands[0]);
        let found: Vec<(InstructionId, Combiner)> = operands.zip(combiners.iter().copied()).collect();
        let map = input_map(self.scope.context(), self.computation, first.instruction)?.map;
        let extent = piece.upper - piece.lower + 1;
        let narrow = lanes_of_small_integers(self.computation, lanes);
        let one = if extent < i64::from(lanes) {
            1 << extent.ilog2()
        } else if extent >= VECTORS_OF_SMALL_INTEGERS * i64::from(narrow) {
            narrow
        } else {
            lanes
        };
        let of_row: Vec<InstructionId> = found.iter().map(|&(operand, _)| operand).collect();
        let is_known = |id: InstructionId| self.row_values.contains_key(&id);
        let lanes = lanes_of_row(self.computation, &of_row, (extent, one), is_known);
        let in_vector = Some(lanes).filter(|&lanes| lanes > 1);
        let width = i64::from(lanes);
        let (vectors, parts) = (extent / width, (extent + width - 1) / width);
        let most = ACCUMULATORS / i64::from(lanes / one);
        let accumulators = if vectors >= most { most } else { 1 };
        let identities: Vec<RegisterValue<'c>> =
            found.iter().map(|(_, combiner)| combiner.identity(self.builder, in_vector)).collect();
        // Those of each vector of elements together.
        let start = identities.repeat(accumulators as usize);
        let state: Vec<Value<'c>> = start.iter().flat_map(RegisterValue::values).collect();

        // One vector of elements, the first at `position`, into the accumulators; without the first `skipped` elements.
        let step = |emitter: &mut Self,
                    ranges: &[Expr<'c>],
                    (position, skipped): (Expr<'c>, i64),
                    accumulators: &[RegisterValue<'c>]|
         -> Result<Vec<RegisterValue<'c>>> {
            emitter.nested(|emitter| {
                let position = position + piece.lower;
                let position = match in_vector {
                    Some(lanes) => position + emitter.scope.add_lanes(lanes),
                    None => position,
                };
                let mut ranges = ranges.to_vec();
                ranges.extend(split_merged(position, &last.sizes));
                let ranges = in_order(loops, &ranges);
                let operand_index = emitter.apply_with_ranges(map.results(), index, &ranges, &[])?;
                let mut next = Vec::with_capacity(found.len());
                for (((operand, combiner), identity), accumulator) in found.iter().zip(&identities).zip(accumulators) {
                    let element = emitter.evaluate(*operand, &operand_index)?;
                    let mut element = combiner.widen(emitter.builder, &emitter.in_lanes(&element));
                    if skipped > 0 {
                        let mask = emitter.builder.constant_mask(lanes, skipped);
                        element = scalar::select(emitter.builder, mask, identity, &element);
                    }
                    next.push(combiner.combine(emitter.builder, accumulator, &element));
                }
                Ok(next)
            })
        };
        let sums = PartialSums::of(self, &combiners.repeat(accumulators as usize), in_vector);
        let mut innermost = |emitter: &mut Self, ranges: Vec<Expr<'c>>, state: Vec<Value<'c>>| {
            let blocks = vectors / accumulators;
            // From one vector of an accumulator to its next, and from accumulator to accumulator.
            let (step_width, stretch) = match blocks * width >= ELEMENTS_OF_STREAM {
                true => (width, blocks * width),
                false => (width * accumulators, width),
            };
            let mut body = |emitter: &mut Self, block: Expr<'c>, state: Vec<Value<'c>>| {
                let mut next = Vec::new();
                for (number, accumulators_here) in (0..).zip(unpack(&start, &state).chunks(found.len())) {
                    let position = block * step_width + number * stretch;
                    let values = step(emitter, &ranges, (position, 0), accumulators_here)?;
                    next.extend(values.iter().flat_map(RegisterValue::values));
                }
                Ok(next)
            };
            let state = match &sums {
                Some(sums) => emitter.sum_in_blocks(blocks, state, sums, &mut body),
                None => emitter.loop_over(Interval::new(0, blocks - 1), accumulators, state, &mut body),
            }?;
            let mut accumulator = unpack(&start, &state);
            // What is left are whole vectors, and one that ends with the row and overlaps the one before it.
            for vector in blocks * accumulators..parts {
                let first = (vector % accumulators) as usize * found.len();
                let own = &mut accumulator[first..first + found.len()];
                let begin = (vector * width).min(extent - width);
                let position = emitter.scope.constant(begin);
                let values = step(emitter, &ranges, (position, vector * width - begin), own)?;
                own.copy_from_slice(&values);
            }
            Ok(accumulator.iter().flat_map(RegisterValue::values).collect())
        };
        let results = match &sums {
            Some(sums) => self.sum_over(outer, Vec::new(), state, sums, &mut innermost),
            None => self.outer_combine_loops(outer, Vec::new(), state, &mut innermost),
        }?;
        let results = unpack(&start, &results);
        let one_of = |(number, combiner): (usize, &Combiner)| {
            let mut left: Vec<RegisterValue<'c>> = results.iter().skip(number).step_by(found.len()).copied().collect();
            while left.len() > 1 {
                let half = left.len().div_ceil(2);
                for number in half..left.len() {
                    left[number - half] = combiner.combine(self.builder, &left[number - half], &left[number]);
                }
                left.truncate(half);
            }
            in_vector.map_or(left[0], |_| combiner.horizontal(self.builder, &left[0]))
        };
        Ok(combiners.iter().enumerate().map(one_of).collect())
    }

    /// reduce-window at one index of its result: positions outside the operand are left out.
    pub(crate) fn reduce_window(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let inputs = instruction.operands.len() / 2;
        let map = input_map(self.scope.context(), self.computation, instruction)?;
        let ReduceWindowAttributes { window } = instruction.attributes()?;
        let initial = self.initial_values(instruction, inputs)?;
        let sizes = operand_shape(self.computation, instruction, 0)?.dimensions.clone();
        if sizes.contains(&0) || window.iter().any(|dimension| dimension.size == 0) {
            return Ok(initial);
        }
        let combiner = if inputs == 1 { combiner_of(self.computation, instruction) } else { None };
        let start: Vec<RegisterValue<'c>> = match &combiner {
            Some(combiner) => vec![combiner.widen(self.builder, &self.in_lanes(&initial[0]))],
            None => initial.iter().map(|value| self.in_lanes(value)).collect(),
        };
        let loops: Vec<CombineLoop<'c>> =
            window.iter().enumerate().map(|(number, dimension)| CombineLoop::new(number, &[dimension.size])).collect();
        let state: Vec<Value<'c>> = start.iter().flat_map(RegisterValue::values).collect();
        let result = self.outer_combine_loops(&loops, Vec::new(), state, &mut |emitter, ranges, state| {
            let accumulators = unpack(&start, &state);
            let conditions = emitter.conditions(&map.conditions, index, &ranges);
            let operand_index = emitter.apply_with_ranges(map.map.results(), index, &ranges, &[])?;
            let next = emitter.guarded_step(
                &conditions,
                &operand_index,
                &sizes,
                &accumulators,
                &mut |emitter, operand_index| {
                    let mut elements = Vec::with_capacity(inputs);
                    for &operand in &instruction.operands[..inputs] {
                        let element = emitter.evaluate(operand, operand_index)?;
                        elements.push(emitter.in_lanes(&element));
                    }
                    emitter.combine_step(&instruction.computations[0], combiner.as_ref(), &accumulators, &elements)
                },
            )?;
            Ok(next.iter().flat_map(RegisterValue::values).collect())
        })?;
        let result = unpack(&start, &result);
        Ok(match &combiner {
            Some(combiner) => result.iter().map(|value| combiner.finish(self.builder, value)).collect(),
            None => result,
        })
    }
}

/// Iterations of loops in one another.
pub(crate) fn iterations(loops: &[CombineLoop<'_>]) -> i64 {
    loops.iter().fold(1, |product: i64, inner| product.saturating_mul(inner.extent))
}

/// Registers of carried values, grouped as in `like`.
pub(crate) fn unpack<'c>(like: &[RegisterValue<'c>], values: &[Value<'c>]) -> Vec<RegisterValue<'c>> {
    let mut rest = values;
    like.iter()
        .map(|lanes| {
            let (own, others) = rest.split_at(lanes.values().len().min(rest.len()));
            rest = others;
            lanes.with_values(own)
        })
        .collect()
}
