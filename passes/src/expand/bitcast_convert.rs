//! `bitcast-convert` between element types of different widths ("BitcastConvertType"): the last dimension, least
//! significant first, appears or disappears. Between types of one width the operation has code of its own.

use hlo::attributes::Attributes;
use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// The unsigned type of a width.
fn unsigned(width: u32) -> Option<ElementType> {
    ElementType::all().find(|r#type| r#type.is_unsigned_integer() && r#type.bit_width() == width)
}

pub(super) fn expand(
    builder: &mut GraphBuilder,
    instruction: &Instruction,
    operands: &[InstructionId],
) -> Option<InstructionId> {
    between_widths(builder, *operands.first()?, instruction.shape.as_array()?.element_type)
}

/// The operand's bits as elements of a type of another width; `None` for types of one width.
pub(super) fn between_widths(
    builder: &mut GraphBuilder,
    operand: InstructionId,
    to: ElementType,
) -> Option<InstructionId> {
    let from = builder.element_type(operand);
    match (from.is_complex(), from.bit_width(), to.bit_width()) {
        (_, a, b) if a == b => None,
        (false, a, b) if a > b => split(builder, operand, to),
        (false, _, _) => join(builder, operand, to),
        (true, a, b) if a > b => split_complex(builder, operand),
        (true, _, _) => join_complex(builder, operand),
    }
}

/// Numbers of bits below each part, along a last dimension.
fn shifts(builder: &mut GraphBuilder, wide: ElementType, sizes: &[i64], narrow_width: u32) -> InstructionId {
    let place = builder.iota(wide, sizes, sizes.len().saturating_sub(1));
    let shape = builder.array(place);
    let width = builder.filled(&shape, ConstantNumber::Integer(i64::from(narrow_width)));
    builder.binary(OpKind::Multiply, place, width)
}

/// Wide elements to narrow ones.
fn split(builder: &mut GraphBuilder, operand: InstructionId, to: ElementType) -> Option<InstructionId> {
    let from = builder.element_type(operand);
    let (wide, narrow) = (unsigned(from.bit_width())?, unsigned(to.bit_width())?);
    let bits = builder.bitcast(operand, wide);
    let mut sizes = builder.dimensions(operand);
    let kept: Vec<i64> = (0..sizes.len() as i64).collect();
    sizes.push(i64::from(from.bit_width() / to.bit_width()));
    let spread = builder.broadcast(bits, &sizes, &kept);
    let shifts = shifts(builder, wide, &sizes, to.bit_width());
    let moved = builder.binary(OpKind::ShiftRightLogical, spread, shifts);
    let parts = builder.convert(moved, narrow);
    Some(builder.bitcast(parts, to))
}

/// Narrow elements along the last dimension to wide ones.
fn join(builder: &mut GraphBuilder, operand: InstructionId, to: ElementType) -> Option<InstructionId> {
    let from = builder.element_type(operand);
    let (wide, narrow) = (unsigned(to.bit_width())?, unsigned(from.bit_width())?);
    let bits = builder.bitcast(operand, narrow);
    let parts = builder.convert(bits, wide);
    let sizes = builder.dimensions(operand);
    let shifts = shifts(builder, wide, &sizes, from.bit_width());
    let moved = builder.binary(OpKind::ShiftLeft, parts, shifts);
    let last = sizes.len() as i64 - 1;
    let joined = builder.reduce(moved, ConstantNumber::Integer(0), &[last], OpKind::Or);
    Some(builder.bitcast(joined, to))
}

/// A `c128` to two `c64`: each of its parts is the two parts of one.
fn split_complex(builder: &mut GraphBuilder, operand: InstructionId) -> Option<InstructionId> {
    let shape = builder.array(operand);
    let mut sizes = shape.dimensions.clone();
    sizes.push(1);
    let part_shape = shape.with_element_type(ElementType::F64);
    let parts = [OpKind::Real, OpKind::Imag].map(|kind| {
        let part = builder.add(kind, part_shape.clone(), &[operand], Attributes::new());
        builder.reshape(part, &sizes)
    });
    let parts = builder.concatenate(&parts, shape.rank());
    let halves = split(builder, parts, ElementType::F32)?;
    let sizes = builder.dimensions(parts);
    let [re, im] = [0, 1].map(|half| {
        let half = builder.slice(halves, sizes.len(), half, half + 1);
        builder.reshape(half, &sizes)
    });
    let result = builder.array(re).with_element_type(ElementType::C64);
    Some(builder.add(OpKind::Complex, result, &[re, im], Attributes::new()))
}

/// Two `c64` to a `c128`.
fn join_complex(builder: &mut GraphBuilder, operand: InstructionId) -> Option<InstructionId> {
    let shape = builder.array(operand);
    let last = shape.rank().checked_sub(1)?;
    let mut sizes = shape.dimensions.clone();
    sizes.push(1);
    let part_shape = shape.with_element_type(ElementType::F32);
    let parts = [OpKind::Real, OpKind::Imag].map(|kind| {
        let part = builder.add(kind, part_shape.clone(), &[operand], Attributes::new());
        builder.reshape(part, &sizes)
    });
    let halves = builder.concatenate(&parts, shape.rank());
    let wholes = join(builder, halves, ElementType::F64)?;
    let sizes = &shape.dimensions[..last];
    let [re, im] = [0, 1].map(|part| {
        let part = builder.slice(wholes, last, part, part + 1);
        builder.reshape(part, sizes)
    });
    let result = builder.array(re).with_element_type(ElementType::C128);
    Some(builder.add(OpKind::Complex, result, &[re, im], Attributes::new()))
}
