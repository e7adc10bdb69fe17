//! Reductions along the columns of large arrays, a few rows at a time.
//!
//! Down a column, each row is another page: processors fetch nothing ahead and look for pages more than they read. So blocks of a
//! few rows are walked along the rows, each combining its terms with what the results hold so far.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval};
use melior::Context;

use crate::access::LARGE_ARRAY_BYTES;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::mapping::combines;
use crate::memory::ArrayRef;
use crate::reduction::{combine_loops, unpack};
use crate::reduction_in_order::{Key, key};
use crate::scalar::RegisterValue;
use crate::scalar::combiner::{self, Combiner};
use crate::walk::Visitor;

type Result<T> = std::result::Result<T, LoweringError>;

/// Rows of a block: as many as lines of one place have room in the first-level cache, where rows are pages apart.
const ROWS_OF_BLOCK: i64 = 8;

/// Vectors that are combined side by side.
const VECTORS_OF_BLOCK: u32 = 4;

/// Blocks from which on a reduction is made in blocks.
const LEAST_BLOCKS: i64 = 2;

/// Bytes of results that all blocks go through before the next ones: they stay in a cache near the core.
const BYTES_OF_CHUNK: i64 = 32 << 10;

/// Bytes of a row that a thread takes, at least.
const BYTES_OF_THREAD: i64 = 1024;

/// Reductions along columns that a kernel makes in blocks of rows.
pub(crate) struct ColumnBlocks<'a> {
    reductions: Vec<ColumnReduction<'a>>,
    rows: i64,
}

/// One of them.
struct ColumnReduction<'a> {
    id: InstructionId,
    instruction: &'a Instruction,
    combiner: Combiner,
    /// The output that holds its results until they are complete.
    output: usize,
}

