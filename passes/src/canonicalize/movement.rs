//! Rules about operations that only move elements: compositions, and movements that are reshapes.

use hlo::attributes::{AttributeValue, Attributes, SliceDimension};
use hlo::op_kind::OpKind;
use melior::ir::Value;

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
    // reshape(broadcast(scalar)) => scalar
    Rule {
        name: "scalar-of-splat",
        kinds: &[OpKind::Reshape],
        apply: |site| {
            let inner = site.operand_definition(0, OpKind::Broadcast)?;
            let scalar = inner.operand(0)?;
            (melior::ir::ValueLike::r#type(&scalar) == site.r#type).then_some(scalar)
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
    let attributes = Attributes::new().with("slice", AttributeValue::Slice(parts.collect::<Option<_>>()?));
    site.create(OpKind::Slice, &[inner.operand(0)?], &attributes, site.r#type)
}
