//! Attention by blocks of a GPU's threads: a block takes some queries of one batch through all keys, slab by slab.
//!
//! Of a slab, the block brings the keys and then, while it multiplies these with its queries, the values into shared memory.
//! The scores stay in the registers of threads: what the fusion makes of them, their exponentials, less the largest logit of
//! the row so far, and the sums of the values with these weights, which are scaled down where a later slab has a larger
//! logit (an *online* softmax). In the end the sums are divided by those of the exponentials.
//!
//! What the gradient of an attention consists of is computed in the same way (`chains`).
//!
//! Both products are made by matrix instructions (`matrices`) or by multiply-adds (`multiply_adds`), and where four warps multiply
//! together by those (`warp_groups`).

mod box_slabs;
mod causal;
mod chains;
mod matrices;
mod multiply_adds;
mod slabs;
mod softmax;
mod warp_group_chains;
mod warp_group_products;
mod warp_groups;

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::mapping::{WorkDimension, WorkKind, WorkMapping};
use indexing::{Expr, IndexingMap, Interval, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, Value};

use super::tensor_types::{TensorOperands, TensorType};
use super::{BUSY_BLOCKS, Result, THREADS, simple_symbol, tile};
use crate::attention::{AttentionForm, ResultDimension};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::gpu::thread_numbers;
use crate::mapping::invalid;
use crate::memory::ArrayRef;
use crate::scope::Binding;
use crate::team::barrier;
use crate::trace::split_merged;

use matrices::Matrices;
use multiply_adds::MultiplyAdds;
use slabs::Slab;
use softmax::{Kernel, Rows};
pub(super) use warp_groups::{box_kernel, emit_boxes};

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

/// The mapping of a fused computation that is an attention, or a chain of products.
pub(crate) fn attention_of<'c>(context: &'c Context, computation: &Computation) -> Option<WorkMapping<'c>> {
    let Some(form) = AttentionForm::of(context, computation) else { return chains::mapping(context, computation) };
    Some(Blocks::of(&form)?.mapping(context, &form))
}

/// The threads of a block of an attention, and the blocks of a multiprocessor that its registers must suffice for.
pub(super) fn attention_limits(context: &Context, computation: &Computation) -> Option<[i64; 2]> {
    let Some(form) = AttentionForm::of(context, computation) else { return chains::limits(context, computation) };
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

/// Which part a thread has of scores and sums. Each of its rows is a query, of whose scores, and of whose sums, it has some.
trait Shares<'c> {
    /// Where the thread's rows are among the queries of the block.
    fn rows(&self) -> Vec<Expr<'c>>;

    /// Where the scores that it has of each row are among the keys of a slab.
    fn keys(&self) -> Vec<Expr<'c>>;

    /// The features of the sums that it has of each row: groups of as many neighbours as a number says.
    fn features(&self) -> (Vec<Expr<'c>>, i64);

    /// The number of the thread in its warp, where groups of features are pairs that each of four threads has of every eight.
    fn lane_of_pairs(&self) -> Option<Expr<'c>> {
        None
    }

    /// How far the threads are, in the bits of their numbers, that have other scores of a row.
    fn distances(&self) -> &'static [i64];
}

/// A way to make the two products.
trait Products<'c> {
    fn shares(&self) -> &dyn Shares<'c>;

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

/// Emits an attention, or a chain of products.
pub(super) fn emit<'a, 'c>(
    mut emitter: Elemental<'a, 'c>,
    mapping: &WorkMapping<'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let (context, emitter) = (emitter.scope.context(), &mut emitter);
    let form = AttentionForm::of(context, emitter.computation);
    if form.is_none() {
        return chains::emit(emitter, mapping, outputs, function);
    }
    let blocks = form.as_ref().and_then(Blocks::of);
    let (Some(form), Some(blocks), [output]) = (form, blocks, outputs) else {
        return Err(invalid("the mapping of an attention is on another fusion".into()));
    };
    if blocks.mapping(context, &form) != *mapping {
        return Err(invalid("an attention has another mapping than its own".into()));
    }
    let Place { places, tile, thread } = Place::of(emitter, &form, &blocks, blocks.threads)?;
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
    let kernel = Kernel { form: &form, blocks, places: &places, first };
    match blocks.tensors {
        Some(tensors) => {
            let operands = TensorOperands([tensors; 2]);
            let products = Matrices::new(emitter, &form, &blocks, operands, &slabs, thread)?;
            emit_steps(&kernel, &slabs, emitter, &products, output)
        }
        None => {
            let products = MultiplyAdds::new(emitter, &form, &blocks, &slabs, thread, function)?;
            emit_steps(&kernel, &slabs, emitter, &products, output)
        }
    }
}

