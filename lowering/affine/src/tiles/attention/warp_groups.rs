//! Attention by the matrix instructions of four warps together (`wgmma`), for which a unit copies queries, keys and values by itself.
//!
//! Two groups of warps have 64 queries each. Both operands of the first product are in shared memory; of the second one the
//! weights are in registers. While the products with the values of a slab are under way, and those of the next slab's scores,
//! a group computes what it can of the softmax: it waits for the scores only, and then for the sums.
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
//! In shared memory, 64 features of a row are 128 bytes, and behind all rows there are the next features.

use hlo::element_type::ElementType;
use hlo::graph::Computation;
use hlo::launch_plan::Boxes;
use hlo::mapping::WorkMapping;
use indexing::{Expr, Interval, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, OpBuilder, Value};
use mlir_ext::gpu::{self, WarpGroupProduct, WarpGroupWait};

use super::super::boxes::{BoxKernel, ParameterBoxes, asking, have_boxes};
use super::super::chunks::CHUNK;
use super::super::rings::{BoxPlace, Ring, call as call_unit};
use super::super::tensor_cores::EIGHT;
use super::super::warp_groups::{self, DEPTH, GROUP, ROWS, STEP, chunk_at, descriptor};
use super::super::{BUSY_BLOCKS, Result, THREADS};
use super::matrices::{Fragments, WIDTH, places};
use super::softmax::{Kernel, Rows, Weights};
use super::{Blocks, MANY_FEATURES, Place, Shares, tensors_of};
use crate::attention::AttentionForm;
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

/// Keys of a slab, at most.
const KEYS: i64 = 128;

/// Features of a row of 128 bytes.
const PANEL: i64 = STEP / WIDTH;

/// Contracted positions of an instruction.
const POSITIONS: i64 = DEPTH / WIDTH;

/// Slabs of keys, and of values, in shared memory.
const STAGES: i64 = 2;

/// Bytes of shared memory that a block may be given.
const MOST_SHARED: i64 = 224 << 10;

/// How an attention is divided.
fn blocks_of(form: &AttentionForm) -> Option<Blocks> {
    let tensors = tensors_of(form)?;
    let keys = if form.keys() <= KEYS / 2 { KEYS / 2 } else { KEYS };
    let blocks = Blocks { queries: QUERIES, keys, threads: THREADS, tensors: Some(tensors) };
    let bytes: i64 = (0..3).map(|number| Operand::of(form, &blocks, number).bytes() * Operand::stages(number)).sum();
    // Twice as fast as smaller blocks are, these need half as many.
    let is_busy = form.batches() * ceil_div(form.queries(), QUERIES) * 2 >= BUSY_BLOCKS;
    (is_busy && form.features <= MANY_FEATURES && bytes <= MOST_SHARED).then_some(blocks)
}

/// How an attention's operands are copied in boxes, if all of them can be.
pub(in super::super) fn box_kernel<'c>(
    context: &'c Context,
    computation: &Computation,
    mapping: &WorkMapping<'c>,
    alignment: &dyn Fn(usize) -> i64,
) -> Option<BoxKernel<'c>> {
    let form = AttentionForm::of(context, computation)?;
    let blocks = blocks_of(&form)?;
    let boxes = (0..3).map(|number| Operand::of(&form, &blocks, number).boxes(&form, number));
    let boxes: Vec<ParameterBoxes> = boxes.collect::<Option<_>>()?;
    let are_aligned = boxes.iter().all(|own| own.is_aligned(alignment));
    let mut mapping = mapping.clone();
    mapping.dimensions.clone_from(&blocks.mapping(context, &form).dimensions);
    are_aligned.then_some(BoxKernel { mapping, boxes, limits: [ALL_THREADS, 1] })
}

/// Queries, keys or values: how they lie in memory, and in a stage.
struct Operand {
    /// Rows that there are, and of a stage.
    count: i64,
    rows: i64,
    features: i64,
    /// How far rows and features are from the next ones.
    strides: [i64; 2],
}

/// What a place in a batch adds to that of a box: features, and matrices.
type BatchStrides = [i64; 2];

