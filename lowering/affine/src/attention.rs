//! What an attention is to its kernels: where its elements lie in memory, and which dimensions are which.

use std::collections::HashSet;

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use indexing::{Expr, Interval, Linear, Var};
use melior::Context;
use passes::fuse::Attention;

use crate::contraction::{ContractionMaps, contraction_maps};
use crate::operand_maps::{instruction_maps, operand_shape, result_shape};
use crate::scope::Scope;
use crate::walk::{linear_address, substitute};

/// What a dimension of the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultDimension {
    /// That of the logits of a number.
    Logit(usize),
    /// The features of the values.
    Feature,
    /// One of size 1.
    Single,
}

/// A dimension of separate attentions, with the distances of its neighbours in queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchAxis {
    pub logit: usize,
    pub size: i64,
    pub strides: [i64; 3],
}

/// An attention with the distances of neighbours along its dimensions in queries, keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttentionForm {
    pub attention: Attention,
    /// The parameters that queries, keys and values are, and their types.
    pub operands: [usize; 3],
    pub operand_types: [ElementType; 3],
    /// Type of the sums of both products.
    pub element_type: ElementType,
    /// Element type of the weights that are multiplied with the values.
    pub weight_type: ElementType,
    pub batch: Vec<BatchAxis>,
    /// Sizes of the logits, and which of these dimensions goes through keys.
    pub sizes: Vec<i64>,
    pub key_dimension: usize,
    pub result: Vec<ResultDimension>,
    /// Features that scores contract, and those of the values.
    pub depth: i64,
    pub features: i64,
    /// Distances of neighbouring queries, keys, contracted features and features of the values.
    pub query: [i64; 3],
    pub key: [i64; 3],
    pub contracted: [i64; 3],
    pub feature: [i64; 3],
}

impl AttentionForm {
    /// The form of a fused computation, if it is an attention.
    pub fn of(context: &Context, body: &Computation) -> Option<Self> {
        let attention = Attention::of_body(body)?;
        let places = Places::of(context, body, &attention)?;
        let sizes = result_shape(body.get(attention.logits)).ok()?.dimensions.clone();
        let last = sizes.len() - 1;
        let [scored, valued] = [attention.scores, attention.product].map(|id| body.get(id));
        let sources = [(scored, 1 - attention.keys), (scored, attention.keys), (valued, 1 - attention.weights)];
        let type_of = |product: &Instruction, operand: usize| {
            operand_shape(body, product, operand).ok().map(|shape| shape.element_type)
        };
        let (mut operands, mut operand_types) = ([0; 3], [ElementType::Pred; 3]);
        for (number, (product, operand)) in sources.into_iter().enumerate() {
            operands[number] = body.get(product.operands[operand]).parameter_number()?;
            operand_types[number] = type_of(product, operand)?;
        }
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
        Some(AttentionForm {
            operands,
            operand_types,
            element_type: result_shape(scored).ok()?.element_type,
            weight_type: type_of(valued, attention.weights)?,
            batch,
            depth: places.feature.1,
            features: result_shape(body.get(attention.result)).ok()?.dimensions[feature],
            query: places.strides(places.logits[attention.query])?,
            key: places.strides(places.logits[last])?,
            contracted: places.strides(Some(places.feature.0))?,
            feature: places.strides(places.result[feature])?,
            attention,
            sizes,
            key_dimension: last,
            result,
        })
    }

    pub fn queries(&self) -> i64 {
        self.sizes[self.attention.query]
    }

    pub fn keys(&self) -> i64 {
        self.sizes[self.key_dimension]
    }

    /// Separate attentions.
    pub fn batches(&self) -> i64 {
        self.batch.iter().map(|axis| axis.size).product()
    }

    /// The index in the result of a feature of the row of a logit; `zero` is that of dimensions of size 1.
    pub fn result_index<'c>(&self, logit: &[Expr<'c>], feature: Expr<'c>, zero: Expr<'c>) -> Vec<Expr<'c>> {
        let dimension = |own: &ResultDimension| match own {
            ResultDimension::Logit(number) => logit[*number],
            ResultDimension::Feature => feature,
            ResultDimension::Single => zero,
        };
        self.result.iter().map(dimension).collect()
    }
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
        let trail = Trail { body, members: &attention.members, scope: &scope };
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
        strides_of(&self.scope, &self.addresses, variable)
    }
}

/// The distances of neighbours along a variable in arrays whose elements are at these addresses.
pub(crate) fn strides_of<'c>(scope: &Scope<'c>, addresses: &[Expr<'c>; 3], variable: Option<Var>) -> Option<[i64; 3]> {
    let mut strides = [0; 3];
    for (stride, &address) in strides.iter_mut().zip(addresses) {
        let sum = Linear::from_expr(address)?;
        *stride = variable.map_or(0, |own| sum.coefficient(Expr::variable(scope.context(), own)));
    }
    Some(strides)
}

/// The way from an element of an attention to those that it is made of.
pub(crate) struct Trail<'t, 'c> {
    pub body: &'t Computation,
    /// What is on the way, operands before those that read them.
    pub members: &'t [InstructionId],
    pub scope: &'t Scope<'c>,
}

impl<'c> Trail<'_, 'c> {
    /// The index at which an instruction reads another, through what moves elements or computes with them one by one.
    pub fn follow(&self, from: InstructionId, to: InstructionId, mut index: Vec<Expr<'c>>) -> Option<Vec<Expr<'c>>> {
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
        for &member in self.members {
            if self.body.get(member).operands.iter().any(|operand| leading.contains(operand)) {
                leading.insert(member);
            }
        }
        leading
    }

    /// The index of an operand of a product.
    pub fn operand(
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
