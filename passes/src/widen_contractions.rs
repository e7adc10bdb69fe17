//! Contractions of small floats in the type that their sums have: `f32`, rounded once at the end, as in XLA. Products of matrices of small
//! integers have sums of 32 bits.
//!
//! The operands of a product of matrices stay as they are: the lowering multiplies them as such or widens them while it
//! packs them. An operand that fuses into a reduction is widened before, and so is one of a convolution, unless there are instructions
//! that multiply it as it is.

use hlo::element_type::ElementType;
use hlo::graph::{Instruction, InstructionId};
use hlo::op_kind::OpKind;
use hlo::shape::ArrayShape;

use crate::graph_builder::{ConstantNumber, GraphBuilder};

/// Gives a dot or convolution the type of its sums, which its result is to be converted from: returns the type that the
/// result had. `None` where nothing needs to change. Operands of convolutions stay small where `small_convolutions` says so.
pub(crate) fn widen_operands(
    builder: &mut GraphBuilder,
    contraction: &mut Instruction,
    small_convolutions: bool,
) -> Option<ElementType> {
    let &[lhs, rhs] = &contraction.operands[..] else { return None };
    let shapes = [lhs, rhs].map(|operand| builder.array(operand));
    let result = contraction.shape.as_array()?.clone();
    if sums_small_integers(contraction, &shapes, &result) {
        contraction.shape = ArrayShape { layout: None, ..result.with_element_type(ElementType::S32) }.into();
        return Some(result.element_type);
    }
    let keeps = |side: usize| match contraction.kind {
        OpKind::Convolution => {
            small_convolutions && is_small(shapes[side].element_type) && result.element_type != ElementType::F64
        }
        _ => keeps_operand(contraction, &shapes, side),
    };
    let keeps = [keeps(0), keeps(1)];
    let accumulator = accumulator(keeps, &shapes, &result)?;
    for (side, operand) in [lhs, rhs].into_iter().enumerate() {
        if !keeps[side] {
            contraction.operands[side] = builder.convert(operand, accumulator);
        }
    }
    contraction.shape = ArrayShape { layout: None, ..result.with_element_type(accumulator) }.into();
    Some(result.element_type)
}

// dot(convert(x), convert(y)) => dot(x, y) where x and y are bytes, of which there are products and sums of 32 bits
pub(crate) fn fold_bytes(builder: &mut GraphBuilder, contraction: &mut Instruction) -> bool {
    let &[lhs, rhs] = &contraction.operands[..] else { return false };
    let sums = contraction.shape.as_array().map(|shape| shape.element_type);
    let has_rows = contraction.kind != OpKind::Dot
        || have_free_dimensions(contraction, &[lhs, rhs].map(|operand| builder.array(operand)));
    if sums != Some(ElementType::S32) || !has_rows {
        return false;
    }
    let [Some(lhs), Some(rhs)] = [lhs, rhs].map(|operand| MovedBytes::of(builder, operand)) else { return false };
    contraction.operands = [lhs, rhs].map(|operand| operand.moved(builder)).to_vec();
    true
}

/// Operations, at most, by which bytes have become an operand.
const MOST_MOVES: usize = 16;

/// Bytes that are converted to elements of 32 bits, which are moved, or get zeros beside them.
struct MovedBytes {
    bytes: InstructionId,
    /// The operations that move what they are converted to, the last one first.
    moves: Vec<InstructionId>,
}

impl MovedBytes {
    fn of(builder: &GraphBuilder, operand: InstructionId) -> Option<Self> {
        let (mut id, mut moves) = (operand, Vec::new());
        while moves.len() < MOST_MOVES {
            let own = builder.get(id);
            let &operand = own.operands.first()?;
            match own.kind {
                OpKind::Convert => {
                    let is_byte = matches!(builder.element_type(operand), ElementType::S8 | ElementType::U8);
                    let is_moved = is_byte && builder.element_type(id) == ElementType::S32;
                    return is_moved.then_some(MovedBytes { bytes: operand, moves });
                }
                OpKind::Pad if !builder.is_zero(own.operands[1]) => return None,
                OpKind::Pad | OpKind::Transpose | OpKind::Reshape => moves.push(id),
                _ => return None,
            }
            id = operand;
        }
        None
    }

