//! Loop nests of fusions: one kernel each, as its mapping divides the work.

use std::cell::OnceCell;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use indexing::{Constraint, Expr, Interval, ceil_div};
use mlir_ext::builder::{self, OpBuilder, Value};

use crate::column_blocks::ColumnBlocks;
use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::gpu::over_threads;
use crate::mapping::combines;
use crate::memory::{ArrayRef, Inputs};
use crate::operand_maps::{instruction_maps, no_map, operand_map};
use crate::rows::{Block, Rows};
use crate::runs::moves_or_clears;
use crate::scalar::RegisterValue;
use crate::scan::Scan;
use crate::scope::Binding;
use crate::team::{TeamShape, combined_first, over_teams};
use crate::team_rows;
use crate::team_scan;
use crate::walk::{Visitor, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// The part of the parallel loops that is emitted: all of it, or iterations between two values of type `index`, which
/// are defined at the top level of their function.
pub type Range<'c> = Option<(Value<'c>, Value<'c>)>;

/// Emits the loops of a fused computation.
///
/// `outputs` are the arrays of the root (of its elements, if it is a tuple), in order; `function` is that of a kernel of a GPU.
pub fn emit_fusion<'a, 'c>(
    builder: &'a OpBuilder<'c>,
    computation: &'a Computation,
    mapping: &WorkMapping<'c>,
    inputs: Inputs<'a, 'c>,
    outputs: &[ArrayRef<'c>],
    range: Range<'c>,
    function: Option<&'a builder::Body<'c>>,
) -> Result<()> {
    let mut emitter = Elemental::new(builder, computation, inputs, mapping.inner_lanes);
    if computation.root().kind == OpKind::DynamicUpdateSlice {
        return emit_update(&mut emitter, (mapping, range, function), outputs);
    }
    if let (Some(work), Some(shape), Some(function)) = (&mapping.rows, TeamShape::of(mapping), function) {
        return team_rows::emit(&mut emitter, (mapping, work), (shape, function), outputs);
    }
    // Threads read them by themselves: another thread may already write where a start is.
    if !mapping.dimensions.iter().any(|dimension| matches!(dimension.kind, WorkKind::Threads | WorkKind::Team)) {
        emitter.read_starts()?;
    }
    let rows = Rows::of(builder, computation, mapping, outputs)?;
    let blocks = match function {
        None => ColumnBlocks::of(builder.context(), computation, mapping)?.filter(|blocks| blocks.fits(mapping)),
        Some(_) => None,
    };
    let blocks = blocks.map(|blocks| (blocks, outputs));
    let is_open = |root: &InstructionId| rows.as_ref().is_none_or(|rows| !rows.writes(*root));
    let owned = computation.output_roots().into_iter().zip(outputs);
    let outputs: Vec<&ArrayRef<'c>> = owned.filter(|(root, _)| is_open(root)).map(|(_, output)| output).collect();
    let roots: Vec<InstructionId> = computation.roots().into_iter().filter(is_open).collect();
    let mut work = Work::new(&mut emitter, mapping, rows.as_ref(), (range, function));
    work.blocks = blocks.as_ref();
    work.copied_to = outputs.first().copied().filter(|_| only_moves(computation));
    work.moved_to = outputs.first().copied().filter(|_| function.is_none() && moves_or_clears(computation));
    let goes_on_alone = TeamShape::of(mapping).is_some() && !team_scan::is_of_teams(mapping);
    let first = if goes_on_alone { combined_first(computation) } else { Vec::new() };
    work.each_item(&mut emitter, &[], &mut |emitter, indices| {
        // All values first: outputs may lie over inputs.
        let evaluate = |emitter: &mut Elemental<'a, 'c>| -> Result<Vec<Vec<RegisterValue<'c>>>> {
            let all = |emitter: &mut Elemental<'a, 'c>, index: &Vec<Expr<'c>>| {
                let values = roots.iter().map(|&root| emitter.evaluate_all(root, index)).collect::<Result<Vec<_>>>()?;
                Ok(values.concat())
            };
            indices.iter().map(|index| all(emitter, index)).collect()
        };
        let mut values = None;
        for (index, &id) in indices.iter().flat_map(|index| first.iter().map(move |id| (index, id))) {
            emitter.evaluate_all(id, index)?;
        }
        if first.is_empty() {
            values = Some(evaluate(emitter)?);
        }
        emitter.storing(&mut |emitter| {
            let values = values.take().map_or_else(|| evaluate(emitter), Ok)?;
            for (number, &output) in outputs.iter().enumerate() {
                let own: Vec<RegisterValue<'c>> =
                    values.iter().filter_map(|values| values.get(number).copied()).collect();
                match (&own[..], indices) {
                    ([value], [index]) => emitter.store(output, index, value)?,
                    _ => emitter.store_alternating(output, indices, &own)?,
                }
            }
            Ok(())
        })
    })
}

