//! What a fusion makes of a product's elements: it is computed as soon as these are complete, while they are in the cache.

use std::collections::HashSet;

use hlo::attributes::PaddingDimension;
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::pad::PadAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use indexing::{Expr, Interval};
use mlir_ext::builder::Value;

use super::emit::{Emitter, Result, Span};
use super::tiled::Block;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::trace::split_merged;
use crate::walk::Visitor;

/// A computation that only combines each element of a contraction with others.
pub(crate) struct Finish {
    /// The contraction.
    pub(crate) contraction: InstructionId,
    /// The values that are computed, each of the contraction's dimensions.
    pub(crate) values: Vec<InstructionId>,
    /// The result of the computation, where its one value is padded: what it is padded with, and where.
    pub(crate) pad: Option<(InstructionId, Vec<PaddingDimension>)>,
    /// For each dimension of the result the one of the contraction, where the contraction alone is transposed.
    pub(crate) permutation: Option<Vec<i64>>,
}

impl Finish {
    /// Of the body of a fusion.
    pub(crate) fn of(computation: &Computation) -> Option<Self> {
        let is_contraction = |kind| matches!(kind, OpKind::Dot | OpKind::Convolution);
        let mut contractions = computation.iter().filter(|(_, instruction)| is_contraction(instruction.kind));
        let (contraction, product) = contractions.next()?;
        if contractions.next().is_some() {
            return None;
        }
        let root = computation.root();
        let pad = match root.kind {
            OpKind::Pad => {
                let PadAttributes { padding } = root.attributes().ok()?;
                Some((root.operands[1], padding.to_vec()))
            }
            _ => None,
        };
        let permutation = match root.kind {
            OpKind::Transpose if root.operands[0] == contraction => {
                Some(root.attributes::<TransposeAttributes>().ok()?.dimensions.to_vec())
            }
            _ => None,
        };
        let is_part = pad.is_some() || permutation.is_some();
        let values = if is_part { vec![root.operands[0]] } else { computation.roots() };
        let dimensions = &product.shape.as_array()?.dimensions;
        let is_computed = |id: &InstructionId| {
            computation.get(*id).shape.as_array().is_some_and(|shape| shape.dimensions == *dimensions)
        };
        if !values.iter().all(is_computed) {
            return None;
        }
        // What is computed at the place of the result's element, and what the operands are computed from.
        let mut here: HashSet<InstructionId> = values.iter().copied().collect();
        let mut before: HashSet<InstructionId> = product.operands.iter().copied().collect();
        for (id, instruction) in computation.iter().collect::<Vec<_>>().into_iter().rev() {
            let is_elementwise = definition(instruction.kind).fusion == FusionRole::Elementwise;
            let is_simple = match instruction.kind {
                OpKind::Parameter | OpKind::Constant | OpKind::Iota | OpKind::Broadcast | OpKind::Reshape => true,
                OpKind::Pad | OpKind::Tuple => id == computation.root,
                OpKind::Transpose => id == computation.root && permutation.is_some(),
                OpKind::Concatenate => before.contains(&id),
                kind => is_contraction(kind) || is_elementwise,
            };
            let reads_product = id != computation.root && instruction.operands.contains(&contraction);
            if !is_simple || reads_product && !(is_elementwise && here.contains(&id)) {
                return None;
            }
            if is_elementwise && here.contains(&id) {
                here.extend(&instruction.operands);
            }
            if before.contains(&id) {
                before.extend(&instruction.operands);
            }
        }
        here.contains(&contraction).then_some(Finish { contraction, values, pad, permutation })
    }

    /// Whether nothing is computed from the elements of the contraction.
    pub(crate) fn is_contraction(&self, computation: &Computation) -> bool {
        self.permutation.is_some() || self.contraction == computation.root
    }

