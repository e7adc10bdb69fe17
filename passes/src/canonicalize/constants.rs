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
const EVALUATION_LIMIT: usize = 1024;

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
    let is_evaluated = match ops::definition(site.kind).class {
        OpClass::Elementwise | OpClass::Indexed => {
            !matches!(site.kind, OpKind::Broadcast | OpKind::Iota | OpKind::Map | OpKind::Bitcast)
        }
        OpClass::Reduction
        | OpClass::Contraction
        | OpClass::Control
        | OpClass::Structural
        | OpClass::Library
        | OpClass::Random
        | OpClass::Collective => false,
    };
    let array = site.array()?;
    if !is_evaluated
        || site.kind == OpKind::Scatter
        || site.operand_count() == 0
        || array.byte_size() > EVALUATION_LIMIT
    {
        return None;
    }
    let operands: Vec<Literal> =
        site.operands().map(|operand| site.small_literal(operand, EVALUATION_LIMIT)).collect::<Option<_>>()?;
    let shape = Shape::array(array.element_type, array.dimensions.clone());
    let value = evaluate_on(site, shape, &operands)?;
    site.create_constant(value.into(), site.r#type)
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
