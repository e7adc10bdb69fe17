//! What the codes of products share: loops, positions in the arrays, loads and stores.
//!
//! Positions are affine expressions of the loops' variables; those that several accesses share are `affine.apply`s.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::Computation;
use indexing::{Expr, Interval};
use melior::dialect::arith::CmpiPredicate;
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use super::epilogue::Epilogue;
use super::prologue::{Position, Source};
use super::{Axis, Form, MatMul};
use crate::access::prefetch;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::kernel::Range;
use crate::memory::{ArrayRef, Inputs};
use crate::scalar;
use crate::scope::{Binding, Scope};
use crate::transposed::Vectors;

pub(super) type Result<T> = std::result::Result<T, LoweringError>;

/// Emits tasks of the product of two of the `inputs` into one of the `outputs`, with what the computation makes of its elements: all of
/// them, or a range. Where the address of B's panels is given, it is 0 if there are none.
pub(crate) fn emit_matmul<'c>(
    builder: &OpBuilder<'c>,
    product: &MatMul,
    computation: &Computation,
    inputs: Inputs<'_, 'c>,
    outputs: &[ArrayRef<'c>],
    (range, packed): (Range<'c>, Option<Value<'c>>),
) -> Result<()> {
    let c = outputs.get(product.output).ok_or_else(|| LoweringError::bug("a product without its array"))?;
    let array = |source: Source| match source {
        Source::Input(number) => inputs.get(number).map(|array| array.flat(builder)),
        Source::Computed { .. } => None,
    };
    let computes = [Operand::A, Operand::B].into_iter().any(|operand| product.computes(operand));
    let element = scalar::memory_type(builder, product.element_type);
    let mut emitter = Emitter {
        builder,
        scope: Scope::new(builder.context()),
        product,
        operands: product.operands.map(array),
        packed: None,
        c: c.flat(builder),
        prologue: computes.then(|| Elemental::new(builder, computation, inputs, 1)),
        epilogue: Epilogue::of(Elemental::new(builder, computation, inputs, 1), outputs),
        element,
        vector: builder.vector_type(product.lanes, element),
    };
    emitter.packed = packed.map(|address| emitter.packed_b(address));
    let panels =
        (product.form == Form::Tiled).then(|| emitter.panel_buffers(product.panels_per_group(), product.block_rows()));
    emitter.over_tasks(product.tasks(), range, |emitter, task| {
        emitter.pad_result(task)?;
        match panels {
            Some(panels) => emitter.tiled_task(task, panels),
            None => emitter.streamed_task(task),
        }
    })
}

pub(super) struct Emitter<'e, 'c> {
    pub(super) builder: &'e OpBuilder<'c>,
    pub(super) scope: Scope<'c>,
    pub(super) product: &'e MatMul,
    /// A and B, where they are in memory.
    pub(super) operands: [Option<Value<'c>>; 2],
    pub(super) packed: Option<PackedB<'c>>,
    pub(super) c: Value<'c>,
    /// What computes elements of A and B.
    pub(super) prologue: Option<Elemental<'e, 'c>>,
    pub(super) epilogue: Option<Epilogue<'e, 'c>>,
    pub(super) element: Type<'c>,
    pub(super) vector: Type<'c>,
}

/// B in panels, if an earlier run has packed it.
#[derive(Clone, Copy)]
pub(super) struct PackedB<'c> {
    /// Where they are.
    pub(super) address: Value<'c>,
    /// Whether there are none.
    pub(super) is_absent: Value<'c>,
    /// The same as a number, 1 if there are some, where tasks are others then.
    pub(super) is_there: Option<Expr<'c>>,
}

/// Which operand is read.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    A = 0,
    B = 1,
}

/// Element offsets in the three arrays.
#[derive(Clone, Copy)]
pub(super) struct Offsets<'c> {
    pub(super) a: Expr<'c>,
    pub(super) b: Expr<'c>,
    pub(super) c: Expr<'c>,
}

/// From a position to behind the smallest of others.
#[derive(Clone)]
pub(super) struct Span<'c> {
    pub(super) begin: Expr<'c>,
    pub(super) ends: Vec<Expr<'c>>,
}

impl<'c> Span<'c> {
    /// `length` positions from `begin`, within `size`.
    pub(super) fn within(begin: Expr<'c>, length: i64, size: i64) -> Self {
        let mut ends = vec![begin + length];
        if size % length.max(1) != 0 {
            ends.push(begin.constant_beside(size));
        }
        Span { begin, ends }
    }
}