/// Whether each element of a computation's one result is an element of its one parameter.
pub(crate) fn only_moves(computation: &Computation) -> bool {
    computation.parameters.len() == 1
        && computation.root().kind != OpKind::Tuple
        && computation.instructions.iter().all(is_moved)
}

/// dynamic-update-slice in place: writes the update's elements, nothing else.
fn emit_update<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    (mapping, range, function): (&WorkMapping<'c>, Range<'c>, Option<&'a builder::Body<'c>>),
    outputs: &[ArrayRef<'c>],
) -> Result<()> {
    let root = emitter.computation.root();
    let [output] = outputs else { return Err(LoweringError::bug("an update of other than one array")) };
    let map = instruction_maps(emitter.scope.context(), emitter.computation, root)
        .result_map(1)
        .ok_or_else(|| no_map(root))?;
    let mut starts = Vec::with_capacity(map.runtimes().len());
    for runtime in map.runtimes() {
        let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
        let start = emitter.evaluate(root.operands[source.value as usize], &[])?;
        starts.push(emitter.clamped_start(&start, runtime.bounds)?);
    }
    Work::new(emitter, mapping, None, (range, function)).each_item(emitter, &[], &mut |emitter, indices| {
        indices.iter().try_for_each(|index| {
            let value = emitter.evaluate(root.operands[1], index)?;
            let place = emitter.apply(map.results(), index, &starts)?;
            emitter.store(output, &place, &value)
        })
    })
}

/// What is emitted for the index of an element, or of a vector's elements, or for those of a few neighbours.
type Body<'b, 'a, 'c> = dyn FnMut(&mut Elemental<'a, 'c>, &[Vec<Expr<'c>>]) -> Result<()> + 'b;

/// Neighbours that are computed together at most, so that they are stored as vectors; and those that are only moved.
pub(crate) const MOST_NEIGHBOURS: i64 = 4;
pub(crate) const MOST_MOVED_NEIGHBOURS: i64 = 7;

/// Whether so many neighbours are so few that they are computed together.
pub(crate) fn are_together(neighbours: i64, computation: &Computation) -> bool {
    neighbours <= MOST_NEIGHBOURS
        || neighbours <= MOST_MOVED_NEIGHBOURS && computation.instructions.iter().all(is_moved)
}

/// Whether elements are those of an operand, or of a parameter.
fn is_moved(instruction: &Instruction) -> bool {
    instruction.kind == OpKind::Parameter || definition(instruction.kind).fusion == FusionRole::View
}

/// Vectors of a row that are written out at most, and the instructions of the computation.
const MOST_WRITTEN_OUT: i64 = 4;
const INSTRUCTIONS_WRITTEN_OUT: usize = 8;

/// The first iteration of some and the one behind their last; `None` for all.
type Iterations<'c> = Option<(Expr<'c>, Expr<'c>)>;

/// The index of the element that a work item computes.
pub(crate) fn item_index<'c>(
    emitter: &Elemental<'_, 'c>,
    mapping: &WorkMapping<'c>,
    item: &[Expr<'c>],
) -> Vec<Expr<'c>> {
    let results = mapping.map.results().iter();
    results.map(|&result| emitter.scope.simplify(substitute(result, item, &[], &[]))).collect()
}