impl Operand {
    fn of(form: &AttentionForm, blocks: &Blocks, number: usize) -> Self {
        let (count, rows, features, distances) = match number {
            0 => (form.queries(), blocks.queries, form.depth, [form.query, form.contracted]),
            1 => (form.keys(), blocks.keys, form.depth, [form.key, form.contracted]),
            _ => (form.keys(), blocks.keys, form.features, [form.key, form.feature]),
        };
        Operand { count, rows, features, strides: distances.map(|distances| distances[number]) }
    }

    fn stages(number: usize) -> i64 {
        if number == 0 { 1 } else { STAGES }
    }

    /// Parts of 64 features, and bytes of one.
    fn panels(&self) -> i64 {
        ceil_div(self.features, PANEL)
    }

    fn panel_bytes(&self) -> i64 {
        self.rows * STEP
    }

    fn bytes(&self) -> i64 {
        self.panels() * self.panel_bytes()
    }

    /// What each axis of the batch adds to the place of a box, and how far matrices are from each other; nothing if boxes cannot be
    /// described so.
    fn batch(&self, form: &AttentionForm, number: usize) -> Option<(Vec<BatchStrides>, i64)> {
        let is_outside = |&stride: &i64| stride >= self.strides[0];
        let strides: Vec<i64> = form.batch.iter().map(|axis| axis.strides[number]).collect();
        let matrix = strides.iter().copied().filter(is_outside).min();
        let matrix = matrix.unwrap_or_else(|| self.strides[0].saturating_mul(self.count));
        let place = |&stride: &i64| match is_outside(&stride) {
            true => (stride % matrix == 0).then_some([0, stride / matrix]),
            false => (stride >= 0).then_some([stride, 0]),
        };
        Some((strides.iter().map(place).collect::<Option<_>>()?, matrix))
    }

    /// How it is copied in boxes of 64 features.
    fn boxes(&self, form: &AttentionForm, number: usize) -> Option<ParameterBoxes> {
        if self.strides[1] != 1 || self.strides[0] <= 0 {
            return None;
        }
        let (batch, matrix) = self.batch(form, number)?;
        let last = |part: usize| -> i64 {
            form.batch.iter().zip(&batch).map(|(axis, strides)| (axis.size - 1) * strides[part]).sum()
        };
        // Features of several heads in a row are told apart by where a box begins only if these are whole boxes.
        let of_row = last(0) + self.features;
        let is_row = of_row <= self.strides[0] && (last(0) == 0 || self.features % PANEL == 0);
        let sizes = [of_row, self.count, 1 + last(1)];
        let strides = [self.strides[0], matrix].map(|stride| stride.saturating_mul(WIDTH));
        let numbers = |numbers: [i64; 2]| numbers.map(|number| number as u64);
        (is_row && have_boxes(sizes, strides)).then(|| ParameterBoxes {
            parameter: form.operands[number],
            first: 0,
            boxes: Boxes {
                width: WIDTH as u64,
                sizes: sizes.map(|size| size as u64),
                strides: numbers(strides),
                sides: numbers([PANEL, self.rows]),
            },
        })
    }
}

