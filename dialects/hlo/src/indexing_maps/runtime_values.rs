//! Run-time variables whose values the program fixes: constants, iotas, and what is made of them without
//! reading other values.

use indexing::{Expr, IndexingMap, Interval, RuntimeSource};

use super::{InstructionMaps, Numbering};
use crate::element_type::ElementType;
use crate::graph::{Computation, InstructionId};
use crate::literal::ArrayLiteral;
use crate::op_kind::OpKind;
use crate::ops::iota::IotaAttributes;
use crate::shape::ArrayShape;

/// What became of an element of the program.
enum Folded<'c> {
    /// An expression of the index.
    Value(Expr<'c>),
    /// This element of this instruction.
    Element(InstructionId, Vec<Expr<'c>>),
}

/// What values outside a run-time variable's bounds mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The operation clamps them, as dynamic-slice and gather do.
    Clamped,
    /// There are none.
    Impossible,
}

/// Replaces the run-time variables of a map that stand for values of `computation` (number `number` of
/// the analysis) by expressions where the values are known, and follows the others to the instruction that
/// has the value. Variables that are no longer used are removed.
///
/// A value that is clamped stays a variable, whose bounds say so.
pub fn fold_runtime_values(map: &mut IndexingMap<'_>, computation: &Computation, number: u32, outside: Outside) {
    let mut replaced = false;
    for i in 0..map.runtimes().len() {
        let variable = &map.runtimes()[i];
        let Some(source) = variable.source.clone() else { continue };
        let value = super::RuntimeValue::from(source.value);
        if value.computation != number {
            continue;
        }
        let bounds = variable.bounds;
        match follow(map, computation, value.instruction, source.index.clone()) {
            Folded::Value(expr) => {
                let expr = map.simplify_expr(expr);
                let fits = match outside {
                    Outside::Clamped => bounds.contains_interval(map.range_of(expr)),
                    Outside::Impossible => expr.as_constant().is_none_or(|value| bounds.contains(value)),
                };
                if fits {
                    map.replace_runtime(i, expr);
                    replaced = true;
                }
            }
            Folded::Element(instruction, index) => {
                let value = super::RuntimeValue { computation: number, instruction }.into();
                let index = index.iter().map(|&expr| map.simplify_expr(expr)).collect();
                map.set_runtime_source(i, RuntimeSource { value, index });
            }
        }
    }
    if replaced {
        map.remove_unused_symbols();
    }
}

/// Follows an element through instructions that only move elements, to its value if it has a known one.
fn follow<'c>(
    map: &IndexingMap<'c>,
    computation: &Computation,
    start: InstructionId,
    start_index: Vec<Expr<'c>>,
) -> Folded<'c> {
    let (mut id, mut index) = (start, start_index);
    loop {
        let Some(instruction) = computation.instructions.get(id.index()) else { return Folded::Element(id, index) };
        match instruction.kind {
            OpKind::Constant => {
                let literal = instruction.literal().and_then(|literal| literal.as_array());
                return match literal.and_then(|array| constant_value(array, &index)) {
                    Some(value) => Folded::Value(Expr::constant(map.context(), value)),
                    None => Folded::Element(id, index),
                };
            }
            OpKind::Iota => {
                let dimension = instruction.attributes::<IotaAttributes>().map(|attributes| attributes.iota_dimension);
                return match dimension.ok().and_then(|d| index.get(usize::try_from(d).ok()?)) {
                    Some(&value) => Folded::Value(value),
                    None => Folded::Element(id, index),
                };
            }
            OpKind::Add | OpKind::Subtract | OpKind::Multiply => {
                let [left, right] = instruction.operands[..] else { return Folded::Element(id, index) };
                let known = |operand| match follow_value(map, computation, operand, &index) {
                    Some(value) => in_type(map, computation, id, value),
                    None => None,
                };
                let (Some(a), Some(b)) = (known(left), known(right)) else { return Folded::Element(id, index) };
                let value = match instruction.kind {
                    OpKind::Add => a + b,
                    OpKind::Subtract => a - b,
                    _ => a * b,
                };
                return match in_type(map, computation, id, value) {
                    Some(value) => Folded::Value(value),
                    None => Folded::Element(id, index),
                };
            }
            OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Reverse
            | OpKind::Transpose
            | OpKind::Slice
            | OpKind::Copy
            | OpKind::Convert => {
                let Some(step) = moved(map, computation, id, &index) else { return Folded::Element(id, index) };
                (id, index) = step;
            }
            // Everything else computes, or moves elements depending on the index.
            _ => return Folded::Element(id, index),
        }
        index = index.iter().map(|&expr| map.simplify_expr(expr)).collect();
    }
}

