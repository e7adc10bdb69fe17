//! Rules that move a reshape or a broadcast behind what is made of its elements.
//!
//! Behind a broadcast, less is computed. Where a reshape merges dimensions of an array that was transposed or repeated, as after `jnp.tile`, `jnp.repeat` or taking patches of an
//! image, what reads it would divide its index to find the elements. Behind, the loops are those of the dimensions before, and
//! merging them moves nothing.

use hlo::attributes::Attributes;
use hlo::dialect;
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::reduce::ReduceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::ops::{FusionRole, definition};
use hlo::shape::ArrayShape;
use melior::ir::Value;
use melior::ir::operation::OperationLike;

use super::Rule;
use super::site::Site;

/// Elementwise operations through which a transpose or a broadcast is looked for.
const MOST_STEPS: usize = 4;

pub(super) static RULES: &[Rule] = &[
    // reshape(broadcast(x, p)) => broadcast(reshape(x), q)  where it splits dimensions, or merges such of x, or such that x has not
    Rule { name: "reshape-behind-broadcast", kinds: &[OpKind::Reshape], apply: reshape_behind_broadcast },
    // f(broadcast(x, p), broadcast(y, p)) => broadcast(f(x, y), p)
    Rule { name: "elementwise-of-broadcast", kinds: &[], apply: elementwise_of_broadcast },
    // f(reshape(x), y) => reshape(f(x, reshape(y)))
    Rule { name: "elementwise-of-reshape", kinds: &[], apply: elementwise_of_reshape },
    // reduce(reshape(x), y, d) => reshape(reduce(x, y, the dimensions that became d))
    Rule { name: "reduce-of-reshape", kinds: &[OpKind::Reduce], apply: reduce_of_reshape },
];

/// The result of an operation that makes each element of one of each operand, in whatever dimensions they are.
pub(super) fn elementwise_result<'s>(site: &'s Site<'_, '_, '_>) -> Option<&'s ArrayShape> {
    let is_elementwise =
        definition(site.kind).fusion == FusionRole::Elementwise && site.operation().region_count() == 0;
    let result = site.array().filter(|result| is_elementwise && result.layout.is_none())?;
    let has_elements = |array: ArrayShape| array.rank() == 0 || array.dimensions == result.dimensions;
    (0..site.operand_count()).all(|number| site.operand_array(number).is_some_and(has_elements)).then_some(result)
}

fn reshape_behind_broadcast<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let broadcast = site.operand_definition(0, OpKind::Broadcast)?;
    let (before, result) = (broadcast.array()?, site.array().filter(|result| result.layout.is_none())?);
    let BroadcastAttributes { dimensions } = broadcast.attributes()?;
    if dimensions.is_empty() || !dimensions.is_sorted() {
        return None;
    }
    let is_read = |dimension: &i64| dimensions.contains(dimension);
    let read: Vec<i64> = if let Some(parts) = merged_dimensions(&result.dimensions, &before.dimensions) {
        (0..).zip(parts).filter(|(own, _)| is_read(own)).flat_map(|(_, parts)| parts).collect()
    } else {
        let groups = merged_dimensions(&before.dimensions, &result.dimensions)?;
        if groups.iter().any(|group| group.iter().any(is_read) && !group.iter().all(is_read)) {
            return None;
        }
        (0..).zip(groups).filter(|(_, group)| group.iter().all(is_read)).map(|(own, _)| own).collect()
    };
    let sizes: Vec<i64> = read.iter().map(|&own| result.dimensions[own as usize]).collect();
    site.create_broadcast(site.create_reshape(broadcast.operand(0)?, &sizes)?, &read, site.r#type)
}

fn elementwise_of_broadcast<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let result = elementwise_result(site)?;
    let repeated = (0..site.operand_count()).find_map(|number| {
        let own = site.operand_definition(number, OpKind::Broadcast)?;
        let inner = own.operand_array(0).filter(|inner| inner.rank() > 0)?;
        let BroadcastAttributes { dimensions } = own.attributes()?;
        (inner.element_count() < result.element_count()).then(|| (inner.dimensions, dimensions.to_vec()))
    });
    let (sizes, dimensions) = repeated?;
    let made = made_of(site, &sizes, |number| {
        let own = site.operand_definition(number, OpKind::Broadcast)?;
        let inner = own.operand_array(0)?;
        let is_alike = || Some(own.attributes::<BroadcastAttributes>()?.dimensions == dimensions);
        match inner.rank() {
            0 => site.create_broadcast(
                own.operand(0)?,
                &[],
                site.type_of(&ArrayShape::new(inner.element_type, &sizes[..]).into())?,
            ),
            _ => own.operand(0).filter(|_| inner.dimensions == sizes && is_alike() == Some(true)),
        }
    })?;
    site.create_broadcast(made, &dimensions, site.r#type)
}

fn elementwise_of_reshape<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    elementwise_result(site)?;
    let merged = (0..site.operand_count()).find_map(|number| Merged::of_operand(site, number))?;
    let made = made_of(site, &merged.sizes, |number| site.create_reshape(site.operand(number)?, &merged.sizes))?;
    site.create(OpKind::Reshape, &[made], Attributes::new(), site.r#type)
}