/// The work items of a kernel, or those of some iterations of its parallel loops.
struct Work<'m, 'a, 'c> {
    mapping: &'m WorkMapping<'c>,
    rows: Option<&'m Rows<'m, 'c>>,
    /// The function of a kernel of a GPU.
    function: Option<&'a builder::Body<'c>>,
    /// The iterations, counted through all pieces of the parallel dimension.
    range: Iterations<'c>,
    /// Those of the innermost dimension that are done now.
    chunk: Iterations<'c>,
    /// The result, where its elements are those of an operand.
    copied_to: Option<&'m ArrayRef<'c>>,
    /// The result of a processor's kernel, where its elements are those of operands or zero.
    moved_to: Option<&'m ArrayRef<'c>>,
    /// Reductions that are made in blocks of rows, and the results.
    blocks: Option<&'m (ColumnBlocks<'a>, &'m [ArrayRef<'c>])>,
    /// Whether an element takes a loop of its own.
    combines: OnceCell<bool>,
}

impl<'m, 'a, 'c> Work<'m, 'a, 'c> {
    fn new(
        emitter: &mut Elemental<'_, 'c>,
        mapping: &'m WorkMapping<'c>,
        rows: Option<&'m Rows<'m, 'c>>,
        (range, function): (Range<'c>, Option<&'a builder::Body<'c>>),
    ) -> Self {
        let mut variable = |value| emitter.scope.add_variable(Interval::new(0, i64::MAX), Binding::Symbol(value));
        let range = range.map(|(begin, end)| (variable(begin), variable(end)));
        Work {
            mapping,
            rows,
            function,
            range,
            chunk: None,
            copied_to: None,
            moved_to: None,
            blocks: None,
            combines: OnceCell::new(),
        }
    }

    /// The pieces of a dimension, each with the iterations of its loop, counted from its own first one.
    fn pieces(&self, dimension: usize) -> impl Iterator<Item = (Interval, Iterations<'c>)> {
        let own = &self.mapping.dimensions[dimension];
        let range = self.range_of(dimension);
        let mut first = 0;
        own.pieces(self.mapping.bounds(dimension)).map(move |piece| {
            let before = first;
            first += own.iterations(piece);
            (piece, range.map(|(begin, end)| (begin - before, end - before)))
        })
    }

    /// The iterations that are left of a dimension.
    fn range_of(&self, dimension: usize) -> Iterations<'c> {
        let is_innermost = dimension + 1 == self.mapping.dimensions.len();
        let range = self.range.filter(|_| self.mapping.parallel_dimension() == Some(dimension));
        self.chunk.filter(|_| is_innermost).or(range)
    }

    /// Iterations of the loops inside that over a dimension; those that make one element count as many.
    fn iterations_inside(&self, emitter: &Elemental<'_, 'c>, dimension: usize) -> i64 {
        if *self.combines.get_or_init(|| emitter.computation.instructions.iter().any(combines)) {
            return i64::MAX;
        }
        let inner = dimension + 1..self.mapping.dimensions.len();
        inner.fold(1, |product: i64, inner| product.saturating_mul(self.mapping.bounds(inner).upper + 1))
    }

