//! Rules about constants: evaluation of small operations by the evaluator, and one form for arrays of one value.

use evaluator::{Environment, evaluate_instruction};
use hlo::dialect;
use hlo::graph::Instruction;
use hlo::literal::{ArrayLiteral, Literal};
use hlo::op_kind::OpKind;
use hlo::ops::{self, OpClass};
use hlo::shape::{ArrayShape, Shape};
use melior::ir::Value;

use super::Rule;
use super::site::Site;

/// Bytes of a result, and of each operand, up to which an operation on constants is evaluated.
pub(super) const EVALUATION_LIMIT: usize = 1024;

/// Instructions from which a value is computed that is evaluated where something is to be known about it.
const MOST_EVALUATED: usize = 64;

pub(super) static RULES: &[Rule] = &[
    // constant({c, c …}) => broadcast(constant(c))
    Rule {
        name: "splat-constant",
        kinds: &[OpKind::Constant],
        apply: |site| {
            if site.array()?.element_count() < 2 {
                return None;
            }
            site.create_splat(dialect::splat_of(site.operation())?, site.r#type)
        },
    },
    // f(broadcast(constant(c)) …) => broadcast(f(constant(c) …))  for elementwise f
    Rule { name: "elementwise-of-splats", kinds: &[], apply: elementwise_of_splats },
    // f(constant(c) …) => constant(f(c …))
    Rule { name: "evaluate", kinds: &[], apply: evaluate },
];

fn elementwise_of_splats<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let array = site.array()?;
    let is_elementwise = ops::definition(site.kind).class == OpClass::Elementwise;
    let excluded = [OpKind::BatchNormInference, OpKind::Copy, OpKind::Map];
    if !is_elementwise || excluded.contains(&site.kind) || array.rank() == 0 || site.operand_count() == 0 {
        return None;
    }
    let scalars: Vec<Literal> =
        site.operands().map(|operand| site.splat(operand).map(Literal::Array)).collect::<Option<_>>()?;
    let shape = Shape::scalar(array.element_type);
    let scalar = evaluate_on(site, shape, &scalars)?;
    site.create_splat(scalar, site.r#type)
}

fn evaluate<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let array = site.array()?;
    let is_evaluated = is_evaluated(site.kind) && !matches!(site.kind, OpKind::Broadcast | OpKind::Iota);
    if !is_evaluated || site.operand_count() == 0 || array.byte_size() > EVALUATION_LIMIT {
        return None;
    }
    let operands: Vec<Literal> =
        site.operands().map(|operand| site.small_literal(operand, EVALUATION_LIMIT)).collect::<Option<_>>()?;
    let shape = Shape::array(array.element_type, array.dimensions.clone());
    let value = evaluate_on(site, shape, &operands)?;
    site.create_constant(value.into(), site.r#type)
}

/// Whether operations of a kind are evaluated: those without computations.
fn is_evaluated(kind: OpKind) -> bool {
    match ops::definition(kind).class {
        OpClass::Elementwise | OpClass::Indexed => !matches!(kind, OpKind::Map | OpKind::Bitcast | OpKind::Scatter),
        OpClass::Reduction
        | OpClass::Contraction
        | OpClass::Control
        | OpClass::Structural
        | OpClass::Library
        | OpClass::Random
        | OpClass::Collective => false,
    }
}

/// What a value is that few operations compute from constants and positions alone, each of no more than `limit` bytes.
pub(super) fn known<'c, 'r>(site: &Site<'_, 'c, 'r>, value: Value<'c, 'r>, limit: usize) -> Option<Literal> {
    let mut order: Vec<(Value<'c, 'r>, Site<'_, 'c, 'r>)> = Vec::new();
    // Behind what they are computed from, each once: what was begun is looked at again when its operands are there.
    let mut open = vec![value];
    while let Some(&value) = open.last() {
        if order.iter().any(|(own, _)| *own == value) {
            open.pop();
            continue;
        }
        let own = site.any_definition(value)?;
        let is_known = own.kind == OpKind::Constant || is_evaluated(own.kind) && own.array()?.byte_size() <= limit;
        if !is_known || order.len() >= MOST_EVALUATED || open.len() > MOST_EVALUATED {
            return None;
        }
        let missing = own.operands().find(|operand| !order.iter().any(|(known, _)| known == operand));
        match missing {
            Some(operand) => open.push(operand),
            None => order.push((value, own)),
        }
    }
    let mut literals: Vec<Literal> = Vec::new();
    for (value, own) in &order {
        let place = |operand: Value<'c, 'r>| order.iter().position(|(own, _)| *own == operand);
        literals.push(match own.kind {
            OpKind::Constant => own.small_literal(*value, limit)?,
            _ => {
                let operands: Vec<Literal> =
                    own.operands().map(|operand| literals.get(place(operand)?).cloned()).collect::<Option<_>>()?;
                let array = own.array()?;
                let shape = Shape::array(array.element_type, array.dimensions.clone());
                evaluate_on(own, shape, &operands)?.into()
            }
        });
    }
    literals.pop()
}

/// The operation on these values, evaluated to an array of this shape.
fn evaluate_on(site: &Site<'_, '_, '_>, shape: Shape, operands: &[Literal]) -> Option<ArrayLiteral> {
    let instruction = Instruction::new("", site.kind, shape, []).with_attributes(site.all_attributes()?.clone());
    let value = evaluate_instruction(None, &instruction, operands, &mut Environment::default()).ok()?;
    let expected: &ArrayShape = instruction.shape.as_array()?;
    match value {
        Literal::Array(array) if array.shape().same_dimensions(expected) => {
            (array.element_type() == expected.element_type).then_some(array)
        }
        _ => None,
    }
}
