//! Rows that teams of GPU threads compute: softmax, norms and whatever else reduces a row and reads the result along it.
//!
//! Every thread takes the same vectors of a row in every pass over it. Rows of a few vectors a thread are emitted without
//! loops, so what one pass has computed of an element is in a register when the next one needs it: the row is read once.
//! Longer rows are read again by each pass, from the caches.

use std::collections::HashMap;

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::{RowWork, WorkDimension, WorkKind, WorkMapping};
use indexing::{Expr, IndexingMap, Interval, ceil_div};
use melior::Context;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{Body, Value};
use mlir_ext::control::AffineConditions;
use passes::fuse::Rows;

use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::kernel::item_index;
use crate::map_to_gpu::{BLOCK_SIZE, widest_lanes};
use crate::memory::ArrayRef;
use crate::operand_maps::result_shape;
use crate::reduction::{input_map, range_sizes};
use crate::scalar::combiner::{self, Combiner};
use crate::scalar::{RegisterValue, registers};
use crate::scope::Scope;
use crate::team::{Team, TeamShape, WARP, is_term};
use crate::trace::{Trace, split_merged, trace};
use crate::walk::{Choice, Visitor};

type Result<T> = std::result::Result<T, LoweringError>;

/// Vectors of a row up to which a thread keeps them in registers.
const MOST_KEPT_VECTORS: i64 = 8;

/// Instructions that the vectors of a thread may take altogether where no loop goes over them.
const MOST_UNROLLED_INSTRUCTIONS: i64 = 512;

/// Vectors that each thread of a block has at least, where several warps share a row.
const LEAST_VECTORS_OF_THREAD: i64 = 4;

/// Rows that keep a GPU busy with a warp for each.
const BUSY_ROWS: i64 = 2048;

/// The mapping of a fusion whose reductions are read along the rows that they reduce, or that writes a value for each row beside its elements.
pub(crate) fn rows_of<'c>(context: &'c Context, body: &Computation, sizes: &[i64]) -> Result<Option<WorkMapping<'c>>> {
    let Some(Rows { rank, reductions: steps, .. }) = Rows::of(context, body) else { return Ok(None) };
    let roots = body.roots();
    let has_rows = !steps.is_empty() || roots.iter().any(|&root| !is_item(body, root, sizes));
    if !has_rows || sizes.len() < rank || !roots.iter().all(|&root| is_written(body, root, sizes, rank)) {
        return Ok(None);
    }
    let (rows, along) = (sizes[..rank].iter().product::<i64>(), &sizes[rank..]);
    let length = along.iter().product::<i64>();
    let mut lengths = vec![length];
    for &step in &steps {
        lengths.push(range_sizes(&input_map(context, body, body.get(step))?.map).iter().product());
    }
    let longest = lengths.iter().copied().fold(1, i64::max);
    let mut lanes = widest_lanes(body);
    while lanes > 1 && longest < WARP * i64::from(lanes) {
        lanes /= 2;
    }
    let divides = |&length: &i64| length == 1 || length % i64::from(lanes) == 0;
    if lanes > 1 && !(lengths.iter().all(divides) && reads_vectors(context, body, (sizes, rank), &steps, lanes)?) {
        lanes = 1;
    }
    let vectors = ceil_div(longest, lanes.into());
    let wanted = (ceil_div(vectors, LEAST_VECTORS_OF_THREAD) as u64).next_power_of_two() as i64;
    let size = match rows >= BUSY_ROWS && vectors <= WARP * MOST_KEPT_VECTORS {
        true => WARP,
        false => wanted.clamp(WARP, BLOCK_SIZE),
    };
    let count = if size == WARP && rows >= BUSY_ROWS { BLOCK_SIZE / WARP } else { 1 };
    let dimension = |kind, tile, lanes| WorkDimension { kind, tile, lanes, ..WorkDimension::sequential() };
    let index = split_merged(Expr::dim(context, 0), &sizes[..rank]);
    let index = index.into_iter().chain(split_merged(Expr::dim(context, 2), along)).collect();
    Ok(Some(WorkMapping {
        map: IndexingMap::from_sizes(context, &[rows, size, length], &[], index),
        dimensions: vec![
            dimension(WorkKind::Threads, count, 1),
            dimension(WorkKind::Team, 1, 1),
            dimension(WorkKind::Sequential, 1, if length > 1 { lanes } else { 1 }),
        ],
        inner_lanes: lanes,
        overlap: false,
        rows: Some(RowWork { dimensions: 1, rank, block: 1, steps }),
    }))
}

