//! The part of `canonicalize-dots` for products of complex matrices: each becomes four products of real ones, which are computed
//! by tiles.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::dot::{DotAttributes, DotDimensions};
use hlo::shape::ArrayShape;

use crate::graph_builder::GraphBuilder;

/// Multiplications of complex numbers from which on the parts are worth their arrays and their code.
const LEAST_MULTIPLICATIONS: i64 = 1 << 17;

/// Rows, columns and terms from which on a product is one of matrices: of c64, and of c128, whose arrays are twice as large.
const LEAST_SIDES: [i64; 2] = [8, 32];

// dot(a, b) => complex(re(a) re(b) - im(a) im(b), re(a) im(b) + im(a) re(b)) where these are dots
pub(crate) fn real_products(builder: &mut GraphBuilder, dot: &Instruction) -> Option<InstructionId> {
    let (&[lhs, rhs], result) = (&dot.operands[..], dot.shape.as_array()?) else { return None };
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    if !result.element_type.is_complex()
        || result.is_dynamic()
        || shapes.iter().any(|shape| shape.is_dynamic() || shape.element_type != result.element_type)
    {
        return None;
    }
    let DotDimensions { lhs_batch, lhs_contracting, .. } = dot.attributes::<DotAttributes>().ok()?.dimensions();
    let elements = |dimensions: &[usize]| dimensions.iter().map(|&d| shapes[0].dimensions[d]).product::<i64>();
    let (batch, terms) = (elements(&lhs_batch), elements(&lhs_contracting));
    if batch * terms == 0 {
        return None;
    }
    let [rows, columns] = [0, 1].map(|side| shapes[side].element_count() / (batch * terms));
    let least_side = LEAST_SIDES[usize::from(result.element_type == ElementType::C128)];
    if rows.min(columns).min(terms) < least_side || result.element_count().saturating_mul(terms) < LEAST_MULTIPLICATIONS
    {
        return None;
    }
    let mut parts = |operand| [OpKind::Real, OpKind::Imag].map(|part| builder.unary(part, operand));
    let [lhs_re, lhs_im] = parts(lhs);
    let [rhs_re, rhs_im] = if lhs == rhs { [lhs_re, lhs_im] } else { parts(rhs) };
    let shape = ArrayShape::new(result.element_type.real_part(), result.dimensions.clone());
    let mut product = |lhs, rhs| builder.add(OpKind::Dot, shape.clone(), &[lhs, rhs], dot.attributes.clone());
    let [re, subtracted] = [product(lhs_re, rhs_re), product(lhs_im, rhs_im)];
    let [im, added] = [product(lhs_re, rhs_im), product(lhs_im, rhs_re)];
    let re = builder.binary(OpKind::Subtract, re, subtracted);
    let im = builder.binary(OpKind::Add, im, added);
    Some(builder.binary(OpKind::Complex, re, im))
}
