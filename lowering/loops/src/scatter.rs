//! scatter: for each index vector, a window of the operand combined with a window of the updates.
//!
//! Windows that do not lie inside the operand are left out, as a whole. Windows may meet in the same element, so
//! the loops run in order.

use hlo::graph::{Computation, Instruction, InstructionId};
use indexing::{Expr, Interval};
use mlir_ext::arith::CmpiPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::operand_maps::operand_shape;
use crate::scalar::Lanes;

type Result<T> = std::result::Result<T, LoweringError>;

/// Where each dimension of the operand gets its index from.
#[derive(Clone, Copy, Debug)]
struct OperandDimension {
    /// Dimension of the updates that runs over the window.
    window: Option<usize>,
    /// Component of the index vector that gives the start.
    component: Option<usize>,
    /// Dimension of the updates that runs over a batch.
    batch: Option<usize>,
    size: i64,
    window_size: i64,
}

/// Emits a scatter whose outputs already hold the operands; its operands are the computation's parameters in order.
pub fn emit_scatter<'c>(
    builder: &OpBuilder<'c>,
    computation: &Computation,
    instruction: &Instruction,
    inputs: &[ArrayRef<'c>],
    outputs: &[ArrayRef<'c>],
) -> Result<()> {
    let count = instruction.operands.len().saturating_sub(1) / 2;
    let operand = operand_shape(computation, instruction, 0)?.dimensions.clone();
    let indices = operand_shape(computation, instruction, count)?.dimensions.clone();
    let updates = operand_shape(computation, instruction, count + 1)?.dimensions.clone();
    if updates.contains(&0) || operand.contains(&0) {
        return Ok(());
    }
    let mut emitter = Elemental::new(builder, computation, inputs, 1);
    let attributes = &instruction.attributes;
    let window_dims = attributes.ints("update_window_dims");
    let scatter_dims: Vec<usize> = (0..updates.len()).filter(|&d| !window_dims.contains(&(d as i64))).collect();
    let vector_dim = attributes.int("index_vector_dim").unwrap_or(indices.len() as i64) as usize;
    let mut next_window = window_dims.iter().map(|&d| d as usize);
    let dimensions: Vec<OperandDimension> = operand
        .iter()
        .enumerate()
        .map(|(number, &size)| {
            let number = number as i64;
            let position = |name: &str| attributes.ints(name).iter().position(|&d| d == number);
            let batch = position("input_batching_dims").map(|k| {
                let d = attributes.ints("scatter_indices_batching_dims")[k] as usize;
                // The updates' scatter dimensions are the indices' dimensions without the vector dimension.
                scatter_dims[if d > vector_dim { d - 1 } else { d }]
            });
            let window = match batch.is_some() || position("inserted_window_dims").is_some() {
                true => None,
                false => next_window.next(),
            };
            let component = position("scatter_dims_to_operand_dims");
            OperandDimension { window, component, batch, size, window_size: window.map_or(1, |d| updates[d]) }
        })
        .collect();
    let scatter = Scatter { instruction, dimensions, updates, scatter_dims, vector_dim, indices, count, outputs };
    scatter.over_vectors(&mut emitter, 0, &mut Vec::new())
}

struct Scatter<'s, 'c> {
    instruction: &'s Instruction,
    dimensions: Vec<OperandDimension>,
    updates: Vec<i64>,
    scatter_dims: Vec<usize>,
    vector_dim: usize,
    indices: Vec<i64>,
    count: usize,
    outputs: &'s [ArrayRef<'c>],
}

