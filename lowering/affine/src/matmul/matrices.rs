//! Register tiles of a matrix unit (AMX): a register holds up to 16 rows of 64 bytes, and an instruction adds the product of
//! two registers to a third, made of the same dot products as those in the lanes of vectors.
//!
//! Panels of B are those of vectors. A is read where it is: a register takes rows some distance apart. The sizes of
//! registers are set for a whole function, so a module has a function for tiles of each size, from memory to memory.

use hlo::element_type::ElementType;
use indexing::Expr;
use melior::Context;
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};

use super::MatMul;
use super::emit::{Emitter, Operand, Result};
use super::tiled::{Block, Tile};
use crate::error::LoweringError;
use crate::memory::pointer_to;
use crate::transposed::Vectors;

/// Rows of a register, and groups of elements in a row of it.
pub(super) const SIDE: i64 = 16;
/// Longest block of contracted positions: a panel of B stays in the first-level cache while A passes by.
pub(super) const BLOCK_K: i64 = 256;
/// Rows of A that are walked for each panel of a group.
pub(super) const BLOCK_M: i64 = 256;
/// Bytes of a group of elements, and of a sum.
const GROUP_BYTES: i64 = 4;

/// What a function for tiles computes.
#[derive(Clone, Copy)]
struct Product {
    operand_types: [ElementType; 2],
    rows: i64,
    columns: i64,
    /// Groups that a step contracts.
    groups: i64,
    /// Whether the sums are added to what C has.
    adds: bool,
}

impl<'c> Emitter<'_, 'c> {
    /// Register tiles over a block of k: as many as the smallest of `counts`, one below the other.
    pub(super) fn matrix_tiles(
        &mut self,
        block: &Block<'c>,
        place: &Tile<'c>,
        columns: i64,
        counts: &[Expr<'c>],
    ) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let operand_types = product.operand_types;
        let of = |groups, adds| Product { operand_types, rows: place.rows, columns, groups, adds };
        let rest = product.k.size % SIDE;
        let count = self.scope.emit_min(builder, counts)?;
        let has_steps = product.k.size > rest;
        if has_steps {
            let steps: Vec<Expr<'c>> = block.length.iter().map(|length| length.floordiv(SIDE)).collect();
            let steps = self.scope.emit_min(builder, &steps)?;
            let begin = self.scope.constant(0);
            self.begun_or_not(block, |emitter, adds| {
                emitter.multiply_tiles(of(SIDE, adds), block, place, begin, [count, steps])
            })?;
        }
        if rest == 0 {
            return Ok(());
        }
        // The last block ends with the contracted positions.
        let begin = self.scope.simplify(block.length[0].floordiv(SIDE) * SIDE);
        let one = builder.constant_index(1);
        let multiply_rest = |emitter: &mut Self| match has_steps {
            true => emitter.multiply_tiles(of(rest, true), block, place, begin, [count, one]),
            false => emitter.begun_or_not(block, |emitter, adds| {
                emitter.multiply_tiles(of(rest, adds), block, place, begin, [count, one])
            }),
        };
        if product.blocks() == 1 {
            return multiply_rest(self);
        }
        let is_last = self.conditions(&[-block.length[0] + product.block_k()], false)?;
        builder.affine_if_then(&is_last, |_| {
            let outer = self.scope.len();
            let result = multiply_rest(self);
            self.scope.truncate(outer);
            result
        })
    }

    /// Code for the first block of contracted positions and for others, which add to C.
    fn begun_or_not(&mut self, block: &Block<'c>, mut body: impl FnMut(&mut Self, bool) -> Result<()>) -> Result<()> {
        let Some(number) = block.number else { return body(self, false) };
        let is_first = self.conditions(&[number], true)?;
        let builder = self.builder;
        builder.affine_if(&is_first, &[], |_, is_first| {
            let outer = self.scope.len();
            let result = body(self, !is_first);
            self.scope.truncate(outer);
            result.map(|()| Vec::new())
        })?;
        Ok(())
    }

    /// Multiplies some steps of some tiles from a position in the block.
    fn multiply_tiles(
        &mut self,
        tile: Product,
        block: &Block<'c>,
        place: &Tile<'c>,
        k: Expr<'c>,
        counts: [Value<'c>; 2],
    ) -> Result<()> {
        let (builder, MatMul { m, n, k: contracted, .. }) = (self.builder, self.product);
        let panels = block.panels.b.ok_or_else(|| LoweringError::bug("a tile without a panel"))?;
        let panel = self.product.panel();
        let sums = |memref, first, distance| Vectors { memref, element_bytes: GROUP_BYTES, first, distance };
        let a = place.a_offset + place.row * m.a + k * contracted.a;
        let a = self.operand_vectors(Operand::A, a, m.a)?;
        let b = sums(panels, place.panel_offset + k * panel, panel);
        let c = sums(self.c, place.c_offset + place.row * m.c + place.column * n.c, m.c);
        let mut arguments = counts.to_vec();
        for vectors in [a, b, c] {
            arguments.extend(vectors.addresses(builder, &self.scope)?);
        }
        let symbol = tile.symbol();
        let mut defined = Ok(());
        builder.define_once(&symbol, |builder| defined = tile.define(builder, &symbol));
        defined?;
        builder.call(&symbol, &arguments, &[]);
        Ok(())
    }
}

