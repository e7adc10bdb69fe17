//! The code of an attention.

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::op_kind::OpKind;
use indexing::{Expr, Interval};
use mlir_ext::arith::CmpfPredicate;
use mlir_ext::builder::{OpBuilder, Value};

use super::AttentionKernel;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::kernel::Range;
use crate::library_calls::call_runtime;
use crate::matmul::emit::{Emitter, Offsets, Result, Span};
use crate::matmul::tiled::{Block, Panels};
use crate::matmul::{BLOCK_M, MatMul, parts};
use crate::memory::{ArrayRef, Inputs};
use crate::scalar::combiner::Combiner;
use crate::scalar::{self, RegisterValue};
use crate::scope::{Binding, Scope};
use crate::transposed::address_in;
use crate::walk::Visitor;

impl AttentionKernel {
    /// Emits all tasks, or a range.
    pub(crate) fn emit<'c>(
        &self,
        builder: &OpBuilder<'c>,
        computation: &Computation,
        inputs: Inputs<'_, 'c>,
        outputs: &[ArrayRef<'c>],
        range: Range<'c>,
    ) -> Result<()> {
        let arrays = self.form.operands.map(|operand| inputs.get(operand));
        let ([Some(queries), Some(keys), Some(values)], Some(output)) = (arrays, outputs.first()) else {
            return Err(LoweringError::bug("an attention without its arrays"));
        };
        let element = scalar::memory_type(builder, self.scores.element_type);
        let scratch = |size: i64, r#type| {
            let r#type = builder.memref_type(&[size], r#type);
            builder.in_prologue(|builder| builder.stack_buffer(r#type, 64))
        };
        // One vector more, as rows begin one later.
        let lanes = i64::from(self.lanes());
        let logits = scratch(BLOCK_M * self.scores.m.c + lanes, element);
        let weight_type = self.product.operand_types[0];
        let weights = match weight_type == self.scores.element_type {
            true => logits,
            false => scratch(BLOCK_M * self.product.m.a + lanes, scalar::memory_type(builder, weight_type)),
        };
        let sums = scratch(self.task_rows() * self.product.m.c, element);
        let row_values = parts(self.task_rows(), lanes) * lanes;
        let [most, total] = [0; 2].map(|_| scratch(row_values, element));
        let scores = Side { product: &self.scores, operands: [queries.flat(builder), keys.flat(builder)], c: logits };
        let product = Side { product: &self.product, operands: [weights, values.flat(builder)], c: sums };
        let mut emitter = Emitter {
            builder,
            scope: Scope::new(builder.context()),
            product: &self.scores,
            operands: scores.operands.map(Some),
            c: logits,
            prologue: None,
            packed: None,
            epilogue: None,
            element,
            vector: builder.vector_type(self.lanes(), element),
        };
        let score_panels = emitter.panel_buffers(parts(self.block_keys(), self.scores.panel()), BLOCK_M);
        emitter.turn_to(&product);
        let value_panels = emitter.panel_buffers(parts(self.product.n.size, self.product.panel()), BLOCK_M);
        let mut task = Task {
            kernel: self,
            elements: Elemental::new(builder, computation, inputs, 1),
            output,
            sides: [(scores, score_panels), (product, value_panels)],
            most,
            total,
        };
        emitter.over_tasks(self.tasks(), range, |emitter, number| task.emit(emitter, number))
    }

    /// The index of the first logit of a row.
    fn index<'c>(&self, elements: &mut Elemental<'_, 'c>, place: &Place<'c>, row: Value<'c>) -> Vec<Expr<'c>> {
        let mut index = vec![elements.scope.constant(0); self.form.sizes.len()];
        let rows = [(self.form.attention.query, row)];
        for &(dimension, value) in place.batch.iter().chain(&rows) {
            let range = Interval::of_size(self.form.sizes[dimension]);
            index[dimension] = elements.scope.add_variable(range, Binding::Dimension(value));
        }
        index
    }
}

/// A product and its arrays.
#[derive(Clone, Copy)]
struct Side<'e, 'c> {
    product: &'e MatMul,
    operands: [Value<'c>; 2],
    c: Value<'c>,
}

impl<'e, 'c> Emitter<'e, 'c> {
    /// Goes on with another product.
    fn turn_to(&mut self, side: &Side<'e, 'c>) {
        self.product = side.product;
        self.operands = side.operands.map(Some);
        self.c = side.c;
    }