impl<'s, 'c> Scatter<'s, 'c> {
    /// Loops over the index vectors; `batch` has the values of the loops so far.
    fn over_vectors<'a>(&self, emitter: &mut Elemental<'a, 'c>, depth: usize, batch: &mut Vec<Expr>) -> Result<()> {
        if let Some(&dimension) = self.scatter_dims.get(depth) {
            let interval = Interval::new(0, self.updates[dimension] - 1);
            emitter.loop_over(interval, Vec::new(), &mut |emitter, variable, _| {
                batch.push(variable);
                let result = self.over_vectors(emitter, depth + 1, batch);
                batch.pop();
                result.map(|()| Vec::new())
            })?;
            return Ok(());
        }
        self.window(emitter, batch)
    }

    /// One window: its start, the test that it lies inside, and its elements.
    fn window<'a>(&self, emitter: &mut Elemental<'a, 'c>, batch: &[Expr]) -> Result<()> {
        let builder = emitter.builder;
        let mut starts: Vec<Option<Value<'c>>> = Vec::with_capacity(self.dimensions.len());
        let mut inside: Option<Value<'c>> = None;
        for dimension in &self.dimensions {
            let Some(component) = dimension.component else {
                starts.push(None);
                continue;
            };
            let mut index = batch.to_vec();
            if self.vector_dim < self.indices.len() {
                index.insert(self.vector_dim, Expr::constant(component as i64));
            }
            let element = emitter.evaluate(InstructionId(self.count as u32), &index)?;
            let start = emitter.to_index(&element);
            let last = dimension.size - dimension.window_size;
            // One unsigned comparison: negative starts are huge.
            let bound = builder.constant_index(last);
            let fits = builder.cmpi(CmpiPredicate::Ule, start, bound);
            inside = Some(inside.map_or(fits, |inside| builder.andi(inside, fits)));
            starts.push(Some(start));
        }
        if self.dimensions.iter().any(|dimension| dimension.window_size > dimension.size) {
            return Ok(());
        }
        let Some(inside) = inside else { return self.elements(emitter, batch, &starts) };
        let mut result = Ok(());
        builder.if_then(inside, |_| {
            result = emitter.nested(|emitter| self.elements(emitter, batch, &starts));
        });
        result
    }

    fn elements<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        batch: &[Expr],
        starts: &[Option<Value<'c>>],
    ) -> Result<()> {
        let starts: Vec<Expr> = starts
            .iter()
            .zip(&self.dimensions)
            .map(|(start, dimension)| match start {
                Some(start) => {
                    emitter.scope.add_variable(Interval::new(0, dimension.size - dimension.window_size), *start)
                }
                None => Expr::constant(0),
            })
            .collect();
        let mut index = vec![Expr::constant(0); self.updates.len()];
        for (&dimension, value) in self.scatter_dims.iter().zip(batch) {
            index[dimension] = value.clone();
        }
        self.over_window(emitter, 0, &mut index, &starts)
    }

    fn over_window<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        depth: usize,
        index: &mut Vec<Expr>,
        starts: &[Expr],
    ) -> Result<()> {
        let mut window_dims = (0..self.updates.len()).filter(|d| !self.scatter_dims.contains(d)).skip(depth);
        if let Some(dimension) = window_dims.next() {
            let interval = Interval::new(0, self.updates[dimension] - 1);
            emitter.loop_over(interval, Vec::new(), &mut |emitter, variable, _| {
                index[dimension] = variable;
                self.over_window(emitter, depth + 1, index, starts).map(|()| Vec::new())
            })?;
            return Ok(());
        }
        let place: Vec<Expr> = self
            .dimensions
            .iter()
            .zip(starts)
            .map(|(dimension, start)| {
                let offset = dimension.window.or(dimension.batch).map_or(Expr::constant(0), |d| index[d].clone());
                emitter.scope.simplify(&(offset + start.clone()))
            })
            .collect();
        let mut arguments: Vec<Lanes<'c>> = self.outputs.iter().map(|output| emitter.load(output, &place)).collect();
        for number in 0..self.count {
            let update = InstructionId((self.count + 1 + number) as u32);
            arguments.push(emitter.evaluate(update, index)?);
        }
        let combined = emitter.scalar_computation(&self.instruction.computations[0], &arguments)?;
        combined.iter().zip(self.outputs).try_for_each(|(value, output)| emitter.store(output, &place, value))
    }
}
