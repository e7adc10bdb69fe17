//! Products of few rows: an element of B is used so few times that packing it would cost more than the product.
//! B is read once, in the order in which it lies in memory.

use indexing::Expr;
use mlir_ext::builder::Value;

use super::emit::{Emitter, Offsets, Operand, Result, Span};
use super::prologue::Position;
use super::{MatMul, TASKS, parts, positions};
use crate::scalar::RegisterValue;
use crate::scalar::combiner::Combiner;

/// Least bytes of a row of B that one task reads: many, as memory is read best, where few rows make little of each; fewer where they
/// are as much work as memory can bring, and more tasks let threads come in later.
pub(super) const STRIP_BYTES: i64 = 2048;
const STRIP_BYTES_OF_ROWS: i64 = 768;
/// Rows from which on that is so.
const ROWS_OF_WORK: i64 = 4;
/// Rows of B that are added to the rows of C at once, where there are few of these, and otherwise.
const ROWS_AT_ONCE: [i64; 2] = [8, 4];
/// Rows of C that rows of B are added to at once, at most, where these divide into so many: less code for eight rows, and
/// more of what the rows of B are multiplied by stays in registers.
const ROWS_ADDED_TO: i64 = 4;
/// Accumulators where the elements of a column of B are consecutive: as many as keep multiply-adds from waiting for each other, and
/// find room beside their factors.
const ACCUMULATORS: i64 = 8;
/// Vectors of a whole C that stay in registers, beside one of B and a factor.
const SUMS_IN_REGISTERS: i64 = 12;
/// Fewest and most columns of which products are summed at once.
const COLUMNS_AT_ONCE: [i64; 2] = [2, 8];

impl MatMul {
    /// Columns of one task of a product with one pass over B.
    pub(super) fn strip(&self) -> i64 {
        let least = match self.n.b {
            1 => {
                let bytes = if self.row_count() < ROWS_OF_WORK { STRIP_BYTES } else { STRIP_BYTES_OF_ROWS };
                parts(bytes, self.operand_types[1].byte_width() as i64)
            }
            _ => 1,
        };
        let group = if self.n.b == 1 { i64::from(self.lanes) } else { self.columns_at_once() };
        // As long as each other.
        let strips = parts(self.n.size, parts(self.n.size, TASKS).max(least));
        parts(parts(self.n.size, strips), group) * group
    }

    /// Such tasks.
    pub(super) fn strips(&self) -> i64 {
        parts(self.n.size, self.strip())
    }

    /// Rows of the product, outer ones included.
    pub(super) fn row_count(&self) -> i64 {
        positions(&self.rows) * self.m.size
    }

    /// Columns whose sums are made at once, where the elements of a column of B are consecutive.
    pub(super) fn columns_at_once(&self) -> i64 {
        let [fewest, most] = COLUMNS_AT_ONCE;
        parts(ACCUMULATORS, self.row_count()).clamp(fewest, most)
    }

    /// Rows of C that rows of B are added to at once: few of them, where B takes no work to read it again from the cache.
    fn rows_added_to(&self) -> i64 {
        let is_read_as_it_is = !self.computes(Operand::B) && self.operand_types[1] == self.element_type;
        let divides = self.rows.is_empty() && self.m.size % ROWS_ADDED_TO == 0;
        if divides && is_read_as_it_is { ROWS_ADDED_TO } else { self.row_count() }
    }

    /// The first column of each vector of a row of C, and its columns, if all vectors of C find room in registers.
    fn vectors_in_registers(&self) -> Option<Vec<(i64, i64)>> {
        let width = i64::from(self.lanes);
        let vectors = self.row_count().saturating_mul(parts(self.n.size, width));
        let begin = |number: i64| (number * width, width.min(self.n.size - number * width));
        (vectors <= SUMS_IN_REGISTERS).then(|| (0..parts(self.n.size, width)).map(begin).collect())
    }

    /// Where the rows begin in A and C.
    fn row_offsets(&self) -> Vec<[i64; 2]> {
        let mut offsets = vec![[0, 0]];
        for axis in self.rows.iter().chain([&self.m]) {
            offsets = offsets
                .iter()
                .flat_map(|[a, c]| (0..axis.size).map(move |position| [a + position * axis.a, c + position * axis.c]))
                .collect();
        }
        offsets
    }
}

/// Rows of B that are added to those of C.
struct Added<'c> {
    /// Where each begins.
    rows: Vec<Position<'c>>,
    /// What the rows of C begin with, if it is not what they hold.
    begin: Option<Value<'c>>,
}

