//! Slabs of keys that a causal mask leaves nothing of, for all queries of a block: they need not be gone through. What is masked has a
//! weight of exactly zero, beside the key that every query has: if that has a logit, which a second mask may have taken from it.

use hlo::element_type::ElementType;
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
use crate::attention::{AttentionForm, Trail};
use crate::chain::ChainForm;
use crate::elemental::Elemental;
use crate::operand_maps::instruction_maps;
use crate::scope::{Binding, Scope};
use crate::walk::substitute;

/// What a mask puts in the place of a logit is at most this, far below any sum of products.
const MASKED: f64 = -1e37;

/// What may be added to a position at once: so much that sums of a few are no larger than whole numbers of 64 bits.
const MOST_ADDED: f64 = (1_i64 << 52) as f64;

/// Instructions between a number of a position and where it is compared, at most.
const MOST_STEPS: usize = 16;

impl<'c> Kernel<'_, 'c> {
    /// The slabs of keys that the queries of the block have; a constant where these are all of them.
    pub fn slabs(&self, emitter: &mut Elemental<'_, 'c>) -> Result<Expr<'c>> {
        let ahead = keys_ahead(emitter.scope.context(), emitter.computation, self.form);
        self.slabs_until(emitter, ahead)
    }

    /// The first slab of columns that the weights of a chain have something of, and the one behind the last.
    pub fn slabs_of_chain(&self, emitter: &mut Elemental<'_, 'c>, chain: &ChainForm) -> Result<[Expr<'c>; 2]> {
        let (rows, columns) = (self.form.queries(), self.form.keys());
        let all = ceil_div(columns, self.blocks.keys);
        let ends = [0, all].map(|end| emitter.scope.constant(end));
        match columns_kept(emitter.scope.context(), emitter.computation, chain) {
            Some(Kept::Until(ahead)) if ahead >= 0 => Ok([ends[0], self.slabs_until(emitter, Some(ahead))?]),
            Some(Kept::From(behind)) if rows - 1 + behind < columns => {
                let needed = emitter.scope.simplify((self.first + behind).floordiv(self.blocks.keys));
                if emitter.scope.range(needed).upper <= 0 {
                    return Ok(ends);
                }
                let builder = emitter.builder;
                let first = builder.as_symbols(|builder| emitter.scope.emit_max(builder, &[needed, ends[0]]))?;
                let first = emitter.scope.add_variable(Interval::of_size(all), Binding::Symbol(first));
                Ok([first, ends[1]])
            }
            _ => Ok(ends),
        }
    }

    /// The slabs up to the last that queries have, each up to the key so far ahead of it.
    fn slabs_until(&self, emitter: &mut Elemental<'_, 'c>, ahead: Option<i64>) -> Result<Expr<'c>> {
        let all = ceil_div(self.form.keys(), self.blocks.keys);
        let count = emitter.scope.constant(all);
        let Some(ahead) = ahead else { return Ok(count) };
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

/// What a mask leaves of each row: the columns up to one so far ahead of the row, or from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Until(i64),
    From(i64),
}

/// A choice between elements and one number.
struct Masked {
    condition: InstructionId,
    keeps_where: bool,
    kept: InstructionId,
    number: f64,
}

impl Masked {
    /// That which an instruction is.
    fn of(body: &Computation, id: InstructionId) -> Option<Self> {
        let select = body.get(id);
        let &[condition, on_true, on_false] = &select.operands[..] else { return None };
        if select.kind != OpKind::Select {
            return None;
        }
        let (keeps_where, kept, number) = match [splat(body, on_true), splat(body, on_false)] {
            [None, Some(number)] => (true, on_true, number),
            [Some(number), None] => (false, on_false, number),
            _ => return None,
        };
        Some(Masked { condition, keeps_where, kept, number })
    }

    /// Whether it is as good as nothing beside logits that are kept. Beside -inf a logit of any size has all of the weight; a row of
    /// nothing else has no numbers, here and there.
    fn hides(&self, body: &Computation, scores: InstructionId) -> bool {
        self.number == f64::NEG_INFINITY || self.number <= MASKED && is_scaled(body, self.kept, scores)
    }
}

