//! Rules about operations that pass a value on: identities, tuples, selections.

use hlo::attributes::Attributes;
use hlo::op_kind::OpKind;
use hlo::ops::broadcast::BroadcastAttributes;
use hlo::ops::get_dimension_size::GetDimensionSizeAttributes;
use hlo::ops::get_tuple_element::GetTupleElementAttributes;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::pad::PadAttributes;
use hlo::ops::reverse::ReverseAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::ops::sort::SortAttributes;
use hlo::ops::transpose::TransposeAttributes;
use hlo::scalar::load;
use hlo::shape::ArrayShape;
use melior::ir::{Value, ValueLike};

use super::Rule;
use super::site::{Number, Site};

pub(super) static RULES: &[Rule] = &[
    // reshape(x) => x, copy(x) => x …  where x has the result's type
    Rule {
        name: "same-type",
        kinds: &[OpKind::Reshape, OpKind::Copy, OpKind::Bitcast, OpKind::BitcastConvert, OpKind::Convert],
        apply: |site| site.operand_of_type(0),
    },
    // transpose(x, 0…n) => x
    Rule {
        name: "identity-transpose",
        kinds: &[OpKind::Transpose],
        apply: |site| {
            let TransposeAttributes { dimensions } = site.attributes()?;
            is_count(dimensions).then(|| site.operand_of_type(0))?
        },
    },
    // broadcast(x, 0…n) => x
    Rule {
        name: "identity-broadcast",
        kinds: &[OpKind::Broadcast],
        apply: |site| {
            let BroadcastAttributes { dimensions } = site.attributes()?;
            is_count(dimensions).then(|| site.operand_of_type(0))?
        },
    },
    // slice(x, [0:size:1]…) => x
    Rule {
        name: "identity-slice",
        kinds: &[OpKind::Slice],
        apply: |site| {
            let whole = |(part, size): (&hlo::attributes::SliceDimension, &i64)| {
                part.start == 0 && part.limit == *size && (part.stride == 1 || *size <= 1)
            };
            let sizes = site.operand_array(0)?.dimensions;
            site.attributes::<SliceAttributes>()?
                .slice
                .iter()
                .zip(&sizes)
                .all(whole)
                .then(|| site.operand_of_type(0))?
        },
    },
    // pad(x, y, 0_0…) => x
    Rule {
        name: "identity-pad",
        kinds: &[OpKind::Pad],
        apply: |site| {
            let sizes = site.operand_array(0)?.dimensions;
            let mut dimensions = site.attributes::<PadAttributes>()?.padding.iter().zip(&sizes);
            let none =
                dimensions.all(|(part, size)| part.low == 0 && part.high == 0 && (part.interior == 0 || *size <= 1));
            none.then(|| site.operand_of_type(0))?
        },
    },
    // reverse(x, dimensions of size 1) => x
    Rule {
        name: "identity-reverse",
        kinds: &[OpKind::Reverse],
        apply: |site| {
            let sizes = site.operand_array(0)?.dimensions;
            let mut dimensions = site.attributes::<ReverseAttributes>()?.dimensions.iter();
            let trivial =
                dimensions.all(|&d| usize::try_from(d).ok().and_then(|d| sizes.get(d)).is_some_and(|&n| n <= 1));
            trivial.then(|| site.operand_of_type(0))?
        },
    },
    // sort(x, a dimension of size 1) => x
    Rule {
        name: "identity-sort",
        kinds: &[OpKind::Sort],
        apply: |site| sorts_one(site).then(|| site.operand_of_type(0))?,
    },
    // get-tuple-element(sort(x0, x1 …, a dimension of size 1), i) => xi
    Rule {
        name: "element-of-identity-sort",
        kinds: &[OpKind::GetTupleElement],
        apply: |site| {
            let index = usize::try_from(site.attributes::<GetTupleElementAttributes>()?.index).ok()?;
            let sort = site.operand_definition(0, OpKind::Sort).filter(sorts_one)?;
            sort.operand(index).filter(|operand| operand.r#type() == site.r#type)
        },
    },
    // concatenate(x) => x, and concatenate(x, empty) => x
    Rule {
        name: "concatenate-of-one",
        kinds: &[OpKind::Concatenate],
        apply: |site| {
            let mut full = (0..site.operand_count()).filter(|&index| !is_empty(site.operand_array(index)));
            match (full.next(), full.next()) {
                (Some(index), None) => site.operand_of_type(index),
                _ => None,
            }
        },
    },
    // dynamic-slice(x, …) => x  where the result is as large as x: starts are clamped to 0
    Rule { name: "whole-dynamic-slice", kinds: &[OpKind::DynamicSlice], apply: |site| site.operand_of_type(0) },
    // dynamic-update-slice(x, y, …) => y  where y is as large as x
    Rule {
        name: "whole-dynamic-update-slice",
        kinds: &[OpKind::DynamicUpdateSlice],
        apply: |site| site.operand_of_type(1),
    },
    // get-tuple-element(tuple(x0, x1 …), i) => xi
    Rule {
        name: "element-of-tuple",
        kinds: &[OpKind::GetTupleElement],
        apply: |site| {
            let GetTupleElementAttributes { index } = site.attributes()?;
            let index = usize::try_from(index).ok()?;
            let tuple = site.operand_definition(0, OpKind::Tuple)?;
            tuple.operand(index).filter(|element| element.r#type() == site.r#type)
        },
    },
    // tuple(get-tuple-element(x, 0), get-tuple-element(x, 1) …) => x
    Rule {
        name: "tuple-of-elements",
        kinds: &[OpKind::Tuple],
        apply: |site| {
            let mut whole: Option<Value> = None;
            for (position, operand) in site.operands().enumerate() {
                let element = site.definition(operand, OpKind::GetTupleElement)?;
                let tuple = element.operand(0)?;
                if element.attributes::<GetTupleElementAttributes>()?.index != position as i64
                    || whole.is_some_and(|whole| whole != tuple)
                {
                    return None;
                }
                whole = Some(tuple);
            }
            whole.filter(|tuple| tuple.r#type() == site.r#type)
        },
    },
    // select(p, x, x) => x
    Rule {
        name: "select-of-equal",
        kinds: &[OpKind::Select],
        apply: |site| {
            let [x, y] = [site.operand(1)?, site.operand(2)?];
            let are_equal = x == y || site.splat(x).is_some_and(|x| site.splat(y).as_ref() == Some(&x));
            are_equal.then(|| site.operand_of_type(1))?
        },
    },
    // select(true, x, y) => x, select(false, x, y) => y
    Rule {
        name: "select-by-constant",
        kinds: &[OpKind::Select],
        apply: |site| match Number::of(&site.splat(site.operand(0)?)?)? {
            Number::One => site.operand_of_type(1),
            Number::Zero => site.operand_of_type(2),
            Number::NegativeZero | Number::AllOnes => None,
        },
    },
    // select(p, true, false) => p
    Rule {
        name: "select-of-booleans",
        kinds: &[OpKind::Select],
        apply: |site| {
            let predicate = site.operand_of_type(0)?;
            (site.is_number(1, Number::One) && site.is_number(2, Number::Zero)).then_some(predicate)
        },
    },
    // select(not(p), x, y) => select(p, y, x)
    Rule {
        name: "select-by-not",
        kinds: &[OpKind::Select],
        apply: |site| {
            let negated = site.operand_definition(0, OpKind::Not)?;
            let operands = [negated.operand(0)?, site.operand(2)?, site.operand(1)?];
            site.create(OpKind::Select, &operands, Attributes::new(), site.r#type)
        },
    },
    // get-dimension-size(x) => size, where it is static
    Rule {
        name: "static-dimension-size",
        kinds: &[OpKind::GetDimensionSize],
        apply: |site| {
            let dimension = site.attributes::<GetDimensionSizeAttributes>()?.dimensions.index();
            let size = *site.operand_array(0)?.dimensions.get(dimension)?;
            site.create_constant(hlo::literal::Literal::scalar(i32::try_from(size).ok()?), site.r#type)
        },
    },
    // iota(size 1) => 0, in types that have a zero
    Rule {
        name: "iota-of-one",
        kinds: &[OpKind::Iota],
        apply: |site| {
            let IotaAttributes { iota_dimension } = site.attributes()?;
            let dimension = usize::try_from(iota_dimension).ok()?;
            let array = site.array()?;
            if array.dimensions.get(dimension) != Some(&1) || !array.element_type.has_zero() {
                return None;
            }
            let zero = hlo::literal::ArrayLiteral::zeros(ArrayShape::new(array.element_type, [])).ok()?;
            site.create_splat(zero, site.r#type)
        },
    },
    // dynamic-slice(x, constants) => slice(x)
    Rule { name: "slice-at-constants", kinds: &[OpKind::DynamicSlice], apply: slice_at_constants },
];

fn slice_at_constants<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let operand = site.operand_array(0)?;
    let sizes = &site.array()?.dimensions;
    if site.operand_count() != operand.rank() + 1 {
        return None;
    }
    let mut parts = Vec::with_capacity(operand.rank());
    for ((start, &whole), &size) in site.operands().skip(1).zip(&operand.dimensions).zip(sizes) {
        let start = site.splat(start).filter(|start| start.element_type().is_integer())?;
        let start = load(start.element_type(), start.bytes(), 0).to_index().clamp(0, (whole - size).max(0));
        parts.push(hlo::attributes::SliceDimension { start, limit: start + size, stride: 1 });
    }
    site.create(OpKind::Slice, &[site.operand(0)?], SliceAttributes { slice: &parts }, site.r#type)
}

/// Whether a sort has nothing to exchange.
fn sorts_one(sort: &Site<'_, '_, '_>) -> bool {
    let dimension = sort.attributes::<SortAttributes>().map(|attributes| attributes.dimensions.index());
    let sizes = sort.operand_array(0).map(|array| array.dimensions);
    dimension.zip(sizes).and_then(|(dimension, sizes)| sizes.get(dimension).copied()).is_some_and(|size| size <= 1)
}

/// Whether the list is 0, 1, 2 ….
fn is_count(dimensions: &[i64]) -> bool {
    dimensions.iter().copied().eq(0..dimensions.len() as i64)
}

fn is_empty(array: Option<ArrayShape>) -> bool {
    array.is_some_and(|array| array.element_count() == 0)
}
