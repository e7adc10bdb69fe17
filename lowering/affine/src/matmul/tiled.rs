//! Products in register tiles: blocks of contracted positions, of which B is packed into panels, and blocks of rows.

use indexing::Expr;
use mlir_ext::builder::Value;

use super::emit::{Emitter, Offsets, Operand, Result, Span};
use super::{BLOCK_M, PackedA, parts, positions};

/// What one task computes: outer rows, rows and columns.
#[derive(Clone)]
struct Part<'c> {
    positions: Span<'c>,
    rows: Bounds<'c>,
    columns: Bounds<'c>,
    /// The columns of B that the task packs, unless it comes packed.
    group: Span<'c>,
}

/// From the largest of some positions to behind the smallest of others.
#[derive(Clone)]
struct Bounds<'c> {
    begins: Vec<Expr<'c>>,
    ends: Vec<Expr<'c>>,
}

impl<'c> From<&Span<'c>> for Bounds<'c> {
    fn from(span: &Span<'c>) -> Self {
        Bounds { begins: vec![span.begin], ends: span.ends.clone() }
    }
}

impl<'c> Bounds<'c> {
    /// Some positions from a first one on, within a size: those of the second pair where a variable is 1, else 0.
    fn one_of([first, second]: [(Expr<'c>, i64); 2], is_second: Expr<'c>, size: i64) -> Self {
        // The other one's bounds are moved to where they do not matter.
        let moved = [(first, is_second * size), (second, (-is_second + 1) * size)];
        let ends = moved.map(|((begin, length), away)| begin + length + away);
        Bounds {
            begins: moved.map(|((begin, _), away)| begin - away).to_vec(),
            ends: ends.into_iter().chain([is_second.constant_beside(size)]).collect(),
        }
    }
}

/// A block of contracted positions.
#[derive(Clone)]
pub(super) struct Block<'c> {
    /// Its length is the smallest of these.
    pub(super) length: Vec<Expr<'c>>,
    /// Zero for the first block of contracted positions: others add to C. `None` if there is only one.
    pub(super) number: Option<Expr<'c>>,
    /// Its first position among all contracted ones.
    pub(super) first_row: Expr<'c>,
    pub(super) panels: Panels<'c>,
}

/// Memory for what is packed.
#[derive(Clone, Copy)]
pub(super) struct Panels<'c> {
    /// Panels of B of a group, if they are packed.
    pub(super) b: Option<Value<'c>>,
    /// The tiles of a block of A, if they are packed.
    pub(super) a: Option<(PackedA, Value<'c>)>,
}

/// Where a register tile works.
#[derive(Clone, Copy)]
pub(super) struct Tile<'c> {
    pub(super) panel_offset: Expr<'c>,
    pub(super) a_offset: Expr<'c>,
    b_offset: Expr<'c>,
    pub(super) c_offset: Expr<'c>,
    pub(super) row: Expr<'c>,
    /// The first row of the block of A.
    block_row: Expr<'c>,
    pub(super) column: Expr<'c>,
    pub(super) rows: i64,
}

