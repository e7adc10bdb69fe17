//! Matrix products of floats: packed panels and a register tile, as in the usual blocked algorithms.
//!
//! A dot is seen as outer loops (batches, and free dimensions that cannot be merged) around one product
//! `C[m][n] += A[m][k] * B[k][n]` with strides. The work is split into groups of column panels, which may run on
//! several threads: a group packs its panels of B for one block of k, then walks the rows of A in blocks that stay
//! in the second-level cache. The tile keeps its part of C in registers over a block of k.
//!
//! Shapes that do not fit the form (two separate contracted ranges, other element types) take the general path of
//! [`crate::contraction`].

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction};
use hlo::op_kind::OpKind;
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};

use crate::memory::ArrayRef;
use crate::operand_maps::operand_shape;
use crate::scalar;

/// Longest block of the contracted dimension.
const BLOCK_K: i64 = 512;
/// Rows of A that are walked for each panel of a group.
const BLOCK_M: i64 = 96;
/// Panels that share a walk over A.
const PANELS_PER_GROUP: i64 = 4;
/// Products smaller than this (in multiplications) are not worth packing for.
const SMALLEST: i64 = 4096;

/// One dimension of the product with the distance of its neighbours in each array, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    size: i64,
    a: i64,
    b: i64,
    c: i64,
}

/// A dot in the form that the kernel computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatMul {
    element_type: ElementType,
    /// Element type of B, which packing brings into `element_type`.
    b_type: ElementType,
    outer: Vec<Axis>,
    m: Axis,
    n: Axis,
    k: Axis,
    /// Sizes of the register tile: rows, and columns as vectors.
    tile_rows: i64,
    tile_vectors: i64,
    lanes: u32,
}

/// The kernel form of a dot, if it has one.
pub fn recognise(computation: &Computation, instruction: &Instruction, vector_bits: u32) -> Option<MatMul> {
    if instruction.kind != OpKind::Dot {
        return None;
    }
    let lhs = operand_shape(computation, instruction, 0).ok()?;
    let rhs = operand_shape(computation, instruction, 1).ok()?;
    let output = instruction.shape.as_array()?;
    let element_type = output.element_type;
    let is_float = matches!(element_type, ElementType::F32 | ElementType::F64);
    let b_type = rhs.element_type;
    let is_widened = element_type == ElementType::F32 && b_type.is_float() && b_type.bit_width() < 32;
    if !is_float || lhs.element_type != element_type || !(b_type == element_type || is_widened) {
        return None;
    }
    let attributes = &instruction.attributes;
    let (a_strides, b_strides, c_strides) = (lhs.strides(), rhs.strides(), output.strides());
    let lists = [
        attributes.ints("lhs_batch_dims"),
        attributes.ints("rhs_batch_dims"),
        attributes.ints("lhs_contracting_dims"),
        attributes.ints("rhs_contracting_dims"),
    ];
    let [lhs_batch, rhs_batch, lhs_contracting, rhs_contracting] = lists;
    let mut next_output = 0;
    let mut outer = Vec::new();
    for (&l, &r) in lhs_batch.iter().zip(rhs_batch) {
        let (l, r) = (l as usize, r as usize);
        outer.push(Axis { size: lhs.dimensions[l], a: a_strides[l], b: b_strides[r], c: c_strides[next_output] });
        next_output += 1;
    }
    let mut rows = Vec::new();
    for d in (0..lhs.rank()).filter(|&d| !lhs_batch.contains(&(d as i64)) && !lhs_contracting.contains(&(d as i64))) {
        rows.push(Axis { size: lhs.dimensions[d], a: a_strides[d], b: 0, c: c_strides[next_output] });
        next_output += 1;
    }
    let mut columns = Vec::new();
    for d in (0..rhs.rank()).filter(|&d| !rhs_batch.contains(&(d as i64)) && !rhs_contracting.contains(&(d as i64))) {
        columns.push(Axis { size: rhs.dimensions[d], a: 0, b: b_strides[d], c: c_strides[next_output] });
        next_output += 1;
    }
    let contracted: Vec<Axis> = lhs_contracting
        .iter()
        .zip(rhs_contracting)
        .map(|(&l, &r)| Axis {
            size: lhs.dimensions[l as usize],
            a: a_strides[l as usize],
            b: b_strides[r as usize],
            c: 0,
        })
        .collect();
    let m = merge_last(rows, &mut outer);
    let n = merge_last(columns, &mut outer);
    let mut separate = Vec::new();
    let k = merge_last(contracted, &mut separate);
    if !separate.is_empty() {
        return None;
    }
    let sizes: Vec<i64> = outer.iter().map(|axis| axis.size).chain([m.size, n.size, k.size]).collect();
    let product = sizes.iter().fold(1i64, |product, &size| product.saturating_mul(size));
    let width = i64::from(vector_bits) / i64::from(element_type.bit_width());
    if sizes.contains(&0) || product < SMALLEST || n.size < width || m.size < 2 {
        return None;
    }
    let (tile_rows, tile_vectors) = if vector_bits >= 512 { (14, 2) } else { (6, 2) };
    let tile_rows = tile_rows.min(m.size);
    Some(MatMul { element_type, b_type, outer, m, n, k, tile_rows, tile_vectors, lanes: width as u32 })
}

