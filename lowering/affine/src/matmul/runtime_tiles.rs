//! Register tiles that the runtime has, compiled beforehand: a call multiplies a block of rows by a panel.
//!
//! They are for products of `f32`, `f64` and integers of 32 bits whose operands a tile finds in memory in these types, and for those of
//! bytes, whose operands are packed as words where there is no instruction for bytes. Tiles of other types, and those of processors that the runtime has none for, are emitted (`tiled`).

use hlo::element_type::ElementType;
use hlo::packed_parameter::{PackedAxis, PackedParameter, ROWS_BETWEEN_PANELS};
use indexing::Expr;
use mlir_ext::builder::{Machine, Value};

use super::emit::{Emitter, Offsets, Operand, Result, Span};
use super::prologue::Source;
use super::tiled::Block;
use super::{Axis, Form, LARGE, LEAST_ROWS_IN_PLACE, LEAST_TILE_ROWS, MatMul, positions};
use crate::library_calls::{address_of_global, call_runtime, define_constant_integers};
use crate::transposed::address_in;

impl MatMul {
    /// Whether the runtime has tiles for the product.
    pub(super) fn finds_runtime_tiles(&self, machine: Machine) -> bool {
        self.suits_runtime_tiles() && self.vector_bits() <= machine.runtime_tile_bits
    }

    fn vector_bits(&self) -> u32 {
        self.lanes * self.element_type.bit_width()
    }

    /// Whether they are for such products, on a processor that has them.
    fn suits_runtime_tiles(&self) -> bool {
        let is_packed_or_as_it_is = |operand: Operand, is_packed: bool| {
            let is_in_memory = self.operand_types[operand as usize] == self.element_type || self.is_of_bytes();
            is_packed || !self.computes(operand) && is_in_memory
        };
        let has_tiles =
            matches!(self.element_type, ElementType::F32 | ElementType::F64 | ElementType::S32 | ElementType::U32);
        self.form == Form::Tiled
            && (self.depth == 1 && has_tiles || self.is_of_words() || self.is_of_bytes())
            && self.vector_bits() >= 256
            && is_packed_or_as_it_is(Operand::A, self.packing_of_a().is_some())
            && is_packed_or_as_it_is(Operand::B, !self.reads_b_in_place())
    }

    /// The contracted positions beside `k` that tiles go through too, so that they keep their sums for all of a short sum: those
    /// of operands which are read where they are, as the rows of a window over few channels.
    pub(super) fn contracted_in_tiles(&self) -> Option<Axis> {
        let &[axis] = &self.contracted[..] else { return None };
        let is_in_place = self.packing_of_a().is_none() && self.reads_small_b_in_place();
        (self.in_runtime && is_in_place && self.k.size.saturating_mul(axis.size) <= self.longest_k).then_some(axis)
    }

    /// Whether a product of few rows is one tile or two of the runtime, which read B where it is, and not so few that multiply-adds wait
    /// for each other: one pass over B, which is emitted, would go through the sums again and again. The number of tasks
    /// depends on it, which is known before the processor is.
    pub(super) fn is_in_place_in_runtime_tiles(&self) -> bool {
        let least = if self.is_b_small() { LEAST_TILE_ROWS } else { LEAST_ROWS_IN_PLACE };
        self.row_count() >= least && self.rows.is_empty() && self.reads_b_in_place() && self.suits_runtime_tiles()
    }

    /// The input that may come in panels which an earlier run has packed: a B that is packed as it is, or read where it is and large.
    pub(crate) fn packable_input(&self) -> Option<usize> {
        let Source::Input(number) = self.operands[Operand::B as usize] else { return None };
        (self.copies(Operand::B) && self.batch.is_empty() && !self.reads_small_b_in_place()).then_some(number)
    }

    /// How B is packed, which is a parameter of the program; `None` where it lies backwards.
    pub(crate) fn packed_as(&self, parameter: usize) -> Option<PackedParameter> {
        let size = |number: i64| usize::try_from(number).ok();
        let axis = |axis: &Axis| Some(PackedAxis { count: size(axis.size)?, distance: size(axis.b)? });
        Some(PackedParameter {
            parameter,
            element_bytes: self.element_type.byte_width(),
            first: size(self.first[Operand::B as usize])?,
            panel: size(self.panel())?,
            columns: axis(&self.n)?,
            rows: self.contracted.iter().chain([&self.k]).map(axis).collect::<Option<_>>()?,
        })
    }

    /// Rows from one panel to the next of a B that an earlier run has packed.
    fn packed_rows(&self) -> i64 {
        positions(&self.contracted) * self.k.size + ROWS_BETWEEN_PANELS as i64
    }

