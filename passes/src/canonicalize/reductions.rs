//! Rules about reductions.

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::graph::{Computation, Instruction};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use melior::ir::{Value, ValueLike};

use super::Rule;
use super::site::Site;

/// Instructions of a computation that is written out, at most.
const MOST_INSTRUCTIONS: usize = 32;

pub(super) static RULES: &[Rule] = &[
    // reduce(x, y, dimensions of size 1), f => f(y, x)
    Rule { name: "reduce-of-one", kinds: &[OpKind::Reduce], apply: reduce_of_one },
];

fn reduce_of_one<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let ReduceAttributes { dimensions } = site.attributes()?;
    let inputs = site.operand_count() / 2;
    let operand = site.operand_array(0)?;
    let is_reduced = |d: usize| dimensions.contains(&(d as i64));
    let sizes = || operand.dimensions.iter().copied().enumerate();
    if !sizes().all(|(d, size)| !is_reduced(d) || size == 1) {
        return None;
    }
    let combination = combination(site)?;
    let kept: Vec<i64> = sizes().filter(|&(d, _)| !is_reduced(d)).map(|(_, size)| size).collect();
    let mut arguments = Vec::with_capacity(2 * inputs);
    for place in (inputs..2 * inputs).chain(0..inputs) {
        let element_type = site.operand_array(place)?.element_type;
        let r#type = site.type_of(&ArrayShape::new(element_type, kept.clone()).into())?;
        let value = site.operand(place)?;
        arguments.push(match place < inputs {
            _ if value.r#type() == r#type => value,
            true => site.create(OpKind::Reshape, &[value], Attributes::new(), r#type)?,
            false => site.create_broadcast(value, &[], r#type)?,
        });
    }
    written_out(site, &combination, &arguments, &kept).filter(|value| value.r#type() == site.r#type)
}

/// The computation of an operation, if its operations can compute elements of arrays.
pub(super) fn combination(site: &Site<'_, '_, '_>) -> Option<Computation> {
    let mut computations = dialect::operation_to_instruction(site.operation()).ok()?.computations;
    let own = computations.pop().filter(|_| computations.is_empty())?;
    (own.instructions.len() <= MOST_INSTRUCTIONS && own.instructions.iter().all(is_elementwise)).then_some(own)
}

/// Whether an instruction of a computation on scalars can compute elements of arrays.
fn is_elementwise(instruction: &Instruction) -> bool {
    match instruction.kind {
        OpKind::Parameter | OpKind::Constant | OpKind::Tuple => true,
        kind => definition(kind).fusion == FusionRole::Elementwise && instruction.computations.is_empty(),
    }
}

/// The operations of a computation on scalars, of arrays of some sizes.
pub(super) fn written_out<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    computation: &Computation,
    arguments: &[Value<'c, 'r>],
    sizes: &[i64],
) -> Option<Value<'c, 'r>> {
    let mut values: Vec<Value<'c, 'r>> = Vec::with_capacity(computation.instructions.len());
    for instruction in &computation.instructions {
        let operands: Vec<Value> =
            instruction.operands.iter().map(|id| values.get(id.index()).copied()).collect::<Option<_>>()?;
        let r#type = || {
            let scalar = instruction.shape.as_array().filter(|array| array.rank() == 0)?;
            site.type_of(&ArrayShape::new(scalar.element_type, sizes).into())
        };
        values.push(match instruction.kind {
            OpKind::Parameter => *arguments.get(instruction.parameter_number()?)?,
            OpKind::Tuple => site.create(OpKind::Tuple, &operands, Attributes::new(), site.r#type)?,
            OpKind::Constant => {
                let ConstantAttributes { value: Literal::Array(scalar) } = instruction.attributes().ok()? else {
                    return None;
                };
                site.create_splat(scalar.clone(), r#type()?)?
            }
            kind => site.create(kind, &operands, instruction.attributes.clone(), r#type()?)?,
        });
    }
    values.get(computation.root.index()).copied()
}