    /// The product of some rows of A and a block of B, which is packed, in some columns.
    fn multiply_rows(
        &mut self,
        block: &Block<'c>,
        offsets: &Offsets<'c>,
        rows: &Span<'c>,
        columns: &Span<'c>,
    ) -> Result<()> {
        if let Some(packed) = block.panels.a {
            self.pack_a(packed, offsets.a, rows, block)?;
        }
        let panel_rows = self.product.panel_rows();
        self.panels(columns, |emitter, column| {
            let panel_offset = (column - columns.begin) * panel_rows;
            emitter.rows(block, panel_offset, offsets, rows, column)
        })
    }
}

/// The code of a task.
struct Task<'e, 'c> {
    kernel: &'e AttentionKernel,
    elements: Elemental<'e, 'c>,
    output: &'e ArrayRef<'c>,
    /// The scores and the product with the values, each with memory for what is packed.
    sides: [(Side<'e, 'c>, Panels<'c>); 2],
    /// The largest logit of each row so far.
    most: Value<'c>,
    /// The sum of the exponentials of each row so far.
    total: Value<'c>,
}

/// The place of what is computed.
struct Place<'c> {
    /// The positions in the batch, by dimension of the logits.
    batch: Vec<(usize, Value<'c>)>,
    /// The rows of the task.
    rows: Span<'c>,
}

/// A block of keys.
struct Keys<'c> {
    number: Expr<'c>,
    first: Expr<'c>,
}

impl<'e, 'c> Task<'e, 'c> {
    fn emit(&mut self, emitter: &mut Emitter<'e, 'c>, task: Expr<'c>) -> Result<()> {
        let (builder, kernel) = (emitter.builder, self.kernel);
        let mut rest = task;
        let part = emitter.split(&mut rest, kernel.row_tasks())?;
        let mut batch = Vec::with_capacity(kernel.form.batch.len());
        let mut offsets = [emitter.scope.constant(0); 3];
        for (number, axis) in kernel.form.batch.iter().enumerate().rev() {
            let position = if number == 0 { rest } else { emitter.split(&mut rest, axis.size)? };
            batch.push((axis.logit, emitter.scope.emit(builder, position)?));
            for (offset, stride) in offsets.iter_mut().zip(axis.strides) {
                *offset = *offset + position * stride;
            }
        }
        for offset in &mut offsets {
            *offset = emitter.named(*offset)?;
        }
        let begin = emitter.named(part * kernel.task_rows())?;
        let place = Place { batch, rows: Span::within(begin, kernel.task_rows(), kernel.form.queries()) };
        if !kernel.weighs_in_runtime {
            self.begin(emitter)?;
        }
        let blocks = kernel.product.blocks();
        if blocks == 1 {
            let zero = emitter.scope.constant(0);
            self.keys(emitter, &place, offsets, &Keys { number: zero, first: zero })?;
        } else {
            let [begin, end] = [0, blocks].map(|number| emitter.scope.constant(number));
            emitter.loop_over(&[begin], &[end], 1, |emitter, number| {
                let first = emitter.named(number * kernel.block_keys())?;
                self.keys(emitter, &place, offsets, &Keys { number, first })
            })?;
        }
        self.finish(emitter, &place)
    }

    /// No logit so far, and a sum of nothing.
    fn begin(&self, emitter: &mut Emitter<'e, 'c>) -> Result<()> {
        let (builder, lanes) = (emitter.builder, i64::from(self.kernel.lanes()));
        let [nothing, zero] = [f64::NEG_INFINITY, 0.0].map(|value| builder.constant_float(emitter.vector, value));
        let (begin, end) = (emitter.scope.constant(0), emitter.scope.constant(self.kernel.task_rows()));
        emitter.loop_over(&[begin], &[end], lanes, |emitter, row| {
            emitter.store_vector(nothing, self.most, row, lanes)?;
            emitter.store_vector(zero, self.total, row, lanes)
        })
    }

