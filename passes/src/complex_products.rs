//! The part of `canonicalize-dots` for products of complex matrices: each becomes one product of real ones, which are computed
//! by tiles.

use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::shape::ArrayShape;

use crate::graph_builder::GraphBuilder;

/// Multiplications of complex numbers from which on the parts are worth their arrays and their code.
const LEAST_MULTIPLICATIONS: i64 = 1 << 17;

/// Rows, columns and terms from which on a product is one of matrices.
const LEAST_SIDE: i64 = 8;

/// An operand, as a product of matrices reads it.
struct Side<'a> {
    operand: InstructionId,
    shape: &'a ArrayShape,
    /// The dimension of rows or columns that gets the imaginary parts of the result behind the real ones.
    free: usize,
    /// Free dimensions before that one.
    free_before: usize,
    /// The first contracted dimension.
    contracted: usize,
}

impl<'a> Side<'a> {
    fn of(operand: InstructionId, shape: &'a ArrayShape, batch: &[usize], contracting: &[usize]) -> Option<Self> {
        let used = |dimension: usize| batch.contains(&dimension) || contracting.contains(&dimension);
        // The longest one, so that what is behind it is moved in long runs.
        let free = (0..shape.rank()).filter(|&dimension| !used(dimension));
        let free = free.max_by_key(|&dimension| (shape.dimensions[dimension], shape.rank() - dimension))?;
        let free_before = (0..free).filter(|&dimension| !used(dimension)).count();
        Some(Side { operand, shape, free, free_before, contracted: *contracting.first()? })
    }

    /// Elements besides those of batch and contracted dimensions.
    fn free_elements(&self, batch_and_terms: i64) -> i64 {
        self.shape.element_count() / batch_and_terms
    }
}

// dot(a, b) => complex(slice(d), slice(d)) where d = dot([[re(a), -im(a)], [im(a), re(a)]], [re(b), im(b)]), or the other way around
// where b is the smaller one
pub(crate) fn real_product(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let (&[lhs, rhs], result) = (&dot.operands[..], dot.shape.as_array()?) else { return None };
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    if !result.element_type.is_complex()
        || result.is_dynamic()
        || shapes.iter().any(|shape| shape.is_dynamic() || shape.element_type != result.element_type)
    {
        return None;
    }
    let attributes: DotAttributes = dot.attributes().ok()?;
    let DotDimensions { lhs_batch, lhs_contracting, rhs_batch, rhs_contracting } = attributes.dimensions();
    let elements = |dimensions: &[usize]| dimensions.iter().map(|&d| shapes[0].dimensions[d]).product::<i64>();
    let (batch, terms) = (elements(&lhs_batch), elements(&lhs_contracting));
    if batch * terms == 0 {
        return None;
    }
    let sides = [
        Side::of(lhs, &shapes[0], &lhs_batch, &lhs_contracting)?,
        Side::of(rhs, &shapes[1], &rhs_batch, &rhs_contracting)?,
    ];
    let [rows, columns] = [&sides[0], &sides[1]].map(|side| side.free_elements(batch * terms));
    if rows.min(columns).min(terms) < LEAST_SIDE || result.element_count().saturating_mul(terms) < LEAST_MULTIPLICATIONS
    {
        return None;
    }
    let doubled = usize::from(columns < rows);
    let operands = [0, 1].map(|number| {
        let side = &sides[number];
        let [re, im] = [OpKind::Real, OpKind::Imag].map(|part| builder.unary(part, side.operand));
        let halves = if number == doubled {
            let negative = builder.unary(OpKind::Negate, im);
            [[re, im], [negative, re]].map(|half| builder.concatenate(&half, side.free))
        } else {
            [re, im]
        };
        builder.concatenate(&halves, side.contracted)
    });
    let first_free = if doubled == 0 { 0 } else { shapes[0].rank() - lhs_batch.len() - lhs_contracting.len() };
    let place = lhs_batch.len() + first_free + sides[doubled].free_before;
    let size = *result.dimensions.get(place)?;
    let mut dimensions = result.dimensions.clone();
    dimensions[place] = 2 * size;
    let shape = ArrayShape::new(result.element_type.real_part(), dimensions);
    let product = builder.add(OpKind::Dot, shape, &operands, dot.attributes.clone());
    let [re, im] = [0, size].map(|start| builder.slice(product, place, start, start + size));
    Some(builder.binary(OpKind::Complex, re, im))
}
