//! Cumulative reduce-windows (`cumsum`, `cummax` …): a window as long as the array, padded on one side.
//!
//! Each result is the one before it combined with one more element, so a loop along the dimension carries it: linear
//! time where windows one by one take quadratic. The other operations of the fusion are evaluated in the same loop.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use indexing::{Expr, Interval};

use crate::associative::{Combination, takes_any_order};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::operand_maps::operand_shape;
use crate::reduction::unpack;
use crate::scalar::RegisterValue;
use crate::scalar::combiner::{self, Combiner};
use crate::trace::Trace;
use crate::vector_scan::VectorScan;
use crate::walk::Visitor;

type Result<T> = std::result::Result<T, LoweringError>;

/// The index of the results at a step of the loop.
pub(crate) type ScanIndex<'i, 'a, 'c> = dyn Fn(&Elemental<'a, 'c>, Expr<'c>) -> Vec<Expr<'c>> + 'i;

/// What is emitted for an index at which the scan's value is known.
pub(crate) type ScanBody<'b, 'a, 'c> = dyn FnMut(&mut Elemental<'a, 'c>, &[Expr<'c>]) -> Result<()> + 'b;

/// Windows shorter than this are combined one by one: lanes go across rows of two and four.
const SHORTEST: i64 = 5;

/// A cumulative reduce-window of a fusion.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// The reduce-window.
    pub(crate) instruction: InstructionId,
    /// The dimension along which results accumulate.
    pub dimension: usize,
    /// Whether the first result is that of the last element.
    is_reversed: bool,
}

impl Scan {
    /// The one cumulative reduce-window of a computation.
    pub fn of(computation: &Computation) -> Option<Scan> {
        let mut scans = computation.iter().filter_map(|(id, instruction)| {
            let (dimension, is_reversed) = cumulative_dimension(computation, instruction)?;
            Some(Scan { instruction: id, dimension, is_reversed })
        });
        scans.next().filter(|_| scans.next().is_none())
    }

