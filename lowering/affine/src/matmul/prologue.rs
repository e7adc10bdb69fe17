//! What a fusion makes of the elements of an operand: they are computed where they are packed or, where each is read once,
//! where they are read.
//!
//! Elements are computed in runs along the last dimension of the operand, so its other indices are the same for a run.

use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::{FusionRole, concatenate::ConcatenateAttributes, definition};
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

/// Operations on an element that may be repeated altogether, rather than storing it and loading it again.
const MOST_REPEATED_WORK: i64 = 8;

/// What is so many times less than something else is little beside it.
const SMALL_PART: i64 = 64;

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
            OpKind::Concatenate => joins_rows(instruction),
            kind => definition(kind).fusion == FusionRole::Elementwise,
        };
        if !is_simple {
            return false;
        }
        instruction.operands.iter().for_each(|operand| is_needed[operand.index()] = true);
    }
    true
}

/// Whether a concatenation joins whole rows, so that the elements of each come from one operand.
fn joins_rows(concatenate: &Instruction) -> bool {
    let Ok(attributes) = concatenate.attributes::<ConcatenateAttributes>() else { return false };
    let sizes = concatenate.shape.as_array().map_or(&[][..], |shape| &shape.dimensions);
    sizes.iter().skip(attributes.dimensions.index() + 1).any(|&size| size != 1)
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

    /// Whether rows are computed, which a product of few columns would otherwise read where they are.
    pub(crate) fn computes_rows(&self) -> bool {
        self.computes(Operand::A)
    }

    /// Whether operands whose elements take so much work each are as well computed as often as they are read: the work that is
    /// repeated is little, or little beside the product. Not where processors have instructions for products of such elements in
    /// tiles, which take them as they are in memory.
    pub(crate) fn repeats_little(&self, work: i64) -> bool {
        let uses = [self.n.size, self.row_count()];
        let is_little = |(operand, times, uses): (Operand, i64, i64)| {
            !self.computes(operand) || (times - 1) * work <= MOST_REPEATED_WORK.max(uses / SMALL_PART)
        };
        let [a, b] = self.times_read();
        (self.form == Form::Streamed || self.dot_length().is_none())
            && [(Operand::A, a, uses[0]), (Operand::B, b, uses[1])].into_iter().all(is_little)
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

/// Where elements of an operand are.
#[derive(Clone, Copy)]
pub(super) struct Position<'c> {
    /// The first of them.
    pub(super) first: Expr<'c>,
    /// Of an operand that is computed, the number of its run, and their place in that.
    in_run: Option<[Expr<'c>; 2]>,
}

impl<'c> Position<'c> {
    /// The position so many elements further in the run.
    pub(super) fn plus(self, elements: Expr<'c>) -> Self {
        let in_run = self.in_run.map(|[run, place]| [run, place + elements]);
        Position { first: self.first + elements, in_run }
    }
}

impl<'c> Emitter<'_, 'c> {
    /// A position in an operand. Of one that is computed it is divided, which loops over a run need not do again.
    pub(super) fn position(&mut self, operand: Operand, first: Expr<'c>) -> Result<Position<'c>> {
        let Source::Computed { run, .. } = self.product.operands[operand as usize] else {
            return Ok(Position { first, in_run: None });
        };
        let [number, place] = [first.floordiv(run), first.modulo(run)].map(|expr| self.scope.simplify(expr));
        Ok(Position { first, in_run: Some([self.named(number)?, self.named(place)?]) })
    }

    /// `count` computed elements of an operand from a position, in the first lanes of a vector of the product's type, the
    /// others zero.
    pub(super) fn compute_elements(
        &mut self,
        source: (InstructionId, i64),
        position: Position<'c>,
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
        position: Position<'c>,
        lanes: Option<u32>,
    ) -> Result<Value<'c>> {
        let (builder, element_type) = (self.builder, self.product.element_type);
        let in_run = position.in_run.ok_or_else(|| LoweringError::bug("a position without its run"))?;
        let [outer, along] = in_run.map(|expr| self.scope.emit(builder, expr));
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
            let position = emitter.position(Operand::B, from + column * product.n.b)?;
            let value = emitter.load_elements(Operand::B, position, lanes)?;
            emitter.store_vector(value, memref, column * lanes, lanes)
        })?;
        let element_bytes = product.element_type.byte_width() as i64;
        Ok(Vectors { memref, element_bytes, first: bounds[0], distance: lanes })
    }
}