    /// One block of keys and all rows of the task.
    fn keys(
        &mut self,
        emitter: &mut Emitter<'e, 'c>,
        place: &Place<'c>,
        [of_queries, of_keys, of_values]: [Expr<'c>; 3],
        keys: &Keys<'c>,
    ) -> Result<()> {
        let kernel = self.kernel;
        let [(scores, score_panels), (product, value_panels)] = self.sides;
        let width = i64::from(kernel.lanes());
        let columns = Span::within(keys.first, kernel.block_keys(), kernel.form.keys());
        let first_row = emitter.scope.constant(0);
        let length = vec![emitter.scope.constant(kernel.scores.k.size)];
        let score_block = Block { length, number: None, first_row, panels: score_panels };
        emitter.turn_to(&scores);
        if let Some(panels) = score_panels.b {
            emitter.pack(panels, of_keys, &columns, &score_block)?;
        }
        let (steps, first_step) = (kernel.product.block_k(), keys.number * kernel.product.block_k());
        let whole = emitter.scope.constant(steps);
        let length = match kernel.product.k.size % steps {
            0 => vec![whole],
            _ => vec![-first_step + kernel.product.k.size, whole],
        };
        let number = (kernel.product.blocks() > 1).then_some(keys.number);
        let value_block = Block { length, number, first_row: first_step, panels: value_panels };
        let of_values = emitter.named(of_values + first_step * kernel.product.k.b)?;
        let features =
            Span { begin: emitter.scope.constant(0), ends: vec![emitter.scope.constant(kernel.product.n.size)] };
        emitter.turn_to(&product);
        if let Some(panels) = value_panels.b {
            emitter.pack(panels, of_values, &features, &value_block)?;
        }
        emitter.loop_over(&[place.rows.begin], &place.rows.ends, BLOCK_M, |emitter, row| {
            let rows = Span { begin: row, ends: [&[row + BLOCK_M], &place.rows.ends[..]].concat() };
            emitter.turn_to(&scores);
            let c = emitter.named(-row * kernel.scores.m.c - keys.first + width)?;
            let offsets = Offsets { a: of_queries, b: of_keys, c };
            emitter.multiply_rows(&score_block, &offsets, &rows, &columns)?;
            match kernel.weighs_in_runtime {
                true => self.weigh_in_runtime(emitter, place, &rows, keys)?,
                false => self.weigh(emitter, place, &rows, keys)?,
            }
            emitter.turn_to(&product);
            let a = emitter.named(-row * kernel.product.m.a + width)?;
            let c = emitter.named(-place.rows.begin * kernel.product.m.c)?;
            let offsets = Offsets { a, b: of_values, c };
            emitter.multiply_rows(&value_block, &offsets, &rows, &features)
        })
    }

    /// Makes weights of the scores of a block, and scales down the sums so far where a logit is larger than all before.
    fn weigh(
        &mut self,
        emitter: &mut Emitter<'e, 'c>,
        place: &Place<'c>,
        rows: &Span<'c>,
        keys: &Keys<'c>,
    ) -> Result<()> {
        let (builder, kernel) = (emitter.builder, self.kernel);
        let width = i64::from(kernel.lanes());
        let element_type = kernel.scores.element_type;
        let real = |value| RegisterValue::real(builder, element_type, value);
        emitter.loop_over(&[rows.begin], &rows.ends, 1, |emitter, row| {
            let own = emitter.named(row - place.rows.begin)?;
            let first = emitter.named((row - rows.begin) * kernel.scores.m.c + width)?;
            let first_weight = emitter.named((row - rows.begin) * kernel.product.m.a + width)?;
            let row_value = emitter.scope.emit(builder, row)?;
            let (logits, weights) = (self.sides[0].0.c, self.sides[1].0.operands[0]);
            let nothing = builder.constant_float(emitter.vector, f64::NEG_INFINITY);
            let larger = |a, b| builder.select(builder.cmpf(CmpfPredicate::Ogt, a, b), a, b);
            let largest = self.logits(emitter, place, (row_value, first), keys, nothing, larger)?;
            let largest = Combiner::largest(element_type).horizontal(builder, &real(largest)).value;
            // Of one block of keys, nothing was before.
            let before = match kernel.product.blocks() {
                1 => None,
                _ => Some(emitter.scope.place(builder, &[own])?.load(builder, self.most, emitter.element)),
            };
            let most = before.map_or(largest, |before| larger(largest, before));
            if before.is_some() {
                emitter.scope.place(builder, &[own])?.store(builder, most, self.most);
            }
            // A row of nothing but -inf so far has weights of 0: if that is all, 0 is divided by 0 in the end.
            let is_any = builder.cmpf(CmpfPredicate::Une, most, builder.float_like(most, f64::NEG_INFINITY));
            let most = builder.select(is_any, most, builder.float_like(most, 0.0));
            let mosts = builder.broadcast(most, Some(kernel.lanes()));
            let zero = builder.zero(emitter.vector);
            let sum = self.over_keys(emitter, keys, logits, first, zero, &mut |task, emitter, logit, at, sum| {
                let weight = task.power(builder, real(builder.subf(logit, mosts)))?;
                let stored = scalar::convert::convert(builder, &weight, kernel.form.weight_type)
                    .ok_or_else(|| LoweringError::bug("weights of another class"))?;
                let stored = scalar::to_memory(builder, &stored);
                emitter.scope.place(builder, &[first_weight + at])?.store(builder, stored, weights);
                Ok(builder.addf(sum, weight.value))
            })?;
            let sum = Combiner::sum(element_type).horizontal(builder, &real(sum)).value;
            let Some(before) = before else {
                emitter.scope.place(builder, &[own])?.store(builder, sum, self.total);
                return Ok(());
            };
            let scale = self.power(builder, real(builder.subf(before, most)))?.value;
            let total = emitter.scope.place(builder, &[own])?.load(builder, self.total, emitter.element);
            let total = builder.addf(builder.mulf(total, scale), sum);
            emitter.scope.place(builder, &[own])?.store(builder, total, self.total);
            let is_later = emitter.conditions(&[keys.number - 1], false)?;
            builder.affine_if_then(&is_later, |_| {
                let outer = emitter.scope.len();
                let result = self.scale_sums(emitter, own, scale);
                emitter.scope.truncate(outer);
                result
            })
        })
    }

    /// The same by the runtime, once the logits are there.
    fn weigh_in_runtime(
        &mut self,
        emitter: &mut Emitter<'e, 'c>,
        place: &Place<'c>,
        rows: &Span<'c>,
        keys: &Keys<'c>,
    ) -> Result<()> {
        let (builder, kernel) = (emitter.builder, self.kernel);
        let width = i64::from(kernel.lanes());
        if kernel.form.attention.logits != kernel.form.attention.scores {
            emitter.loop_over(&[rows.begin], &rows.ends, 1, |emitter, row| {
                let first = emitter.named((row - rows.begin) * kernel.scores.m.c + width)?;
                let row = emitter.scope.emit(builder, row)?;
                let none = builder.zero(emitter.vector);
                self.logits(emitter, place, (row, first), keys, none, |_, none| none).map(|_| ())
            })?;
        }
        let bytes = kernel.scores.element_type.byte_width() as i64;
        let rounds = i64::from(kernel.form.weight_type == ElementType::BF16);
        let (logits, sums) = (self.sides[0].0.c, self.sides[1].0.c);
        let own = rows.begin - place.rows.begin;
        let row_count: Vec<Expr<'c>> = rows.ends.iter().map(|&end| end - rows.begin).collect();
        let columns = Span::within(keys.first, kernel.block_keys(), kernel.form.keys());
        let key_count: Vec<Expr<'c>> = columns.ends.iter().map(|&end| end - keys.first).collect();
        let address = |emitter: &Emitter<'e, 'c>, memref, first: Expr<'c>| {
            address_in(builder, &emitter.scope, memref, first * bytes)
        };
        let arguments = [
            emitter.constant_words(&[
                kernel.scores.m.c * bytes,
                kernel.product.m.c * bytes,
                kernel.product.n.size,
                rounds,
            ])?,
            address(emitter, logits, emitter.scope.constant(width))?,
            address(emitter, self.most, own)?,
            address(emitter, self.total, own)?,
            address(emitter, sums, own * kernel.product.m.c)?,
            emitter.smallest(&row_count)?,
            emitter.smallest(&key_count)?,
            emitter.scope.emit(builder, keys.number)?,
        ];
        call_runtime(emitter.builder, &format!("halo_weigh_f32x{width}"), &arguments);
        Ok(())
    }

