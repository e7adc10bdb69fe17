//! sort and topk; comparators as functions, and the orders that need none.

use hlo::element_type::{ElementClass, ElementType};
use hlo::graph::{Computation, Instruction, InstructionId};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::enumerations::ComparisonDirection;
use hlo::ops::sort::SortAttributes;
use mlir_ext::builder::Value;

use super::{Argument, Call, array_operands, attributes_of};
use crate::elemental::Elemental;
use crate::error::LoweringError;
use crate::memory::{Inputs, load_scalar_at, pointer_type};
use crate::program::Program;
use crate::scalar::{self, compare::Comparison};

/// Which elements come first: the runtime's orders, with their numbers in descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the comparator says.
    Comparator = 0,
    /// `<` on floats; rows with NaN go to the comparator.
    Less = 1,
    /// Total order; `<` on integers.
    Total = 2,
    /// Total order once zeros and NaNs have been replaced by +0 and one positive NaN.
    TotalCanonical = 3,
}

/// An order of one operand's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyOrder {
    pub order: Order,
    pub descending: bool,
    pub operand: usize,
}

/// Descriptor: operands, outer, length, inner, order, descending, key operand, key type, element sizes.
pub(super) fn sort(computation: &Computation, instruction: &Instruction) -> Result<Call, String> {
    let operands = array_operands(computation, instruction);
    let (Some(first), [comparator]) = (operands.first(), &instruction.computations[..]) else {
        return Err("a sort without operands or comparator".into());
    };
    let along = attributes_of::<SortAttributes>(instruction)?.dimensions.index();
    let size = |dimensions: &[i64]| dimensions.iter().product::<i64>();
    let outer = first.dimensions.get(..along).ok_or("a sort beyond its dimensions")?;
    // A scalar is a row of one.
    let (length, inner) =
        first.dimensions[along..].split_first().map_or((1, 1), |(&length, inner)| (length, size(inner)));
    let keys = key_orders(comparator).filter(|keys| keys.iter().all(|key| key.operand < operands.len()));
    let keys = keys.unwrap_or_else(|| vec![KeyOrder { order: Order::Comparator, descending: false, operand: 0 }]);
    let needs_comparator = keys.iter().any(|key| matches!(key.order, Order::Comparator | Order::Less));
    if needs_comparator {
        check_scalar_computation(comparator)?;
    }
    // Sorts are stable: what an earlier key does not decide, a sort by a later one has decided before.
    let mut descriptors = keys.iter().rev().map(|key| {
        let fixed = [
            operands.len() as i64,
            size(outer),
            length,
            inner,
            key.order as i64,
            key.descending.into(),
            key.operand as i64,
            operands[key.operand].element_type.primitive_type(),
        ];
        fixed.into_iter().chain(operands.iter().map(|operand| operand.element_type.byte_width() as i64)).collect()
    });
    let descriptor = descriptors.next().unwrap_or_default();
    let comparator = if needs_comparator { Argument::Comparator } else { Argument::Nothing };
    let arguments = vec![comparator, Argument::Operands, Argument::Results];
    Ok(Call { further: descriptors.collect(), ..Call::new("halo_sort", descriptor, arguments) })
}

/// Descriptor: key type, rows, their length, elements to select, whether the largest ones.
pub(super) fn top_k(computation: &Computation, instruction: &Instruction, largest: bool) -> Result<Call, String> {
    let operands = array_operands(computation, instruction);
    let results = super::arrays(&instruction.shape);
    let ([operand], [values, indices]) = (&operands[..], &results[..]) else {
        return Err("topk has one operand and two results".into());
    };
    if operand.element_type.is_complex() || indices.element_type != ElementType::S32 {
        return Err(format!("topk of {operand} with indices {indices}"));
    }
    let (Some((&length, rows)), Some(&k)) = (operand.dimensions.split_last(), values.dimensions.last()) else {
        return Err("topk of a scalar".into());
    };
    let descriptor = vec![operand.element_type.primitive_type(), rows.iter().product(), length, k, largest.into()];
    let arguments = vec![Argument::Operand(0), Argument::Result(0), Argument::Result(1)];
    Ok(Call::new("halo_top_k", descriptor, arguments))
}

