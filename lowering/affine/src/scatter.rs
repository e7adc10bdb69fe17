//! scatter: for each index vector, a window of the operand combined with a window of the updates.
//!
//! Windows that do not lie inside the operand are left out, as a whole. Windows may meet in the same element, so
//! the loops over windows run in order, but for dimensions of the updates along which they cannot meet: these may be divided
//! among threads; and so may all, where the program says that they do not meet, or that those which meet are neighbours: the thread of
//! the first one takes these. The elements of a window are distinct: where its rows are rows of the operand, they are taken as vectors.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::ops::scatter::ScatterAttributes;
use indexing::{Expr, IndexingMap, Interval, Var, Variable};
use melior::Context;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};
use passes::split_scatters::atomic_operation;

use crate::elemental::{Elemental, index_binding};
use crate::error::LoweringError;
use crate::gpu::over_threads;
use crate::mapping::scatter_inputs;
use crate::memory::{ArrayRef, Inputs};
use crate::operand_maps::{instruction_maps, no_map, operand_shape};
use crate::reduction::unpack;
use crate::scalar::RegisterValue;
use crate::trace::split_merged;
use crate::walk::{Visitor, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Single elements that one turn of a loop scatters. A processor learns for each load of the code whether it has to wait for a store
/// before it: with one for all, a million sums at 1,000 places take 0.64 ms, with four 0.55.
pub(crate) const ELEMENTS_IN_A_TURN: i64 = 4;

/// Instructions of a computation that is written as often.
const INSTRUCTIONS_OF_SMALL: usize = 8;

/// Emits the scatter that a computation ends with, whose outputs already hold what it updates.
pub fn emit_scatter<'c>(
    builder: &OpBuilder<'c>,
    computation: &Computation,
    mapping: &WorkMapping<'c>,
    inputs: Inputs<'_, 'c>,
    outputs: &[ArrayRef<'c>],
) -> Result<()> {
    let instruction = computation.root();
    let count = scatter_inputs(instruction);
    let map = instruction_maps(builder.context(), computation, instruction)
        .result_map(count + 1)
        .ok_or_else(|| no_map(instruction))?;
    if map.is_known_empty() || operand_shape(computation, instruction, 0)?.dimensions.contains(&0) {
        return Ok(());
    }
    let updates = operand_shape(computation, instruction, count + 1)?.dimensions.clone();
    let ScatterAttributes { update_window_dims, inserted_window_dims, input_batching_dims, .. } =
        instruction.attributes()?;
    let is_window = |d: &usize| update_window_dims.contains(&(*d as i64));
    let is_of_thread = |d: &usize| !matches!(mapping.map.results()[*d].as_variable(), Some(Var::Symbol(_)));
    let (of_thread, in_loops): (Vec<usize>, Vec<usize>) = (0..updates.len()).partition(is_of_thread);
    let (window_dims, scatter_dims): (Vec<usize>, Vec<usize>) = in_loops.into_iter().partition(is_window);
    let last = operand_shape(computation, instruction, 0)?.rank() as i64 - 1;
    let has_rows = window_dims.last().is_some_and(|&dimension| dimension + 1 == updates.len())
        && !inserted_window_dims.contains(&last)
        && !input_batching_dims.contains(&last);
    // Rows shorter than a vector take a shorter one.
    let row = match updates.last() {
        Some(&row) if has_rows => row,
        _ => 1,
    };
    let mut lanes = mapping.inner_lanes.max(1);
    while i64::from(lanes) > row {
        lanes /= 2;
    }
    let scatter = Scatter {
        instruction,
        map,
        updates,
        scatter_dims,
        window_dims,
        count,
        outputs,
        lanes,
        vector_lanes: mapping.inner_lanes,
    };
    let mut emitter = Elemental::new(builder, computation, inputs, 1);
    let mut index = vec![emitter.scope.constant(0); scatter.updates.len()];
    let Some(threads) = mapping.dimensions.first() else {
        emitter.read_starts()?;
        return scatter.over_vectors(&mut emitter, 0, &mut index);
    };
    let order = scatter_order(builder.context(), computation, instruction)?;
    over_threads(&mut emitter, mapping.bounds(0), threads.tile, &mut |emitter, position| {
        for &dimension in &of_thread {
            index[dimension] = substitute(mapping.map.results()[dimension], &[position], &[], &[]);
        }
        match &order {
            ScatterOrder::Runs(dimensions) if dimensions.iter().all(|d| of_thread.contains(d)) => {
                scatter.run(emitter, dimensions, &index)
            }
            ScatterOrder::Atomic(operation) => scatter.atomic(emitter, *operation, &index),
            _ => scatter.over_vectors(emitter, 0, &mut index),
        }
    })
}

/// In which order the windows of a scatter may be taken.
pub(crate) enum ScatterOrder {
    /// One after another, but for dimensions of the updates along which they cannot meet.
    Sequential(Vec<usize>),
    /// In any: no two meet.
    Any,
    /// In any: memory combines them by one operation.
    Atomic(OpKind),
    /// Those of the same place are neighbours along these dimensions of the updates, and others do not meet.
    Runs(Vec<usize>),
}

/// The order in which the windows of a scatter may be taken.
///
/// # Errors
/// As for [`separate_dimensions`].
pub(crate) fn scatter_order(
    context: &Context,
    computation: &Computation,
    instruction: &Instruction,
) -> Result<ScatterOrder> {
    let separate = separate_dimensions(context, computation, instruction)?;
    let ScatterAttributes { update_window_dims, indices_are_sorted, unique_indices, .. } = instruction.attributes()?;
    if unique_indices {
        return Ok(ScatterOrder::Any);
    }
    if let Some(operation) = atomic_operation(instruction) {
        return Ok(ScatterOrder::Atomic(operation));
    }
    let updates = &operand_shape(computation, instruction, scatter_inputs(instruction) + 1)?.dimensions;
    let meets = |d: &usize| !separate.contains(d) && updates[*d] > 1;
    let (of_windows, of_vectors): (Vec<usize>, Vec<usize>) =
        (0..updates.len()).filter(meets).partition(|&d| update_window_dims.contains(&(d as i64)));
    // The elements of one window go to different places.
    if of_vectors.is_empty() {
        return Ok(ScatterOrder::Any);
    }
    let are_runs = indices_are_sorted && of_windows.is_empty();
    Ok(if are_runs { ScatterOrder::Runs(of_vectors) } else { ScatterOrder::Sequential(separate) })
}

/// Dimensions of a scatter's updates along which windows cannot meet: the updates at each index are for the elements of the
/// operand at that index.
///
/// # Errors
/// [`LoweringError::Bug`] for a scatter without a map.
fn separate_dimensions(context: &Context, computation: &Computation, instruction: &Instruction) -> Result<Vec<usize>> {
    let map = instruction_maps(context, computation, instruction)
        .result_map(scatter_inputs(instruction) + 1)
        .ok_or_else(|| no_map(instruction))?;
    let dims: Vec<Expr<'_>> = (0..map.dims().len()).map(|number| Expr::dim(context, number)).collect();
    // A start that fits in one place only is no variable.
    let runtime = |(number, runtime): (usize, &Variable<'_>)| match runtime.bounds.upper {
        0 => Expr::constant(context, 0),
        _ => Expr::symbol(context, number),
    };
    let runtimes: Vec<Expr<'_>> = map.runtimes().iter().enumerate().map(runtime).collect();
    let places: Vec<Expr<'_>> = map.results().iter().map(|&result| substitute(result, &dims, &[], &runtimes)).collect();
    Ok((0..dims.len()).filter(|&number| places.contains(&dims[number])).collect())
}

/// The scatter that a kernel ends with.
pub(crate) struct Scatter<'s, 'c> {
    instruction: &'s Instruction,
    /// From the updates to the operand; the run-time variables are the window's start, bounded so that it fits.
    pub(crate) map: IndexingMap<'c>,
    /// Sizes of the updates.
    pub(crate) updates: Vec<i64>,
    /// Dimensions of the updates that run over the index vectors.
    scatter_dims: Vec<usize>,
    /// Dimensions of the updates that run over a window.
    window_dims: Vec<usize>,
    /// Operands that are updated.
    pub(crate) count: usize,
    outputs: &'s [ArrayRef<'c>],
    /// Elements of a window's row that are taken at once.
    lanes: u32,
    /// Lanes of vectors of index vectors.
    pub(crate) vector_lanes: u32,
}

