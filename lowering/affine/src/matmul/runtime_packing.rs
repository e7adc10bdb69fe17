//! Operands that the runtime packs, compiled beforehand: those of its tiles, if they are packed as they are.

use indexing::Expr;
use mlir_ext::builder::Value;

use super::emit::{Emitter, Operand, Result, Span};
use super::packing::{PACKED_ROWS_AHEAD, ROWS_AHEAD};
use super::tiled::Block;
use super::{MatMul, PackedA};
use crate::transposed::address_in;

/// How an operand is packed, in elements; what the runtime calls `Packing` has the same in bytes.
struct Packing {
    row: i64,
    ahead: i64,
    panel_row: i64,
    next_row: i64,
    next_panel: i64,
    fills: bool,
}

impl MatMul {
    /// Whether panels hold elements as they are in memory, for tiles of the runtime.
    pub(super) fn copies(&self, operand: Operand) -> bool {
        let element_type = self.operand_types[operand as usize];
        self.in_runtime && self.depth == 1 && !self.computes(operand) && element_type == self.element_type
    }

    /// Whether the runtime packs B.
    pub(super) fn packs_b_in_runtime(&self) -> bool {
        self.copies(Operand::B) && (self.n.b == 1 || self.k.b == 1)
    }

    /// Whether the runtime packs A in this way.
    pub(super) fn packs_a_in_runtime(&self, packed: PackedA) -> bool {
        let distance = if packed.has_columns() { self.m.a } else { self.k.a };
        self.copies(Operand::A) && distance == 1
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Has a block of B packed into panels, missing columns as zero.
    pub(super) fn pack_in_runtime(
        &self,
        panels: Value<'c>,
        b_offset: Expr<'c>,
        columns: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let product = self.product;
        let has_rows = product.n.b == 1;
        let (row, ahead) = match has_rows {
            true => (product.k.b, ROWS_AHEAD * product.k.b),
            false => (product.n.b, product.panel() * product.n.b),
        };
        let packing = Packing {
            row,
            ahead: if product.is_b_large() { ahead } else { 0 },
            panel_row: product.panel(),
            next_row: product.panel(),
            next_panel: product.panel() * product.panel_rows(),
            fills: true,
        };
        let first = b_offset + columns.begin * product.n.b;
        self.call_packing((Operand::B, has_rows), &packing, first, panels, (&block.length, columns))
    }

    /// Has a block of A packed.
    pub(super) fn pack_a_in_runtime(
        &self,
        (packed, panels): (PackedA, Value<'c>),
        a_offset: Expr<'c>,
        rows: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let product = self.product;
        let first = a_offset + rows.begin * product.m.a;
        if packed.has_columns() {
            // The rows of each tile are a panel.
            let packing = Packing {
                row: product.k.a,
                ahead: 0,
                panel_row: product.vector_rows,
                next_row: product.vector_rows,
                next_panel: product.vector_rows * packed.room(product),
                fills: false,
            };
            return self.call_packing((Operand::A, true), &packing, first, panels, (&block.length, rows));
        }
        let packing = Packing {
            row: product.m.a,
            ahead: if product.is_a_large() { PACKED_ROWS_AHEAD * product.m.a } else { 0 },
            panel_row: packed.room(product),
            next_row: packed.room(product),
            next_panel: 0,
            fills: false,
        };
        let positions = Span { begin: self.scope.constant(0), ends: block.length.clone() };
        let count: Vec<Expr<'c>> = rows.ends.iter().map(|&end| end - rows.begin).collect();
        self.call_packing((Operand::A, true), &packing, first, panels, (&count, &positions))
    }

    /// Calls what packs so many rows of some columns, from an element of an operand on.
    fn call_packing(
        &self,
        (operand, has_rows): (Operand, bool),
        packing: &Packing,
        first: Expr<'c>,
        panels: Value<'c>,
        (rows, columns): (&[Expr<'c>], &Span<'c>),
    ) -> Result<()> {
        let product = self.product;
        let element_bytes = product.element_type.byte_width() as i64;
        let &Packing { row, ahead, panel_row, next_row, next_panel, fills } = packing;
        let distances = [row, ahead, panel_row, next_row, next_panel].map(|elements| elements * element_bytes);
        // Rows are counted in bytes.
        let (symbol, unit) = match has_rows {
            true => ("halo_pack_rows".to_string(), element_bytes),
            false => (format!("halo_pack_columns_{}x{}", product.element_type.bit_width(), product.lanes), 1),
        };
        let columns: Vec<Expr<'c>> = columns.ends.iter().map(|&end| (end - columns.begin) * unit).collect();
        let zero = self.scope.constant(0);
        let arguments = [
            self.constant_words(&[&distances[..], &[i64::from(fills)]].concat())?,
            address_in(self.builder, &self.scope, self.operand(operand)?, first * element_bytes)?,
            address_in(self.builder, &self.scope, panels, zero)?,
            self.smallest(rows)?,
            self.smallest(&columns)?,
        ];
        self.call_runtime(&symbol, &arguments);
        Ok(())
    }
}
