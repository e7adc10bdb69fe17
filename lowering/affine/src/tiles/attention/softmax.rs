//! What becomes of scores: logits, and weights by an online softmax; and of the sums of values, which are divided and stored.

use hlo::op_kind::OpKind;
use indexing::{Expr, Interval};
use mlir_ext::arith::{CmpfPredicate, CmpiPredicate};
use mlir_ext::builder::{OpBuilder, Value};

use super::super::where_inside;
use super::{Blocks, Result, Shares};
use crate::attention::AttentionForm;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::ArrayRef;
use crate::scalar::{self, RegisterValue};
use crate::team::exchange;
use crate::walk::Visitor;

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
        let count = self.form.keys();
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
        let mut weights = Vec::with_capacity(scores.len());
        let (mut most, mut totals, mut scales) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (&query, scores)) in queries.iter().zip(scores.chunks(keys.len())).enumerate() {
            let mut logits = Vec::with_capacity(keys.len());
            for (&(key, is_there), &score) in keys.iter().zip(scores) {
                let logit = self.logit(emitter, (query, key), score)?;
                let nothing = builder.float_like(logit, f64::NEG_INFINITY);
                logits.push(is_there.map_or(logit, |is_there| builder.select(is_there, logit, nothing)));
            }
            let largest = logits.iter().copied().reduce(|a, b| larger(builder, a, b)).unwrap_or(most_before[row]);
            let largest = shares
                .distances()
                .iter()
                .fold(largest, |largest, &distance| larger(builder, largest, exchange(builder, largest, distance)));
            let largest = larger(builder, largest, most_before[row]);
            // A row of nothing but -inf so far has weights of 0: if that is all, 0 is divided by 0 in the end.
            let is_any = builder.cmpf(CmpfPredicate::Une, largest, builder.float_like(largest, f64::NEG_INFINITY));
            let kept = builder.select(is_any, largest, builder.float_like(largest, 0.0));
            let scale = self.power(emitter, builder.subf(most_before[row], kept))?;
            let mut total = builder.mulf(totals_before[row], scale);
            for logit in logits {
                let weight = self.power(emitter, builder.subf(logit, kept))?;
                total = builder.addf(total, weight);
                weights.push(weight);
            }
            most.push(largest);
            totals.push(total);
            scales.push(scale);
        }
        Ok(Weights { weights, most, totals, scales })
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
    pub fn finish(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        (rows, queries): (Rows<'c>, &[Expr<'c>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let (features, neighbours) = shares.features();
        let of_row = features.len() * neighbours as usize;
        let counts = [self.form.queries(), self.form.features];
        // Neighbours are stored together where no row ends between them.
        let lanes = if self.form.features % neighbours == 0 { neighbours } else { 1 };
        for (number, row) in shares.rows().into_iter().enumerate() {
            let total = shares
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
