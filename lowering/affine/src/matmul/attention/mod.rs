//! Attention in one kernel, whose scores stay in the cache.
//!
//! A task computes some rows of queries of one batch. It goes through the keys in blocks, of which it packs the keys and the
//! values, and for each of these through its rows in blocks: the scores of a block, what the fusion makes of them, their
//! exponentials, and the products of these with the values, which are added to sums. The exponentials are less the largest
//! logit so far: where a later block has a larger one, the sums so far are scaled down (an *online* softmax). In the end
//! the sums are divided by those of the exponentials.

mod code;

use std::collections::HashSet;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use indexing::{Expr, Interval, Linear, Var};
use melior::Context;
use mlir_ext::builder::Machine;
use passes::fuse::Attention;

use super::prologue::Source;
use super::{Axis, BLOCK_K, BLOCK_M, Form, MatMul, TASKS, parts};
use crate::contraction::{ContractionMaps, contraction_maps};
use crate::operand_maps::{instruction_maps, operand_shape, result_shape};
use crate::scope::Scope;
use crate::walk::{linear_address, substitute};

/// Bytes of the keys and the values of a block: a part of the second cache.
const BLOCK_BYTES: i64 = 1 << 18;

/// Bytes of the sums of a task.
const SUM_BYTES: i64 = 1 << 17;

/// What a dimension of the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultDimension {
    /// That of the logits of a number.
    Logit(usize),
    /// The features of the values.
    Feature,
    /// One of size 1.
    Single,
}

/// A dimension of separate attentions, with the distances of its neighbours in queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BatchAxis {
    logit: usize,
    size: i64,
    strides: [i64; 3],
}

/// An attention in the form that the kernel computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionKernel {
    attention: Attention,
    /// The parameters that queries, keys and values are.
    operands: [usize; 3],
    batch: Vec<BatchAxis>,
    /// Sizes of the logits.
    sizes: Vec<i64>,
    result: Vec<ResultDimension>,
    /// Queries by keys, of a block: the result is that of the block alone.
    scores: MatMul,
    /// What is made of these by values, of a task.
    product: MatMul,
    /// Element type of the weights that are multiplied with the values.
    weight_type: ElementType,
}

/// Where each element of the operands of an attention is, as the variables of the result and of the keys tell.
struct Places<'c> {
    scope: Scope<'c>,
    /// The addresses of query, key and value.
    addresses: [Expr<'c>; 3],
    /// For each dimension of the logits its variable; none of size 1.
    logits: Vec<Option<Var>>,
    /// For each dimension of the result its variable.
    result: Vec<Option<Var>>,
    /// The features that scores contract, and their number.
    feature: (Var, i64),
}