    /// Makes logits of the scores of a row, of which the first is at an index, and combines their vectors.
    fn logits(
        &mut self,
        emitter: &mut Emitter<'e, 'c>,
        place: &Place<'c>,
        (row, first): (Value<'c>, Expr<'c>),
        keys: &Keys<'c>,
        start: Value<'c>,
        combine: impl Fn(Value<'c>, Value<'c>) -> Value<'c>,
    ) -> Result<Value<'c>> {
        let (logits, width) = (self.sides[0].0.c, i64::from(self.kernel.lanes()));
        self.over_keys(emitter, keys, logits, first, start, &mut |task, emitter, score, at, made| {
            let logit = task.logit(emitter, place, row, keys.first + at, score)?;
            emitter.store_vector(logit, logits, first + at, width)?;
            Ok(combine(logit, made))
        })
    }

    /// Multiplies the sums so far of a row.
    fn scale_sums(&self, emitter: &mut Emitter<'e, 'c>, row: Expr<'c>, scale: Value<'c>) -> Result<()> {
        let (builder, width) = (emitter.builder, i64::from(self.kernel.lanes()));
        let sums = self.sides[1].0.c;
        let scale = builder.broadcast(scale, Some(self.kernel.lanes()));
        let (begin, end) = (emitter.scope.constant(0), emitter.scope.constant(self.kernel.product.n.size));
        let first = emitter.named(row * self.kernel.product.m.c)?;
        // What is behind the features of a row is nobody's.
        emitter.loop_over(&[begin], &[end], width, |emitter, feature| {
            let sum = emitter.load_vector(sums, first + feature, width)?;
            emitter.store_vector(builder.mulf(sum, scale), sums, first + feature, width)
        })
    }