impl<'c> Emitter<'_, 'c> {
    /// Memory for some panels and, if it is packed, a block of so many rows of A.
    pub(super) fn panel_buffers(&self, panels: i64, rows: i64) -> Panels<'c> {
        let (builder, product) = (self.builder, self.product);
        let buffer = |size| {
            let r#type = builder.memref_type(&[size], self.element);
            builder.in_prologue(|builder| builder.stack_buffer(r#type, 64))
        };
        let size_of_b = panels * product.panel() * product.panel_rows();
        let b = (!product.reads_b_in_place()).then(|| buffer(size_of_b));
        let a = product.packing_of_a().map(|packed| (packed, buffer(rows * packed.room(product))));
        Panels { b, a }
    }

    /// One task: the rows and columns that it computes, block after block.
    pub(super) fn tiled_task(&mut self, task: Expr<'c>, panels: Panels<'c>) -> Result<()> {
        let product = self.product;
        let mut rest = task;
        let row_task = self.split(&mut rest, product.row_tasks())?;
        let position_task = self.split(&mut rest, product.position_tasks())?;
        let group = self.split(&mut rest, product.groups())?;
        let offsets = self.batch_offsets(rest)?;
        let positions =
            Span::within(position_task * product.task_positions(), product.task_positions(), positions(&product.rows));
        let (m, n) = (product.m.size, product.n.size);
        let (first_row, task_rows) = (row_task * product.task_rows(), product.task_rows());
        let group_columns = product.panel() * product.panels_per_group();
        let group = Span::within(group * group_columns, group_columns, n);
        let (rows, columns) = match (product.slice_rows(), self.packed.and_then(|packed| packed.is_there)) {
            (Some(slice_rows), Some(is_packed)) => {
                let rows = [(first_row, task_rows), (task * slice_rows, slice_rows)];
                let columns = [(group.begin, group_columns), (self.scope.constant(0), n)];
                (Bounds::one_of(rows, is_packed, m), Bounds::one_of(columns, is_packed, n))
            }
            _ => (Bounds::from(&Span::within(first_row, task_rows, m)), Bounds::from(&group)),
        };
        let part = Part { positions, rows, columns, group };
        let blocks = product.blocks();
        let all = product.blocks_of_all();
        if all == 1 {
            let first = self.scope.constant(0);
            return self.block(&offsets, &part, (first, first), None, panels);
        }
        self.loop_over(&[self.scope.constant(0)], &[self.scope.constant(all)], 1, |emitter, number| {
            let mut outer = number;
            let first_k = emitter.split(&mut outer, blocks)? * product.block_k();
            let offsets = emitter.moved(&offsets, &product.contracted, outer)?;
            emitter.block(&offsets, &part, (first_k, outer * product.k.size + first_k), Some(number), panels)
        })
    }

    /// One block of contracted positions of one group of panels.
    fn block(
        &mut self,
        offsets: &Offsets<'c>,
        part: &Part<'c>,
        (first_k, first_row): (Expr<'c>, Expr<'c>),
        number: Option<Expr<'c>>,
        panels: Panels<'c>,
    ) -> Result<()> {
        let (product, block_k) = (self.product, self.product.block_k());
        let length = match product.k.size % block_k {
            0 => vec![self.scope.constant(block_k)],
            _ => vec![-first_k + product.k.size, self.scope.constant(block_k)],
        };
        let block = Block { length, number, first_row, panels };
        let offsets = Offsets {
            a: self.named(offsets.a + first_k * product.k.a)?,
            b: self.named(offsets.b + first_k * product.k.b)?,
            c: offsets.c,
        };
        if let Some(b) = block.panels.b {
            self.unless_packed(|emitter| emitter.pack(b, offsets.b, &part.group, &block))?;
        }
        // A block of A: rows of one position, or several positions with few rows.
        let block_rows = product.block_rows();
        let block_positions = (BLOCK_M / product.m.size).max(1);
        let within =
            |begin: Expr<'c>, size: i64, ends: &[Expr<'c>]| Span { begin, ends: [&[begin + size], ends].concat() };
        let first_column = part.group.begin;
        self.positions(&part.positions, block_positions, |emitter, position| {
            let here = within(position, block_positions, &part.positions.ends);
            emitter.loop_over(&part.rows.begins, &part.rows.ends, block_rows, |emitter, row| {
                let rows = within(row, block_rows, &part.rows.ends);
                if let Some(packed) = block.panels.a {
                    emitter.pack_a(packed, offsets.a, &rows, &block)?;
                }
                let columns = &part.columns;
                emitter.loop_over(&columns.begins, &columns.ends, product.panel(), |emitter, column| {
                    let panel_offset = (column - first_column) * product.panel_rows();
                    emitter.positions(&here, 1, |emitter, position| {
                        let offsets = emitter.moved(&offsets, &product.rows, position)?;
                        emitter.rows(&block, panel_offset, &offsets, &rows, column)?;
                        emitter.finish_rows(&block, offsets.c, &rows, column)
                    })
                })
            })
        })
    }

    /// Code for when no earlier run has packed B.
    fn unless_packed(&mut self, body: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let Some(packed) = self.packed else { return body(self) };
        let builder = self.builder;
        builder.if_then(packed.is_absent, |_| {
            let outer = self.scope.len();
            let result = body(self);
            self.scope.truncate(outer);
            result
        })
    }

    pub(super) fn panels(
        &mut self,
        columns: &Span<'c>,
        body: impl FnOnce(&mut Self, Expr<'c>) -> Result<()>,
    ) -> Result<()> {
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
    pub(super) fn rows(
        &mut self,
        block: &Block<'c>,
        panel_offset: Expr<'c>,
        offsets: &Offsets<'c>,
        rows: &Span<'c>,
        column: Expr<'c>,
    ) -> Result<()> {
        let product = self.product;
        if product.in_runtime {
            return self.call_runtime_tiles(block, panel_offset, offsets, rows, column);
        }
        let tile = product.tile_rows();
        let rest = product.m.size % tile;
        let place = |row: Expr<'c>, count: i64| Tile {
            panel_offset,
            a_offset: offsets.a,
            b_offset: offsets.b,
            c_offset: offsets.c,
            row,
            block_row: rows.begin,
            column,
            rows: count,
        };
        let edge = product.m.size - rest;
        let whole = match rest {
            0 => rows.ends.clone(),
            _ => [&rows.ends[..], &[self.scope.constant(edge)]].concat(),
        };
        let one = &[self.scope.constant(1)];
        if product.in_matrices {
            let tiles: Vec<Expr<'c>> = whole.iter().map(|&end| (end - rows.begin).floordiv(tile)).collect();
            self.by_width(column, |emitter, columns| {
                emitter.matrix_tiles(block, &place(rows.begin, tile), columns, &tiles)
            })?;
        } else {
            self.loop_over(&[rows.begin], &whole, tile, |emitter, row| {
                emitter.by_width(column, |emitter, columns| emitter.tile(block, &place(row, tile), columns))
            })?;
        }
        if rest == 0 {
            return Ok(());
        }
        // Where the block reaches the end of the rows.
        let reaches: Vec<Expr<'c>> = rows.ends.iter().map(|&end| end - product.m.size).collect();
        let conditions = self.conditions(&reaches, false)?;
        let builder = self.builder;
        builder.affine_if_then(&conditions, |_| {
            let outer = self.scope.len();
            let result = self.by_width(column, |emitter, columns| {
                let place = place(emitter.scope.constant(edge), rest);
                match product.in_matrices {
                    true => emitter.matrix_tiles(block, &place, columns, one),
                    false => emitter.tile(block, &place, columns),
                }
            });
            self.scope.truncate(outer);
            result
        })
    }

    /// Code for the columns of a panel: all of a whole one, those that the last one has.
    pub(super) fn by_width(
        &mut self,
        column: Expr<'c>,
        mut body: impl FnMut(&mut Self, i64) -> Result<()>,
    ) -> Result<()> {
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

    /// One register tile over a block of k.
    fn tile(&mut self, block: &Block<'c>, place: &Tile<'c>, columns: i64) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let vectors = parts(columns, width);
        // Where the tile's part of A begins, and the distances of its columns and rows.
        let (a_begin, a_column, a_row) = match block.panels.a {
            Some((packed, _)) => ((place.row - place.block_row) * packed.room(product), packed.column, packed.row),
            None => (place.a_offset + place.row * product.m.a, product.k.a, product.m.a),
        };
        let a_begin = self.named(a_begin)?;
        let c_first = place.c_offset + place.row * product.m.c + place.column * product.n.c;
        let c_first = self.named(c_first)?;
        // The same of B.
        let (b_begin, b_row) = match block.panels.b {
            Some(_) => (place.panel_offset, product.panel()),
            None => (place.b_offset + place.column, product.k.b),
        };
        let b_begin = self.named(b_begin)?;
        let zero = builder.zero(self.vector);
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
        let start = self.start_of_moved(block, b_begin, vectors, start)?;
        let sums = self.accumulate(&[self.scope.constant(0)], &block.length, 1, &start, |emitter, k, sums| {
            let from = emitter.named(b_begin + k * b_row)?;
            let b = (0..vectors)
                .map(|part| match block.panels.b {
                    Some(panels) => emitter.load_vector(panels, from + part * width, width),
                    None => {
                        let position = emitter.position(Operand::B, from + part * width)?;
                        emitter.load_elements(Operand::B, position, (columns - part * width).min(width))
                    }
                })
                .collect::<Result<Vec<_>>>()?;
            let a_first = emitter.named(a_begin + k * a_column)?;
            let mut next = Vec::with_capacity(sums.len());
            for row in 0..place.rows {
                let position = a_first + row * a_row;
                let a = match block.panels.a {
                    Some((_, panels)) => {
                        emitter.scope.place(builder, &[position])?.load(builder, panels, emitter.element)
                    }
                    None => {
                        let position = emitter.position(Operand::A, position)?;
                        emitter.load_element(Operand::A, position)?
                    }
                };
                let mut a = builder.broadcast(a, Some(product.lanes));
                if product.is_moved() {
                    a = builder.xori(a, emitter.bytes_of_128());
                }
                for part in 0..vectors {
                    next.push(emitter.multiply_add(a, b[part as usize], sums[(row * vectors + part) as usize]));
                }
            }
            Ok(next)
        })?;
        for ((position, count), sum) in vectors_of_c.iter().zip(sums) {
            self.store_vector(sum, self.c, *position, *count)?;
        }
        Ok(())
    }

    /// The first sums of a tile: where the elements of A are moved, what this adds is taken off.
    fn start_of_moved(
        &self,
        block: &Block<'c>,
        panel_offset: Expr<'c>,
        vectors: i64,
        mut sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let product = self.product;
        let Some(panels) = block.panels.b.filter(|_| product.is_moved()) else { return Ok(sums) };
        let last = panel_offset + product.surplus_row();
        let width = i64::from(product.lanes);
        let surplus = (0..vectors)
            .map(|part| self.load_vector(panels, last + part * width, width))
            .collect::<Result<Vec<_>>>()?;
        for (number, sum) in sums.iter_mut().enumerate() {
            *sum = self.builder.subi(*sum, surplus[number % surplus.len()]);
        }
        Ok(sums)
    }
}
