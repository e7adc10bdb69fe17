//! Rules about operations that only move elements: compositions, and movements that are reshapes.

use hlo::attributes::{AttributeValue, Attributes, SliceDimension};
use hlo::op_kind::OpKind;
use melior::ir::{Value, ValueLike};

use super::Rule;
use super::site::Site;

pub(super) static RULES: &[Rule] = &[
    // reshape(reshape(x)) => reshape(x)
    Rule {
        name: "reshape-of-reshape",
        kinds: &[OpKind::Reshape],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Reshape)?;
            site.create(OpKind::Reshape, &[inner.operand(0)?], &Attributes::new(), site.r#type)
        },
    },
    // transpose(transpose(x, p), q) => transpose(x, p ∘ q)
    Rule {
        name: "transpose-of-transpose",
        kinds: &[OpKind::Transpose],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Transpose)?;
            let dimensions = compose(inner.attributes().ints("dimensions"), site.attributes().ints("dimensions"))?;
            site.create(OpKind::Transpose, &[inner.operand(0)?], &with_dimensions(dimensions), site.r#type)
        },
    },
    // broadcast(broadcast(x, p), q) => broadcast(x, q ∘ p)
    Rule {
        name: "broadcast-of-broadcast",
        kinds: &[OpKind::Broadcast],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Broadcast)?;
            let dimensions = compose(site.attributes().ints("dimensions"), inner.attributes().ints("dimensions"))?;
            site.create(OpKind::Broadcast, &[inner.operand(0)?], &with_dimensions(dimensions), site.r#type)
        },
    },
    // slice(slice(x)) => slice(x)
    Rule { name: "slice-of-slice", kinds: &[OpKind::Slice], apply: slice_of_slice },
    // slice(concatenate(x, y …)) => slice(y)  where it lies in y
    Rule { name: "slice-of-concatenate", kinds: &[OpKind::Slice], apply: slice_of_concatenate },
    // slice(pad(x, y)) => slice(x)  where it lies in x, and x in one piece
    Rule { name: "slice-of-pad", kinds: &[OpKind::Slice], apply: slice_of_pad },
    // broadcast(iota(i), p) => iota(p[i])
    Rule {
        name: "broadcast-of-iota",
        kinds: &[OpKind::Broadcast],
        apply: |site| {
            let iota = site.operand_definition(0, OpKind::Iota)?;
            let dimension = usize::try_from(iota.attributes().int("iota_dimension")?).ok()?;
            let dimension = *site.attributes().ints("dimensions").get(dimension)?;
            let attributes = Attributes::new().with("iota_dimension", AttributeValue::Int(dimension));
            site.create(OpKind::Iota, &[], &attributes, site.r#type)
        },
    },
    // reshape(broadcast(scalar)) => broadcast(scalar), likewise transpose, slice, reverse
    Rule {
        name: "movement-of-splat",
        kinds: &[OpKind::Reshape, OpKind::Transpose, OpKind::Slice, OpKind::Reverse],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Broadcast)?;
            if inner.operand_array(0)?.rank() > 0 || site.array()?.rank() == 0 {
                return None;
            }
            site.create(OpKind::Broadcast, &[inner.operand(0)?], &with_dimensions(Vec::new()), site.r#type)
        },
    },
    // reshape(broadcast(x, p)) => x  where p keeps the order of the dimensions and the result has x's type
    Rule {
        name: "reshape-of-broadcast",
        kinds: &[OpKind::Reshape],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Broadcast)?;
            let in_order = inner.attributes().ints("dimensions").is_sorted();
            inner.operand(0).filter(|operand| in_order && operand.r#type() == site.r#type)
        },
    },
    // transpose(x) => reshape(x)  where only dimensions of size 1 change places
    Rule {
        name: "transpose-is-reshape",
        kinds: &[OpKind::Transpose],
        apply: |site| {
            let operand = site.operand_array(0)?;
            if operand.layout != site.array()?.layout {
                return None;
            }
            let order = site.attributes().ints("dimensions").iter();
            let moved: Vec<i64> = order.copied().filter(|&d| operand.dimensions.get(d as usize) != Some(&1)).collect();
            moved.is_sorted().then(|| reshape(site))?
        },
    },
    // broadcast(x) => reshape(x)  where the new dimensions have size 1
    Rule {
        name: "broadcast-is-reshape",
        kinds: &[OpKind::Broadcast],
        apply: |site| {
            let (operand, result) = (site.operand_array(0)?, site.array()?);
            let in_order = site.attributes().ints("dimensions").is_sorted();
            let same = operand.element_count() == result.element_count() && result.element_count() > 0;
            let default = operand.layout.is_none() && result.layout.is_none();
            (in_order && same && default).then(|| reshape(site))?
        },
    },
];