/// Emits an attention whose queries, keys and values have descriptions at addresses.
pub(in super::super) fn emit_boxes<'c>(
    mut emitter: Elemental<'_, 'c>,
    outputs: &[ArrayRef<'c>],
    (function, descriptions): (&Body<'c>, [Value<'c>; 3]),
) -> Result<()> {
    let (context, emitter) = (emitter.scope.context(), &mut emitter);
    let builder = emitter.builder;
    let form = AttentionForm::of(context, emitter.computation);
    let blocks = form.as_ref().and_then(blocks_of);
    let (Some(form), Some(blocks), [output]) = (form, blocks, outputs) else {
        return Err(LoweringError::bug("boxes of another fusion than an attention"));
    };
    let Place { places, tile, thread } = Place::of(emitter, &form, &blocks, ALL_THREADS)?;
    let zero = scalar::constant(builder, ElementType::U16, &[], None);
    let stages = [0, 1, 2].map(Operand::stages);
    let mut slabs = Vec::with_capacity(3);
    for (number, &description) in descriptions.iter().enumerate() {
        let operand = Operand::of(&form, &blocks, number);
        let (batch, _) = operand.batch(&form, number).ok_or_else(|| LoweringError::bug("boxes of other arrays"))?;
        let elements = stages[number] * operand.bytes() / WIDTH;
        let address = SharedValues::new(builder, function, &zero, &[elements]).address(builder);
        let mut first = [emitter.scope.constant(0); 2];
        for (strides, &place) in batch.iter().zip(&places) {
            first = [first[0] + place * strides[0], first[1] + place * strides[1]];
        }
        slabs.push((operand, address, first, description));
    }
    let zero = scalar::constant(builder, ElementType::S64, &[], None);
    let count = stages.iter().map(|&stages| Ring::barriers_of(stages)).sum();
    let barriers = SharedValues::new(builder, function, &zero, &[count]).address(builder);
    let mut next = 0;
    let slab = |(number, (operand, address, first, description)): (usize, (Operand, _, _, _))| {
        let ring =
            Ring { barriers, first: next, stages: stages[number], bytes: operand.bytes(), warps: THREADS / WARP };
        next += Ring::barriers_of(ring.stages);
        Slab { operand, address, first, description, ring }
    };
    let slabs: Vec<Slab<'c>> = slabs.into_iter().enumerate().map(slab).collect();
    let slabs = slabs.try_into().map_err(|_| LoweringError::bug("an attention has three operands"))?;
    let kernel = Kernel { form: &form, blocks, places: &places, first: tile * QUERIES };
    let steps = kernel.slabs(emitter)?;
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
    let groups = WarpGroups { kernel: &kernel, slabs: &slabs, steps, group, fragments };
    let of_asking = asking(thread);
    emitter.where_not_negative(&of_asking, |emitter| {
        slabs.iter().try_for_each(|slab| slab.ring.prepare(emitter))?;
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
        groups.multiply(emitter, output)
    })
}

/// Queries, keys or values in shared memory.
struct Slab<'c> {
    operand: Operand,
    address: Value<'c>,
    /// The first feature of the block's part of the array, and the number of its matrix.
    first: [Expr<'c>; 2],
    description: Value<'c>,
    ring: Ring<'c>,
}

impl<'c> Slab<'c> {
    /// Has the rows of a step copied, from one on.
    fn ask(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>, row: Expr<'c>) -> Result<()> {
        let full = self.ring.begin(emitter, step)?;
        let stage = self.ring.stage(emitter, step);
        for panel in 0..self.operand.panels() {
            let place = BoxPlace {
                description: self.description,
                address: self.address,
                to: stage * self.operand.bytes() + panel * self.operand.panel_bytes(),
                first: [self.first[0] + panel * PANEL, row, self.first[1]],
            };
            place.copy(emitter, full)?;
        }
        Ok(())
    }

    /// Where a row of a step begins, in chunks.
    fn chunk(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>, row: Expr<'c>) -> Result<Value<'c>> {
        let stage = self.ring.stage(emitter, step);
        chunk_at(emitter, self.address, stage * self.operand.bytes() + row * STEP)
    }
}

/// What is done with a slab of a number, and what loops carry.
type SlabBody<'f, 'a, 'c> = dyn FnMut(&mut Elemental<'a, 'c>, Expr<'c>, Vec<Value<'c>>) -> Result<Vec<Value<'c>>> + 'f;

/// A kernel under construction.
struct WarpGroups<'k, 'c> {
    kernel: &'k Kernel<'k, 'c>,
    /// Queries, keys and values.
    slabs: &'k [Slab<'c>; 3],
    /// Slabs of keys that the block goes through.
    steps: Expr<'c>,
    /// Which of the groups the thread is of, and what it has of the group's.
    group: Expr<'c>,
    fragments: Fragments<'c>,
}