/// The innermost axis with those before it that can be merged into it; the others become outer loops.
fn merge_last(axes: Vec<Axis>, outer: &mut Vec<Axis>) -> Axis {
    let mut merged = Axis { size: 1, a: 0, b: 0, c: 0 };
    let mut is_first = true;
    let mut separate = Vec::new();
    for axis in axes.into_iter().rev().filter(|axis| axis.size != 1) {
        let continues = |own: i64, inner: i64| own == inner * merged.size;
        if is_first {
            merged = axis;
            is_first = false;
        } else if separate.is_empty()
            && continues(axis.a, merged.a)
            && continues(axis.b, merged.b)
            && continues(axis.c, merged.c)
        {
            merged.size *= axis.size;
        } else {
            separate.push(axis);
        }
    }
    outer.extend(separate.into_iter().rev());
    merged
}

/// How many parts of `part` elements `size` elements make, the last one perhaps smaller.
fn parts(size: i64, part: i64) -> i64 {
    (size + part - 1) / part.max(1)
}

impl MatMul {
    fn panel(&self) -> i64 {
        self.tile_vectors * i64::from(self.lanes)
    }

    fn groups(&self) -> i64 {
        parts(self.n.size, self.panel() * PANELS_PER_GROUP)
    }

    /// Rows that one task computes: all of them, unless there are too few groups to share.
    fn task_rows(&self) -> i64 {
        let outer: i64 = self.outer.iter().map(|axis| axis.size).product();
        if outer * self.groups() >= 8 {
            return self.m.size;
        }
        let blocks = (self.m.size / (2 * BLOCK_M)).clamp(1, 8);
        parts(parts(self.m.size, blocks), self.tile_rows) * self.tile_rows
    }

    fn row_tasks(&self) -> i64 {
        parts(self.m.size, self.task_rows())
    }

    /// Number of independent tasks.
    pub fn tasks(&self) -> i64 {
        self.outer.iter().map(|axis| axis.size).product::<i64>() * self.groups() * self.row_tasks()
    }

    /// Multiplications of the whole product.
    pub fn cost(&self) -> i64 {
        let outer: i64 = self.outer.iter().map(|axis| axis.size).product();
        outer.saturating_mul(self.m.size).saturating_mul(self.n.size).saturating_mul(self.k.size)
    }
}

/// Emits tasks `begin..end` of the product of `a` and `b` into `c`.
pub fn emit_matmul<'c>(
    builder: &OpBuilder<'c>,
    product: &MatMul,
    [a, b, c]: [&ArrayRef<'c>; 3],
    begin: Value<'c>,
    end: Value<'c>,
) {
    let element = scalar::memory_type(builder, product.element_type);
    let emitter = Emitter {
        builder,
        product,
        a: a.memref,
        b: b.memref,
        c: c.memref,
        element,
        vector: builder.vector_type(product.lanes, element),
    };
    let blocks = parts(product.k.size, BLOCK_K);
    let block_k = parts(product.k.size, blocks);
    let packed_size = PANELS_PER_GROUP * product.panel() * block_k;
    let packed = builder.stack_buffer(builder.memref_type(&[packed_size], element), 64);
    let one = builder.constant_index(1);
    builder.for_loop(begin, end, one, &[], |_, task, _| {
        emitter.task(task, packed, block_k, blocks);
        Vec::new()
    });
}

struct Emitter<'e, 'c> {
    builder: &'e OpBuilder<'c>,
    product: &'e MatMul,
    a: Value<'c>,
    b: Value<'c>,
    c: Value<'c>,
    element: Type<'c>,
    vector: Type<'c>,
}

/// Element offsets of a task in the three arrays.
#[derive(Clone, Copy)]
struct Offsets<'c> {
    a: Value<'c>,
    b: Value<'c>,
    c: Value<'c>,
}

