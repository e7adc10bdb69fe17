//! Attention by the matrix instructions of four warps together (`wgmma`), for which a unit copies queries, keys and values by itself.
//!
//! Two groups of warps have 64 queries each. Both operands of the first product are in shared memory; of the second one the
//! weights are in registers. While the products with the values of a slab are under way, and those of the next slab's scores,
//! a group computes what it can of the softmax: it waits for the scores only, and then for the sums. The groups begin their products
//! in turns (`turns`), so that those of one are made while the other one computes.
//!
//! ```text
//!  a thread behind the groups          two groups
//!    ask for the queries                 weights of the first slab
//!    for each slab                       for each later slab
//!      ask for its keys                    begin its scores
//!      ask for its values                  begin the sums, with the weights of the slab before
//!                                          wait for the scores; weights
//!                                          wait for the sums; scale them
//!                                        the sums of the last slab
//! ```
//!
//! An assembler moves a wait for products up as far as it can, where there is no loop before it: groups wait for the next values, in a
//! loop, when they have computed what does not need the sums.
//!
//! Chains of products (`warp_group_chains`) are made in the same way.

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::mapping::WorkMapping;
use indexing::{Expr, Interval, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, Value};
use mlir_ext::gpu;

use super::super::boxes::{BoxKernel, ParameterBoxes, asking};
use super::super::rings::{Ring, call as call_unit};
use super::super::tensor_cores::EIGHT;
use super::super::turns::Turns;
use super::super::warp_groups::{GROUP, ROWS};
use super::super::{BUSY_BLOCKS, Result, THREADS};
use super::box_slabs::{Operand, PANEL, Slab};
use super::matrices::{Fragments, WIDTH};
use super::softmax::{Kernel, Rows, Weights};
use super::warp_group_products::{GroupProducts, wait};
use super::{Blocks, MANY_FEATURES, Place, Shares, chains, tensors_of};
use crate::attention::AttentionForm;
use crate::chain::ChainForm;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar;
use crate::team::{SharedValues, WARP, barrier};

/// Threads of a block: two groups that multiply, and a third one, of which a thread asks for boxes, and whose registers the others have
/// then.
const ALL_THREADS: i64 = THREADS + GROUP;

/// Queries of a block: those of both groups.
const QUERIES: i64 = 2 * ROWS;

/// Keys of a slab, the most first.
const KEYS: [i64; 2] = [128, 64];

/// Bytes of shared memory that a block may be given.
const MOST_SHARED: i64 = 224 << 10;

/// Registers of a thread for scores, weights and sums.
const MOST_REGISTERS: i64 = 192;

/// An attention, or a chain of products, as groups of warps make it.
struct Plan {
    /// The products that weights are made of.
    forms: Vec<AttentionForm>,
    /// What weights are in a chain.
    chain: Option<ChainForm>,
    blocks: Blocks,
}

impl Plan {
    fn of(context: &Context, computation: &Computation) -> Option<Self> {
        let (forms, chain, tensors) = match AttentionForm::of(context, computation) {
            Some(form) => {
                let tensors = tensors_of(&form)?;
                (vec![form], None, tensors)
            }
            None => {
                let chain = ChainForm::of(context, computation)?;
                let tensors = chains::tensors_of(computation, &chain)?;
                (chain.forms.clone(), Some(chain), tensors)
            }
        };
        let form = &forms[0];
        // Twice as fast as smaller blocks are, these need half as many.
        let is_busy = form.batches() * ceil_div(form.queries(), QUERIES) * 2 >= BUSY_BLOCKS;
        let most = forms.iter().map(|form| form.depth).fold(form.features, i64::max);
        if !is_busy || most > MANY_FEATURES {
            return None;
        }
        let few = form.keys() <= KEYS[1];
        let plan = |keys: i64| {
            let blocks = Blocks { queries: QUERIES, keys, threads: THREADS, tensors: Some(tensors) };
            Plan { forms: forms.clone(), chain: chain.clone(), blocks }
        };
        KEYS.into_iter().skip(usize::from(few)).map(plan).find(Plan::fits)
    }