    /// Runs the items whose place in the outer dimensions is given, after what their row needs if that is one row.
    fn each_item(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outer: &[Expr<'c>],
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        let is_innermost = outer.len() + 1 == self.mapping.dimensions.len();
        match (self.rows.filter(|rows| rows.last_dimension() == outer.len()), self.blocks) {
            (Some(rows), _) => self.each_block_of_rows(emitter, rows, outer, body),
            (None, Some((blocks, outputs))) if is_innermost => {
                self.each_chunk_of_terms(emitter, (blocks, outputs), outer, body)
            }
            _ => self.each_inner_item(emitter, outer, body),
        }
    }

    /// Chunks of the innermost dimension whose results stay in a cache, for all blocks of rows.
    fn each_chunk_of_terms(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (blocks, outputs): (&ColumnBlocks<'a>, &[ArrayRef<'c>]),
        outer: &[Expr<'c>],
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        let Some(chunk) = blocks.chunk(self.mapping) else {
            return self.each_block_of_terms(emitter, (blocks, outputs), outer, body);
        };
        let count = self.mapping.iterations(outer.len());
        let all = (emitter.scope.constant(0), emitter.scope.constant(count));
        let (begin, end) = self.range_of(outer.len()).unwrap_or(all);
        let bounds = Interval::of_size(count);
        emitter.loop_between(&[begin], &[end], chunk, bounds, Vec::new(), &mut |emitter, first, _| {
            let work = Work { chunk: Some((first, first + chunk)), combines: OnceCell::new(), ..*self };
            work.each_block_of_terms(emitter, (blocks, outputs), outer, body)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Blocks of the rows that reductions along columns combine: each goes through all items.
    fn each_block_of_terms(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (blocks, outputs): (&ColumnBlocks<'a>, &[ArrayRef<'c>]),
        outer: &[Expr<'c>],
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        self.each_inner_item(emitter, outer, &mut |emitter, indices| {
            indices.iter().try_for_each(|index| blocks.begin(emitter, index, outputs))
        })?;
        emitter.loop_in(Interval::of_size(blocks.blocks()), None, Vec::new(), &mut |emitter, block, _| {
            self.each_inner_item(emitter, outer, &mut |emitter, indices| {
                indices.iter().try_for_each(|index| blocks.go_on(emitter, (index, block), outputs))
            })?;
            Ok(Vec::new())
        })?;
        if !blocks.is_read(emitter.computation) {
            return Ok(());
        }
        self.each_inner_item(emitter, outer, &mut |emitter, indices| {
            indices.iter().try_for_each(|index| blocks.finish(emitter, index, outputs))?;
            body(emitter, indices)
        })
    }

    /// Blocks of rows: first what belongs to each of them as a whole, then their items.
    fn each_block_of_rows(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        rows: &Rows<'_, 'c>,
        outer: &[Expr<'c>],
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        for (piece, range) in self.pieces(outer.len()) {
            let (mut lower, mut upper) =
                (vec![emitter.scope.constant(piece.lower)], vec![emitter.scope.constant(piece.upper + 1)]);
            if let Some((begin, end)) = range {
                lower.push(begin + piece.lower);
                upper.push(end + piece.lower);
            }
            let is_whole = range.is_none() && (piece.upper + 1 - piece.lower) % rows.block() == 0;
            emitter.loop_between(&lower, &upper, rows.block(), piece, Vec::new(), &mut |emitter, start, _| {
                let block = Block { outer, start, upper: if is_whole { &[] } else { &upper }, bounds: piece };
                rows.emit(emitter, &block)?;
                if !rows.write_all(emitter.computation) {
                    rows.each_row(emitter, &block, &mut |emitter, place| self.each_inner_item(emitter, place, body))?;
                }
                Ok(Vec::new())
            })?;
        }
        Ok(())
    }

    fn each_inner_item(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outer: &[Expr<'c>],
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        let with = |position: Expr<'c>| [outer, &[position]].concat();
        let Some(dimension) = self.mapping.dimensions.get(outer.len()) else {
            return emitter.nested(|emitter| {
                let index = item_index(emitter, self.mapping, outer);
                let Some(row) = emitter.row else { return body(emitter, &[index]) };
                if let Some(output) = self.copied_to
                    && emitter.copy_squares(row, &index, output)?
                {
                    return Ok(());
                }
                emitter.each_row(row, &index, &mut |emitter, index| body(emitter, &[index.to_vec()]))
            });
        };
        let bounds = self.mapping.bounds(outer.len());
        if let (true, Some(function)) = (team_scan::is_of_teams(self.mapping), self.function) {
            return team_scan::emit(emitter, self.mapping, function, body);
        }
        if let (Some(shape), Some(function)) = (TeamShape::of(self.mapping), self.function) {
            // The whole team computes an element: which of its threads, does not matter to the index.
            let elements = self.mapping.bounds(shape.elements());
            return over_teams(emitter, (shape, function), elements, &mut |emitter, element| {
                let mut item = vec![emitter.scope.constant(0); 2];
                item[shape.elements()] = element;
                self.each_item(emitter, &item, body)
            });
        }
        match dimension.kind {
            WorkKind::Sequential | WorkKind::Parallel | WorkKind::Crossed => {
                // Iterations are counted by piece.
                let is_one = self.range_of(outer.len()).is_none() && self.is_padding(emitter, outer)?;
                let pieces: Vec<_> = match is_one {
                    true => vec![(bounds, None)],
                    false => self.pieces(outer.len()).collect(),
                };
                for (piece, range) in pieces {
                    if range.is_none() && self.moves_run(emitter, outer, piece)? {
                        continue;
                    }
                    if dimension.takes_vectors(piece) {
                        self.vectors(emitter, outer, piece, range, body)?;
                        continue;
                    }
                    let mut item = |emitter: &mut Elemental<'a, 'c>, position: Expr<'c>, _: Vec<Value<'c>>| {
                        self.each_item(emitter, &with(position), body).map(|()| Vec::new())
                    };
                    match range {
                        None => emitter.loop_over(
                            piece,
                            self.iterations_inside(emitter, outer.len()),
                            Vec::new(),
                            &mut item,
                        ),
                        range => emitter.loop_in(piece, range, Vec::new(), &mut item),
                    }?;
                }
                Ok(())
            }
            WorkKind::Scan => {
                let scan = Scan::of(emitter.computation).ok_or_else(|| LoweringError::bug("nothing is scanned"))?;
                emitter.nested(|emitter| {
                    let index =
                        |emitter: &Elemental<'a, 'c>, position| item_index(emitter, self.mapping, &with(position));
                    scan.emit(emitter, (bounds, dimension.lanes), &index, &mut |emitter, index| {
                        body(emitter, &[index.to_vec()])
                    })
                })
            }
            WorkKind::Team | WorkKind::Tile => Err(LoweringError::bug("threads of a GPU on a processor")),
            WorkKind::Threads if dimension.lanes > 1 => self.vectors_of_threads(emitter, outer, body),
            WorkKind::Threads => over_threads(emitter, bounds, dimension.tile, &mut |emitter, position| {
                self.each_item(emitter, &with(position), body)
            }),
        }
    }

    /// Moves the items of a piece of a dimension, and of all dimensions inside, as one row, if they are one.
    fn moves_run(&self, emitter: &mut Elemental<'a, 'c>, outer: &[Expr<'c>], piece: Interval) -> Result<bool> {
        let inner = outer.len() + 1..self.mapping.dimensions.len();
        let Some(output) = self.moved_to.filter(|_| inner.clone().all(|inner| self.range_of(inner).is_none())) else {
            return Ok(false);
        };
        let loops: Vec<Interval> = [piece].into_iter().chain(inner.map(|inner| self.mapping.bounds(inner))).collect();
        emitter.move_run(output, &loops, |emitter, positions| {
            item_index(emitter, self.mapping, &[outer, positions].concat())
        })
    }

    /// A vector of neighbouring items a thread, and one thread for what is left of the last one.
    fn vectors_of_threads(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outer: &[Expr<'c>],
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        let (dimension, extent) = (&self.mapping.dimensions[outer.len()], self.mapping.bounds(outer.len()).upper + 1);
        let lanes = i64::from(dimension.lanes);
        let (count, rest) = (extent / lanes, extent % lanes);
        let threads = Interval::of_size(ceil_div(extent, lanes));
        over_threads(emitter, threads, dimension.tile, &mut |emitter, position| {
            let mut vector = |emitter: &mut Elemental<'a, 'c>, position: Expr<'c>| {
                emitter.nested(|emitter| {
                    let lane = emitter.scope.add_lanes(dimension.lanes);
                    self.each_item(emitter, &[outer, &[position * lanes + lane]].concat(), body)
                })
            };
            if rest == 0 {
                return vector(emitter, position);
            }
            emitter.where_not_negative(&[-position + (count - 1)], |emitter| {
                let position = emitter.scope.narrowed(position, Interval::of_size(count));
                vector(emitter, position)
            })?;
            emitter.where_not_negative(&[position - count], |emitter| {
                let left = Interval::new(count * lanes, extent - 1);
                emitter.loop_in(left, None, Vec::new(), &mut |emitter, position, _| {
                    self.each_item(emitter, &[outer, &[position]].concat(), body).map(|()| Vec::new())
                })?;
                Ok(())
            })
        })
    }

    /// Whether the items with the given place in the outer dimensions are padding, wherever they are in the others.
    fn is_padding(&self, emitter: &mut Elemental<'a, 'c>, outer: &[Expr<'c>]) -> Result<bool> {
        let root = emitter.computation.root();
        if root.kind != OpKind::Pad || outer.is_empty() {
            return Ok(false);
        }
        let operand = operand_map(emitter.scope.context(), emitter.computation, root, 0)?;
        emitter.nested(|emitter| {
            let inner = outer.len()..self.mapping.dimensions.len();
            let inner: Vec<Expr<'c>> =
                inner.map(|number| emitter.scope.add_traced(self.mapping.bounds(number))).collect();
            let index = item_index(emitter, self.mapping, &[outer, &inner].concat());
            let conditions = emitter.conditions(&operand.conditions, &index, &[]);
            let fails = |condition: &Constraint<'c>| {
                emitter.scope.range(condition.expr).intersect(condition.interval).is_empty()
            };
            Ok(conditions.iter().any(fails))
        })
    }

    /// All items with the given place in the outer dimensions, where they are few.
    fn neighbours(&self, emitter: &Elemental<'_, 'c>, outer: &[Expr<'c>]) -> Option<Vec<Vec<Expr<'c>>>> {
        let inner = outer.len()..self.mapping.dimensions.len();
        let extent = |number: usize| self.mapping.bounds(number).upper - self.mapping.bounds(number).lower + 1;
        let count: i64 = inner.clone().map(extent).product();
        let is_loop = |number: usize| self.mapping.dimensions[number].kind == WorkKind::Sequential;
        if count < 2 || !are_together(count, emitter.computation) || !inner.clone().all(is_loop) {
            return None;
        }
        let mut items = vec![outer.to_vec()];
        for number in inner {
            let bounds = self.mapping.bounds(number);
            let positions = || (bounds.lower..=bounds.upper).map(|position| emitter.scope.constant(position));
            items = items.iter().flat_map(|item| positions().map(|own| [&item[..], &[own]].concat())).collect();
        }
        Some(items)
    }

    /// Whether so few vectors of a short row are written out instead of a loop, whose steps would take as long as moving them.
    fn are_written_out(&self, emitter: &Elemental<'_, 'c>, count: i64) -> bool {
        count < MOST_WRITTEN_OUT && emitter.computation.instructions.len() <= INSTRUCTIONS_WRITTEN_OUT
    }

    fn is_crossed(&self, dimension: usize) -> bool {
        self.mapping.dimensions.get(dimension).is_some_and(|own| own.kind == WorkKind::Crossed)
    }

    /// The vectors that go through a few short rows, one after another from a row on.
    fn crossing_vectors(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outer: &[Expr<'c>],
        start: Expr<'c>,
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        let [rows, lanes] = [0, 1].map(|inner| self.mapping.dimensions[outer.len() + inner].lanes);
        let size = self.mapping.bounds(outer.len() + 1).upper + 1;
        // Of rows, here.
        let skipped = i64::from(emitter.skipped_lanes) * size;
        for first in (0..i64::from(rows) * size).step_by(lanes as usize) {
            let own_skipped = (skipped - first).clamp(0, lanes.into()) as u32;
            if own_skipped == lanes {
                continue;
            }
            let rows_skipped = std::mem::replace(&mut emitter.skipped_lanes, own_skipped);
            let result = emitter.nested(|emitter| {
                let place = emitter.scope.add_lanes(lanes) + first;
                let item = [outer, &[start + place.floordiv(size), place.modulo(size)]].concat();
                body(emitter, &[item_index(emitter, self.mapping, &item)])
            });
            emitter.skipped_lanes = rows_skipped;
            result?;
        }
        Ok(())
    }

    /// Vectors of consecutive items over a piece of a dimension, or rows of squares of them.
    fn vectors(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        outer: &[Expr<'c>],
        piece: Interval,
        range: Iterations<'c>,
        body: &mut Body<'_, 'a, 'c>,
    ) -> Result<()> {
        let lanes = self.mapping.dimensions[outer.len()].lanes;
        let width = i64::from(lanes);
        let extent = piece.upper - piece.lower + 1;
        let (count, rest) = (extent / width, extent % width);
        let has_vectors_inside = self.mapping.dimensions[outer.len() + 1..].iter().any(|inner| inner.lanes > 1);
        let mut vector = |emitter: &mut Elemental<'a, 'c>, start: Expr<'c>| {
            if self.is_crossed(outer.len() + 1) {
                return self.crossing_vectors(emitter, outer, start, body);
            }
            emitter.nested(|emitter| {
                if has_vectors_inside {
                    // Rows of squares: each is emitted by itself, once the lanes are known.
                    let row = emitter.scope.add_traced(Interval::of_size(width));
                    emitter.row = row.as_variable().map(|row| (row, lanes));
                    let result = self.each_item(emitter, &[outer, &[start + row]].concat(), body);
                    emitter.row = None;
                    return result;
                }
                let lane = emitter.scope.add_lanes(lanes);
                let item = [outer, &[start + lane]].concat();
                match self.neighbours(emitter, &item) {
                    Some(items) => {
                        let indices: Vec<Vec<Expr<'c>>> =
                            items.iter().map(|item| item_index(emitter, self.mapping, item)).collect();
                        body(emitter, &indices)
                    }
                    None => self.each_item(emitter, &item, body),
                }
            })
        };
        let overlaps = rest > 0 && self.mapping.overlap;
        let last_start = piece.lower + extent - width;
        if !outer.is_empty() && range.is_none() && !has_vectors_inside && self.are_written_out(emitter, count) {
            let numbers = 0..count + i64::from(overlaps);
            let mut starts = numbers.map(|number| (number * width + piece.lower).min(last_start));
            starts.try_for_each(|start| vector(emitter, emitter.scope.constant(start)))?;
        } else if overlaps {
            emitter.loop_in(Interval::new(0, count), range, Vec::new(), &mut |emitter, number, _| {
                let builder = emitter.builder;
                let bounds = [number * width + piece.lower, emitter.scope.constant(last_start)];
                let start = emitter.scope.emit_min(builder, &bounds)?;
                // A variable of its own: lanes count from it, whatever the minimum chose.
                let start = index_binding(builder, start);
                let start = emitter.scope.add_variable(Interval::new(piece.lower, last_start), start);
                vector(emitter, start).map(|()| Vec::new())
            })?;
        } else {
            emitter.loop_in(Interval::of_size(count), range, Vec::new(), &mut |emitter, number, _| {
                vector(emitter, number * width + piece.lower).map(|()| Vec::new())
            })?;
        }
        if rest > 0 && !overlaps {
            // The last vector ends with the row; what it shares with the one before it has been stored.
            let mut last = |emitter: &mut Elemental<'a, 'c>| {
                emitter.skipped_lanes = lanes - rest as u32;
                let start = emitter.scope.constant(piece.upper + 1 - width);
                let result = vector(emitter, start);
                emitter.skipped_lanes = 0;
                result.map(|()| Vec::new())
            };
            let Some((begin, end)) = range else { return last(emitter).map(|_| ()) };
            // Nothing, unless iteration `count` is in the range.
            let (lower, upper) = ([emitter.scope.constant(count), begin], [emitter.scope.constant(count + 1), end]);
            let number = Interval::new(count, count);
            emitter.loop_between(&lower, &upper, 1, number, Vec::new(), &mut |emitter, _, _| last(emitter))?;
        }
        Ok(())
    }
}