impl<'c> Emitter<'_, 'c> {
    /// `affine.for` from the largest of some positions to behind the smallest of others.
    pub(super) fn loop_over(
        &mut self,
        lower: &[Expr<'c>],
        upper: &[Expr<'c>],
        step: i64,
        body: impl FnOnce(&mut Self, Expr<'c>) -> Result<()>,
    ) -> Result<()> {
        self.accumulate(lower, upper, step, &[], |emitter, position, _| body(emitter, position).map(|()| Vec::new()))?;
        Ok(())
    }

    /// A loop over all tasks, or over those of a range.
    pub(super) fn over_tasks(
        &mut self,
        tasks: i64,
        range: Range<'c>,
        body: impl FnOnce(&mut Self, Expr<'c>) -> Result<()>,
    ) -> Result<()> {
        let (mut lower, mut upper) = (vec![self.scope.constant(0)], vec![self.scope.constant(tasks)]);
        if let Some((begin, end)) = range {
            let mut variable = |value| self.scope.add_variable(Interval::new(0, i64::MAX), Binding::Symbol(value));
            lower.push(variable(begin));
            upper.push(variable(end));
        }
        self.loop_over(&lower, &upper, 1, body)
    }

    pub(super) fn accumulate(
        &mut self,
        lower: &[Expr<'c>],
        upper: &[Expr<'c>],
        step: i64,
        initial: &[Value<'c>],
        body: impl FnOnce(&mut Self, Expr<'c>, &[Value<'c>]) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = self.builder;
        let first = lower.iter().map(|&bound| self.scope.range(bound).lower).max();
        let last = upper.iter().map(|&bound| self.scope.range(bound).upper).min();
        let (Some(first), Some(last)) = (first, last) else { return Err(LoweringError::bug("a loop without bounds")) };
        let range = Interval::new(first, last.saturating_sub(1).max(first));
        let (lower, upper) = (self.scope.affine_bounds(lower)?, self.scope.affine_bounds(upper)?);
        builder.affine_for(&lower, &upper, step, initial, |_, position, carried| {
            let outer = self.scope.len();
            let position = self.scope.add_variable(range, Binding::Dimension(position));
            let result = body(self, position, carried);
            self.scope.truncate(outer);
            result
        })
    }

    /// Loops over whole groups of `count` positions of a span in `size`, and over the rest, if there is one.
    pub(super) fn in_groups(
        &mut self,
        span: &Span<'c>,
        size: i64,
        count: i64,
        mut body: impl FnMut(&mut Self, Expr<'c>, i64) -> Result<()>,
    ) -> Result<()> {
        let whole = size / count * count;
        let until = |end: i64| [&span.ends[..], &[span.begin.constant_beside(end)]].concat();
        if whole > 0 {
            self.loop_over(&[span.begin], &until(whole), count, |emitter, position| body(emitter, position, count))?;
        }
        if whole == size {
            return Ok(());
        }
        // Only the span that reaches the end has the position where the rest begins.
        let begin = [span.begin, span.begin.constant_beside(whole)];
        self.loop_over(&begin, &until(whole + 1), 1, |emitter, position| body(emitter, position, size - whole))
    }

    /// An expression as a variable.
    pub(super) fn named(&mut self, expr: Expr<'c>) -> Result<Expr<'c>> {
        self.scope.emit_variable(self.builder, expr)
    }

    /// The quotient by a size stays in `rest`, the remainder is returned.
    pub(super) fn split(&mut self, rest: &mut Expr<'c>, size: i64) -> Result<Expr<'c>> {
        if size == 1 {
            return Ok(self.scope.constant(0));
        }
        let position = self.scope.simplify(rest.modulo(size));
        let quotient = self.scope.simplify(rest.floordiv(size));
        *rest = self.named(quotient)?;
        self.named(position)
    }

    /// Offsets moved to a position that counts through some axes.
    pub(super) fn moved(&mut self, offsets: &Offsets<'c>, axes: &[Axis], position: Expr<'c>) -> Result<Offsets<'c>> {
        let mut rest = position;
        let Offsets { mut a, mut b, mut c } = *offsets;
        for (number, axis) in axes.iter().enumerate().rev() {
            let position = if number == 0 { rest } else { self.split(&mut rest, axis.size)? };
            a = a + position * axis.a;
            b = b + position * axis.b;
            c = c + position * axis.c;
        }
        Ok(Offsets { a: self.named(a)?, b: self.named(b)?, c: self.named(c)? })
    }

    pub(super) fn conditions(&self, exprs: &[Expr<'c>], equality: bool) -> Result<AffineConditions<'c>> {
        let values = self.scope.affine_bounds(exprs)?;
        Ok(AffineConditions { values, equalities: vec![equality; exprs.len()] })
    }

    /// B in panels at an address, if that is not 0.
    fn packed_b(&mut self, address: Value<'c>) -> PackedB<'c> {
        let builder = self.builder;
        let none = builder.constant_index(0);
        let is_absent = builder.cmpi(CmpiPredicate::Eq, address, none);
        let is_there = self.product.slice_rows().map(|_| {
            let number = builder.select(is_absent, none, builder.constant_index(1));
            self.scope.add_variable(Interval::new(0, 1), Binding::Symbol(number))
        });
        PackedB { address, is_absent, is_there }
    }

    /// The offsets of the task's product in its batch.
    pub(super) fn batch_offsets(&mut self, batch: Expr<'c>) -> Result<Offsets<'c>> {
        let [a, b, c] = self.product.first.map(|first| self.scope.constant(first));
        self.moved(&Offsets { a, b, c }, &self.product.batch, batch)
    }

    /// One element of an operand, or as many as a step takes, in a lane of the product's type.
    pub(super) fn load_element(&mut self, operand: Operand, position: Position<'c>) -> Result<Value<'c>> {
        let (builder, product) = (self.builder, self.product);
        if let Source::Computed { value, run } = product.operands[operand as usize] {
            return self.compute((value, run), position, None);
        }
        let element_type = product.operand_types[operand as usize];
        let place = self.scope.place(builder, &[position.first])?;
        if product.depth > 1 {
            let group = scalar::load_type(builder, element_type, Some(product.depth as u32));
            let loaded = place.load(builder, self.operand(operand)?, group);
            return Ok(builder.extract_lane(self.in_lanes(operand, loaded, 1), 0));
        }
        let memory = scalar::memory_type(builder, element_type);
        let loaded = place.load(builder, self.operand(operand)?, memory);
        self.in_product_type(element_type, None, loaded)
    }

    /// `count` elements of an operand (or groups of elements, where a step takes several) in the first lanes of a vector
    /// of the product's type, the others zero.
    pub(super) fn load_elements(&mut self, operand: Operand, position: Position<'c>, count: i64) -> Result<Value<'c>> {
        if let Source::Computed { value, run } = self.product.operands[operand as usize] {
            return self.compute_elements((value, run), position, count);
        }
        let (depth, lanes) = (self.product.depth, self.product.lanes);
        let loaded = self.load_memory(operand, position.first, count * depth, lanes * depth as u32)?;
        self.in_register(operand, loaded)
    }

    /// A vector of an operand's elements, as they are in memory, in the product's type.
    pub(super) fn in_register(&self, operand: Operand, loaded: Value<'c>) -> Result<Value<'c>> {
        let product = self.product;
        match product.depth {
            1 => self.in_product_type(product.operand_types[operand as usize], Some(product.lanes), loaded),
            _ => Ok(self.in_lanes(operand, loaded, product.lanes)),
        }
    }

    /// Some of an operand's elements, as many as a step takes in each lane.
    pub(super) fn in_lanes(&self, operand: Operand, elements: Value<'c>, lanes: u32) -> Value<'c> {
        let (builder, product) = (self.builder, self.product);
        let mut elements = elements;
        if product.is_of_words() {
            let word = builder.integer_type(16);
            elements = match product.operand_types[operand as usize].class() {
                ElementClass::Unsigned => builder.extui(elements, word),
                _ => builder.extsi(elements, word),
            };
        }
        builder.value("vector.bitcast", &[elements], builder.vector_type(lanes, self.element), &[])
    }

    /// Where vectors of an operand are, some distance apart.
    pub(super) fn operand_vectors(&self, operand: Operand, first: Expr<'c>, distance: i64) -> Result<Vectors<'c>> {
        let element_bytes = self.product.operand_bytes(operand);
        Ok(Vectors { memref: self.operand(operand)?, element_bytes, first, distance })
    }

    /// The array of an operand that is in memory.
    pub(super) fn operand(&self, operand: Operand) -> Result<Value<'c>> {
        self.operands[operand as usize].ok_or_else(|| LoweringError::bug("an operand that is not in memory is read"))
    }

    /// `count` elements of an operand as they are in memory in the first of some lanes, the others zero.
    pub(super) fn load_memory(
        &self,
        operand: Operand,
        position: Expr<'c>,
        count: i64,
        lanes: u32,
    ) -> Result<Value<'c>> {
        let memory = scalar::load_type(self.builder, self.product.operand_types[operand as usize], Some(lanes));
        self.load_lanes(self.operand(operand)?, memory, position, count)
    }

    /// Some elements of an operand, all there are in a vector of the product's type.
    pub(super) fn load_all(&mut self, operand: Operand, position: Position<'c>, lanes: u32) -> Result<Value<'c>> {
        if let Source::Computed { value, run } = self.product.operands[operand as usize] {
            return self.compute((value, run), position, Some(lanes));
        }
        let loaded = self.load_memory(operand, position.first, i64::from(lanes), lanes)?;
        self.in_product_type(self.product.operand_types[operand as usize], Some(lanes), loaded)
    }

    fn in_product_type(&self, from: ElementType, lanes: Option<u32>, loaded: Value<'c>) -> Result<Value<'c>> {
        let (builder, element_type) = (self.builder, self.product.element_type);
        let value = scalar::from_memory(builder, from, lanes, loaded);
        let value = scalar::convert::convert(builder, &value, element_type);
        Ok(value.ok_or_else(|| LoweringError::bug(format!("{from} in a product of {element_type}")))?.value)
    }

    /// `count` elements from memory in the first lanes of a vector, the others zero.
    pub(super) fn load_vector(&self, from: Value<'c>, position: Expr<'c>, count: i64) -> Result<Value<'c>> {
        self.load_lanes(from, self.vector, position, count)
    }

    fn load_lanes(&self, from: Value<'c>, vector: Type<'c>, position: Expr<'c>, count: i64) -> Result<Value<'c>> {
        let builder = self.builder;
        let lanes = builder.lanes_of(vector).ok_or_else(|| LoweringError::bug("vectors without lanes"))?;
        if count == i64::from(lanes) {
            let place = self.scope.place(builder, &[position])?;
            return Ok(place.load(builder, from, vector));
        }
        let zero = builder.zero(vector);
        if count == 0 {
            return Ok(zero);
        }
        let position = self.scope.emit(builder, position)?;
        let mask = builder.constant_mask(lanes, count);
        Ok(builder.value("vector.maskedload", &[from, position, mask, zero], vector, &[]))
    }

    /// Asks for an element of an operand that is read soon: where the processor does not see the order itself, since rows
    /// are pages apart, or too many are read at once.
    pub(super) fn prefetch(&self, operand: Operand, position: Expr<'c>) -> Result<()> {
        let position = self.scope.emit(self.builder, position)?;
        prefetch(self.builder, self.operand(operand)?, position);
        Ok(())
    }

    pub(super) fn store_vector(&self, value: Value<'c>, to: Value<'c>, position: Expr<'c>, count: i64) -> Result<()> {
        let builder = self.builder;
        if count == i64::from(self.product.lanes) {
            self.scope.place(builder, &[position])?.store(builder, value, to);
        } else if count > 0 {
            let position = self.scope.emit(builder, position)?;
            let mask = builder.constant_mask(self.product.lanes, count);
            builder.effect("vector.maskedstore", &[to, position, mask, value], &[]);
        }
        Ok(())
    }

    /// `a * b + sum`; where a step takes several elements, `a · b + sum`.
    pub(super) fn multiply_add(&self, a: Value<'c>, b: Value<'c>, sum: Value<'c>) -> Value<'c> {
        let builder = self.builder;
        match self.product.element_type.is_float() {
            _ if self.product.depth > 1 => self.dot_products(a, b, sum),
            true => builder.fma(a, b, sum),
            false => builder.addi(builder.muli(a, b), sum),
        }
    }

    /// The sums, with the dot products of the elements in each lane added: of bytes, unsigned ones of `a` and signed ones
    /// of `b`, of words, or of bf16.
    fn dot_products(&self, a: Value<'c>, b: Value<'c>, sum: Value<'c>) -> Value<'c> {
        let (builder, product) = (self.builder, self.product);
        if product.is_of_words() {
            let words = builder.vector_type(product.lanes * product.depth as u32, builder.integer_type(16));
            let [a, b] = [a, b].map(|operand| builder.value("vector.bitcast", &[operand], words, &[]));
            let name = match product.lanes {
                16 => "llvm.x86.avx512.pmaddw.d.512",
                8 => "llvm.x86.avx2.pmadd.wd",
                _ => "llvm.x86.sse2.pmadd.wd",
            };
            return builder.addi(builder.intrinsic(name, &[a, b], self.vector), sum);
        }
        let (element, name) = match product.element_type.is_float() {
            true => (Type::bfloat16(builder.context()), "llvm.x86.avx512bf16.dpbf16ps"),
            false => (builder.integer_type(8), "llvm.x86.avx512.vpdpbusd"),
        };
        let elements = builder.vector_type(product.lanes * product.depth as u32, element);
        let [a, b] = [a, b].map(|operand| builder.value("vector.bitcast", &[operand], elements, &[]));
        builder.intrinsic(&format!("{name}.{}", 32 * product.lanes), &[sum, a, b], self.vector)
    }

    /// Lanes of bytes that are all 128: what turns signed bytes into unsigned ones, 128 more, when they are combined by an
    /// exclusive or, and what the sums of their products have too much for each byte of B.
    pub(super) fn bytes_of_128(&self) -> Value<'c> {
        self.builder.constant_integer(self.vector, i64::from(i32::from_ne_bytes([128; 4])))
    }
}