    /// Whether it fits into the memory and the registers of a block.
    fn fits(&self) -> bool {
        let bytes: i64 = self.operands().iter().map(|own| own.bytes() * own.stages).sum();
        // A thread has half of a column of each row, and words of two weights.
        let of_scores = self.forms.len() as i64 * self.blocks.keys / 2 + self.blocks.keys / 4;
        let of_sums = if self.has_values() { self.forms[0].features / 2 } else { 0 };
        bytes <= MOST_SHARED && of_scores + of_sums <= MOST_REGISTERS
    }

    fn has_values(&self) -> bool {
        self.chain.as_ref().is_none_or(|chain| chain.reduction.is_none())
    }

    fn operands(&self) -> Vec<Operand> {
        Operand::all(&self.forms, &self.blocks, self.has_values())
    }
}

/// How the operands of an attention, or of a chain, are copied in boxes, if all of them can be.
pub(in super::super) fn box_kernel<'c>(
    context: &'c Context,
    computation: &Computation,
    mapping: &WorkMapping<'c>,
    alignment: &dyn Fn(usize) -> i64,
) -> Option<BoxKernel<'c>> {
    let plan = Plan::of(context, computation)?;
    let boxes = plan.operands().into_iter().map(|own| own.boxes(&plan.forms[own.form]));
    let boxes: Vec<ParameterBoxes> = boxes.collect::<Option<_>>()?;
    let are_aligned = boxes.iter().all(|own| own.is_aligned(alignment));
    let mut mapping = mapping.clone();
    mapping.dimensions.clone_from(&plan.blocks.mapping(context, &plan.forms[0]).dimensions);
    are_aligned.then_some(BoxKernel { mapping, boxes, limits: [ALL_THREADS, 1] })
}

