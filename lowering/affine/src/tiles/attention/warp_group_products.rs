//! The products of two groups of four warps, each of 64 rows, with slabs that were copied in boxes.

use hlo::element_type::ElementType;
use indexing::{Expr, ceil_div};
use mlir_ext::builder::{OpBuilder, Value};
use mlir_ext::gpu::{self, WarpGroupProduct};

use super::super::chunks::CHUNK;
use super::super::tensor_cores::EIGHT;
use super::super::tensor_types::TensorType;
use super::super::warp_groups::{self, DEPTH, ROWS, STEP, descriptor, wait_for_products};
use super::Result;
use super::box_slabs::{PANEL, Slab};
use super::matrices::{Fragments, WIDTH, places};
use crate::elemental::Elemental;

/// Contracted positions of an instruction.
const POSITIONS: i64 = DEPTH / WIDTH;

/// What the thread has of its group's products.
pub(super) struct GroupProducts<'c> {
    pub tensors: TensorType,
    /// Which of the groups the thread is of.
    pub group: Expr<'c>,
    pub fragments: Fragments<'c>,
}

impl<'c> GroupProducts<'c> {
    /// Begins the scores of a slab of columns, which a ring's step has.
    pub fn scores(
        &self,
        emitter: &Elemental<'_, 'c>,
        [rows, columns]: [&Slab<'c>; 2],
        step: Expr<'c>,
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let zero = emitter.scope.constant(0);
        let firsts = [rows.chunk(emitter, zero, self.group * ROWS)?, columns.chunk(emitter, step, zero)?];
        let mut operands = Vec::new();
        for part in 0..ceil_div(rows.operand.features, POSITIONS) {
            let of_panel = PANEL / POSITIONS;
            for (slab, &first) in [rows, columns].into_iter().zip(&firsts) {
                let panel = part / of_panel * slab.operand.panel_bytes() + part % of_panel * DEPTH;
                operands.push(descriptor(builder, first, panel / CHUNK, 1));
            }
        }
        let product = self.product((self.fragments.keys * EIGHT, [false, false]), operands.len() / 2);
        let product = WarpGroupProduct { is_first: true, ..product };
        let count = self.fragments.keys * 4;
        let scores = warp_groups::call(builder, &product.symbol(), &operands, (ElementType::F32, count as usize));
        Ok(scores)
    }

    /// Begins to add the values of a slab, which a ring's step has, to sums by weights.
    pub fn add(
        &self,
        emitter: &Elemental<'_, 'c>,
        values: &Slab<'c>,
        step: Expr<'c>,
        (words, sums): (&[Value<'c>], &[Value<'c>]),
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let first = values.chunk(emitter, step, emitter.scope.constant(0))?;
        let mut operands = Vec::new();
        for (part, words) in (0..).zip(words.chunks(gpu::LEFT_WORDS)) {
            operands.extend(words);
            let distance = part * POSITIONS * STEP / CHUNK;
            operands.push(descriptor(builder, first, distance, values.operand.panel_bytes() / CHUNK));
        }
        let product = self.product((self.fragments.features * EIGHT, [false, true]), words.len() / gpu::LEFT_WORDS);
        operands.extend(as_instructions(self.fragments.features, sums));
        let product = WarpGroupProduct { is_left_in_registers: true, ..product };
        Ok(warp_groups::call(builder, &product.symbol(), &operands, (ElementType::F32, sums.len())))
    }

    /// The instruction for so many columns, of operands that lie so.
    fn product(&self, (columns, across): (i64, [bool; 2]), parts: usize) -> WarpGroupProduct {
        let name = self.tensors.name();
        WarpGroupProduct {
            variant: format!("m{ROWS}n{columns}k{POSITIONS}.f32.{name}.{name}"),
            parts,
            across: Some(across),
            is_pending: true,
            ..WarpGroupProduct::default()
        }
    }

    /// A thread's words of weights.
    pub fn words(&self, builder: &OpBuilder<'c>, weights: &[Value<'c>]) -> Vec<Value<'c>> {
        let of_step = |step| self.fragments.weights(builder, self.tensors, weights, (0, step));
        (0..self.fragments.keys / 2).flat_map(of_step).collect()
    }

    /// How many words of weights a thread has.
    pub fn weight_words(&self) -> usize {
        self.fragments.keys as usize / 2 * gpu::LEFT_WORDS
    }

    /// Scores of a product that has ended, row by row.
    pub fn scores_by_rows(&self, scores: &[Value<'c>]) -> Vec<Value<'c>> {
        by_rows(self.fragments.keys, scores)
    }

    /// Sums of a product that has ended, row by row.
    pub fn sums_by_rows(&self, sums: &[Value<'c>]) -> Vec<Value<'c>> {
        by_rows(self.fragments.features, sums)
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

/// As [`wait_for_products`], of the sums of these.
pub(super) fn wait<'c>(
    builder: &OpBuilder<'c>,
    pending: u32,
    sums: &[Value<'c>],
    words: &[Value<'c>],
) -> Vec<Value<'c>> {
    wait_for_products(builder, pending, (sums, ElementType::F32), words)
}