    /// Where the elements of a contraction of some shape are stored.
    pub(crate) fn stored(&self, shape: &ArrayShape) -> Stored {
        let mut whole = shape.clone();
        let padding = self.pad.as_ref().map_or(&[][..], |(_, padding)| padding);
        for (size, padding) in whole.dimensions.iter_mut().zip(padding) {
            *size += padding.low + padding.high;
        }
        let Some(permutation) = &self.permutation else {
            let strides = whole.strides();
            let first = padding.iter().zip(&strides).map(|(padding, stride)| padding.low * stride).sum();
            return Stored { strides, first };
        };
        whole.dimensions = permutation.iter().filter_map(|&d| shape.dimensions.get(d as usize).copied()).collect();
        let mut strides = vec![0; shape.rank()];
        for (&dimension, stride) in permutation.iter().zip(whole.strides()) {
            strides[dimension as usize] = stride;
        }
        Stored { strides, first: 0 }
    }
}

/// Where the elements of a contraction are stored.
pub(crate) struct Stored {
    /// How far apart neighbours are, by dimension of the contraction.
    pub(crate) strides: Vec<i64>,
    /// Where the first one is.
    pub(crate) first: i64,
}

/// What is computed from the elements of a product.
pub(super) struct Epilogue<'e, 'c> {
    elements: Elemental<'e, 'c>,
    outputs: &'e [ArrayRef<'c>],
    finish: Finish,
}

