//! Chains of products by blocks of a GPU's threads: as an attention, but what becomes of scores is what the fusion says, all at once:
//! they are multiplied with values, or combined along their row. A block brings the columns of both products that the weights are made
//! of, and then the values.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, InstructionId};
use hlo::mapping::WorkMapping;
use hlo::op_kind::OpKind;
use hlo::ops::dot::DotAttributes;
use hlo::ops::enumerations::DotAlgorithm;
use indexing::{Expr, Interval, ceil_div};
use melior::Context;
use mlir_ext::builder::{Body, OpBuilder, Value};

use super::super::tensor_types::{TensorOperands, TensorType};
use super::super::where_inside;
use super::matrices::{self, Matrices};
use super::multiply_adds::{self, MultiplyAdds};
use super::slabs::{self, Slab};
use super::softmax::{Kernel, larger, side_by_side};
use super::{
    BUSY_BLOCKS, Blocks, FEW_FEATURES, MOST_SHARED, MOST_SUMS, Place, Products, Result, SHAPES, Shares, TENSOR_THREADS,
    THREADS, meet,
};
use crate::chain::ChainForm;
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::mapping::invalid;
use crate::memory::ArrayRef;
use crate::scalar::approximate::Digits;
use crate::scalar::{self, RegisterValue};
use crate::scope::Binding;
use crate::team::exchange;
use crate::walk::Visitor;

/// Rows of a block, and columns of a slab, that matrix instructions multiply; columns where rows are long.
const ROWS: i64 = 64;
const COLUMNS: i64 = 64;
const FEW_COLUMNS: i64 = 32;

/// The blocks of a chain; nothing if it does not fit into the memory of one.
fn blocks_of(computation: &Computation, chain: &ChainForm) -> Option<Blocks> {
    let form = &chain.forms[0];
    let most = chain.forms.iter().map(|form| form.depth).fold(form.features, i64::max);
    if let Some(tensors) = tensors_of(computation, chain) {
        let keys = if most <= FEW_FEATURES { COLUMNS } else { FEW_COLUMNS };
        return Some(Blocks { queries: ROWS, keys, threads: TENSOR_THREADS, tensors: Some(tensors) });
    }
    let is_busy = |queries: i64| form.batches() * ceil_div(form.queries(), queries) >= BUSY_BLOCKS;
    let shapes = SHAPES.map(|[queries, keys]| Blocks { queries, keys, threads: THREADS, tensors: None });
    let fits = |own: &&Blocks| {
        let shared: i64 = chain.forms.iter().map(|form| multiply_adds::shared_bytes(own, form)).sum();
        let sums = own.queries * multiply_adds::columns_of(form.features) / THREADS;
        shared <= MOST_SHARED && sums <= MOST_SUMS / 2
    };
    shapes.iter().filter(fits).find(|own| own.queries <= ROWS / 2 || is_busy(own.queries)).copied()
}

/// What matrix instructions multiply in all products of a chain: one type of 16 bits, to which weights are rounded, or may be.
pub(super) fn tensors_of(computation: &Computation, chain: &ChainForm) -> Option<TensorType> {
    let form = &chain.forms[0];
    let (tensors, algorithm) = match form.operand_types[0] {
        ElementType::BF16 => (TensorType::Bf16, DotAlgorithm::Bf16Bf16F32),
        ElementType::F16 => (TensorType::F16, DotAlgorithm::F16F16F32),
        _ => return None,
    };
    let is_one = |own: &ElementType| *own == tensors.element_type();
    let are_one = chain.forms.iter().all(|form| form.operand_types.iter().all(is_one));
    let is_rounded = || {
        let end: DotAttributes<'_> = computation.get(chain.chain.end).attributes().ok()?;
        Some(end.algorithm == Some(algorithm))
    };
    let are_weights = chain.reduction.is_some() || is_one(&form.weight_type) || is_rounded() == Some(true);
    (are_one && are_weights).then_some(tensors)
}

