//! Reductions of rows that are shorter than a vector, several of which a vector has the results of: the rows are read as they
//! are in memory, and their terms combined in pairs of neighbours, until there is one number for each row.
//!
//! To load the first terms of all rows, then the second ones, takes a shuffle for each vector of them, of which LLVM tries
//! to make fewer for long. Of 32,000 rows of 8 elements sums took 43 µs so, and 9 in pairs.

use std::collections::HashSet;

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use indexing::Expr;
use mlir_ext::builder::Value;

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::operand_maps::operand_shape;
use crate::reduction::{CombineLoop, input_map};
use crate::scalar::RegisterValue;
use crate::scalar::combiner::Combiner;
use crate::scope::LaneAccess;
use crate::walk::{Visitor, linear_address, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Terms of a row at most.
const MOST_TERMS: i64 = 16;

impl<'a, 'c> Elemental<'a, 'c> {
    /// Combines the terms of a row for each lane of a result; `None` where they are not one row after the other in memory.
    pub(crate) fn reduce_short_rows(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        loops: &[CombineLoop<'c>],
        combiner: &Combiner,
    ) -> Result<Option<RegisterValue<'c>>> {
        let ([row], Some((lane, lanes))) = (loops, self.scope.lane_variable()) else { return Ok(None) };
        let (terms, width) = (row.extent, i64::from(lanes));
        let is_short = (2..=MOST_TERMS.min(width)).contains(&terms) && width % terms == 0;
        let has_names = |&expr: &Expr<'c>| self.scope.depends_through_name(expr, lane);
        if !is_short || !(terms as u64).is_power_of_two() || self.team.is_some() || index.iter().any(has_names) {
            return Ok(None);
        }
        let operand = instruction.operands[0];
        if !self.is_read_in_order(operand) {
            return Ok(None);
        }
        let map = input_map(self.scope.context(), self.computation, instruction)?.map;
        let dimensions = &operand_shape(self.computation, instruction, 0)?.dimensions;
        let mut vectors = Vec::with_capacity(terms as usize);
        for number in 0..terms {
            let vector = self.nested(|emitter| -> Result<Option<RegisterValue<'c>>> {
                let own = emitter.scope.add_lanes(lanes);
                let of_row = own.floordiv(terms) + number * (width / terms);
                let place = |expr: &Expr<'c>| expr.substitute(&|variable| (variable == lane).then_some(of_row));
                let index: Vec<Expr<'c>> = index.iter().map(place).collect();
                let ranges = row.ranges(own.modulo(terms));
                let simplified = |&result| emitter.scope.simplify(substitute(result, &index, &ranges, &[]));
                let read: Vec<Expr<'c>> = map.results().iter().map(simplified).collect();
                let address = linear_address(emitter.scope.context(), dimensions, &read);
                if emitter.scope.lane_access(emitter.scope.simplify(address)) != LaneAccess::Strided(1) {
                    return Ok(None);
                }
                let element = emitter.evaluate(operand, &read)?;
                Ok(Some(combiner.widen(emitter.builder, &emitter.in_lanes(&element))))
            });
            self.scope.resume_lanes((lane, lanes));
            let Some(vector) = vector? else { return Ok(None) };
            vectors.push(vector);
        }
        let every_second = |first: u32| -> Vec<u32> { (0..lanes).map(|lane| 2 * lane + first).collect() };
        let masks = [every_second(0), every_second(1)];
        while vectors.len() > 1 {
            let combined = vectors.chunks_exact(2).map(|pair| {
                let [even, odd] = masks.each_ref().map(|mask| {
                    let parts = pair[0].values().into_iter().zip(pair[1].values());
                    let parts: Vec<Value<'c>> = parts.map(|(a, b)| self.builder.shuffle(a, b, mask)).collect();
                    pair[0].with_values(&parts)
                });
                combiner.combine(self.builder, &even, &odd)
            });
            vectors = combined.collect();
        }
        Ok(vectors.pop())
    }

    /// Whether elements of a value that are next to each other are made of elements next to each other, or of places alone.
    fn is_read_in_order(&self, value: InstructionId) -> bool {
        let is_scalar = |&operand: &InstructionId| {
            self.computation.get(operand).shape.as_array().is_some_and(|shape| shape.rank() == 0)
        };
        self.is_made_of(value, |id, own| match own.kind {
            OpKind::Parameter | OpKind::Constant | OpKind::Iota => Some(Source::Itself),
            OpKind::Broadcast if own.operands.iter().all(is_scalar) => Some(Source::Operands),
            OpKind::Broadcast => self.is_made_of_places(id).then_some(Source::Itself),
            kind => is_element_by_element(kind).then_some(Source::Operands),
        })
    }

    /// Whether nothing is read for the elements of a value.
    fn is_made_of_places(&self, value: InstructionId) -> bool {
        self.is_made_of(value, |_, own| match own.kind {
            OpKind::Iota => Some(Source::Itself),
            OpKind::Constant => own.shape.as_array().filter(|shape| shape.rank() == 0).map(|_| Source::Itself),
            OpKind::Broadcast | OpKind::Reverse => Some(Source::Operands),
            kind => is_element_by_element(kind).then_some(Source::Operands),
        })
    }

    /// Whether all that a value is computed from has a source that will do.
    fn is_made_of(&self, value: InstructionId, source: impl Fn(InstructionId, &Instruction) -> Option<Source>) -> bool {
        let (mut open, mut seen) = (vec![value], HashSet::from([value]));
        while let Some(id) = open.pop() {
            let own = self.computation.get(id);
            match source(id, own) {
                None => return false,
                Some(Source::Itself) => {}
                Some(Source::Operands) => open.extend(own.operands.iter().copied().filter(|&next| seen.insert(next))),
            }
        }
        true
    }
}

/// What the elements of a value are made of.
enum Source {
    /// Of nothing that need be looked at.
    Itself,
    Operands,
}

/// Whether elements have the order of those that they are computed from.
fn is_element_by_element(kind: OpKind) -> bool {
    kind == OpKind::Reshape || definition(kind).class == OpClass::Elementwise
}
