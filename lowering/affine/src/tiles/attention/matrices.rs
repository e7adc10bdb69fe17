//! Attention by matrix instructions: each warp has some rows of 16 queries, of whose scores it makes the fragments that the
//! next product takes from the left, without a trip through memory.

use indexing::{Expr, ceil_div};
use melior::ir::Type;
use mlir_ext::builder::{OpBuilder, Value};

use super::super::tensor_cores::{EIGHT, SIXTEEN, load_matrices, multiply};
use super::super::tensor_types::{TensorOperands, TensorType};
use super::slabs::{Layout, Slab, multiple_of};
use super::{Blocks, Products, Result, Shares};
use crate::attention::AttentionForm;
use crate::elemental::Elemental;
use crate::team::WARP;

/// Bytes of an element.
pub(super) const WIDTH: i64 = 2;

/// How rows are kept: of as many positions as instructions take, and as `ldmatrix` loads for.
pub(super) fn layout(tensors: TensorType) -> Layout {
    let whole = |features: i64| multiple_of(features, SIXTEEN);
    Layout { element_type: tensors.bits(), are_bits: true, multiples: [whole, whole] }
}

pub(super) struct Matrices<'s, 'c> {
    operands: TensorOperands,
    slabs: &'s [Slab<'c>],
    fragments: Fragments<'c>,
    /// Steps of 16 contracted features.
    depth: i64,
    /// Where the thread has `ldmatrix` load of queries, keys and values.
    addresses: Vec<Value<'c>>,
    zero: Value<'c>,
}

impl<'s, 'c> Matrices<'s, 'c> {
    pub fn new(
        emitter: &mut Elemental<'_, 'c>,
        form: &AttentionForm,
        blocks: &Blocks,
        operands: TensorOperands,
        slabs: &'s [Slab<'c>],
        thread: Expr<'c>,
    ) -> Result<Self> {
        let builder = emitter.builder;
        let warps = blocks.threads / WARP;
        let lane = emitter.emit_symbol(thread.modulo(WARP), WARP)?;
        let warp = emitter.emit_symbol(thread.floordiv(WARP), warps)?;
        let rows = blocks.queries / warps / SIXTEEN;
        let first = warp * (rows * SIXTEEN);
        // Lanes say where the rows of four matrices begin, eight each: of queries and values the first sixteen rows at one
        // place and at the next, of keys eight rows at both, and then the next eight.
        let (eighth, half, quarter) = (lane.modulo(EIGHT), lane.floordiv(EIGHT).modulo(2), lane.floordiv(SIXTEEN));
        let by_rows = [lane.modulo(SIXTEEN), quarter];
        let places = [[first + by_rows[0], by_rows[1]], [eighth + quarter * EIGHT, half], by_rows];
        let mut addresses = Vec::with_capacity(3);
        for (slab, [row, place]) in slabs.iter().zip(places) {
            let byte = emitter.scope.simplify((row * slab.row + place * EIGHT) * WIDTH);
            let byte = builder.as_symbols(|builder| emitter.scope.emit(builder, byte))?;
            addresses.push(builder.addi(slab.address, byte));
        }
        Ok(Matrices {
            operands,
            slabs,
            fragments: Fragments {
                rows,
                keys: blocks.keys / EIGHT,
                features: ceil_div(form.features, EIGHT),
                first,
                lane,
            },
            depth: ceil_div(form.depth, SIXTEEN),
            addresses,
            zero: builder.constant_float(Type::float32(builder.context()), 0.0),
        })
    }

    /// What `ldmatrix` gives of an operand from a row and a position on.
    fn load(&self, builder: &OpBuilder<'c>, operand: usize, row: i64, place: i64) -> [Value<'c>; 4] {
        let offset = (row * self.slabs[operand].row + place) * WIDTH;
        load_matrices(builder, self.addresses[operand], offset, operand == 2)
    }
}

/// What the lanes of a warp have of fragments of scores and sums.
pub(super) struct Fragments<'c> {
    /// Fragments of 16 rows of a warp, of 8 keys, and of 8 features.
    pub rows: i64,
    pub keys: i64,
    pub features: i64,
    /// The warp's first row, and the number of the thread in its warp.
    pub first: Expr<'c>,
    pub lane: Expr<'c>,
}