    /// The name of the function.
    fn runtime_tiles(&self) -> String {
        let element_type = match self.element_type {
            // Their products have the same bits.
            ElementType::U32 => ElementType::S32,
            own => own,
        };
        let kind = match self.is_of_bytes() {
            true if self.is_moved() && self.packing_of_a().is_none() => "signed_bytes_",
            true => "bytes_",
            false if self.is_of_words() => "words_",
            false => "",
        };
        format!("halo_product_{kind}{element_type}x{}", self.lanes)
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Calls the runtime for the tiles of a block of rows in one panel.
    pub(super) fn call_runtime_tiles(
        &mut self,
        block: &Block<'c>,
        panel_offset: Expr<'c>,
        offsets: &Offsets<'c>,
        rows: &Span<'c>,
        column: Expr<'c>,
    ) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let tile_rows = product.tile_rows();
        let zero = self.scope.constant(0);
        // Where they begin, and the distances of rows, steps and tiles.
        let (a, a_first, a_row, a_step, a_tile) = match block.panels.a {
            Some((packed, panels)) => (panels, zero, packed.row, packed.column, tile_rows * packed.room(product)),
            None => {
                let first = offsets.a + rows.begin * product.m.a;
                (self.operand(Operand::A)?, first, product.m.a, product.k.a, tile_rows * product.m.a)
            }
        };
        let a_ahead = product.distance_ahead(a_tile).unwrap_or_default();
        // A large B comes from far, also in panels that another run has packed: tiles ask for those of the next columns.
        let packed_bytes = product.packed_rows() * product.n.size * product.element_type.byte_width() as i64;
        let packed_ahead = if packed_bytes >= LARGE { product.packed_rows() * product.panel() } else { 0 };
        let (b, b_first, b_step, b_ahead) = match block.panels.b {
            Some(panels) => {
                let ahead = if self.packed.is_some() { packed_ahead } else { 0 };
                (panels, panel_offset, product.panel(), ahead)
            }
            None => {
                let ahead = if product.is_b_large() { product.panel() } else { 0 };
                (self.operand(Operand::B)?, offsets.b + column, product.k.b, ahead)
            }
        };
        let c_first = offsets.c + rows.begin * product.m.c + column;
        let element_bytes = product.element_type.byte_width() as i64;
        let a_bytes = if block.panels.a.is_some() { element_bytes } else { product.operand_bytes(Operand::A) };
        let b_start = if product.is_moved() { product.surplus_row() } else { 0 };
        let runs = product.contracted_in_tiles().unwrap_or(Axis { size: 1, a: 0, b: 0, c: 0 });
        let distances = |b_step: i64, b_ahead: i64| {
            let of_a = [a_row, a_step, a_tile, a_ahead, runs.a].map(|elements| elements * a_bytes);
            let others = [b_step, b_ahead, runs.b, product.m.c, b_start].map(|elements| elements * element_bytes);
            self.constant_words(&[&of_a[..], &others, &[tile_rows, runs.size]].concat())
        };
        let mut words = distances(b_step, b_ahead)?;
        let address = |memref, first| address_in(builder, &self.scope, memref, first * element_bytes);
        let mut b = address(b, b_first)?;
        if let Some(packed) = self.packed {
            let first = column * product.packed_rows() + block.first_row * product.panel();
            let first = self.scope.emit(builder, self.scope.simplify(first * element_bytes))?;
            b = builder.select(packed.is_absent, b, builder.addi(packed.address, first));
            if b_step != product.panel() {
                words = builder.select(packed.is_absent, words, distances(product.panel(), packed_ahead)?);
            }
        }
        let rows: Vec<Expr<'c>> = rows.ends.iter().map(|&end| end - rows.begin).collect();
        let mut columns = vec![self.scope.constant(product.panel())];
        if product.n.size % product.panel() != 0 {
            columns.push(-column + product.n.size);
        }
        let number = block.number.unwrap_or(zero);
        let arguments = [
            words,
            address_in(builder, &self.scope, a, a_first * a_bytes)?,
            b,
            address(self.c, c_first)?,
            self.smallest(&rows)?,
            self.smallest(&columns)?,
            self.smallest(&block.length)?,
            self.scope.emit(builder, number)?,
        ];
        call_runtime(builder, &product.runtime_tiles(), &arguments);
        Ok(())
    }

    /// The smallest of some counts.
    pub(super) fn smallest(&self, counts: &[Expr<'c>]) -> Result<Value<'c>> {
        match counts {
            [count] => self.scope.emit(self.builder, *count),
            _ => self.scope.emit_min(self.builder, counts),
        }
    }

    /// The address of constant numbers, which the module has once.
    pub(super) fn constant_words(&self, words: &[i64]) -> Result<Value<'c>> {
        let builder = self.builder;
        let list: Vec<String> = words.iter().map(i64::to_string).collect();
        let name = format!("tiles_{}", list.join("_"));
        let value = format!("dense<[{}]> : tensor<{}xi64>", list.join(", "), words.len());
        let mut defined = Ok(());
        builder.define_once(&name, |builder| {
            defined = define_constant_integers(builder, &name, &value, words.len(), u64::BITS);
        });
        defined?;
        Ok(address_of_global(builder, &name))
    }
}