/// The mapping of a fused computation that is a chain.
pub(super) fn mapping<'c>(context: &'c Context, computation: &Computation) -> Option<WorkMapping<'c>> {
    let chain = ChainForm::of(context, computation)?;
    Some(blocks_of(computation, &chain)?.mapping(context, &chain.forms[0]))
}

/// The threads of a block of a chain, and the blocks of a multiprocessor that its registers must suffice for.
pub(super) fn limits(context: &Context, computation: &Computation) -> Option<[i64; 2]> {
    let chain = ChainForm::of(context, computation)?;
    let blocks = blocks_of(computation, &chain)?;
    Some([blocks.threads, 2])
}

/// Emits a chain.
pub(super) fn emit<'a, 'c>(
    emitter: &mut Elemental<'a, 'c>,
    mapping: &WorkMapping<'c>,
    outputs: &[ArrayRef<'c>],
    function: &Body<'c>,
) -> Result<()> {
    let context = emitter.scope.context();
    let chain = ChainForm::of(context, emitter.computation);
    let blocks = chain.as_ref().and_then(|chain| blocks_of(emitter.computation, chain));
    let (Some(chain), Some(blocks), [output]) = (chain, blocks, outputs) else {
        return Err(invalid("the mapping of an attention is on another fusion".into()));
    };
    let form = &chain.forms[0];
    if blocks.mapping(context, form) != *mapping {
        return Err(invalid("a chain of products has another mapping than its own".into()));
    }
    let Place { places, tile, thread } = Place::of(emitter, form, &blocks, blocks.threads)?;
    let first = tile * blocks.queries;
    let layout = match blocks.tensors {
        Some(tensors) => matrices::layout(tensors),
        None => multiply_adds::layout(form.element_type),
    };
    let mut slabs = Vec::with_capacity(chain.forms.len());
    for (number, form) in chain.forms.iter().enumerate() {
        // The first one has the values too.
        let count = if number == 0 && chain.reduction.is_none() { 3 } else { 2 };
        let mut own = Vec::with_capacity(count);
        for operand in 0..count {
            let offset = form.batch.iter().zip(&places).map(|(axis, &place)| place * axis.strides[operand]);
            let base = offset.fold(emitter.scope.constant(0), |sum, offset| sum + offset);
            own.push(Slab::new(emitter, (form, operand, base), &blocks, (layout, thread), function)?);
        }
        slabs.push(own);
    }
    let kernel = Kernel { form, blocks, places: &places, first };
    let steps = Steps { kernel: &kernel, chain: &chain };
    let forms = chain.forms.iter().zip(&slabs);
    match blocks.tensors {
        Some(tensors) => {
            let operands = TensorOperands([tensors; 2]);
            let mut products = Vec::with_capacity(slabs.len());
            for (form, slabs) in forms {
                products.push(Matrices::new(emitter, form, &blocks, operands, slabs, thread)?);
            }
            let products: Vec<&dyn Products<'c>> = products.iter().map(|own| own as _).collect();
            steps.emit(emitter, (&products, &slabs), output)
        }
        None => {
            let mut products = Vec::with_capacity(slabs.len());
            for (form, slabs) in forms {
                products.push(MultiplyAdds::new(emitter, form, &blocks, slabs, thread, function)?);
            }
            let products: Vec<&dyn Products<'c>> = products.iter().map(|own| own as _).collect();
            steps.emit(emitter, (&products, &slabs), output)
        }
    }
}

/// The steps of a block.
pub(super) struct Steps<'s, 'c> {
    pub kernel: &'s Kernel<'s, 'c>,
    pub chain: &'s ChainForm,
}

impl<'c> Steps<'_, 'c> {
    fn emit<'a>(
        &self,
        emitter: &mut Elemental<'a, 'c>,
        // Rows and columns of each product of the weights, and of the first one the values.
        (products, slabs): (&[&dyn Products<'c>], &[Vec<Slab<'c>>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let (builder, shares) = (emitter.builder, products[0].shares());
        let rows = self.kernel.queries(emitter, shares)?;
        let start = self.start(builder, shares);
        let [begin, end] = self.kernel.slabs_of_chain(emitter, self.chain)?;
        let values = slabs[0].get(2);
        for own in slabs {
            own[0].begin(emitter, self.kernel.first)?;
            own[1].begin(emitter, begin * self.kernel.blocks.keys)?;
        }
        let steps = Interval::of_size(emitter.scope.range(end).upper);
        let is_whole = begin.as_constant().is_some() && end.as_constant().is_some();
        let state =
            emitter.loop_in(steps, (!is_whole).then_some((begin, end)), start, &mut |emitter, step, state| {
                let first = step * self.kernel.blocks.keys;
                meet(emitter);
                if let Some(values) = values {
                    values.begin(emitter, first)?;
                }
                let mut scores = Vec::with_capacity(products.len());
                for own in products {
                    scores.push(own.scores(emitter)?);
                }
                let weights = self.weights(emitter, shares, (&rows, first), &scores)?;
                if values.is_some() {
                    products[0].keep(emitter, &weights)?;
                }
                meet(emitter);
                // In the last step nobody needs what comes: it is the last slab again.
                let next = emitter.scope.emit_min(builder, &[step + 1, end - 1])?;
                let next = emitter.scope.add_variable(steps, Binding::Index(next));
                for own in slabs {
                    own[1].begin(emitter, next * self.kernel.blocks.keys)?;
                }
                match self.chain.reduction {
                    None => products[0].add(emitter, &weights, state),
                    Some(kind) => Ok(combined(builder, kind, &weights, state)),
                }
            })?;
        slabs::wait(builder);
        self.finish(emitter, shares, (state, &rows), output)
    }

    /// Stores a thread's sums, or what its weights were combined to.
    pub fn finish(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        (state, rows): (Vec<Value<'c>>, &[Expr<'c>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        match self.chain.reduction {
            None => self.kernel.store_rows(emitter, shares, (&state, rows), output),
            Some(kind) => self.finish_rows(emitter, shares, kind, (state, rows), output),
        }
    }

    /// The digits that weights need: products of 16 bits have no more, and of a row the sum has not.
    fn digits(&self) -> Digits {
        match (self.kernel.blocks.tensors, self.chain.reduction) {
            (Some(_), None) => Digits::Few,
            (Some(_), Some(_)) => Digits::Most,
            (None, _) => Digits::All,
        }
    }

    /// What a thread's rows are before the first column: sums of values, or of weights.
    pub fn start(&self, builder: &OpBuilder<'c>, shares: &dyn Shares<'c>) -> Vec<Value<'c>> {
        let element = scalar::register_type(builder, self.kernel.form.element_type, None);
        let rows = shares.rows().len();
        let (features, neighbours) = shares.features();
        match self.chain.reduction {
            Some(kind) => vec![builder.constant_float(element, nothing(kind)); rows],
            None => vec![builder.constant_float(element, 0.0); rows * features.len() * neighbours as usize],
        }
    }

    /// The weights of a slab, which begins with a column, by its scores.
    pub fn weights(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        place: (&[Expr<'c>], Expr<'c>),
        scores: &[Vec<Value<'c>>],
    ) -> Result<Vec<Value<'c>>> {
        emitter.digits = self.digits();
        let weights = emitter.nested(|emitter| self.emit_weights(emitter, shares, place, scores));
        emitter.digits = Digits::All;
        weights
    }

    fn emit_weights(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        (rows, first): (&[Expr<'c>], Expr<'c>),
        scores: &[Vec<Value<'c>>],
    ) -> Result<Vec<Value<'c>>> {
        let builder = emitter.builder;
        let element_type = self.kernel.form.element_type;
        let columns = self.kernel.keys(emitter, shares, first)?;
        let absent = self.chain.reduction.map_or(0.0, nothing);
        let id = self.unrounded(emitter.computation);
        let mut weights = Vec::with_capacity(rows.len() * columns.len());
        for &row in rows {
            let mut index = self.kernel.row_index(emitter, row);
            for &(column, is_there) in &columns {
                index[self.kernel.form.key_dimension] = column;
                for (own, scores) in self.chain.chain.scores.iter().zip(scores) {
                    let score = RegisterValue::real(builder, element_type, scores[weights.len()]);
                    emitter.combined.insert(own.product, score);
                }
                let weight = emitter.evaluate(id, &index)?;
                let weight = scalar::convert::convert(builder, &weight, element_type);
                let weight = weight.ok_or_else(|| LoweringError::bug("weights of another class"))?.value;
                let absent = builder.float_like(weight, absent);
                weights.push(is_there.map_or(weight, |is_there| builder.select(is_there, weight, absent)));
            }
        }
        Ok(weights)
    }

    /// What the weights are before they are rounded to the type that matrix instructions take: words of these are made of them anyway.
    fn unrounded(&self, computation: &Computation) -> InstructionId {
        let id = self.chain.chain.weights;
        let type_of = |id| computation.get(id).shape.as_array().map(|shape| shape.element_type);
        let tensors = self.kernel.blocks.tensors.filter(|_| self.chain.reduction.is_none());
        match (tensors, computation.get(id).kind, computation.get(id).operands.first()) {
            (Some(tensors), OpKind::Convert, Some(&operand))
                if type_of(id) == Some(tensors.element_type()) && type_of(operand) == Some(ElementType::F32) =>
            {
                operand
            }
            _ => id,
        }
    }

    /// Combines what the threads of a row have, of which one stores it.
    fn finish_rows(
        &self,
        emitter: &mut Elemental<'_, 'c>,
        shares: &dyn Shares<'c>,
        kind: OpKind,
        (state, rows): (Vec<Value<'c>>, &[Expr<'c>]),
        output: &ArrayRef<'c>,
    ) -> Result<()> {
        let builder = emitter.builder;
        let zero = emitter.scope.constant(0);
        let own = shares.keys().first().copied().unwrap_or(zero);
        for ((own_row, &row), value) in shares.rows().into_iter().zip(rows).zip(state) {
            let distances = shares.distances().iter();
            let value = distances
                .fold(value, |value, &distance| combine(builder, kind, value, exchange(builder, value, distance)));
            let value = RegisterValue::real(builder, self.kernel.form.element_type, value);
            let place = emitter.scope.simplify(self.kernel.first + own_row);
            where_inside(emitter, [place, own], [self.kernel.form.queries(), 1], |emitter| {
                self.kernel.store(emitter, (row, zero), &[value], output)
            })?;
        }
        Ok(())
    }
}

/// What the weights of rows, and what was combined before, are combined to.
pub(super) fn combined<'c>(
    builder: &OpBuilder<'c>,
    kind: OpKind,
    weights: &[Value<'c>],
    before: Vec<Value<'c>>,
) -> Vec<Value<'c>> {
    let of_row = weights.chunks(weights.len() / before.len());
    let combined = of_row.zip(before).map(|(weights, before)| {
        let own = side_by_side(weights, |a, b| combine(builder, kind, a, b));
        own.map_or(before, |own| combine(builder, kind, before, own))
    });
    combined.collect()
}

/// What changes nothing in combinations.
fn nothing(kind: OpKind) -> f64 {
    if kind == OpKind::Maximum { f64::NEG_INFINITY } else { 0.0 }
}

fn combine<'c>(builder: &OpBuilder<'c>, kind: OpKind, a: Value<'c>, b: Value<'c>) -> Value<'c> {
    if kind == OpKind::Maximum { larger(builder, a, b) } else { builder.addf(a, b) }
}