impl<'e, 'c> Epilogue<'e, 'c> {
    /// Of the computation of a kernel; none where that is the product alone.
    pub(super) fn of(elements: Elemental<'e, 'c>, outputs: &'e [ArrayRef<'c>]) -> Option<Self> {
        let finish = Finish::of(elements.computation)?;
        (!finish.is_contraction(elements.computation)).then_some(Epilogue { elements, outputs, finish })
    }

    /// Sizes of the arrays that are written, and where the elements that are computed begin in them.
    fn places(&self) -> Result<(&'e [i64], Vec<i64>)> {
        let outputs: &'e [ArrayRef<'c>] = self.outputs;
        let output = outputs.first().ok_or_else(|| LoweringError::bug("a product without a result"))?;
        let first = match &self.finish.pad {
            Some((_, padding)) => padding.iter().map(|padding| padding.low).collect(),
            None => vec![0; output.dimensions.len()],
        };
        Ok((&output.dimensions, first))
    }

    /// Computes the values of `lanes` elements from `column` of a row, and stores them. Rows are those of the outputs.
    fn finish(&mut self, [row, column]: [Value<'c>; 2], offset: i64, sum: RegisterValue<'c>) -> Result<()> {
        let (sizes, first) = self.places()?;
        let (columns, outer) = sizes.split_last().ok_or_else(|| LoweringError::bug("a product of no dimensions"))?;
        let Epilogue { elements, outputs, finish } = self;
        let lanes = sum.lanes.ok_or_else(|| LoweringError::bug("a sum that is no vector"))?;
        elements.nested(|elements| {
            let rows = Interval::of_size(outer.iter().product());
            let row = elements.scope.add_variable(rows, Binding::Dimension(row));
            let last = columns - offset - i64::from(lanes);
            let column = elements.scope.add_variable(Interval::new(0, last), Binding::Dimension(column));
            let lane = elements.scope.add_lanes(lanes);
            let mut place = split_merged(row, outer);
            place.push(column + offset + lane);
            let place: Vec<Expr<'c>> = place.into_iter().map(|expr| elements.scope.simplify(expr)).collect();
            let index: Vec<Expr<'c>> = place.iter().zip(&first).map(|(&place, &first)| place - first).collect();
            elements.remember(finish.contraction, &index, vec![sum]);
            let values = finish.values.iter().map(|&value| elements.evaluate(value, &index));
            let values = values.collect::<Result<Vec<_>>>()?;
            outputs.iter().zip(&values).try_for_each(|(output, value)| elements.store(output, &place, value))
        })
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Computes what the fusion makes of the elements of a block of rows in one panel, after the last contracted ones.
    pub(super) fn finish_rows(
        &mut self,
        block: &Block<'c>,
        c_offset: Expr<'c>,
        rows: &Span<'c>,
        column: Expr<'c>,
    ) -> Result<()> {
        if self.epilogue.is_none() {
            return Ok(());
        }
        let Some(number) = block.number else { return self.finish_all(c_offset, rows, column) };
        let is_last = self.conditions(&[number - (self.product.blocks_of_all() - 1)], true)?;
        let builder = self.builder;
        builder.affine_if_then(&is_last, |_| {
            let outer = self.scope.len();
            let result = self.finish_all(c_offset, rows, column);
            self.scope.truncate(outer);
            result
        })
    }

    fn finish_all(&mut self, c_offset: Expr<'c>, rows: &Span<'c>, column: Expr<'c>) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        self.loop_over(&[rows.begin], &rows.ends, 1, |emitter, row| {
            let first = emitter.named(c_offset + row * product.m.c)?;
            let row = emitter.scope.emit(builder, first.floordiv(product.n.size))?;
            emitter.by_width(column, |emitter, columns| {
                let first_column = emitter.scope.emit(builder, column)?;
                let mut sums = Vec::new();
                for offset in (0..columns).step_by(width as usize) {
                    let vector = builder.vector_type((columns - offset).min(width) as u32, emitter.element);
                    let place = emitter.scope.place(builder, &[first + column + offset])?;
                    let sum = place.load(builder, emitter.c, vector);
                    sums.push((offset, RegisterValue::real(builder, product.element_type, sum)));
                }
                let Some(epilogue) = &mut emitter.epilogue else { return Ok(()) };
                sums.into_iter().try_for_each(|(offset, sum)| epilogue.finish([row, first_column], offset, sum))
            })
        })
    }

    /// Stores what a padded result has around the product: the first task does.
    pub(super) fn pad_result(&mut self, task: Expr<'c>) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let Some(epilogue) = &mut self.epilogue else { return Ok(()) };
        let Some((value, padding)) = epilogue.finish.pad.clone() else { return Ok(()) };
        let (sizes, _) = epilogue.places()?;
        let is_first = self.conditions(&[task], true)?;
        builder.affine_if_then(&is_first, |_| {
            let outer = self.scope.len();
            let Some(epilogue) = &mut self.epilogue else { return Ok(()) };
            let value = epilogue.elements.nested(|elements| elements.evaluate(value, &[]))?;
            let value = scalar::splat(builder, &value, Some(product.lanes)).value;
            for (dimension, padding_here) in padding.iter().enumerate() {
                let stride: i64 = sizes[dimension + 1..].iter().product();
                let first = self.scope.constant(0);
                for (begin, count) in [(0, padding_here.low), (sizes[dimension] - padding_here.high, padding_here.high)]
                {
                    let inside: Vec<Interval> = padding[..dimension]
                        .iter()
                        .zip(sizes)
                        .map(|(padding, &size)| Interval::new(padding.low, size - padding.high - 1))
                        .collect();
                    let place = first.constant_beside(begin * stride);
                    self.fill(&inside, &sizes[1..], place, count * stride, value)?;
                }
            }
            self.scope.truncate(outer);
            Ok(())
        })
    }

    /// Stores a value in runs of elements: one for each position in the intervals of the outermost dimensions, whose
    /// elements have the given `sizes` inside.
    fn fill(
        &mut self,
        outer: &[Interval],
        sizes: &[i64],
        place: Expr<'c>,
        length: i64,
        value: Value<'c>,
    ) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let begin = |emitter: &Self, position: i64| emitter.scope.constant(position);
        let Some((interval, outer)) = outer.split_first() else {
            let span = Span { begin: begin(self, 0), ends: vec![begin(self, length)] };
            return self.in_groups(&span, length, i64::from(self.product.lanes), |emitter, position, count| {
                emitter.store_vector(value, emitter.c, place + position, count)
            });
        };
        let stride: i64 = sizes.iter().product();
        let bounds = [begin(self, interval.lower), begin(self, interval.upper + 1)];
        self.loop_over(&bounds[..1], &bounds[1..], 1, |emitter, position| {
            emitter.fill(outer, &sizes[1..], place + position * stride, length, value)
        })
    }
}
