//! Operands that the runtime packs, compiled beforehand: those of its tiles, as they are or in another type.

use hlo::element_type::ElementType;
use indexing::Expr;
use mlir_ext::builder::Value;

use super::emit::{Emitter, Operand, Result, Span};
use super::packing::{PACKED_ROWS_AHEAD, ROWS_AHEAD};
use super::tiled::Block;
use super::{MatMul, PackedA};
use crate::library_calls::call_runtime;
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

impl Packing {
    /// As the runtime has it, of elements of these types before and after.
    fn words(&self, operand: ElementType, packed: ElementType) -> Vec<i64> {
        let &Packing { row, ahead, panel_row, next_row, next_panel, fills } = self;
        let [operand_bytes, packed_bytes] = [operand, packed].map(|own| own.byte_width() as i64);
        let of_operand = [row, ahead].map(|elements| elements * operand_bytes);
        let of_panels = [panel_row, next_row, next_panel].map(|elements| elements * packed_bytes);
        [&of_operand[..], &of_panels, &[i64::from(fills)]].concat()
    }
}

impl MatMul {
    /// Whether panels hold elements as they are in memory, for tiles of the runtime.
    pub(super) fn copies(&self, operand: Operand) -> bool {
        let element_type = self.operand_types[operand as usize];
        self.in_runtime && self.depth == 1 && !self.computes(operand) && element_type == self.element_type
    }

    /// How B is packed into panels whose missing columns are zero.
    fn panels_of_b(&self, row: i64, ahead: i64) -> Packing {
        let (panel_row, next_panel) = (self.panel(), self.panel() * self.panel_rows());
        Packing { row, ahead, panel_row, next_row: panel_row, next_panel, fills: true }
    }

    /// The function that packs rows of an operand, whose elements are neighbours, or columns, if the runtime has one.
    fn packing_function(&self, operand: Operand, has_rows: bool) -> Option<String> {
        let element_type = self.operand_types[operand as usize];
        let is_in_memory = self.in_runtime && !self.computes(operand);
        let is_half = matches!(element_type, ElementType::BF16 | ElementType::F16);
        let has_conversion = match element_type {
            _ if is_half => self.depth == 1 && self.element_type == ElementType::F32,
            ElementType::S8 | ElementType::U8 => self.is_of_words(),
            _ => false,
        };
        if is_in_memory && self.is_of_bytes() {
            return Some(match (operand, has_rows) {
                (Operand::A, _) => "halo_pack_rows_moved".to_string(),
                (Operand::B, true) => format!("halo_pack_fours_{element_type}"),
                // Four bytes of a column are one element.
                (Operand::B, false) => format!("halo_pack_columns_32x{}", self.lanes),
            });
        }
        match (self.copies(operand), has_rows) {
            (true, true) => Some("halo_pack_rows".to_string()),
            (true, false) => Some(format!("halo_pack_columns_{}x{}", element_type.bit_width(), self.lanes)),
            // A step takes elements of two rows of B.
            (false, true) if is_in_memory && has_conversion => match operand {
                Operand::B if self.depth > 1 => Some(format!("halo_pack_pairs_{element_type}")),
                _ => Some(format!("halo_pack_rows_{element_type}")),
            },
            (false, false) if is_in_memory && has_conversion && is_half => {
                Some(format!("halo_pack_columns_{element_type}x{}", self.lanes))
            }
            _ => None,
        }
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Has a block of B packed into panels, missing columns as zero; says whether the runtime can do that.
    pub(super) fn pack_in_runtime(
        &self,
        panels: Value<'c>,
        b_offset: Expr<'c>,
        columns: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<bool> {
        let product = self.product;
        let has_rows = product.n.b == 1;
        let function =
            product.packing_function(Operand::B, has_rows).filter(|_| has_rows || product.k.b == product.depth);
        let Some(function) = function else { return Ok(false) };
        let (row, ahead) = match has_rows {
            true => (product.k.b, ROWS_AHEAD * product.k.b),
            false => (product.n.b, product.panel() * product.n.b),
        };
        let packing = product.panels_of_b(row, if product.is_b_large() { ahead } else { 0 });
        let first = b_offset + columns.begin * product.n.b;
        let unit = if has_rows { product.element_type.byte_width() as i64 } else { 1 };
        self.call_packing((Operand::B, &function), &packing, first, panels, (&block.length, columns, unit))?;
        Ok(true)
    }

    /// Has packed behind the rows of panels what the sums of their columns begin with where all elements of A are 128 more.
    pub(super) fn pack_surplus_in_runtime(
        &self,
        panels: Value<'c>,
        columns: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<()> {
        let product = self.product;
        let packing = product.panels_of_b(product.surplus_row(), 0);
        let columns: Vec<Expr<'c>> = columns.ends.iter().map(|&end| end - columns.begin).collect();
        let zero = self.scope.constant(0);
        let arguments = [
            self.constant_words(&packing.words(product.element_type, product.element_type))?,
            address_in(self.builder, &self.scope, panels, zero)?,
            self.smallest(&block.length)?,
            self.smallest(&columns)?,
        ];
        call_runtime(self.builder, &format!("halo_pack_surplus_s32x{}", product.lanes), &arguments);
        Ok(())
    }

    /// Has a block of A packed; says whether the runtime can do that.
    pub(super) fn pack_a_in_runtime(
        &self,
        (packed, panels): (PackedA, Value<'c>),
        a_offset: Expr<'c>,
        rows: &Span<'c>,
        block: &Block<'c>,
    ) -> Result<bool> {
        let product = self.product;
        let (distance, neighbour) = if packed.has_columns() { (product.m.a, 1) } else { (product.k.a, product.depth) };
        let function = product.packing_function(Operand::A, true).filter(|_| distance == neighbour);
        let Some(function) = function else { return Ok(false) };
        let (unit, first) = (product.element_type.byte_width() as i64, a_offset + rows.begin * product.m.a);
        if packed.has_columns() {
            // The rows of each tile are a panel.
            let packing = Packing {
                row: product.k.a,
                ahead: if product.is_a_large() { ROWS_AHEAD * product.k.a } else { 0 },
                panel_row: product.vector_rows,
                next_row: product.vector_rows,
                next_panel: product.vector_rows * packed.room(product),
                fills: false,
            };
            self.call_packing((Operand::A, &function), &packing, first, panels, (&block.length, rows, unit))?;
            return Ok(true);
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
        self.call_packing((Operand::A, &function), &packing, first, panels, (&count, &positions, unit))?;
        Ok(true)
    }

    /// Calls what packs so many rows of some columns, which are counted in bytes or other units, from an element of an operand on.
    fn call_packing(
        &self,
        (operand, function): (Operand, &str),
        packing: &Packing,
        first: Expr<'c>,
        panels: Value<'c>,
        (rows, columns, unit): (&[Expr<'c>], &Span<'c>, i64),
    ) -> Result<()> {
        let product = self.product;
        let operand_type = product.operand_types[operand as usize];
        let columns: Vec<Expr<'c>> = columns.ends.iter().map(|&end| (end - columns.begin) * unit).collect();
        let zero = self.scope.constant(0);
        let arguments = [
            self.constant_words(&packing.words(operand_type, product.element_type))?,
            address_in(self.builder, &self.scope, self.operand(operand)?, first * product.operand_bytes(operand))?,
            address_in(self.builder, &self.scope, panels, zero)?,
            self.smallest(rows)?,
            self.smallest(&columns)?,
        ];
        call_runtime(self.builder, function, &arguments);
        Ok(())
    }
}
