//! What a fusion makes of the elements of an operand: they are computed where they are packed or, where each is read once,
//! where they are read.
//!
//! Elements are computed in runs along the last dimension of the operand, so its other indices are the same for a run.

use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, definition};
use indexing::{Expr, Interval};
use mlir_ext::builder::Value;

use super::emit::{Emitter, Operand, Result};
use super::{Axis, Form, MatMul, positions};
use crate::error::LoweringError;
use crate::operand_maps::result_shape;
use crate::scalar;
use crate::scope::Binding;
use crate::trace::split_merged;
use crate::transposed::Vectors;
use crate::walk::Visitor;

/// Where the elements of an operand come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An input of the kernel has them.
    Input(usize),
    /// They are computed.
    Computed {
        /// The value that they are elements of.
        value: InstructionId,
        /// How many lie along its last dimension that has several.
        run: i64,
    },
}

impl Source {
    /// Of a value in the body of a kernel; `None` for what is not computed element by element.
    pub(super) fn of(body: &Computation, value: InstructionId) -> Option<Self> {
        let instruction = body.get(value);
        if let Some(number) = instruction.parameter_number() {
            return Some(Source::Input(number));
        }
        let sizes = &instruction.shape.as_array()?.dimensions;
        let run = *sizes.iter().rfind(|&&size| size != 1)?;
        is_by_element(body, value).then_some(Source::Computed { value, run })
    }
}

/// Whether a value is computed from the elements of parameters one by one, without moving them.
fn is_by_element(body: &Computation, value: InstructionId) -> bool {
    let mut is_needed = vec![false; body.instructions.len()];
    is_needed[value.index()] = true;
    for (id, instruction) in body.iter().take(value.index() + 1).collect::<Vec<_>>().into_iter().rev() {
        if !is_needed[id.index()] {
            continue;
        }
        let is_simple = match instruction.kind {
            OpKind::Parameter | OpKind::Constant | OpKind::Iota | OpKind::Broadcast | OpKind::Reshape => true,
            kind => definition(kind).fusion == FusionRole::Elementwise,
        };
        if !is_simple {
            return false;
        }
        instruction.operands.iter().for_each(|operand| is_needed[operand.index()] = true);
    }
    true
}

impl MatMul {
    /// Whether the elements of an operand are computed.
    pub(super) fn computes(&self, operand: Operand) -> bool {
        matches!(self.operands[operand as usize], Source::Computed { .. })
    }

    /// Whether the elements of an operand are computed as often as they are packed or streamed, run by run.
    pub(super) fn can_compute(&self) -> bool {
        let has_runs = |operand: Operand, axes: [(i64, Axis); 2]| match self.operands[operand as usize] {
            Source::Input(_) => true,
            Source::Computed { run, .. } => axes.iter().any(|(distance, axis)| *distance == 1 && axis.size == run),
        };
        let is_packed = self.form == Form::Tiled && self.rows.is_empty();
        (is_packed || !self.computes(Operand::A))
            && has_runs(Operand::A, [(self.k.a, self.k), (self.m.a, self.m)])
            && has_runs(Operand::B, [(self.n.b, self.n), (self.k.b, self.k)])
    }

    /// How often the elements of operands are computed, at most; `None` where processors have instructions for products of
    /// such elements, which take them as they are in memory.
    pub(crate) fn times_computed(&self) -> Option<i64> {
        let times = [Operand::A, Operand::B].into_iter().zip(self.times_read());
        let times = times.filter(|(operand, _)| self.computes(*operand)).map(|(_, times)| times);
        times.max().filter(|_| self.dot_length().is_none())
    }

    /// How often the elements of A and B are read.
    fn times_read(&self) -> [i64; 2] {
        let [packed_a, packed_b] = match self.form {
            Form::Tiled => [self.groups(), self.position_tasks() * self.row_tasks()],
            Form::Streamed => [self.strips(), 1],
        };
        let repeated = |distance: fn(&Axis) -> i64| {
            let axes: Vec<Axis> = self.batch.iter().filter(|axis| distance(axis) == 0).copied().collect();
            positions(&axes)
        };
        [packed_a * repeated(|axis| axis.a), packed_b * repeated(|axis| axis.b)]
    }
}