/// The operation on arrays of other sizes, which are taken from its operands; scalars stay.
pub(super) fn made_of<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    sizes: &[i64],
    take: impl Fn(usize) -> Option<Value<'c, 'r>>,
) -> Option<Value<'c, 'r>> {
    let operand = |number: usize| match site.operand_array(number)?.rank() {
        0 => site.operand(number),
        _ => take(number),
    };
    let operands: Vec<Value<'c, 'r>> = (0..site.operand_count()).map(operand).collect::<Option<_>>()?;
    let r#type = site.type_of(&ArrayShape::new(site.array()?.element_type, sizes).into())?;
    site.create(site.kind, &operands, site.all_attributes()?.clone(), r#type)
}

fn reduce_of_reshape<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let ReduceAttributes { dimensions } = site.attributes()?;
    if site.operand_count() != 2 || site.array()?.layout.is_some() {
        return None;
    }
    let merged = Merged::of_operand(site, 0)?;
    let is_reduced = |outer: usize| dimensions.contains(&(outer as i64));
    let groups = || merged.groups.iter().enumerate();
    let reduced: Vec<i64> = groups().filter(|(outer, _)| is_reduced(*outer)).flat_map(|(_, own)| own.clone()).collect();
    let kept: Vec<i64> = groups()
        .filter(|(outer, _)| !is_reduced(*outer))
        .flat_map(|(_, own)| own.clone())
        .map(|inner| merged.sizes[inner as usize])
        .collect();
    let made = reduced_along(site, merged.operand, &reduced, kept)?;
    site.create(OpKind::Reshape, &[made], Attributes::new(), site.r#type)
}

/// The reduction of another array along dimensions of it, to an array of some sizes.
pub(super) fn reduced_along<'c, 'r>(
    site: &Site<'_, 'c, 'r>,
    operand: Value<'c, 'r>,
    dimensions: &[i64],
    sizes: Vec<i64>,
) -> Option<Value<'c, 'r>> {
    let mut instruction = dialect::operation_to_instruction(site.operation()).ok()?;
    instruction.shape = ArrayShape::new(site.array()?.element_type, sizes).into();
    instruction.attributes = ReduceAttributes { dimensions }.into();
    site.create_instruction(&instruction, &[operand, site.operand(1)?])
}

/// What a reshape merges dimensions of.
struct Merged<'c, 'r> {
    operand: Value<'c, 'r>,
    /// Sizes of the operand.
    sizes: Vec<i64>,
    /// The operand's dimensions that became each dimension of the result.
    groups: Vec<Vec<i64>>,
}

impl<'c, 'r> Merged<'c, 'r> {
    /// What an operand of an operation merges dimensions of, if elements that become neighbours were none before.
    fn of_operand(site: &Site<'_, 'c, 'r>, number: usize) -> Option<Self> {
        let reshape = site.operand_definition(number, OpKind::Reshape)?;
        let (operand, inner) = (reshape.operand(0)?, reshape.operand_array(0)?);
        let groups = merged_dimensions(&inner.dimensions, &reshape.array()?.dimensions)?;
        moves_neighbours(site, operand, &groups, MOST_STEPS).then_some(Merged {
            operand,
            sizes: inner.dimensions,
            groups,
        })
    }
}

/// For each size of the result the dimensions that it is the product of; `None` where it is not, or where a size is 0 or 1.
fn merged_dimensions(inner: &[i64], outer: &[i64]) -> Option<Vec<Vec<i64>>> {
    if inner.iter().chain(outer).any(|&size| size < 2) {
        return None;
    }
    let mut rest = inner.iter().zip(0..);
    let groups = outer.iter().map(|&size| {
        let (mut group, mut product) = (Vec::new(), 1);
        while product < size {
            let (&own, dimension) = rest.next()?;
            group.push(dimension);
            product *= own;
        }
        (product == size).then_some(group)
    });
    let groups: Vec<Vec<i64>> = groups.collect::<Option<_>>()?;
    rest.next().is_none().then_some(groups)
}

/// Whether dimensions of a value in one group do not follow each other in memory, of something that it is made of element by element.
fn moves_neighbours<'c, 'r>(site: &Site<'_, 'c, 'r>, value: Value<'c, 'r>, groups: &[Vec<i64>], steps: usize) -> bool {
    let Some(own) = site.any_definition(value) else { return false };
    match own.kind {
        OpKind::Transpose => own.attributes().is_some_and(|TransposeAttributes { dimensions }| {
            let place = |dimension: i64| dimensions.get(dimension as usize).copied();
            let follow = |pair: &[i64]| place(pair[0]).map(|first| first + 1) == place(pair[1]);
            groups.iter().any(|group| !group.windows(2).all(follow))
        }),
        OpKind::Broadcast => own.attributes().is_some_and(|BroadcastAttributes { dimensions }| {
            let is_read = |dimension: &i64| dimensions.contains(dimension);
            groups.iter().any(|group| group.iter().any(is_read) && !group.iter().all(is_read))
        }),
        kind if definition(kind).fusion == FusionRole::Elementwise && steps > 0 => {
            own.operands().any(|operand| moves_neighbours(&own, operand, groups, steps - 1))
        }
        _ => false,
    }
}