/// The value of an operand of an arithmetic instruction. One level of arithmetic is enough for offsets, and
/// keeps the recursion short.
fn follow_value<'c>(
    map: &IndexingMap<'c>,
    computation: &Computation,
    id: InstructionId,
    index: &[Expr<'c>],
) -> Option<Expr<'c>> {
    let (mut id, mut index) = (id, index.to_vec());
    loop {
        let instruction = computation.instructions.get(id.index())?;
        if matches!(instruction.kind, OpKind::Add | OpKind::Subtract | OpKind::Multiply) {
            return None;
        }
        if matches!(instruction.kind, OpKind::Constant | OpKind::Iota) {
            return match follow(map, computation, id, index) {
                Folded::Value(value) => Some(value),
                Folded::Element(..) => None,
            };
        }
        (id, index) = moved(map, computation, id, &index)?;
    }
}

/// The operand and index an element comes from, for instructions that only move elements.
fn moved<'c>(
    map: &IndexingMap<'c>,
    computation: &Computation,
    id: InstructionId,
    index: &[Expr<'c>],
) -> Option<(InstructionId, Vec<Expr<'c>>)> {
    let instruction = computation.get(id);
    let operand = *instruction.operands.first()?;
    let moves = match instruction.kind {
        OpKind::Broadcast | OpKind::Reshape | OpKind::Reverse | OpKind::Transpose | OpKind::Slice | OpKind::Copy => {
            true
        }
        OpKind::Convert => holds_all(computation.get(operand).shape.as_array()?, instruction.shape.as_array()?),
        _ => false,
    };
    let step = InstructionMaps::new(map.context(), computation, instruction, Numbering::Operands)
        .operand_map(0)
        .filter(|_| moves)?;
    Some((operand, step.results().iter().map(|expr| expr.replace(index, &[])).collect()))
}

/// Whether every value of one integer type is a value of the other.
fn holds_all(from: &ArrayShape, to: &ArrayShape) -> bool {
    let (from, to) = (integer_range(from.element_type), integer_range(to.element_type));
    from.zip(to).is_some_and(|(from, to)| to.contains_interval(from))
}

/// The expression, if its values fit the element type of the instruction, so that arithmetic does not wrap.
fn in_type<'c>(
    map: &IndexingMap<'c>,
    computation: &Computation,
    id: InstructionId,
    value: Expr<'c>,
) -> Option<Expr<'c>> {
    let element_type = computation.get(id).shape.as_array()?.element_type;
    integer_range(element_type)?.contains_interval(map.range_of(value)).then_some(value)
}

/// The values of an integer type that fits `i64`.
fn integer_range(element_type: ElementType) -> Option<Interval> {
    let bits = element_type.bit_width();
    if element_type.is_signed_integer() && bits <= 64 {
        let top = i64::MAX >> (64 - bits);
        return Some(Interval::new(-top - 1, top));
    }
    if element_type.is_unsigned_integer() && bits < 64 {
        return Some(Interval::new(0, (1i64 << bits) - 1));
    }
    None
}

/// The element at a constant index, or any element of a constant whose elements are all equal.
fn constant_value(array: &ArrayLiteral, index: &[Expr<'_>]) -> Option<i64> {
    let dimensions = &array.shape().dimensions;
    let constant: Option<Vec<i64>> = index.iter().map(|expr| expr.as_constant()).collect();
    match constant {
        Some(place) => {
            let mut offset = 0i64;
            for (&i, &size) in place.iter().zip(dimensions) {
                if !(0..size).contains(&i) {
                    return None;
                }
                offset = offset * size + i;
            }
            integer_at(array, usize::try_from(offset).ok()?)
        }
        None => {
            let width = array.element_type().byte_width();
            let first = array.bytes().get(..width)?;
            let all_equal = array.bytes().chunks(width).all(|element| element == first);
            if all_equal { integer_at(array, 0) } else { None }
        }
    }
}

fn integer_at(array: &ArrayLiteral, position: usize) -> Option<i64> {
    let element_type = array.element_type();
    let width = element_type.byte_width();
    let bytes = array.bytes().get(position.checked_mul(width)?..)?.get(..width)?;
    if width > 8 || integer_range(element_type).is_none() {
        return None;
    }
    let mut word = [0u8; 8];
    word[..width].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(word);
    if !element_type.is_signed_integer() {
        return i64::try_from(unsigned).ok();
    }
    let shift = 64 - 8 * width as u32;
    Some(((unsigned << shift) as i64) >> shift)
}