impl Product {
    fn symbol(&self) -> String {
        let Product { operand_types: [a, b], rows, columns, groups, adds } = self;
        let begin = if *adds { "add" } else { "begin" };
        format!("tile_{a}_{b}_{rows}x{columns}x{groups}_{begin}")
    }

    /// The instruction for products of these types.
    fn instruction(&self) -> &'static str {
        match self.operand_types {
            [ElementType::S8, ElementType::S8] => "llvm.x86.tdpbssd.internal",
            [ElementType::S8, _] => "llvm.x86.tdpbsud.internal",
            [ElementType::U8, ElementType::S8] => "llvm.x86.tdpbusd.internal",
            [ElementType::U8, _] => "llvm.x86.tdpbuud.internal",
            _ => "llvm.x86.tdpbf16ps.internal",
        }
    }

    /// Defines the function: of the numbers of tiles and of steps, and of where A, B and C begin, each with the distance of its
    /// rows in bytes.
    fn define(self, builder: &OpBuilder<'_>, symbol: &str) -> Result<()> {
        builder.function(symbol, &[builder.index_type; 8], &[], &[builder.private()], |builder, function| {
            let [tiles, steps, a, a_distance, b, b_distance, c, c_distance] = function.parameters()[..] else {
                return Err(LoweringError::bug("tiles without their places"));
            };
            let unit = Unit { builder, tile: tile_type(builder.context())? };
            let [zero, one, rows] = [0, 1, self.rows].map(|number| builder.constant_index(number));
            let [a_tile, c_tile] = [a_distance, c_distance].map(|distance| builder.muli(distance, rows));
            builder.for_loop(zero, tiles, one, &[], |builder, tile, _| {
                let a = builder.addi(a, builder.muli(tile, a_tile));
                let c = builder.addi(c, builder.muli(tile, c_tile));
                self.multiply(&unit, steps, [[a, a_distance], [b, b_distance], [c, c_distance]])?;
                Ok::<_, LoweringError>(Vec::new())
            })?;
            builder.effect("func.return", &[], &[]);
            Ok(())
        })
    }

    /// One tile: where A, B and C begin, each with the distance of its rows.
    fn multiply<'c>(
        &self,
        unit: &Unit<'_, 'c>,
        steps: Value<'c>,
        [[a, a_distance], [b, b_distance], [c, c_distance]]: [[Value<'c>; 2]; 3],
    ) -> Result<()> {
        let builder = unit.builder;
        let spans = |size: i64| -> Vec<(i64, i64)> {
            (0..size).step_by(SIDE as usize).map(|begin| (begin, (size - begin).min(SIDE))).collect()
        };
        let (rows, columns) = (spans(self.rows), spans(self.columns));
        let places: Vec<[(i64, i64); 2]> =
            rows.iter().flat_map(|&row| columns.iter().map(move |&column| [row, column])).collect();
        let place_in_c = |[(row, _), (column, _)]: [(i64, i64); 2]| unit.place(c, c_distance, row, column);
        let start = places.iter().map(|&[row, column]| match self.adds {
            true => unit.load("tileloadd64", (row.1, column.1), place_in_c([row, column]), c_distance),
            false => unit.zero((row.1, column.1)),
        });
        let start: Vec<_> = start.collect();
        let [zero, one] = [0, 1].map(|number| builder.constant_index(number));
        let sums = builder.for_loop(zero, steps, one, &start, |builder, step, sums| {
            let at = |first, bytes| builder.addi(first, builder.muli(step, bytes));
            let b_step = builder.muli(b_distance, builder.constant_index(SIDE));
            let (a, b) = (at(a, builder.constant_index(SIDE * GROUP_BYTES)), at(b, b_step));
            let load_b = |&(column, count): &(i64, i64)| {
                unit.load("tileloadd64", (self.groups, count), unit.place(b, b_distance, 0, column), b_distance)
            };
            let parts_of_b: Vec<_> = columns.iter().map(load_b).collect();
            let mut next = Vec::with_capacity(sums.len());
            for (&(row, count), sums) in rows.iter().zip(sums.chunks(columns.len())) {
                // A passes by, the panel of B is to stay in the cache.
                let place = unit.place(a, a_distance, row, 0);
                let a = unit.load("tileloaddt164", (count, self.groups), place, a_distance);
                for ((&sum, &b), &(_, width)) in sums.iter().zip(&parts_of_b).zip(&columns) {
                    next.push(unit.multiply(self.instruction(), [count, width, self.groups], [sum, a, b]));
                }
            }
            Ok::<_, LoweringError>(next)
        })?;
        for (&[row, column], sum) in places.iter().zip(sums) {
            unit.store((row.1, column.1), place_in_c([row, column]), c_distance, sum);
        }
        Ok(())
    }
}