impl<'c> Emitter<'_, 'c> {
    /// One task: all rows of a strip of columns.
    pub(super) fn streamed_task(&mut self, task: Expr<'c>) -> Result<()> {
        let product = self.product;
        let mut batch = task;
        let strip = self.split(&mut batch, product.strips())?;
        let offsets = self.batch_offsets(batch)?;
        let columns = Span::within(strip * product.strip(), product.strip(), product.n.size);
        match product.n.b {
            1 => self.stream_rows(&offsets, &columns),
            _ => self.stream_columns(&offsets, &columns),
        }
    }

    /// B with consecutive columns: some of its rows at a time are added to the rows of C, which stay in the cache.
    fn stream_rows(&mut self, offsets: &Offsets<'c>, columns: &Span<'c>) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let zero = builder.zero(self.vector);
        let begin = self.scope.constant(0);
        if product.contracted.is_empty() && (1..=ROWS_AT_ONCE[0]).contains(&product.k.size) {
            return self.add_rows(offsets, columns, begin, product.k.size, Some(zero));
        }
        if let Some(vectors) = product.vectors_in_registers() {
            return self.sum_rows(offsets, &vectors);
        }
        self.in_groups(columns, product.n.size, width, |emitter, column, count| {
            let c = emitter.named(offsets.c + column)?;
            product.row_offsets().iter().try_for_each(|[_, row]| emitter.store_vector(zero, emitter.c, c + *row, count))
        })?;
        let at_once = if product.row_count() <= ROWS_ADDED_TO { ROWS_AT_ONCE[0] } else { ROWS_AT_ONCE[1] };
        self.contracted_positions(offsets, Vec::new(), &mut |emitter, offsets, _| {
            let all = Span { begin, ends: vec![begin.constant_beside(product.k.size)] };
            emitter.in_groups(&all, product.k.size, at_once, |emitter, k, count| {
                emitter.add_rows(&offsets, columns, k, count, None)
            })?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// A small C, whose vectors stay in registers: B goes through them row by row. Where they are few, several rows of B each have sums of their
    /// own, so that multiply-adds do not wait for each other.
    fn sum_rows(&mut self, offsets: &Offsets<'c>, vectors: &[(i64, i64)]) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let rows = product.row_offsets();
        let sums = rows.len() * vectors.len();
        let at_once = parts(ACCUMULATORS, sums as i64).min(product.k.size.max(1));
        let zero = self.scope.constant(0);
        let whole = product.k.size / at_once * at_once;
        let zeros = vec![builder.zero(self.vector); sums * at_once as usize];
        let mut partial = self.contracted_positions(offsets, zeros, &mut |emitter, offsets, sums| {
            let until = [zero.constant_beside(whole)];
            let mut sums = emitter.accumulate(&[zero], &until, at_once, sums, |emitter, k, sums| {
                emitter.add_outer_products((&offsets, vectors), k, at_once, sums)
            })?;
            let rest = product.k.size - whole;
            let first = sums.len() / at_once as usize * rest as usize;
            let last =
                emitter.add_outer_products((&offsets, vectors), zero.constant_beside(whole), rest, &sums[..first])?;
            sums.splice(..first, last);
            Ok(sums)
        })?;
        let others = partial.split_off(sums);
        let combiner = Combiner::sum(product.element_type);
        let register = |value| RegisterValue {
            lanes: Some(product.lanes),
            ..RegisterValue::real(builder, product.element_type, value)
        };
        for others in others.chunks(sums) {
            for (sum, &other) in partial.iter_mut().zip(others) {
                *sum = combiner.combine(builder, &register(*sum), &register(other)).value;
            }
        }
        let places = rows.iter().flat_map(|[_, row]| vectors.iter().map(move |vector| (row, vector)));
        places.zip(partial).try_for_each(|((row, &(column, count)), sum)| {
            let c = self.named(offsets.c + (row + column))?;
            self.store_vector(sum, self.c, c, count)
        })
    }

    /// Adds the products of each of `steps` rows of B, from row `k`, with the elements of A to sums of their own.
    fn add_outer_products(
        &mut self,
        (offsets, vectors): (&Offsets<'c>, &[(i64, i64)]),
        k: Expr<'c>,
        steps: i64,
        sums: &[Value<'c>],
    ) -> Result<Vec<Value<'c>>> {
        let (builder, product) = (self.builder, self.product);
        let rows = product.row_offsets();
        let mut next = Vec::with_capacity(sums.len());
        for (step, sums) in (0..steps).zip(sums.chunks(rows.len() * vectors.len())) {
            let a = self.named(offsets.a + (k + step) * product.k.a)?;
            let row_of_b = self.position(Operand::B, offsets.b + (k + step) * product.k.b)?;
            let load = |&(column, count): &(i64, i64)| {
                let position = row_of_b.plus(k.constant_beside(column));
                self.load_elements(Operand::B, position, count)
            };
            let of_b = vectors.iter().map(load).collect::<Result<Vec<_>>>()?;
            for ([row, _], sums) in rows.iter().zip(sums.chunks(vectors.len())) {
                let position = self.position(Operand::A, a + *row)?;
                let factor = builder.broadcast(self.load_element(Operand::A, position)?, Some(product.lanes));
                next.extend(of_b.iter().zip(sums).map(|(&vector, &sum)| self.multiply_add(factor, vector, sum)));
            }
        }
        Ok(next)
    }

    /// Adds `count` rows of B, from row `k`, to the rows of C, or to what these begin with.
    fn add_rows(
        &mut self,
        offsets: &Offsets<'c>,
        columns: &Span<'c>,
        k: Expr<'c>,
        count: i64,
        begin: Option<Value<'c>>,
    ) -> Result<()> {
        let product = self.product;
        let at_once = product.rows_added_to();
        let a = self.named(offsets.a + k * product.k.a)?;
        let b = self.named(offsets.b + k * product.k.b)?;
        let computed = (0..count).map(|step| self.position(Operand::B, b + step * product.k.b));
        let added = Added { rows: computed.collect::<Result<Vec<_>>>()?, begin };
        if at_once == product.row_count() {
            return self.add_to_rows(&Offsets { a, b, c: offsets.c }, columns, &added, at_once);
        }
        let bounds = [0, product.m.size].map(|bound| self.scope.constant(bound));
        self.loop_over(&bounds[..1], &bounds[1..], at_once, |emitter, row| {
            let a = emitter.named(a + row * product.m.a)?;
            let c = emitter.named(offsets.c + row * product.m.c)?;
            emitter.add_to_rows(&Offsets { a, b, c }, columns, &added, at_once)
        })
    }

    /// Adds rows of B to the first `row_count` rows of C behind an offset.
    fn add_to_rows(
        &mut self,
        offsets: &Offsets<'c>,
        columns: &Span<'c>,
        added: &Added<'c>,
        row_count: i64,
    ) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let rows = product.row_offsets().into_iter().take(row_count as usize).collect::<Vec<_>>();
        let steps = 0..added.rows.len() as i64;
        let mut factors = Vec::with_capacity(rows.len());
        for [row, _] in &rows {
            let elements = steps.clone().map(|step| {
                let position = self.position(Operand::A, offsets.a + (step * product.k.a + row))?;
                self.load_element(Operand::A, position)
            });
            let elements = elements.collect::<Result<Vec<_>>>()?;
            factors.push(
                elements.iter().map(|&element| builder.broadcast(element, Some(product.lanes))).collect::<Vec<_>>(),
            );
        }
        self.in_groups(columns, product.n.size, i64::from(product.lanes), |emitter, column, lanes| {
            let from = emitter.named(offsets.b + column)?;
            let to = emitter.named(offsets.c + column)?;
            let vectors = steps
                .clone()
                .zip(&added.rows)
                .map(|(step, row)| {
                    let position = match product.computes(Operand::B) {
                        true => row.plus(column),
                        false => emitter.position(Operand::B, from + step * product.k.b)?,
                    };
                    emitter.load_elements(Operand::B, position, lanes)
                })
                .collect::<Result<Vec<_>>>()?;
            for ([_, row], factors) in rows.iter().zip(&factors) {
                let mut sum = match added.begin {
                    Some(begin) => begin,
                    None => emitter.load_vector(emitter.c, to + *row, lanes)?,
                };
                for (&factor, &vector) in factors.iter().zip(&vectors) {
                    sum = emitter.multiply_add(factor, vector, sum);
                }
                emitter.store_vector(sum, emitter.c, to + *row, lanes)?;
            }
            Ok(())
        })
    }

    /// B with consecutive contracted elements: sums of products in vectors, whose lanes are added at the end.
    fn stream_columns(&mut self, offsets: &Offsets<'c>, columns: &Span<'c>) -> Result<()> {
        let product = self.product;
        let copied = if product.k.a == 1 { None } else { Some(self.copy_rows(offsets)?) };
        self.in_groups(columns, product.n.size, product.columns_at_once(), |emitter, column, count| {
            let offsets = Offsets {
                a: offsets.a,
                b: emitter.named(offsets.b + column * product.n.b)?,
                c: emitter.named(offsets.c + column * product.n.c)?,
            };
            emitter.sum_columns(&offsets, copied, count)
        })
    }

    /// Copies the rows of A, whose elements do not follow each other, one after the other.
    fn copy_rows(&mut self, offsets: &Offsets<'c>) -> Result<Value<'c>> {
        let (builder, product) = (self.builder, self.product);
        let rows = product.row_offsets();
        let r#type = builder.memref_type(&[rows.len() as i64 * product.k.size], self.element);
        let copied = builder.in_prologue(|builder| builder.stack_buffer(r#type, 64));
        let bounds = [0, product.k.size].map(|bound| self.scope.constant(bound));
        self.loop_over(&bounds[..1], &bounds[1..], 1, |emitter, k| {
            let a = emitter.named(offsets.a + k * product.k.a)?;
            for (number, [row, _]) in rows.iter().enumerate() {
                let position = emitter.position(Operand::A, a + *row)?;
                let value = emitter.load_element(Operand::A, position)?;
                let place = emitter.scope.place(builder, &[k + number as i64 * product.k.size])?;
                place.store(builder, value, copied);
            }
            Ok(())
        })?;
        Ok(copied)
    }

    /// All rows of `count` columns.
    fn sum_columns(&mut self, offsets: &Offsets<'c>, copied: Option<Value<'c>>, count: i64) -> Result<()> {
        let (builder, product) = (self.builder, self.product);
        let width = i64::from(product.lanes);
        let rows = product.row_offsets();
        let zeros = vec![builder.zero(self.vector); rows.len() * count as usize];
        let zero = self.scope.constant(0);
        let whole = product.k.size / width * width;
        let sums = self.contracted_positions(offsets, zeros, &mut |emitter, offsets, sums| {
            let until = [zero.constant_beside(whole)];
            let sums = emitter.accumulate(&[zero], &until, width, sums, |emitter, k, sums| {
                emitter.add_products((&offsets, copied), k, width, count, sums)
            })?;
            match product.k.size - whole {
                0 => Ok(sums),
                rest => emitter.add_products((&offsets, copied), zero.constant_beside(whole), rest, count, &sums),
            }
        })?;
        let combiner = Combiner::sum(product.element_type);
        for (number, sum) in sums.into_iter().enumerate() {
            let (row, column) = (rows[number / count as usize][1], number as i64 % count);
            let sum = combiner.horizontal(builder, &RegisterValue::real(builder, product.element_type, sum));
            let place = self.scope.place(builder, &[offsets.c + (row + column * product.n.c)])?;
            place.store(builder, sum.value, self.c);
        }
        Ok(())
    }

    /// Adds the products of `lanes` contracted positions from `k` to the sums of all rows of `count` columns. The rows of A
    /// may be copied.
    fn add_products(
        &mut self,
        (offsets, copied): (&Offsets<'c>, Option<Value<'c>>),
        k: Expr<'c>,
        lanes: i64,
        count: i64,
        sums: &[Value<'c>],
    ) -> Result<Vec<Value<'c>>> {
        let product = self.product;
        let (a, b) = (self.named(offsets.a + k)?, self.named(offsets.b + k)?);
        let columns = (0..count)
            .map(|column| {
                let position = match product.computes(Operand::B) {
                    true => self.position(Operand::B, offsets.b + column * product.n.b)?.plus(k),
                    false => self.position(Operand::B, b + column * product.n.b)?,
                };
                self.load_elements(Operand::B, position, lanes)
            })
            .collect::<Result<Vec<_>>>()?;
        let mut next = Vec::with_capacity(sums.len());
        for ((number, [row, _]), sums) in product.row_offsets().iter().enumerate().zip(sums.chunks(columns.len())) {
            let factor = match copied {
                Some(copied) => self.load_vector(copied, k + number as i64 * product.k.size, lanes)?,
                None => {
                    let position = self.position(Operand::A, a + *row)?;
                    self.load_elements(Operand::A, position, lanes)?
                }
            };
            next.extend(columns.iter().zip(sums).map(|(&column, &sum)| self.multiply_add(factor, column, sum)));
        }
        Ok(next)
    }

    /// A loop over the outer contracted positions, if there are several, that carries values.
    fn contracted_positions(
        &mut self,
        offsets: &Offsets<'c>,
        initial: Vec<Value<'c>>,
        body: &mut dyn FnMut(&mut Self, Offsets<'c>, &[Value<'c>]) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        let product = self.product;
        if product.contracted.is_empty() {
            return body(self, *offsets, &initial);
        }
        let zero = self.scope.constant(0);
        let all = zero.constant_beside(positions(&product.contracted));
        self.accumulate(&[zero], &[all], 1, &initial, |emitter, position, carried| {
            let offsets = emitter.moved(offsets, &product.contracted, position)?;
            body(emitter, offsets, carried)
        })
    }
}