    /// The reduce-window of a computation that can be a scan: it is read only at the index of the results, which
    /// `index` is in the trace.
    pub fn find(computation: &Computation, found: &Trace<'_>, index: &[Expr<'_>]) -> Option<Scan> {
        let is_alike = |scan: &Scan| {
            let mut places = found.windows.iter().filter(|(id, _)| *id == scan.instruction);
            places.all(|(_, place)| place == index)
        };
        Scan::of(computation).filter(is_alike)
    }

    /// The associative operation that it is of, if it is of one. Many terms are combined one after another: wider sums keep their
    /// digits.
    fn combiner(&self, computation: &Computation) -> Option<Combiner> {
        let instruction = computation.get(self.instruction);
        let [combination] = &instruction.computations[..] else { return None };
        let combiner = if instruction.operands.len() == 2 { combiner::recognise(combination) } else { None };
        combiner.map(Combiner::in_double)
    }

    /// How vectors along its dimension are scanned, if they can be.
    pub(crate) fn of_vectors(&self, computation: &Computation) -> Option<VectorScan> {
        VectorScan::of(self.combiner(computation)?, self.is_reversed)
    }

    /// What it combines, if that may be divided.
    pub(crate) fn combination<'s>(&self, computation: &'s Computation) -> Option<Combination<'s>> {
        Combination::of_scan(computation, computation.get(self.instruction), self.is_reversed)
    }

    /// The position along the dimension of a step of the loop over `size` elements.
    pub fn position<'c>(&self, step: Expr<'c>, size: i64) -> Expr<'c> {
        if self.is_reversed { -step + (size - 1) } else { step }
    }

    /// The loop over steps that are at an index each, as vectors of so many lanes if that is more than one; `body` gets the index, at
    /// which the scan's value is known.
    pub fn emit<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (mut steps, lanes): (Interval, u32),
        index: &ScanIndex<'_, 'a, 'c>,
        body: &mut ScanBody<'_, 'a, 'c>,
    ) -> Result<()> {
        let computation = emitter.computation;
        let instruction = computation.get(self.instruction);
        let inputs = instruction.operands.len() / 2;
        let combiner = self.combiner(computation);
        let mut start = Vec::with_capacity(inputs);
        for &operand in &instruction.operands[inputs..] {
            let initial = emitter.evaluate(operand, &[])?;
            let initial = emitter.in_lanes(&initial);
            start.push(combiner.as_ref().map_or(initial, |combiner| combiner.widen(emitter.builder, &initial)));
        }
        let combination = &instruction.computations[0];
        // From the end, what comes first in memory comes last; only what it begins with stays on the left.
        if self.is_reversed && combiner.is_none() && !takes_any_order(combination) {
            return self.emit_from_end(emitter, (steps, &start), index, body);
        }
        if lanes > 1
            && let (Some(vectors), [own]) = (self.of_vectors(computation), &mut start[..])
        {
            let length = steps.upper + 1;
            *own = vectors.emit(emitter, (self, length, lanes), own, index, body)?;
            steps.lower = length - length % i64::from(lanes);
            if steps.is_empty() {
                return Ok(());
            }
        }
        let state = start.iter().flat_map(|value| value.values()).collect();
        emitter.loop_over(steps, 1, state, &mut |emitter, step, state| {
            let index = index(emitter, step);
            let elements = self.elements(emitter, &index)?;
            let accumulators = unpack(&start, &state);
            let next = emitter.combine_step(combination, combiner.as_ref(), &accumulators, &elements)?;
            let results = next
                .iter()
                .map(|value| combiner.as_ref().map_or(*value, |combiner| combiner.finish(emitter.builder, value)))
                .collect();
            emitter.remember(self.instruction, &index, results);
            body(emitter, &index)?;
            Ok(next.iter().flat_map(|value| value.values()).collect())
        })?;
        Ok(())
    }

    /// As [`Scan::emit`], for what must be combined in order: elements are put before what was combined of those behind them, and the
    /// values to begin with before that, for each result anew.
    fn emit_from_end<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (steps, start): (Interval, &[RegisterValue<'c>]),
        index: &ScanIndex<'_, 'a, 'c>,
        body: &mut ScanBody<'_, 'a, 'c>,
    ) -> Result<()> {
        let combination = &emitter.computation.get(self.instruction).computations[0];
        let mut finish = |emitter: &mut Elemental<'a, 'c>, index: &[Expr<'c>], values: &[RegisterValue<'c>]| {
            let results = emitter.combine_step(combination, None, start, values)?;
            emitter.remember(self.instruction, index, results);
            body(emitter, index)
        };
        let first = emitter.scope.constant(steps.lower);
        let last = emitter.nested(|emitter| {
            let index = index(emitter, first);
            let elements = self.elements(emitter, &index)?;
            finish(emitter, &index, &elements)?;
            Ok::<_, LoweringError>(elements)
        })?;
        if steps.lower == steps.upper {
            return Ok(());
        }
        let state = last.iter().flat_map(|value| value.values()).collect();
        emitter.loop_over(Interval::new(steps.lower + 1, steps.upper), 1, state, &mut |emitter, step, state| {
            let index = index(emitter, step);
            let elements = self.elements(emitter, &index)?;
            let next = emitter.combine_step(combination, None, &elements, &unpack(&last, &state))?;
            finish(emitter, &index, &next)?;
            Ok(next.iter().flat_map(|value| value.values()).collect())
        })?;
        Ok(())
    }

    /// What is combined at an index.
    pub(crate) fn elements<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        index: &[Expr<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let operands = &emitter.computation.get(self.instruction).operands;
        let operands = operands[..operands.len() / 2].iter();
        operands
            .map(|&operand| {
                let element = emitter.evaluate(operand, index)?;
                Ok(emitter.in_lanes(&element))
            })
            .collect()
    }
}

/// The dimension of a cumulative reduce-window, and whether it accumulates from the end.
fn cumulative_dimension(computation: &Computation, instruction: &Instruction) -> Option<(usize, bool)> {
    if instruction.kind != OpKind::ReduceWindow {
        return None;
    }
    let sizes = &operand_shape(computation, instruction, 0).ok()?.dimensions;
    let attributes: ReduceWindowAttributes<'_> = instruction.attributes().ok()?;
    attributes.accumulates(sizes).filter(|&(dimension, _)| sizes[dimension] >= SHORTEST)
}