/// What a mask, read at an index, leaves of rows and columns: two variables.
fn kept_of<'c>(
    scope: &Scope<'c>,
    body: &Computation,
    (masked, index): (&Masked, Vec<Expr<'c>>),
    variables: [Expr<'c>; 2],
) -> Option<Kept> {
    let context = scope.context();
    let (comparison, index) = moved(context, body, masked.condition, index)?;
    let comparison = body.get(comparison);
    if comparison.kind != OpKind::Compare {
        return None;
    }
    let position = |operand: usize| position(context, body, *comparison.operands.get(operand)?, index.clone());
    let distance = Linear::from_expr(scope.simplify(position(0)? - position(1)?))?;
    if distance.terms.len() != 2 {
        return None;
    }
    let CompareAttributes { direction, .. } = comparison.attributes().ok()?;
    use ComparisonDirection::{Ge, Gt, Le, Lt};
    // Kept is where the distance, or its opposite, and a constant are not negative together.
    let (sign, constant) = match (direction, masked.keeps_where) {
        (Ge, true) | (Lt, false) => (1, distance.constant),
        (Gt, true) | (Le, false) => (1, distance.constant - 1),
        (Le, true) | (Gt, false) => (-1, -distance.constant),
        (Lt, true) | (Ge, false) => (-1, -distance.constant - 1),
        _ => return None,
    };
    match variables.map(|variable| sign * distance.coefficient(variable)) {
        [1, -1] => Some(Kept::Until(constant)),
        [-1, 1] => Some(Kept::From(-constant)),
        _ => None,
    }
}

/// How far behind a query the last key is that a mask leaves it, if the mask leaves each query all keys up to one, the first among
/// them.
fn keys_ahead(context: &Context, body: &Computation, form: &AttentionForm) -> Option<i64> {
    let mut id = form.attention.logits;
    while matches!(body.get(id).kind, OpKind::Convert | OpKind::Copy) {
        id = body.get(id).operands[0];
    }
    let masked = Masked::of(body, id).filter(|masked| masked.hides(body, form.attention.scores))?;
    let mut scope = Scope::new(context);
    let index: Vec<Expr<'_>> = form.sizes.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let variables = [index[form.attention.query], index[form.key_dimension]];
    match kept_of(&scope, body, (&masked, index), variables)? {
        Kept::Until(ahead) if (0..form.keys()).contains(&ahead) => Some(ahead),
        _ => None,
    }
}

/// The columns that a mask leaves the weights of a chain, where all others are exactly what changes nothing.
fn columns_kept(context: &Context, body: &Computation, chain: &ChainForm) -> Option<Kept> {
    let form = &chain.forms[0];
    let mut scope = Scope::new(context);
    let index: Vec<Expr<'_>> = form.sizes.iter().map(|&size| scope.add_traced(Interval::of_size(size))).collect();
    let variables = [*index.get(chain.chain.row)?, *index.get(chain.chain.column)?];
    let mut id = chain.chain.weights;
    for _ in 0..MOST_STEPS {
        let instruction = body.get(id);
        if instruction.kind == OpKind::Select {
            break;
        }
        id = *instruction.operands.first()?;
        let is_number = || {
            let number = instruction.operands.get(1).and_then(|&number| splat(body, number));
            number.is_some_and(|number| number.is_normal())
        };
        match instruction.kind {
            OpKind::Convert | OpKind::Copy | OpKind::Reshape | OpKind::Transpose => {}
            OpKind::Multiply | OpKind::Divide if chain.reduction != Some(OpKind::Maximum) && is_number() => {}
            _ => return None,
        }
    }
    let masked = Masked::of(body, id)?;
    let changes_nothing = match chain.reduction {
        Some(OpKind::Maximum) => masked.hides(body, chain.chain.scores.first()?.product),
        _ => masked.number == 0.0,
    };
    let trail = Trail { body, members: &chain.chain.members, scope: &scope };
    let index = trail.follow(chain.chain.weights, id, index)?;
    kept_of(&scope, body, (&masked, index), variables).filter(|_| changes_nothing)
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
            OpKind::Convert | OpKind::Copy | OpKind::Reshape | OpKind::Transpose => id = instruction.operands[0],
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

/// A sum of whole numbers on the way to an element: its type, and what is still added to it.
struct Step {
    element_type: ElementType,
    added: i64,
}

impl Step {
    /// Whether a type holds what positions up to one are there, of which `all` is what is added in all.
    fn holds(&self, last: i64, all: i64) -> bool {
        let before = all - self.added;
        let bits = self.element_type.bit_width().min(63);
        let (least, most) = match self.element_type.is_signed_integer() {
            true => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
            false => (0, i64::MAX >> (63 - bits)),
        };
        before >= least && before.saturating_add(last) <= most
    }
}

/// The whole number that an element is, where it is a position and constants, and no sum of these begins anew at its type's ends.
fn position<'c>(
    context: &'c Context,
    body: &Computation,
    mut id: InstructionId,
    mut index: Vec<Expr<'c>>,
) -> Option<Expr<'c>> {
    let (mut added, mut steps) = (0, Vec::new());
    for _ in 0..MOST_STEPS {
        let instruction = body.get(id);
        let shape = instruction.shape.as_array().filter(|shape| shape.element_type.bit_width() >= 32)?;
        if !shape.element_type.is_integer() {
            return None;
        }
        steps.push(Step { element_type: shape.element_type, added });
        match instruction.kind {
            OpKind::Iota => {
                let IotaAttributes { iota_dimension } = instruction.attributes().ok()?;
                let dimension = usize::try_from(iota_dimension).ok()?;
                let last = shape.dimensions.get(dimension)? - 1;
                let holds = steps.iter().all(|step| step.holds(last, added));
                return holds.then_some(*index.get(dimension)? + added);
            }
            OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose | OpKind::Copy | OpKind::Convert => {
                index = operand_index(context, body, id, &index)?;
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
                if constant.abs() > MOST_ADDED {
                    return None;
                }
                added += constant as i64;
                id = own;
            }
            _ => return None,
        }
    }
    None
}

/// What an instruction moves the elements of, and at which index it reads that.
fn moved<'c>(
    context: &'c Context,
    body: &Computation,
    mut id: InstructionId,
    mut index: Vec<Expr<'c>>,
) -> Option<(InstructionId, Vec<Expr<'c>>)> {
    for _ in 0..MOST_STEPS {
        match body.get(id).kind {
            OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose | OpKind::Copy => {
                index = operand_index(context, body, id, &index)?;
                id = body.get(id).operands[0];
            }
            _ => return Some((id, index)),
        }
    }
    None
}

/// The index at which an instruction reads its first operand.
fn operand_index<'c>(
    context: &'c Context,
    body: &Computation,
    id: InstructionId,
    index: &[Expr<'c>],
) -> Option<Vec<Expr<'c>>> {
    let map = instruction_maps(context, body, body.get(id)).operand_map(0)?;
    Some(map.results().iter().map(|&own| substitute(own, index, &[], &[])).collect())
}