/// Emits an attention, or a chain, whose operands have descriptions at addresses.
pub(in super::super) fn emit_boxes<'c>(
    mut emitter: Elemental<'_, 'c>,
    outputs: &[ArrayRef<'c>],
    (function, descriptions): (&Body<'c>, &[Value<'c>]),
) -> Result<()> {
    let (context, emitter) = (emitter.scope.context(), &mut emitter);
    let builder = emitter.builder;
    let plan = Plan::of(context, emitter.computation);
    let (Some(plan), [output]) = (plan, outputs) else {
        return Err(LoweringError::bug("boxes of another fusion than an attention"));
    };
    let (form, blocks) = (&plan.forms[0], plan.blocks);
    let tensors = blocks.tensors.ok_or_else(|| LoweringError::bug("boxes without matrix instructions"))?;
    let Place { places, tile, thread } = Place::of(emitter, form, &blocks, ALL_THREADS)?;
    let zero = scalar::constant(builder, ElementType::U16, &[], None);
    let operands = plan.operands();
    let of_rings: i64 = operands.iter().map(|own| Ring::barriers_of(own.stages)).sum();
    let mut parts = Vec::with_capacity(operands.len());
    for (operand, &description) in operands.into_iter().zip(descriptions) {
        let (batch, _) =
            operand.batch(&plan.forms[operand.form]).ok_or_else(|| LoweringError::bug("boxes of other arrays"))?;
        let elements = operand.stages * operand.bytes() / WIDTH;
        let address = SharedValues::new(builder, function, &zero, &[elements]).address(builder);
        let mut first = [emitter.scope.constant(0); 2];
        for (strides, &place) in batch.iter().zip(&places) {
            first = [first[0] + place * strides[0], first[1] + place * strides[1]];
        }
        parts.push((operand, address, first, description));
    }
    let zero = scalar::constant(builder, ElementType::S64, &[], None);
    let barriers = SharedValues::new(builder, function, &zero, &[of_rings + Turns::BARRIERS]).address(builder);
    let mut next = 0;
    let slabs = parts.into_iter().map(|(operand, address, first, description)| {
        let (stages, bytes) = (operand.stages, operand.bytes());
        let ring = Ring { barriers, first: next, stages, bytes, warps: THREADS / WARP };
        next += Ring::barriers_of(stages);
        Slab { operand, address, first, description, ring }
    });
    let slabs: Vec<Slab<'c>> = slabs.collect();
    let kernel = Kernel { form, blocks, places: &places, first: tile * QUERIES };
    let [begin, end] = match &plan.chain {
        Some(chain) => kernel.slabs_of_chain(emitter, chain)?,
        None => [emitter.scope.constant(0), kernel.slabs(emitter)?],
    };
    let member = emitter.emit_symbol(thread, THREADS)?;
    let lane = emitter.emit_symbol(member.modulo(WARP), WARP)?;
    let warp = emitter.emit_symbol(member.floordiv(WARP), THREADS / WARP)?;
    let fragments = Fragments {
        rows: 1,
        keys: blocks.keys / EIGHT,
        features: ceil_div(form.features, PANEL) * (PANEL / EIGHT),
        first: warp * (ROWS * WARP / GROUP),
        lane,
    };
    let group = emitter.emit_symbol(warp.floordiv(GROUP / WARP), 2)?;
    let turns = Turns { barriers, first: of_rings, warps: GROUP / WARP };
    let products = GroupProducts { tensors, group, fragments };
    let groups = WarpGroups { kernel: &kernel, slabs: &slabs, begin, end, turns, products };
    let of_asking = asking(thread);
    emitter.where_not_negative(&of_asking, |emitter| {
        slabs.iter().try_for_each(|slab| slab.ring.prepare(emitter))?;
        turns.prepare(emitter)?;
        call_unit(emitter.builder, gpu::FENCE_FOR_BARRIERS, &[]);
        Ok(())
    })?;
    barrier(builder);
    emitter.where_not_negative(&[thread - THREADS], |emitter| {
        call_unit(builder, gpu::FEWER_REGISTERS, &[]);
        emitter.where_not_negative(&of_asking, |emitter| groups.ask(emitter))
    })?;
    emitter.where_not_negative(&[-thread + (THREADS - 1)], |emitter| {
        call_unit(builder, gpu::MORE_REGISTERS, &[]);
        match &plan.chain {
            Some(chain) => groups.chain(emitter, chain, output),
            None => groups.attention(emitter, output),
        }
    })
}

/// What is done with a slab of a number, and what loops carry.
type SlabBody<'f, 'a, 'c> = dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>> + 'f;

/// A kernel under construction.
pub(super) struct WarpGroups<'k, 'c> {
    pub kernel: &'k Kernel<'k, 'c>,
    /// Rows and columns of each product that weights are made of, and then values.
    pub slabs: &'k [Slab<'c>],
    /// The first slab of columns that the block goes through, and the one behind the last.
    pub begin: Expr<'c>,
    pub end: Expr<'c>,
    pub turns: Turns<'c>,
    pub products: GroupProducts<'c>,
}

