//! What a kernel computes once for each row: reductions that are read all along the row, what is made of them, and values
//! along the row that several loops over it read.

use std::collections::HashSet;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{RowWork, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::ops::{OpClass, definition};
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval};
use mlir_ext::builder::OpBuilder;
use passes::fuse::{first_result, is_function};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{ArrayRef, array_type};
use crate::operand_maps::result_shape;
use crate::reduction::few_pieces;
use crate::side_by_side::lanes_of_row;
use crate::trace::trace;
use crate::walk::Visitor;

type Result<T> = std::result::Result<T, LoweringError>;

/// Alignment of the memory of a row.
const ALIGNMENT: i64 = 64;

/// A value of the rows of the block that is being computed, in memory.
#[derive(Clone, Debug)]
pub(crate) struct RowValue<'c> {
    pub array: ArrayRef<'c>,
    /// Whether the array is a result; else the leading dimensions of the value that go from row to row are one in it, the
    /// rows of a block.
    pub left_out: Option<usize>,
}

/// An array on the stack, for the values of a block.
pub(crate) fn block_memory<'c>(builder: &OpBuilder<'c>, block: &ArrayShape) -> ArrayRef<'c> {
    let r#type = array_type(builder, block);
    let memory = builder.in_prologue(|builder| builder.stack_buffer(r#type, ALIGNMENT));
    ArrayRef::new(memory, block)
}

impl<'c> RowValue<'c> {
    /// The place in the array of the value's element at an index, in the block's row of a number.
    pub(crate) fn place(&self, row: Expr<'c>, index: &[Expr<'c>]) -> Vec<Expr<'c>> {
        match self.left_out {
            None => index.to_vec(),
            Some(left_out) => [&[row], &index[left_out..]].concat(),
        }
    }
}

/// Neighbouring rows.
pub(crate) struct Block<'b, 'c> {
    /// The place in the dimensions of the work outside of the last one that goes from row to row.
    pub outer: &'b [Expr<'c>],
    /// The first row in that one.
    pub start: Expr<'c>,
    /// What all rows there come before; nothing where blocks are as large as they can be.
    pub upper: &'b [Expr<'c>],
    /// All rows there.
    pub bounds: Interval,
}

/// The rows of a kernel.
pub(crate) struct Rows<'m, 'c> {
    mapping: &'m WorkMapping<'c>,
    work: &'m RowWork,
    /// Where the values of the steps are.
    values: Vec<RowValue<'c>>,
    /// Those of them that vectors compute for several rows at once.
    by_lanes: HashSet<InstructionId>,
    /// The results with an element for each row.
    written: Vec<(InstructionId, ArrayRef<'c>)>,
}

impl<'m, 'c> Rows<'m, 'c> {
    /// The rows of a mapping, if it has any, and memory for a block of them. `outputs` are the arrays of the roots.
    pub(crate) fn of(
        builder: &OpBuilder<'c>,
        computation: &Computation,
        mapping: &'m WorkMapping<'c>,
        outputs: &[ArrayRef<'c>],
    ) -> Result<Option<Self>> {
        let Some(work) = &mapping.rows else { return Ok(None) };
        let largest = passes::fuse::written(computation).1;
        // Of a root of several arrays, which is no step, the first one tells the dimensions.
        let mut results: Vec<(InstructionId, ArrayRef<'c>)> = Vec::new();
        let mut first = 0;
        for root in computation.roots() {
            results.extend(outputs.get(first).map(|output| (root, output.clone())));
            first += computation.get(root).shape.leaves().len();
        }
        let by_lanes = if mapping.inner_lanes > 1 && work.block % i64::from(mapping.inner_lanes) == 0 {
            functions_of_steps(computation, work)
        } else {
            HashSet::new()
        };
        // Vectors go beyond the last row, where a result may end.
        let is_result = |step: &InstructionId| {
            let is_of_row = first_result(computation.get(*step)).is_some_and(|shape| shape.rank() <= work.rank);
            by_lanes.is_empty() || !is_of_row
        };
        let value_of = |&step: &InstructionId| -> Result<RowValue<'c>> {
            let shape = result_shape(computation.get(step))?;
            if let Some((_, output)) = results.iter().find(|(root, _)| *root == step && is_result(root)) {
                return Ok(RowValue { array: output.clone(), left_out: None });
            }
            let along = shape.dimensions.get(work.rank..).unwrap_or(&[]);
            let block = ArrayShape::new(shape.element_type, [&[work.block], along].concat());
            Ok(RowValue { array: block_memory(builder, &block), left_out: Some(work.rank) })
        };
        let values = work.steps.iter().map(value_of).collect::<Result<_>>()?;
        let is_step = |root: &InstructionId| work.steps.contains(root);
        let is_written = |root: &InstructionId, output: &ArrayRef<'c>| match is_step(root) {
            true => !is_result(root),
            false => output.dimensions != largest,
        };
        let written = results.into_iter().filter(|(root, output)| is_written(root, output)).collect();
        Ok(Some(Rows { mapping, work, values, by_lanes, written }))
    }

