//! Slabs of keys that a causal mask leaves nothing of, for all queries of a block: they need not be gone through. What is masked has a
//! weight of exactly zero, beside the key that every query has: if that has a logit, which a second mask may have taken from it.

use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::iota::IotaAttributes;
use hlo::scalar::load;
use indexing::{Expr, Interval, Linear, ceil_div};
use melior::Context;

use super::Result;
use super::softmax::Kernel;
use crate::attention::AttentionForm;
use crate::elemental::Elemental;
use crate::operand_maps::instruction_maps;
use crate::scope::{Binding, Scope};
use crate::walk::substitute;

/// What a mask puts in the place of a logit is at most this, far below any sum of products.
const MASKED: f64 = -1e37;

/// Instructions between a number of a position and where it is compared, at most.
const MOST_STEPS: usize = 16;

impl<'c> Kernel<'_, 'c> {
    /// The slabs of keys that the queries of the block have; a constant where these are all of them.
    pub fn slabs(&self, emitter: &mut Elemental<'_, 'c>) -> Result<Expr<'c>> {
        let all = ceil_div(self.form.keys(), self.blocks.keys);
        let count = emitter.scope.constant(all);
        let Some(ahead) = keys_ahead(emitter.scope.context(), emitter.computation, self.form) else { return Ok(count) };
        let last = self.first + (self.blocks.queries - 1 + ahead);
        let needed = emitter.scope.simplify(last.floordiv(self.blocks.keys) + 1);
        if emitter.scope.range(needed).lower >= all {
            return Ok(count);
        }
        let builder = emitter.builder;
        let least = builder.as_symbols(|builder| emitter.scope.emit_min(builder, &[needed, count]))?;
        Ok(emitter.scope.add_variable(Interval::new(1, all), Binding::Symbol(least)))
    }
}

/// How far behind a query the last key is that a mask leaves it, if the mask leaves each query all keys up to one, the first among
/// them.
fn keys_ahead(context: &Context, body: &Computation, form: &AttentionForm) -> Option<i64> {
    let mut id = form.attention.logits;
    while matches!(body.get(id).kind, OpKind::Convert | OpKind::Copy) {
        id = body.get(id).operands[0];
    }
    let masked = body.get(id);
    let &[condition, on_true, on_false] = &masked.operands[..] else { return None };
    let mask = |id| splat(body, id).filter(|&value| value <= MASKED);
    let (keeps_where, kept, mask) = match [mask(on_true), mask(on_false)] {
        [None, Some(mask)] => (true, on_true, mask),
        [Some(mask), None] => (false, on_false, mask),
        _ => return None,
    };
    if masked.kind != OpKind::Select || body.get(condition).kind != OpKind::Compare {
        return None;
    }
    // Beside -inf a logit of any size has all of the weight; a row of nothing else has no numbers, here and there.
    if mask > f64::NEG_INFINITY && !is_scaled(body, kept, form.attention.scores) {
        return None;
    }
    let mut scope = Scope::new(context);
    let index: Vec<Expr<'_>> = form.sizes.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let [query, key] = [*index.get(form.attention.query)?, *index.last()?];
    let comparison = body.get(condition);
    let position = |operand: usize| position(context, body, *comparison.operands.get(operand)?, index.clone());
    let distance = scope.simplify(position(0)? - position(1)?);
    let distance = Linear::from_expr(distance)?;
    let of = [distance.coefficient(query), distance.coefficient(key)];
    if distance.terms.len() != 2 {
        return None;
    }
    let CompareAttributes { direction, .. } = comparison.attributes().ok()?;
    use ComparisonDirection::{Ge, Gt, Le, Lt};
    // Kept is where query - key + constant, or its opposite, is not negative.
    let ahead = match (direction, keeps_where, of) {
        (Ge, true, [1, -1]) | (Lt, false, [1, -1]) => distance.constant,
        (Gt, true, [1, -1]) | (Le, false, [1, -1]) => distance.constant - 1,
        (Le, true, [-1, 1]) | (Gt, false, [-1, 1]) => -distance.constant,
        (Lt, true, [-1, 1]) | (Ge, false, [-1, 1]) => -distance.constant - 1,
        _ => return None,
    };
    (0..form.keys()).contains(&ahead).then_some(ahead)
}

/// Whether an instruction is the scores, times a number.
fn is_scaled(body: &Computation, mut id: InstructionId, scores: InstructionId) -> bool {
    for _ in 0..MOST_STEPS {
        if id == scores {
            return true;
        }
        let instruction = body.get(id);
        let has_number = instruction.operands.last().is_some_and(|&number| splat(body, number).is_some());
        match instruction.kind {
            OpKind::Convert | OpKind::Copy => id = instruction.operands[0],
            OpKind::Multiply | OpKind::Divide if has_number => id = instruction.operands[0],
            OpKind::Multiply if splat(body, instruction.operands[0]).is_some() => id = instruction.operands[1],
            _ => return false,
        }
    }
    false
}

/// The number that all elements of an instruction are.
fn splat(body: &Computation, mut id: InstructionId) -> Option<f64> {
    for _ in 0..MOST_STEPS {
        let instruction = body.get(id);
        match instruction.kind {
            OpKind::Broadcast | OpKind::Reshape | OpKind::Convert | OpKind::Copy => id = instruction.operands[0],
            OpKind::Constant => {
                let array = instruction.literal()?.as_array().filter(|array| array.shape().element_count() == 1)?;
                return Some(load(array.element_type(), array.bytes(), 0).to_float());
            }
            _ => return None,
        }
    }
    None
}

/// The whole number that an element is, where it is a position and a constant.
fn position<'c>(
    context: &'c Context,
    body: &Computation,
    mut id: InstructionId,
    mut index: Vec<Expr<'c>>,
) -> Option<Expr<'c>> {
    let mut sum = Expr::constant(context, 0);
    for _ in 0..MOST_STEPS {
        let instruction = body.get(id);
        let shape = instruction.shape.as_array().filter(|shape| shape.element_type.bit_width() >= 32)?;
        if !shape.element_type.is_integer() {
            return None;
        }
        match instruction.kind {
            OpKind::Iota => {
                let IotaAttributes { iota_dimension } = instruction.attributes().ok()?;
                return Some(sum + *index.get(usize::try_from(iota_dimension).ok()?)?);
            }
            OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose | OpKind::Copy | OpKind::Convert => {
                let map = instruction_maps(context, body, instruction).operand_map(0)?;
                index = map.results().iter().map(|&own| substitute(own, &index, &[], &[])).collect();
                id = instruction.operands[0];
            }
            OpKind::Add | OpKind::Subtract => {
                let &[left, right] = &instruction.operands[..] else { return None };
                let (own, constant) = match (splat(body, left), splat(body, right)) {
                    (None, Some(constant)) if instruction.kind == OpKind::Subtract => (left, -constant),
                    (None, Some(constant)) => (left, constant),
                    (Some(constant), None) if instruction.kind == OpKind::Add => (right, constant),
                    _ => return None,
                };
                sum = sum + constant as i64;
                id = own;
            }
            _ => return None,
        }
    }
    None
}