impl<'c> Emitter<'_, 'c> {
    /// `count` computed elements of an operand from a position, in the first lanes of a vector of the product's type, the
    /// others zero.
    pub(super) fn compute_elements(
        &mut self,
        source: (InstructionId, i64),
        position: Expr<'c>,
        count: i64,
    ) -> Result<Value<'c>> {
        let (builder, lanes) = (self.builder, self.product.lanes);
        if count == 0 {
            return Ok(builder.zero(self.vector));
        }
        let value = self.compute(source, position, Some(count as u32))?;
        if count == i64::from(lanes) {
            return Ok(value);
        }
        let zeros = builder.zero(value.r#type());
        let mask: Vec<u32> = (0..lanes).map(|lane| lane.min(count as u32)).collect();
        Ok(builder.shuffle(value, zeros, &mask))
    }

    /// Computed elements of an operand from a position: one, or as many as there are lanes.
    pub(super) fn compute(
        &mut self,
        (value, run): (InstructionId, i64),
        position: Expr<'c>,
        lanes: Option<u32>,
    ) -> Result<Value<'c>> {
        let (builder, element_type) = (self.builder, self.product.element_type);
        let [outer, along] = [position.floordiv(run), position.modulo(run)];
        let [outer, along] = [outer, along].map(|expr| self.scope.emit(builder, self.scope.simplify(expr)));
        let (outer, along) = (outer?, along?);
        let elements = self.prologue.as_mut().ok_or_else(|| LoweringError::bug("an operand that nothing computes"))?;
        let sizes = &result_shape(elements.computation.get(value))?.dimensions;
        let computed = elements.nested(|elements| {
            // The last dimension of several elements; of one element, any.
            let inside = sizes.iter().rposition(|&size| size != 1).unwrap_or_default();
            let runs = Interval::of_size(sizes[..inside].iter().product());
            let outer = elements.scope.add_variable(runs, Binding::Dimension(outer));
            let first = Interval::new(0, run - lanes.map_or(1, i64::from));
            let mut along = elements.scope.add_variable(first, Binding::Dimension(along));
            if let Some(lanes) = lanes {
                along = along + elements.scope.add_lanes(lanes);
            }
            let mut index = split_merged(outer, &sizes[..inside]);
            index.push(along);
            index.resize(sizes.len(), elements.scope.constant(0));
            let index: Vec<Expr<'c>> = index.into_iter().map(|expr| elements.scope.simplify(expr)).collect();
            elements.evaluate(value, &index)
        })?;
        let computed = scalar::convert::convert(builder, &computed, element_type)
            .ok_or_else(|| LoweringError::bug(format!("{} in a product of {element_type}", computed.element_type)))?;
        Ok(scalar::splat(builder, &computed, lanes).value)
    }

    /// Computes a square of a B whose columns are consecutive along k; returns where its columns are.
    pub(super) fn compute_square(&mut self, from: Expr<'c>) -> Result<Vectors<'c>> {
        let (builder, product) = (self.builder, self.product);
        let lanes = i64::from(product.lanes);
        let r#type = builder.memref_type(&[lanes * lanes], self.element);
        let memref = builder.in_prologue(|builder| builder.stack_buffer(r#type, 64));
        let bounds = [0, lanes].map(|bound| self.scope.constant(bound));
        self.loop_over(&bounds[..1], &bounds[1..], 1, |emitter, column| {
            let value = emitter.load_elements(Operand::B, from + column * product.n.b, lanes)?;
            emitter.store_vector(value, memref, column * lanes, lanes)
        })?;
        let element_bytes = product.element_type.byte_width() as i64;
        Ok(Vectors { memref, element_bytes, first: bounds[0], distance: lanes })
    }
}