/// Whether a result has an element for each of a row, or one for the row.
fn is_written(body: &Computation, root: InstructionId, sizes: &[i64], rank: usize) -> bool {
    let Some(shape) = body.get(root).shape.as_array() else { return false };
    shape.dimensions == sizes || is_of_row(&shape.dimensions, sizes, rank)
}

/// Whether an array has one element for each row.
fn is_of_row(dimensions: &[i64], sizes: &[i64], rank: usize) -> bool {
    dimensions.get(..rank) == sizes.get(..rank) && dimensions[rank..].iter().all(|&size| size == 1)
}

/// Whether neighbours along a row read neighbours, or the same, so that they can be vectors of so many.
fn reads_vectors<'c>(
    context: &'c Context,
    body: &Computation,
    (sizes, rank): (&[i64], usize),
    steps: &[InstructionId],
    lanes: u32,
) -> Result<bool> {
    let mut scope = Scope::new(context);
    let lane = scope.add_traced(Interval::of_size(lanes.into()));
    let Some(lane_variable) = lane.as_variable() else { return Ok(false) };
    let row: Vec<Expr<'c>> = sizes[..rank].iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let along = |scope: &mut Scope<'c>, sizes: &[i64]| -> Vec<Expr<'c>> {
        let vectors = sizes.iter().product::<i64>() / i64::from(lanes);
        let vector = scope.add_traced(Interval::of_size(vectors.max(1)));
        let position = vector * i64::from(lanes) + lane;
        split_merged(position, sizes).into_iter().map(|expr| scope.simplify(expr)).collect()
    };
    let are_vectors = |scope: &Scope<'c>, found: &Trace<'c>| {
        let accesses = found.accesses_along(scope, lane_variable);
        let is_tested = found.conditions.iter().any(|condition| scope.depends(condition.expr, lane_variable));
        let is_looked_up = found.looks_up_by(scope, lane_variable);
        accesses.near + accesses.other == 0 && !is_tested && !is_looked_up
    };
    let items: Vec<InstructionId> = body.roots().into_iter().filter(|&root| is_item(body, root, sizes)).collect();
    if sizes[rank..].iter().product::<i64>() > 1 {
        let inner = along(&mut scope, &sizes[rank..]);
        let found = trace(body, &items, &[&row[..], &inner].concat(), &mut scope)?;
        if !are_vectors(&scope, &found) {
            return Ok(false);
        }
    }
    for &step in steps {
        let reduce = body.get(step);
        let map = input_map(context, body, reduce)?.map;
        let ranges = along(&mut scope, &range_sizes(&map));
        let mut index = row.clone();
        index.resize(result_shape(reduce)?.rank(), scope.constant(0));
        let results = map.results().iter().map(|&result| crate::walk::substitute(result, &index, &ranges, &[]));
        let operand_index: Vec<Expr<'c>> = results.map(|expr| scope.simplify(expr)).collect();
        let found = trace(body, &reduce.operands[..1], &operand_index, &mut scope)?;
        if !are_vectors(&scope, &found) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a result has the elements of the rows.
fn is_item(body: &Computation, root: InstructionId, sizes: &[i64]) -> bool {
    body.get(root).shape.as_array().is_some_and(|shape| shape.dimensions == sizes)
}

/// A row that a team computes.
struct TeamRow<'t, 'b, 'c> {
    mapping: &'t WorkMapping<'c>,
    team: Team<'b, 'c>,
    /// The number of the row.
    row: Expr<'c>,
    /// The leading indices of all of its elements.
    index: Vec<Expr<'c>>,
    lanes: i64,
    /// The number of the lane; zero where there are none.
    lane: Expr<'c>,
    /// Numbers of vectors that are those of the last where there are no more.
    kept_inside: HashMap<(i64, i64), Expr<'c>>,
}