    /// Goes through the vectors of a row of a block, of which the elements from `first` are read: the body gets a vector, its
    /// place in the block, and what was made so far. The last vector of all keys may overlap the one before it; in what it
    /// made, lanes of elements that were there before are those of `start`.
    fn over_keys(
        &mut self,
        emitter: &mut Emitter<'e, 'c>,
        keys: &Keys<'c>,
        array: Value<'c>,
        first: Expr<'c>,
        start: Value<'c>,
        body: &mut dyn FnMut(&mut Self, &mut Emitter<'e, 'c>, Value<'c>, Expr<'c>, Value<'c>) -> Result<Value<'c>>,
    ) -> Result<Value<'c>> {
        let (builder, kernel) = (emitter.builder, self.kernel);
        let (width, block) = (i64::from(kernel.lanes()), kernel.block_keys());
        let count = kernel.form.keys();
        let rest = count % width;
        let in_last = count - (kernel.product.blocks() - 1) * block;
        let last_place = emitter.scope.constant(in_last - width);
        // It is read before its first lanes are written.
        let last = match rest {
            0 => None,
            _ => Some(emitter.load_vector(array, first + last_place, width)?),
        };
        let begin = emitter.scope.constant(0);
        let mut ends = vec![emitter.scope.constant(block / width * width)];
        if count % block != 0 {
            ends.push(-keys.first + count / width * width);
        }
        let made = emitter.accumulate(&[begin], &ends, width, &[start], |emitter, at, made| {
            let vector = emitter.load_vector(array, first + at, width)?;
            Ok(vec![body(self, emitter, vector, at, made[0])?])
        })?[0];
        let Some(last) = last else { return Ok(made) };
        let is_last = emitter.conditions(&[keys.first + (in_last - count)], true)?;
        let results = builder.affine_if(&is_last, &[emitter.vector], |_, is_last| {
            if !is_last {
                return Ok(vec![made]);
            }
            let outer = emitter.scope.len();
            let new = body(self, emitter, last, last_place, made);
            emitter.scope.truncate(outer);
            let known = builder.constant_mask(kernel.lanes(), width - rest);
            Ok::<_, LoweringError>(vec![builder.select(known, made, new?)])
        })?;
        Ok(results[0])
    }

