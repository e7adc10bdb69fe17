//! scatter: for each index vector, a window of the operand combined with a window of the updates.
//!
//! Windows that do not lie inside the operand are left out, as a whole. Windows may meet in the same element, so
//! the loops over windows run in order, but for dimensions of the updates along which they cannot meet: these may be divided
//! among threads. The elements of a window are distinct: where its rows are rows of the operand, they are taken as vectors.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::mapping::WorkMapping;
use hlo::ops::scatter::ScatterAttributes;
use indexing::{Expr, IndexingMap, Interval, Var, Variable};
use melior::Context;
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::gpu::over_threads;
use crate::mapping::scatter_inputs;
use crate::memory::{ArrayRef, Inputs};
use crate::operand_maps::{instruction_maps, no_map, operand_shape};
use crate::scalar::RegisterValue;
use crate::walk::{Visitor, substitute};

type Result<T> = std::result::Result<T, LoweringError>;

/// Emits a scatter whose outputs already hold the operands; its operands are the computation's parameters in order.
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
    let scatter = Scatter { instruction, map, updates, scatter_dims, window_dims, count, outputs, lanes };
    let mut emitter = Elemental::new(builder, computation, inputs, 1);
    let mut index = vec![emitter.scope.constant(0); scatter.updates.len()];
    let Some(threads) = mapping.dimensions.first() else { return scatter.over_vectors(&mut emitter, 0, &mut index) };
    over_threads(&mut emitter, mapping.bounds(0), threads.tile, &mut |emitter, position| {
        for &dimension in &of_thread {
            index[dimension] = substitute(mapping.map.results()[dimension], &[position], &[], &[]);
        }
        scatter.over_vectors(emitter, 0, &mut index)
    })
}

/// Dimensions of a scatter's updates along which windows cannot meet: the updates at each index are for the elements of the
/// operand at that index.
///
/// # Errors
/// [`LoweringError::Bug`] for a scatter without a map.
pub(crate) fn separate_dimensions(
    context: &Context,
    computation: &Computation,
    instruction: &Instruction,
) -> Result<Vec<usize>> {
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

struct Scatter<'s, 'c> {
    instruction: &'s Instruction,
    /// From the updates to the operand; the run-time variables are the window's start, bounded so that it fits.
    map: IndexingMap<'c>,
    /// Sizes of the updates.
    updates: Vec<i64>,
    /// Dimensions of the updates that run over the index vectors.
    scatter_dims: Vec<usize>,
    /// Dimensions of the updates that run over a window.
    window_dims: Vec<usize>,
    count: usize,
    outputs: &'s [ArrayRef<'c>],
    /// Elements of a window's row that are taken at once.
    lanes: u32,
}

impl<'s, 'c> Scatter<'s, 'c> {
    /// Loops over the index vectors; `index` has the values of the loops so far.
    fn over_vectors<'a>(&self, emitter: &mut Elemental<'a, 'c>, depth: usize, index: &mut Vec<Expr<'c>>) -> Result<()> {
        let Some(&dimension) = self.scatter_dims.get(depth) else { return self.window(emitter, index) };
        let interval = Interval::new(0, self.updates[dimension] - 1);
        emitter.loop_in(interval, None, Vec::new(), &mut |emitter, variable, _| {
            index[dimension] = variable;
            self.over_vectors(emitter, depth + 1, index).map(|()| Vec::new())
        })?;
        Ok(())
    }

    /// One window: its start, the test that it lies inside, and its elements.
    fn window<'a>(&self, emitter: &mut Elemental<'a, 'c>, index: &mut Vec<Expr<'c>>) -> Result<()> {
        let builder = emitter.builder;
        let mut starts: Vec<Expr<'c>> = Vec::with_capacity(self.map.runtimes().len());
        let mut inside: Option<Value<'c>> = None;
        for runtime in self.map.runtimes() {
            let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
            let element = emitter.apply(&source.index, index, &[])?;
            let element = emitter.evaluate(InstructionId(self.count as u32), &element)?;
            let start = emitter.index_variable(&element, runtime.bounds);
            // One unsigned comparison: negative starts are huge.
            let bound = builder.constant_index(runtime.bounds.upper);
            let fits = builder.cmpi(CmpiPredicate::Ule, emitter.scope.emit(builder, start)?, bound);
            inside = Some(inside.map_or(fits, |inside| builder.andi(inside, fits)));
            starts.push(start);
        }
        let Some(inside) = inside else { return self.over_window(emitter, 0, index, &starts) };
        builder.if_then(inside, |_| emitter.nested(|emitter| self.over_window(emitter, 0, index, &starts)))
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
        let mut arguments: Vec<RegisterValue<'c>> =
            self.outputs.iter().map(|output| emitter.load_element(output, &place)).collect::<Result<_>>()?;
        for number in 0..self.count {
            let update = InstructionId((self.count + 1 + number) as u32);
            arguments.push(emitter.evaluate(update, index)?);
        }
        let arguments: Vec<RegisterValue<'c>> = arguments.iter().map(|value| emitter.in_lanes(value)).collect();
        let combined = emitter.scalar_computation(&self.instruction.computations[0], &arguments)?;
        combined.iter().zip(self.outputs).try_for_each(|(value, output)| emitter.store(output, &place, value))
    }
}