/// The orders that a comparator is, of which a later one decides where elements are alike in the earlier ones: by one operand's
/// elements each, in which every two are alike or one comes first.
fn key_orders(comparator: &Computation) -> Option<Vec<KeyOrder>> {
    let mut keys = Vec::new();
    let mut rest = comparator.root;
    while let Some((key, behind)) = decided_first(comparator, rest) {
        keys.push(key);
        rest = behind;
    }
    keys.push(order_of(comparator, rest)?);
    // NaN is neither less than anything, nor alike.
    let is_total = |key: &KeyOrder| key.order != Order::Less;
    (keys.len() == 1 || keys.iter().all(is_total)).then_some(keys)
}

/// The order that decides first, and what does where elements are alike in it: `a < b or a == b and …`, or a choice between the two.
fn decided_first(comparator: &Computation, id: InstructionId) -> Option<(KeyOrder, InstructionId)> {
    let instruction = comparator.get(id);
    let (less, are_alike, rest) = match (instruction.kind, &instruction.operands[..]) {
        (OpKind::Or, &[one, other]) => {
            let [less, both] = if comparator.get(one).kind == OpKind::And { [other, one] } else { [one, other] };
            let &[one, other] = &comparator.get(both).operands[..] else { return None };
            if comparator.get(both).kind != OpKind::And {
                return None;
            }
            match compared_operand(comparator, one)?.direction {
                ComparisonDirection::Eq => (less, one, other),
                _ => (less, other, one),
            }
        }
        (OpKind::Select, &[condition, one, other]) => match compared_operand(comparator, condition)?.direction {
            ComparisonDirection::Eq => (other, condition, one),
            ComparisonDirection::Ne => (one, condition, other),
            _ => return None,
        },
        _ => return None,
    };
    let key = order_of(comparator, less)?;
    let alike = compared_operand(comparator, are_alike)?;
    let decides_alike = matches!(alike.direction, ComparisonDirection::Eq | ComparisonDirection::Ne);
    (decides_alike && (alike.order, alike.operand) == (key.order, key.operand)).then_some((key, rest))
}

/// The order that a comparator is, if it compares the elements of one operand and nothing else.
pub(crate) fn key_order(comparator: &Computation) -> Option<KeyOrder> {
    order_of(comparator, comparator.root)
}

/// The order that a comparison in a comparator is.
fn order_of(comparator: &Computation, id: InstructionId) -> Option<KeyOrder> {
    let ComparedOperand { direction, order, operand, swapped } = compared_operand(comparator, id)?;
    let descending = match direction {
        ComparisonDirection::Lt => swapped,
        ComparisonDirection::Gt => !swapped,
        _ => return None,
    };
    Some(KeyOrder { order, descending, operand })
}

/// A comparison of the two elements of one operand.
struct ComparedOperand {
    direction: ComparisonDirection,
    /// In which order they are compared.
    order: Order,
    operand: usize,
    /// Whether the right element is on the left.
    swapped: bool,
}

fn compared_operand(comparator: &Computation, id: InstructionId) -> Option<ComparedOperand> {
    let instruction = comparator.get(id);
    if instruction.kind != OpKind::Compare {
        return None;
    }
    let comparison = Comparison::from_attributes(&instruction.attributes)?;
    let [left, right] = instruction.operands[..] else { return None };
    let [left, right] = [compared_element(comparator, left)?, compared_element(comparator, right)?];
    let (left_number, right_number) = (left.parameter, right.parameter);
    if left_number / 2 != right_number / 2 || left_number == right_number || left.form != right.form {
        return None;
    }
    // Parameters 2k and 2k + 1 are the left and the right element of operand k.
    let swapped = left_number % 2 == 1;
    let element_type = comparator.get(comparator.parameters[left_number]).shape.as_array()?.element_type;
    let is_keyed_float =
        matches!(element_type, ElementType::F16 | ElementType::BF16 | ElementType::F32 | ElementType::F64);
    let order = match element_type.class() {
        ElementClass::Float if !is_keyed_float => return None,
        ElementClass::Float if left.form.canonical && (comparison.total_order || left.form.in_total_order) => {
            Order::TotalCanonical
        }
        ElementClass::Float if comparison.total_order || left.form.in_total_order => Order::Total,
        ElementClass::Float => Order::Less,
        _ if left.form != ComparedForm::default() => return None,
        ElementClass::Predicate | ElementClass::Signed | ElementClass::Unsigned => Order::Total,
        ElementClass::Complex => return None,
    };
    Some(ComparedOperand { direction: comparison.direction, order, operand: left_number / 2, swapped })
}