impl<'a> ColumnBlocks<'a> {
    /// Those of a computation whose work is divided so, if all that it combines is columns of one large array.
    pub(crate) fn of<'c>(
        context: &'c Context,
        computation: &'a Computation,
        mapping: &WorkMapping<'c>,
    ) -> Result<Option<Self>> {
        let last = mapping.dimensions.len().wrapping_sub(1);
        // Where one step takes all columns, rows follow one another.
        let has_steps = |own: &WorkDimension| {
            let columns = mapping.bounds(last).upper + 1;
            own.lanes > 1 && own.cuts.is_empty() && columns > i64::from(own.lanes)
        };
        let is_of_loops = mapping.dimensions.iter().rev().skip(1).all(|own| own.lanes == 1)
            && mapping.dimensions.iter().all(|own| matches!(own.kind, WorkKind::Sequential | WorkKind::Parallel));
        if !mapping.dimensions.last().is_some_and(has_steps) || !is_of_loops || mapping.rows.is_some() {
            return Ok(None);
        }
        let (roots, sizes) = passes::fuse::written(computation);
        let Some(reductions) = reductions(computation, &roots, sizes) else { return Ok(None) };
        let Some(first) = reductions.first() else { return Ok(None) };
        let Some(terms) = computation.get(first.instruction.operands[0]).shape.as_array() else { return Ok(None) };
        let arrays = computation.parameters.iter().filter_map(|&id| computation.get(id).shape.as_array());
        let read = arrays.filter(|array| array.element_count() >= terms.element_count()).map(ArrayShape::byte_size);
        if read.max().is_none_or(|bytes| (bytes as i64) < LARGE_ARRAY_BYTES) {
            return Ok(None);
        }
        let bounds: Vec<Interval> = sizes.iter().map(|&size| Interval::of_size(size)).collect();
        let instructions: Vec<&Instruction> = reductions.iter().map(|own| own.instruction).collect();
        let (loops, is_near) = combine_loops(context, computation, &instructions, &bounds)?;
        let ([rows], [false]) = (&loops[..], &is_near[..]) else { return Ok(None) };
        let rows = rows.extent;
        Ok((rows >= LEAST_BLOCKS * ROWS_OF_BLOCK).then_some(ColumnBlocks { reductions, rows }))
    }

    /// Whether no vector combines what another one has, or may do so.
    pub(crate) fn fits(&self, mapping: &WorkMapping<'_>) -> bool {
        !mapping.overlap || self.reductions.iter().all(|own| own.combiner.is_idempotent())
    }

    /// The mapping for blocks: no element is combined twice, and threads take long parts of rows.
    pub(crate) fn adapt<'c>(&self, mapping: WorkMapping<'c>) -> WorkMapping<'c> {
        let overlap = mapping.overlap && self.fits(&mapping);
        let vectors = VECTORS_OF_BLOCK * mapping.inner_lanes.max(1);
        let mut mapping = WorkMapping { overlap, ..mapping };
        let Some(last) = mapping.dimensions.last_mut() else { return mapping };
        last.lanes = last.lanes.min(vectors);
        let least = BYTES_OF_THREAD / self.vector_bytes(last.lanes);
        let chunk = self.chunk(&mapping);
        if let Some(last) = mapping.dimensions.last_mut().filter(|last| last.kind == WorkKind::Parallel) {
            let tile = last.tile.max(least);
            last.tile = chunk.map_or(tile, |chunk| indexing::ceil_div(tile, chunk) * chunk);
        }
        mapping
    }

    /// Bytes of a vector of results.
    fn vector_bytes(&self, lanes: u32) -> i64 {
        let element = self.reductions.iter().map(|own| own.combiner.element_type().byte_width()).max();
        (i64::from(lanes) * element.unwrap_or_default() as i64).max(1)
    }

    /// Vectors that all blocks go through before the next ones, where there are more: threads take whole chunks.
    pub(crate) fn chunk(&self, mapping: &WorkMapping<'_>) -> Option<i64> {
        let last = mapping.dimensions.len().checked_sub(1)?;
        let chunk = BYTES_OF_CHUNK / self.vector_bytes(mapping.dimensions[last].lanes);
        (chunk > 0 && mapping.iterations(last) >= 2 * chunk).then_some(chunk)
    }

    /// Blocks of rows.
    pub(crate) fn blocks(&self) -> i64 {
        indexing::ceil_div(self.rows, ROWS_OF_BLOCK)
    }

    /// Stores what reductions begin with.
    pub(crate) fn begin<'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        index: &[Expr<'c>],
        outputs: &[ArrayRef<'c>],
    ) -> Result<()> {
        self.reductions.iter().try_for_each(|own| {
            let initial = emitter.initial_values(own.instruction, 1)?[0];
            let initial = emitter.in_lanes(&initial);
            emitter.store(&outputs[own.output], index, &initial)
        })
    }

    /// Combines the terms of a block with what the outputs hold.
    pub(crate) fn go_on<'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (index, block): (&[Expr<'c>], Expr<'c>),
        outputs: &[ArrayRef<'c>],
    ) -> Result<()> {
        let (builder, lanes) = (emitter.builder, emitter.scope.lanes());
        let zeros: Vec<RegisterValue<'c>> =
            self.reductions.iter().map(|own| own.combiner.identity(builder, lanes)).collect();
        let first = block * ROWS_OF_BLOCK;
        let mut ends = vec![first + ROWS_OF_BLOCK];
        if self.rows % ROWS_OF_BLOCK != 0 {
            ends.push(emitter.scope.constant(self.rows));
        }
        let state = zeros.iter().flat_map(RegisterValue::values).collect();
        let rows = Interval::of_size(self.rows);
        let terms = emitter.loop_between(&[first], &ends, 1, rows, state, &mut |emitter, row, state| {
            let mut next = Vec::with_capacity(state.len());
            for (own, total) in self.reductions.iter().zip(unpack(&zeros, &state)) {
                let total = emitter.reduce_along(own.instruction, index, (1, (1, row)), &own.combiner, total)?;
                next.extend(total.values());
            }
            Ok(next)
        })?;
        self.reductions.iter().zip(unpack(&zeros, &terms)).try_for_each(|(own, terms)| {
            let output = &outputs[own.output];
            let before = emitter.load_element(output, index)?;
            emitter.store(output, index, &own.combiner.combine(builder, &before, &terms))
        })
    }

    /// Whether something is made of the results, once they are complete.
    pub(crate) fn is_read(&self, computation: &Computation) -> bool {
        let roots = computation.roots();
        !(roots.len() == self.reductions.len() && self.reductions.iter().all(|own| roots[own.output] == own.id))
    }

    /// What the outputs hold are the values of the reductions from now on.
    pub(crate) fn finish<'c>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        index: &[Expr<'c>],
        outputs: &[ArrayRef<'c>],
    ) -> Result<()> {
        self.reductions.iter().try_for_each(|own| {
            let total = emitter.load_element(&outputs[own.output], index)?;
            emitter.remember(own.id, index, vec![total]);
            Ok(())
        })
    }
}