    /// The bytes, moved as such.
    fn moved(&self, builder: &mut GraphBuilder) -> InstructionId {
        let element_type = builder.element_type(self.bytes);
        self.moves.iter().rev().fold(self.bytes, |bytes, &id| {
            let mut own = builder.get(id).clone();
            own.shape = ArrayShape { layout: None, ..builder.array(id).with_element_type(element_type) }.into();
            own.operands[0] = bytes;
            if let Some(padding) = own.operands.get_mut(1) {
                *padding = builder.scalar(element_type, ConstantNumber::Integer(0));
            }
            builder.push(own)
        })
    }
}

fn is_small(element_type: ElementType) -> bool {
    element_type.is_float() && element_type.bit_width() < 32
}

/// The type to compute in, if that is another one than the contraction has.
fn accumulator(keeps: [bool; 2], operands: &[ArrayShape; 2], result: &ArrayShape) -> Option<ElementType> {
    let [lhs, rhs] = operands;
    let is_static = !lhs.is_dynamic() && !rhs.is_dynamic() && !result.is_dynamic();
    let types = [lhs.element_type, rhs.element_type, result.element_type];
    if !is_static || !types[..2].iter().all(|r#type| r#type.is_float()) {
        return None;
    }
    let accumulator = match result.element_type {
        // Products are of floats; the sum is rounded to an integer.
        integer if integer.is_integer() && types.contains(&ElementType::F64) => ElementType::F64,
        integer if integer.is_integer() => ElementType::F32,
        float if is_small(float) => ElementType::F32,
        float if float.is_float() => float,
        _ => return None,
    };
    let is_done = |side: usize| types[side] == accumulator || keeps[side];
    let is_done = result.element_type == accumulator && is_done(0) && is_done(1);
    (!is_done).then_some(accumulator)
}

/// Whether an operand is left to the lowering of a product of matrices, whose sums are `f32`.
fn keeps_operand(contraction: &Instruction, operands: &[ArrayShape; 2], side: usize) -> bool {
    contraction.kind == OpKind::Dot
        && is_small(operands[side].element_type)
        && contraction.shape.as_array().is_none_or(|shape| shape.element_type != ElementType::F64)
        && have_free_dimensions(contraction, operands)
}

/// Whether a dot of small integers has no sums of 32 bits yet: the lowering of products has those, of which the low bits are the
/// result's, whatever its type is.
fn sums_small_integers(dot: &Instruction, operands: &[ArrayShape; 2], result: &ArrayShape) -> bool {
    let is_integer = |own: ElementType| own.is_integer() && own != ElementType::Pred;
    let [lhs, rhs] = operands;
    dot.kind == OpKind::Dot
        && lhs.element_type == rhs.element_type
        && [lhs, rhs, result].iter().all(|shape| !shape.is_dynamic() && is_integer(shape.element_type))
        && lhs.element_type.bit_width() < 32
        && result.element_type.bit_width() <= 32
        && result.element_type != ElementType::S32
        && have_free_dimensions(dot, operands)
}

/// Whether either operand of a dot has dimensions of its own.
fn have_free_dimensions(dot: &Instruction, [lhs, rhs]: &[ArrayShape; 2]) -> bool {
    let used = |names: [&str; 2]| names.iter().map(|name| dot.attributes.ints(name).len()).sum::<usize>();
    lhs.rank() > used(["lhs_batch_dims", "lhs_contracting_dims"])
        && rhs.rank() > used(["rhs_batch_dims", "rhs_contracting_dims"])
}