impl<'c> WarpGroups<'_, 'c> {
    /// What the thread does that asks for boxes.
    fn ask(&self, emitter: &mut Elemental<'_, 'c>) -> Result<()> {
        self.slabs.iter().for_each(|own| call_unit(emitter.builder, gpu::ACQUIRE_BOXES, &[own.description]));
        let (of_rows, others): (Vec<&Slab<'c>>, Vec<&Slab<'c>>) =
            self.slabs.iter().partition(|slab| slab.operand.number == 0);
        for slab in of_rows {
            slab.ask(emitter, emitter.scope.constant(0), self.kernel.first)?;
        }
        self.for_slabs(emitter, 0, Vec::new(), &mut |emitter, step, _| {
            let first = (self.begin + step) * self.kernel.blocks.keys;
            others.iter().try_for_each(|slab| slab.ask(emitter, step, first))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The slabs of a kind: rows, columns or values.
    pub fn operands(&self, number: usize) -> impl Iterator<Item = &Slab<'c>> {
        self.slabs.iter().filter(move |slab| slab.operand.number == number)
    }

    /// A loop over the slabs, by their numbers from the first on, of which some are not left to it.
    pub fn for_slabs<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        others: i64,
        state: Vec<Value<'c>>,
        body: &mut SlabBody<'_, 'a, 'c>,
    ) -> Result<Vec<Value<'c>>> {
        let count = emitter.scope.simplify(self.end - self.begin);
        let all = Interval::of_size(emitter.scope.range(count).upper - others);
        let some = count.as_constant().is_none().then(|| (emitter.scope.constant(0), count - others));
        emitter.loop_in(all, some, state, body)
    }

    /// What the threads do that multiply.
    fn attention(&self, emitter: &mut Elemental<'_, 'c>, output: &ArrayRef<'c>) -> Result<()> {
        let builder = emitter.builder;
        let [of_queries, keys, values] = self.slabs else {
            return Err(LoweringError::bug("an attention has three operands"));
        };
        let products = &self.products;
        let (shares, lane): (&dyn Shares<'c>, _) = (&products.fragments, products.fragments.lane);
        let queries = self.kernel.queries(emitter, shares)?;
        let rows = queries.len();
        let Rows { most, totals, sums } = self.kernel.start(builder, shares);
        let zero = emitter.scope.constant(0);
        of_queries.ring.wait(emitter, zero)?;
        keys.ring.wait(emitter, zero)?;
        let scores = products.scores(emitter, [of_queries, keys], zero)?;
        let scores = wait(builder, 0, &scores, &[]);
        keys.ring.release(emitter, zero, lane)?;
        let own = self.weigh(emitter, (&queries, zero), (scores, [&most, &totals]))?;
        let words = products.words(builder, &own.weights);
        values.ring.wait(emitter, zero)?;
        let state = [Rows { most: own.most, totals: own.totals, sums }.values(), words].concat();
        let count = state.len() - products.weight_words();
        let mut state = self.for_slabs(emitter, 1, state, &mut |emitter, step, mut state| {
            let words = state.split_off(count);
            let Rows { most, totals, sums } = Rows::of(state, rows);
            let next = step + 1;
            keys.ring.wait(emitter, next)?;
            self.turns.begin(emitter, products.group, step)?;
            let scores = products.scores(emitter, [of_queries, keys], next)?;
            let sums = products.add(emitter, values, step, (&words, &sums))?;
            self.turns.pass(emitter, products.group, lane)?;
            let scores = wait(builder, 1, &scores, &[]);
            keys.ring.release(emitter, next, lane)?;
            let own = self.weigh(emitter, (&queries, next), (scores, [&most, &totals]))?;
            values.ring.wait(emitter, next)?;
            let sums = wait(builder, 0, &sums, &words);
            values.ring.release(emitter, step, lane)?;
            let next_words = products.words(builder, &own.weights);
            let sums = own.scaled(builder, &products.sums_by_rows(&sums));
            Ok([Rows { most: own.most, totals: own.totals, sums }.values(), next_words].concat())
        })?;
        let words = state.split_off(count);
        let Rows { most, totals, sums } = Rows::of(state, rows);
        let sums = products.add(emitter, values, self.end - 1, (&words, &sums))?;
        let sums = products.sums_by_rows(&wait(builder, 0, &sums, &words));
        self.kernel.finish(emitter, shares, (Rows { most, totals, sums }, &queries), output)
    }

    /// The weights of a slab by its scores.
    fn weigh(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (queries, step): (&[Expr<'c>], Expr<'c>),
        (scores, before): (Vec<Value<'c>>, [&[Value<'c>]; 2]),
    ) -> Result<Weights<'c>> {
        let place = (queries, step * self.kernel.blocks.keys);
        let scores = self.products.scores_by_rows(&scores);
        emitter.nested(|emitter| self.kernel.weigh(emitter, &self.products.fragments, place, (&scores, before)))
    }
}
