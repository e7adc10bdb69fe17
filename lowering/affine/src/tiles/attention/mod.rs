//! Attention by blocks of a GPU's threads: a block takes some queries of one batch through all keys, slab by slab.
//!
//! Of a slab, the block brings the keys and then, while it multiplies these with its queries, the values into shared memory.
//! The scores stay in the registers of threads: what the fusion makes of them, their exponentials, less the largest logit of
//! the row so far, and the sums of the values with these weights, which are scaled down where a later slab has a larger
//! logit (an *online* softmax). In the end the sums are divided by those of the exponentials.
//!
//! Both products are made by matrix instructions (`matrices`) or by multiply-adds (`multiply_adds`).

mod matrices;
mod multiply_adds;
mod slabs;

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use hlo::op_kind::OpKind;
use indexing::{Expr, IndexingMap, Interval, ceil_div};
use melior::Context;
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{Body, OpBuilder, Value};

use super::tensor_types::{TensorOperands, TensorType};
use super::{BUSY_BLOCKS, Result, THREADS, simple_symbol, tile, where_inside};
use crate::attention::{AttentionForm, ResultDimension};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::gpu::thread_numbers;
use crate::mapping::invalid;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::team::{barrier, exchange};
use crate::trace::split_merged;
use crate::walk::Visitor;

use matrices::Matrices;
use multiply_adds::MultiplyAdds;
use slabs::Slab;

/// Threads of a block that multiplies by matrix instructions.
const TENSOR_THREADS: i64 = 128;

/// Features up to which the sums of twice as many queries find room in registers, and up to which slabs are of 64 keys.
const FEW_FEATURES: i64 = 64;
const MANY_FEATURES: i64 = 128;

/// Queries of a block and keys of a slab that multiply-adds may have, the best first.
const SHAPES: [[i64; 2]; 6] = [[128, 32], [64, 64], [64, 32], [32, 32], [32, 16], [16, 16]];

/// Queries from which on blocks must be enough to keep a GPU busy.
const MANY_QUERIES: i64 = 64;

/// Bytes of shared memory that blocks of all GPUs may be given.
const MOST_SHARED: i64 = 96 << 10;

/// Registers of a thread's sums, at most, of multiply-adds.
const MOST_SUMS: i64 = 64;

/// How an attention is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blocks {
    /// Queries of a block, and keys of a slab.
    queries: i64,
    keys: i64,
    threads: i64,
    /// What matrix instructions multiply, if they do.
    tensors: Option<TensorType>,
}

impl Blocks {
    /// Those of an attention; nothing if it does not fit into the memory of a block.
    fn of(form: &AttentionForm) -> Option<Self> {
        let most = form.depth.max(form.features);
        let is_busy = |queries: i64| form.batches() * ceil_div(form.queries(), queries) >= BUSY_BLOCKS;
        if let Some(tensors) = tensors_of(form) {
            let is_large = most <= FEW_FEATURES && is_busy(128);
            let queries = if is_large { 128 } else { 64 };
            let keys = if most <= MANY_FEATURES { 64 } else { 32 };
            return Some(Blocks { queries, keys, threads: TENSOR_THREADS, tensors: Some(tensors) });
        }
        let shapes = SHAPES.map(|[queries, keys]| Blocks { queries, keys, threads: THREADS, tensors: None });
        let fits = |own: &&Blocks| {
            let sums = own.queries * multiply_adds::columns_of(form.features) / THREADS;
            let words = form.element_type.byte_width() as i64 / 4;
            multiply_adds::shared_bytes(own, form) <= MOST_SHARED && sums * words <= MOST_SUMS
        };
        shapes.iter().filter(fits).find(|own| own.queries < MANY_QUERIES || is_busy(own.queries)).copied()
    }

    /// The mapping: tiles of separate attentions and of queries, all of whose features the threads of a block compute.
    fn mapping<'c>(&self, context: &'c Context, form: &AttentionForm) -> WorkMapping<'c> {
        let sizes: Vec<i64> = form.batch.iter().map(|axis| axis.size).collect();
        let positions = split_merged(Expr::dim(context, 0), &sizes);
        let zero = Expr::constant(context, 0);
        let index = form.result.iter().map(|own| match own {
            ResultDimension::Logit(logit) if *logit == form.attention.query => Expr::dim(context, 1),
            ResultDimension::Logit(logit) => {
                let axis = form.batch.iter().position(|axis| axis.logit == *logit);
                axis.map_or(zero, |axis| positions[axis])
            }
            ResultDimension::Feature => Expr::dim(context, 2),
            ResultDimension::Single => zero,
        });
        let work = [form.batches(), form.queries(), form.features];
        let team = WorkDimension { kind: WorkKind::Team, tile: self.threads, ..WorkDimension::sequential() };
        WorkMapping {
            map: IndexingMap::from_sizes(context, &work, &[], index.collect()),
            dimensions: vec![tile(1), tile(self.queries), team],
            inner_lanes: 1,
            overlap: false,
            rows: None,
        }
    }
}