    /// What the fusion makes of a vector of scores.
    fn logit(
        &mut self,
        emitter: &mut Emitter<'e, 'c>,
        place: &Place<'c>,
        row: Value<'c>,
        key: Expr<'c>,
        score: Value<'c>,
    ) -> Result<Value<'c>> {
        let (builder, kernel) = (emitter.builder, self.kernel);
        let key = emitter.scope.emit(builder, key)?;
        let element_type = kernel.scores.element_type;
        self.elements.nested(|elements| {
            let mut index = kernel.index(elements, place, row);
            let keys = Interval::of_size((kernel.form.keys() - i64::from(kernel.lanes()) + 1).max(1));
            let key = elements.scope.add_variable(keys, Binding::Dimension(key));
            let lane = elements.scope.add_lanes(kernel.lanes());
            if let Some(last) = index.last_mut() {
                *last = elements.scope.simplify(key + lane);
            }
            elements.combined.insert(kernel.form.attention.scores, RegisterValue::real(builder, element_type, score));
            let logit = elements.evaluate(kernel.form.attention.logits, &index)?;
            let logit = scalar::convert::convert(builder, &logit, element_type)
                .ok_or_else(|| LoweringError::bug("logits of another class"))?;
            Ok(scalar::splat(builder, &logit, Some(kernel.lanes())).value)
        })
    }

    /// The exponential of a number.
    fn power(&self, builder: &OpBuilder<'c>, value: RegisterValue<'c>) -> Result<RegisterValue<'c>> {
        let exponential = self.elements.computation.get(self.kernel.form.attention.exponential);
        scalar::elementwise(builder, OpKind::Exponential, &exponential.attributes, &[value], value.element_type)
    }

    /// Divides the sums of the task's rows and stores them.
    fn finish(&mut self, emitter: &mut Emitter<'e, 'c>, place: &Place<'c>) -> Result<()> {
        let (builder, kernel) = (emitter.builder, self.kernel);
        let lanes = kernel.lanes();
        let (features, width) = (kernel.product.n.size, i64::from(lanes));
        emitter.turn_to(&self.sides[1].0);
        emitter.loop_over(&[place.rows.begin], &place.rows.ends, 1, |emitter, row| {
            let own = emitter.named(row - place.rows.begin)?;
            let total = emitter.scope.place(builder, &[own])?.load(builder, self.total, emitter.element);
            let total = builder.broadcast(total, Some(lanes));
            let row_value = emitter.scope.emit(builder, row)?;
            let first = emitter.named(own * kernel.product.m.c)?;
            let zero = emitter.scope.constant(0);
            let store = |task: &mut Self, emitter: &mut Emitter<'e, 'c>, feature: Expr<'c>, lanes: u32| {
                let vector = builder.vector_type(lanes, emitter.element);
                let sum = emitter.scope.place(builder, &[first + feature])?.load(builder, emitter.c, vector);
                let total = match i64::from(lanes) == width {
                    true => total,
                    false => builder.broadcast(builder.extract_lane(total, 0), Some(lanes)),
                };
                let value = RegisterValue::real(builder, kernel.scores.element_type, builder.divf(sum, total));
                let feature = emitter.scope.emit(builder, feature)?;
                task.store(place, row_value, feature, &value)
            };
            let whole = features / width * width;
            if whole > 0 {
                let end = emitter.scope.constant(whole);
                emitter.loop_over(&[zero], &[end], width, |emitter, feature| store(self, emitter, feature, lanes))?;
            }
            match features - whole {
                0 => Ok(()),
                rest => store(self, emitter, emitter.scope.constant(whole), rest as u32),
            }
        })
    }

    /// Stores a vector of the features of a row.
    fn store(
        &mut self,
        place: &Place<'c>,
        row: Value<'c>,
        feature: Value<'c>,
        value: &RegisterValue<'c>,
    ) -> Result<()> {
        let (kernel, output) = (self.kernel, self.output);
        let lanes = value.lanes.ok_or_else(|| LoweringError::bug("features that are no vector"))?;
        self.elements.nested(|elements| {
            let logits = kernel.index(elements, place, row);
            let features = Interval::of_size(kernel.product.n.size - i64::from(lanes) + 1);
            let feature = elements.scope.add_variable(features, Binding::Dimension(feature));
            let feature = feature + elements.scope.add_lanes(lanes);
            let (feature, zero) = (elements.scope.simplify(feature), elements.scope.constant(0));
            let index = kernel.form.result_index(&logits, feature, zero);
            let value = scalar::convert::convert(elements.builder, value, output.element_type)
                .ok_or_else(|| LoweringError::bug("a result of another class"))?;
            elements.store(output, &index, &value)
        })
    }
}