/// The reductions of a computation with outputs to hold their results, if it makes its results of them and of constants, element
/// by element: outputs may lie over what else it reads.
fn reductions<'a>(
    computation: &'a Computation,
    roots: &[InstructionId],
    sizes: &[i64],
) -> Option<Vec<ColumnReduction<'a>>> {
    let array = |id: InstructionId| computation.get(id).shape.as_array();
    let is_result = |id: InstructionId| array(id).is_some_and(|shape| shape.dimensions == sizes);
    // What is made of results, and what of parameters.
    let count = computation.instructions.len();
    let (mut of_results, mut of_parameters) = (vec![false; count], vec![false; count]);
    let mut reductions: Vec<ColumnReduction<'a>> = Vec::new();
    let mut reduced: Option<Key<'_>> = None;
    let mut is_taken = vec![false; roots.len()];
    for (id, instruction) in computation.iter() {
        let some = |made: &[bool]| instruction.operands.iter().any(|operand| made[operand.index()]);
        of_parameters[id.index()] = instruction.kind == OpKind::Parameter || some(&of_parameters);
        if combines(instruction) {
            let own = key(computation, instruction)?;
            let combiner = combiner::recognise(instruction.computations.first()?)?;
            let begins_with_constant = !of_parameters[instruction.operands.last()?.index()];
            let is_alike = *reduced.get_or_insert_with(|| own.clone()) == own;
            let is_first = !some(&of_results) && begins_with_constant;
            if !is_alike || !is_first || !is_result(id) || !is_kept_exactly(combiner.element_type()) {
                return None;
            }
            let holds = |number: &usize| {
                !is_taken[*number]
                    && array(roots[*number]).is_some_and(|own| own.element_type == combiner.element_type())
            };
            let output = (0..roots.len()).find(holds)?;
            is_taken[output] = true;
            of_results[id.index()] = true;
            reductions.push(ColumnReduction { id, instruction, combiner, output });
        } else if some(&of_results) {
            let is_by_element = definition(instruction.kind).fusion == FusionRole::Elementwise && is_result(id);
            let reads_others = |operand: &InstructionId| !of_results[operand.index()] && of_parameters[operand.index()];
            let is_tuple = id == computation.root && instruction.kind == OpKind::Tuple;
            if !is_tuple && (!is_by_element || instruction.operands.iter().any(reads_others)) {
                return None;
            }
            of_results[id.index()] = true;
        }
    }
    let are_made_of_results = roots.iter().all(|root| of_results[root.index()] && is_result(*root));
    are_made_of_results.then_some(reductions)
}

/// Whether accumulators are of the type of the results.
fn is_kept_exactly(element_type: ElementType) -> bool {
    match element_type.class() {
        ElementClass::Float => element_type.bit_width() >= 32,
        ElementClass::Predicate | ElementClass::Signed | ElementClass::Unsigned => true,
        ElementClass::Complex => false,
    }
}
