//! Attention by multiply-adds: each of 16 x 16 threads has some rows, of each some keys and some features. The weights go
//! through shared memory to the threads of their row.

use hlo::element_type::ElementType;
use hlo::graph::Instruction;
use indexing::{Expr, Interval};
use mlir_ext::builder::{Body, Value};

use super::slabs::{Layout, Slab, multiple_of};
use super::{Blocks, Products, Result, Shares};
use crate::attention::AttentionForm;
use crate::elemental::Elemental;
use crate::scalar::{self, RegisterValue};
use crate::team::SharedValues;

/// Threads of a block, along queries and along keys or features.
const SIDE: i64 = 16;

/// Neighbouring features that a thread has at once, at most.
const VECTOR: i64 = 4;

/// Neighbouring features that a thread has at once.
fn neighbours(features: i64) -> i64 {
    let wastes_little = |lanes: i64| multiple_of(features, SIDE * lanes) * 4 <= multiple_of(features, SIDE) * 5;
    let mut lanes = VECTOR;
    while lanes > 1 && !wastes_little(lanes) {
        lanes /= 2;
    }
    lanes
}

/// Features that the threads of a row have together.
pub(super) fn columns_of(features: i64) -> i64 {
    multiple_of(features, SIDE * neighbours(features))
}

/// How rows are kept: contracted features by the four, others as threads have them.
pub(super) fn layout(element_type: ElementType) -> Layout {
    Layout { element_type, are_bits: false, multiples: [|features| multiple_of(features, VECTOR), columns_of] }
}

/// Bytes of shared memory that a block takes.
pub(super) fn shared_bytes(blocks: &Blocks, form: &AttentionForm) -> i64 {
    let layout = layout(form.element_type);
    let row = |is_value: bool, features: i64| layout.row(layout.columns(is_value, features));
    let of_depth = (blocks.queries + blocks.keys) * row(false, form.depth);
    let of_values = blocks.keys * row(true, form.features);
    let of_weights = blocks.queries * layout.row(blocks.keys);
    (of_depth + of_values + of_weights) * form.element_type.byte_width() as i64
}

pub(super) struct MultiplyAdds<'s, 'c> {
    /// The products of queries and keys, and of weights and values.
    products: [&'s Instruction; 2],
    slabs: &'s [Slab<'c>],
    weights: SharedValues<'c>,
    /// Elements from a row of weights to the next one.
    row: i64,
    /// Rows, keys of each, and features by their neighbours, of a thread.
    rows: i64,
    keys: i64,
    features: i64,
    neighbours: i64,
    /// Contracted features and keys by chunks.
    depth: i64,
    chunk: i64,
    /// The thread among those of all rows, and of its own.
    thread: [Expr<'c>; 2],
    zero: RegisterValue<'c>,
}

impl<'s, 'c> MultiplyAdds<'s, 'c> {
    pub fn new<'a: 's>(
        emitter: &mut Elemental<'a, 'c>,
        form: &AttentionForm,
        blocks: &Blocks,
        slabs: &'s [Slab<'c>],
        thread: Expr<'c>,
        function: &Body<'c>,
    ) -> Result<Self> {
        let builder = emitter.builder;
        let zero = scalar::constant(builder, form.element_type, &[], None);
        let layout = layout(form.element_type);
        let row = layout.row(blocks.keys);
        let neighbours = neighbours(form.features);
        let computation = emitter.computation;
        Ok(MultiplyAdds {
            products: [form.attention.scores, form.attention.product].map(|id| computation.get(id)),
            slabs,
            weights: SharedValues::new(builder, function, &zero, &[blocks.queries * row]),
            row,
            rows: blocks.queries / SIDE,
            keys: blocks.keys / SIDE,
            features: columns_of(form.features) / SIDE / neighbours,
            neighbours,
            depth: layout.columns(false, form.depth),
            chunk: layout.chunk(),
            thread: [
                emitter.emit_symbol(thread.floordiv(SIDE), SIDE)?,
                emitter.emit_symbol(thread.modulo(SIDE), SIDE)?,
            ],
            zero,
        })
    }

