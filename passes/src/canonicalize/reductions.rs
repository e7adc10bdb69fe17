//! Rules about reductions.

use hlo::attributes::{Attributes, SliceDimension};
use hlo::dialect;
use hlo::graph::{Computation, Instruction};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::constant::ConstantAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use melior::ir::{Value, ValueLike};

use super::Rule;
use super::site::Site;

/// Instructions of a computation that is written out, at most.
const MOST_INSTRUCTIONS: usize = 32;

/// Instructions of computations that are written out for the arrays of a stack, at most.
const MOST_INSTRUCTIONS_OF_STACK: i64 = 128;

pub(super) static RULES: &[Rule] = &[
    // reduce(x, y, dimensions of size 1), f => f(y, x)
    Rule { name: "reduce-of-one", kinds: &[OpKind::Reduce], apply: reduce_of_one },
    // reduce(concatenate(x0, x1, …), y, the dimension of one element of each), f => f(f(f(y, x0), x1), …)
    Rule { name: "reduce-of-stack", kinds: &[OpKind::Reduce], apply: reduce_of_stack },
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
    let mut arguments = initial_arrays(site, &kept)?;
    for place in 0..inputs {
        arguments.push(site.create_reshape(site.operand(place)?, &kept)?);
    }
    written_out(site, &combination, &arguments, &kept).filter(|value| value.r#type() == site.r#type)
}

/// Arrays that were put together only to be combined element by element, as `jnp.select` does with its conditions.
fn reduce_of_stack<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let ReduceAttributes { dimensions: &[along] } = site.attributes()? else { return None };
    let inputs = site.operand_count() / 2;
    let (stacked, along) = (site.operand_array(0)?, along as usize);
    let count = stacked.dimensions[along];
    let is_stack = |of: &Site<'_, 'c, 'r>| {
        of.operand_count() as i64 == count
            && of.attributes().is_some_and(|own: ConcatenateAttributes| own.dimensions.index() == along)
    };
    let can_be_taken = |number: usize| {
        site.any_definition(site.operand(number)?).map(|own| match own.kind {
            OpKind::Concatenate => is_stack(&own),
            // Whose elements are what their indices say.
            OpKind::Iota | OpKind::Broadcast => number > 0,
            _ => false,
        })
    };
    let combination = combination(site)?;
    if count.saturating_mul(combination.instructions.len() as i64) > MOST_INSTRUCTIONS_OF_STACK
        || !(0..inputs).all(|number| can_be_taken(number) == Some(true))
    {
        return None;
    }
    let mut kept = stacked.dimensions.clone();
    kept.remove(along);
    let mut combined = initial_arrays(site, &kept)?;
    for position in 0..count {
        for number in 0..inputs {
            let array = site.operand_array(number)?;
            let mut part: Vec<SliceDimension> =
                array.dimensions.iter().map(|&limit| SliceDimension { start: 0, limit, stride: 1 }).collect();
            part[along] = SliceDimension { start: position, limit: position + 1, stride: 1 };
            let sizes: Vec<i64> = part.iter().map(|own| own.limit - own.start).collect();
            let r#type = site.type_of(&ArrayShape::new(array.element_type, sizes).into())?;
            let own = site.create(OpKind::Slice, &[site.operand(number)?], SliceAttributes { slice: &part }, r#type)?;
            combined.push(site.create_reshape(own, &kept)?);
        }
        combined = results_written_out(site, &combination, &combined, &kept)?;
    }
    as_one(site, &combination, &combined).filter(|value| value.r#type() == site.r#type)
}

/// The initial values of a reduction, as arrays of its result's sizes.
fn initial_arrays<'c, 'r>(site: &Site<'_, 'c, 'r>, sizes: &[i64]) -> Option<Vec<Value<'c, 'r>>> {
    let inputs = site.operand_count() / 2;
    let initial_array = |number: usize| {
        let value = site.operand(number)?;
        let r#type = site.type_of(&ArrayShape::new(site.operand_array(number)?.element_type, sizes).into())?;
        if value.r#type() == r#type { Some(value) } else { site.create_broadcast(value, &[], r#type) }
    };
    (inputs..2 * inputs).map(initial_array).collect()
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

/// The operations of a computation on scalars, of arrays of some sizes; the result, a tuple where the computation makes one.
pub(super) fn written_out<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    computation: &Computation,
    arguments: &[Value<'c, 'r>],
    sizes: &[i64],
) -> Option<Value<'c, 'r>> {
    as_one(site, computation, &results_written_out(site, computation, arguments, sizes)?)
}

/// The results of a computation as one value.
fn as_one<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    computation: &Computation,
    results: &[Value<'c, 'r>],
) -> Option<Value<'c, 'r>> {
    match computation.root().kind {
        OpKind::Tuple => site.create(OpKind::Tuple, results, Attributes::new(), site.r#type),
        _ => results.first().copied(),
    }
}

/// As [`written_out`]; the results one by one.
fn results_written_out<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    computation: &Computation,
    arguments: &[Value<'c, 'r>],
    sizes: &[i64],
) -> Option<Vec<Value<'c, 'r>>> {
    let mut values: Vec<Value<'c, 'r>> = Vec::with_capacity(computation.instructions.len());
    for (id, instruction) in computation.iter() {
        let operands: Vec<Value> =
            instruction.operands.iter().map(|id| values.get(id.index()).copied()).collect::<Option<_>>()?;
        let r#type = || {
            let scalar = instruction.shape.as_array().filter(|array| array.rank() == 0)?;
            site.type_of(&ArrayShape::new(scalar.element_type, sizes).into())
        };
        values.push(match instruction.kind {
            OpKind::Parameter => *arguments.get(instruction.parameter_number()?)?,
            OpKind::Tuple => return (id == computation.root).then_some(operands),
            OpKind::Constant => {
                let ConstantAttributes { value: Literal::Array(scalar) } = instruction.attributes().ok()? else {
                    return None;
                };
                site.create_splat(scalar.clone(), r#type()?)?
            }
            kind => site.create(kind, &operands, instruction.attributes.clone(), r#type()?)?,
        });
    }
    Some(vec![*values.get(computation.root.index())?])
}
