//! Cumulative reduce-windows (`cumsum`, `cummax` …): a window as long as the array, padded on one side.
//!
//! Each result is the one before it combined with one more element, so a loop along the dimension carries it: linear
//! time where windows one by one take quadratic. The other operations of the fusion are evaluated in the same loop.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::reduce_window::ReduceWindowAttributes;
use indexing::{Expr, Interval};

use crate::associative::Combination;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::operand_maps::operand_shape;
use crate::reduction::unpack;
use crate::scalar::combiner::{self, Combiner};
use crate::trace::Trace;
use crate::walk::Visitor;

type Result<T> = std::result::Result<T, LoweringError>;

/// Windows shorter than this are combined one by one.
const SHORTEST: i64 = 16;

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

    /// The associative operation that it is of, if it is of one.
    pub(crate) fn combiner(&self, computation: &Computation) -> Option<Combiner> {
        let instruction = computation.get(self.instruction);
        let [combination] = &instruction.computations[..] else { return None };
        if instruction.operands.len() == 2 { combiner::recognise(combination) } else { None }
    }

    /// What it combines, if that may be divided.
    pub(crate) fn combination<'s>(&self, computation: &'s Computation) -> Option<Combination<'s>> {
        Combination::of(computation.get(self.instruction), self.is_reversed)
    }

    /// The position along the dimension of a step of the loop over `size` elements.
    pub fn position<'c>(&self, step: Expr<'c>, size: i64) -> Expr<'c> {
        if self.is_reversed { -step + (size - 1) } else { step }
    }

    /// The loop over steps that are at an index each; `body` gets the index, at which the scan's value is known.
    pub fn emit<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        steps: Interval,
        index: &dyn Fn(&Elemental<'a, 'c>, Expr<'c>) -> Vec<Expr<'c>>,
        body: &mut dyn FnMut(&mut Elemental<'a, 'c>, &[Expr<'c>]) -> Result<()>,
    ) -> Result<()> {
        let computation = emitter.computation;
        let instruction = computation.get(self.instruction);
        let inputs = instruction.operands.len() / 2;
        // Many terms are summed one after another: wider sums keep their digits.
        let combiner = self.combiner(computation).map(Combiner::in_double);
        let mut start = Vec::with_capacity(inputs);
        for &operand in &instruction.operands[inputs..] {
            let initial = emitter.evaluate(operand, &[])?;
            let initial = emitter.in_lanes(&initial);
            start.push(combiner.as_ref().map_or(initial, |combiner| combiner.widen(emitter.builder, &initial)));
        }
        let state = start.iter().flat_map(|value| value.values()).collect();
        emitter.loop_over(steps, 1, state, &mut |emitter, step, state| {
            let index = index(emitter, step);
            let mut elements = Vec::with_capacity(inputs);
            for &operand in &instruction.operands[..inputs] {
                let element = emitter.evaluate(operand, &index)?;
                elements.push(emitter.in_lanes(&element));
            }
            let accumulators = unpack(&start, &state);
            // From the end, what comes first in memory comes last.
            let operands = match (self.is_reversed, &combiner) {
                (true, None) => [&elements, &accumulators],
                _ => [&accumulators, &elements],
            };
            let next =
                emitter.combine_step(&instruction.computations[0], combiner.as_ref(), operands[0], operands[1])?;
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
