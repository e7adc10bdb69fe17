//! The one walk over a fused computation: from an instruction at an index to the elements that it reads.
//!
//! Elementwise instructions read their operands at the same index; shape and indexing instructions only change the index,
//! through their indexing maps. Two visitors follow it: [`crate::elemental::Elemental`], to which an element is a register,
//! and the tracer of [`crate::trace`], which notes what would be read. What was visited at an index is not visited again.

use std::rc::Rc;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::{FusionRole, definition};
use indexing::{Constraint, Expr, Interval};
use melior::Context;

use crate::error::LoweringError;
use crate::operand_maps::{operand_map, operand_shape, result_shape};
use crate::scope::Scope;

type Result<T> = std::result::Result<T, LoweringError>;

/// Two ways to the elements of an instruction, of which conditions choose one.
pub(crate) struct Choice<'i, 'c> {
    /// What must hold for the first way.
    pub conditions: &'i [Constraint<'c>],
    /// Element types of the values.
    pub types: &'i [ElementType],
    /// Where the first way reads.
    pub index: &'i [Expr<'c>],
    /// Sizes of what it reads there.
    pub sizes: &'i [i64],
}

/// The first way of a choice, at an index that may have been kept inside the sizes.
pub(crate) type Inside<'w, 'c, V, T> = &'w mut dyn FnMut(&mut V, &[Expr<'c>]) -> Result<Vec<T>>;

/// The other way of a choice.
pub(crate) type Outside<'w, V, T> = &'w mut dyn FnMut(&mut V) -> Result<Vec<T>>;

/// Who follows the walk.
pub(crate) trait Visitor<'a, 'c>: Sized {
    /// What an element is to the visitor.
    type Value: Clone;

    /// The computation that is walked.
    fn computation(&self) -> &'a Computation;

    /// The variables of indices.
    fn scope(&self) -> &Scope<'c>;