/// Emits a kernel whose mapping has rows and teams.
pub(crate) fn emit<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    (mapping, work): (&WorkMapping<'c>, &RowWork),
    (shape, function): (TeamShape, &'a Body<'c>),
    outputs: &[ArrayRef<'c>],
) -> Result<()> {
    let rows = mapping.bounds(0).upper + 1;
    if mapping.dimensions.len() != 3 || work.dimensions != 1 || !shape.is_near || shape.size > WARP && shape.count > 1 {
        return Err(LoweringError::bug("rows of teams that are no blocks or warps"));
    }
    let (team, row) = Team::of_thread(emitter, (shape, function), rows)?;
    let mut team = Some(team);
    let mut emit_row = |emitter: &mut Elemental<'a, 'c>, row: Expr<'c>| {
        let team = team.take().ok_or_else(|| LoweringError::bug("a team has one row"))?;
        emit_row(emitter, (mapping, work), team, row, outputs)
    };
    if rows % shape.count == 0 {
        return emit_row(emitter, row);
    }
    // All threads of a team have a row, or none.
    let values = emitter.scope.affine_bounds(&[-row + (rows - 1)])?;
    let has_row = AffineConditions { values, equalities: vec![false] };
    emitter.builder.affine_if_then(&has_row, |_| {
        emitter.nested(|emitter| {
            let row = emitter.scope.narrowed(row, Interval::of_size(rows));
            emit_row(emitter, row)
        })
    })
}

