//! What is copied in boxes for attention: in shared memory, 64 features of a row are 128 bytes, and behind all rows there are the next
//! features.

use hlo::launch_plan::Boxes;
use indexing::{Expr, ceil_div};
use mlir_ext::builder::Value;

use super::super::boxes::{ParameterBoxes, have_boxes};
use super::super::rings::{BoxPlace, Ring};
use super::super::warp_groups::{STEP, chunk_at};
use super::matrices::WIDTH;
use super::{Blocks, Result};
use crate::attention::AttentionForm;
use crate::elemental::Elemental;

/// Features of a row of 128 bytes.
pub(super) const PANEL: i64 = STEP / WIDTH;

/// Slabs of keys, and of values, in shared memory.
const STAGES: i64 = 2;

/// Queries, keys or values: how they lie in memory, and in a stage.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// Which product has it, and which of the operands it is there.
    pub form: usize,
    pub number: usize,
    /// Parts of shared memory that have rows of it.
    pub stages: i64,
    /// Rows that there are, and of a stage.
    count: i64,
    rows: i64,
    pub features: i64,
    /// How far rows and features are from the next ones.
    strides: [i64; 2],
}

/// What a place in a batch adds to that of a box: features, and matrices.
type BatchStrides = [i64; 2];

impl Operand {
    /// Those of products: the operands of each, and of the first one what the weights are multiplied with, if that is asked for.
    pub fn all(forms: &[AttentionForm], blocks: &Blocks, has_values: bool) -> Vec<Self> {
        let of_products = (0..forms.len()).flat_map(|form| [(form, 0), (form, 1)]);
        let values = has_values.then_some((0, 2));
        of_products.chain(values).map(|(form, number)| Operand::of(forms, blocks, (form, number))).collect()
    }

    fn of(forms: &[AttentionForm], blocks: &Blocks, (number_of_form, number): (usize, usize)) -> Self {
        let form = &forms[number_of_form];
        let (count, rows, features, distances) = match number {
            0 => (form.queries(), blocks.queries, form.depth, [form.query, form.contracted]),
            1 => (form.keys(), blocks.keys, form.depth, [form.key, form.contracted]),
            _ => (form.keys(), blocks.keys, form.features, [form.key, form.feature]),
        };
        let stages = if number == 0 { 1 } else { STAGES };
        let strides = distances.map(|distances| distances[number]);
        Operand { form: number_of_form, number, stages, count, rows, features, strides }
    }

    /// Parts of 64 features, and bytes of one.
    pub fn panels(&self) -> i64 {
        ceil_div(self.features, PANEL)
    }

    pub fn panel_bytes(&self) -> i64 {
        self.rows * STEP
    }

    /// Bytes of a stage.
    pub fn bytes(&self) -> i64 {
        self.panels() * self.panel_bytes()
    }

    /// What each axis of the batch adds to the place of a box, and how far matrices are from each other; nothing if boxes cannot be
    /// described so.
    pub fn batch(&self, form: &AttentionForm) -> Option<(Vec<BatchStrides>, i64)> {
        let is_outside = |&stride: &i64| stride >= self.strides[0];
        let strides: Vec<i64> = form.batch.iter().map(|axis| axis.strides[self.number]).collect();
        let matrix = strides.iter().copied().filter(is_outside).min();
        let matrix = matrix.unwrap_or_else(|| self.strides[0].saturating_mul(self.count));
        let place = |&stride: &i64| match is_outside(&stride) {
            true => (stride % matrix == 0).then_some([0, stride / matrix]),
            false => (stride >= 0).then_some([stride, 0]),
        };
        Some((strides.iter().map(place).collect::<Option<_>>()?, matrix))
    }

    /// How it is copied in boxes of 64 features.
    pub fn boxes(&self, form: &AttentionForm) -> Option<ParameterBoxes> {
        if self.strides[1] != 1 || self.strides[0] <= 0 {
            return None;
        }
        let (batch, matrix) = self.batch(form)?;
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
            parameter: form.operands[self.number],
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

/// Queries, keys or values in shared memory.
pub(super) struct Slab<'c> {
    pub operand: Operand,
    pub address: Value<'c>,
    /// The first feature of the block's part of the array, and the number of its matrix.
    pub first: [Expr<'c>; 2],
    pub description: Value<'c>,
    pub ring: Ring<'c>,
}

impl<'c> Slab<'c> {
    /// Has the rows of a step copied, from one on.
    pub fn ask(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>, row: Expr<'c>) -> Result<()> {
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
    pub fn chunk(&self, emitter: &Elemental<'_, 'c>, step: Expr<'c>, row: Expr<'c>) -> Result<Value<'c>> {
        let stage = self.ring.stage(emitter, step);
        chunk_at(emitter, self.address, stage * self.operand.bytes() + row * STEP)
    }
}
