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
        scope: Scope::new(),
        product,
        a: a.flat(builder),
        b: b.flat(builder),
        c: c.flat(builder),
        packed,
        block_k,
        element,
        vector: builder.vector_type(product.lanes, element),
    };
    let (mut lower, mut upper) = (vec![Expr::constant(0)], vec![Expr::constant(product.tasks())]);
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
#[derive(Clone)]
struct Offsets {
    a: Expr,
    b: Expr,
    c: Expr,
}

/// From a position to behind the smallest of others.
#[derive(Clone)]
struct Span {
    begin: Expr,
    ends: Vec<Expr>,
}

/// What one task computes: outer rows, rows and columns.
#[derive(Clone)]
struct Part {
    positions: Span,
    rows: Span,
    columns: Span,
}

/// A block of contracted positions.
#[derive(Clone)]
struct Block {
    /// Its length is the smallest of these.
    length: Vec<Expr>,
    /// Zero for the first block of contracted positions: others add to C. `None` if there is only one.
    number: Option<Expr>,
}

/// Where a register tile works.
#[derive(Clone)]
struct Tile {
    panel_offset: Expr,
    a_offset: Expr,
    c_offset: Expr,
    row: Expr,
    column: Expr,
    rows: i64,
}

impl<'c> Emitter<'_, 'c> {
    /// `affine.for` from the largest of some positions to behind the smallest of others.
    fn loop_over(
        &mut self,
        lower: &[Expr],
        upper: &[Expr],
        step: i64,
        body: impl FnOnce(&mut Self, Expr) -> Result<()>,
    ) -> Result<()> {
        self.accumulate(lower, upper, step, &[], |emitter, position, _| body(emitter, position).map(|()| Vec::new()))?;
        Ok(())
    }

    fn accumulate(
        &mut self,
        lower: &[Expr],
        upper: &[Expr],
        step: i64,
        initial: &[Value<'c>],
        body: impl FnOnce(&mut Self, Expr, &[Value<'c>]) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = self.builder;
        let first = lower.iter().map(|bound| self.scope.range(bound).lower).max();
        let last = upper.iter().map(|bound| self.scope.range(bound).upper).min();
        let (Some(first), Some(last)) = (first, last) else { return Err(LoweringError::bug("a loop without bounds")) };
        let range = Interval::new(first, last.saturating_sub(1).max(first));
        let (lower, upper) = (self.scope.affine_bounds(builder, lower)?, self.scope.affine_bounds(builder, upper)?);
        builder.affine_for(&lower, &upper, step, initial, |_, position, carried| {
            let outer = self.scope.len();
            let position = self.scope.add_variable(range, Binding::Dimension(position));
            let result = body(self, position, carried);
            self.scope.truncate(outer);
            result
        })
    }

    /// An expression as a variable.
    fn named(&mut self, expr: Expr) -> Result<Expr> {
        self.scope.emit_variable(self.builder, &expr)
    }

    /// The quotient by a size stays in `rest`, the remainder is returned.
    fn split(&mut self, rest: &mut Expr, size: i64) -> Result<Expr> {
        if size == 1 {
            return Ok(Expr::constant(0));
        }
        let position = self.scope.simplify(&rest.clone().modulo(size));
        let quotient = self.scope.simplify(&rest.clone().floordiv(size));
        *rest = self.named(quotient)?;
        self.named(position)
    }

    /// Offsets moved to a position that counts through some axes.
    fn moved(&mut self, offsets: &Offsets, axes: &[Axis], position: Expr) -> Result<Offsets> {
        let mut rest = position;
        let Offsets { mut a, mut b, mut c } = offsets.clone();
        for (number, axis) in axes.iter().enumerate().rev() {
            let position = if number == 0 { rest.clone() } else { self.split(&mut rest, axis.size)? };
            a = a + position.clone() * axis.a;
            b = b + position.clone() * axis.b;
            c = c + position * axis.c;
        }
        Ok(Offsets { a: self.named(a)?, b: self.named(b)?, c: self.named(c)? })
    }

    fn task(&mut self, task: Expr, blocks: i64) -> Result<()> {
        let product = self.product;
        let mut rest = task;
        let row_task = self.split(&mut rest, product.row_tasks())?;
        let position_task = self.split(&mut rest, product.position_tasks())?;
        let group = self.split(&mut rest, product.groups())?;
        let [first_a, first_b] = product.first.map(Expr::constant);
        let offsets = self.moved(&Offsets { a: first_a, b: first_b, c: Expr::constant(0) }, &product.batch, rest)?;
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
            return self.block(&offsets, &part, Expr::constant(0), None);
        }
        self.loop_over(&[Expr::constant(0)], &[Expr::constant(all)], 1, |emitter, number| {
            let mut outer = number.clone();
            let first_k = emitter.split(&mut outer, blocks)? * emitter.block_k;
            let offsets = emitter.moved(&offsets, &product.contracted, outer)?;
            emitter.block(&offsets, &part, first_k, Some(number))
        })
    }

    /// One block of contracted positions of one group of panels.
    fn block(&mut self, offsets: &Offsets, part: &Part, first_k: Expr, number: Option<Expr>) -> Result<()> {
        let product = self.product;
        let length = match product.k.size % self.block_k {
            0 => vec![Expr::constant(self.block_k)],
            _ => vec![-first_k.clone() + product.k.size, Expr::constant(self.block_k)],
        };
        let block = Block { length, number };
        let offsets = Offsets {
            a: self.named(offsets.a.clone() + first_k.clone() * product.k.a)?,
            b: self.named(offsets.b.clone() + first_k * product.k.b)?,
            c: offsets.c.clone(),
        };
        self.pack(&offsets.b, &part.columns, &block)?;
        // A block of A: rows of one position, or several positions with few rows.
        let block_rows = BLOCK_M / product.tile_rows * product.tile_rows;
        let block_positions = (BLOCK_M / product.m.size).max(1);
        let within = |begin: &Expr, size: i64, ends: &[Expr]| Span {
            begin: begin.clone(),
            ends: [&[begin.clone() + size], ends].concat(),
        };
        let first_column = part.columns.begin.clone();
        self.positions(&part.positions, block_positions, |emitter, position| {
            let here = within(&position, block_positions, &part.positions.ends);
            emitter.loop_over(std::slice::from_ref(&part.rows.begin), &part.rows.ends, block_rows, |emitter, row| {
                let rows = within(&row, block_rows, &part.rows.ends);
                emitter.panels(&part.columns, |emitter, column| {
                    let panel_offset = (column.clone() - first_column.clone()) * emitter.block_k;
                    emitter.positions(&here, 1, |emitter, position| {
                        let offsets = emitter.moved(&offsets, &product.rows, position)?;
                        emitter.rows(&block, &panel_offset, &offsets, &rows, &column)
                    })
                })
            })
        })
    }

    fn panels(&mut self, columns: &Span, body: impl FnOnce(&mut Self, Expr) -> Result<()>) -> Result<()> {
        self.loop_over(std::slice::from_ref(&columns.begin), &columns.ends, self.product.panel(), body)
    }

    /// A loop over positions of the outer rows, if there are several.
    fn positions(&mut self, span: &Span, step: i64, body: impl FnOnce(&mut Self, Expr) -> Result<()>) -> Result<()> {
        if self.product.rows.is_empty() {
            return body(self, Expr::constant(0));
        }
        self.loop_over(std::slice::from_ref(&span.begin), &span.ends, step, body)
    }

    /// The tiles of a block of rows in one panel, with their variants at the edges.
    fn rows(
        &mut self,
        block: &Block,
        panel_offset: &Expr,
        offsets: &Offsets,
        rows: &Span,
        column: &Expr,
    ) -> Result<()> {
        let product = self.product;
        let tile = product.tile_rows;
        let rest = product.m.size % tile;
        let place = |row: Expr, rows: i64| Tile {
            panel_offset: panel_offset.clone(),
            a_offset: offsets.a.clone(),
            c_offset: offsets.c.clone(),
            row,
            column: column.clone(),
            rows,
        };
        let begin = std::slice::from_ref(&rows.begin);
        if rest == 0 {
            return self.loop_over(begin, &rows.ends, tile, |emitter, row| {
                emitter.by_width(column, |emitter, columns| emitter.tile(block, &place(row.clone(), tile), columns))
            });
        }
        let edge = product.m.size - rest;
        let whole = [&rows.ends[..], &[Expr::constant(edge)]].concat();
        self.loop_over(begin, &whole, tile, |emitter, row| {
            emitter.by_width(column, |emitter, columns| emitter.tile(block, &place(row.clone(), tile), columns))
        })?;
        // Where the block reaches the end of the rows.
        let reaches: Vec<Expr> = rows.ends.iter().map(|end| end.clone() - product.m.size).collect();
        let conditions = self.conditions(&reaches, false)?;
        let builder = self.builder;
        builder.affine_if_then(&conditions, |_| {
            let outer = self.scope.len();
            let result = self
                .by_width(column, |emitter, columns| emitter.tile(block, &place(Expr::constant(edge), rest), columns));
            self.scope.truncate(outer);
            result
        })
    }

    fn conditions(&self, exprs: &[Expr], equality: bool) -> Result<AffineConditions<'c>> {
        let values = self.scope.affine_bounds(self.builder, exprs)?;
        Ok(AffineConditions { values, equalities: vec![equality; exprs.len()] })
    }

    /// Code for the columns of a panel: all of a whole one, those that the last one has.
    fn by_width(&mut self, column: &Expr, mut body: impl FnMut(&mut Self, i64) -> Result<()>) -> Result<()> {
        let (size, panel) = (self.product.n.size, self.product.panel());
        let edge = size % panel;
        if edge == 0 || size < panel {
            return body(self, if edge == 0 { panel } else { edge });
        }
        let is_whole = self.conditions(&[-column.clone() + (size - panel)], false)?;
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
    fn pack(&mut self, b_offset: &Expr, columns: &Span, block: &Block) -> Result<()> {
        let product = self.product;
        self.panels(columns, |emitter, column| {
            let panel_offset = emitter.named((column.clone() - columns.begin.clone()) * emitter.block_k)?;
            let source = emitter.named(b_offset.clone() + column.clone() * product.n.b)?;
            emitter.by_width(&column, |emitter, columns| match product.n.b {
                1 => emitter.pack_rows(&panel_offset, &source, columns, block),
                _ => emitter.pack_transposed(&panel_offset, &source, columns, block),
            })
        })
    }

    /// Packs a panel of a B whose columns are consecutive.
    fn pack_rows(&mut self, panel_offset: &Expr, source: &Expr, columns: i64, block: &Block) -> Result<()> {
        let product = self.product;
        let width = i64::from(product.lanes);
        self.loop_over(&[Expr::constant(0)], &block.length, 1, |emitter, k| {
            let from = emitter.named(source.clone() + k.clone() * product.k.b)?;
            let to = emitter.named(panel_offset.clone() + k * product.panel())?;
            for part in 0..product.tile_vectors {
                let here = (columns - part * width).clamp(0, width);
                let value = emitter.load_b(&(from.clone() + part * width), here)?;
                emitter.store_vector(value, emitter.packed, &(to.clone() + part * width), width)?;
            }
            Ok(())
        })
    }

    /// Packs a panel of a B whose columns are consecutive along k: squares are transposed in registers.
    fn pack_transposed(&mut self, panel_offset: &Expr, source: &Expr, columns: i64, block: &Block) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let (panel, width) = (product.panel(), i64::from(product.lanes));
        let zero = Expr::constant(0);
        let mut first_single = zero.clone();
        if product.k.b == 1 && columns == panel {
            let whole: Vec<Expr> = block.length.iter().map(|length| length.clone().floordiv(width) * width).collect();
            // Blocks are whole vectors long but for the last one, which ends with the contracted positions.
            first_single = whole[0].clone();
            self.loop_over(&[zero], &whole, width, |emitter, k| {
                for part in 0..product.tile_vectors {
                    let rows = (0..width)
                        .map(|n| {
                            let row = source.clone() + (part * width + n) * product.n.b;
                            emitter.load_b(&(row + k.clone()), width)
                        })
                        .collect::<Result<Vec<_>>>()?;
                    for (step, column) in transposed(builder, rows).into_iter().enumerate() {
                        let to = panel_offset.clone() + (k.clone() + step as i64) * panel;
                        emitter.store_vector(column, emitter.packed, &(to + part * width), width)?;
                    }
                }
                Ok(())
            })?;
        }
        let missing = builder.constant_float(self.element, 0.0);
        self.loop_over(&[first_single], &block.length, 1, |emitter, k| {
            let from = emitter.named(source.clone() + k.clone() * product.k.b)?;
            let to = emitter.named(panel_offset.clone() + k * panel)?;
            for n in 0..panel {
                let value = match n < columns {
                    true => {
                        emitter.load_element(emitter.b, product.operand_types[1], &(from.clone() + n * product.n.b))?
                    }
                    false => missing,
                };
                emitter.scope.place(builder, &[to.clone() + n])?.store(builder, value, emitter.packed);
            }
            Ok(())
        })
    }

    /// One element of an operand, in the product's type.
    fn load_element(&self, from: Value<'c>, element_type: ElementType, position: &Expr) -> Result<Value<'c>> {
        let builder = self.builder;
        let place = self.scope.place(builder, std::slice::from_ref(position))?;
        let loaded = place.load(builder, from, scalar::memory_type(builder, element_type));
        Ok(scalar::from_memory(builder, element_type, None, loaded).value)
    }

    /// `count` elements of B in the first lanes of a vector of the product's type, the others zero.
    fn load_b(&self, position: &Expr, count: i64) -> Result<Value<'c>> {
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
    fn load_vector(&self, from: Value<'c>, position: &Expr, count: i64) -> Result<Value<'c>> {
        self.load_lanes(from, self.vector, position, count)
    }

    fn load_lanes(&self, from: Value<'c>, vector: Type<'c>, position: &Expr, count: i64) -> Result<Value<'c>> {
        let builder = self.builder;
        if count == i64::from(self.product.lanes) {
            let place = self.scope.place(builder, std::slice::from_ref(position))?;
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

    fn store_vector(&self, value: Value<'c>, to: Value<'c>, position: &Expr, count: i64) -> Result<()> {
        let builder = self.builder;
        if count == i64::from(self.product.lanes) {
            self.scope.place(builder, std::slice::from_ref(position))?.store(builder, value, to);
        } else if count > 0 {
            let position = self.scope.emit(builder, position)?;
            let mask = builder.constant_mask(self.product.lanes, count);
            builder.effect("vector.maskedstore", &[to, position, mask, value], &[]);
        }
        Ok(())
    }

    /// One register tile over a block of k.
    fn tile(&mut self, block: &Block, place: &Tile, columns: i64) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let vectors = parts(columns, width);
        let a_row = self.named(place.a_offset.clone() + place.row.clone() * product.m.a)?;
        let c_first = place.c_offset.clone() + place.row.clone() * product.m.c + place.column.clone() * product.n.c;
        let c_first = self.named(c_first)?;
        let panel_offset = self.named(place.panel_offset.clone())?;
        let zero = builder.constant_float(self.vector, 0.0);
        let zeros = vec![zero; (place.rows * vectors) as usize];
        // Position in C and number of columns of each vector of the tile.
        let vectors_of_c: Vec<(Expr, i64)> = (0..place.rows)
            .flat_map(|row| (0..vectors).map(move |part| (row, part)))
            .map(|(row, part)| {
                (c_first.clone() + (row * product.m.c + part * width), (columns - part * width).min(width))
            })
            .collect();
        let start = match &block.number {
            None => zeros,
            Some(number) => {
                let is_first = self.conditions(std::slice::from_ref(number), true)?;
                builder.affine_if(&is_first, &vec![self.vector; zeros.len()], |_, is_first| match is_first {
                    true => Ok(zeros.clone()),
                    false => vectors_of_c
                        .iter()
                        .map(|(position, count)| self.load_vector(self.c, position, *count))
                        .collect::<Result<_>>(),
                })?
            }
        };
        let sums = self.accumulate(&[Expr::constant(0)], &block.length, 1, &start, |emitter, k, sums| {
            let from = emitter.named(panel_offset + k.clone() * product.panel())?;
            let b = (0..vectors)
                .map(|part| emitter.load_vector(emitter.packed, &(from.clone() + part * width), width))
                .collect::<Result<Vec<_>>>()?;
            let a_first = emitter.named(a_row + k * product.k.a)?;
            let mut next = Vec::with_capacity(sums.len());
            for row in 0..place.rows {
                let position = a_first.clone() + row * product.m.a;
                let a = emitter.load_element(emitter.a, product.operand_types[0], &position)?;
                let a = builder.broadcast(a, Some(product.lanes));
                for part in 0..vectors {
                    next.push(builder.fma(a, b[part as usize], sums[(row * vectors + part) as usize]));
                }
            }
            Ok(next)
        })?;
        for ((position, count), sum) in vectors_of_c.iter().zip(sums) {
            self.store_vector(sum, self.c, position, *count)?;
        }
        Ok(())
    }
}

/// `length` positions from `begin`, within `size`.
fn span(begin: Expr, length: i64, size: i64) -> Span {
    let mut ends = vec![begin.clone() + length];
    if size % length.max(1) != 0 {
        ends.push(Expr::constant(size));
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
