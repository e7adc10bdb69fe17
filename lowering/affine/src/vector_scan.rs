//! Scans along rows by vectors: shuffles combine the lanes of a vector with those before them, and what all vectors so far have is
//! carried to the next, which waits for no more than one combination.

use hlo::element_type::ElementType;
use indexing::Interval;
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::reduction::unpack;
use crate::scalar::RegisterValue;
use crate::scalar::combiner::Combiner;
use crate::scalar::registers::{extract, splat};
use crate::scan::{Scan, ScanBody, ScanIndex};
use crate::walk::Visitor;

type Result<T> = std::result::Result<T, LoweringError>;

/// How vectors are scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorScan {
    /// Combines elements, to accumulators.
    elements: Combiner,
    /// Combines what lanes have: accumulators, or, of the largest or smallest of floats, whole numbers in their order, which takes
    /// one instruction instead of five.
    lanes: Combiner,
    /// Whether the last lane is the first that is combined.
    is_reversed: bool,
}

impl VectorScan {
    /// That of a combiner, if what parts of a row have may be combined first.
    pub(crate) fn of(elements: Combiner, is_reversed: bool) -> Option<Self> {
        let lanes = elements.of_ordered().unwrap_or(elements);
        let takes_vectors = elements.takes_parts() && elements.element_type() != ElementType::Pred;
        takes_vectors.then_some(VectorScan { elements, lanes, is_reversed })
    }

    /// Scans the whole vectors of so many lanes of a row of `length` elements; `body` gets the index of each, at which the scan's value
    /// is known. What all of them have, from accumulators to begin with.
    pub(crate) fn emit<'a, 'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (scan, length, lanes): (&Scan, i64, u32),
        start: &RegisterValue<'c>,
        index: &ScanIndex<'_, 'a, 'c>,
        body: &mut ScanBody<'_, 'a, 'c>,
    ) -> Result<RegisterValue<'c>> {
        let builder = emitter.builder;
        let width = i64::from(lanes);
        let registers = match self.lanes.registers_of_accumulators() {
            2 if lanes.is_multiple_of(2) => 2,
            _ => 1,
        };
        let start = splat(builder, &self.elements.ordered(builder, start), Some(lanes / registers));
        let vectors = Interval::of_size(length / width);
        let carried = emitter.loop_in(vectors, None, start.values(), &mut |emitter, number, carried| {
            emitter.nested(|emitter| {
                // From the end too, lanes are in the order of memory.
                let lane = emitter.scope.add_lanes(lanes);
                let step = if self.is_reversed { number * width - lane + (width - 1) } else { number * width + lane };
                let index = index(emitter, step);
                let elements = scan.elements(emitter, &index)?;
                let [element] = &elements[..] else { return Err(LoweringError::bug("a scan of several arrays")) };
                let element = self.elements.ordered(builder, &self.elements.widen(builder, element));
                let mut carried = start.with_values(&carried);
                let scanned = self.scan_registers(builder, (registers, lanes / registers), &element, &mut carried);
                let scanned = self.elements.floats_of(builder, &scanned);
                emitter.remember(scan.instruction, &index, vec![self.elements.finish(builder, &scanned)]);
                body(emitter, &index)?;
                Ok(carried.values())
            })
        })?;
        let carried = unpack(std::slice::from_ref(&start), &carried);
        let total = carried.first().map(|carried| extract(builder, carried, 0));
        Ok(self.elements.floats_of(builder, &total.ok_or_else(|| LoweringError::bug("a scan without a value"))?))
    }

    /// What the elements of a vector, which is one or two registers of so many lanes, and those before have; the latter is carried, in all lanes.
    fn scan_registers<'c>(
        &self,
        builder: &OpBuilder<'c>,
        (registers, lanes): (u32, u32),
        element: &RegisterValue<'c>,
        carried: &mut RegisterValue<'c>,
    ) -> RegisterValue<'c> {
        let mut scanned = |number: u32| {
            let own: Vec<u32> = (number * lanes..(number + 1) * lanes).collect();
            let own = shuffled(builder, [element, element], &own);
            let own = self.scan_lanes(builder, &own, lanes);
            let last = if self.is_reversed { 0 } else { lanes - 1 };
            let total = shuffled(builder, [&own, &own], &vec![last; lanes as usize]);
            let result = self.lanes.combine(builder, carried, &own);
            *carried = self.lanes.combine(builder, carried, &total);
            result
        };
        if registers == 1 {
            return scanned(0);
        }
        let [low, high] = if self.is_reversed {
            let high = scanned(1);
            [scanned(0), high]
        } else {
            [scanned(0), scanned(1)]
        };
        shuffled(builder, [&low, &high], &(0..2 * lanes).collect::<Vec<_>>())
    }

    /// What the lanes of a register up to each have.
    fn scan_lanes<'c>(&self, builder: &OpBuilder<'c>, own: &RegisterValue<'c>, lanes: u32) -> RegisterValue<'c> {
        let nothing = self.lanes.identity(builder, Some(lanes));
        let mut scanned = *own;
        let mut distance = 1;
        while distance < lanes {
            let other = |lane: u32| match self.is_reversed {
                true => Some(lane + distance).filter(|&other| other < lanes),
                false => lane.checked_sub(distance),
            };
            let mask: Vec<u32> = (0..lanes).map(|lane| other(lane).unwrap_or(lanes + lane)).collect();
            let before = shuffled(builder, [&scanned, &nothing], &mask);
            scanned = self.lanes.combine(builder, &before, &scanned);
            distance *= 2;
        }
        scanned
    }
}

/// Lanes of two vectors, one behind the other.
fn shuffled<'c>(builder: &OpBuilder<'c>, both: [&RegisterValue<'c>; 2], mask: &[u32]) -> RegisterValue<'c> {
    let parts = both[0].values().into_iter().zip(both[1].values());
    let parts: Vec<Value<'c>> = parts.map(|(a, b)| builder.shuffle(a, b, mask)).collect();
    RegisterValue { lanes: Some(mask.len() as u32), ..both[0].with_values(&parts) }
}
