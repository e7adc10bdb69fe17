//! What becomes of scores: logits, and weights by an online softmax; and of the sums of values, which are divided and stored.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use indexing::{Expr, Interval};
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::super::fragments::FragmentRows;
use super::super::tensor_cores::EIGHT;
use super::super::where_inside;
use super::{Blocks, Result, Shares};
use crate::attention::{AttentionForm, ResultDimension};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar::approximate::power_of_two;
use crate::scalar::{self, RegisterValue};
use crate::team::exchange;
use crate::walk::Visitor;

/// Factors of scores with which exponents of near logits are finite, and of far ones differ by ten and more.
const MULTIPLES: std::ops::RangeInclusive<f64> = 1e-6..=1.0;

/// Exponents of two of the largest logits from which on numbers next to each other have exponents that differ by 16 and more. Those
/// of smaller ones are rounded by 8 at most.
const FAR: f64 = (1 << 28) as f64;

/// Bytes that a thread stores at once, where it can.
const STORED_BYTES: i64 = 16;

/// Values that are combined one after another, side by side with others.
const CHAINS: usize = 4;

/// The code of a block.
pub(super) struct Kernel<'k, 'c> {
    pub form: &'k AttentionForm,
    pub blocks: Blocks,
    /// The positions in the batch.
    pub places: &'k [Expr<'c>],
    /// The first query.
    pub first: Expr<'c>,
}

/// What a thread has of its rows so far: the largest logits, the sums of exponentials, and those of values.
pub(super) struct Rows<'c> {
    pub most: Vec<Value<'c>>,
    pub totals: Vec<Value<'c>>,
    pub sums: Vec<Value<'c>>,
}

impl<'c> Rows<'c> {
    pub fn values(self) -> Vec<Value<'c>> {
        [self.most, self.totals, self.sums].concat()
    }

    pub fn of(mut values: Vec<Value<'c>>, rows: usize) -> Self {
        let sums = values.split_off(2 * rows);
        let totals = values.split_off(rows);
        Rows { most: values, totals, sums }
    }
}

/// What comes of a slab's scores.
pub(super) struct Weights<'c> {
    /// Those of the first row, of the second one, and so on.
    pub weights: Vec<Value<'c>>,
    pub most: Vec<Value<'c>>,
    pub totals: Vec<Value<'c>>,
    /// Of each row.
    scales: Vec<Value<'c>>,
}

impl<'c> Weights<'c> {
    /// The sums of values that were before, scaled down.
    pub fn scaled(&self, builder: &OpBuilder<'c>, sums: &[Value<'c>]) -> Vec<Value<'c>> {
        let of_row = sums.len() / self.scales.len();
        let scaled = sums.iter().enumerate();
        scaled.map(|(number, &sum)| builder.mulf(sum, self.scales[number / of_row])).collect()
    }
}

