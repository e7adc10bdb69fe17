//! Code of a product: the loops over its blocks, the packing of panels, the register tile.
//!
//! Positions are affine expressions of the loops' variables; those that several accesses share are `affine.apply`s.

use hlo::element_type::ElementType;
use indexing::{Expr, Interval};
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::control::AffineConditions;

use super::{Axis, BLOCK_K, BLOCK_M, MatMul, PANELS_PER_GROUP, parts, positions};
use crate::error::LoweringError;
use crate::kernel::Range;
use crate::memory::ArrayRef;
use crate::scalar;
use crate::scope::{Binding, Scope};

type Result<T> = std::result::Result<T, LoweringError>;

/// Emits tasks of the product of `lhs` and `rhs` into `c`: all of them, or a range.
pub fn emit_matmul<'c>(
    builder: &OpBuilder<'c>,
    product: &MatMul,
    [lhs, rhs, c]: [&ArrayRef<'c>; 3],
    range: Range<'c>,
) -> Result<()> {
    let [a, b] = if product.swapped { [rhs, lhs] } else { [lhs, rhs] };
    let element = scalar::memory_type(builder, product.element_type);
    let mut blocks = parts(product.k.size, BLOCK_K);
    let mut block_k = parts(product.k.size, blocks);
    if blocks > 1 {
        // Whole vectors, so that only the last block has a rest.
        block_k = parts(block_k, i64::from(product.lanes)) * i64::from(product.lanes);
        blocks = parts(product.k.size, block_k);
    }
    let packed_size = PANELS_PER_GROUP * product.panel() * block_k;
    let packed = builder.in_prologue(|builder| builder.stack_buffer(builder.memref_type(&[packed_size], element), 64));
    let mut emitter = Emitter {
        builder,
        scope: Scope::new(builder.context()),
        product,
        a: a.flat(builder),
        b: b.flat(builder),
        c: c.flat(builder),
        packed,
        block_k,
        element,
        vector: builder.vector_type(product.lanes, element),
    };
    let (mut lower, mut upper) = (vec![emitter.scope.constant(0)], vec![emitter.scope.constant(product.tasks())]);
    if let Some((begin, end)) = range {
        let mut variable = |value| emitter.scope.add_variable(Interval::new(0, i64::MAX), Binding::Symbol(value));
        lower.push(variable(begin));
        upper.push(variable(end));
    }
    emitter.loop_over(&lower, &upper, 1, |emitter, task| emitter.task(task, blocks))
}

struct Emitter<'e, 'c> {
    builder: &'e OpBuilder<'c>,
    scope: Scope<'c>,
    product: &'e MatMul,
    a: Value<'c>,
    b: Value<'c>,
    c: Value<'c>,
    /// Panels of B.
    packed: Value<'c>,
    /// Contracted positions in a block.
    block_k: i64,
    element: Type<'c>,
    vector: Type<'c>,
}

/// Element offsets of a task in the three arrays.
#[derive(Clone, Copy)]
struct Offsets<'c> {
    a: Expr<'c>,
    b: Expr<'c>,
    c: Expr<'c>,
}

/// From a position to behind the smallest of others.
#[derive(Clone)]
struct Span<'c> {
    begin: Expr<'c>,
    ends: Vec<Expr<'c>>,
}

/// What one task computes: outer rows, rows and columns.
#[derive(Clone)]
struct Part<'c> {
    positions: Span<'c>,
    rows: Span<'c>,
    columns: Span<'c>,
}

/// A block of contracted positions.
#[derive(Clone)]
struct Block<'c> {
    /// Its length is the smallest of these.
    length: Vec<Expr<'c>>,
    /// Zero for the first block of contracted positions: others add to C. `None` if there is only one.
    number: Option<Expr<'c>>,
}

/// Where a register tile works.
#[derive(Clone, Copy)]
struct Tile<'c> {
    panel_offset: Expr<'c>,
    a_offset: Expr<'c>,
    c_offset: Expr<'c>,
    row: Expr<'c>,
    column: Expr<'c>,
    rows: i64,
}

