//! Rules about scatters.

use hlo::attributes::{Attributes, SliceDimension};
use hlo::element_type::{ElementClass, ElementType};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::compare::CompareAttributes;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::iota::IotaAttributes;
use hlo::ops::scatter::ScatterAttributes;
use hlo::ops::slice::SliceAttributes;
use hlo::scalar::load;
use hlo::shape::{ArrayShape, Shape};
use melior::ir::Value;

use super::Rule;
use super::reductions::{combination, written_out};
use super::site::{Site, has_default_layouts};

pub(super) static RULES: &[Rule] = &[
    // scatter(x, i, y), f => select(iota = broadcast(i), f(x, broadcast(y)), x)  where all elements of x are equal, and each
    // row has one update
    Rule { name: "scatter-of-one", kinds: &[OpKind::Scatter], apply: scatter_of_one },
    // scatter(x, constants, y), f => dynamic-update-slice(x, f(slice(x), y), constants)  where that is one window
    Rule { name: "scatter-of-known-window", kinds: &[OpKind::Scatter], apply: scatter_of_known_window },
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

/// Bytes of indices that are looked at, at most.
const MOST_BYTES_OF_INDICES: usize = 256;

/// Updates of slices that are known beforehand, as `x.at[1:].add(y)`: what makes the window is computed where it is stored. A window
/// that is not all inside changes nothing (operation semantics, scatter).
fn scatter_of_known_window<'c, 'r>(site: &Site<'_, 'c, 'r>) -> Option<Value<'c, 'r>> {
    let result = site.array()?;
    let [indices, updates] = [site.operand_array(1)?, site.operand_array(2)?];
    let scatter: ScatterAttributes = site.attributes()?;
    let targets = scatter.scatter_dims_to_operand_dims;
    let is_one = site.operand_count() == 3
        && scatter.input_batching_dims.is_empty()
        && indices.element_count() == targets.len() as i64
        && updates.element_type == result.element_type
        && has_default_layouts(&[result, &indices, &updates]);
    let literal = site.small_literal(site.operand(1)?, MOST_BYTES_OF_INDICES).filter(|_| is_one)?;
    let index = literal.as_array()?;
    let mut windows = scatter.update_window_dims.iter().map(|&d| updates.dimensions.get(d as usize).copied());
    let size_of = |d: i64| if scatter.inserted_window_dims.contains(&d) { Some(1) } else { windows.next()? };
    let sizes: Vec<i64> = (0..result.rank() as i64).map(size_of).collect::<Option<_>>()?;
    let mut slices: Vec<SliceDimension> =
        sizes.iter().map(|&size| SliceDimension { start: 0, limit: size, stride: 1 }).collect();
    for (component, &target) in targets.iter().enumerate() {
        let start = load(index.element_type(), index.bytes(), component).to_index();
        let own = slices.get_mut(target as usize)?;
        *own = SliceDimension { start, limit: start.checked_add(own.limit)?, stride: 1 };
    }
    let is_inside = |(own, &size): (&SliceDimension, &i64)| own.start >= 0 && own.limit <= size;
    if updates.element_count() == 0 || !slices.iter().zip(&result.dimensions).all(is_inside) {
        return site.operand_of_type(0);
    }
    let window_type = site.type_of(&Shape::from(ArrayShape::new(result.element_type, sizes.clone())))?;
    let here = site.operand(0)?;
    let before = site.create(OpKind::Slice, &[here], SliceAttributes { slice: &slices }, window_type)?;
    let update = site.create_reshape(site.operand(2)?, &sizes)?;
    let window = written_out(site, &combination(site)?, &[before, update], &sizes)?;
    let start_type = site.type_of(&Shape::scalar(ElementType::S64))?;
    let start_of = |own: &SliceDimension| site.create_constant(Literal::scalar(own.start), start_type);
    let starts: Vec<Value> = slices.iter().map(start_of).collect::<Option<_>>()?;
    site.create(OpKind::DynamicUpdateSlice, &[&[here, window], &starts[..]].concat(), Attributes::new(), site.r#type)
}