impl<'s, 'c> Scatter<'s, 'c> {
    /// Loops over the index vectors; `index` has the values of the loops so far.
    fn over_vectors<'a>(&self, emitter: &mut Elemental<'a, 'c>, depth: usize, index: &mut Vec<Expr<'c>>) -> Result<()> {
        let Some(&dimension) = self.scatter_dims.get(depth) else { return self.window(emitter, index) };
        let size = self.updates[dimension];
        let takes_several = depth + 1 == self.scatter_dims.len() && self.has_single_elements(emitter.builder);
        if takes_several && self.in_blocks(emitter, dimension, index)? {
            return Ok(());
        }
        let together = if takes_several { ELEMENTS_IN_A_TURN } else { 1 };
        let turns = size / together;
        emitter.loop_in(Interval::of_size(turns), None, Vec::new(), &mut |emitter, turn, _| {
            for number in 0..together {
                index[dimension] = turn * together + number;
                emitter.nested(|emitter| self.over_vectors(emitter, depth + 1, index))?;
            }
            Ok(Vec::new())
        })?;
        (turns * together..size).try_for_each(|position| {
            index[dimension] = emitter.scope.constant(position);
            emitter.nested(|emitter| self.over_vectors(emitter, depth + 1, index))
        })
    }

    /// Whether a window is one element, which little is done with.
    fn has_single_elements(&self, builder: &OpBuilder<'c>) -> bool {
        let [combination] = &self.instruction.computations[..] else { return false };
        !builder.machine().is_gpu
            && self.window_dims.iter().all(|&dimension| self.updates[dimension] == 1)
            && combination.instructions.len() <= INSTRUCTIONS_OF_SMALL
    }

    /// What is combined with the elements of the operand of a number.
    pub(crate) fn update(&self, number: usize) -> InstructionId {
        self.instruction.operands[self.count + 1 + number]
    }

    /// Where windows begin.
    pub(crate) fn indices(&self) -> InstructionId {
        self.instruction.operands[self.count]
    }

    /// One element of the updates, which memory combines with what is there.
    fn atomic(&self, emitter: &mut Elemental<'_, 'c>, operation: OpKind, index: &[Expr<'c>]) -> Result<()> {
        self.inside(emitter, index, &mut |emitter, starts| {
            let target = emitter.apply(self.map.results(), index, starts)?;
            let update = emitter.evaluate(self.update(0), index)?;
            self.outputs.iter().try_for_each(|output| emitter.combine_atomically(operation, output, &target, &update))
        })
    }

    /// The windows of one place, of which the thread has the first, along some dimensions of the updates. Of other threads,
    /// nothing is left to do.
    fn run<'a>(&self, emitter: &mut Elemental<'a, 'c>, dimensions: &[usize], index: &[Expr<'c>]) -> Result<()> {
        let builder = emitter.builder;
        let sizes: Vec<i64> = dimensions.iter().map(|&d| self.updates[d]).collect();
        let bounds = Interval::of_size(sizes.iter().product());
        let own =
            dimensions.iter().zip(&sizes).fold(emitter.scope.constant(0), |own, (&d, &size)| own * size + index[d]);
        let [zero, last] = [0, bounds.upper].map(|place| emitter.scope.constant(place));
        let place = emitter.scope.emit(builder, own)?;
        let index_at = |emitter: &mut Elemental<'a, 'c>, place: Value<'c>| {
            let place = emitter.scope.add_variable(bounds, index_binding(builder, place));
            let mut index = index.to_vec();
            for (&dimension, expr) in dimensions.iter().zip(split_merged(place, &sizes)) {
                index[dimension] = expr;
            }
            index
        };
        let vector = self.vector(emitter, index)?;
        let is_same = |emitter: &mut Elemental<'a, 'c>, place: Value<'c>| {
            let index = index_at(emitter, place);
            let other = self.vector(emitter, &index)?;
            let pairs = vector.iter().zip(&other);
            let same = pairs.map(|(own, other)| builder.cmpi(CmpiPredicate::Eq, own.value, other.value));
            Ok::<_, LoweringError>(same.reduce(|all, own| builder.andi(all, own)))
        };
        let before = emitter.scope.emit_max(builder, &[own - 1, zero])?;
        let is_inner = builder.cmpi(CmpiPredicate::Ne, place, builder.constant_index(0));
        let is_inner = is_same(emitter, before)?.map_or(is_inner, |same| builder.andi(same, is_inner));
        let truth = builder.constant_integer(builder.integer_type(1), 1);
        let is_first = builder.xori(is_inner, truth);
        builder.if_then(is_first, |_| {
            emitter.nested(|emitter| {
                self.inside(emitter, index, &mut |emitter, starts| {
                    let target = emitter.apply(self.map.results(), index, starts)?;
                    let loaded = self.outputs.iter().map(|output| emitter.load_element(output, &target));
                    let loaded: Vec<RegisterValue<'c>> = loaded.collect::<Result<_>>()?;
                    let state: Vec<Value<'c>> = loaded.iter().flat_map(RegisterValue::values).collect();
                    let state = [&[place, truth], &state[..]].concat();
                    let combined = builder.while_carrying(
                        &state,
                        |_, state| Ok(state[1]),
                        |_, state| {
                            emitter.nested(|emitter| {
                                let index = index_at(emitter, state[0]);
                                let values = self.combine(emitter, &index, &unpack(&loaded, &state[2..]))?;
                                let own = emitter.scope.add_variable(bounds, index_binding(builder, state[0]));
                                let next = emitter.scope.emit(builder, own + 1)?;
                                let kept = emitter.scope.emit_min(builder, &[own + 1, last])?;
                                let same = is_same(emitter, kept)?;
                                let is_inside = builder.cmpi(CmpiPredicate::Eq, next, kept);
                                let goes_on = same.map_or(is_inside, |same| builder.andi(same, is_inside));
                                let values = values.iter().flat_map(RegisterValue::values);
                                Ok::<_, LoweringError>([next, goes_on].into_iter().chain(values).collect())
                            })
                        },
                    )?;
                    let values = unpack(&loaded, &combined[2..]);
                    values
                        .iter()
                        .zip(self.outputs)
                        .try_for_each(|(value, output)| emitter.store(output, &target, value))
                })
            })
        })
    }

    /// The index vector of an element of the updates.
    fn vector(&self, emitter: &mut Elemental<'_, 'c>, index: &[Expr<'c>]) -> Result<Vec<RegisterValue<'c>>> {
        let components = self.map.runtimes().iter().map(|runtime| {
            let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
            let element = emitter.apply(&source.index, index, &[])?;
            emitter.evaluate(self.indices(), &element)
        });
        components.collect()
    }

    /// One window: its elements, if it lies inside.
    pub(crate) fn window<'a>(&self, emitter: &mut Elemental<'a, 'c>, index: &mut Vec<Expr<'c>>) -> Result<()> {
        let of_vector = index.clone();
        self.inside(emitter, &of_vector, &mut |emitter, starts| self.over_window(emitter, 0, index, starts))
    }

    /// What is done where the window of an element of the updates lies inside, given its start.
    fn inside<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        index: &[Expr<'c>],
        body: &mut dyn FnMut(&mut Elemental<'a, 'c>, &[Expr<'c>]) -> Result<()>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let mut starts: Vec<Expr<'c>> = Vec::with_capacity(self.map.runtimes().len());
        let mut inside: Option<Value<'c>> = None;
        let vector = self.vector(emitter, index)?;
        for (runtime, component) in self.map.runtimes().iter().zip(&vector) {
            let start = emitter.index_variable(component, runtime.bounds);
            // One unsigned comparison: negative starts are huge.
            let bound = builder.constant_index(runtime.bounds.upper);
            let fits = builder.cmpi(CmpiPredicate::Ule, emitter.scope.emit(builder, start)?, bound);
            inside = Some(inside.map_or(fits, |inside| builder.andi(inside, fits)));
            starts.push(start);
        }
        let Some(inside) = inside else { return body(emitter, &starts) };
        builder.if_then(inside, |_| emitter.nested(|emitter| body(emitter, &starts)))
    }

    fn over_window<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        depth: usize,
        index: &mut Vec<Expr<'c>>,
        starts: &[Expr<'c>],
    ) -> Result<()> {
        if let Some(&dimension) = self.window_dims.get(depth) {
            let inner = self.window_dims[depth + 1..].iter();
            let inside = inner.fold(1, |product: i64, &inner| product.saturating_mul(self.updates[inner]));
            let mut first = 0;
            if depth + 1 == self.window_dims.len() && self.lanes > 1 {
                let width = i64::from(self.lanes);
                let vectors = self.updates[dimension] / width;
                emitter.loop_over(Interval::new(0, vectors - 1), 1, Vec::new(), &mut |emitter, number, _| {
                    emitter.nested(|emitter| {
                        let lane = emitter.scope.add_lanes(self.lanes);
                        index[dimension] = number * width + lane;
                        self.element(emitter, index, starts).map(|()| Vec::new())
                    })
                })?;
                first = vectors * width;
            }
            if first < self.updates[dimension] {
                let interval = Interval::new(first, self.updates[dimension] - 1);
                emitter.loop_over(interval, inside, Vec::new(), &mut |emitter, variable, _| {
                    index[dimension] = variable;
                    self.over_window(emitter, depth + 1, index, starts).map(|()| Vec::new())
                })?;
            }
            return Ok(());
        }
        self.element(emitter, index, starts)
    }

    /// One element of a window, or a vector of them.
    fn element<'a>(&self, emitter: &mut Elemental<'a, 'c>, index: &[Expr<'c>], starts: &[Expr<'c>]) -> Result<()> {
        let place = emitter.apply(self.map.results(), index, starts)?;
        let loaded: Vec<RegisterValue<'c>> =
            self.outputs.iter().map(|output| emitter.load_element(output, &place)).collect::<Result<_>>()?;
        let combined = self.combine(emitter, index, &loaded)?;
        combined.iter().zip(self.outputs).try_for_each(|(value, output)| emitter.store(output, &place, value))
    }

    /// What elements are, combined with those of the updates at an index.
    fn combine<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        index: &[Expr<'c>],
        before: &[RegisterValue<'c>],
    ) -> Result<Vec<RegisterValue<'c>>> {
        let mut arguments = before.to_vec();
        for number in 0..self.count {
            arguments.push(emitter.evaluate(self.update(number), index)?);
        }
        let arguments: Vec<RegisterValue<'c>> = arguments.iter().map(|value| emitter.in_lanes(value)).collect();
        emitter.scalar_computation(&self.instruction.computations[0], &arguments)
    }
}