fn reshape<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    site.create(OpKind::Reshape, &[site.operand(0)?], &Attributes::new(), site.r#type)
}

fn with_dimensions(dimensions: Vec<i64>) -> Attributes {
    Attributes::new().with("dimensions", AttributeValue::Ints(dimensions))
}

/// `outer[inner[0]], outer[inner[1]] …`
fn compose(outer: &[i64], inner: &[i64]) -> Option<Vec<i64>> {
    inner.iter().map(|&position| outer.get(usize::try_from(position).ok()?).copied()).collect()
}

/// Operands of a concatenation at most for one of them to be looked for.
const MAX_PARTS: usize = 64;

fn slice_of_concatenate<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let whole = site.operand_definition(0, OpKind::Concatenate)?;
    let along = usize::try_from(*whole.attributes().ints("dimensions").first()?).ok()?;
    let taken = *site.attributes().slice().get(along)?;
    if whole.operand_count() > MAX_PARTS || taken.start >= taken.limit {
        return None;
    }
    let mut start = 0;
    for index in 0..whole.operand_count() {
        let end = start + *whole.operand_array(index)?.dimensions.get(along)?;
        if start <= taken.start && taken.limit <= end {
            let mut parts = site.attributes().slice().to_vec();
            parts[along] = SliceDimension { start: taken.start - start, limit: taken.limit - start, ..taken };
            return slice(site, whole.operand(index)?, parts);
        }
        start = end;
    }
    None
}

fn slice_of_pad<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let padded = site.operand_definition(0, OpKind::Pad)?;
    let inner = padded.operand_array(0)?;
    let dimensions = site.attributes().slice().iter().zip(padded.attributes().padding()).zip(&inner.dimensions);
    let parts = dimensions.map(|((part, padding), &size)| {
        let (start, limit) = (part.start - padding.low, part.limit - padding.low);
        let is_inside = padding.interior == 0 && start >= 0 && start <= limit && limit <= size;
        is_inside.then_some(SliceDimension { start, limit, ..*part })
    });
    slice(site, padded.operand(0)?, parts.collect::<Option<_>>()?)
}

fn slice<'c, 'r>(site: &Site<'_, 'c, 'r>, operand: Value<'c, 'r>, parts: Vec<SliceDimension>) -> Option<Value<'c, 'r>> {
    let attributes = Attributes::new().with("slice", AttributeValue::Slice(parts));
    site.create(OpKind::Slice, &[operand], &attributes, site.r#type)
}

fn slice_of_slice<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let inner = site.operand_definition(0, OpKind::Slice)?;
    let (first, second) = (inner.attributes().slice(), site.attributes().slice());
    let sizes = &site.array()?.dimensions;
    if first.len() != second.len() || sizes.len() != first.len() {
        return None;
    }
    let parts = first.iter().zip(second).zip(sizes).map(|((first, second), &size)| {
        let start = first.start + second.start * first.stride;
        let stride = first.stride.checked_mul(second.stride)?;
        // One past the last element taken; the start itself when there is none.
        let limit = if size == 0 { start } else { start + (size - 1) * stride + 1 };
        Some(SliceDimension { start, limit, stride })
    });
    slice(site, inner.operand(0)?, parts.collect::<Option<_>>()?)
}
