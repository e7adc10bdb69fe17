//! Packing of operands into panels.

use indexing::Expr;
use mlir_ext::builder::Value;

use super::PackedA;
use super::emit::{Emitter, Operand, Result, Span};
use super::tiled::Block;
use crate::access::LINE_BYTES;
use crate::scalar;
use crate::transposed::{RowLoad, Vectors, load_from, transpose_square};

/// How many rows of B are asked for before they are packed.
pub(super) const ROWS_AHEAD: i64 = 16;

/// Rows of A that are asked for before they are packed.
pub(super) const PACKED_ROWS_AHEAD: i64 = 3;

/// Elements of a row of a panel that are copied in one iteration, where they are copied one by one.
const COPIED_TOGETHER: i64 = 4;

impl<'c> Emitter<'_, 'c> {
    /// Copies a block of B into panels of consecutive rows of k, missing columns as zero.
    pub(super) fn pack(
        &mut self,
        panels: Value<'c>,
        b_offset: Expr<'c>,
        columns: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let product = self.product;
        if self.pack_in_runtime(panels, b_offset, columns, block)? {
            return if product.is_moved() { self.pack_surplus_in_runtime(panels, columns, block) } else { Ok(()) };
        }
        if product.n.b == 1 {
            self.pack_rows(panels, b_offset, columns, block)?;
        }
        if product.n.b == 1 && !product.is_moved() {
            return Ok(());
        }
        self.panels(columns, |emitter, column| {
            let panel_offset = emitter.named((column - columns.begin) * product.panel_rows())?;
            if product.n.b != 1 {
                let source = emitter.named(b_offset + column * product.n.b)?;
                emitter.by_width(column, |emitter, columns| {
                    emitter.pack_transposed(panels, panel_offset, source, columns, block)
                })?;
            }
            if product.is_moved() { emitter.pack_surplus(panels, panel_offset, block) } else { Ok(()) }
        })
    }

    /// Copies a block of A, in the product's type.
    pub(super) fn pack_a(
        &mut self,
        (packed, panels): (PackedA, Value<'c>),
        a_offset: Expr<'c>,
        rows: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        if self.pack_a_in_runtime((packed, panels), a_offset, rows, block)? {
            return Ok(());
        }
        if packed.has_columns() {
            return self.pack_columns_of_a((packed, panels), a_offset, rows, block);
        }
        let product = self.product;
        self.in_groups(rows, product.m.size, 1, |emitter, row, _| {
            let source = emitter.named(a_offset + row * product.m.a)?;
            let target = emitter.named((row - rows.begin) * packed.room(product))?;
            emitter.pack_row_of_a(panels, source, target, block)
        })
    }

    /// Copies a block of an A whose columns are consecutive, a column of all tiles at a time: columns may be pages apart.
    fn pack_columns_of_a(
        &mut self,
        (packed, panels): (PackedA, Value<'c>),
        a_offset: Expr<'c>,
        rows: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        self.loop_over(&[self.scope.constant(0)], &block.length, 1, |emitter, k| {
            let column = emitter.named(a_offset + k * product.k.a)?;
            let column = emitter.position(Operand::A, column)?;
            emitter.in_groups(rows, product.m.size, product.vector_rows, |emitter, row, count| {
                let tile = (row - rows.begin) * packed.room(product);
                let value = emitter.load_all(Operand::A, column.plus(row), count as u32)?;
                let place = emitter.scope.place(builder, &[tile + k * product.vector_rows])?;
                place.store(builder, value, panels);
                Ok(())
            })
        })
    }

    /// Copies a row of A, whose elements are consecutive, steps of several of them as lanes of the product's type.
    fn pack_row_of_a(
        &mut self,
        panels: Value<'c>,
        source: Expr<'c>,
        target: Expr<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let (depth, width) = (self.product.depth, i64::from(self.product.lanes));
        let whole = whole_vectors(block, width);
        let source = self.position(Operand::A, source)?;
        self.loop_over(&[self.scope.constant(0)], &whole, width, |emitter, k| {
            let value = emitter.load_elements(Operand::A, source.plus(k * depth), width)?;
            if emitter.product.is_a_large() {
                emitter.prefetch(Operand::A, source.first + k * depth + PACKED_ROWS_AHEAD * emitter.product.m.a)?;
            }
            emitter.store_vector(value, panels, target + k, width)
        })?;
        if self.product.k.size % width == 0 {
            return Ok(());
        }
        self.loop_over(&[whole[0]], &block.length, 1, |emitter, k| {
            let value = emitter.load_element(Operand::A, source.plus(k * depth))?;
            emitter.scope.place(emitter.builder, &[target + k])?.store(emitter.builder, value, panels);
            Ok(())
        })
    }

    /// Packs a B whose columns are consecutive, a row of all panels at a time: rows may be pages apart.
    fn pack_rows(
        &mut self,
        panels: Value<'c>,
        b_offset: Expr<'c>,
        columns: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let product = self.product;
        let width = i64::from(product.lanes);
        let element_bytes = product.operand_bytes(Operand::B);
        self.loop_over(&[self.scope.constant(0)], &block.length, 1, |emitter, k| {
            let row = emitter.named(b_offset + k * product.k.b)?;
            let computed = emitter.position(Operand::B, row)?;
            emitter.panels(columns, |emitter, column| {
                let from = emitter.named(row + column)?;
                let position = match product.computes(Operand::B) {
                    true => computed.plus(column),
                    false => emitter.position(Operand::B, from)?,
                };
                let to = emitter.named((column - columns.begin) * product.panel_rows() + k * product.panel())?;
                emitter.by_width(column, |emitter, columns| {
                    for part in 0..product.tile_vectors {
                        let here = (columns - part * width).clamp(0, width);
                        let value = match product.depth {
                            1 => {
                                let part = emitter.scope.constant(part * width);
                                emitter.load_elements(Operand::B, position.plus(part), here)?
                            }
                            _ => emitter.load_interleaved(from + part * width, here)?,
                        };
                        let begins_line = part * width * element_bytes % LINE_BYTES == 0;
                        if product.is_b_large() && here > 0 && begins_line {
                            let ahead = from + part * width + ROWS_AHEAD * product.k.b;
                            (0..product.depth).try_for_each(|row| {
                                emitter.prefetch(Operand::B, ahead + row * (product.k.b / product.depth))
                            })?;
                        }
                        emitter.store_vector(value, panels, to + part * width, width)?;
                    }
                    Ok(())
                })
            })
        })
    }

    /// The rows of B that a step takes, side by side in each lane.
    fn load_interleaved(&self, from: Expr<'c>, columns: i64) -> Result<Value<'c>> {
        let (builder, product) = (self.builder, self.product);
        let distance = product.k.b / product.depth;
        let mut rows = (0..product.depth)
            .map(|row| self.load_memory(Operand::B, from + row * distance, columns, product.lanes))
            .collect::<Result<Vec<_>>>()?;
        let mut together = 1;
        while rows.len() > 1 {
            let groups = product.lanes;
            let lanes = groups * together;
            let mask: Vec<u32> = (0..groups)
                .flat_map(|group| [0, lanes].map(|first| first + group * together))
                .flat_map(|first| first..first + together)
                .collect();
            rows = rows.chunks(2).map(|pair| builder.shuffle(pair[0], pair[1], &mask)).collect();
            together *= 2;
        }
        Ok(self.in_lanes(Operand::B, rows[0], product.lanes))
    }

    /// Packs behind the rows of a panel what each column's sum has too much if all elements of A are 128 more.
    fn pack_surplus(&mut self, panels: Value<'c>, panel_offset: Expr<'c>, block: &Block<'c>) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let offsets: Vec<i64> = (0..product.tile_vectors).map(|part| part * width).collect();
        let zeros = vec![builder.zero(self.vector); offsets.len()];
        let begin = [self.scope.constant(0)];
        let sums = self.accumulate(&begin, &block.length, 1, &zeros, |emitter, k, sums| {
            let from = emitter.named(panel_offset + k * product.panel())?;
            let sums = offsets.iter().zip(sums).map(|(&offset, &sum)| {
                let row = emitter.load_vector(panels, from + offset, width)?;
                Ok(emitter.multiply_add(emitter.bytes_of_128(), row, sum))
            });
            sums.collect()
        })?;
        let last = panel_offset + product.surplus_row();
        offsets.iter().zip(sums).try_for_each(|(&offset, sum)| self.store_vector(sum, panels, last + offset, width))
    }

    /// Packs a panel of a B whose columns are consecutive along k: squares are transposed in registers.
    fn pack_transposed(
        &mut self,
        panels: Value<'c>,
        panel_offset: Expr<'c>,
        source: Expr<'c>,
        columns: i64,
        block: &Block<'c>,
    ) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let (panel, width) = (product.panel(), i64::from(product.lanes));
        let zero = self.scope.constant(0);
        let mut first_single = zero;
        if product.k.b == product.depth && columns == panel {
            let whole = whole_vectors(block, width);
            first_single = whole[0];
            self.loop_over(&[zero], &whole, width, |emitter, k| {
                for part in 0..product.tile_vectors {
                    let rows = source + (part * width * product.n.b) + k * product.k.b;
                    let to = panel_offset + k * panel + part * width;
                    emitter.pack_square(panels, to, rows)?;
                }
                Ok(())
            })?;
            if product.k.size % width == 0 {
                return Ok(());
            }
        }
        let missing = builder.zero(self.vector);
        self.loop_over(&[first_single], &block.length, 1, |emitter, k| {
            let from = emitter.named(source + k * product.k.b)?;
            let to = emitter.named(panel_offset + k * panel)?;
            for part in columns / width..product.tile_vectors {
                emitter.store_vector(missing, panels, to + part * width, width)?;
            }
            let copy = |emitter: &mut Self, n: Expr<'c>, part: i64| {
                let position = emitter.position(Operand::B, from + (n + part) * product.n.b)?;
                let value = emitter.load_element(Operand::B, position)?;
                // In the order in which a sum is read back from its text.
                emitter.scope.place(builder, &[to + n + part])?.store(builder, value, panels);
                Ok(())
            };
            let whole = columns / COPIED_TOGETHER * COPIED_TOGETHER;
            if whole > 0 {
                let [begin, end] = [0, whole].map(|n| emitter.scope.constant(n));
                emitter.loop_over(&[begin], &[end], COPIED_TOGETHER, |emitter, n| {
                    (0..COPIED_TOGETHER).try_for_each(|part| copy(emitter, n, part))
                })?;
            }
            (whole..columns).try_for_each(|n| copy(emitter, emitter.scope.constant(n), 0))
        })
    }

    /// Packs a square of a B whose columns are consecutive along k.
    fn pack_square(&mut self, panels: Value<'c>, to: Expr<'c>, from: Expr<'c>) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        if product.is_b_large() {
            let ahead = from + product.panel() * product.n.b;
            let [begin, end] = [0, i64::from(product.lanes)].map(|n| self.scope.constant(n));
            self.loop_over(&[begin], &[end], 1, |emitter, n| emitter.prefetch(Operand::B, ahead + n * product.n.b))?;
        }
        let element_bytes = product.element_type.byte_width() as i64;
        let to = Vectors { memref: panels, element_bytes, first: to, distance: product.panel() };
        if product.computes(Operand::B) {
            let from = self.compute_square(from)?;
            let load = RowLoad::AsStored(self.vector);
            return transpose_square(builder, &self.scope, (load, product.lanes), [from, to]);
        }
        let element_type = product.operand_types[Operand::B as usize];
        let lanes = product.lanes * product.depth as u32;
        let load = |pointer| {
            let r#type = scalar::load_type(builder, element_type, Some(lanes));
            self.in_register(Operand::B, load_from(builder, pointer, r#type, element_type.byte_width() as i64))
        };
        let name = format!("{element_type}x{}_{}", product.depth, product.element_type);
        let load = match product.depth == 1 && element_type == product.element_type {
            true => RowLoad::AsStored(self.vector),
            false => RowLoad::By(&name, &load),
        };
        let from = self.operand_vectors(Operand::B, from, product.n.b)?;
        transpose_square(builder, &self.scope, (load, product.lanes), [from, to])
    }
}

/// The steps of a block that fill vectors. Blocks are whole vectors long but for the last one, which ends with the
/// contracted positions: the rest begins at the first of these.
fn whole_vectors<'c>(block: &Block<'c>, width: i64) -> Vec<Expr<'c>> {
    block.length.iter().map(|length| length.floordiv(width) * width).collect()
}