fn tile_type(context: &Context) -> Result<Type<'_>> {
    Type::parse(context, "!llvm.x86_amx").ok_or_else(|| LoweringError::bug("no type for tiles"))
}

/// The instructions of the unit. Sizes are rows and groups.
struct Unit<'b, 'c> {
    builder: &'b OpBuilder<'c>,
    tile: Type<'c>,
}

impl<'c> Unit<'_, 'c> {
    fn sizes<const N: usize>(&self, sizes: [i64; N]) -> [Value<'c>; N] {
        sizes.map(|size| self.builder.constant_integer(self.builder.integer_type(16), size))
    }

    /// The address of a row and column, of groups or sums.
    fn place(&self, first: Value<'c>, distance: Value<'c>, row: i64, column: i64) -> Value<'c> {
        let builder = self.builder;
        let row = builder.muli(distance, builder.constant_index(row));
        builder.addi(builder.addi(first, row), builder.constant_index(column * GROUP_BYTES))
    }

    /// Pointer and distance as the instructions take them.
    fn memory(&self, place: Value<'c>, distance: Value<'c>) -> [Value<'c>; 2] {
        let builder = self.builder;
        let distance = builder.value("arith.index_cast", &[distance], builder.integer_type(64), &[]);
        [pointer_to(builder, place), distance]
    }

    fn zero(&self, (rows, groups): (i64, i64)) -> Value<'c> {
        self.builder.intrinsic("llvm.x86.tilezero.internal", &self.sizes([rows, groups * GROUP_BYTES]), self.tile)
    }

    fn load(&self, name: &str, (rows, groups): (i64, i64), place: Value<'c>, distance: Value<'c>) -> Value<'c> {
        let [rows, bytes] = self.sizes([rows, groups * GROUP_BYTES]);
        let [pointer, distance] = self.memory(place, distance);
        let name = format!("llvm.x86.{name}.internal");
        self.builder.intrinsic(&name, &[rows, bytes, pointer, distance], self.tile)
    }

    fn store(&self, (rows, groups): (i64, i64), place: Value<'c>, distance: Value<'c>, tile: Value<'c>) {
        let [rows, bytes] = self.sizes([rows, groups * GROUP_BYTES]);
        let [pointer, distance] = self.memory(place, distance);
        self.builder.intrinsic_effect("llvm.x86.tilestored64.internal", &[rows, bytes, pointer, distance, tile]);
    }

    /// The sums with the products of `rows` by `groups` groups of A and as many by `columns` of B.
    fn multiply(&self, name: &str, [rows, columns, groups]: [i64; 3], [sum, a, b]: [Value<'c>; 3]) -> Value<'c> {
        let [rows, columns, groups] = self.sizes([rows, columns * GROUP_BYTES, groups * GROUP_BYTES]);
        self.builder.intrinsic(name, &[rows, columns, groups, sum, a, b], self.tile)
    }
}