    /// The values of an instruction at an index where it was visited before.
    fn known(&self, id: InstructionId, index: &[Expr<'c>]) -> Option<Vec<Self::Value>>;

    /// The value of an instruction that was computed for a whole row, at an index in that row.
    fn row_value(&mut self, _: InstructionId, _: &[Expr<'c>]) -> Result<Option<Self::Value>> {
        Ok(None)
    }

    /// Notes the values of an instruction at an index.
    fn remember(&mut self, id: InstructionId, index: &[Expr<'c>], values: Vec<Self::Value>);

    /// Visits in the name of an instruction.
    fn in_instruction<T>(&mut self, _: &'a Instruction, visit: impl FnOnce(&mut Self) -> T) -> T {
        visit(self)
    }

    /// An index expression as a variable.
    fn named(&mut self, expr: Expr<'c>) -> Result<Expr<'c>>;

    /// An index kept inside bounds.
    fn kept_inside(&mut self, expr: Expr<'c>, bounds: Interval) -> Result<Expr<'c>>;

    /// The element of a parameter.
    fn load(&mut self, parameter: &'a Instruction, index: &[Expr<'c>]) -> Result<Self::Value>;

    /// A scalar constant.
    fn constant(&mut self, instruction: &'a Instruction) -> Result<Self::Value>;

    /// A zero.
    fn zero(&mut self, element_type: ElementType) -> Self::Value;

    /// One of the expressions of an index as a number.
    fn number(&mut self, index: &[Expr<'c>], position: Expr<'c>, element_type: ElementType) -> Result<Self::Value>;

    /// An operation on single elements.
    fn elementwise(&mut self, instruction: &'a Instruction, operands: &[Self::Value]) -> Result<Vec<Self::Value>>;

    /// An operation that combines many elements.
    fn combine(
        &mut self,
        id: InstructionId,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<Self::Value>>;

    /// A start that an operand has at an index, kept inside bounds; `number` is that of the run-time variable.
    fn start(
        &mut self,
        start: (InstructionId, usize),
        operand: InstructionId,
        index: Vec<Expr<'c>>,
        bounds: Interval,
    ) -> Result<Expr<'c>>;

    /// A choice whose conditions are not all known.
    fn branch(
        &mut self,
        open: &[&Constraint<'c>],
        choice: &Choice<'_, 'c>,
        inside: Inside<'_, 'c, Self, Self::Value>,
        outside: Outside<'_, Self, Self::Value>,
    ) -> Result<Vec<Self::Value>>;

    /// What an elementwise instruction takes of an operand at an index.
    fn elementwise_operand(
        &mut self,
        _: &'a Instruction,
        operand: InstructionId,
        index: &[Expr<'c>],
    ) -> Result<Self::Value> {
        self.evaluate(operand, index)
    }

    /// The element of an array-shaped instruction at an index.
    fn evaluate(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<Self::Value> {
        let first = self.evaluate_all(id, index)?.into_iter().next();
        first.ok_or_else(|| LoweringError::bug(format!("`{}` has no value", self.computation().get(id).name)))
    }

    /// The elements of all results of an instruction (one, except for variadic reductions).
    fn evaluate_all(&mut self, id: InstructionId, index: &[Expr<'c>]) -> Result<Vec<Self::Value>> {
        if let Some(value) = self.row_value(id, index)? {
            return Ok(vec![value]);
        }
        if let Some(known) = self.known(id, index) {
            return Ok(known);
        }
        let instruction = self.computation().get(id);
        let values = self.in_instruction(instruction, |visitor| visitor.visit(id, instruction, index))?;
        self.remember(id, index, values.clone());
        Ok(values)
    }

    /// The elements of an instruction from those that it reads.
    fn visit(
        &mut self,
        id: InstructionId,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
    ) -> Result<Vec<Self::Value>> {
        let one = |value| Ok(vec![value]);
        match instruction.kind {
            OpKind::Parameter => one(self.load(instruction, index)?),
            OpKind::Constant => one(self.constant(instruction)?),
            OpKind::Iota => {
                let IotaAttributes { iota_dimension } = instruction.attributes()?;
                let position = index.get(iota_dimension as usize);
                let position = position.ok_or_else(|| LoweringError::bug("an iota without its dimension"))?;
                one(self.number(index, *position, result_shape(instruction)?.element_type)?)
            }
            OpKind::Pad => self.pad(instruction, index),
            OpKind::Concatenate => {
                let parts = self.parts(id, instruction)?;
                self.concatenate(instruction, index, parts.0, &parts.1)
            }
            OpKind::DynamicSlice | OpKind::Gather => one(self.lookup(id, instruction, index)?),
            OpKind::Reduce | OpKind::ReduceWindow | OpKind::Dot | OpKind::Convolution => {
                self.combine(id, instruction, index)
            }
            kind if definition(kind).fusion == FusionRole::View => one(self.operand_at(instruction, 0, index)?),
            _ => {
                // At the same index, scalars at none.
                let mut operands = Vec::with_capacity(instruction.operands.len());
                for (number, &operand) in instruction.operands.iter().enumerate() {
                    let is_scalar = operand_shape(self.computation(), instruction, number)?.rank() == 0;
                    let index = if is_scalar { &[] } else { index };
                    operands.push(self.elementwise_operand(instruction, operand, index)?);
                }
                self.elementwise(instruction, &operands)
            }
        }
    }

    /// Results of a map at an index, simplified with the ranges in scope. Large ones become variables.
    fn apply(&mut self, results: &[Expr<'c>], index: &[Expr<'c>], runtimes: &[Expr<'c>]) -> Result<Vec<Expr<'c>>> {
        self.apply_with_ranges(results, index, &[], runtimes)
    }

    /// As [`Self::apply`], with values of the map's range variables.
    fn apply_with_ranges(
        &mut self,
        results: &[Expr<'c>],
        index: &[Expr<'c>],
        ranges: &[Expr<'c>],
        runtimes: &[Expr<'c>],
    ) -> Result<Vec<Expr<'c>>> {
        results
            .iter()
            .map(|result| {
                let result = self.scope().simplify(substitute(*result, index, ranges, runtimes));
                if Scope::is_large(result) { self.named(result) } else { Ok(result) }
            })
            .collect()
    }

    /// Conditions of a map at an index and values of the range variables.
    fn conditions(
        &self,
        conditions: &[Constraint<'c>],
        index: &[Expr<'c>],
        ranges: &[Expr<'c>],
    ) -> Vec<Constraint<'c>> {
        conditions
            .iter()
            .map(|condition| {
                let expr = self.scope().simplify(substitute(condition.expr, index, ranges, &[]));
                Constraint::new(expr, condition.interval)
            })
            .collect()
    }

    /// The element of an operand that an instruction without conditions reads.
    fn operand_at(&mut self, instruction: &'a Instruction, number: usize, index: &[Expr<'c>]) -> Result<Self::Value> {
        let map = operand_map(self.scope().context(), self.computation(), instruction, number)?.map;
        let operand_index = self.apply(map.results(), index, &[])?;
        self.evaluate(instruction.operands[number], &operand_index)
    }

    /// pad: the operand's element where the conditions hold, the padding value elsewhere.
    fn pad(&mut self, instruction: &'a Instruction, index: &[Expr<'c>]) -> Result<Vec<Self::Value>> {
        let map = operand_map(self.scope().context(), self.computation(), instruction, 0)?;
        let choice = Choice {
            conditions: &self.conditions(&map.conditions, index, &[]),
            types: &[result_shape(instruction)?.element_type],
            index: &self.apply(map.map.results(), index, &[])?,
            sizes: &operand_shape(self.computation(), instruction, 0)?.dimensions,
        };
        let (operand, padding) = (instruction.operands[0], instruction.operands[1]);
        self.choose(&choice, &mut |visitor, index| visitor.evaluate_all(operand, index), &mut |visitor| {
            visitor.evaluate_all(padding, &[])
        })
    }

    /// The dimension of a concatenate, and its operands along it.
    fn parts(&mut self, _: InstructionId, instruction: &'a Instruction) -> Result<Rc<Parts>> {
        Ok(Rc::new(concatenated(self.computation(), instruction)?))
    }

    /// concatenate: the operand, of some neighbouring ones, on whose part the index is. The choice is binary, so that
    /// the code for many operands nests no deeper than the logarithm of their number.
    fn concatenate(
        &mut self,
        instruction: &'a Instruction,
        index: &[Expr<'c>],
        dimension: usize,
        parts: &[ConcatenatedPart],
    ) -> Result<Vec<Self::Value>> {
        let position =
            *index.get(dimension).ok_or_else(|| LoweringError::bug("a concatenate without its dimension"))?;
        let shape = result_shape(instruction)?;
        let (left, right) = parts.split_at(parts.len() / 2);
        let Some(middle) = right.first() else { return Ok(vec![self.zero(shape.element_type)]) };
        if left.is_empty() {
            let number = middle.operand;
            let mut operand_index = index.to_vec();
            operand_index[dimension] = self.scope().simplify(position - middle.start);
            if self.scope().uses_lane(position) {
                // Lanes of other operands read what is there.
                let sizes = &operand_shape(self.computation(), instruction, number)?.dimensions;
                for (expr, &size) in operand_index.iter_mut().zip(sizes) {
                    *expr = self.kept_inside(*expr, Interval::of_size(size))?;
                }
            }
            return self.evaluate_all(instruction.operands[number], &operand_index);
        }
        let choice = Choice {
            conditions: &[Constraint::new(position, Interval::new(i64::MIN, middle.start - 1))],
            types: &[shape.element_type],
            index,
            sizes: &shape.dimensions,
        };
        self.choose(
            &choice,
            &mut |visitor, index| visitor.concatenate(instruction, index, dimension, left),
            &mut |visitor| visitor.concatenate(instruction, index, dimension, right),
        )
    }

    /// dynamic-slice and gather: the operand's element at a start read from memory plus an offset.
    fn lookup(&mut self, id: InstructionId, instruction: &'a Instruction, index: &[Expr<'c>]) -> Result<Self::Value> {
        let map = operand_map(self.scope().context(), self.computation(), instruction, 0)?.map;
        // Nothing is read for a result without elements either, and its map knows no starts.
        if map.is_known_empty() || operand_shape(self.computation(), instruction, 0)?.dimensions.contains(&0) {
            return Ok(self.zero(result_shape(instruction)?.element_type));
        }
        let mut starts = Vec::new();
        for (number, runtime) in map.runtimes().iter().enumerate() {
            let source = runtime.source.as_ref().ok_or_else(|| LoweringError::bug("a start without a source"))?;
            let start_index = self.apply(&source.index, index, &[])?;
            let operand = instruction.operands[source.value as usize];
            starts.push(self.start((id, number), operand, start_index, runtime.bounds)?);
        }
        let operand_index = self.apply(map.results(), index, &starts)?;
        self.evaluate(instruction.operands[0], &operand_index)
    }

    /// One of two ways by conditions that may be known, differ between iterations, or between lanes. The first is gone
    /// only where the conditions hold, or at an index that is kept inside the sizes.
    fn choose(
        &mut self,
        choice: &Choice<'_, 'c>,
        inside: Inside<'_, 'c, Self, Self::Value>,
        outside: Outside<'_, Self, Self::Value>,
    ) -> Result<Vec<Self::Value>> {
        let truths: Vec<Option<bool>> =
            choice.conditions.iter().map(|condition| self.scope().truth(condition)).collect();
        if truths.contains(&Some(false)) || choice.sizes.contains(&0) {
            return outside(self);
        }
        let open: Vec<&Constraint<'c>> = choice
            .conditions
            .iter()
            .zip(&truths)
            .filter(|(_, truth)| truth.is_none())
            .map(|(condition, _)| condition)
            .collect();
        if open.is_empty() {
            return inside(self, choice.index);
        }
        self.branch(&open, choice, inside, outside)
    }
}

/// The dimension of a concatenate, and its operands along it.
pub(crate) type Parts = (usize, Vec<ConcatenatedPart>);

/// An operand of a concatenate that has elements, and where it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConcatenatedPart {
    pub operand: usize,
    pub start: i64,
}

/// The dimension of a concatenate, and its operands along it.
pub(crate) fn concatenated(computation: &Computation, instruction: &Instruction) -> Result<Parts> {
    let dimension = instruction.attributes::<ConcatenateAttributes>()?.dimensions.index();
    let mut parts = Vec::with_capacity(instruction.operands.len());
    let mut start = 0i64;
    for operand in 0..instruction.operands.len() {
        let size = operand_shape(computation, instruction, operand)?.dimensions.get(dimension).copied();
        let size = size.ok_or_else(|| LoweringError::bug("a concatenate beyond its operands' dimensions"))?;
        if size > 0 {
            parts.push(ConcatenatedPart { operand, start });
        }
        start += size;
    }
    Ok((dimension, parts))
}

/// Replaces the variables of a map's expression.
pub fn substitute<'c>(expr: Expr<'c>, dims: &[Expr<'c>], ranges: &[Expr<'c>], runtimes: &[Expr<'c>]) -> Expr<'c> {
    expr.replace(dims, &[ranges, runtimes].concat())
}

/// The row-major element offset of an index.
pub fn linear_address<'c>(context: &'c Context, dimensions: &[i64], index: &[Expr<'c>]) -> Expr<'c> {
    let strides = indexing::queries::row_major_strides(dimensions);
    index
        .iter()
        .zip(strides)
        .zip(dimensions)
        .filter(|(_, size)| **size != 1)
        .fold(Expr::constant(context, 0), |sum, ((&expr, stride), _)| sum + expr * stride)
}
