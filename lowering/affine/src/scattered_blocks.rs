//! Blocks of a scatter of single elements: where these go, and what they are combined with, is computed by vectors for a block of index
//! vectors at a time, and put into memory that the first cache holds. One after another they are then only loaded and combined.

use hlo::graph::{Computation, InstructionId};
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval, ceil_div};

use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::operand_maps::result_shape;
use crate::rows::{RowValue, block_memory};
use crate::scatter::{ELEMENTS_IN_A_TURN, Scatter};
use crate::short_rows::{Source, is_made_of};
use crate::walk::{Visitor, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Index vectors of a block at most.
const MOST_OF_BLOCK: i64 = 256;

/// An operand that is computed for a block.
struct ComputedOperand<'c> {
    id: InstructionId,
    /// Where its elements for one index vector are, by dimensions of the updates.
    elements: Vec<Vec<Expr<'c>>>,
    memory: RowValue<'c>,
}

impl<'c> Scatter<'_, 'c> {
    /// Scatters the elements along a dimension, the last one of index vectors, in blocks; nothing is emitted, and false returned, where
    /// there is no vector of them, or nothing to compute. `index` has the places in the dimensions before.
    pub(crate) fn in_blocks<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        dimension: usize,
        index: &[Expr<'c>],
    ) -> Result<bool> {
        let size = self.updates[dimension];
        let width = i64::from(self.vector_lanes);
        let unit = width.max(ELEMENTS_IN_A_TURN);
        let block = (size / unit * unit).min(MOST_OF_BLOCK);
        if width < 2 || block == 0 {
            return Ok(false);
        }
        let computed = self.computed_operands(emitter, dimension, block)?;
        if computed.is_empty() {
            return Ok(false);
        }
        let last_start = size - block;
        let whole_turns = size - size % ELEMENTS_IN_A_TURN;
        let at = |position: Expr<'c>| {
            let mut index = index.to_vec();
            index[dimension] = position;
            index
        };
        let one = |emitter: &mut Elemental<'a, 'c>, position: Expr<'c>, start: Expr<'c>| {
            emitter.row_in_block = Some(emitter.scope.simplify(position - start));
            let result = emitter.nested(|emitter| self.window(emitter, &mut at(position)));
            emitter.row_in_block = None;
            result
        };
        emitter.loop_in(Interval::of_size(ceil_div(size, block)), None, Vec::new(), &mut |emitter, number, _| {
            let first = number * block;
            let mut start = first;
            if size % block != 0 {
                let smaller = emitter.scope.emit_min(emitter.builder, &[first, emitter.scope.constant(last_start)])?;
                start =
                    emitter.scope.add_variable(Interval::new(0, last_start), index_binding(emitter.builder, smaller));
            }
            emitter.loop_in(Interval::of_size(block / width), None, Vec::new(), &mut |emitter, number, _| {
                emitter.nested(|emitter| {
                    let row = number * width + emitter.scope.add_lanes(self.vector_lanes);
                    computed.iter().try_for_each(|operand| operand.compute(emitter, &at(start + row), row))
                })?;
                Ok(Vec::new())
            })?;
            emitter.row_values.extend(computed.iter().map(|operand| (operand.id, operand.memory.clone())));
            let upper = [first + block, emitter.scope.constant(whole_turns)];
            let bounds = Interval::new(0, whole_turns - ELEMENTS_IN_A_TURN);
            emitter.loop_between(
                &[first],
                &upper,
                ELEMENTS_IN_A_TURN,
                bounds,
                Vec::new(),
                &mut |emitter, turn, _| {
                    (0..ELEMENTS_IN_A_TURN).try_for_each(|number| one(emitter, turn + number, start))?;
                    Ok(Vec::new())
                },
            )?;
            Ok(Vec::new())
        })?;
        let start = emitter.scope.constant(last_start);
        (whole_turns..size).try_for_each(|position| one(emitter, emitter.scope.constant(position), start))?;
        emitter.row_values.clear();
        Ok(true)
    }

    /// The operands that are computed, with memory for those of a block of index vectors along a dimension of the updates.
    fn computed_operands(
        &self,
        emitter: &Elemental<'_, 'c>,
        dimension: usize,
        block: i64,
    ) -> Result<Vec<ComputedOperand<'c>>> {
        let builder = emitter.builder;
        let dims: Vec<Expr<'c>> = (0..self.updates.len()).map(|number| Expr::dim(builder.context(), number)).collect();
        let sources = self.map.runtimes().iter().filter_map(|runtime| runtime.source.as_ref());
        let vector: Vec<Vec<Expr<'c>>> = sources.map(|source| source.index.clone()).collect();
        let updates = (0..self.count).map(|number| (self.update(number), vec![dims.clone()]));
        let mut found = Vec::new();
        for (id, elements) in updates.chain([(self.indices(), vector)]) {
            let Some(first) = elements.first().filter(|_| is_computed(emitter.computation, id)) else { continue };
            let Some(place) = first.iter().position(|&expr| expr == dims[dimension]) else { continue };
            // In front of it, all elements have the same index.
            if elements.iter().any(|own| own[..=place] != first[..=place]) {
                continue;
            }
            let shape = result_shape(emitter.computation.get(id))?;
            let left_out = place + 1;
            let sizes = [&[block], &shape.dimensions[left_out..]].concat();
            let array = block_memory(builder, &ArrayShape::new(shape.element_type, sizes));
            found.push(ComputedOperand { id, elements, memory: RowValue { array, left_out: Some(left_out) } });
        }
        Ok(found)
    }
}

impl<'c> ComputedOperand<'c> {
    /// Computes its elements for an index of the updates, which is that of a vector: those of a row of the block.
    fn compute(&self, emitter: &mut Elemental<'_, 'c>, index: &[Expr<'c>], row: Expr<'c>) -> Result<()> {
        let at = |element: &Vec<Expr<'c>>| element.iter().map(|&expr| substitute(expr, index, &[], &[])).collect();
        let indices: Vec<Vec<Expr<'c>>> = self.elements.iter().map(at).collect();
        let values = indices.iter().map(|index| emitter.evaluate(self.id, index)).collect::<Result<Vec<_>>>()?;
        let places: Vec<Vec<Expr<'c>>> = indices.iter().map(|index| self.memory.place(row, index)).collect();
        emitter.store_alternating(&self.memory.array, &places, &values)
    }
}

/// Whether there is more to an instruction than moving elements of parameters, or counting.
fn is_computed(computation: &Computation, id: InstructionId) -> bool {
    !is_made_of(computation, id, |_, own| match definition(own.kind).fusion {
        _ if own.shape.as_array().is_none_or(|shape| shape.element_count() <= 1) => Some(Source::Itself),
        FusionRole::Elementwise | FusionRole::Lookup => None,
        _ => Some(Source::Operands),
    })
}