    /// Neighbours from a place on.
    fn load(
        &self,
        emitter: &Elemental<'_, 'c>,
        memory: &SharedValues<'c>,
        place: Expr<'c>,
        count: i64,
    ) -> Result<Vec<RegisterValue<'c>>> {
        let builder = emitter.builder;
        let place = emitter.scope.emit(builder, emitter.scope.simplify(place))?;
        if count == 1 {
            return Ok(vec![memory.load(builder, &[place])]);
        }
        let vector = memory.load_vector(builder, &[place], count as u32);
        Ok((0..count).map(|lane| scalar::registers::extract(builder, &vector, lane as u32)).collect())
    }

    /// The row of a thread's rows.
    fn own_row(&self, row: i64) -> Expr<'c> {
        self.thread[0] * self.rows + row
    }

    fn value(&self, value: Value<'c>) -> RegisterValue<'c> {
        self.zero.with_values(&[value])
    }

    /// A loop over positions, chunk by chunk, that adds to sums.
    fn over_chunks<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        positions: i64,
        sums: Vec<Value<'c>>,
        body: &mut dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>>,
    ) -> Result<Vec<Value<'c>>> {
        emitter.loop_in(Interval::of_size(positions / self.chunk), None, sums, &mut |emitter, number, sums| {
            body(emitter, number * self.chunk, sums)
        })
    }
}

impl<'c> Shares<'c> for MultiplyAdds<'_, 'c> {
    fn rows(&self) -> Vec<Expr<'c>> {
        (0..self.rows).map(|row| self.own_row(row)).collect()
    }

    fn keys(&self) -> Vec<Expr<'c>> {
        (0..self.keys).map(|key| self.thread[1] + key * SIDE).collect()
    }

    fn features(&self) -> (Vec<Expr<'c>>, i64) {
        let first = self.thread[1] * self.neighbours;
        ((0..self.features).map(|group| first + group * self.neighbours * SIDE).collect(), self.neighbours)
    }

    fn distances(&self) -> &'static [i64] {
        &[1, 2, 4, 8]
    }
}

impl<'c> Products<'c> for MultiplyAdds<'_, 'c> {
    fn shares(&self) -> &dyn Shares<'c> {
        self
    }

    fn scores(&self, emitter: &mut Elemental<'_, 'c>) -> Result<Vec<Value<'c>>> {
        let [queries, keys] = [&self.slabs[0], &self.slabs[1]];
        let scores = vec![self.zero.value; (self.rows * self.keys) as usize];
        self.over_chunks(emitter, self.depth, scores, &mut |emitter, position, mut scores| {
            let mut own = Vec::new();
            for key in self.keys() {
                own.push(self.load(emitter, &keys.memory, key * keys.row + position, self.chunk)?);
            }
            for (row, scores) in self.rows().into_iter().zip(scores.chunks_mut(self.keys as usize)) {
                let queries = self.load(emitter, &queries.memory, row * queries.row + position, self.chunk)?;
                for (key, score) in own.iter().zip(scores) {
                    for (query, key) in queries.iter().zip(key) {
                        *score = emitter.multiply_add(self.products[0], query, key, &self.value(*score))?.value;
                    }
                }
            }
            Ok(scores)
        })
    }

    fn keep(&self, emitter: &mut Elemental<'_, 'c>, weights: &[Value<'c>]) -> Result<()> {
        let builder = emitter.builder;
        for (row, weights) in self.rows().into_iter().zip(weights.chunks(self.keys as usize)) {
            for (key, &weight) in self.keys().into_iter().zip(weights) {
                let place = emitter.scope.simplify(row * self.row + key);
                let place = emitter.scope.emit(builder, place)?;
                self.weights.store(builder, &self.value(weight), &[place]);
            }
        }
        Ok(())
    }

    fn add(&self, emitter: &mut Elemental<'_, 'c>, _: &[Value<'c>], sums: Vec<Value<'c>>) -> Result<Vec<Value<'c>>> {
        let values = &self.slabs[2];
        let of_row = (self.features * self.neighbours) as usize;
        self.over_chunks(emitter, self.keys * SIDE, sums, &mut |emitter, position, mut sums| {
            let mut own = Vec::new();
            for number in 0..self.chunk {
                let mut of_key = Vec::with_capacity(of_row);
                for feature in self.features().0 {
                    let place = (position + number) * values.row + feature;
                    of_key.extend(self.load(emitter, &values.memory, place, self.neighbours)?);
                }
                own.push(of_key);
            }
            for (row, sums) in self.rows().into_iter().zip(sums.chunks_mut(of_row)) {
                let weights = self.load(emitter, &self.weights, row * self.row + position, self.chunk)?;
                for (weight, values) in weights.iter().zip(&own) {
                    for (value, sum) in values.iter().zip(&mut *sums) {
                        *sum = emitter.multiply_add(self.products[1], weight, value, &self.value(*sum))?.value;
                    }
                }
            }
            Ok(sums)
        })
    }
}
