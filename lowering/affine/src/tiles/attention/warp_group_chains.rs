//! Chains of products by groups of warps: as attention (`warp_groups`), but what the weights are multiplied with is added to sums that
//! nothing scales, or the weights are combined along their row.

use mlir_ext::builder::Value;

use super::box_slabs::Slab;
use super::chains::{Steps, combined};
use super::warp_group_products::wait;
use super::warp_groups::WarpGroups;
use super::{Result, Shares};
use crate::chain::ChainForm;
use crate::elemental::Elemental;
use crate::memory::ArrayRef;
use indexing::Expr;

impl<'c> WarpGroups<'_, 'c> {
    /// What the threads do that multiply.
    pub(super) fn chain(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        chain: &ChainForm,
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let steps = Steps { kernel: self.kernel, chain };
        let shares: &dyn Shares<'c> = &self.products.fragments;
        let rows = self.kernel.queries(emitter, shares)?;
        let zero = emitter.scope.constant(0);
        self.operands(0).try_for_each(|own| own.ring.wait(emitter, zero))?;
        let start = steps.start(emitter.builder, shares);
        let state = match self.operands(2).next() {
            Some(values) => self.sums(emitter, (&steps, &rows), values, start)?,
            None => self.combined(emitter, (&steps, &rows), start)?,
        };
        steps.finish(emitter, shares, (state, &rows), output)
    }

    /// What the weights of rows are combined to.
    fn combined(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (steps, rows): (&Steps<'_, 'c>, &[Expr<'c>]),
        start: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let Some(kind) = steps.chain.reduction else { return Ok(start) };
        self.for_slabs(emitter, 0, start, &mut |emitter, step, state| {
            self.wait_for_columns(emitter, step)?;
            self.turns.begin(emitter, self.products.group, step)?;
            let scores = self.begin_scores(emitter, step)?;
            self.turns.pass(emitter, self.products.group, self.products.fragments.lane)?;
            let scores = self.end_scores(emitter, step, (scores, 0))?;
            let weights = self.weights(emitter, (steps, rows), step, &scores)?;
            Ok(combined(emitter.builder, kind, &weights, state))
        })
    }

    /// The sums of values by weights.
    fn sums(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (steps, rows): (&Steps<'_, 'c>, &[Expr<'c>]),
        values: &Slab<'c>,
        sums: Vec<Value<'c>>,
    ) -> Result<Vec<Value<'c>>> {
        let (builder, products) = (emitter.builder, &self.products);
        let lane = products.fragments.lane;
        let zero = emitter.scope.constant(0);
        self.wait_for_columns(emitter, zero)?;
        let scores = self.begin_scores(emitter, zero)?;
        let scores = self.end_scores(emitter, zero, (scores, 0))?;
        let weights = self.weights(emitter, (steps, rows), zero, &scores)?;
        values.ring.wait(emitter, zero)?;
        let count = sums.len();
        let state = [sums, products.words(builder, &weights)].concat();
        let mut state = self.for_slabs(emitter, 1, state, &mut |emitter, step, mut sums| {
            let words = sums.split_off(count);
            let next = step + 1;
            self.wait_for_columns(emitter, next)?;
            self.turns.begin(emitter, products.group, step)?;
            let scores = self.begin_scores(emitter, next)?;
            let sums = products.add(emitter, values, step, (&words, &sums))?;
            self.turns.pass(emitter, products.group, lane)?;
            let scores = self.end_scores(emitter, next, (scores, 1))?;
            let weights = self.weights(emitter, (steps, rows), next, &scores)?;
            values.ring.wait(emitter, next)?;
            let sums = wait(builder, 0, &sums, &words);
            values.ring.release(emitter, step, lane)?;
            Ok([products.sums_by_rows(&sums), products.words(builder, &weights)].concat())
        })?;
        let words = state.split_off(count);
        let sums = products.add(emitter, values, self.end - self.begin - 1, (&words, &state))?;
        Ok(products.sums_by_rows(&wait(builder, 0, &sums, &words)))
    }

    fn wait_for_columns(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>) -> Result<()> {
        self.operands(1).try_for_each(|own| own.ring.wait(emitter, step))
    }

    /// Begins the scores of all products that weights are made of.
    fn begin_scores(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>) -> Result<Vec<Vec<Value<'c>>>> {
        let pairs = self.operands(0).zip(self.operands(1));
        pairs.map(|(rows, columns)| self.products.scores(emitter, [rows, columns], step)).collect()
    }

    /// Waits for these, behind which so many products have begun that are not waited for, and gives them row by row.
    fn end_scores(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        step: Expr<'c>,
        (scores, behind): (Vec<Vec<Value<'c>>>, u32),
    ) -> Result<Vec<Vec<Value<'c>>>> {
        let later = (0..scores.len() as u32).rev();
        let ended: Vec<Vec<Value<'c>>> = scores
            .iter()
            .zip(later)
            .map(|(own, later)| self.products.scores_by_rows(&wait(emitter.builder, later + behind, own, &[])))
            .collect();
        let lane = self.products.fragments.lane;
        self.operands(1).try_for_each(|own| own.ring.release(emitter, step, lane))?;
        Ok(ended)
    }

    fn weights(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        (steps, rows): (&Steps<'_, 'c>, &[Expr<'c>]),
        step: Expr<'c>,
        scores: &[Vec<Value<'c>>],
    ) -> Result<Vec<Value<'c>>> {
        let first = (self.begin + step) * self.kernel.blocks.keys;
        steps.weights(emitter, &self.products.fragments, (rows, first), scores)
    }
}