    /// The last dimension of the work that goes from row to row.
    pub(crate) fn last_dimension(&self) -> usize {
        self.work.dimensions - 1
    }

    /// Rows of a block.
    pub(crate) fn block(&self) -> i64 {
        self.work.block
    }

    /// Whether there is nothing left to compute for the elements of a row.
    pub(crate) fn write_all(&self, computation: &Computation) -> bool {
        computation.roots().into_iter().all(|root| self.writes(root))
    }

    /// Whether a result is complete when what belongs to the row is there.
    pub(crate) fn writes(&self, root: InstructionId) -> bool {
        self.work.steps.contains(&root) || self.written.iter().any(|&(written, _)| written == root)
    }

    /// Computes what belongs to the rows of a block.
    pub(crate) fn emit(&self, emitter: &mut Elemental<'_, 'c>, block: &Block<'_, 'c>) -> Result<()> {
        emitter.row_values.clear();
        for (&step, value) in self.work.steps.iter().zip(&self.values) {
            if self.by_lanes.contains(&step) {
                self.emit_by_lanes(emitter, block, (step, value))?;
                emitter.row_values.insert(step, value.clone());
                continue;
            }
            let sizes = &result_shape(emitter.computation.get(step))?.dimensions[self.work.rank..];
            self.each_row(emitter, block, &mut |emitter, place| {
                let row = emitter.apply(&self.mapping.map.results()[..self.work.rank], place, &[])?;
                compute(emitter, (step, value), &row, sizes)
            })?;
            emitter.row_values.insert(step, value.clone());
        }
        for (root, output) in &self.written {
            self.each_row(emitter, block, &mut |emitter, place| {
                let mut index = emitter.apply(&self.mapping.map.results()[..self.work.rank], place, &[])?;
                index.resize(output.dimensions.len(), emitter.scope.constant(0));
                let value = emitter.evaluate(*root, &index)?;
                emitter.store(output, &index, &value)
            })?;
        }
        Ok(())
    }

    /// Computes a step for as many rows at once as vectors have lanes, those beyond the last row of a block too: what is read
    /// is on the stack, and so is the result.
    fn emit_by_lanes<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        block: &Block<'_, 'c>,
        (step, value): (InstructionId, &RowValue<'c>),
    ) -> Result<()> {
        let lanes = self.mapping.inner_lanes;
        let vectors = Interval::of_size(self.work.block / i64::from(lanes));
        emitter.loop_in(vectors, None, Vec::new(), &mut |emitter, number, _| {
            emitter.nested(|emitter| {
                let row = number * i64::from(lanes) + emitter.scope.add_lanes(lanes);
                emitter.row_in_block = Some(row);
                let place = [block.outer, &[block.start + row]].concat();
                let index = emitter.apply(&self.mapping.map.results()[..self.work.rank], &place, &[])?;
                let result = compute(emitter, (step, value), &index, &[]);
                emitter.row_in_block = None;
                result.map(|()| Vec::new())
            })
        })?;
        Ok(())
    }