impl<'c> WarpGroups<'_, 'c> {
    /// What the thread does that asks for boxes.
    fn ask(&self, emitter: &mut Elemental<'_, 'c>) -> Result<()> {
        let [queries, keys, values] = self.slabs;
        self.slabs.iter().for_each(|own| call_unit(emitter.builder, gpu::ACQUIRE_BOXES, &[own.description]));
        queries.ask(emitter, emitter.scope.constant(0), self.kernel.first)?;
        self.for_slabs(emitter, 0, Vec::new(), &mut |emitter, step, _| {
            let first = step * self.kernel.blocks.keys;
            keys.ask(emitter, step, first)?;
            values.ask(emitter, step, first)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// What the threads do that multiply.
    fn multiply(&self, emitter: &mut Elemental<'_, 'c>, output: &ArrayRef<'c>) -> Result<()> {
        let builder = emitter.builder;
        let [of_queries, keys, values] = self.slabs;
        let shares: &dyn Shares<'c> = &self.fragments;
        let queries = self.kernel.queries(emitter, shares)?;
        let rows = queries.len();
        let Rows { most, totals, sums } = self.kernel.start(builder, shares);
        let zero = emitter.scope.constant(0);
        of_queries.ring.wait(emitter, zero)?;
        keys.ring.wait(emitter, zero)?;
        let scores = self.scores(emitter, zero)?;
        let scores = wait(builder, 0, scores, &[]);
        keys.ring.release(emitter, zero, self.fragments.lane)?;
        let own = self.weigh(emitter, (&queries, zero), (scores, [&most, &totals]))?;
        let words = self.words(builder, &own);
        let state = [Rows { most: own.most, totals: own.totals, sums }.values(), words].concat();
        let count = state.len() - self.weight_words();
        let mut state = self.for_slabs(emitter, 1, state, &mut |emitter, step, mut state| {
            let words = state.split_off(count);
            let Rows { most, totals, sums } = Rows::of(state, rows);
            let next = step + 1;
            keys.ring.wait(emitter, next)?;
            let scores = self.scores(emitter, next)?;
            let sums = self.add(emitter, step, &words, sums)?;
            let scores = wait(builder, 1, scores, &[]);
            keys.ring.release(emitter, next, self.fragments.lane)?;
            let own = self.weigh(emitter, (&queries, next), (scores, [&most, &totals]))?;
            let next_words = self.words(builder, &own);
            let sums = wait(builder, 0, sums, &words);
            values.ring.release(emitter, step, self.fragments.lane)?;
            let sums = own.scaled(builder, &self.by_rows(sums));
            Ok([Rows { most: own.most, totals: own.totals, sums }.values(), next_words].concat())
        })?;
        let words = state.split_off(count);
        let Rows { most, totals, sums } = Rows::of(state, rows);
        let sums = self.add(emitter, self.steps - 1, &words, sums)?;
        let sums = self.by_rows(wait(builder, 0, sums, &words));
        self.kernel.finish(emitter, shares, (Rows { most, totals, sums }, &queries), output)
    }

    /// A loop over the slabs, of which some are not left to it.
    fn for_slabs<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        others: i64,
        state: Vec<Value<'c>>,
        body: &mut SlabBody<'_, 'a, 'c>,
    ) -> Result<Vec<Value<'c>>> {
        let all = Interval::of_size(emitter.scope.range(self.steps).upper - others);
        let some = self.steps.as_constant().is_none().then(|| (emitter.scope.constant(0), self.steps - others));
        emitter.loop_in(all, some, state, body)
    }

    /// The weights of a slab by its scores.
    fn weigh(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (queries, step): (&[Expr<'c>], Expr<'c>),
        (scores, before): (Vec<Value<'c>>, [&[Value<'c>]; 2]),
    ) -> Result<Weights<'c>> {
        let place = (queries, step * self.kernel.blocks.keys);
        let scores = by_rows(self.fragments.keys, &scores);
        emitter.nested(|emitter| self.kernel.weigh(emitter, &self.fragments, place, (&scores, before)))
    }

    /// Begins the scores of a slab.
    fn scores(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>) -> Result<Vec<Value<'c>>> {
        let (builder, [queries, keys, _]) = (emitter.builder, self.slabs);
        let zero = emitter.scope.constant(0);
        let firsts = [queries.chunk(emitter, zero, self.group * ROWS)?, keys.chunk(emitter, step, zero)?];
        let mut operands = Vec::new();
        for part in 0..ceil_div(self.kernel.form.depth, POSITIONS) {
            let of_panel = PANEL / POSITIONS;
            for (slab, &first) in [queries, keys].into_iter().zip(&firsts) {
                let panel = part / of_panel * slab.operand.panel_bytes() + part % of_panel * DEPTH;
                operands.push(descriptor(builder, first, panel / CHUNK, 1));
            }
        }
        let product = self.product((self.kernel.blocks.keys, [false, false]), operands.len() / 2);
        let product = WarpGroupProduct { is_first: true, ..product };
        let count = self.fragments.keys * 4;
        Ok(warp_groups::call(builder, &product.symbol(), &operands, (ElementType::F32, count as usize)))
    }

    /// Begins to add the values of a slab to sums, by weights.
    fn add(
        &self,
        emitter: &Elemental<'_, 'c>,
        step: Expr<'c>,
        words: &[Value<'c>],
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let (builder, [_, _, values]) = (emitter.builder, self.slabs);
        values.ring.wait(emitter, step)?;
        let first = values.chunk(emitter, step, emitter.scope.constant(0))?;
        let mut operands = Vec::new();
        for (part, words) in (0..).zip(words.chunks(gpu::LEFT_WORDS)) {
            operands.extend(words);
            let distance = part * POSITIONS * STEP / CHUNK;
            operands.push(descriptor(builder, first, distance, values.operand.panel_bytes() / CHUNK));
        }
        let product = self.product((self.fragments.features * EIGHT, [false, true]), words.len() / gpu::LEFT_WORDS);
        operands.extend(as_instructions(self.fragments.features, &sums));
        let product = WarpGroupProduct { is_left_in_registers: true, ..product };
        Ok(warp_groups::call(builder, &product.symbol(), &operands, (ElementType::F32, sums.len())))
    }

    /// The instruction for so many columns, of operands that lie so.
    fn product(&self, (columns, across): (i64, [bool; 2]), parts: usize) -> WarpGroupProduct {
        let name = self.kernel.blocks.tensors.map_or("", |tensors| tensors.name());
        WarpGroupProduct {
            variant: format!("m{ROWS}n{columns}k{POSITIONS}.f32.{name}.{name}"),
            parts,
            across: Some(across),
            is_pending: true,
            ..WarpGroupProduct::default()
        }
    }

    /// A thread's words of weights, and how many there are.
    fn words(&self, builder: &OpBuilder<'c>, own: &Weights<'c>) -> Vec<Value<'c>> {
        let Some(tensors) = self.kernel.blocks.tensors else { return Vec::new() };
        let of_step = |step| self.fragments.weights(builder, tensors, &own.weights, (0, step));
        (0..self.fragments.keys / 2).flat_map(of_step).collect()
    }

    fn weight_words(&self) -> usize {
        self.fragments.keys as usize / 2 * gpu::LEFT_WORDS
    }

    fn by_rows(&self, sums: Vec<Value<'c>>) -> Vec<Value<'c>> {
        by_rows(self.fragments.features, &sums)
    }
}

/// What instructions have of fragments, two neighbours of a row and two of that eight rows on, row by row.
fn by_rows<'c>(fragments: i64, values: &[Value<'c>]) -> Vec<Value<'c>> {
    let mut rows = values.to_vec();
    for (fragment, own) in (0..fragments).zip(values.chunks(4)) {
        places(fragments, 0, fragment).into_iter().zip(own).for_each(|(place, &value)| rows[place] = value);
    }
    rows
}

/// What rows have as instructions have it.
fn as_instructions<'c>(fragments: i64, rows: &[Value<'c>]) -> Vec<Value<'c>> {
    (0..fragments).flat_map(|fragment| places(fragments, 0, fragment).map(|place| rows[place])).collect()
}

/// Waits until no more than so many products are pending, those of some sums not any more; until then words are kept.
fn wait<'c>(builder: &OpBuilder<'c>, pending: u32, sums: Vec<Value<'c>>, words: &[Value<'c>]) -> Vec<Value<'c>> {
    let symbol = WarpGroupWait { pending, sums: sums.len(), words: words.len() }.symbol();
    let operands = [&sums[..], words].concat();
    warp_groups::call(builder, &symbol, &operands, (ElementType::F32, sums.len()))
}