impl<'c> Fragments<'c> {
    /// Places of what a lane has of neighbouring fragments: two neighbours of each eight.
    fn pairs(&self, fragments: i64) -> impl Iterator<Item = Expr<'c>> {
        let first = self.lane.modulo(4) * 2;
        (0..fragments).map(move |fragment| first + fragment * EIGHT)
    }

    /// What is a result of the first product, in two fragments of a row, as an operand of the second one: the words of 16 keys.
    pub fn weights(
        &self,
        builder: &OpBuilder<'c>,
        tensors: TensorType,
        weights: &[Value<'c>],
        (row, step): (i64, i64),
    ) -> [Value<'c>; 4] {
        let [a, b] = [0, 1].map(|half| places(self.keys, row, 2 * step + half));
        [[a[0], a[1]], [a[2], a[3]], [b[0], b[1]], [b[2], b[3]]]
            .map(|pair| rounded_pair(builder, tensors, pair.map(|place| weights[place])))
    }
}

/// Where, among the values of rows of `fragments`, the four are that a lane has of a fragment: two in a row, and two in that
/// eight rows on.
pub(super) fn places(fragments: i64, row: i64, fragment: i64) -> [usize; 4] {
    let first = |row: i64| ((row * fragments + fragment) * 2) as usize;
    let [upper, lower] = [first(2 * row), first(2 * row + 1)];
    [upper, upper + 1, lower, lower + 1]
}

impl<'c> Shares<'c> for Fragments<'c> {
    fn rows(&self) -> Vec<Expr<'c>> {
        let first = self.first + self.lane.floordiv(4);
        (0..2 * self.rows).map(|row| first + (row / 2 * SIXTEEN + row % 2 * EIGHT)).collect()
    }

    fn keys(&self) -> Vec<Expr<'c>> {
        self.pairs(self.keys).flat_map(|first| [first, first + 1]).collect()
    }

    fn features(&self) -> (Vec<Expr<'c>>, i64) {
        (self.pairs(self.features).collect(), 2)
    }

    fn lane_of_pairs(&self) -> Option<Expr<'c>> {
        Some(self.lane)
    }

    fn distances(&self) -> &'static [i64] {
        &[1, 2]
    }
}

impl<'c> Products<'c> for Matrices<'_, 'c> {
    fn shares(&self) -> &dyn Shares<'c> {
        &self.fragments
    }

    fn scores(&self, emitter: &mut Elemental<'_, 'c>) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let Fragments { rows, keys: count, .. } = self.fragments;
        let mut scores = vec![self.zero; (rows * 2 * count * 2) as usize];
        for position in (0..self.depth).map(|step| step * SIXTEEN) {
            let queries: Vec<_> = (0..rows).map(|row| self.load(builder, 0, row * SIXTEEN, position)).collect();
            for pair in 0..count / 2 {
                let keys = self.load(builder, 1, pair * SIXTEEN, position);
                for (row, queries) in (0..).zip(&queries) {
                    for (half, keys) in (0..).zip(keys.chunks(2)) {
                        let places = places(count, row, 2 * pair + half);
                        let sums = places.map(|place| scores[place]);
                        let sums = multiply(builder, self.operands, queries, keys, &sums);
                        places.into_iter().zip(sums).for_each(|(place, sum)| scores[place] = sum);
                    }
                }
            }
        }
        Ok(scores)
    }

    fn keep(&self, _: &mut Elemental<'_, 'c>, _: &[Value<'c>]) -> Result<()> {
        Ok(())
    }

    fn add(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        weights: &[Value<'c>],
        mut sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let tensors = self.operands.0[0];
        let Fragments { rows, keys, features, .. } = self.fragments;
        for step in 0..keys / 2 {
            let left: Vec<[Value<'c>; 4]> =
                (0..rows).map(|row| self.fragments.weights(builder, tensors, weights, (row, step))).collect();
            for pair in 0..ceil_div(features, 2) {
                let values = self.load(builder, 2, step * SIXTEEN, pair * SIXTEEN);
                for (row, left) in (0..).zip(&left) {
                    for (half, values) in (0..).zip(values.chunks(2)) {
                        if 2 * pair + half < features {
                            let places = places(features, row, 2 * pair + half);
                            let own = places.map(|place| sums[place]);
                            let own = multiply(builder, self.operands, left, values, &own);
                            places.into_iter().zip(own).for_each(|(place, sum)| sums[place] = sum);
                        }
                    }
                }
            }
        }
        Ok(sums)
    }
}

/// Two numbers, rounded, in a word.
fn rounded_pair<'c>(builder: &OpBuilder<'c>, tensors: TensorType, values: [Value<'c>; 2]) -> Value<'c> {
    let rounded = match tensors {
        TensorType::F16 => Type::float16(builder.context()),
        _ => Type::bfloat16(builder.context()),
    };
    let pair = builder.truncf(builder.from_elements(&values), rounded);
    let word = builder.value("vector.bitcast", &[pair], builder.vector_type(1, builder.integer_type(32)), &[]);
    builder.extract_lane(word, 0)
}
