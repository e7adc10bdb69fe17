//! Code of a product: the loops over its blocks, the packing of panels, the register tile.

use hlo::element_type::ElementType;
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};

use super::{Axis, BLOCK_K, BLOCK_M, MatMul, PANELS_PER_GROUP, parts, positions};
use crate::memory::ArrayRef;
use crate::scalar;

/// Emits tasks `begin..end` of the product of `lhs` and `rhs` into `c`.
pub fn emit_matmul<'c>(
    builder: &OpBuilder<'c>,
    product: &MatMul,
    [lhs, rhs, c]: [&ArrayRef<'c>; 3],
    begin: Value<'c>,
    end: Value<'c>,
) {
    let [a, b] = if product.swapped { [rhs, lhs] } else { [lhs, rhs] };
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

    /// The quotient by a size stays in `rest`, the remainder is returned.
    fn split(&self, rest: &mut Value<'c>, size: i64) -> Value<'c> {
        if size == 1 {
            return self.index(0);
        }
        let (builder, divisor) = (self.builder, self.index(size));
        let position = builder.value("arith.remui", &[*rest, divisor], builder.index_type, &[]);
        *rest = builder.value("arith.divui", &[*rest, divisor], builder.index_type, &[]);
        position
    }

    /// Offsets moved to a position that counts through some axes.
    fn moved(&self, offsets: Offsets<'c>, axes: &[Axis], position: Value<'c>) -> Offsets<'c> {
        let mut rest = position;
        let mut offsets = offsets;
        for (number, axis) in axes.iter().enumerate().rev() {
            let position = if number == 0 { rest } else { self.split(&mut rest, axis.size) };
            let moved =
                |offset, stride| if stride == 0 { offset } else { self.add(offset, self.scaled(position, stride)) };
            offsets = Offsets { a: moved(offsets.a, axis.a), b: moved(offsets.b, axis.b), c: moved(offsets.c, axis.c) };
        }
        offsets
    }

    fn task(&self, task: Value<'c>, packed: Value<'c>, block_k: i64, blocks: i64) {
        let product = self.product;
        let mut rest = task;
        let row_task = self.split(&mut rest, product.row_tasks());
        let position_task = self.split(&mut rest, product.position_tasks());
        let group = self.split(&mut rest, product.groups());
        let [first_a, first_b] = product.first;
        let first = Offsets { a: self.index(first_a), b: self.index(first_b), c: self.index(0) };
        let offsets = self.moved(first, &product.batch, rest);
        let span = |number: Value<'c>, length: i64, size: i64| {
            let begin = self.scaled(number, length);
            (begin, self.minimum(self.add(begin, self.index(length)), size))
        };
        let part = Part {
            positions: span(position_task, product.task_positions(), positions(&product.rows)),
            rows: span(row_task, product.task_rows(), product.m.size),
            columns: span(group, product.panel() * PANELS_PER_GROUP, product.n.size),
        };
        let all = blocks * positions(&product.contracted);
        if all == 1 {
            return self.block(packed, block_k, offsets, part, self.index(0), None);
        }
        self.loop_over(self.index(0), self.index(all), 1, |number| {
            let mut outer = number;
            let first_k = self.scaled(self.split(&mut outer, blocks), block_k);
            let offsets = self.moved(offsets, &product.contracted, outer);
            let is_first = self.builder.cmpi(mlir_ext::arith::CmpiPredicate::Eq, number, self.index(0));
            self.block(packed, block_k, offsets, part, first_k, Some(is_first));
        });
    }

    fn minimum(&self, value: Value<'c>, bound: i64) -> Value<'c> {
        self.builder.value("arith.minsi", &[value, self.index(bound)], self.builder.index_type, &[])
    }

    /// One block of contracted positions of one group of panels.
    fn block(
        &self,
        packed: Value<'c>,
        block_k: i64,
        offsets: Offsets<'c>,
        part: Part<'c>,
        first_k: Value<'c>,
        is_first: Option<Value<'c>>,
    ) {
        let product = self.product;
        let length = if product.k.size % block_k == 0 {
            self.index(block_k)
        } else {
            self.minimum(self.builder.subi(self.index(product.k.size), first_k), block_k)
        };
        let offsets = Offsets {
            a: self.add(offsets.a, self.scaled(first_k, product.k.a)),
            b: self.add(offsets.b, self.scaled(first_k, product.k.b)),
            ..offsets
        };
        let (first_column, end_column) = part.columns;
        self.pack(packed, block_k, offsets.b, first_column, end_column, length);
        // A block of A: rows of one position, or several positions with few rows.
        let block_rows = BLOCK_M / product.tile_rows * product.tile_rows;
        let block_positions = (BLOCK_M / product.m.size).max(1);
        let bounded = |begin: Value<'c>, size: i64, end: Value<'c>| {
            let next = self.add(begin, self.index(size));
            self.builder.value("arith.minsi", &[next, end], self.builder.index_type, &[])
        };
        self.positions(part.positions, block_positions, |block_position| {
            let last_position = bounded(block_position, block_positions, part.positions.1);
            self.loop_over(part.rows.0, part.rows.1, block_rows, |block_row| {
                let block_end = bounded(block_row, block_rows, part.rows.1);
                self.loop_over(first_column, end_column, product.panel(), |column| {
                    let panel_offset = self.scaled(self.builder.subi(column, first_column), block_k);
                    self.positions((block_position, last_position), 1, |position| {
                        let here = self.moved(offsets, &product.rows, position);
                        self.rows(
                            packed,
                            panel_offset,
                            here.a,
                            here.c,
                            [block_row, block_end, column, length],
                            is_first,
                        );
                    });
                });
            });
        });
    }

    /// A loop over positions of the outer rows, if there are several.
    fn positions(&self, (begin, end): (Value<'c>, Value<'c>), step: i64, body: impl FnOnce(Value<'c>)) {
        if self.product.rows.is_empty() {
            return body(self.index(0));
        }
        self.loop_over(begin, end, step, body);
    }

    /// The tiles of a block of rows in one panel, with their variants at the edges.
    fn rows(
        &self,
        packed: Value<'c>,
        panel_offset: Value<'c>,
        a_offset: Value<'c>,
        c_offset: Value<'c>,
        [block_row, block_end, column, length]: [Value<'c>; 4],
        is_first: Option<Value<'c>>,
    ) {
        let product = self.product;
        let tile = product.tile_rows;
        let rest = product.m.size % tile;
        let by_width = |row: Value<'c>, rows: i64| {
            let edge = product.n.size % product.panel();
            let place = Tile { packed, panel_offset, a_offset, c_offset, row, column, length, rows, is_first };
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
                    self.load_element(self.b, product.operand_types[1], place)
                } else {
                    missing
                };
                builder.effect("memref.store", &[value, packed, self.add(to, self.index(n))], &[]);
            }
        });
    }

    /// One element of an operand, in the product's type.
    fn load_element(&self, from: Value<'c>, element_type: ElementType, position: Value<'c>) -> Value<'c> {
        let memory = scalar::memory_type(self.builder, element_type);
        let loaded = self.builder.value("memref.load", &[from, position], memory, &[]);
        scalar::from_memory(self.builder, element_type, None, loaded).value
    }

    /// `count` elements of B in the first lanes of a vector of the product's type, the others zero.
    fn load_b(&self, position: Value<'c>, count: i64) -> Value<'c> {
        let (builder, product) = (self.builder, self.product);
        let element_type = product.operand_types[1];
        if element_type == product.element_type {
            return self.load_vector(self.b, position, count);
        }
        let lanes = Some(product.lanes);
        let memory = scalar::load_type(builder, element_type, lanes);
        let loaded = self.load_lanes(self.b, memory, builder.constant_integer(memory, 0), position, count);
        scalar::from_memory(builder, element_type, lanes, loaded).value
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
        let zeros = vec![zero; (place.rows * vectors) as usize];
        // Position in C and number of columns of each vector of the tile.
        let vectors_of_c = || {
            (0..place.rows).flat_map(move |row| (0..vectors).map(move |part| (row, part))).map(|(row, part)| {
                let count = (columns - part * width).min(width);
                (self.add(c_first, self.index(row * product.m.c + part * width)), count)
            })
        };
        let start = match place.is_first {
            None => zeros,
            Some(is_first) => builder.if_else(
                is_first,
                &vec![self.vector; zeros.len()],
                |_| zeros.clone(),
                |_| vectors_of_c().map(|(position, count)| self.load_vector(self.c, position, count)).collect(),
            ),
        };
        let sums = builder.for_loop(self.index(0), place.length, self.index(1), &start, |_, k, sums| {
            let from = self.add(place.panel_offset, self.scaled(k, product.panel()));
            let b: Vec<Value<'c>> = (0..vectors)
                .map(|part| self.load_vector(place.packed, self.add(from, self.index(part * width)), width))
                .collect();
            let a_first = self.add(a_row, self.scaled(k, product.k.a));
            let mut next = Vec::with_capacity(sums.len());
            for row in 0..place.rows {
                let position = self.add(a_first, self.index(row * product.m.a));
                let a = self.load_element(self.a, product.operand_types[0], position);
                let a = builder.broadcast(a, Some(product.lanes));
                for part in 0..vectors {
                    next.push(builder.fma(a, b[part as usize], sums[(row * vectors + part) as usize]));
                }
            }
            next
        });
        for ((position, count), sum) in vectors_of_c().zip(sums) {
            self.store_vector(sum, self.c, position, count);
        }
    }
}

/// What one task computes: outer rows, rows and columns, each from the first to behind the last.
#[derive(Clone, Copy)]
struct Part<'c> {
    positions: (Value<'c>, Value<'c>),
    rows: (Value<'c>, Value<'c>),
    columns: (Value<'c>, Value<'c>),
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
    /// Whether this is the first block of contracted positions: others add to C. `None` if there is only one.
    is_first: Option<Value<'c>>,
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