/// What is compared of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ComparedForm {
    /// Its zeros and NaNs are replaced first.
    canonical: bool,
    /// The integer whose order is the total order of floats.
    in_total_order: bool,
}

/// An element as a comparator compares it.
struct ComparedElement {
    parameter: usize,
    form: ComparedForm,
}

/// The parameter that is compared, and as what.
fn compared_element(comparator: &Computation, id: InstructionId) -> Option<ComparedElement> {
    if let Some(bits) = ordered_bits(comparator, id) {
        let element = canonical_element(comparator, bits)?;
        return Some(ComparedElement { form: ComparedForm { in_total_order: true, ..element.form }, ..element });
    }
    canonical_element(comparator, id)
}

/// The float whose bits `select(bits < 0, bits ^ MAX, bits)` puts in order, as XLA writes the total order of floats.
fn ordered_bits(comparator: &Computation, id: InstructionId) -> Option<InstructionId> {
    let [is_negative, flipped, bits] = select_operands(comparator, id)?;
    let (is_negative, flipped) = (comparator.get(is_negative), comparator.get(flipped));
    let element_type = comparator.get(bits).shape.as_array()?.element_type;
    let [compared, zero] = is_negative.operands[..] else { return None };
    let is_sign = is_negative.kind == OpKind::Compare
        && Comparison::from_attributes(&is_negative.attributes)?.direction == ComparisonDirection::Lt
        && compared == bits
        && is_zero_constant(comparator, zero);
    let greatest = (1u64 << (element_type.bit_width() - 1)) - 1;
    let is_greatest = |id: &InstructionId| constant_bits(comparator, *id).is_some_and(|(bits, _)| bits == greatest);
    let is_flip =
        flipped.kind == OpKind::Xor && flipped.operands.contains(&bits) && flipped.operands.iter().any(is_greatest);
    let cast = comparator.get(bits);
    let is_cast = matches!(cast.kind, OpKind::Bitcast | OpKind::BitcastConvert);
    (element_type.is_signed_integer() && is_sign && is_flip && is_cast).then(|| cast.operands.first().copied())?
}

/// A parameter, or one whose zeros and NaNs are replaced first, as JAX does: `select(x != x, nan, select(x == 0, 0, x))`.
fn canonical_element(comparator: &Computation, id: InstructionId) -> Option<ComparedElement> {
    if let Some(parameter) = comparator.get(id).parameter_number() {
        return Some(ComparedElement { parameter, form: ComparedForm::default() });
    }
    let [is_nan, nan, inner] = select_operands(comparator, id)?;
    let [is_zero, zero, element] = select_operands(comparator, inner)?;
    let parameter = comparator.get(element).parameter_number()?;
    let compares = |id: InstructionId, direction: ComparisonDirection, other: InstructionId| {
        let instruction = comparator.get(id);
        instruction.kind == OpKind::Compare
            && instruction.operands == [element, other]
            && Comparison::from_attributes(&instruction.attributes)
                == Some(Comparison { direction, total_order: false })
    };
    let zero_compared = *comparator.get(is_zero).operands.get(1)?;
    let is_canonical = compares(is_nan, ComparisonDirection::Ne, element)
        && compares(is_zero, ComparisonDirection::Eq, zero_compared)
        && is_zero_constant(comparator, zero_compared)
        && is_zero_constant(comparator, zero)
        && is_positive_nan(comparator, nan);
    let form = ComparedForm { canonical: true, in_total_order: false };
    is_canonical.then_some(ComparedElement { parameter, form })
}