impl<'c> Kernel<'_, 'c> {
    /// Where the thread's rows are among all queries: those that there are not have the logits of the last one.
    pub fn queries(&self, emitter: &mut Elemental<'_, 'c>, shares: &dyn Shares<'c>) -> Result<Vec<Expr<'c>>> {
        let rows = shares.rows().into_iter();
        rows.map(|row| self.kept(emitter, self.first + row, self.form.queries())).collect()
    }

    /// A thread's rows before the first key.
    pub fn start(&self, builder: &OpBuilder<'c>, shares: &dyn Shares<'c>) -> Rows<'c> {
        let element = scalar::register_type(builder, self.form.element_type, None);
        let (features, neighbours) = shares.features();
        let rows = shares.rows().len();
        let [nothing, zero] = [f64::NEG_INFINITY, 0.0].map(|value| builder.constant_float(element, value));
        let sums = vec![zero; rows * features.len() * neighbours as usize];
        Rows { most: vec![nothing; rows], totals: vec![zero; rows], sums }
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
        index[self.form.key_dimension] = key;
        let element_type = self.form.element_type;
        emitter.combined.insert(attention.scores, RegisterValue::real(emitter.builder, element_type, score));
        let logit = emitter.evaluate(attention.logits, &index)?;
        let logit = scalar::convert::convert(emitter.builder, &logit, element_type);
        Ok(logit.ok_or_else(|| LoweringError::bug("logits of another class"))?.value)
    }

    /// The index of the first logit of a row.
    pub fn row_index(&self, emitter: &Elemental<'_, 'c>, query: Expr<'c>) -> Vec<Expr<'c>> {
        let mut index = vec![emitter.scope.constant(0); self.form.sizes.len()];
        index[self.form.attention.query] = query;
        for (axis, &place) in self.form.batch.iter().zip(self.places) {
            index[axis.logit] = place;
        }
        index
    }

    /// The thread's keys of a slab that begins with one: each the last one where there are not so many, and then whether it is there.
    pub fn keys(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        first: Expr<'c>,
    ) -> Result<Vec<(Expr<'c>, Option<Value<'c>>)>> {
        let (builder, count) = (emitter.builder, self.form.keys());
        let mut keys = Vec::new();
        for key in shares.keys() {
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
        Ok(keys)
    }

    /// The weights of a slab by its scores, what the rows have then but for their sums, and what these are to be scaled by: `before`
    /// are the largest logits and the sums of exponentials so far.
    pub fn weigh(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        (queries, first): (&[Expr<'c>], Expr<'c>),
        (scores, before): (&[Value<'c>], [&[Value<'c>]; 2]),
    ) -> Result<Weights<'c>> {
        let [most_before, totals_before] = before;
        let builder = emitter.builder;
        let multiple = self.multiple(emitter.computation);
        let keys = self.keys(emitter, shares, first)?;
        let mut weights = Vec::with_capacity(scores.len());
        let (mut most, mut totals, mut scales) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (&query, scores)) in queries.iter().zip(scores.chunks(keys.len())).enumerate() {
            let mut logits = Vec::with_capacity(keys.len());
            for (&(key, is_there), &score) in keys.iter().zip(scores) {
                let logit = if multiple.is_some() { score } else { self.logit(emitter, (query, key), score)? };
                let nothing = builder.float_like(logit, f64::NEG_INFINITY);
                logits.push(is_there.map_or(logit, |is_there| builder.select(is_there, logit, nothing)));
            }
            let largest = side_by_side(&logits, |a, b| larger(builder, a, b)).unwrap_or(most_before[row]);
            let largest = shares
                .distances()
                .iter()
                .fold(largest, |largest, &distance| larger(builder, largest, exchange(builder, largest, distance)));
            let largest = larger(builder, largest, most_before[row]);
            // A row of nothing but -inf so far has weights of 0: if that is all, 0 is divided by 0 in the end.
            let is_any = builder.cmpf(CmpfPredicate::Une, largest, builder.float_like(largest, f64::NEG_INFINITY));
            let kept = builder.select(is_any, largest, builder.float_like(largest, 0.0));
            let powers = self.powers(builder, kept, multiple);
            let scale = powers.scale(emitter, most_before[row])?;
            let own: Vec<Value<'c>> =
                logits.into_iter().map(|logit| powers.of(emitter, logit)).collect::<Result<_>>()?;
            let before = builder.mulf(totals_before[row], scale);
            let total = side_by_side(&own, |a, b| builder.addf(a, b));
            let total = total.map_or(before, |total| builder.addf(before, total));
            weights.extend(own);
            most.push(largest);
            totals.push(total);
            scales.push(scale);
        }
        Ok(Weights { weights, most, totals, scales })
    }

    /// What all scores are multiplied by to be logits, where there is nothing else: then the largest score is that of the largest
    /// logit, and the scores are as good as the logits until their exponentials are computed.
    fn multiple(&self, computation: &Computation) -> Option<f64> {
        let attention = &self.form.attention;
        let logits = computation.get(attention.logits);
        let is_float = self.form.element_type == ElementType::F32 && self.blocks.tensors.is_some();
        let type_of = |id| computation.get(id).shape.as_array().map(|shape| shape.element_type);
        if !is_float || type_of(attention.logits) != Some(ElementType::F32) {
            return None;
        }
        if attention.logits == attention.scores {
            return Some(1.0);
        }
        let &[a, b] = &logits.operands[..] else { return None };
        let factor = if a == attention.scores { b } else { a };
        let is_multiple = logits.kind == OpKind::Multiply && (a == attention.scores) != (b == attention.scores);
        constant(computation, factor).filter(|factor| is_multiple && MULTIPLES.contains(factor))
    }

    /// The exponentials of a row whose largest logit is one, or whose largest score is.
    fn powers<'k>(&'k self, builder: &OpBuilder<'c>, most: Value<'c>, multiple: Option<f64>) -> Powers<'k, 'c> {
        let factor = multiple.unwrap_or(1.0) * std::f64::consts::LOG2_E;
        let exponents = self.blocks.tensors.map(|_| Exponents::new(builder, most, factor));
        Powers { form: self.form, most, exponents }
    }

    /// Divides the sums and stores them.
    pub fn finish(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        (rows, queries): (Rows<'c>, &[Expr<'c>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let of_row = rows.sums.len() / rows.totals.len();
        let mut sums = Vec::with_capacity(rows.sums.len());
        for (total, own) in rows.totals.into_iter().zip(rows.sums.chunks(of_row)) {
            let distances = shares.distances().iter();
            let total =
                distances.fold(total, |total, &distance| builder.addf(total, exchange(builder, total, distance)));
            let share = builder.divf(builder.float_like(total, 1.0), total);
            sums.extend(own.iter().map(|&sum| builder.mulf(sum, share)));
        }
        self.store_rows(emitter, shares, (&sums, queries), output)
    }

    /// Stores the sums of a thread's rows.
    pub fn store_rows(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        (sums, queries): (&[Value<'c>], &[Expr<'c>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let (mut features, mut neighbours) = shares.features();
        let of_row = features.len() * neighbours as usize;
        let counts = [self.form.queries(), self.form.features];
        let wide = match (shares.lane_of_pairs(), self.stored_fragments(features.len() as i64, output)) {
            (Some(lane), Some(fragments)) => Some((FragmentRows::exchanging(emitter, lane)?, fragments)),
            _ => None,
        };
        if let Some((wide, fragments)) = &wide {
            let groups = 0..features.len() as i64 / fragments;
            features = groups.map(|group| wide.first_column(*fragments) + group * fragments * EIGHT).collect();
            neighbours = 2 * fragments;
        }
        // Neighbours are stored together where no row ends between them.
        let lanes = if self.form.features % neighbours == 0 { neighbours } else { 1 };
        for (number, row) in shares.rows().into_iter().enumerate() {
            let mut sums = sums[number * of_row..][..of_row].to_vec();
            if let Some((wide, fragments)) = &wide {
                let (pairs, _) = sums.as_chunks::<2>();
                let groups = pairs.chunks(*fragments as usize);
                sums = groups.flat_map(|pairs| wide.exchanged(builder, pairs.to_vec())).flatten().collect();
            }
            let zero = emitter.scope.constant(0);
            let place = emitter.scope.simplify(self.first + row);
            where_inside(emitter, [place, zero], counts, |emitter| {
                for (part, sums) in sums.chunks(lanes as usize).enumerate() {
                    let part = part as i64 * lanes;
                    let feature = features[(part / neighbours) as usize] + part % neighbours;
                    let feature = emitter.scope.simplify(feature);
                    let sums: Vec<RegisterValue<'c>> =
                        sums.iter().map(|&sum| RegisterValue::real(builder, self.form.element_type, sum)).collect();
                    where_inside(emitter, [zero, feature], counts, |emitter| {
                        self.store(emitter, (queries[number], feature), &sums, output)
                    })?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Fragments of eight features of which four threads have pairs, and can have as many neighbours as 16 bytes hold, so that they
    /// store these together.
    fn stored_fragments(&self, fragments: i64, output: &ArrayRef<'c>) -> Option<i64> {
        let bytes = output.element_type.byte_width() as i64;
        let stored = (STORED_BYTES / (2 * bytes)).min(4);
        let last = self.form.result.iter().rfind(|own| **own != ResultDimension::Single);
        let is_whole = fragments % stored.max(1) == 0 && self.form.features % (2 * stored).max(1) == 0;
        (stored > 1 && is_whole && last == Some(&ResultDimension::Feature)).then_some(stored)
    }

    /// Stores neighbouring features of a row.
    pub fn store(
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

/// What makes exponents of two of logits of 32 bits: each is a product less that of the largest logit, in one instruction. That
/// product is rounded, so that all weights of a row are off by one factor, of which nothing is left when they are divided by their sum.
/// It would be no number any more for logits that are far from 0: their distance, which is exact, is the exponent as well, as all
/// others than the largest have weights of almost nothing.
struct Exponents<'c> {
    is_far: Value<'c>,
    /// Of logits that are not far.
    near: Value<'c>,
    factor: Value<'c>,
    /// The product of the largest logit.
    most: Value<'c>,
}

impl<'c> Exponents<'c> {
    fn new(builder: &OpBuilder<'c>, most: Value<'c>, factor: f64) -> Self {
        let constant = |value: f64| builder.float_like(most, value);
        let near = constant(factor);
        let product = builder.mulf(most, near);
        let absolute = builder.intrinsic("llvm.fabs.f32", &[product], most.r#type());
        let is_far = builder.cmpf(CmpfPredicate::Ogt, absolute, constant(FAR));
        let factor = builder.select(is_far, constant(1.0), near);
        Exponents { is_far, near, factor, most: builder.select(is_far, most, product) }
    }

    fn of(&self, builder: &OpBuilder<'c>, logit: Value<'c>) -> Value<'c> {
        let less = builder.subf(builder.float_like(logit, -0.0), self.most);
        builder.intrinsic("llvm.fma.f32", &[logit, self.factor, less], logit.r#type())
    }

    /// That of what was the largest logit before, whose product was rounded.
    fn of_largest(&self, builder: &OpBuilder<'c>, before: Value<'c>) -> Value<'c> {
        let product = builder.select(self.is_far, before, builder.mulf(before, self.near));
        builder.subf(product, self.most)
    }
}

/// The exponentials of a row's logits, less the largest.
struct Powers<'k, 'c> {
    form: &'k AttentionForm,
    most: Value<'c>,
    /// None of weights with more than 16 bits.
    exponents: Option<Exponents<'c>>,
}

impl<'c> Powers<'_, 'c> {
    /// The exponential of a logit.
    fn of(&self, emitter: &Elemental<'_, 'c>, logit: Value<'c>) -> Result<Value<'c>> {
        match &self.exponents {
            Some(exponents) => Ok(power_of_two(emitter.builder, exponents.of(emitter.builder, logit))),
            None => self.exponential(emitter, logit),
        }
    }

    /// What sums are to be multiplied by that had a logit as their largest.
    fn scale(&self, emitter: &Elemental<'_, 'c>, before: Value<'c>) -> Result<Value<'c>> {
        match &self.exponents {
            Some(exponents) => Ok(power_of_two(emitter.builder, exponents.of_largest(emitter.builder, before))),
            None => self.exponential(emitter, before),
        }
    }

    fn exponential(&self, emitter: &Elemental<'_, 'c>, logit: Value<'c>) -> Result<Value<'c>> {
        let builder = emitter.builder;
        let difference = RegisterValue::real(builder, self.form.element_type, builder.subf(logit, self.most));
        let attributes = &emitter.computation.get(self.form.attention.exponential).attributes;
        Ok(scalar::elementwise(builder, OpKind::Exponential, attributes, &[difference], difference.element_type)?.value)
    }
}

/// The number that every element of a value is, where that is a constant.
fn constant(computation: &Computation, id: InstructionId) -> Option<f64> {
    let instruction = computation.get(id);
    match instruction.kind {
        OpKind::Broadcast | OpKind::Reshape => constant(computation, *instruction.operands.first()?),
        OpKind::Constant => {
            let array = instruction.literal()?.as_array()?;
            let is_one = array.shape().element_count() == 1;
            is_one.then(|| hlo::scalar::load(array.element_type(), array.bytes(), 0).to_float())
        }
        _ => None,
    }
}

/// Values combined, of which some are next to each other: no instruction waits for the one before.
pub(super) fn side_by_side<'c>(
    values: &[Value<'c>],
    combine: impl Fn(Value<'c>, Value<'c>) -> Value<'c>,
) -> Option<Value<'c>> {
    let mut parts = values[..CHAINS.min(values.len())].to_vec();
    for values in values.chunks(CHAINS).skip(1) {
        parts.iter_mut().zip(values).for_each(|(part, &value)| *part = combine(*part, value));
    }
    parts.into_iter().reduce(combine)
}

/// The larger of two numbers; the other one of something that is none.
pub(super) fn larger<'c>(builder: &OpBuilder<'c>, a: Value<'c>, b: Value<'c>) -> Value<'c> {
    let r#type = a.r#type();
    let name =
        if r#type == melior::ir::Type::float64(builder.context()) { "llvm.maxnum.f64" } else { "llvm.maxnum.f32" };
    builder.intrinsic(name, &[a, b], r#type)
}