/// Which part of an attention a block has.
struct Place<'c> {
    /// The positions in the batch.
    places: Vec<Expr<'c>>,
    /// Which of the parts of queries.
    tile: Expr<'c>,
    /// The number of the thread in its block.
    thread: Expr<'c>,
}

impl<'c> Place<'c> {
    /// That of a block of so many threads.
    fn of(emitter: &mut Elemental<'_, 'c>, form: &AttentionForm, blocks: &Blocks, threads: i64) -> Result<Self> {
        let sizes: Vec<i64> = form.batch.iter().map(|axis| axis.size).collect();
        let along = [&sizes[..], &[ceil_div(form.queries(), blocks.queries)]].concat();
        let (block, thread) = thread_numbers(emitter, along.iter().product(), 1, threads)?;
        let mut places = Vec::with_capacity(along.len());
        for (place, &size) in split_merged(block, &along).into_iter().zip(&along) {
            places.push(simple_symbol(emitter, place, size)?);
        }
        let tile = places.pop().ok_or_else(|| LoweringError::bug("a block without queries"))?;
        Ok(Place { places, tile, thread })
    }
}

/// Emits the steps of a block whose threads bring queries, keys and values, slab by slab.
fn emit_steps<'c>(
    kernel: &Kernel<'_, 'c>,
    [of_queries, keys, values]: &[Slab<'c>; 3],
    emitter: &mut Elemental<'_, 'c>,
    products: &dyn Products<'c>,
    output: &ArrayRef<'c>,
) -> Result<()> {
    let (builder, shares) = (emitter.builder, products.shares());
    let queries = kernel.queries(emitter, shares)?;
    let rows = queries.len();
    let start = kernel.start(builder, shares);
    let count = kernel.slabs(emitter)?;
    let steps = Interval::of_size(emitter.scope.range(count).upper);
    let nothing = emitter.scope.constant(0);
    let some = count.as_constant().is_none().then_some((nothing, count));
    of_queries.begin(emitter, kernel.first)?;
    keys.begin(emitter, nothing)?;
    let state = emitter.loop_in(steps, some, start.values(), &mut |emitter, step, state| {
        let before = Rows::of(state, rows);
        let first = step * kernel.blocks.keys;
        meet(emitter);
        values.begin(emitter, first)?;
        let scores = products.scores(emitter)?;
        let known = [&before.most[..], &before.totals];
        let own = emitter.nested(|emitter| kernel.weigh(emitter, shares, (&queries, first), (&scores, known)))?;
        let sums = own.scaled(builder, &before.sums);
        products.keep(emitter, &own.weights)?;
        meet(emitter);
        // In the last step nobody needs what comes: it is the last slab again.
        let next = emitter.scope.emit_min(builder, &[step + 1, count - 1])?;
        let next = emitter.scope.add_variable(steps, Binding::Index(next));
        keys.begin(emitter, next * kernel.blocks.keys)?;
        let sums = products.add(emitter, &own.weights, sums)?;
        Ok(Rows { most: own.most, totals: own.totals, sums }.values())
    })?;
    slabs::wait(builder);
    kernel.finish(emitter, shares, (Rows::of(state, rows), &queries), output)
}

/// The threads wait for what they have brought, and for each other.
fn meet(emitter: &Elemental<'_, '_>) {
    slabs::wait(emitter.builder);
    barrier(emitter.builder);
}