impl<'c> Places<'c> {
    fn of(context: &'c Context, body: &Computation, attention: &Attention) -> Option<Self> {
        let mut scope = Scope::new(context);
        let result = result_shape(body.get(attention.result)).ok()?;
        let [scored, valued] = [attention.scores, attention.product].map(|id| body.get(id));
        let [scores, product] = [scored, valued].map(|product| contraction_maps(context, body, product).ok());
        let (scores, product) = (scores?, product?);
        let [stored, keys, features] = [&result.dimensions, &product.ranges, &scores.ranges].map(|sizes| {
            let mut variable = |&size: &i64| match size {
                1 => scope.constant(0),
                size => scope.add_traced(Interval::of_size(size)),
            };
            sizes.iter().map(&mut variable).collect::<Vec<Expr<'c>>>()
        });
        let variables = |index: &[Expr<'c>]| index.iter().map(|own| own.as_variable()).collect();
        let result = variables(&stored);
        let trail = Trail { body, attention, scope: &scope };
        let of_product = trail.follow(attention.result, attention.product, stored)?;
        let weight = trail.operand(&product, attention.weights, &of_product, &keys);
        let logit = trail.follow(valued.operands[attention.weights], attention.quotient, weight)?;
        let logits: Vec<Option<Var>> = variables(&logit);
        let sizes = &result_shape(body.get(attention.logits)).ok()?.dimensions;
        if logits.iter().zip(sizes).any(|(own, &size)| own.is_none() && size != 1) {
            return None;
        }
        let of_scores = trail.follow(attention.logits, attention.scores, logit)?;
        let address = |contraction: &Instruction, maps, operand, index: &[Expr<'c>], ranges: &[Expr<'c>]| {
            let index = trail.operand(maps, operand, index, ranges);
            let shape = operand_shape(body, contraction, operand).ok()?;
            Some(scope.simplify(linear_address(context, &shape.dimensions, &index)))
        };
        let addresses = [
            address(scored, &scores, 1 - attention.keys, &of_scores, &features)?,
            address(scored, &scores, attention.keys, &of_scores, &features)?,
            address(valued, &product, 1 - attention.weights, &of_product, &keys)?,
        ];
        let (number, &size) = scores.ranges.iter().enumerate().find(|(_, size)| **size != 1)?;
        let feature = (features[number].as_variable()?, size);
        Some(Places { scope, addresses, logits, result, feature })
    }

    /// The distances of neighbours along a variable in queries, keys and values.
    fn strides(&self, variable: Option<Var>) -> Option<[i64; 3]> {
        let mut strides = [0; 3];
        for (stride, address) in strides.iter_mut().zip(self.addresses) {
            let sum = Linear::from_expr(address)?;
            *stride = variable.map_or(0, |own| sum.coefficient(Expr::variable(self.scope.context(), own)));
        }
        Some(strides)
    }
}

/// The way from an element of an attention to those that it is made of.
struct Trail<'t, 'c> {
    body: &'t Computation,
    attention: &'t Attention,
    scope: &'t Scope<'c>,
}

impl<'c> Trail<'_, 'c> {
    /// The index at which an instruction reads another, through what moves elements or computes with them one by one.
    fn follow(&self, from: InstructionId, to: InstructionId, mut index: Vec<Expr<'c>>) -> Option<Vec<Expr<'c>>> {
        let leading = self.leading_to(to);
        let mut id = from;
        while id != to {
            let instruction = self.body.get(id);
            let number = instruction.operands.iter().position(|operand| leading.contains(operand))?;
            let map = instruction_maps(self.scope.context(), self.body, instruction).operand_map(number)?;
            let results = map.results().iter();
            index = results.map(|&own| self.scope.simplify(substitute(own, &index, &[], &[]))).collect();
            id = instruction.operands[number];
        }
        Some(index)
    }

    /// The members that are made of one, and itself.
    fn leading_to(&self, to: InstructionId) -> HashSet<InstructionId> {
        let mut leading = HashSet::from([to]);
        // Operands come before those that read them.
        for &member in &self.attention.members {
            if self.body.get(member).operands.iter().any(|operand| leading.contains(operand)) {
                leading.insert(member);
            }
        }
        leading
    }

    /// The index of an operand of a product.
    fn operand(
        &self,
        maps: &ContractionMaps<'c>,
        operand: usize,
        index: &[Expr<'c>],
        ranges: &[Expr<'c>],
    ) -> Vec<Expr<'c>> {
        let results = maps.of_operand(operand).0.iter();
        results.map(|&own| self.scope.simplify(substitute(own, index, ranges, &[]))).collect()
    }
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
        let attention = Attention::of_body(body)?;
        let places = Places::of(context, body, &attention)?;
        let sizes = result_shape(body.get(attention.logits)).ok()?.dimensions.clone();
        let last = sizes.len() - 1;
        let [scored, valued] = [attention.scores, attention.product].map(|id| body.get(id));
        let parameter = |product: &Instruction, operand: usize| body.get(product.operands[operand]).parameter_number();
        let operands = [
            parameter(scored, 1 - attention.keys)?,
            parameter(scored, attention.keys)?,
            parameter(valued, 1 - attention.weights)?,
        ];
        let element_type = result_shape(scored).ok()?.element_type;
        let type_of = |product: &Instruction, operand: usize| {
            operand_shape(body, product, operand).ok().map(|shape| shape.element_type)
        };
        let weight_type = type_of(valued, attention.weights)?;
        let mut batch = Vec::new();
        for (logit, &size) in sizes.iter().enumerate() {
            if size != 1 && logit != last && logit != attention.query {
                batch.push(BatchAxis { logit, size, strides: places.strides(places.logits[logit])? });
            }
        }
        let place = |variable: &Option<Var>| match variable {
            None => ResultDimension::Single,
            own => match places.logits.iter().position(|logit| logit == own) {
                Some(logit) => ResultDimension::Logit(logit),
                None => ResultDimension::Feature,
            },
        };
        let result: Vec<ResultDimension> = places.result.iter().map(place).collect();
        let feature = result.iter().position(|own| *own == ResultDimension::Feature)?;
        let features = result_shape(body.get(attention.result)).ok()?.dimensions[feature];
        let query = places.strides(places.logits[attention.query])?;
        let key = places.strides(places.logits[last])?;
        let contracted = places.strides(Some(places.feature.0))?;
        let lanes = i64::from(vector_bits / element_type.bit_width());
        let element_bytes = element_type.byte_width() as i64;
        let key_bytes = (places.feature.1 + features) * element_bytes;
        // Blocks begin where a panel of the scores does.
        let pair = 2 * lanes;
        let longest_k = (BLOCK_BYTES / key_bytes / pair * pair).clamp(pair, BLOCK_K);
        let vector_rows = vector_rows(sizes[attention.query], vector_bits);
        let tile_vectors = |columns: i64| if columns > lanes { 2 } else { 1 };
        let axis = |size: i64, a: i64, b: i64, c: i64| Axis { size, a, b, c };
        let mut product = MatMul {
            form: Form::Tiled,
            element_type,
            operand_types: [weight_type, type_of(valued, 1 - attention.weights)?],
            operands: [Source::Input(0), Source::Input(1)],
            output: 0,
            first: [0; 3],
            batch: Vec::new(),
            rows: Vec::new(),
            m: axis(sizes[attention.query], 0, 0, 0),
            n: axis(features, 0, places.strides(places.result[feature])?[2], 1),
            contracted: Vec::new(),
            k: axis(sizes[last], 1, key[2], 0),
            depth: 1,
            longest_k,
            in_matrices: false,
            vector_rows,
            tile_vectors: tile_vectors(features),
            lanes: lanes as u32,
        };
        let mut scores = MatMul {
            operand_types: [type_of(scored, 1 - attention.keys)?, type_of(scored, attention.keys)?],
            m: axis(sizes[attention.query], query[0], 0, 0),
            n: axis(sizes[last], 0, key[1], 1),
            k: axis(places.feature.1, contracted[0], contracted[1], 0),
            longest_k: BLOCK_K,
            tile_vectors: tile_vectors(sizes[last]),
            ..product.clone()
        };
        product.choose_instruction(machine);
        scores.choose_instruction(machine);
        // Rows of scores, weights and sums are no power of two apart: they would compete for places in the cache. The scores
        // and weights of a row begin one vector later: the last vector of a row may begin before them.
        let row = (parts(product.block_k() * product.depth, lanes) + 1) * lanes;
        product.m.a = row;
        product.m.c = (parts(features, lanes) + 1) * lanes;
        scores.m.c = row;
        Some(AttentionKernel { attention, operands, batch, sizes, result, scores, product, weight_type })
    }

    fn queries(&self) -> i64 {
        self.sizes[self.attention.query]
    }

    fn key_count(&self) -> i64 {
        self.scores.n.size
    }

    fn batches(&self) -> i64 {
        self.batch.iter().map(|axis| axis.size).product()
    }

    /// Keys of a block.
    fn block_keys(&self) -> i64 {
        self.product.block_k() * self.product.depth
    }

    /// Rows of queries of a task: as many as their sums have room, but enough tasks.
    fn task_rows(&self) -> i64 {
        let room = SUM_BYTES / (self.product.m.c * self.product.element_type.byte_width() as i64);
        let wanted = parts(TASKS, self.batches()).min(parts(self.queries(), 2 * BLOCK_M));
        let count = parts(self.queries(), room.max(1)).max(wanted);
        parts(parts(self.queries(), count), BLOCK_M) * BLOCK_M
    }

    fn row_tasks(&self) -> i64 {
        parts(self.queries(), self.task_rows())
    }

    /// Number of independent tasks.
    pub fn tasks(&self) -> i64 {
        self.batches() * self.row_tasks()
    }

    /// Lanes of its vectors.
    pub fn lanes(&self) -> u32 {
        self.scores.lanes
    }

    /// Multiplications of both products.
    pub fn cost(&self) -> i64 {
        self.batches().saturating_mul(self.scores.cost().saturating_add(self.product.cost()))
    }
}
