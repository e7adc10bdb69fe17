//! The part of `split-reductions` for products: one of few elements, each of which sums many terms, becomes a batch of products
//! of parts of the terms, and their sum.

use hlo::attributes::Attributes;
use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::shape::ArrayShape;
use indexing::ceil_div;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Rows and columns of the tiles that products are computed by.
const TILE: i64 = 64;

/// Tiles from which on a product has enough to do side by side.
const MANY_TILES: i64 = 128;

/// Tiles that there may be of all parts.
pub(super) const MOST_TILES: i64 = 2 * MANY_TILES;

/// Rows and columns below which products are not computed by tiles.
const LEAST_SIDE: i64 = 16;

/// Elements that as many blocks compute one by one, where products are not computed by tiles.
const ELEMENTS: i64 = 256;

/// Terms of each part at least.
pub(super) const LEAST_TERMS_OF_PART: i64 = 256;

/// Terms of a part are a multiple of what a tile multiplies in a step.
const STEP: i64 = 32;

// dot(x, y) => reduce(dot(reshape(x), reshape(y)), 0)
pub(super) fn split(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let &[lhs, rhs] = &dot.operands[..] else { return None };
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    let result = dot.shape.as_array()?;
    let attributes: DotAttributes = dot.attributes().ok()?;
    let DotDimensions { lhs_batch, lhs_contracting, rhs_batch, rhs_contracting } = attributes.dimensions();
    if result.is_dynamic() || shapes.iter().any(ArrayShape::is_dynamic) {
        return None;
    }
    let wide = wide_type(result.element_type, &shapes)?;
    let sizes = |number: usize, dimensions: &[usize]| -> i64 {
        dimensions.iter().map(|&dimension| shapes[number].dimensions[dimension]).product()
    };
    let elements = |number: usize| shapes[number].element_count();
    let (batch, terms) = (sizes(0, &lhs_batch), sizes(0, &lhs_contracting));
    if batch * terms == 0 {
        return None;
    }
    let (rows, columns) = (elements(0) / (batch * terms), elements(1) / (batch * terms));
    let tiles = tiles_to_fill(batch, rows, columns).filter(|_| rows.min(columns) >= LEAST_SIDE)?;
    // Of the longest pair of dimensions, or the first of several.
    let pair =
        (0..lhs_contracting.len()).max_by_key(|&pair| (sizes(0, &lhs_contracting[pair..=pair]), usize::MAX - pair))?;
    let size = sizes(0, &lhs_contracting[pair..=pair]);
    let wanted = (MOST_TILES / tiles).min(terms / LEAST_TERMS_OF_PART);
    let parts = (2..=wanted).rev().find(|parts| size % (parts * STEP) == 0)?;
    let sides = [(0, lhs, &lhs_batch, &lhs_contracting), (1, rhs, &rhs_batch, &rhs_contracting)];
    let [left, right] = sides.map(|(number, operand, batch, contracting)| {
        let place = contracting[pair];
        let mut sizes = shapes[number].dimensions.clone();
        sizes.splice(place..=place, [parts, size / parts]);
        let behind = |&dimension: &usize| dimension as i64 + i64::from(dimension >= place);
        let batch: Vec<i64> = batch.iter().map(behind).chain([place as i64]).collect();
        let contracting: Vec<i64> = contracting.iter().map(behind).collect();
        (builder.reshape(operand, &sizes), batch, contracting)
    });
    let mut dimensions = result.dimensions.clone();
    dimensions.insert(lhs_batch.len(), parts);
    let attributes = with_sides(attributes, [&left, &right]);
    let products = builder.add(OpKind::Dot, ArrayShape::new(wide, dimensions), &[left.0, right.0], attributes);
    Some(sum_of_parts(builder, products, lhs_batch.len(), result.element_type))
}

/// An operand of a product, its batch dimensions and its contracted ones.
pub(super) type Side = (InstructionId, Vec<i64>, Vec<i64>);

/// An operand of a product, transposed so that its dimensions come in an order.
pub(super) fn side_in_order(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    order: &[usize],
    (batch, contracting): (&[usize], &[usize]),
) -> Side {
    let behind = |dimensions: &[usize]| -> Vec<i64> {
        let place = |dimension: &usize| order.iter().position(|own| own == dimension).map(|place| place as i64);
        dimensions.iter().filter_map(place).collect()
    };
    let permutation: Vec<i64> = order.iter().map(|&dimension| dimension as i64).collect();
    (builder.transpose(operand, &permutation), behind(batch), behind(contracting))
}

/// A product's attributes where its operands are others.
pub(super) fn with_sides(attributes: DotAttributes<'_>, [left, right]: [&Side; 2]) -> Attributes {
    let (lhs_batch_dims, lhs_contracting_dims) = (&left.1[..], &left.2[..]);
    let (rhs_batch_dims, rhs_contracting_dims) = (&right.1[..], &right.2[..]);
    DotAttributes { lhs_batch_dims, lhs_contracting_dims, rhs_batch_dims, rhs_contracting_dims, ..attributes }.into()
}

/// The type of the sums of parts of a result of a type: small numbers are rounded once, at their end.
pub(super) fn wide_type(result: ElementType, operands: &[ArrayShape]) -> Option<ElementType> {
    let wide = match result.class() {
        ElementClass::Float if result.bit_width() < 32 => ElementType::F32,
        ElementClass::Float => result,
        ElementClass::Signed | ElementClass::Unsigned if result.bit_width() >= 32 => result,
        _ => return None,
    };
    operands.iter().all(|shape| shape.element_type.bit_width() <= wide.bit_width()).then_some(wide)
}

/// The blocks that compute products of so many rows and columns each, if more of them are needed to keep a GPU busy.
pub(super) fn tiles_to_fill(batch: i64, rows: i64, columns: i64) -> Option<i64> {
    let tiles = match rows.min(columns) {
        LEAST_SIDE.. => batch * ceil_div(rows, TILE) * ceil_div(columns, TILE),
        _ => ceil_div(batch * rows * columns, ELEMENTS),
    };
    (tiles < MANY_TILES).then_some(tiles)
}

/// The sum of what is along a dimension, as numbers of a type.
pub(super) fn sum_of_parts(
    builder: &mut GraphBuilder,
    parts: InstructionId,
    dimension: usize,
    result: ElementType,
) -> InstructionId {
    let is_float = builder.element_type(parts).class() == ElementClass::Float;
    let zero = if is_float { ConstantNumber::Float(0.0) } else { ConstantNumber::Integer(0) };
    let total = builder.reduce(parts, zero, &[dimension as i64], OpKind::Add);
    builder.convert(total, result)
}
