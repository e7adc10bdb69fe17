//! What a chain of products is to its kernels: each of the products that its weights are made of is to them what the first product of
//! an attention is, and the product that it ends in the second one.

use hlo::element_type::ElementType;
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::op_kind::OpKind;
use indexing::{Expr, Interval, Var};
use melior::Context;
use passes::fuse::{Attention, Chain};

use crate::attention::{AttentionForm, BatchAxis, ResultDimension, Trail, strides_of};
use crate::contraction::contraction_maps;
use crate::operand_maps::{operand_shape, result_shape};
use crate::scope::Scope;
use crate::walk::linear_address;

/// A chain with the distances of neighbours along its dimensions in what it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainForm {
    pub chain: Chain,
    /// For each of the products that weights are made of an attention: rows are queries, columns keys, and the other operand of the last
    /// product values. Without a last product there are none, and no features.
    pub forms: Vec<AttentionForm>,
    /// The operation that combines the weights of a row, if no product does.
    pub reduction: Option<OpKind>,
}

impl ChainForm {
    /// The form of a fused computation, if it is a chain.
    pub fn of<'c>(context: &'c Context, body: &Computation) -> Option<Self> {
        let chain = Chain::of_body(body)?;
        let mut scope = Scope::new(context);
        let [result, weights, end] = [chain.result, chain.weights, chain.end].map(|id| body.get(id));
        let stored = traced(&mut scope, &result_shape(result).ok()?.dimensions);
        let (reduction, last) = match end.kind {
            OpKind::Reduce => (Some(end.computations.first()?.root().kind), None),
            _ => (None, Some(contraction_maps(context, body, end).ok()?)),
        };
        let sizes = result_shape(weights).ok()?.dimensions.clone();
        let columns = match &last {
            Some(maps) => traced(&mut scope, &maps.ranges),
            None => traced(&mut scope, &[sizes[chain.column]]),
        };
        let mut products = Vec::with_capacity(chain.scores.len());
        for scores in &chain.scores {
            let maps = contraction_maps(context, body, body.get(scores.product)).ok()?;
            let features = traced(&mut scope, &maps.ranges);
            products.push((scores, maps, features));
        }
        let scope = &scope;
        let trail = Trail { body, members: &chain.members, scope };
        let of_end = trail.follow(chain.result, chain.end, stored.clone())?;
        let address = |product: &Instruction, operand: usize, index: &[Expr<'c>]| {
            let shape = operand_shape(body, product, operand).ok()?;
            Some(scope.simplify(linear_address(context, &shape.dimensions, index)))
        };
        let (weight, values) = match &last {
            Some(maps) => {
                let other = trail.operand(maps, 1 - chain.operand, &of_end, &columns);
                let weight = trail.operand(maps, chain.operand, &of_end, &columns);
                (weight, Some(address(end, 1 - chain.operand, &other)?))
            }
            None => {
                let mut weight = of_end;
                weight.insert(chain.column, columns[0]);
                (weight, None)
            }
        };
        let logits: Vec<Option<Var>> = weight.iter().map(|own| own.as_variable()).collect();
        let dimension = |own: &Expr<'_>| match own.as_variable() {
            None => ResultDimension::Single,
            own => match logits.iter().position(|logit| *logit == own) {
                Some(logit) => ResultDimension::Logit(logit),
                None => ResultDimension::Feature,
            },
        };
        let stored_dimensions: Vec<ResultDimension> = stored.iter().map(dimension).collect();
        let feature = stored_dimensions.iter().position(|own| *own == ResultDimension::Feature);
        if logits.iter().zip(&sizes).any(|(own, &size)| own.is_none() && size != 1)
            || feature.is_some() != last.is_some()
        {
            return None;
        }
        let type_of = |product: &Instruction, operand: usize| {
            operand_shape(body, product, operand).ok().map(|shape| shape.element_type)
        };
        let parameter =
            |product: &Instruction, operand: usize| body.get(*product.operands.get(operand)?).parameter_number();
        let (value_operand, value_type) = match last {
            Some(_) => (parameter(end, 1 - chain.operand)?, type_of(end, 1 - chain.operand)?),
            None => (0, type_of(body.get(chain.scores[0].product), 0)?),
        };
        let mut forms = Vec::with_capacity(products.len());
        for (scores, maps, features) in products {
            let product = body.get(scores.product);
            let of_scores = trail.follow(chain.weights, scores.product, weight.clone())?;
            let operand =
                |number: usize| address(product, number, &trail.operand(&maps, number, &of_scores, &features));
            let addresses = [operand(1 - scores.columns)?, operand(scores.columns)?];
            let addresses = [addresses[0], addresses[1], values.unwrap_or_else(|| scope.constant(0))];
            let strides = |variable: Option<Var>| strides_of(scope, &addresses, variable);
            let (number, &depth) = maps.ranges.iter().enumerate().find(|(_, size)| **size != 1)?;
            let mut batch = Vec::new();
            for (logit, &size) in sizes.iter().enumerate() {
                if size != 1 && logit != chain.row && logit != chain.column {
                    batch.push(BatchAxis { logit, size, strides: strides(logits[logit])? });
                }
            }
            forms.push(AttentionForm {
                attention: self::attention(&chain, scores.product, scores.columns),
                operands: [parameter(product, 1 - scores.columns)?, parameter(product, scores.columns)?, value_operand],
                operand_types: [type_of(product, 1 - scores.columns)?, type_of(product, scores.columns)?, value_type],
                element_type: ElementType::F32,
                weight_type: result_shape(weights).ok()?.element_type,
                batch,
                sizes: sizes.clone(),
                key_dimension: chain.column,
                depth,
                features: feature
                    .map_or(1, |feature| result_shape(result).map_or(1, |shape| shape.dimensions[feature])),
                query: strides(logits[chain.row])?,
                key: strides(logits[chain.column])?,
                contracted: strides(features[number].as_variable())?,
                feature: strides(feature.and_then(|feature| stored[feature].as_variable()))?,
                result: stored_dimensions.clone(),
            });
        }
        Some(ChainForm { chain, forms, reduction })
    }
}

/// A variable for each dimension; none for those of size 1.
fn traced<'c>(scope: &mut Scope<'c>, sizes: &[i64]) -> Vec<Expr<'c>> {
    let variable = |&size: &i64| match size {
        1 => scope.constant(0),
        size => scope.add_traced(Interval::of_size(size)),
    };
    sizes.iter().map(variable).collect()
}

/// A product of a chain, and what it ends in, as an attention whose logits are the weights.
fn attention(chain: &Chain, product: InstructionId, columns: usize) -> Attention {
    Attention {
        scores: product,
        keys: columns,
        logits: chain.weights,
        query: chain.row,
        exponential: chain.weights,
        quotient: chain.weights,
        product: chain.end,
        weights: chain.operand,
        result: chain.result,
        members: chain.members.clone(),
    }
}