fn emit_row<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    (mapping, work): (&WorkMapping<'c>, &RowWork),
    team: Team<'a, 'c>,
    row: Expr<'c>,
    outputs: &[ArrayRef<'c>],
) -> Result<()> {
    let body = emitter.computation;
    let place = [row, team.part, emitter.scope.constant(0)];
    let mut index = item_index(emitter, mapping, &place);
    index.truncate(work.rank);
    let sizes = passes::fuse::written(body).1;
    let (items, of_rows): (Vec<_>, Vec<_>) =
        body.roots().into_iter().zip(outputs).partition(|(_, output)| is_of_items(output, sizes, work.rank));
    let lanes = mapping.inner_lanes;
    let team = emitter.nested(|emitter| {
        let lane = if lanes > 1 { emitter.scope.add_lanes(lanes) } else { emitter.scope.constant(0) };
        let (index, kept_inside) = (index.clone(), HashMap::new());
        let mut own = TeamRow { mapping, team, row, index, lanes: lanes.into(), lane, kept_inside };
        for &step in &work.steps {
            let combined = own.reduce(emitter, step)?;
            emitter.combined.insert(step, combined);
        }
        own.store(emitter, &items)?;
        Ok::<_, LoweringError>(own.team)
    })?;
    if of_rows.is_empty() {
        return Ok(());
    }
    emitter.builder.affine_if_then(&team.stores, |_| {
        emitter.nested(|emitter| {
            for (root, output) in of_rows {
                let mut index = index.clone();
                index.resize(output.dimensions.len(), emitter.scope.constant(0));
                let value = emitter.evaluate(root, &index)?;
                emitter.store(output, &index, &value)?;
            }
            Ok(())
        })
    })
}

/// Whether a result has several elements in a row.
fn is_of_items(output: &ArrayRef<'_>, sizes: &[i64], rank: usize) -> bool {
    output.dimensions == sizes && !is_of_row(&output.dimensions, sizes, rank)
}

impl<'a, 'c> TeamRow<'_, 'a, 'c> {
    /// The first rounds in which each thread of the team has one of so many vectors, and whether some have another one.
    fn rounds(&self, vectors: i64) -> (i64, bool) {
        (vectors / self.team.shape.size, vectors % self.team.shape.size > 0)
    }

    /// Whether a thread keeps what it computes of its vectors in registers.
    fn is_kept(&self, emitter: &Elemental<'a, 'c>, vectors: i64) -> bool {
        let own = ceil_div(vectors, self.team.shape.size);
        let instructions = own * emitter.computation.instructions.len() as i64;
        own <= MOST_KEPT_VECTORS && instructions <= MOST_UNROLLED_INSTRUCTIONS
    }

    /// The number of the vector that the thread takes in a round.
    fn vector(&self, round: i64) -> Expr<'c> {
        self.team.part + round * self.team.shape.size
    }

    /// As [`Self::vector`], kept below so many.
    fn vector_inside(&mut self, emitter: &mut Elemental<'a, 'c>, round: i64, vectors: i64) -> Result<Expr<'c>> {
        if round < self.rounds(vectors).0 {
            return Ok(self.vector(round));
        }
        if let Some(&known) = self.kept_inside.get(&(round, vectors)) {
            return Ok(known);
        }
        let last = emitter.scope.constant(vectors - 1);
        let kept = emitter.scope.emit_min(emitter.builder, &[self.vector(round), last])?;
        let kept = emitter.scope.add_variable(Interval::of_size(vectors), index_binding(emitter.builder, kept));
        self.kept_inside.insert((round, vectors), kept);
        Ok(kept)
    }

    /// A reduction's value for the row.
    fn reduce(&mut self, emitter: &mut Elemental<'a, 'c>, step: InstructionId) -> Result<RegisterValue<'c>> {
        let reduce = emitter.computation.get(step);
        let mut index = self.index.clone();
        index.resize(result_shape(reduce)?.rank(), emitter.scope.constant(0));
        let sizes = range_sizes(&input_map(emitter.scope.context(), emitter.computation, reduce)?.map);
        let extent = sizes.iter().product::<i64>();
        let Some(combiner) = combiner::recognise(&reduce.computations[0]).filter(|_| extent > 0) else {
            // Each thread goes through the whole row, in order.
            let values = emitter.alone(|emitter| emitter.reduce(reduce, &index))?;
            let value = values.first().ok_or_else(|| LoweringError::bug("a reduction without a result"))?;
            return Ok(registers::extract(emitter.builder, value, 0));
        };
        let vectors = ceil_div(extent, self.lanes);
        let own = match self.is_kept(emitter, vectors) {
            true => self.reduce_kept(emitter, (reduce, &index), (&sizes, vectors), &combiner)?,
            false => self.reduce_in_rounds(emitter, (reduce, &index), vectors, &combiner)?,
        };
        let own = combine_lanes(emitter, &combiner, &own);
        let total = emitter.combine_team(&self.team, &combiner, own)?;
        let initial = emitter.initial_values(reduce, 1)?[0];
        let total = combiner.combine(emitter.builder, &total, &initial);
        Ok(combiner.finish(emitter.builder, &total))
    }

    /// The thread's part of a reduction, of vectors that are kept.
    fn reduce_kept(
        &mut self,
        emitter: &mut Elemental<'a, 'c>,
        (reduce, index): (&'a Instruction, &[Expr<'c>]),
        (sizes, vectors): (&[i64], i64),
        combiner: &Combiner,
    ) -> Result<RegisterValue<'c>> {
        let builder = emitter.builder;
        let map = input_map(emitter.scope.context(), emitter.computation, reduce)?.map;
        let identity = combiner.identity(builder, emitter.scope.lanes());
        let (rounds, has_rest) = self.rounds(vectors);
        let mut own = identity;
        for round in 0..rounds + i64::from(has_rest) {
            let vector = self.vector_inside(emitter, round, vectors)?;
            let ranges = split_merged(vector * self.lanes + self.lane, sizes);
            let operand_index = emitter.apply_with_ranges(map.results(), index, &ranges, &[])?;
            let element = emitter.evaluate(reduce.operands[0], &operand_index)?;
            let element = combiner.widen(builder, &emitter.in_lanes(&element));
            let combined = combiner.combine(builder, &own, &element);
            own = if round < rounds {
                combined
            } else {
                let number = emitter.scope.emit(builder, self.vector(round))?;
                let is_one = builder.cmpi(CmpiPredicate::Slt, number, builder.constant_index(vectors));
                let pairs = combined.values().into_iter().zip(own.values());
                own.with_values(&pairs.map(|(with, without)| builder.select(is_one, with, without)).collect::<Vec<_>>())
            };
        }
        Ok(own)
    }

    /// As [`Self::reduce_kept`], of vectors that are read again.
    fn reduce_in_rounds(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        (reduce, index): (&'a Instruction, &[Expr<'c>]),
        vectors: i64,
        combiner: &Combiner,
    ) -> Result<RegisterValue<'c>> {
        let (rounds, has_rest) = self.rounds(vectors);
        let step = self.team.shape.size * self.lanes;
        let first = |round: i64| self.vector(round) * self.lanes + self.lane;
        let mut own = combiner.identity(emitter.builder, emitter.scope.lanes());
        if rounds > 0 {
            own = emitter.reduce_along(reduce, index, (rounds, (step, first(0))), combiner, own)?;
        }
        if !has_rest {
            return Ok(own);
        }
        let condition = [is_term(self.vector(rounds), vectors)];
        let choice = Choice { conditions: &condition, types: &[own.element_type], index, sizes: &[] };
        let mut with_rest = |emitter: &mut Elemental<'a, 'c>, index: &[Expr<'c>]| {
            Ok(vec![emitter.reduce_along(reduce, index, (1, (step, first(rounds))), combiner, own)?])
        };
        Ok(emitter.choose(&choice, &mut with_rest, &mut |_| Ok(vec![own]))?[0])
    }

    /// Computes the elements of results along the row, and stores them.
    fn store(&mut self, emitter: &mut Elemental<'a, 'c>, items: &[(InstructionId, &ArrayRef<'c>)]) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let vectors = (self.mapping.bounds(2).upper + 1) / self.lanes;
        let (rounds, has_rest) = self.rounds(vectors);
        let is_kept = self.is_kept(emitter, vectors);
        if is_kept {
            (0..rounds).try_for_each(|round| self.store_vector(emitter, items, self.vector(round)))?;
        } else if rounds > 0 {
            emitter.loop_in(Interval::of_size(rounds), None, Vec::new(), &mut |emitter, round, _| {
                let vector = round * self.team.shape.size + self.team.part;
                emitter.nested(|emitter| self.store_vector(emitter, items, vector))?;
                Ok(Vec::<Value<'c>>::new())
            })?;
        }
        if !has_rest {
            return Ok(());
        }
        let kept = self.vector_inside(emitter, rounds, vectors)?;
        let values = emitter.scope.affine_bounds(&[-self.vector(rounds) + (vectors - 1)])?;
        let has_vector = AffineConditions { values, equalities: vec![false] };
        emitter
            .builder
            .affine_if_then(&has_vector, |_| emitter.nested(|emitter| self.store_vector(emitter, items, kept)))
    }

    /// Stores the results' elements of a vector, once all are computed: a result may lie over what is read.
    fn store_vector(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        items: &[(InstructionId, &ArrayRef<'c>)],
        vector: Expr<'c>,
    ) -> Result<()> {
        let place = [self.row, self.team.part, vector * self.lanes + self.lane];
        let index = item_index(emitter, self.mapping, &place);
        let values = items.iter().map(|&(root, _)| emitter.evaluate(root, &index)).collect::<Result<Vec<_>>>()?;
        items.iter().zip(&values).try_for_each(|((_, output), value)| emitter.store(output, &index, value))
    }
}

/// The lanes of a vector of accumulators, combined in pairs.
fn combine_lanes<'c>(
    emitter: &Elemental<'_, 'c>,
    combiner: &Combiner,
    vector: &RegisterValue<'c>,
) -> RegisterValue<'c> {
    let Some(lanes) = vector.lanes else { return *vector };
    let mut values: Vec<RegisterValue<'c>> =
        (0..lanes).map(|lane| registers::extract(emitter.builder, vector, lane)).collect();
    while values.len() > 1 {
        let right = values.split_off(values.len().div_ceil(2));
        for (left, right) in values.iter_mut().zip(&right) {
            *left = combiner.combine(emitter.builder, left, right);
        }
    }
    values.pop().unwrap_or(*vector)
}
