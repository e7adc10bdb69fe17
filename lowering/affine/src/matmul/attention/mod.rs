//! Attention in one kernel, whose scores stay in the cache.
//!
//! A task computes some rows of queries of one batch. It goes through the keys in blocks, of which it packs the keys and the
//! values, and for each of these through its rows in blocks: the scores of a block, what the fusion makes of them, their
//! exponentials, and the products of these with the values, which are added to sums. The exponentials are less the largest
//! logit so far: where a later block has a larger one, the sums so far are scaled down (an *online* softmax). In the end
//! the sums are divided by those of the exponentials.

mod code;

use hlo::element_type::ElementType;
use hlo::graph::Instruction;
use hlo::op_kind::OpKind;
use melior::Context;
use mlir_ext::builder::Machine;

use super::prologue::Source;
use super::{Axis, BLOCK_K, BLOCK_M, Form, MatMul, TASKS, parts};
use crate::attention::AttentionForm;

/// Bytes of the keys and the values of a block: a part of the second cache.
const BLOCK_BYTES: i64 = 1 << 18;

/// Bytes of the sums of a task.
const SUM_BYTES: i64 = 1 << 17;

/// An attention in the form that the kernel computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionKernel {
    form: AttentionForm,
    /// Queries by keys, of a block: the result is that of the block alone.
    scores: MatMul,
    /// What is made of these by values, of a task.
    product: MatMul,
    /// Whether the runtime makes weights of logits.
    weighs_in_runtime: bool,
}

/// Rows of a tile of vectors: blocks, which are the same for all instructions, are whole tiles.
fn vector_rows(queries: i64, vector_bits: u32) -> i64 {
    let most = if vector_bits >= 512 { 12 } else { 6 };
    let divides = |rows: &i64| BLOCK_M % rows == 0 && queries % rows == 0;
    (most / 2 + 1..=most).rev().find(divides).unwrap_or(most)
}

impl AttentionKernel {
    /// The kernel of a fusion, if it is an attention.
    pub(crate) fn recognise(
        context: &Context,
        instruction: &Instruction,
        vector_bits: u32,
        machine: Machine,
    ) -> Option<AttentionKernel> {
        let body = instruction.computations.first().filter(|_| instruction.kind == OpKind::Fusion)?;
        let form = AttentionForm::of(context, body)?;
        let AttentionForm { element_type, depth, features, query, key, contracted, .. } = form;
        let (queries, keys) = (form.queries(), form.keys());
        let lanes = i64::from(vector_bits / element_type.bit_width());
        let element_bytes = element_type.byte_width() as i64;
        let key_bytes = (depth + features) * element_bytes;
        // Blocks begin where a panel of the scores does.
        let pair = 2 * lanes;
        let longest_k = (BLOCK_BYTES / key_bytes / pair * pair).clamp(pair, BLOCK_K);
        let vector_rows = vector_rows(queries, vector_bits);
        let tile_vectors = |columns: i64| if columns > lanes { 2 } else { 1 };
        let axis = |size: i64, a: i64, b: i64, c: i64| Axis { size, a, b, c };
        let mut product = MatMul {
            form: Form::Tiled,
            element_type,
            operand_types: [form.weight_type, form.operand_types[2]],
            operands: [Source::Input(0), Source::Input(1)],
            output: 0,
            first: [0; 3],
            batch: Vec::new(),
            rows: Vec::new(),
            m: axis(queries, 0, 0, 0),
            n: axis(features, 0, form.feature[2], 1),
            contracted: Vec::new(),
            k: axis(keys, 1, key[2], 0),
            depth: 1,
            longest_k,
            in_matrices: false,
            in_runtime: false,
            vector_rows,
            tile_vectors: tile_vectors(features),
            lanes: lanes as u32,
        };
        let mut scores = MatMul {
            operand_types: [form.operand_types[0], form.operand_types[1]],
            m: axis(queries, query[0], 0, 0),
            n: axis(keys, 0, key[1], 1),
            k: axis(depth, contracted[0], contracted[1], 0),
            longest_k: BLOCK_K,
            tile_vectors: tile_vectors(keys),
            ..product.clone()
        };
        product.choose_instruction(machine);
        scores.choose_instruction(machine);
        let weighs_in_runtime = element_type == ElementType::F32
            && matches!(form.weight_type, ElementType::F32 | ElementType::BF16)
            && product.in_runtime;
        if weighs_in_runtime {
            // Rounded to their type, but as the product reads them.
            product.operand_types[0] = element_type;
        }
        // Rows of scores, weights and sums are no power of two apart: they would compete for places in the cache. The scores
        // and weights of a row begin one vector later: the last vector of a row may begin before them.
        let row = (parts(product.block_k() * product.depth, lanes) + 1) * lanes;
        product.m.a = row;
        product.m.c = (parts(features, lanes) + 1) * lanes;
        scores.m.c = row;
        Some(AttentionKernel { form, scores, product, weighs_in_runtime })
    }

    /// Keys of a block.
    fn block_keys(&self) -> i64 {
        self.product.block_k() * self.product.depth
    }

    /// Rows of queries of a task: as many as their sums have room, but enough tasks.
    fn task_rows(&self) -> i64 {
        let room = SUM_BYTES / (self.product.m.c * self.product.element_type.byte_width() as i64);
        let wanted = parts(TASKS, self.form.batches()).min(parts(self.form.queries(), 2 * BLOCK_M));
        let count = parts(self.form.queries(), room.max(1)).max(wanted);
        parts(parts(self.form.queries(), count), BLOCK_M) * BLOCK_M
    }

    fn row_tasks(&self) -> i64 {
        parts(self.form.queries(), self.task_rows())
    }

    /// Number of independent tasks.
    pub fn tasks(&self) -> i64 {
        self.form.batches() * self.row_tasks()
    }

    /// Lanes of its vectors.
    pub fn lanes(&self) -> u32 {
        self.scores.lanes
    }

    /// Multiplications of both products.
    pub fn cost(&self) -> i64 {
        self.form.batches().saturating_mul(self.scores.cost().saturating_add(self.product.cost()))
    }
}
