//! Products that are rounded before something is added to them, as the program says.
//!
//! A sum with a product becomes a fused multiply-add, whose result is nearer to the exact one. Where a function with steps
//! follows, nearer is not better: `ceil(1.5 * (1/3) - 1.5)` is -1 with both roundings and 0 with one, and what a program
//! does with the number (the row of a picture that is enlarged three times, a bin of a histogram) is made for the first.
//! And what is computed of nothing but constants is a constant, which XLA evaluates rounding by rounding.
//!
//! The product becomes the operand of a `reduce-precision` to its own format, which no multiply-add reaches across.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, InstructionId};
use hlo::op_kind::OpKind;
use hlo::ops::reduce_precision::ReducePrecisionAttributes;
use hlo::ops::{self, OpClass};
use hlo::shape::Shape;

use crate::graph_builder::GraphBuilder;

/// Whether products may be found because of operations of a kind.
pub(super) fn starts(kind: OpKind) -> bool {
    is_step(kind) || matches!(kind, OpKind::Convert | OpKind::Iota)
}

/// Products of a computation that a step follows, or that are constant.
pub(super) fn exact_products(computation: &Computation) -> Vec<bool> {
    let count = computation.instructions.len();
    let mut is_followed = vec![false; count];
    let mut is_constant = vec![false; count];
    for (id, instruction) in computation.instructions.iter().enumerate() {
        is_constant[id] = match instruction.kind {
            OpKind::Constant | OpKind::Iota => true,
            kind => {
                let passes = passes_steps_on(kind) && !instruction.operands.is_empty();
                passes && instruction.operands.iter().all(|operand| is_constant[operand.index()])
            }
        };
    }
    for (id, instruction) in computation.instructions.iter().enumerate().rev() {
        let element_type_of = |id: InstructionId| float_type(&computation.get(id).shape);
        let has_steps = match instruction.kind {
            OpKind::Convert => float_type(&instruction.shape).is_none(),
            kind => is_step(kind),
        };
        if has_steps || (is_followed[id] && passes_steps_on(instruction.kind)) {
            for &operand in instruction.operands.iter().filter(|&&operand| element_type_of(operand).is_some()) {
                is_followed[operand.index()] = true;
            }
        }
    }
    let is_product = |id: usize| {
        let instruction = &computation.instructions[id];
        instruction.kind == OpKind::Multiply && format(&instruction.shape).is_some()
    };
    (0..count).map(|id| is_product(id) && (is_followed[id] || is_constant[id])).collect()
}

/// Appends the rounding of a product to its own format.
pub(super) fn rounded(builder: &mut GraphBuilder, product: InstructionId) -> Option<InstructionId> {
    let shape = builder.shape(product).clone();
    let (exponent_bits, mantissa_bits) = format(&shape)?;
    let attributes = ReducePrecisionAttributes { exponent_bits, mantissa_bits };
    Some(builder.add(OpKind::ReducePrecision, shape, &[product], attributes))
}

/// Whether neighbouring operands can have results far apart.
fn is_step(kind: OpKind) -> bool {
    use OpKind::{Ceil, Floor, Remainder, RoundNearestAfz, RoundNearestEven, Sign};
    matches!(kind, Floor | Ceil | RoundNearestAfz | RoundNearestEven | Remainder | Sign)
}

/// Whether an operation's results are numbers of its operands, or made of those at the same index.
fn passes_steps_on(kind: OpKind) -> bool {
    matches!(ops::definition(kind).class, OpClass::Elementwise | OpClass::Indexed)
}

/// Bits of the exponent and the mantissa of the types whose products and sums become one operation.
fn format(shape: &Shape) -> Option<(i64, i64)> {
    match float_type(shape)? {
        ElementType::F32 => Some((8, 23)),
        ElementType::F64 => Some((11, 52)),
        _ => None,
    }
}

fn float_type(shape: &Shape) -> Option<ElementType> {
    let element_type = shape.as_array()?.element_type;
    (element_type.class() == ElementClass::Float).then_some(element_type)
}