fn select_operands(comparator: &Computation, id: InstructionId) -> Option<[InstructionId; 3]> {
    let instruction = comparator.get(id);
    if instruction.kind != OpKind::Select {
        return None;
    }
    instruction.operands[..].try_into().ok()
}

/// Bits of a scalar constant of at most 64 bits, and its type.
fn constant_bits(comparator: &Computation, id: InstructionId) -> Option<(u64, ElementType)> {
    let Some(Literal::Array(array)) = comparator.get(id).literal() else { return None };
    let bytes = array.bytes();
    let is_scalar = array.shape().rank() == 0 && bytes.len() <= 8;
    let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    is_scalar.then_some((bits, array.element_type()))
}

fn is_zero_constant(comparator: &Computation, id: InstructionId) -> bool {
    constant_bits(comparator, id).is_some_and(|(bits, _)| bits == 0)
}

fn is_positive_nan(comparator: &Computation, id: InstructionId) -> bool {
    let Some((bits, element_type)) = constant_bits(comparator, id) else { return false };
    let (infinity, sign) = match element_type {
        ElementType::F16 => (0x7c00, 1 << 15),
        ElementType::BF16 => (0x7f80, 1 << 15),
        ElementType::F32 => (0x7f80_0000, 1 << 31),
        ElementType::F64 => (0x7ff0_0000_0000_0000, 1 << 63),
        _ => return false,
    };
    bits > infinity && bits < sign
}

/// Whether a computation of scalars has code: everything in it is elementwise.
fn check_scalar_computation(computation: &Computation) -> Result<(), String> {
    for instruction in &computation.instructions {
        let is_known = scalar::is_elementwise(instruction.kind)
            || matches!(
                instruction.kind,
                OpKind::Parameter
                    | OpKind::Constant
                    | OpKind::Tuple
                    | OpKind::GetTupleElement
                    | OpKind::Broadcast
                    | OpKind::Reshape
                    | OpKind::Copy
                    | OpKind::Transpose
                    | OpKind::Map
                    | OpKind::Fusion
            );
        if !is_known {
            return Err(format!("`{}` in a computation of scalars", instruction.kind));
        }
        instruction.computations.iter().try_for_each(check_scalar_computation)?;
    }
    Ok(())
}

impl<'c> Program<'_, 'c> {
    /// The address of a function that computes a comparator: its argument is a table of the elements' addresses, its
    /// result a byte that is 1 if the first element comes before the second.
    pub(super) fn comparator(&self, comparator: &Computation) -> Result<Value<'c>, LoweringError> {
        let builder = self.builder;
        let (pointer, byte) = (pointer_type(builder), builder.integer_type(8));
        let name = self.named_once(&format!("comparator {}", comparator.structure()), "comparator", |name| {
            let shapes = comparator
                .parameters
                .iter()
                .map(|&parameter| comparator.get(parameter).shape.as_array())
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| LoweringError::bug("comparator of something but arrays"))?;
            // The runtime calls it: its argument is the table of the elements' addresses.
            builder.function(name, &[pointer], &[byte], &[builder.private()], |builder, function| {
                let table = function.parameters()[0];
                let elements: Vec<_> = shapes
                    .iter()
                    .enumerate()
                    .map(|(number, shape)| load_scalar_at(builder, table, number as i64, shape.element_type))
                    .collect();
                let mut emitter = Elemental::new(builder, comparator, Inputs::Made(&[]), 1);
                let values = emitter.scalar_computation(comparator, &elements)?;
                let holds = values.first().ok_or_else(|| LoweringError::bug("comparator without a result"))?;
                builder.effect("func.return", &[scalar::to_memory(builder, holds)], &[]);
                Ok(())
            })
        })?;
        Ok(builder.function_pointer(&name, &[pointer], &[byte], pointer))
    }
}