impl<'e, 'c> Emitter<'e, 'c> {
    fn index(&self, value: i64) -> Value<'c> {
        self.builder.constant_index(value)
    }

    fn add(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.builder.addi(a, b)
    }

    fn scaled(&self, value: Value<'c>, factor: i64) -> Value<'c> {
        match factor {
            1 => value,
            _ => self.builder.muli(value, self.index(factor)),
        }
    }

    fn loop_over(&self, lower: Value<'c>, upper: Value<'c>, step: i64, body: impl FnOnce(Value<'c>)) {
        self.builder.for_loop(lower, upper, self.index(step), &[], |_, position, _| {
            body(position);
            Vec::new()
        });
    }

    fn task(&self, task: Value<'c>, packed: Value<'c>, block_k: i64, blocks: i64) {
        let (builder, product) = (self.builder, self.product);
        let mut rest = task;
        let split = |rest: &mut Value<'c>, size: i64| {
            let position = builder.value("arith.remui", &[*rest, self.index(size)], builder.index_type, &[]);
            *rest = builder.value("arith.divui", &[*rest, self.index(size)], builder.index_type, &[]);
            position
        };
        let row_task = split(&mut rest, product.row_tasks());
        let group = split(&mut rest, product.groups());
        let zero = self.index(0);
        let mut offsets = Offsets { a: zero, b: zero, c: zero };
        for axis in product.outer.iter().rev() {
            let position = split(&mut rest, axis.size);
            let moved =
                |offset, stride| if stride == 0 { offset } else { self.add(offset, self.scaled(position, stride)) };
            offsets = Offsets { a: moved(offsets.a, axis.a), b: moved(offsets.b, axis.b), c: moved(offsets.c, axis.c) };
        }
        let rows = product.task_rows();
        let first_row = self.scaled(row_task, rows);
        let end_row = self.minimum(self.add(first_row, self.index(rows)), product.m.size);
        let group_columns = product.panel() * PANELS_PER_GROUP;
        let first_column = self.scaled(group, group_columns);
        let end_column = self.minimum(self.add(first_column, self.index(group_columns)), product.n.size);
        // The first block of k starts C, the others add to it.
        self.block(packed, block_k, offsets, [first_row, end_row, first_column, end_column], zero, true);
        if blocks > 1 {
            self.loop_over(self.index(block_k), self.index(product.k.size), block_k, |first_k| {
                self.block(packed, block_k, offsets, [first_row, end_row, first_column, end_column], first_k, false);
            });
        }
    }

    fn minimum(&self, value: Value<'c>, bound: i64) -> Value<'c> {
        self.builder.value("arith.minsi", &[value, self.index(bound)], self.builder.index_type, &[])
    }

    /// One block of k of one group of panels.
    fn block(
        &self,
        packed: Value<'c>,
        block_k: i64,
        offsets: Offsets<'c>,
        [first_row, end_row, first_column, end_column]: [Value<'c>; 4],
        first_k: Value<'c>,
        starts: bool,
    ) {
        let product = self.product;
        let panel = product.panel();
        let length = if product.k.size % block_k == 0 {
            self.index(block_k)
        } else {
            self.minimum(self.builder.subi(self.index(product.k.size), first_k), block_k)
        };
        let b_offset = self.add(offsets.b, self.scaled(first_k, product.k.b));
        let a_offset = self.add(offsets.a, self.scaled(first_k, product.k.a));
        self.pack(packed, block_k, b_offset, first_column, end_column, length);
        self.loop_over(first_row, end_row, BLOCK_M / product.tile_rows * product.tile_rows, |block_row| {
            let block_rows = BLOCK_M / product.tile_rows * product.tile_rows;
            let block_end = self.add(block_row, self.index(block_rows));
            let block_end = self.builder.value("arith.minsi", &[block_end, end_row], self.builder.index_type, &[]);
            self.loop_over(first_column, end_column, panel, |column| {
                let panel_offset = self.scaled(self.builder.subi(column, first_column), block_k);
                self.rows(packed, panel_offset, a_offset, offsets.c, [block_row, block_end, column, length], starts);
            });
        });
    }

    /// The tiles of a block of rows in one panel, with their variants at the edges.
    fn rows(
        &self,
        packed: Value<'c>,
        panel_offset: Value<'c>,
        a_offset: Value<'c>,
        c_offset: Value<'c>,
        [block_row, block_end, column, length]: [Value<'c>; 4],
        starts: bool,
    ) {
        let product = self.product;
        let tile = product.tile_rows;
        let rest = product.m.size % tile;
        let by_width = |row: Value<'c>, rows: i64| {
            let edge = product.n.size % product.panel();
            let place = Tile { packed, panel_offset, a_offset, c_offset, row, column, length, rows, starts };
            if edge == 0 {
                return self.tile(place, product.panel());
            }
            if product.n.size < product.panel() {
                return self.tile(place, edge);
            }
            let is_whole = self.builder.cmpi(
                mlir_ext::arith::CmpiPredicate::Sle,
                column,
                self.index(product.n.size - product.panel()),
            );
            self.builder.if_else(
                is_whole,
                &[],
                |_| {
                    self.tile(place, product.panel());
                    Vec::new()
                },
                |_| {
                    self.tile(place, edge);
                    Vec::new()
                },
            );
        };
        if rest == 0 {
            self.loop_over(block_row, block_end, tile, |row| by_width(row, tile));
            return;
        }
        let whole_end = self.minimum(block_end, product.m.size - rest);
        self.loop_over(block_row, whole_end, tile, |row| by_width(row, tile));
        let has_rest = self.builder.cmpi(mlir_ext::arith::CmpiPredicate::Eq, block_end, self.index(product.m.size));
        self.builder.if_then(has_rest, |_| by_width(self.index(product.m.size - rest), rest));
    }

    /// Copies a block of B into panels of consecutive rows of k, missing columns as zero.
    fn pack(
        &self,
        packed: Value<'c>,
        block_k: i64,
        b_offset: Value<'c>,
        first_column: Value<'c>,
        end_column: Value<'c>,
        length: Value<'c>,
    ) {
        let product = self.product;
        let (panel, width) = (product.panel(), i64::from(product.lanes));
        let zero = self.index(0);
        self.loop_over(first_column, end_column, panel, |column| {
            let panel_offset = self.scaled(self.builder.subi(column, first_column), block_k);
            let source = self.add(b_offset, self.scaled(column, product.n.b));
            let edge = product.n.size % panel;
            let whole = |columns: i64| {
                if product.n.b == 1 {
                    self.loop_over(zero, length, 1, |k| {
                        let from = self.add(source, self.scaled(k, product.k.b));
                        let to = self.add(panel_offset, self.scaled(k, panel));
                        for part in 0..product.tile_vectors {
                            let here = (columns - part * width).clamp(0, width);
                            let value = self.load_b(self.add(from, self.index(part * width)), here);
                            self.store_vector(value, packed, self.add(to, self.index(part * width)), width);
                        }
                    });
                } else {
                    self.pack_transposed(packed, panel_offset, source, columns, length);
                }
            };
            if edge == 0 {
                return whole(panel);
            }
            if product.n.size < panel {
                return whole(edge);
            }
            let is_whole =
                self.builder.cmpi(mlir_ext::arith::CmpiPredicate::Sle, column, self.index(product.n.size - panel));
            self.builder.if_else(
                is_whole,
                &[],
                |_| {
                    whole(panel);
                    Vec::new()
                },
                |_| {
                    whole(edge);
                    Vec::new()
                },
            );
        });
    }

    /// Packs a panel of a B whose columns are consecutive along k: squares are transposed in registers.
    fn pack_transposed(
        &self,
        packed: Value<'c>,
        panel_offset: Value<'c>,
        source: Value<'c>,
        columns: i64,
        length: Value<'c>,
    ) {
        let (builder, product) = (self.builder, self.product);
        let (panel, width) = (product.panel(), i64::from(product.lanes));
        let zero = self.index(0);
        let mut scalar_from = zero;
        if product.k.b == 1 && columns == panel {
            let remainder = builder.value("arith.remui", &[length, self.index(width)], builder.index_type, &[]);
            scalar_from = builder.subi(length, remainder);
            self.loop_over(zero, scalar_from, width, |k| {
                for part in 0..product.tile_vectors {
                    let rows: Vec<Value<'c>> = (0..width)
                        .map(|n| {
                            let row = self.add(source, self.index((part * width + n) * product.n.b));
                            self.load_b(self.add(row, k), width)
                        })
                        .collect();
                    for (step, column) in transposed(builder, rows).into_iter().enumerate() {
                        let position = self.add(k, self.index(step as i64));
                        let to = self.add(panel_offset, self.scaled(position, panel));
                        self.store_vector(column, packed, self.add(to, self.index(part * width)), width);
                    }
                }
            });
        }
        let missing = builder.constant_float(self.element, 0.0);
        self.loop_over(scalar_from, length, 1, |k| {
            let from = self.add(source, self.scaled(k, product.k.b));
            let to = self.add(panel_offset, self.scaled(k, panel));
            for n in 0..panel {
                let value = if n < columns {
                    let place = self.add(from, self.index(n * product.n.b));
                    let memory = scalar::memory_type(builder, product.b_type);
                    let loaded = builder.value("memref.load", &[self.b, place], memory, &[]);
                    scalar::from_memory(builder, product.b_type, None, loaded).value
                } else {
                    missing
                };
                builder.effect("memref.store", &[value, packed, self.add(to, self.index(n))], &[]);
            }
        });
    }

    /// `count` elements of B in the first lanes of a vector of the product's type, the others zero.
    fn load_b(&self, position: Value<'c>, count: i64) -> Value<'c> {
        let (builder, product) = (self.builder, self.product);
        if product.b_type == product.element_type {
            return self.load_vector(self.b, position, count);
        }
        let lanes = Some(product.lanes);
        let memory = scalar::load_type(builder, product.b_type, lanes);
        let loaded = self.load_lanes(self.b, memory, builder.constant_integer(memory, 0), position, count);
        scalar::from_memory(builder, product.b_type, lanes, loaded).value
    }

    /// `count` elements from memory in the first lanes of a vector, the others zero.
    fn load_vector(&self, from: Value<'c>, position: Value<'c>, count: i64) -> Value<'c> {
        self.load_lanes(from, self.vector, self.builder.constant_float(self.vector, 0.0), position, count)
    }

    fn load_lanes(
        &self,
        from: Value<'c>,
        vector: Type<'c>,
        zero: Value<'c>,
        position: Value<'c>,
        count: i64,
    ) -> Value<'c> {
        let builder = self.builder;
        if count == i64::from(self.product.lanes) {
            return builder.value("vector.load", &[from, position], vector, &[]);
        }
        if count == 0 {
            return zero;
        }
        let mask = builder.constant_mask(self.product.lanes, count);
        builder.value("vector.maskedload", &[from, position, mask, zero], vector, &[])
    }

    fn store_vector(&self, value: Value<'c>, to: Value<'c>, position: Value<'c>, count: i64) {
        let builder = self.builder;
        if count == i64::from(self.product.lanes) {
            builder.effect("vector.store", &[value, to, position], &[]);
        } else if count > 0 {
            let mask = builder.constant_mask(self.product.lanes, count);
            builder.effect("vector.maskedstore", &[to, position, mask, value], &[]);
        }
    }

    /// One register tile over a block of k.
    fn tile(&self, place: Tile<'c>, columns: i64) {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let vectors = parts(columns, width);
        let a_row = self.add(place.a_offset, self.scaled(place.row, product.m.a));
        let c_row = self.add(place.c_offset, self.scaled(place.row, product.m.c));
        let c_first = self.add(c_row, self.scaled(place.column, product.n.c));
        let zero = builder.constant_float(self.vector, 0.0);
        let start = vec![zero; (place.rows * vectors) as usize];
        let sums = builder.for_loop(self.index(0), place.length, self.index(1), &start, |_, k, sums| {
            let from = self.add(place.panel_offset, self.scaled(k, product.panel()));
            let b: Vec<Value<'c>> = (0..vectors)
                .map(|part| self.load_vector(place.packed, self.add(from, self.index(part * width)), width))
                .collect();
            let a_first = self.add(a_row, self.scaled(k, product.k.a));
            let mut next = Vec::with_capacity(sums.len());
            for row in 0..place.rows {
                let position = self.add(a_first, self.index(row * product.m.a));
                let a = builder.value("memref.load", &[self.a, position], self.element, &[]);
                let a = builder.broadcast(a, Some(product.lanes));
                for part in 0..vectors {
                    next.push(builder.fma(a, b[part as usize], sums[(row * vectors + part) as usize]));
                }
            }
            next
        });
        for row in 0..place.rows {
            for part in 0..vectors {
                let count = (columns - part * width).min(width);
                let position = self.add(c_first, self.index(row * product.m.c + part * width));
                let mut sum = sums[(row * vectors + part) as usize];
                if !place.starts {
                    sum = builder.addf(sum, self.load_vector(self.c, position, count));
                }
                self.store_vector(sum, self.c, position, count);
            }
        }
    }
}

/// Where a register tile works.
#[derive(Clone, Copy)]
struct Tile<'c> {
    packed: Value<'c>,
    panel_offset: Value<'c>,
    a_offset: Value<'c>,
    c_offset: Value<'c>,
    row: Value<'c>,
    column: Value<'c>,
    length: Value<'c>,
    rows: i64,
    /// Whether the tile starts C rather than adding to it.
    starts: bool,
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