    /// Goes through the rows of a block.
    pub(crate) fn each_row<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        block: &Block<'_, 'c>,
        body: &mut dyn FnMut(&mut Elemental<'a, 'c>, &[Expr<'c>]) -> Result<()>,
    ) -> Result<()> {
        let mut each = |emitter: &mut Elemental<'a, 'c>, row: Expr<'c>| {
            emitter.row_in_block = Some(emitter.scope.simplify(row - block.start));
            let result = body(emitter, &[block.outer, &[row]].concat());
            emitter.row_in_block = None;
            result
        };
        if self.work.block == 1 {
            return emitter.nested(|emitter| each(emitter, block.start));
        }
        let (lower, mut upper) = ([block.start], block.upper.to_vec());
        upper.push(block.start + self.work.block);
        emitter.loop_between(&lower, &upper, 1, block.bounds, Vec::new(), &mut |emitter, row, _| {
            each(emitter, row).map(|()| Vec::new())
        })?;
        Ok(())
    }
}

/// The steps that are functions of many operations of nothing but steps before them.
fn functions_of_steps(computation: &Computation, work: &RowWork) -> HashSet<InstructionId> {
    let mut found = HashSet::new();
    let is_of_row = |own: &Instruction| own.shape.as_array().is_some_and(|shape| shape.rank() <= work.rank);
    for (position, &step) in work.steps.iter().enumerate() {
        let before = &work.steps[..position];
        let (mut open, mut is_known, mut has_function) = (vec![step], true, false);
        let mut seen = HashSet::from([step]);
        while let Some(id) = open.pop() {
            let own = computation.get(id);
            if id != step && before.contains(&id) {
                is_known &= is_of_row(own);
                continue;
            }
            has_function |= is_function(own);
            match own.kind {
                OpKind::Broadcast => {
                    let operand = own.operands.first().map(|&operand| computation.get(operand));
                    is_known &= operand.is_some_and(|operand| operand.kind == OpKind::Constant);
                }
                kind if definition(kind).class == OpClass::Elementwise => {
                    open.extend(own.operands.iter().copied().filter(|&next| seen.insert(next)));
                }
                _ => is_known = false,
            }
        }
        if is_known && has_function {
            found.insert(step);
        }
    }
    found
}

/// Computes the elements of a value for a row, or for a place in it, whose other dimensions have these sizes.
fn compute<'c>(
    emitter: &mut Elemental<'_, 'c>,
    (step, value): (InstructionId, &RowValue<'c>),
    place: &[Expr<'c>],
    sizes: &[i64],
) -> Result<()> {
    let Some((&size, inner)) = sizes.split_first() else {
        let row = emitter.row_in_block.ok_or_else(|| LoweringError::bug("a row without a block"))?;
        let element = emitter.evaluate(step, place)?;
        return emitter.store(&value.array, &value.place(row, place), &element);
    };
    let at = |position: Expr<'c>| [place, &[position]].concat();
    let takes_vectors = inner.is_empty() && emitter.vector_lanes >= 2;
    for piece in if takes_vectors { pieces(emitter, step, place, size)? } else { vec![Interval::of_size(size)] } {
        let extent = piece.upper - piece.lower + 1;
        let is_known = |id: InstructionId| emitter.row_values.contains_key(&id);
        let lanes = lanes_of_row(emitter.computation, &[step], (extent, emitter.vector_lanes), is_known);
        let width = i64::from(lanes);
        if !takes_vectors || extent < width {
            emitter.loop_in(piece, None, Vec::new(), &mut |emitter, position, _| {
                emitter.nested(|emitter| compute(emitter, (step, value), &at(position), inner)).map(|()| Vec::new())
            })?;
            continue;
        }
        let vector = |emitter: &mut Elemental<'_, 'c>, start: Expr<'c>| {
            emitter.nested(|emitter| {
                let lane = emitter.scope.add_lanes(lanes);
                compute(emitter, (step, value), &at(start + lane), &[])
            })
        };
        emitter.loop_in(Interval::new(0, extent / width - 1), None, Vec::new(), &mut |emitter, number, _| {
            vector(emitter, number * width + piece.lower).map(|()| Vec::new())
        })?;
        if extent % width != 0 {
            // It overlaps the one before it, and computes the same.
            let start = emitter.scope.constant(piece.upper + 1 - width);
            vector(emitter, start)?;
        }
    }
    Ok(())
}

/// The last dimension of a value, at a place in the others, in pieces between which nothing changes.
fn pieces<'c>(
    emitter: &mut Elemental<'_, 'c>,
    step: InstructionId,
    place: &[Expr<'c>],
    size: i64,
) -> Result<Vec<Interval>> {
    let computation = emitter.computation;
    emitter.nested(|emitter| {
        let bounds = Interval::of_size(size);
        let position = emitter.scope.add_traced(bounds);
        let found = trace(computation, &[step], &[place, &[position]].concat(), &mut emitter.scope)?;
        Ok(few_pieces(&found.cuts_of_merged(&emitter.scope, (position, bounds, 1), false), size))
    })
}
