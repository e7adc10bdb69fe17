//! Rules about scatters.

use hlo::attributes::Attributes;
use hlo::element_type::{ElementClass, ElementType};
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::scatter::ScatterAttributes;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::Value;

use super::Rule;
use super::reductions::{combination, written_out};
use super::site::Site;

pub(super) static RULES: &[Rule] = &[
    // scatter(x, i, y), f => select(iota = broadcast(i), f(x, broadcast(y)), x)  where all elements of x are equal, and each
    // row has one update
    Rule { name: "scatter-of-one", kinds: &[OpKind::Scatter], apply: scatter_of_one },
];

/// Gradients of what is taken along an axis scatter so, as that of a cross entropy. In a loop of elements they need no array.
fn scatter_of_one<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let result = site.array()?;
    let [indices, updates] = [site.operand_array(1)?, site.operand_array(2)?];
    let scatter: ScatterAttributes = site.attributes()?;
    let (&[dimension], batch) = (scatter.inserted_window_dims, scatter.input_batching_dims) else { return None };
    let rows: Vec<i64> = batch.iter().map(|&d| result.dimensions.get(d as usize).copied()).collect::<Option<_>>()?;
    let count: i64 = rows.iter().product();
    let is_of_one = site.operand_count() == 3
        && scatter.scatter_dims_to_operand_dims == [dimension]
        && scatter.update_window_dims.is_empty()
        && batch.len() + 1 == result.rank()
        && batch.is_sorted()
        && scatter.scatter_indices_batching_dims.is_sorted()
        && result.element_count() > 0
        && indices.element_count() == count
        && updates.element_count() == count
        && updates.element_type == result.element_type
        && has_default_layouts(&[result, &indices, &updates]);
    // Elsewhere, an update writes one element of a row.
    site.splat(site.operand(0)?).filter(|_| is_of_one)?;
    let combination = combination(site)?;
    // Indices outside are equal to no position: they are not cut off.
    let position_type = match (indices.element_type.class(), indices.element_type.bit_width()) {
        (ElementClass::Signed, ..=32) | (ElementClass::Unsigned, ..32) => ElementType::S32,
        (ElementClass::Signed, _) => ElementType::S64,
        _ => return None,
    };
    if position_type == ElementType::S32 && i32::try_from(result.dimensions[dimension as usize]).is_err() {
        return None;
    }
    let array = |element_type, dimensions: &[i64]| {
        site.type_of(&Shape::from(ArrayShape::new(element_type, dimensions.to_vec())))
    };
    let mut row_index = site.create_reshape(site.operand(1)?, &rows)?;
    if indices.element_type != position_type {
        row_index = site.create(OpKind::Convert, &[row_index], Attributes::new(), array(position_type, &rows)?)?;
    }
    let row_update = site.create_reshape(site.operand(2)?, &rows)?;
    let positions_type = array(position_type, &result.dimensions)?;
    let iota = IotaAttributes { iota_dimension: dimension };
    let positions = site.create(OpKind::Iota, &[], iota, positions_type)?;
    let index = site.create_broadcast(row_index, batch, positions_type)?;
    let is_updated = CompareAttributes { direction: ComparisonDirection::Eq, r#type: None };
    let types = array(ElementType::Pred, &result.dimensions)?;
    let is_updated = site.create(OpKind::Compare, &[positions, index], is_updated, types)?;
    let there = site.operand(0)?;
    let update = site.create_broadcast(row_update, batch, site.r#type)?;
    let updated = written_out(site, &combination, &[there, update], &result.dimensions)?;
    site.create(OpKind::Select, &[is_updated, updated, there], Attributes::new(), site.r#type)
}

fn has_default_layouts(arrays: &[&ArrayShape]) -> bool {
    arrays.iter().all(|array| array.layout.is_none())
}