impl<'c> Emitter<'_, 'c> {
    /// `affine.for` from the largest of some positions to behind the smallest of others.
    fn loop_over(
        &mut self,
        lower: &[Expr<'c>],
        upper: &[Expr<'c>],
        step: i64,
        body: impl FnOnce(&mut Self, Expr<'c>) -> Result<()>,
    ) -> Result<()> {
        self.accumulate(lower, upper, step, &[], |emitter, position, _| body(emitter, position).map(|()| Vec::new()))?;
        Ok(())
    }

    fn accumulate(
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

    /// An expression as a variable.
    fn named(&mut self, expr: Expr<'c>) -> Result<Expr<'c>> {
        self.scope.emit_variable(self.builder, expr)
    }

    /// The quotient by a size stays in `rest`, the remainder is returned.
    fn split(&mut self, rest: &mut Expr<'c>, size: i64) -> Result<Expr<'c>> {
        if size == 1 {
            return Ok(self.scope.constant(0));
        }
        let position = self.scope.simplify(rest.modulo(size));
        let quotient = self.scope.simplify(rest.floordiv(size));
        *rest = self.named(quotient)?;
        self.named(position)
    }

    /// Offsets moved to a position that counts through some axes.
    fn moved(&mut self, offsets: &Offsets<'c>, axes: &[Axis], position: Expr<'c>) -> Result<Offsets<'c>> {
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

    fn task(&mut self, task: Expr<'c>, blocks: i64) -> Result<()> {
        let product = self.product;
        let mut rest = task;
        let row_task = self.split(&mut rest, product.row_tasks())?;
        let position_task = self.split(&mut rest, product.position_tasks())?;
        let group = self.split(&mut rest, product.groups())?;
        let [first_a, first_b] = product.first.map(|first| self.scope.constant(first));
        let offsets =
            self.moved(&Offsets { a: first_a, b: first_b, c: self.scope.constant(0) }, &product.batch, rest)?;
        let part = Part {
            positions: span(
                position_task * product.task_positions(),
                product.task_positions(),
                positions(&product.rows),
            ),
            rows: span(row_task * product.task_rows(), product.task_rows(), product.m.size),
            columns: span(
                group * (product.panel() * PANELS_PER_GROUP),
                product.panel() * PANELS_PER_GROUP,
                product.n.size,
            ),
        };
        let all = blocks * positions(&product.contracted);
        if all == 1 {
            return self.block(&offsets, &part, self.scope.constant(0), None);
        }
        self.loop_over(&[self.scope.constant(0)], &[self.scope.constant(all)], 1, |emitter, number| {
            let mut outer = number;
            let first_k = emitter.split(&mut outer, blocks)? * emitter.block_k;
            let offsets = emitter.moved(&offsets, &product.contracted, outer)?;
            emitter.block(&offsets, &part, first_k, Some(number))
        })
    }

    /// One block of contracted positions of one group of panels.
    fn block(
        &mut self,
        offsets: &Offsets<'c>,
        part: &Part<'c>,
        first_k: Expr<'c>,
        number: Option<Expr<'c>>,
    ) -> Result<()> {
        let product = self.product;
        let length = match product.k.size % self.block_k {
            0 => vec![self.scope.constant(self.block_k)],
            _ => vec![-first_k + product.k.size, self.scope.constant(self.block_k)],
        };
        let block = Block { length, number };
        let offsets = Offsets {
            a: self.named(offsets.a + first_k * product.k.a)?,
            b: self.named(offsets.b + first_k * product.k.b)?,
            c: offsets.c,
        };
        self.pack(offsets.b, &part.columns, &block)?;
        // A block of A: rows of one position, or several positions with few rows.
        let block_rows = BLOCK_M / product.tile_rows * product.tile_rows;
        let block_positions = (BLOCK_M / product.m.size).max(1);
        let within =
            |begin: Expr<'c>, size: i64, ends: &[Expr<'c>]| Span { begin, ends: [&[begin + size], ends].concat() };
        let first_column = part.columns.begin;
        self.positions(&part.positions, block_positions, |emitter, position| {
            let here = within(position, block_positions, &part.positions.ends);
            emitter.loop_over(&[part.rows.begin], &part.rows.ends, block_rows, |emitter, row| {
                let rows = within(row, block_rows, &part.rows.ends);
                emitter.panels(&part.columns, |emitter, column| {
                    let panel_offset = (column - first_column) * emitter.block_k;
                    emitter.positions(&here, 1, |emitter, position| {
                        let offsets = emitter.moved(&offsets, &product.rows, position)?;
                        emitter.rows(&block, panel_offset, &offsets, &rows, column)
                    })
                })
            })
        })
    }

    fn panels(&mut self, columns: &Span<'c>, body: impl FnOnce(&mut Self, Expr<'c>) -> Result<()>) -> Result<()> {
        self.loop_over(&[columns.begin], &columns.ends, self.product.panel(), body)
    }

    /// A loop over positions of the outer rows, if there are several.
    fn positions(
        &mut self,
        span: &Span<'c>,
        step: i64,
        body: impl FnOnce(&mut Self, Expr<'c>) -> Result<()>,
    ) -> Result<()> {
        if self.product.rows.is_empty() {
            return body(self, self.scope.constant(0));
        }
        self.loop_over(&[span.begin], &span.ends, step, body)
    }

    /// The tiles of a block of rows in one panel, with their variants at the edges.
    fn rows(
        &mut self,
        block: &Block<'c>,
        panel_offset: Expr<'c>,
        offsets: &Offsets<'c>,
        rows: &Span<'c>,
        column: Expr<'c>,
    ) -> Result<()> {
        let product = self.product;
        let tile = product.tile_rows;
        let rest = product.m.size % tile;
        let place = |row: Expr<'c>, rows: i64| Tile {
            panel_offset,
            a_offset: offsets.a,
            c_offset: offsets.c,
            row,
            column,
            rows,
        };
        let begin = &[rows.begin];
        if rest == 0 {
            return self.loop_over(begin, &rows.ends, tile, |emitter, row| {
                emitter.by_width(column, |emitter, columns| emitter.tile(block, &place(row, tile), columns))
            });
        }
        let edge = product.m.size - rest;
        let whole = [&rows.ends[..], &[self.scope.constant(edge)]].concat();
        self.loop_over(begin, &whole, tile, |emitter, row| {
            emitter.by_width(column, |emitter, columns| emitter.tile(block, &place(row, tile), columns))
        })?;
        // Where the block reaches the end of the rows.
        let reaches: Vec<Expr<'c>> = rows.ends.iter().map(|&end| end - product.m.size).collect();
        let conditions = self.conditions(&reaches, false)?;
        let builder = self.builder;
        builder.affine_if_then(&conditions, |_| {
            let outer = self.scope.len();
            let result = self.by_width(column, |emitter, columns| {
                emitter.tile(block, &place(emitter.scope.constant(edge), rest), columns)
            });
            self.scope.truncate(outer);
            result
        })
    }

    fn conditions(&self, exprs: &[Expr<'c>], equality: bool) -> Result<AffineConditions<'c>> {
        let values = self.scope.affine_bounds(exprs)?;
        Ok(AffineConditions { values, equalities: vec![equality; exprs.len()] })
    }

    /// Code for the columns of a panel: all of a whole one, those that the last one has.
    fn by_width(&mut self, column: Expr<'c>, mut body: impl FnMut(&mut Self, i64) -> Result<()>) -> Result<()> {
        let (size, panel) = (self.product.n.size, self.product.panel());
        let edge = size % panel;
        if edge == 0 || size < panel {
            return body(self, if edge == 0 { panel } else { edge });
        }
        let is_whole = self.conditions(&[-column + (size - panel)], false)?;
        let builder = self.builder;
        builder.affine_if(&is_whole, &[], |_, is_whole| {
            let outer = self.scope.len();
            let result = body(self, if is_whole { panel } else { edge });
            self.scope.truncate(outer);
            result.map(|()| Vec::new())
        })?;
        Ok(())
    }

    /// Copies a block of B into panels of consecutive rows of k, missing columns as zero.
    fn pack(&mut self, b_offset: Expr<'c>, columns: &Span<'c>, block: &Block<'c>) -> Result<()> {
        let product = self.product;
        self.panels(columns, |emitter, column| {
            let panel_offset = emitter.named((column - columns.begin) * emitter.block_k)?;
            let source = emitter.named(b_offset + column * product.n.b)?;
            emitter.by_width(column, |emitter, columns| match product.n.b {
                1 => emitter.pack_rows(panel_offset, source, columns, block),
                _ => emitter.pack_transposed(panel_offset, source, columns, block),
            })
        })
    }

    /// Packs a panel of a B whose columns are consecutive.
    fn pack_rows(&mut self, panel_offset: Expr<'c>, source: Expr<'c>, columns: i64, block: &Block<'c>) -> Result<()> {
        let product = self.product;
        let width = i64::from(product.lanes);
        self.loop_over(&[self.scope.constant(0)], &block.length, 1, |emitter, k| {
            let from = emitter.named(source + k * product.k.b)?;
            let to = emitter.named(panel_offset + k * product.panel())?;
            for part in 0..product.tile_vectors {
                let here = (columns - part * width).clamp(0, width);
                let value = emitter.load_b(from + part * width, here)?;
                emitter.store_vector(value, emitter.packed, to + part * width, width)?;
            }
            Ok(())
        })
    }

    /// Packs a panel of a B whose columns are consecutive along k: squares are transposed in registers.
    fn pack_transposed(
        &mut self,
        panel_offset: Expr<'c>,
        source: Expr<'c>,
        columns: i64,
        block: &Block<'c>,
    ) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let (panel, width) = (product.panel(), i64::from(product.lanes));
        let zero = self.scope.constant(0);
        let mut first_single = zero;
        if product.k.b == 1 && columns == panel {
            let whole: Vec<Expr<'c>> = block.length.iter().map(|length| length.floordiv(width) * width).collect();
            // Blocks are whole vectors long but for the last one, which ends with the contracted positions.
            first_single = whole[0];
            self.loop_over(&[zero], &whole, width, |emitter, k| {
                for part in 0..product.tile_vectors {
                    let rows = (0..width)
                        .map(|n| {
                            let row = source + (part * width + n) * product.n.b;
                            emitter.load_b(row + k, width)
                        })
                        .collect::<Result<Vec<_>>>()?;
                    for (step, column) in transposed(builder, rows).into_iter().enumerate() {
                        let to = panel_offset + (k + step as i64) * panel;
                        emitter.store_vector(column, emitter.packed, to + part * width, width)?;
                    }
                }
                Ok(())
            })?;
        }
        let missing = builder.constant_float(self.element, 0.0);
        self.loop_over(&[first_single], &block.length, 1, |emitter, k| {
            let from = emitter.named(source + k * product.k.b)?;
            let to = emitter.named(panel_offset + k * panel)?;
            for n in 0..panel {
                let value = match n < columns {
                    true => emitter.load_element(emitter.b, product.operand_types[1], from + n * product.n.b)?,
                    false => missing,
                };
                emitter.scope.place(builder, &[to + n])?.store(builder, value, emitter.packed);
            }
            Ok(())
        })
    }

    /// One element of an operand, in the product's type.
    fn load_element(&self, from: Value<'c>, element_type: ElementType, position: Expr<'c>) -> Result<Value<'c>> {
        let builder = self.builder;
        let place = self.scope.place(builder, &[position])?;
        let loaded = place.load(builder, from, scalar::memory_type(builder, element_type));
        Ok(scalar::from_memory(builder, element_type, None, loaded).value)
    }

    /// `count` elements of B in the first lanes of a vector of the product's type, the others zero.
    fn load_b(&self, position: Expr<'c>, count: i64) -> Result<Value<'c>> {
        let (builder, product) = (self.builder, self.product);
        let element_type = product.operand_types[1];
        if element_type == product.element_type {
            return self.load_vector(self.b, position, count);
        }
        let lanes = Some(product.lanes);
        let memory = scalar::load_type(builder, element_type, lanes);
        let loaded = self.load_lanes(self.b, memory, position, count)?;
        Ok(scalar::from_memory(builder, element_type, lanes, loaded).value)
    }

    /// `count` elements from memory in the first lanes of a vector, the others zero.
    fn load_vector(&self, from: Value<'c>, position: Expr<'c>, count: i64) -> Result<Value<'c>> {
        self.load_lanes(from, self.vector, position, count)
    }

    fn load_lanes(&self, from: Value<'c>, vector: Type<'c>, position: Expr<'c>, count: i64) -> Result<Value<'c>> {
        let builder = self.builder;
        if count == i64::from(self.product.lanes) {
            let place = self.scope.place(builder, &[position])?;
            return Ok(place.load(builder, from, vector));
        }
        let zero = builder.zero(vector);
        if count == 0 {
            return Ok(zero);
        }
        let position = self.scope.emit(builder, position)?;
        let mask = builder.constant_mask(self.product.lanes, count);
        Ok(builder.value("vector.maskedload", &[from, position, mask, zero], vector, &[]))
    }

    fn store_vector(&self, value: Value<'c>, to: Value<'c>, position: Expr<'c>, count: i64) -> Result<()> {
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

    /// One register tile over a block of k.
    fn tile(&mut self, block: &Block<'c>, place: &Tile<'c>, columns: i64) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let vectors = parts(columns, width);
        let a_row = self.named(place.a_offset + place.row * product.m.a)?;
        let c_first = place.c_offset + place.row * product.m.c + place.column * product.n.c;
        let c_first = self.named(c_first)?;
        let panel_offset = self.named(place.panel_offset)?;
        let zero = builder.constant_float(self.vector, 0.0);
        let zeros = vec![zero; (place.rows * vectors) as usize];
        // Position in C and number of columns of each vector of the tile.
        let vectors_of_c: Vec<(Expr<'c>, i64)> = (0..place.rows)
            .flat_map(|row| (0..vectors).map(move |part| (row, part)))
            .map(|(row, part)| (c_first + (row * product.m.c + part * width), (columns - part * width).min(width)))
            .collect();
        let start = match &block.number {
            None => zeros,
            Some(number) => {
                let is_first = self.conditions(&[*number], true)?;
                builder.affine_if(&is_first, &vec![self.vector; zeros.len()], |_, is_first| match is_first {
                    true => Ok(zeros.clone()),
                    false => vectors_of_c
                        .iter()
                        .map(|(position, count)| self.load_vector(self.c, *position, *count))
                        .collect::<Result<_>>(),
                })?
            }
        };
        let sums = self.accumulate(&[self.scope.constant(0)], &block.length, 1, &start, |emitter, k, sums| {
            let from = emitter.named(panel_offset + k * product.panel())?;
            let b = (0..vectors)
                .map(|part| emitter.load_vector(emitter.packed, from + part * width, width))
                .collect::<Result<Vec<_>>>()?;
            let a_first = emitter.named(a_row + k * product.k.a)?;
            let mut next = Vec::with_capacity(sums.len());
            for row in 0..place.rows {
                let position = a_first + row * product.m.a;
                let a = emitter.load_element(emitter.a, product.operand_types[0], position)?;
                let a = builder.broadcast(a, Some(product.lanes));
                for part in 0..vectors {
                    next.push(builder.fma(a, b[part as usize], sums[(row * vectors + part) as usize]));
                }
            }
            Ok(next)
        })?;
        for ((position, count), sum) in vectors_of_c.iter().zip(sums) {
            self.store_vector(sum, self.c, *position, *count)?;
        }
        Ok(())
    }
}

/// `length` positions from `begin`, within `size`.
fn span<'c>(begin: Expr<'c>, length: i64, size: i64) -> Span<'c> {
    let mut ends = vec![begin + length];
    if size % length.max(1) != 0 {
        ends.push(begin.constant_beside(size));
    }
    Span { begin, ends }
}

/// The transpose of a square of vectors: `log2(n)` rounds that interleave vectors half the square apart.
fn transposed<'c>(builder: &OpBuilder<'c>, mut rows: Vec<Value<'c>>) -> Vec<Value<'c>> {
    let count = rows.len() as u32;
    let low: Vec<u32> = (0..count).map(|lane| lane / 2 + lane % 2 * count).collect();
    let high: Vec<u32> = low.iter().map(|lane| lane + count / 2).collect();
    let half = rows.len() / 2;
    let mut round = 1;
    while round < rows.len() {
        let mut next = Vec::with_capacity(rows.len());
        for pair in 0..half {
            next.push(builder.shuffle(rows[pair], rows[pair + half], &low));
            next.push(builder.shuffle(rows[pair], rows[pair + half], &high));
        }
        rows = next;
        round *= 2;
    }
    rows
}
