//! Rules about operations that only move elements: compositions, and movements that are reshapes.

use hlo::attributes::{Attributes, SliceDimension};
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::concatenate::ConcatenateAttributes;
use hlo::ops::dynamic_slice::DynamicSliceAttributes;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::transpose::TransposeAttributes;
use melior::ir::{Value, ValueLike};

use super::Rule;
use super::site::{Number, Site};

pub(super) static RULES: &[Rule] = &[
    // reshape(reshape(x)) => reshape(x)
    Rule {
        name: "reshape-of-reshape",
        kinds: &[OpKind::Reshape],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Reshape)?;
            site.create(OpKind::Reshape, &[inner.operand(0)?], Attributes::new(), site.r#type)
        },
    },
    // transpose(transpose(x, p), q) => transpose(x, p ∘ q)
    Rule {
        name: "transpose-of-transpose",
        kinds: &[OpKind::Transpose],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Transpose)?;
            let (TransposeAttributes { dimensions: first }, TransposeAttributes { dimensions: second }) =
                (inner.attributes()?, site.attributes()?);
            let attributes = TransposeAttributes { dimensions: &compose(first, second)? };
            site.create(OpKind::Transpose, &[inner.operand(0)?], attributes, site.r#type)
        },
    },
    // broadcast(broadcast(x, p), q) => broadcast(x, q ∘ p)
    Rule {
        name: "broadcast-of-broadcast",
        kinds: &[OpKind::Broadcast],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Broadcast)?;
            let (BroadcastAttributes { dimensions: first }, BroadcastAttributes { dimensions: second }) =
                (inner.attributes()?, site.attributes()?);
            site.create_broadcast(inner.operand(0)?, &compose(second, first)?, site.r#type)
        },
    },
    // x + dynamic-update-slice(0, y, i) => dynamic-update-slice(x, dynamic-slice(x, i) + y, i)  where x + 0 is x
    Rule { name: "add-of-updated-zeros", kinds: &[OpKind::Add], apply: add_of_updated_zeros },
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
            let IotaAttributes { iota_dimension } = iota.attributes()?;
            let BroadcastAttributes { dimensions } = site.attributes()?;
            let iota_dimension = *dimensions.get(usize::try_from(iota_dimension).ok()?)?;
            site.create(OpKind::Iota, &[], IotaAttributes { iota_dimension }, site.r#type)
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
            site.create_broadcast(inner.operand(0)?, &[], site.r#type)
        },
    },
    // reshape(broadcast(x, p)) => x  where p keeps the order of the dimensions and the result has x's type
    Rule {
        name: "reshape-of-broadcast",
        kinds: &[OpKind::Reshape],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Broadcast)?;
            let in_order = inner.attributes::<BroadcastAttributes>()?.dimensions.is_sorted();
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
            let order = site.attributes::<TransposeAttributes>()?.dimensions.iter();
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
            let in_order = site.attributes::<BroadcastAttributes>()?.dimensions.is_sorted();
            let same = operand.element_count() == result.element_count() && result.element_count() > 0;
            let default = operand.layout.is_none() && result.layout.is_none();
            (in_order && same && default).then(|| reshape(site))?
        },
    },
];

/// A loop whose iterations add to a slice each so updates its state in place.
fn add_of_updated_zeros<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let is_float = site.array()?.element_type.is_float();
    let zero = if is_float { Number::NegativeZero } else { Number::Zero };
    let update_of = |number: usize| {
        let update = site.operand_definition(number, OpKind::DynamicUpdateSlice)?;
        update.is_number(0, zero).then_some((update, site.operand(1 - number)?))
    };
    let (update, target) = update_of(0).or_else(|| update_of(1))?;
    if target.r#type() != site.r#type {
        return None;
    }
    let part = update.operand(1)?;
    let sizes = update.operand_array(1)?.dimensions;
    let starts: Vec<Value<'c, 'r>> = update.operands().skip(2).collect();
    let attributes = DynamicSliceAttributes { dynamic_slice_sizes: &sizes };
    let own = site.create(OpKind::DynamicSlice, &[&[target], &starts[..]].concat(), attributes, part.r#type())?;
    let sum = site.create(OpKind::Add, &[own, part], Attributes::new(), part.r#type())?;
    site.create(OpKind::DynamicUpdateSlice, &[&[target, sum], &starts[..]].concat(), Attributes::new(), site.r#type)
}

fn reshape<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    site.create(OpKind::Reshape, &[site.operand(0)?], Attributes::new(), site.r#type)
}

/// `outer[inner[0]], outer[inner[1]] …`
fn compose(outer: &[i64], inner: &[i64]) -> Option<Vec<i64>> {
    inner.iter().map(|&position| outer.get(usize::try_from(position).ok()?).copied()).collect()
}

/// Operands of a concatenation at most for one of them to be looked for.
const MAX_PARTS: usize = 64;

fn slice_of_concatenate<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let whole = site.operand_definition(0, OpKind::Concatenate)?;
    let along = whole.attributes::<ConcatenateAttributes>()?.dimensions.index();
    let SliceAttributes { slice: ranges } = site.attributes()?;
    let taken = *ranges.get(along)?;
    if whole.operand_count() > MAX_PARTS || taken.start >= taken.limit {
        return None;
    }
    let mut start = 0;
    for index in 0..whole.operand_count() {
        let end = start + *whole.operand_array(index)?.dimensions.get(along)?;
        if start <= taken.start && taken.limit <= end {
            let mut parts = ranges.to_vec();
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
    let (SliceAttributes { slice: ranges }, PadAttributes { padding }) = (site.attributes()?, padded.attributes()?);
    let dimensions = ranges.iter().zip(padding).zip(&inner.dimensions);
    let parts = dimensions.map(|((part, padding), &size)| {
        let (start, limit) = (part.start - padding.low, part.limit - padding.low);
        let is_inside = padding.interior == 0 && start >= 0 && start <= limit && limit <= size;
        is_inside.then_some(SliceDimension { start, limit, ..*part })
    });
    slice(site, padded.operand(0)?, parts.collect::<Option<_>>()?)
}

fn slice<'c, 'r>(site: &Site<'_, 'c, 'r>, operand: Value<'c, 'r>, parts: Vec<SliceDimension>) -> Option<Value<'c, 'r>> {
    site.create(OpKind::Slice, &[operand], SliceAttributes { slice: &parts }, site.r#type)
}

fn slice_of_slice<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let inner = site.operand_definition(0, OpKind::Slice)?;
    let (SliceAttributes { slice: first }, SliceAttributes { slice: second }) =
        (inner.attributes()?, site.attributes()?);
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