/// What matrix instructions multiply of an attention: queries, keys, values and weights of one type.
fn tensors_of(form: &AttentionForm) -> Option<TensorType> {
    let tensors = match form.weight_type {
        ElementType::BF16 => TensorType::Bf16,
        ElementType::F16 => TensorType::F16,
        _ => return None,
    };
    let is_one = form.operand_types == [form.weight_type; 3] && form.element_type == ElementType::F32;
    is_one.then_some(tensors)
}

/// The mapping of a fused computation that is an attention.
pub(crate) fn attention_of<'c>(context: &'c Context, computation: &Computation) -> Option<WorkMapping<'c>> {
    let form = AttentionForm::of(context, computation)?;
    Some(Blocks::of(&form)?.mapping(context, &form))
}

/// The threads of a block of an attention, and the blocks of a multiprocessor that its registers must suffice for.
pub(super) fn attention_limits(context: &Context, computation: &Computation) -> Option<[i64; 2]> {
    let form = AttentionForm::of(context, computation)?;
    let blocks = Blocks::of(&form)?;
    let is_small = blocks.queries < 128 && form.depth.max(form.features) <= FEW_FEATURES;
    let count = match blocks.tensors {
        Some(_) if is_small => 3,
        None if form.element_type == ElementType::F64 => 1,
        _ => 2,
    };
    Some([blocks.threads, count])
}

/// The blocks of threads of a mapping of attention, and the threads of each.
pub(super) fn attention_grid(mapping: &WorkMapping<'_>) -> Option<(i64, i64)> {
    let [_, queries, team] = &mapping.dimensions[..] else { return None };
    let is_own = queries.kind == WorkKind::Tile && team.kind == WorkKind::Team;
    let size = |number: usize| mapping.bounds(number).upper + 1;
    is_own.then(|| (size(0) * ceil_div(size(1), queries.tile), team.tile))
}

/// A way to make the two products. Each of a thread's rows is a query, of whose scores, and of whose sums, it has some.
trait Products<'c> {
    /// Where the thread's rows are among the queries of the block.
    fn rows(&self) -> Vec<Expr<'c>>;

    /// Where the scores that it has of each row are among the keys of a slab.
    fn keys(&self) -> Vec<Expr<'c>>;

    /// The features of the sums that it has of each row: groups of as many neighbours as a number says.
    fn features(&self) -> (Vec<Expr<'c>>, i64);

    /// How far the threads are, in the bits of their numbers, that have other scores of a row.
    fn distances(&self) -> &'static [i64];

    /// The scores of the keys in shared memory: those of the first row, of the second one, and so on.
    fn scores(&self, emitter: &mut Elemental<'_, 'c>) -> Result<Vec<Value<'c>>>;

    /// Keeps weights for the next product, if other threads need them.
    fn keep(&self, emitter: &mut Elemental<'_, 'c>, weights: &[Value<'c>]) -> Result<()>;

    /// The sums, with the values in shared memory added by weights.
    fn add(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        weights: &[Value<'c>],
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>>;
}

/// Emits an attention.
pub(super) fn emit<'a, 'c>(
    mut emitter: Elemental<'a, 'c>,
    mapping: &WorkMapping<'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let (context, emitter) = (emitter.scope.context(), &mut emitter);
    let form = AttentionForm::of(context, emitter.computation);
    let blocks = form.as_ref().and_then(Blocks::of);
    let (Some(form), Some(blocks), [output]) = (form, blocks, outputs) else {
        return Err(invalid("the mapping of an attention is on another fusion".into()));
    };
    if blocks.mapping(context, &form) != *mapping {
        return Err(invalid("an attention has another mapping than its own".into()));
    }
    let sizes: Vec<i64> = form.batch.iter().map(|axis| axis.size).collect();
    let along = [&sizes[..], &[ceil_div(form.queries(), blocks.queries)]].concat();
    let (block, thread) = thread_numbers(emitter, along.iter().product(), 1, blocks.threads)?;
    let mut places = Vec::with_capacity(along.len());
    for (place, &size) in split_merged(block, &along).into_iter().zip(&along) {
        places.push(simple_symbol(emitter, place, size)?);
    }
    let tile = places.pop().ok_or_else(|| LoweringError::bug("a block without queries"))?;
    let mut offsets = [emitter.scope.constant(0); 3];
    for (axis, &place) in form.batch.iter().zip(&places) {
        for (offset, stride) in offsets.iter_mut().zip(axis.strides) {
            *offset = *offset + place * stride;
        }
    }
    let first = tile * blocks.queries;
    let layout = match blocks.tensors {
        Some(tensors) => matrices::layout(tensors),
        None => multiply_adds::layout(form.element_type),
    };
    let mut slabs = Vec::with_capacity(3);
    for (number, base) in offsets.into_iter().enumerate() {
        slabs.push(Slab::new(emitter, (&form, number, base), &blocks, (layout, thread), function)?);
    }
    let slabs: [Slab<'c>; 3] = slabs.try_into().map_err(|_| LoweringError::bug("an attention has three operands"))?;
    let kernel = Kernel { form: &form, blocks, places: &places, first, slabs: &slabs };
    match blocks.tensors {
        Some(tensors) => {
            let operands = TensorOperands([tensors; 2]);
            let products = Matrices::new(emitter, &form, &blocks, operands, &slabs, thread)?;
            kernel.emit(emitter, &products, output)
        }
        None => {
            let products = MultiplyAdds::new(emitter, &form, &blocks, &slabs, thread, function)?;
            kernel.emit(emitter, &products, output)
        }
    }
}

/// The code of a block.
struct Kernel<'k, 'c> {
    form: &'k AttentionForm,
    blocks: Blocks,
    /// The positions in the batch.
    places: &'k [Expr<'c>],
    /// The first query.
    first: Expr<'c>,
    /// Queries, keys and values.
    slabs: &'k [Slab<'c>; 3],
}

/// What a thread has of its rows so far: the largest logits, the sums of exponentials, and those of values.
struct Rows<'c> {
    most: Vec<Value<'c>>,
    totals: Vec<Value<'c>>,
    sums: Vec<Value<'c>>,
}

impl<'c> Rows<'c> {
    fn values(self) -> Vec<Value<'c>> {
        [self.most, self.totals, self.sums].concat()
    }

    fn of(mut values: Vec<Value<'c>>, rows: usize) -> Self {
        let sums = values.split_off(2 * rows);
        let totals = values.split_off(rows);
        Rows { most: values, totals, sums }
    }
}

impl<'c> Kernel<'_, 'c> {
    fn emit(&self, emitter: &mut Elemental<'_, 'c>, products: &dyn Products<'c>, output: &ArrayRef<'c>) -> Result<()> {
        let builder = emitter.builder;
        let element = scalar::register_type(builder, self.form.element_type, None);
        let (features, neighbours) = products.features();
        // Queries that there are not have the logits of the last one, and are not stored.
        let mut queries = Vec::new();
        for row in products.rows() {
            queries.push(self.kept(emitter, self.first + row, self.form.queries())?);
        }
        let rows = queries.len();
        let [nothing, zero] = [f64::NEG_INFINITY, 0.0].map(|value| builder.constant_float(element, value));
        let sums = vec![zero; rows * features.len() * neighbours as usize];
        let start = Rows { most: vec![nothing; rows], totals: vec![zero; rows], sums };
        let [of_queries, keys, values] = self.slabs;
        let steps = ceil_div(self.form.keys(), self.blocks.keys);
        let nothing = emitter.scope.constant(0);
        of_queries.begin(emitter, self.first)?;
        keys.begin(emitter, nothing)?;
        let state = emitter.loop_in(Interval::of_size(steps), None, start.values(), &mut |emitter, step, state| {
            let before = Rows::of(state, rows);
            let first = step * self.blocks.keys;
            self.meet(emitter);
            values.begin(emitter, first)?;
            let scores = products.scores(emitter)?;
            let (weights, rows) =
                emitter.nested(|emitter| self.weigh(emitter, products, (&queries, first), (&scores, before)))?;
            products.keep(emitter, &weights)?;
            self.meet(emitter);
            // In the last step nobody needs what comes: it is the last slab again.
            let next = emitter.scope.emit_min(builder, &[step + 1, emitter.scope.constant(steps - 1)])?;
            let next = emitter.scope.add_variable(Interval::of_size(steps), Binding::Index(next));
            keys.begin(emitter, next * self.blocks.keys)?;
            let sums = products.add(emitter, &weights, rows.sums)?;
            Ok(Rows { sums, ..rows }.values())
        })?;
        slabs::wait(builder);
        self.finish(emitter, products, (Rows::of(state, rows), &queries), output)
    }

    /// The threads wait for what they have brought, and for each other.
    fn meet(&self, emitter: &Elemental<'_, 'c>) {
        slabs::wait(emitter.builder);
        barrier(emitter.builder);
    }

    /// A position, the last one where there are not so many.
    fn kept(&self, emitter: &mut Elemental<'_, 'c>, position: Expr<'c>, count: i64) -> Result<Expr<'c>> {
        let position = emitter.scope.simplify(position);
        let range = Interval::of_size(count);
        if range.contains_interval(emitter.scope.range(position)) {
            return Ok(position);
        }
        let last = emitter.scope.constant(count - 1);
        let kept = emitter.scope.emit_min(emitter.builder, &[position, last])?;
        Ok(emitter.scope.add_variable(range, crate::elemental::index_binding(emitter.builder, kept)))
    }

    /// What the fusion makes of a score.
    fn logit(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (query, key): (Expr<'c>, Expr<'c>),
        score: Value<'c>,
    ) -> Result<Value<'c>> {
        let attention = &self.form.attention;
        let mut index = self.row_index(emitter, query);
        if let Some(last) = index.last_mut() {
            *last = key;
        }
        let element_type = self.form.element_type;
        emitter.combined.insert(attention.scores, RegisterValue::real(emitter.builder, element_type, score));
        let logit = emitter.evaluate(attention.logits, &index)?;
        let logit = scalar::convert::convert(emitter.builder, &logit, element_type);
        Ok(logit.ok_or_else(|| LoweringError::bug("logits of another class"))?.value)
    }

    /// The index of the first logit of a row.
    fn row_index(&self, emitter: &Elemental<'_, 'c>, query: Expr<'c>) -> Vec<Expr<'c>> {
        let mut index = vec![emitter.scope.constant(0); self.form.sizes.len()];
        index[self.form.attention.query] = query;
        for (axis, &place) in self.form.batch.iter().zip(self.places) {
            index[axis.logit] = place;
        }
        index
    }

    /// The weights of a slab by its scores, and the rows with the sums scaled down that were before.
    fn weigh(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        products: &dyn Products<'c>,
        (queries, first): (&[Expr<'c>], Expr<'c>),
        (scores, before): (&[Value<'c>], Rows<'c>),
    ) -> Result<(Vec<Value<'c>>, Rows<'c>)> {
        let builder = emitter.builder;
        let count = self.form.keys();
        let mut keys = Vec::new();
        for key in products.keys() {
            let place = emitter.scope.simplify(first + key);
            let kept = self.kept(emitter, place, count)?;
            let is_there = match kept == place {
                true => None,
                false => {
                    let place = emitter.scope.emit(builder, place)?;
                    Some(builder.cmpi(CmpiPredicate::Slt, place, builder.constant_index(count)))
                }
            };
            keys.push((kept, is_there));
        }
        let mut weights = Vec::with_capacity(scores.len());
        let (mut most, mut totals, mut scales) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (&query, scores)) in queries.iter().zip(scores.chunks(keys.len())).enumerate() {
            let mut logits = Vec::with_capacity(keys.len());
            for (&(key, is_there), &score) in keys.iter().zip(scores) {
                let logit = self.logit(emitter, (query, key), score)?;
                let nothing = builder.float_like(logit, f64::NEG_INFINITY);
                logits.push(is_there.map_or(logit, |is_there| builder.select(is_there, logit, nothing)));
            }
            let largest = logits.iter().copied().reduce(|a, b| larger(builder, a, b)).unwrap_or(before.most[row]);
            let largest = products
                .distances()
                .iter()
                .fold(largest, |largest, &distance| larger(builder, largest, exchange(builder, largest, distance)));
            let largest = larger(builder, largest, before.most[row]);
            // A row of nothing but -inf so far has weights of 0: if that is all, 0 is divided by 0 in the end.
            let is_any = builder.cmpf(CmpfPredicate::Une, largest, builder.float_like(largest, f64::NEG_INFINITY));
            let kept = builder.select(is_any, largest, builder.float_like(largest, 0.0));
            let scale = self.power(emitter, builder.subf(before.most[row], kept))?;
            let mut total = builder.mulf(before.totals[row], scale);
            for logit in logits {
                let weight = self.power(emitter, builder.subf(logit, kept))?;
                total = builder.addf(total, weight);
                weights.push(weight);
            }
            most.push(largest);
            totals.push(total);
            scales.push(scale);
        }
        let of_row = before.sums.len() / queries.len();
        let scaled = before.sums.iter().enumerate().map(|(number, &sum)| builder.mulf(sum, scales[number / of_row]));
        let sums = scaled.collect();
        Ok((weights, Rows { most, totals, sums }))
    }

    /// The exponential of a number. Weights that are rounded to 16 bits are no better for more than the instruction for
    /// powers of two gives them, 22 bits.
    fn power(&self, emitter: &Elemental<'_, 'c>, value: Value<'c>) -> Result<Value<'c>> {
        let builder = emitter.builder;
        if self.blocks.tensors.is_some() {
            let exponent = builder.mulf(value, builder.float_like(value, std::f64::consts::LOG2_E));
            return Ok(builder.intrinsic("llvm.nvvm.ex2.approx.ftz.f32", &[exponent], value.r#type()));
        }
        let value = RegisterValue::real(builder, self.form.element_type, value);
        let attributes = &emitter.computation.get(self.form.attention.exponential).attributes;
        Ok(scalar::elementwise(builder, OpKind::Exponential, attributes, &[value], value.element_type)?.value)
    }

    /// Divides the sums and stores them.
    fn finish(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        products: &dyn Products<'c>,
        (rows, queries): (Rows<'c>, &[Expr<'c>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let (features, neighbours) = products.features();
        let of_row = features.len() * neighbours as usize;
        let counts = [self.form.queries(), self.form.features];
        // Neighbours are stored together where no row ends between them.
        let lanes = if self.form.features % neighbours == 0 { neighbours } else { 1 };
        for (number, row) in products.rows().into_iter().enumerate() {
            let total = products
                .distances()
                .iter()
                .fold(rows.totals[number], |total, &distance| builder.addf(total, exchange(builder, total, distance)));
            let share = builder.divf(builder.float_like(total, 1.0), total);
            let sums = &rows.sums[number * of_row..][..of_row];
            let zero = emitter.scope.constant(0);
            let place = emitter.scope.simplify(self.first + row);
            where_inside(emitter, [place, zero], counts, |emitter| {
                for (part, sums) in sums.chunks(lanes as usize).enumerate() {
                    let part = part as i64 * lanes;
                    let feature = features[(part / neighbours) as usize] + part % neighbours;
                    let feature = emitter.scope.simplify(feature);
                    let sums: Vec<RegisterValue<'c>> = sums
                        .iter()
                        .map(|&sum| RegisterValue::real(builder, self.form.element_type, builder.mulf(sum, share)))
                        .collect();
                    where_inside(emitter, [zero, feature], counts, |emitter| {
                        self.store(emitter, (queries[number], feature), &sums, output)
                    })?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Stores neighbouring features of a row.
    fn store(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (query, feature): (Expr<'c>, Expr<'c>),
        values: &[RegisterValue<'c>],
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        emitter.nested(|emitter| {
            let (value, feature) = match values {
                [value] => (*value, feature),
                values => {
                    let lane = emitter.scope.add_lanes(values.len() as u32);
                    let value = scalar::from_elements(builder, values);
                    (value.ok_or_else(|| LoweringError::bug("features of nothing"))?, feature + lane)
                }
            };
            let row = self.row_index(emitter, query);
            let index = self.form.result_index(&row, emitter.scope.simplify(feature), emitter.scope.constant(0));
            let value = scalar::convert::convert(builder, &value, output.element_type)
                .ok_or_else(|| LoweringError::bug("a result of another class"))?;
            emitter.store(output, &index, &value)
        })
    }
}

/// The larger of two numbers; the other one of something that is none.
fn larger<'c>(builder: &OpBuilder<'c>, a: Value<'c>, b: Value<'c>) -> Value<'c> {
    let r#type = a.r#type();
    let name =
        if r#type == melior::ir::Type::float64(builder.context()) { "llvm.maxnum.f64" } else { "llvm.maxnum.f32" };
    builder.intrinsic(name, &[a, b], r#type)
}
